package submit

import (
	"github.com/ethereum/go-ethereum/common"

	"lockstep/hedera"
)

// Outcome is the final class of a submission. It is never a bool: what is unknown
// must not pass for a rejection.
type Outcome uint8

// The outcomes; the package comment says what each means.
const (
	NotSent Outcome = iota + 1
	Rejected
	Unknown
	Reverted
	Executed
)

// String returns the outcome's name as it appears in logs and metrics.
func (o Outcome) String() string {
	switch o {
	case NotSent:
		return "not_sent"
	case Rejected:
		return "rejected"
	case Unknown:
		return "unknown"
	case Reverted:
		return "reverted"
	case Executed:
		return "executed"
	default:
		return "none"
	}
}

// verdict is an outcome with what is known about it. err is what the client is
// told, nil when it gets the hash.
type verdict struct {
	outcome     Outcome
	status      hedera.Status // of the node's precheck or of the receipt, when there is one
	hasStatus   bool
	reached     bool // consensus, which is what costs the payer, whatever the status
	transaction hedera.TransactionID
	node        hedera.ID
	spent       bool // not sent because the nonce is spent, perhaps by this very transaction
	err         error
}

// nonceSpent tells whether the network proved that the sender's next nonce is past the
// transaction.
func (v verdict) nonceSpent() bool { return v.reached && hedera.NonceSpent(v.status) }

// failed is the verdict after a precheck, with the nonce that it went by.
func (e *Entry) failed(err error, expected uint64) verdict {
	return verdict{outcome: NotSent, err: factError(err), spent: e.tx.Nonce() < expected}
}

// result is what the client gets.
func (v verdict) result(hash common.Hash) (common.Hash, error) {
	if v.err != nil {
		return common.Hash{}, v.err
	}
	return hash, nil
}
