package submit

import (
	"context"
	"errors"
	"math/big"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/lifecycle"
	"lockstep/lock"
)

// handOver hands the transaction to the sender's node, and tells the lane what came of it.
func (s *Submitter) handOver(ctx context.Context, lease *lock.Lease, e *Entry, next lock.Next, known known) turn {
	submission := s.submission(lease, e, next, known)
	var err error
	if submission.Ethereum, submission.CallData, err = e.body(ctx); err != nil {
		return unlessLost(lease, e, turn{end: failed, result: notSent(factError(err))})
	}
	if wait, err := s.takeRisk(ctx, e, next.Nonce); err != nil {
		if wait && s.putBack(lease, e, lock.Next{Step: lock.PutBack}) {
			return turn{end: again}
		}
		t := unlessLost(lease, e, turn{result: e.failedCheck(err, next.Nonce)})
		if t.end != again {
			s.nonces.Refused()
		}
		return t
	}
	e.standing = next.Standing
	if err = s.reserve(ctx, e, known, submission); err != nil {
		return s.notTaken(lease, e, err)
	}
	s.metrics.executions.Inc()
	e.submission, e.ahead = submission, nil
	pending, err := s.nodes.Submit(ctx, submission)
	if err == nil {
		s.spendings.add(e.tx, s.costOf(e.tx, known))
		sent := lease.Report(lock.Report{Outcome: lock.Accepted, Submission: handedOver(pending)})
		s.acceptedBy(e, pending)
		return turn{end: accepted, pending: pending, sent: sent, result: e.stamp(offered(pending))}
	}
	if perhaps := sentAnyway(pending, err); perhaps != nil {
		s.spendings.add(e.tx, s.costOf(e.tx, known))
		sent := lease.Report(lock.Report{Outcome: lock.Unclear, Submission: handedOver(perhaps)})
		s.unclear(e, perhaps)
		r := e.stamp(offered(perhaps))
		r.Err = eth.ErrUnknownOutcome(r.Hash, perhaps.ID().String())
		return turn{end: unclear, pending: perhaps, sent: sent, result: r}
	}
	return s.notTaken(lease, e, err)
}

// submission is what the consensus client is to do, without the transaction's bytes. While the verdict on the
// lane's previous transaction is open, only the node that has it is allowed: two nodes do not keep the order
// between them. If that node is out, the previous verdict is awaited first, still in the turn, and then any node
// is allowed.
func (s *Submitter) submission(lease *lock.Lease, e *Entry, next lock.Next, known known) consensus.Submission {
	submission := consensus.Submission{
		Sender:     e.tx.From(),
		MaxFee:     s.maxFee(known.GasPrice),
		BeforeSend: lease.Check,
		Offered:    s.noteAttempts(e),
	}
	if subsidy, ok := s.subsidy(e.tx.To()); ok {
		submission.Payer, submission.MaxGasAllowance = subsidy.Payer, subsidy.Allowance
	}
	if id, node, open := predecessor(next); open {
		submission.Node, submission.SameNodeOnly, submission.After = node, true, id
		submission.Free = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, s.awaitLimit())
			defer cancel()
			return s.nodes.Await(ctx, id, node)
		}
	}
	return submission
}

// predecessor returns the transaction that the lane handed over last, and its node, if
// its verdict is still open. An id that cannot be read is ignored: other programs may write to
// the store that it comes from.
func predecessor(next lock.Next) (id hedera.TransactionID, node hedera.ID, open bool) {
	if !next.Predecessor.Open {
		return id, node, false
	}
	id, badID := hedera.ParseTransactionID(next.Predecessor.TxID)
	node, badNode := hedera.ParseID(next.Predecessor.Node)
	return id, node, badID == nil && badNode == nil
}

// maxFee is the maximum that the operator pays for one transaction: the network's price
// for the largest gas limit. A price below a tinybar counts as one.
func (s *Submitter) maxFee(gasPrice *big.Int) hedera.Tinybar {
	price, ok := hedera.TinybarOf(gasPrice)
	if !ok {
		price = hedera.Hbar // far above any network's price
	}
	return max(price, 1) * hedera.Tinybar(s.rules.MaxGasLimit)
}

// noteAttempts notes every attempt, for the trace.
func (s *Submitter) noteAttempts(e *Entry) func(hedera.ID, hedera.TransactionID) {
	attempt := 0
	return func(node hedera.ID, id hedera.TransactionID) {
		attempt++
		s.trace.Record(e.tx.Hash(), lifecycle.Step{Name: lifecycle.Submitted, Node: node, Attempt: attempt, Transaction: id})
	}
}

func handedOver(p Pending) lock.Submission {
	return lock.Submission{Node: p.Node().String(), TxID: p.ID().String(), Open: true}
}

func (s *Submitter) acceptedBy(e *Entry, p Pending) {
	s.trace.Record(e.tx.Hash(), lifecycle.Step{Name: lifecycle.Accepted, Node: p.Node(), Transaction: p.ID()})
	s.pool.Accepted(e.tx)
}

// unclear notes that a client is told that the outcome is not known.
func (s *Submitter) unclear(e *Entry, p Pending) {
	s.trace.Record(e.tx.Hash(), lifecycle.Step{Name: lifecycle.Unknown, Node: p.Node(), Transaction: p.ID()})
}

// notTaken is the turn of a transaction that no node has.
func (s *Submitter) notTaken(lease *lock.Lease, e *Entry, err error) turn {
	r := s.submissionError(err)
	t := turn{end: failed, cause: r.Err, result: r}
	if predecessorOpen(err) {
		t.end = hopeless
	}
	if r.Outcome == NotSent && (r.passing || errors.Is(err, lock.ErrLost)) {
		return unlessLost(lease, e, t)
	}
	return t
}

// unlessLost returns the end of a turn in which nothing was sent. If the turn was lost, the transaction takes a
// new place: this process may have stood still, so the failure says nothing of nodes or of the transaction.
func unlessLost(lease *lock.Lease, e *Entry, t turn) turn {
	if !errors.Is(lease.Check(), lock.ErrLost) {
		return t
	}
	lease.Release() // first, so that the new place does not count as a second one
	if e.goBack(backTurnLost) {
		e.giveBack()
		return turn{end: again}
	}
	return turn{result: t.result}
}

// sentAnyway returns the transaction that a failed submission may have left at a
// node, or nil when it certainly left none.
func sentAnyway(pending Pending, err error) Pending {
	var sent *consensus.SentError
	if pending == nil && errors.As(err, &sent) {
		return sent.Pending
	}
	return pending
}

// offered is the result so far of a transaction that a node has, or may have.
func offered(p Pending) Result {
	return Result{Outcome: Unknown, TransactionID: p.ID(), Node: p.Node()}
}
