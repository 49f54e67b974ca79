package precheck

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
)

// deterministicDeployer is the hash of the one keyless deployment transaction
// that the network runs below its gas price (it recognises the exact bytes).
var deterministicDeployer = common.HexToHash("0xeddf9e61fb9d8f5111840daef55e5fde0041f5702856532cdbb5a02998033d26")

// Facts are the look-ups that Stateful judges by.
type Facts struct {
	Balance            hedera.Tinybar // the sender's
	GasPrice           *big.Int       // the network's, in weibar, buffer included
	ReceiverMustSign   bool           // the receiver exists and requires its signature
	GasPriceSubsidised bool           // somebody else pays for gas, whatever the sender offers
}

// Nonce checks the nonce against the next one the network expects. sure says that
// expected is known and not merely the last thing seen: only then is a nonce above
// it refused, because what is missing in between cannot arrive any more.
func Nonce(tx *eth.Tx, expected uint64, sure bool) error {
	switch {
	case tx.Nonce() < expected:
		return eth.ErrNonceTooLow(tx.Nonce(), expected)
	case sure && tx.Nonce() > expected:
		return eth.ErrNonceTooHigh(tx.Nonce(), expected)
	default:
		return nil
	}
}

// Stateful checks balance, gas price and receiver, in this order.
func Stateful(tx *eth.Tx, rules Rules, facts Facts) error {
	if facts.Balance.Weibar().Cmp(tx.Cost()) < 0 {
		return eth.ErrInsufficientFunds
	}
	if !pricePasses(tx, rules, facts) {
		return eth.ErrGasPriceTooLow(tx.GasPrice(), facts.GasPrice)
	}
	if facts.ReceiverMustSign {
		return eth.ErrReceiverSignature
	}
	return nil
}

func pricePasses(tx *eth.Tx, rules Rules, facts Facts) bool {
	if facts.GasPriceSubsidised || tx.Hash() == deterministicDeployer {
		return true
	}
	offer := tx.GasPrice()
	return offer.Add(offer, big.NewInt(rules.GasPriceTolerance)).Cmp(facts.GasPrice) >= 0
}
