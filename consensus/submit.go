package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/telemetry"
	"lockstep/internal/sleep"
)

// Submission is an Ethereum transaction to hand to the network.
type Submission struct {
	// Ethereum is the signed transaction as it was received. Nodes take up to 133,120 bytes with all that wraps it, or,
	// where the network has no jumbo transactions, 6,144; a larger one is a *StatusError with
	// TRANSACTION_OVERSIZE. Larger call data goes into a file first: CallData names it, and the data field is empty.
	Ethereum []byte
	// CallData is the file that holds the call data as hexadecimal text, or nil. Client.StoreFile makes one, under ids of
	// its own; whoever offers the transaction again names the same file again.
	CallData *hedera.ID
	// ID is for Offer: the transaction id that the caller drew (NewID) and keeps. Submit draws one.
	ID hedera.TransactionID
	// MaxGasAllowance is how much of the gas the payer is willing to pay.
	MaxGasAllowance hedera.Tinybar
	// MaxFee is the most that the HAPI transaction may cost the payer.
	MaxFee hedera.Tinybar
	// Payer pays and signs instead of an operator, if not nil. With an ID it has the account ID.Payer.
	Payer *Operator
	// Sender is who signed the Ethereum transaction. It decides the node.
	Sender common.Address
	// Node is the node to try first, and for Offer the only one; the zero value means that of Sender.
	Node hedera.ID
	// After is the sender's transaction before this one, which Node accepted and whose verdict is open; zero: none. A node
	// that was killed may have lost it. Then this one waits, for a maximum of five seconds, until it has been offered there
	// again: without it the network would refuse this one, and the operator would pay.
	After hedera.TransactionID
	// SameNodeOnly forbids any other node than the first, until Free allows it. While that node
	// says "not now" it is asked again; when it cannot be reached, *NodeUnavailableError says so.
	SameNodeOnly bool
	// Free is asked, once, when the only node cannot take the transaction. It may wait until its
	// context ends; nil means that from now on any node will do. Without Free the first node stays the only one.
	Free func(context.Context) error
	// BeforeSend is called right before the bytes leave, in each attempt. An error keeps
	// them here. It must be quick.
	BeforeSend func() error
	// Offered, if there is one, is told of each attempt right before its bytes leave. It
	// must be quick.
	Offered func(node hedera.ID, id hedera.TransactionID)
}

// sameNodeTries is how often SameNodeOnly offers a transaction to a node that
// keeps answering "not now", before Free is asked.
const sameNodeTries = 3

// Submit hands a transaction to a node and returns as soon as the node has
// accepted it. The package comment says which error means what.
func (c *Client) Submit(ctx context.Context, s Submission) (*Pending, error) {
	if len(s.Ethereum) == 0 {
		return nil, &NotSentError{errors.New("empty transaction")}
	}
	return c.transact(ctx, &delivery{Submission: s, op: s.operation()})
}

func (s *Submission) operation() operation {
	return ethereumOperation(s.Ethereum, s.CallData, s.MaxGasAllowance)
}

// transact takes a transaction of any kind through its attempts.
func (c *Client) transact(ctx context.Context, d *delivery) (*Pending, error) {
	start := time.Now()
	if d.Payer == nil {
		d.Payer = c.operators.pick(d.Sender)
	}
	if d.Payer == nil {
		return nil, &NotSentError{ErrNoOperator}
	}
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	defer cancel()
	ctx, span := telemetry.StartCall(ctx, "consensus submit")
	d.client = c
	d.renew()
	pending, err := d.run(ctx)
	result, status := classify(err)
	c.metrics.submitted(ctx, result, status, start)
	if span.Recorded() {
		span.Text("lockstep.transaction_id", d.ID.String())
		span.Text("lockstep.result", result)
	}
	span.End(err)
	return pending, err
}

// classify gives the labels of a submission's end.
func classify(err error) (result string, status hedera.Status) {
	if err == nil {
		return resultAccepted, hapi.ResponseCodeEnum_OK
	}
	var sent *SentError
	if errors.As(err, &sent) {
		return resultUnclear, hapi.ResponseCodeEnum_UNKNOWN
	}
	var unavailable *NodeUnavailableError
	if errors.As(err, &unavailable) {
		err = unavailable.Err
	}
	var refused *StatusError
	if errors.As(err, &refused) {
		return resultRefused, refused.Status
	}
	var duplicate *DuplicateError
	if errors.As(err, &duplicate) {
		return resultRefused, hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION
	}
	return resultUnsent, hapi.ResponseCodeEnum_UNKNOWN
}

// delivery is one transaction on its way to a node. One goroutine owns it.
type delivery struct {
	Submission // its ID is the one under way; SameNodeOnly and Free end when any node will do

	client *Client
	op     operation

	fixed bool      // the caller chose the id: an earlier offer may have used it
	drawn time.Time // when id was
	skew  int64     // of the clock then
	tried []*node   // in this round
	round int       // rounds that are over
	busy  int       // answers "not now", of the only node

	// notNow is the latest refusal that was about the node and not about the transaction. While
	// nothing else has gone wrong, it is why the submission fails: nodes are there, and busy.
	notNow *StatusError
	next   *node // whom to offer it to next, whatever the others are like

	// unclear are the nodes where an attempt was unclear, in that order. While it is empty,
	// no node can have the transaction.
	unclear []*node
	left    time.Time // when the bytes last did
	retried bool      // to a node in unclear, directly
}

// renew draws a transaction id. It must not be called while a node may have the
// transaction under the old one.
func (d *delivery) renew() {
	d.drawn = time.Now()
	d.ID, d.skew = d.client.ids.next(d.Payer.ID, d.drawn)
}

