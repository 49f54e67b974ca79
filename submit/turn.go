package submit

import (
	"context"

	"lockstep/consensus"
	"lockstep/eth"
	"lockstep/hedera"
	"lockstep/lock"
)

// turn is the exclusive right to submit for a sender, or, when the sender's
// transactions are not ordered, the same questions with answers that restrict
// nothing.
type turn struct {
	ctx   context.Context // ends when the turn is lost
	lease *lock.Lease     // nil: not ordered
	locks *lock.Service
}

// wait waits for the sender's turn. Only a queued transaction of an operator who
// wants that is given up when its client goes away.
func (e *Entry) wait(ctx context.Context) (*turn, error) {
	if e.door == nil && e.ticket == nil {
		return &turn{ctx: context.WithoutCancel(ctx), locks: e.s.locks}, nil
	}
	if !e.s.ordering.CancelOnDisconnect {
		ctx = context.WithoutCancel(ctx)
	}
	if err := e.waitAtDoor(ctx); err != nil {
		return nil, err
	}
	if e.ticket == nil {
		return nil, lock.ErrLeft
	}
	if e.s.learns() {
		e.s.learner.add(context.WithoutCancel(ctx), e)
		defer e.s.learner.remove(e)
	}
	lease, err := e.ticket.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return &turn{ctx: lease.Context(), lease: lease, locks: e.s.locks}, nil
}

// comeForward returns the turn to use. A transaction whose look-ups show that it is ahead gives
// its turn to the one that carries the next nonce, if that waits here, and waits again.
func (e *Entry) comeForward(ctx context.Context, t *turn, err error) (*turn, error) {
	for err == nil && t.lease != nil && e.stepBack(t) {
		t, err = e.wait(ctx)
	}
	return t, err
}

func (e *Entry) stepBack(turn *turn) bool {
	known, err := e.facts.get(turn.ctx)
	if err != nil {
		return false // which ends it
	}
	e.facts.value = e.s.renew(turn, e, known)
	expected, sure := turn.expected(e.facts.value.nonce)
	return (sure || !e.s.cfg.SkipLookUps) && turn.lease.StepBack(turn.likely(expected, sure))
}

// expected returns the nonce to go by, and whether it is certain. The lane knows
// what it let through; the mirror node knows what others did, late. The larger of
// the two is right. It is certain if the lane's chain of accepted transactions leads
// to it, or if what this transaction follows is known to have failed.
func (t *turn) expected(mirror uint64) (nonce uint64, sure bool) {
	if t.lease == nil {
		return mirror, false
	}
	lane, known := t.lease.Expected()
	if known && lane >= mirror && t.lease.Certain() {
		return lane, true
	}
	if failed, blocked := t.lease.Blocked(); blocked && failed >= mirror {
		return failed, true
	}
	return max(lane, mirror), false
}

// likely returns the nonce to put in order by: the one that is expected or, while Redis is away, what
// this process has let through since, though another may have gone on. Nothing is refused by it.
func (t *turn) likely(expected uint64, sure bool) uint64 {
	if sure || t.lease == nil {
		return expected
	}
	lane, _ := t.lease.Likely()
	return max(lane, expected)
}

// gapIsWrong tells whether a nonce above the expected one cannot become right any more.
// That takes certainty about the lane, and a transaction that came while the lane was
// busy: after a pause the sender may have sent what is missing some other way.
func (t *turn) gapIsWrong(sure bool) bool { return sure && t.lease != nil && t.lease.Follows() }

// check is the last look before the bytes leave.
func (t *turn) check() error {
	if t.lease == nil {
		return nil
	}
	return t.lease.Check()
}

// predecessor returns the transaction that this lane handed over last, and its node, if
// its verdict is still open. What cannot be read, from a store that others write to,
// binds nobody.
func (t *turn) predecessor() (id hedera.TransactionID, node hedera.ID, open bool) {
	if t.lease == nil {
		return id, node, false
	}
	last, ok := t.lease.Last()
	if !ok || !last.Open {
		return id, node, false
	}
	id, badID := hedera.ParseTransactionID(last.TxID)
	node, badNode := hedera.ParseID(last.Node)
	return id, node, badID == nil && badNode == nil
}

// accepted moves the lane on: a node has the transaction. A node does not look at the
// nonce, so its acceptance proves nothing about the next one unless this one was known
// to be next: a gap, or somebody's replay of an old transaction, must not shut the
// sender's right transaction out.
func (t *turn) accepted(tx *eth.Tx, p Pending, wasNext bool) {
	if t.lease == nil {
		return
	}
	if wasNext {
		t.lease.Advance(tx.Nonce()+1, handedOver(p))
	} else {
		t.lease.Sent(handedOver(p))
	}
}

// unclear tells the lane that a node may have the transaction or not. Nobody knows
// what is next, but the next one still has to go to the same node.
func (t *turn) unclear(p Pending) {
	if t.lease != nil {
		t.lease.Unclear(handedOver(p))
	}
}

func handedOver(p Pending) lock.Submission {
	return lock.Submission{Node: p.Node().String(), TxID: p.ID().String(), Open: true}
}

// afterPanic is for a defer: after a panic nobody knows whether bytes left.
func (t *turn) afterPanic() {
	if r := recover(); r != nil {
		if t.lease != nil {
			t.lease.Forget()
		}
		panic(r)
	}
}

// fence is the number of the turn, for the log; 0 when not ordered.
func (t *turn) fence() uint64 {
	if t.lease == nil {
		return 0
	}
	return t.lease.Fence()
}

// decided tells the lane what became of a transaction that a node had accepted. Of a bad
// verdict all relays know when it returns: the client may send the nonce again at once.
func (t *turn) decided(ctx context.Context, tx *eth.Tx, v verdict) {
	if t.lease == nil {
		return
	}
	t.locks.Settle(tx.From(), t.lease.Fence())
	if v.nonceSpent() {
		t.locks.Observe(tx.From(), tx.Nonce()+1) // the network proved it, ahead of the mirror node
	} else {
		t.locks.Invalidate(ctx, tx.From(), t.lease.Fence())
	}
}

// strategy says what ordered the turn, for metrics.
func (t *turn) strategy() string {
	if t.lease == nil {
		return "none"
	}
	return t.lease.Strategy()
}

// release lets the next in line go. It may be called more than once, and without a
// turn.
func (t *turn) release() {
	if t != nil && t.lease != nil {
		t.lease.Release()
	}
}

// Nodes is the consensus side: *consensus.Client through a thin coat.
type Nodes interface {
	// Submit hands a transaction to a node and returns at that node's acceptance. Its
	// errors are those of package consensus.
	Submit(ctx context.Context, s consensus.Submission) (Pending, error)
	// Await waits until the network has a verdict on a transaction, whatever it is.
	Await(ctx context.Context, id hedera.TransactionID, node hedera.ID) error
}

// Pending is a transaction that a node accepted.
type Pending interface {
	ID() hedera.TransactionID
	Node() hedera.ID
	Receipt(ctx context.Context) (consensus.Receipt, error)
}
