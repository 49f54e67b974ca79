package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/hedera"
	"lockstep/internal/hapi"
)

// Submission is an Ethereum transaction to hand to the network.
type Submission struct {
	// Ethereum is the signed transaction as it was received. When CallData is set its
	// data field is empty.
	Ethereum []byte
	// CallData is the file that holds the call data as hexadecimal text, or nil.
	CallData *hedera.ID
	// MaxGasAllowance is how much of the gas the payer is willing to pay.
	MaxGasAllowance hedera.Tinybar
	// MaxFee is the most that the HAPI transaction may cost the payer.
	MaxFee hedera.Tinybar
	// Payer pays and signs instead of an operator, if not nil.
	Payer *Operator
	// Sender is who signed the Ethereum transaction. It decides the node.
	Sender common.Address
	// Node is the node to try first; the zero value means NodeFor(Sender).
	Node hedera.ID
	// SameNodeOnly forbids any other node than the first, until Free allows it.
	SameNodeOnly bool
	// Free is asked, once, when the only node cannot take the transaction. It may wait; nil
	// means that from now on any node will do. Without Free the first node stays the only one.
	Free func(context.Context) error
	// BeforeSend is called right before the bytes leave, in each attempt. An error keeps
	// them here. It must be quick.
	BeforeSend func() error
	// Offered, if there is one, is told of each attempt right before its bytes leave. It
	// must be quick.
	Offered func(node hedera.ID, id hedera.TransactionID)
}

// sameNodeTries is how often SameNodeOnly offers a transaction to a node that
// keeps answering "not now", before it gives the choice back to the caller.
const sameNodeTries = 3

// Submit hands a transaction to a node and returns as soon as the node has
// accepted it. The package comment says which error means what.
func (c *Client) Submit(ctx context.Context, s Submission) (*Pending, error) {
	if len(s.Ethereum) == 0 {
		return nil, &NotSentError{errors.New("empty transaction")}
	}
	return c.transact(ctx, &journey{
		op:       ethereumOperation(s.Ethereum, s.CallData, s.MaxGasAllowance),
		maxFee:   s.MaxFee,
		payer:    s.Payer,
		sender:   s.Sender,
		first:    s.Node,
		sameNode: s.SameNodeOnly,
		free:     s.Free,
		gate:     s.BeforeSend,
		offered:  s.Offered,
	})
}

// transact takes a transaction of any kind through its attempts.
func (c *Client) transact(ctx context.Context, j *journey) (*Pending, error) {
	start := time.Now()
	if j.payer == nil {
		j.payer = c.operators.pick(j.sender)
	}
	if j.payer == nil {
		return nil, &NotSentError{ErrNoOperator}
	}
	ctx, cancel := context.WithTimeout(ctx, c.requestTimeout)
	defer cancel()
	j.client = c
	j.renew()
	pending, err := j.run(ctx)
	result, status := classify(err)
	c.metrics.submitted(result, status, start)
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
	return resultUnsent, hapi.ResponseCodeEnum_UNKNOWN
}

// journey is one transaction on its way to a node. One goroutine owns it.
type journey struct {
	client   *Client
	op       operation
	maxFee   hedera.Tinybar
	payer    *Operator
	sender   common.Address
	first    hedera.ID
	sameNode bool
	free     func(context.Context) error
	gate     func() error
	offered  func(hedera.ID, hedera.TransactionID)

	id    hedera.TransactionID
	drawn time.Time // when id was
	skew  int64     // of the clock then
	tried []*node   // in this round
	round int       // rounds that are over
	busy  int       // answers "not now"
	next  *node     // whom to offer it to next, whatever the others are like

	// unclear are the nodes where an attempt was unclear, in that order. While it is empty,
	// no node can have the transaction.
	unclear      []*node
	left         time.Time // when the bytes last did
	offeredAgain bool      // to a node in unclear, directly
}

// renew draws a transaction id. It must not be called while a node may have the
// transaction under the old one.
func (j *journey) renew() {
	j.drawn = time.Now()
	j.id, j.skew = j.client.ids.next(j.payer.ID, j.drawn)
}

// run makes the attempts. Every way out goes through accept or fail, so that the
// certainty of the result follows from unclear and from nothing else.
func (j *journey) run(ctx context.Context) (*Pending, error) {
	var last error
	for range j.client.maxAttempts {
		n, err := j.route(ctx)
		if err != nil {
			return nil, j.fail(join(err, last))
		}
		status, cost, err := j.offer(ctx, n)
		next := j.judge(n, status, err)
		if err == nil && next != accept {
			err = &StatusError{Status: status, Node: n.id, TransactionID: j.id, Cost: cost}
		}
		j.trace(ctx, n, status, err)
		switch next {
		case accept:
			return j.accept(n), nil
		case giveUp:
			return nil, j.fail(err)
		case again:
			j.renew()
			j.tried = j.tried[:0]
		case reconcile:
			taken, absent := j.findOut(ctx, n, err)
			if taken != nil {
				return j.accept(taken), nil
			}
			if !absent { // no other node gets what this one may have
				return nil, j.fail(joinEnd(ctx, err))
			}
		case elsewhere:
			if j.sameNode && j.stuck(err) && !j.lift(ctx) {
				return nil, j.fail(&NodeUnavailableError{Node: n.id, Err: err})
			}
		}
		if ctx.Err() != nil {
			return nil, j.fail(joinEnd(ctx, err))
		}
		last = err
	}
	return nil, j.fail(last)
}

