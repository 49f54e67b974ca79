package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	if _, ok := errors.AsType[*SentError](err); ok {
		return resultUnclear, hapi.ResponseCodeEnum_UNKNOWN
	}
	if unavailable, ok := errors.AsType[*NodeUnavailableError](err); ok {
		err = unavailable.Err
	}
	if refused, ok := errors.AsType[*StatusError](err); ok {
		return resultRefused, refused.Status
	}
	if _, ok := errors.AsType[*DuplicateError](err); ok {
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
		status, err := d.offer(ctx, n)
		next := d.judge(n, status, err)
		if err == nil && next != accept {
			err = &StatusError{Status: status, Node: n.id, TransactionID: d.ID}
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

// route chooses the next node. It pauses when every node there is has been asked. A node that failed last time might swallow the
// transaction: while another one is left, a query shows first whether it answers again.
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
	if n.retryAt.Load() != 0 && d.client.nodes.best(d.Sender, d.tried) != nil && d.client.stateAt(ctx, n, d.ID) == idUnclear {
		if ctx.Err() != nil {
			return nil, ended(ctx)
		}
		n.failed(errNoAnswer, n.lost.Load())
		return d.route(ctx)
	}
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

// One attempt: the transaction is offered to one node, and what came of it is judged.

// step is what to do after an attempt.
type step int

const (
	accept   step = iota // the node has it
	giveUp               // no attempt can change this
	newID                // with a new id
	nextNode             // with the same id, on the next node
	askNode              // nobody knows: ask the node whether it has it
)

// offer gives the transaction to one node. A nil error comes with the node's answer.
func (d *delivery) offer(ctx context.Context, n *node) (answer hedera.Status, err error) {
	ctx, span := telemetry.StartCall(ctx, "offer")
	defer func() {
		if span.Recorded() {
			span.Text("lockstep.node", n.id.String())
			if err == nil {
				span.Text("lockstep.status", answer.String())
			}
		}
		span.End(err)
	}()
	waiting, cancel := context.WithTimeout(ctx, d.client.attemptTimeout)
	defer cancel()
	draft := draft{operation: d.op, id: d.ID, maxFee: d.MaxFee, signer: d.Payer}
	request, err := draft.sign(n.id)
	if err != nil {
		return 0, &unsentError{&localError{err}}
	}
	conn, err := n.connected(waiting, forTransactions, d.client.pace)
	if err != nil {
		return 0, &unsentError{err}
	}
	if err := d.awaitPredecessor(waiting, n); err != nil {
		return 0, &unsentError{err}
	}
	// Once the message has left, the caller's end changes nothing but what is known of
	// it: the answer is awaited for the attempt's own time.
	calling, hangUp := context.WithTimeout(context.WithoutCancel(ctx), d.client.attemptTimeout)
	defer hangUp()
	stop := context.AfterFunc(ctx, hangUp)
	defer stop()
	leaving := func() error {
		if err := d.check(ctx); err != nil {
			return err
		}
		if !stop() {
			return ended(ctx)
		}
		if d.Offered != nil {
			d.Offered(n.id, d.ID)
		}
		d.left = time.Now()
		return nil
	}
	var response hapi.TransactionResponse
	if err := call(calling, conn, d.op.method, request, leaving, &response); err != nil {
		return 0, fmt.Errorf("node %s: %w", n.id, err)
	}
	return response.GetNodeTransactionPrecheckCode(), nil
}

// awaitPredecessor waits while the node has lost the transaction before this one, which it had accepted. Whoever handed
// that over offers it there again. If nobody does in time, this one goes all the same: its refusal proves the loss.
func (d *delivery) awaitPredecessor(ctx context.Context, n *node) error {
	if d.After.IsZero() || n.id != d.Node || n.connectedAt.Load() < d.client.ids.drawnAt(d.After) {
		return nil // it has been connected since before that one came
	}
	since, pauses := time.Now(), d.client.pace.receipt
	for i := 1; time.Since(since) < d.client.pace.lost && d.client.lostAt(ctx, n, d.After); i++ {
		if !sleep.For(ctx, pauses[min(i, len(pauses)-1)]) {
			return ended(ctx)
		}
	}
	return nil
}

// lostAt tells whether a node has never heard of a transaction that it accepted, and no other node has, as far as one
// of them can say.
func (c *Client) lostAt(ctx context.Context, n *node, id hedera.TransactionID) bool {
	return c.stateAt(ctx, n, id) == idUnknown && !c.knownElsewhere(ctx, n, id)
}

// knownElsewhere asks another node, if there is one, whether it has a transaction.
func (c *Client) knownElsewhere(ctx context.Context, n *node, id hedera.TransactionID) bool {
	other := c.nodes.best(id.Payer.LongZero(), []*node{n})
	return other != nil && c.stateAt(ctx, other, id) == idKnown
}

// localError is a reason to stop that lies with the caller or this process, so
// that no other node would help.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// check is the last look before the bytes leave.
func (d *delivery) check(ctx context.Context) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	if d.BeforeSend == nil {
		return nil
	}
	if err := d.BeforeSend(); err != nil {
		return &localError{err}
	}
	return nil
}

// judge decides what one attempt means. It also keeps the books: unclear for this
// delivery, health for the node.
func (d *delivery) judge(n *node, answer hedera.Status, err error) step {
	switch {
	case err == nil:
		return d.judgeAnswer(n, answer)
	case provablyUnsent(err):
		d.client.metrics.attempts.WithLabelValues(resultUnsent).Inc()
		var local *localError
		if errors.As(err, &local) || errors.Is(err, ErrClosed) {
			return giveUp
		}
		if !endedByCaller(err) {
			n.failed(err, true)
		}
		return nextNode
	case status.Code(err) == codes.Unimplemented:
		// The server knows no such method, so no handler ran: it is not a node at all.
		d.client.metrics.attempts.WithLabelValues(resultUnsent).Inc()
		n.failed(err, false)
		return nextNode
	default:
		d.client.metrics.attempts.WithLabelValues(resultUnclear).Inc()
		if !endedByCaller(err) {
			n.failed(err, status.Code(err) == codes.Unavailable)
		}
		d.markUnclear(n)
		return askNode
	}
}

// judgeAnswer decides on a node's precheck status.
func (d *delivery) judgeAnswer(n *node, answer hedera.Status) step {
	result := resultRefused
	defer func() { d.client.metrics.attempts.WithLabelValues(result).Inc() }()
	if notANode(answer) {
		n.failed(errors.New(answer.String()), false)
		if answer == hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT {
			d.client.denied()
		}
		return nextNode
	}
	n.worked()
	switch answer {
	case hapi.ResponseCodeEnum_OK:
		result = resultAccepted
		return accept
	case hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION:
		if len(d.unclear) > 0 {
			result = resultAccepted
			return accept
		}
		if !d.fixed {
			d.client.ids.collided()
		}
		return giveUp
	case hapi.ResponseCodeEnum_UNKNOWN:
		// By its definition: submitted to the network, fate unknown.
		result = resultUnclear
		d.markUnclear(n)
		return askNode
	case hapi.ResponseCodeEnum_BUSY, hapi.ResponseCodeEnum_PLATFORM_TRANSACTION_NOT_CREATED:
		return nextNode
	case hapi.ResponseCodeEnum_TRANSACTION_EXPIRED, hapi.ResponseCodeEnum_INVALID_TRANSACTION_START:
		if len(d.unclear) > 0 {
			return giveUp
		}
		if time.Since(d.drawn) < skewStep { // else it did expire, and the clock is right
			d.client.ids.adjust(d.skew, answer == hapi.ResponseCodeEnum_TRANSACTION_EXPIRED)
		}
		return newID
	default:
		return giveUp
	}
}

// notANode tells whether an answer means that the node can take nothing at all now.
func notANode(answer hedera.Status) bool {
	switch answer {
	case hapi.ResponseCodeEnum_PLATFORM_NOT_ACTIVE, hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT,
		hapi.ResponseCodeEnum_CREATING_SYSTEM_ENTITIES, hapi.ResponseCodeEnum_WAITING_FOR_LEDGER_ID:
		return true
	default:
		return false
	}
}

func (d *delivery) markUnclear(n *node) {
	if !slices.Contains(d.unclear, n) {
		d.unclear = append(d.unclear, n)
	}
}

// shouldUnbind tells whether a delivery bound to one node should stop trying there: at once
// when there is no connection, after a few tries when the node says "not now".
func (d *delivery) shouldUnbind(err error) bool {
	var refused *StatusError
	if !errors.As(err, &refused) {
		return true
	}
	d.busy++
	return d.busy >= sameNodeTries || refused.Status == hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT
}

// endedByCaller tells whether an error comes from the caller's own context, which
// says nothing about the node.
func endedByCaller(err error) bool {
	return errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
}

// resolve asks what became of an unclear attempt: the node itself, which knows at once
// whether it took the transaction, and, if that does not answer, those who know after
// consensus: another node and the source. It returns a node that has the transaction, or
// tells that the first one certainly has not.
//
// Only the node's own word is proof of that. It is none if the attempt ended by the clock,
// since the node may be at it still, and none so late that the node may have died with what
// it took, and come back.
func (d *delivery) resolve(ctx context.Context, n *node, failure error) (taken *node, absent bool) {
	if d.retried && d.pause(ctx) != nil {
		return nil, false
	}
	w := &watch{Pending: d.accept(n), askedSource: time.Now()}
	pauses := d.client.pace.receipt
	for i := 0; sleep.For(ctx, pauses[min(i, len(pauses)-1)]); i++ {
		answer := d.client.stateAt(ctx, n, d.ID)
		recent := time.Since(d.left) < d.client.pace.restart
		switch {
		case answer == idKnown:
			return n, false
		case answer == idUnknown && recent && !timedOut(failure):
			d.retryHere(n)
			return nil, true
		}
		if answer == idUnclear {
			if ctx.Err() == nil {
				n.failed(errNoAnswer, false) // others need not wait for it
			}
			other := d.client.nodes.best(d.Sender, []*node{n})
			if other != nil && d.client.stateAt(ctx, other, d.ID) == idKnown {
				return other, false
			}
			if w.askSource(ctx, false) != nil {
				return n, false
			}
		}
		if !recent {
			break
		}
	}
	return nil, false
}

var errNoAnswer = errors.New("no answer to a receipt query")

// retryHere keeps the transaction in its sender's order at a node that has not got it.
// After that the others get their chance.
func (d *delivery) retryHere(n *node) {
	if !d.retried {
		d.retried, d.next = true, n
	}
}

// timedOut tells whether a call ended by a clock or by its caller: the node may be at it.
func timedOut(err error) bool {
	return endedByCaller(err) || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// trace writes one debug line per attempt.
func (d *delivery) trace(ctx context.Context, n *node, answer hedera.Status, err error) {
	log := d.client.log
	if !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	outcome := slog.String("status", answer.String())
	if err != nil {
		outcome = slog.Any("error", err)
	}
	log.DebugContext(ctx, "offered transaction", slog.String("transaction_id", d.ID.String()), slog.String("node", n.id.String()), outcome)
}
