package consensus

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lockstep/hedera"
	"lockstep/internal/hapi"
)

// step is what to do after an attempt.
type step int

const (
	accept    step = iota // the node has it
	giveUp                // no attempt can change this
	again                 // with a new id
	elsewhere             // with the same id, on the next node
	reconcile             // nobody knows: ask the node whether it has it
)

// judge decides what one attempt means. It also keeps the books: unclear for this
// journey, health for the node.
func (j *journey) judge(n *node, answer hedera.Status, err error) step {
	switch {
	case err == nil:
		return j.judgeAnswer(n, answer)
	case provablyUnsent(err):
		j.client.metrics.attempts.WithLabelValues(resultUnsent).Inc()
		var local *localError
		if errors.As(err, &local) || errors.Is(err, ErrClosed) {
			return giveUp
		}
		if !callersFault(err) {
			n.failed(err, true)
		}
		return elsewhere
	case status.Code(err) == codes.Unimplemented:
		// The server knows no such method, so no handler ran: it is not a node at all.
		j.client.metrics.attempts.WithLabelValues(resultUnsent).Inc()
		n.failed(err, false)
		return elsewhere
	default:
		j.client.metrics.attempts.WithLabelValues(resultUnclear).Inc()
		if !callersFault(err) {
			n.failed(err, status.Code(err) == codes.Unavailable)
		}
		j.doubt(n)
		return reconcile
	}
}

// judgeAnswer decides on a node's precheck status.
func (j *journey) judgeAnswer(n *node, answer hedera.Status) step {
	result := resultRefused
	defer func() { j.client.metrics.attempts.WithLabelValues(result).Inc() }()
	if notANode(answer) {
		n.failed(errors.New(answer.String()), false)
		if answer == hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT {
			j.client.denied()
		}
		return elsewhere
	}
	n.worked()
	switch answer {
	case hapi.ResponseCodeEnum_OK:
		result = resultAccepted
		return accept
	case hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION:
		if len(j.unclear) > 0 {
			result = resultAccepted
			return accept
		}
		j.client.ids.collided()
		return giveUp
	case hapi.ResponseCodeEnum_UNKNOWN:
		// By its definition: submitted to the network, fate unknown.
		result = resultUnclear
		j.doubt(n)
		return reconcile
	case hapi.ResponseCodeEnum_BUSY, hapi.ResponseCodeEnum_PLATFORM_TRANSACTION_NOT_CREATED:
		return elsewhere
	case hapi.ResponseCodeEnum_TRANSACTION_EXPIRED, hapi.ResponseCodeEnum_INVALID_TRANSACTION_START:
		if len(j.unclear) > 0 {
			return giveUp
		}
		if time.Since(j.drawn) < skewStep { // else it did expire, and the clock is right
			j.client.ids.adjust(j.skew, answer == hapi.ResponseCodeEnum_TRANSACTION_EXPIRED)
		}
		return again
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

func (j *journey) doubt(n *node) {
	if !slices.Contains(j.unclear, n) {
		j.unclear = append(j.unclear, n)
	}
}

// stuck tells whether a journey bound to one node should stop trying there: at once
// when there is no connection, after a few tries when the node says "not now".
func (j *journey) stuck(err error) bool {
	var refused *StatusError
	if !errors.As(err, &refused) {
		return true
	}
	j.busy++
	return j.busy >= sameNodeTries || refused.Status == hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT
}

// callersFault tells whether an error comes from the caller's own context, which
// says nothing about the node.
func callersFault(err error) bool {
	return errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
}

// findOut asks what became of an unclear attempt: the node itself, which knows at once
// whether it took the transaction, and, if that does not answer, those who know after
// consensus: another node and the witness. It returns a node that has the transaction, or
// tells that the first one certainly has not.
//
// Only the node's own word is proof of that. It is none if the attempt ended by the clock,
// since the node may be at it still, and none so late that the node may have died with what
// it took, and come back.
func (j *journey) findOut(ctx context.Context, n *node, failure error) (taken *node, absent bool) {
	if j.offeredAgain && j.pause(ctx) != nil {
		return nil, false
	}
	w := &watch{Pending: j.accept(n), consulted: time.Now()}
	pauses := j.client.pace.receipt
	for i := 0; sleep(ctx, pauses[min(i, len(pauses)-1)]) == nil; i++ {
		answer := j.client.known(ctx, n, j.id)
		recent := time.Since(j.left) < j.client.pace.comeback
		switch {
		case answer == idKnown:
			return n, false
		case answer == idUnknown && recent && !timedOut(failure):
			j.offerAgain(n)
			return nil, true
		}
		if answer == idUnclear {
			if ctx.Err() == nil {
				n.failed(errNoAnswer, false) // others need not wait for it
			}
			other := j.client.nodes.best(j.sender, []*node{n})
			if other != nil && j.client.known(ctx, other, j.id) == idKnown {
				return other, false
			}
			if w.consult(ctx, false) != nil {
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

// offerAgain keeps the transaction in its sender's order at a node that has not got it.
// After that the others get their chance.
func (j *journey) offerAgain(n *node) {
	if !j.offeredAgain {
		j.offeredAgain, j.next = true, n
	}
}

// timedOut tells whether a call ended by a clock or by its caller: the node may be at it.
func timedOut(err error) bool {
	return callersFault(err) || errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// trace writes one debug line per attempt.
func (j *journey) trace(ctx context.Context, n *node, answer hedera.Status, err error) {
	log := j.client.log
	if !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	outcome := slog.String("status", answer.String())
	if err != nil {
		outcome = slog.Any("error", err)
	}
	log.DebugContext(ctx, "offered transaction", slog.String("transaction_id", j.id.String()), slog.String("node", n.id.String()), outcome)
}
