package submit

import (
	"errors"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/lock"
)

// Outcome is the class of a submission's end. It is never a bool: what is unknown
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

// Result is what became of one raw transaction, and how certain that is.
type Result struct {
	Outcome Outcome
	// Hash is the transaction's hash, whatever the outcome; zero if the bytes are no transaction.
	Hash common.Hash
	// Status is the network's word: of a node's precheck if Outcome is Rejected and no node took
	// the transaction, else of the receipt. Zero means that the network said nothing.
	Status hedera.Status
	// TransactionID and Node are the id and the node of the transaction's last offer. They are zero if it was
	// offered to no node.
	TransactionID hedera.TransactionID
	Node          hedera.ID
	// Err is what a client is told instead of the hash. It is nil for Executed, for Reverted, and
	// for Unknown where the settings promise the hash before the verdict.
	Err error

	atConsensus bool   // the transaction reached consensus, so it costs the payer
	ran         bool   // … and was run there, so that the sender's next nonce is past it
	back        string // it may go back to its line, for this reason: it was certainly not executed; of backVanished one node says so
	passing     bool   // no node has it, for a reason that passes
	tooHigh     bool   // consensus refused its nonce, which was too high
	nonceSpent  bool   // the transaction was not sent because its nonce is spent, perhaps by itself
}

// status names the network's word, or returns none if there is none.
func (r Result) status(none string) string {
	if r.Status == 0 {
		return none
	}
	return r.Status.String()
}

// stamp names the transaction in a result.
func (e *Entry) stamp(r Result) Result {
	r.Hash = e.tx.Hash()
	return r
}

// notSent is the result of a transaction of which no byte left this process.
func notSent(err error) Result { return Result{Outcome: NotSent, Err: err} }

// failedCheck is the result of a transaction that a precheck refused; expected is the nonce that
// the check went by.
func (e *Entry) failedCheck(err error, expected uint64) Result {
	return Result{Outcome: NotSent, Err: factError(err), nonceSpent: e.tx.Nonce() < expected}
}

// lockError translates what package lock answers to Enter and Wait.
func lockError(err error) error {
	var full *lock.QueueFullError
	switch {
	case errors.As(err, &full):
		return eth.ErrQueueFull(full.Length)
	case errors.Is(err, lock.ErrClosed):
		return eth.ErrShuttingDown()
	case errors.Is(err, lock.ErrLost):
		return eth.ErrTurnLost()
	default:
		return eth.ErrRequestTimeout() // the caller gave up waiting
	}
}

// predecessorOpen tells whether a transaction waited without success for the verdict on the one before it, whose node is
// out. Those queued behind it would wait without success, too.
func predecessorOpen(err error) bool {
	var unavailable *consensus.NodeUnavailableError
	return errors.As(err, &unavailable)
}

// submissionError translates what package consensus answers to Submit when nothing was accepted anywhere. The
// type of the error says what is certain, and the result keeps that.
func (s *Submitter) submissionError(err error) Result {
	var refused *consensus.StatusError
	var client *eth.Error
	switch {
	case errors.As(err, &client): // the budget's
		return notSent(client)
	case errors.Is(err, lock.ErrLost): // whatever a node had said before
		return notSent(eth.ErrTurnLost())
	case errors.As(err, &refused):
		return Result{
			Outcome: Rejected, Status: refused.Status, TransactionID: refused.TransactionID, Node: refused.Node,
			Err: s.refusal(refused.Status), passing: consensus.NotNow(refused.Status),
		}
	case errors.Is(err, consensus.ErrNoOperator):
		return notSent(eth.ErrReadOnly())
	case errors.Is(err, consensus.ErrClosed):
		return notSent(eth.ErrShuttingDown())
	default:
		return Result{Outcome: NotSent, Err: eth.ErrNoNode(), passing: true}
	}
}

// refusal is the client's error for a node's precheck answer.
func (s *Submitter) refusal(status hedera.Status) error {
	const busy = "the consensus nodes take no transactions at the moment; nothing was submitted, send it again"
	switch notNow := consensus.NotNow(status); {
	case notNow && s.rejects[status]:
		return eth.ErrRejected(status.String(), busy)
	case notNow:
		return eth.ErrConsensusNode(status.String(), int(status), busy)
	case s.rejects[status]:
		return eth.ErrRejected(status.String(), "")
	default:
		return eth.ErrConsensusNode(status.String(), int(status), "the consensus node did not accept the transaction")
	}
}

// statusSet reads the names of HEDERA_SPECIFIC_REVERT_STATUSES; none means the
// built-in list.
func statusSet(names []string) (map[hedera.Status]bool, error) {
	if len(names) == 0 {
		names = hedera.NeverExecuted()
	}
	set := make(map[hedera.Status]bool, len(names))
	var errs []error
	for _, name := range names {
		status, ok := hedera.ParseStatus(name)
		if !ok {
			errs = append(errs, errors.New("HEDERA_SPECIFIC_REVERT_STATUSES: no such status: "+name))
		}
		set[status] = true
	}
	return set, errors.Join(errs...)
}
