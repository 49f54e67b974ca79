package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/telemetry"
	"lockstep/internal/sleep"
)

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
func (d *delivery) offer(ctx context.Context, n *node) (hedera.Status, hedera.Tinybar, error) {
	ctx, span := telemetry.StartCall(ctx, "offer")
	answer, cost, err := d.offerIn(ctx, n)
	if span.Recorded() {
		span.Text("lockstep.node", n.id.String())
		if err == nil {
			span.Text("lockstep.status", answer.String())
		}
	}
	span.End(err)
	return answer, cost, err
}

// offerIn is offer without its span.
func (d *delivery) offerIn(ctx context.Context, n *node) (hedera.Status, hedera.Tinybar, error) {
	waiting, cancel := context.WithTimeout(ctx, d.client.attemptTimeout)
	defer cancel()
	draft := draft{operation: d.op, id: d.ID, maxFee: d.MaxFee, signer: d.Payer}
	request, err := draft.sign(n.id)
	if err != nil {
		return 0, 0, &unsentError{&localError{err}}
	}
	conn, err := n.connected(waiting, forTransactions, d.client.pace)
	if err != nil {
		return 0, 0, &unsentError{err}
	}
	if err := d.awaitPredecessor(waiting, n); err != nil {
		return 0, 0, &unsentError{err}
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
		return 0, 0, fmt.Errorf("node %s: %w", n.id, err)
	}
	return response.GetNodeTransactionPrecheckCode(), hedera.Tinybar(response.GetCost()), nil
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