// lift ends the binding to one node if the caller allows it, and tells whether there is
// none any more. The caller is asked once: it waits for as long as it may.
func (j *journey) lift(ctx context.Context) bool {
	if free := j.free; j.sameNode && free != nil {
		j.free = nil
		j.sameNode = free(ctx) != nil
	}
	return !j.sameNode
}

// join puts what stopped the journey before what happened last on it.
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

// offer gives the transaction to one node. A nil error comes with the node's answer.
func (j *journey) offer(ctx context.Context, n *node) (hedera.Status, hedera.Tinybar, error) {
	waiting, cancel := context.WithTimeout(ctx, j.client.attemptTimeout)
	defer cancel()
	draft := draft{operation: j.op, id: j.id, maxFee: j.maxFee, signer: j.payer}
	request, _, err := draft.sign(n.id)
	if err != nil {
		return 0, 0, &unsentError{&localError{err}}
	}
	conn, err := n.ready(waiting, forTransactions, j.client.pace.wake)
	if err != nil {
		return 0, 0, &unsentError{err}
	}
	// Once the message has left, the caller's end changes nothing but what is known of
	// it: the answer is awaited for the attempt's own time.
	calling, hangUp := context.WithTimeout(context.WithoutCancel(ctx), j.client.attemptTimeout)
	defer hangUp()
	stop := context.AfterFunc(ctx, hangUp)
	defer stop()
	gate := func() error {
		if err := j.check(ctx)(); err != nil {
			return err
		}
		if !stop() {
			return ended(ctx)
		}
		if j.offered != nil {
			j.offered(n.id, j.id)
		}
		j.left = time.Now()
		return nil
	}
	var response hapi.TransactionResponse
	if err := call(calling, conn, j.op.method, request, gate, &response); err != nil {
		return 0, 0, fmt.Errorf("node %s: %w", n.id, err)
	}
	return response.GetNodeTransactionPrecheckCode(), hedera.Tinybar(response.GetCost()), nil
}

// localError is a reason to stop that lies with the caller or this process, so
// that no other node would help.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// check is the last look before the bytes leave.
func (j *journey) check(ctx context.Context) func() error {
	return func() error {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		if j.gate == nil {
			return nil
		}
		if err := j.gate(); err != nil {
			return &localError{err}
		}
		return nil
	}
}

// accept ends the journey at a node that has the transaction.
func (j *journey) accept(n *node) *Pending {
	return &Pending{client: j.client, id: j.id, node: n, since: time.Now()}
}

// fail ends the journey without an acceptance. What it may claim depends on
// whether a node may have the transaction.
func (j *journey) fail(err error) error {
	if len(j.unclear) > 0 {
		return &SentError{Pending: j.accept(j.unclear[len(j.unclear)-1]), Err: err}
	}
	var refused *StatusError
	var unavailable *NodeUnavailableError
	if errors.As(err, &refused) || errors.As(err, &unavailable) {
		return err
	}
	return &NotSentError{err}
}

// route chooses the next node. It pauses when every node there is has been asked.
func (j *journey) route(ctx context.Context) (*node, error) {
	if n := j.next; n != nil {
		j.next = nil
		return n, nil
	}
	if j.sameNode {
		return j.routeSame(ctx)
	}
	if len(j.tried) == 0 && j.round == 0 && !j.first.IsZero() {
		if n := j.client.nodes.find(j.first); n != nil && n.healthy(time.Now()) {
			j.tried = append(j.tried, n)
			return n, nil
		}
	}
	n := j.client.nodes.best(j.sender, j.tried)
	if n == nil {
		j.tried = j.tried[:0]
		if err := j.pause(ctx); err != nil {
			return nil, err
		}
		n = j.client.nodes.best(j.sender, nil)
	}
	j.tried = append(j.tried, n)
	return n, nil
}

func (j *journey) routeSame(ctx context.Context) (*node, error) {
	if len(j.tried) > 0 {
		n := j.tried[0]
		return n, j.pause(ctx)
	}
	n := j.client.nodes.best(j.sender, nil)
	if !j.first.IsZero() {
		if n = j.client.nodes.find(j.first); n == nil {
			return nil, &NodeUnavailableError{Node: j.first, Err: errors.New("not a node of this network")}
		}
	}
	// A node that is known to be out is not given a transaction that it might swallow: a
	// query shows first whether it answers again.
	if !n.healthy(time.Now()) && j.client.known(ctx, n, j.id) == idUnclear {
		if j.lift(ctx) {
			return j.route(ctx)
		}
		return nil, &NodeUnavailableError{Node: n.id, Err: errNoAnswer}
	}
	j.tried = append(j.tried, n)
	return n, nil
}

// pause waits between rounds: exponentially longer, and never in step with others.
func (j *journey) pause(ctx context.Context) error {
	d := min(j.client.pace.retryMax, j.client.pace.retryMin<<min(j.round, 16))
	j.round++
	return sleep(ctx, d-rand.N(d/4+1))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	if ctx.Err() != nil {
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
