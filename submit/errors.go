package submit

import (
	"errors"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/lock"
)

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
