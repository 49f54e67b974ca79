package submit

import (
	"context"
	"time"

	"lockstep/consensus"
	"lockstep/internal/hedera"
	"lockstep/internal/telemetry"
	"lockstep/lock"
)

// Nodes is the consensus side: a thin wrapper of *consensus.Client.
type Nodes interface {
	// Submit hands a transaction to a node and returns at that node's acceptance. Its
	// errors are those of package consensus. A Pending that comes with one may be at its node.
	Submit(ctx context.Context, s consensus.Submission) (Pending, error)
	// Await waits until the network has a verdict on a transaction, good or bad.
	Await(ctx context.Context, id hedera.TransactionID, node hedera.ID) error
	// Knows asks a node once whether it has heard of a transaction. An error says nothing about it.
	Knows(ctx context.Context, id hedera.TransactionID, node hedera.ID) (known bool, err error)
	// OfferAgain offers a transaction that its node may have to that node under the same id, if the node says
	// that it does not know it. It tells whether the node has it now.
	OfferAgain(ctx context.Context, s consensus.Submission, p Pending) (taken bool)
}

// Pending is a transaction that a node has, or may have, and whose verdict is awaited.
type Pending interface {
	ID() hedera.TransactionID
	Node() hedera.ID
	Receipt(ctx context.Context) (consensus.Receipt, error)
	// Ask asks its node once for the receipt. An error says nothing about the transaction.
	Ask(ctx context.Context) (found bool, err error)
}

// wait waits for the sender's turn.
func (e *Entry) wait(ctx context.Context) (*lock.Lease, error) {
	e.become(waiting)
	if e.way == unordered {
		return lock.Unordered(ctx), nil
	}
	if e.learns() {
		e.s.learner.add(context.WithoutCancel(ctx), e)
		defer e.s.learner.remove(e)
	}
	if e.returned || !e.promised() {
		return e.ticket.WaitWithin(ctx, e.mayWait())
	}
	return e.ticket.Wait(ctx) // its client has the hash, and waits for nothing
}

// waitTraced is wait with a span, which begins when the transaction took its place.
func (e *Entry) waitTraced(ctx context.Context) (*lock.Lease, error) {
	began := e.inLineSince
	if e.fence != 0 { // it had a turn before
		began = time.Now()
	}
	_, span := telemetry.StartAt(ctx, "lock wait", began)
	lease, err := e.wait(ctx)
	if err == nil {
		turn := lease.Turn()
		span.Text("lockstep.strategy", turn.Strategy)
		span.Number("lockstep.fence", int64(turn.Fence))
	}
	span.End(err)
	return lease, err
}

// mayWait is how much longer the transaction may wait for its turn. Its client waits for an answer, and the turn
// may never come, or come after thousands of others.
func (e *Entry) mayWait() time.Duration {
	left := e.remaining()
	if !e.returned {
		left = time.Until(e.inLineSince.Add(e.s.longestWait()))
	}
	return max(left, 0) + time.Second
}

// longestWait is how long a client waits for its transaction's turn, without the second that mayWait adds.
func (s *Submitter) longestWait() time.Duration {
	const unless = 50 * time.Second // the settings say nothing of it
	longest := s.ordering.Recovery.Duration()
	if longest == 0 {
		longest = unless
	}
	return max(longest, s.ordering.Window.Duration())
}

// lastWord is how long after the longest wait a client is answered at the latest, whatever the turn does.
const lastWord = 9 * time.Second

// answerBy is when the client must have its answer, if it has got none yet. From then on the client waits for
// nothing of the turn, and what a node may have is followed without it.
func (e *Entry) answerBy() (at time.Time, ok bool) {
	if e.answer.Load() != answerNone {
		return time.Time{}, false
	}
	return e.inLineSince.Add(max(e.s.longestWait()+lastWord, e.s.waitTime)), true
}

// bounded is ctx for one turn and the wait for it. When its client goes away, a queued transaction is given up
// only if the operator wants that.
func (e *Entry) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if e.way == unordered || !e.s.ordering.CancelOnDisconnect || e.promised() {
		ctx = context.WithoutCancel(ctx)
	}
	at, ok := e.answerBy()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, at)
}

// turn is what came of one turn.
type turn struct {
	end     turnEnd
	pending Pending         // of accepted and unclear
	sent    *lock.Submitted // of accepted and unclear
	cause   error           // of failed and hopeless: what those behind it are told; nil: that their nonce is too high
	result  Result          // of all ends but goes and again
}

// turnEnd is how a turn ended.
type turnEnd uint8

const (
	unsent   turnEnd = iota // no node has the transaction, which says nothing of others
	failed                  // no node has it; if it was the next one, what waits behind it need not be tried
	hopeless                // no node has it, and what waits behind it need not be tried
	goes                    // it is to be sent now
	again                   // it waits for another turn
	accepted                // a node has it
	unclear                 // a node may have it
)

// atNode tells whether the transaction is to be followed.
func (t turn) atNode() bool { return t.end == accepted || t.end == unclear }

// inTurn does what only the holder of the sender's turn may do: decide on the nonce and the
// facts, hand the transaction to a node, and tell the lane what came of it.
//
// If it ends without a transaction at any node, those queued behind it may have no better chance, and need not be
// tried. A nonce that the fleet knows to be spent, though the mirror node may not show it yet, blocks nobody
// behind it.
func (s *Submitter) inTurn(lease *lock.Lease, e *Entry) turn {
	e.become(holding)
	ctx := lease.Context()
	_, span := telemetry.Start(ctx, "precheck")
	known, err := e.facts.get(ctx)
	if err != nil {
		span.End(err)
		return unlessLost(lease, e, turn{result: notSent(factError(err))})
	}
	next, t := s.decide(lease, e, &known)
	span.End(t.result.Err)
	if t.end == goes {
		t = s.handOver(lease, e, next, known)
	}
	// If no node takes anything, those behind it fail, too, even if it was not known to be next. They end now; each would
	// wait by itself otherwise.
	nobody := t.cause != nil && t.result.passing
	if t.end == failed && (e.tx.Nonce() == next.Nonce || nobody) {
		t.end = hopeless
	}
	if t.end == hopeless && e.way != unordered {
		lease.Report(lock.Report{Outcome: lock.Failed, Proven: s.pool.Latest(ctx, e.tx.From(), 0), Cause: t.cause})
	}
	return t
}

// afterPanic is for a defer: after a panic nobody knows whether bytes left.
func afterPanic(lease *lock.Lease) {
	if r := recover(); r != nil {
		lease.Report(lock.Report{Outcome: lock.Lost})
		panic(r)
	}
}
