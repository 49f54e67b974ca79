package precheck

import (
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/eth"
	"lockstep/hedera"
)

// Config holds the limits an operator may move.
type Config struct {
	CallDataSizeLimit    int    `env:"CALL_DATA_SIZE_LIMIT" envDefault:"131072"`            // Most call data a transaction may carry, in bytes.
	TransactionSizeLimit int    `env:"SEND_RAW_TRANSACTION_SIZE_LIMIT" envDefault:"133120"` // Longest raw transaction, in bytes.
	MaxGasLimit          uint64 `env:"MAX_TRANSACTION_GAS_LIMIT" envDefault:"15000000"`     // Most gas one transaction may ask for. Also the factor of the HAPI fee cap and the cap of eth_call.
	AllowSetCode         bool   `env:"TX_TYPE_4_ENABLED" envDefault:"false"`                // Accept EIP-7702 transactions (type 4).
	GasPriceTolerance    int64  `env:"GAS_PRICE_TINY_BAR_BUFFER" envDefault:"10000000000"`  // How far below the network's gas price an offer may be, in weibar (the name is historical).
}

// Rules are the limits plus the chain they are for.
type Rules struct {
	Config
	ChainID uint64
}

var oneTinybar = big.NewInt(hedera.WeibarPerTinybar)

// Stateless checks what needs no look-up: sizes, type, gas limit, chain id, value
// and authorization list, in this order.
func Stateless(tx *eth.Tx, rules Rules) error {
	for _, check := range []func(*eth.Tx, Rules) *eth.Error{sizes, txType, gasLimit, chainID, value, authorizations} {
		if err := check(tx, rules); err != nil {
			return err
		}
	}
	return nil
}

func sizes(tx *eth.Tx, rules Rules) *eth.Error {
	data := len(tx.Data())
	switch {
	case data > rules.CallDataSizeLimit:
		return eth.ErrCallDataSize(data, rules.CallDataSizeLimit)
	case tx.To() == nil && data > eth.MaxInitcodeSize:
		return eth.ErrInitcodeSize(data, eth.MaxInitcodeSize)
	case len(tx.Raw()) > rules.TransactionSizeLimit:
		return eth.ErrTransactionSize(len(tx.Raw()), rules.TransactionSizeLimit)
	default:
		return nil
	}
}

func txType(tx *eth.Tx, rules Rules) *eth.Error {
	switch tx.Type() {
	case types.LegacyTxType, types.AccessListTxType, types.DynamicFeeTxType:
		return nil
	case types.SetCodeTxType:
		if rules.AllowSetCode {
			return nil
		}
	}
	return eth.ErrTransactionType(tx.Type())
}

func gasLimit(tx *eth.Tx, rules Rules) *eth.Error {
	if tx.Gas() > rules.MaxGasLimit {
		return eth.ErrGasLimitTooHigh(tx.Gas(), rules.MaxGasLimit)
	}
	if intrinsic := eth.IntrinsicGas(tx); tx.Gas() < intrinsic {
		return eth.ErrGasLimitTooLow(tx.Gas(), intrinsic)
	}
	return nil
}

// chainID lets unprotected legacy transactions pass on any chain, as the network
// does: keyless deployments depend on it.
func chainID(tx *eth.Tx, rules Rules) *eth.Error {
	if !tx.Protected() {
		return nil
	}
	if id := tx.ChainID(); !id.IsUint64() || id.Uint64() != rules.ChainID {
		return eth.ErrChainID(id, rules.ChainID)
	}
	return nil
}

func value(tx *eth.Tx, _ Rules) *eth.Error {
	if v := tx.Value(); v.Sign() != 0 && v.Cmp(oneTinybar) < 0 {
		return eth.ErrValueTooLow()
	}
	return nil
}

// authorizations: the decoder already refuses a list outside type 4, numbers that
// do not fit and a type 4 creation; what is left is the empty list.
func authorizations(tx *eth.Tx, _ Rules) *eth.Error {
	if tx.Type() == types.SetCodeTxType && len(tx.Fields().SetCodeAuthorizations()) == 0 {
		return eth.ErrInvalidParam("authorizationList", "EIP-7702 transaction with empty auth list")
	}
	return nil
}

// Validate reports the first limit that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.CallDataSizeLimit < 0:
		return fmt.Errorf("CALL_DATA_SIZE_LIMIT %d: want 0 or more", c.CallDataSizeLimit)
	case c.TransactionSizeLimit < 1:
		return fmt.Errorf("SEND_RAW_TRANSACTION_SIZE_LIMIT %d: want at least 1", c.TransactionSizeLimit)
	case c.MaxGasLimit < eth.TxGas:
		return fmt.Errorf("MAX_TRANSACTION_GAS_LIMIT %d: want at least %d", c.MaxGasLimit, eth.TxGas)
	case c.GasPriceTolerance < 0:
		return fmt.Errorf("GAS_PRICE_TINY_BAR_BUFFER %d: want 0 or more", c.GasPriceTolerance)
	default:
		return nil
	}
}