// run makes the attempts. Every way out goes through accept or fail, so that the
// certainty of the result follows from unclear and from nothing else.
//
// Attempts after which the transaction is certainly nowhere, and may go to the next node as it is,
// are bounded by ctx and the pauses between rounds; all others by maxAttempts.
func (d *delivery) run(ctx context.Context) (*Pending, error) {
	var last error
	for attempts := 0; attempts < d.client.maxAttempts; {
		n, err := d.route(ctx)
		if err != nil {
			return nil, d.fail(join(err, last))
		}
		status, cost, err := d.offer(ctx, n)
		next := d.judge(n, status, err)
		if err == nil && next != accept {
			err = &StatusError{Status: status, Node: n.id, TransactionID: d.ID, Cost: cost}
		}
		d.trace(ctx, n, status, err)
		switch next {
		case accept:
			return d.accept(n), nil
		case giveUp:
			return nil, d.fail(err)
		case newID:
			attempts++
			d.renew()
			d.tried = d.tried[:0]
		case askNode:
			attempts++
			taken, absent := d.resolve(ctx, n, err)
			if taken != nil {
				return d.accept(taken), nil
			}
			if !absent { // no other node gets what this one may have
				return nil, d.fail(joinEnd(ctx, err))
			}
		case nextNode:
			busy := d.noteBusy(err)
			if d.SameNodeOnly && d.shouldUnbind(err) && !d.unbind(ctx) && !busy {
				return nil, d.fail(&NodeUnavailableError{Node: n.id, Err: err})
			}
		}
		if ctx.Err() != nil {
			return nil, d.fail(joinEnd(ctx, err))
		}
		last = err
	}
	return nil, d.fail(last)
}

// unbind ends the binding to one node if the caller allows it, and tells whether there is
// none any more. The caller is asked once, and may wait for half of the time that is left.
func (d *delivery) unbind(ctx context.Context) bool {
	if free := d.Free; d.SameNodeOnly && free != nil {
		d.Free = nil
		if deadline, limited := ctx.Deadline(); limited {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
			defer cancel()
		}
		d.SameNodeOnly = free(ctx) != nil
	}
	return !d.SameNodeOnly
}

// noteBusy remembers a refusal that is about the state of the node, and tells whether err is one.
func (d *delivery) noteBusy(err error) bool {
	var refused *StatusError
	if !errors.As(err, &refused) || !NotNow(refused.Status) {
		return false
	}
	d.notNow = refused
	return true
}

// join puts what stopped the delivery before what happened last on it.
func join(err, last error) error {
	if last == nil {
		return err
	}
	return fmt.Errorf("%w; before that: %w", err, last)
}

// joinEnd puts the reason why ctx is done, if it is, before what happened last.
func joinEnd(ctx context.Context, last error) error {
	if ctx.Err() == nil {
		return last
	}
	return join(ended(ctx), last)
}

// accept ends the delivery at a node that has the transaction.
func (d *delivery) accept(n *node) *Pending {
	return newPending(d.client, d.ID, n)
}

// fail ends the delivery without an acceptance. What it may claim depends on
// whether a node may have the transaction.
func (d *delivery) fail(err error) error {
	if len(d.unclear) > 0 {
		return &SentError{Pending: d.accept(d.unclear[len(d.unclear)-1]), Err: err}
	}
	var refused *StatusError
	var unavailable *NodeUnavailableError
	var local *localError
	switch {
	case errors.As(err, &local):
		return &NotSentError{err}
	case errors.As(err, &refused), errors.As(err, &unavailable):
		return err
	case d.notNow != nil:
		return join(err, d.notNow)
	default:
		return &NotSentError{err}
	}
}

// route chooses the next node. It pauses when every node there is has been asked.
func (d *delivery) route(ctx context.Context) (*node, error) {
	if n := d.next; n != nil {
		d.next = nil
		return n, nil
	}
	if d.SameNodeOnly {
		return d.routeSame(ctx)
	}
	if len(d.tried) == 0 && d.round == 0 && !d.Node.IsZero() {
		if n := d.client.nodes.find(d.Node); n != nil && n.healthy(time.Now()) {
			d.tried = append(d.tried, n)
			return n, nil
		}
	}
	n := d.client.nodes.best(d.Sender, d.tried)
	if n == nil {
		d.tried = d.tried[:0]
		if err := d.pause(ctx); err != nil {
			return nil, err
		}
		n = d.client.nodes.best(d.Sender, nil)
	}
	d.tried = append(d.tried, n)
	return n, nil
}

func (d *delivery) routeSame(ctx context.Context) (*node, error) {
	if len(d.tried) > 0 {
		n := d.tried[0]
		return n, d.pause(ctx)
	}
	n := d.client.nodes.best(d.Sender, nil)
	if !d.Node.IsZero() {
		if n = d.client.nodes.find(d.Node); n == nil {
			return nil, &NodeUnavailableError{Node: d.Node, Err: errNotListed}
		}
	}
	// A node that is known to be out is not given a transaction that it might swallow: a
	// query shows first whether it answers again.
	if !n.healthy(time.Now()) && d.client.stateAt(ctx, n, d.ID) == idUnclear {
		if d.unbind(ctx) {
			return d.route(ctx)
		}
		return nil, &NodeUnavailableError{Node: n.id, Err: errNoAnswer}
	}
	d.tried = append(d.tried, n)
	return n, nil
}

// pause waits between rounds: exponentially longer, and never in step with others.
func (d *delivery) pause(ctx context.Context) error {
	wait := min(d.client.pace.retryMax, d.client.pace.retryMin<<min(d.round, 16))
	d.round++
	if !sleep.For(ctx, wait-rand.N(wait/4+1)) {
		return ended(ctx)
	}
	return nil
}

// ended says why a context is done, with its cause if it was given one: a lease
// that was lost, for example.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
