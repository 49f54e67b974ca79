package ethrpc

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
)

// silence is how long an endpoint may leave all its questions without an answer until the next one is asked beside it. Whoever waits may hold
// the work of a dead process, which the others are to have within 15 s; the time of one call may be longer than that.
const silence = 3 * time.Second

// maxOpen is how many exchanges may be under way with an endpoint that is silent: those who asked do not wait for it, and may ask again.
const maxOpen = 32

// InTurn asks endpoints in their order, for as long as the caller goes on, and yields what each one answered. The next one is asked when the caller
// wants more than what was answered; and beside one that leaves everything without an answer for 3 s, as quiet tells: since when it does, or
// the zero time; at once if it did so before. So of two endpoints, one of which accepts questions and is silent, the other one's answer is there after 3 s.
//
// When all were asked and the last one is silent, they are asked once more, for as long as it is: what failed may have passed, and a
// silent endpoint may answer over another connection.
//
// No more than two are asked at a time. Nothing is hung up: what a caller does not wait for any more goes on until its own time is over, so
// that a late answer counts for who gave it. That means that ask may run on after the loop, and must not write what the loop reads. A caller
// whose context ends before the loop takes all its questions with it.
func InTurn[E, A any](ctx context.Context, list []E, quiet func(E) time.Time, ask func(context.Context, E) A) iter.Seq2[E, A] {
	return func(yield func(E, A) bool) {
		if len(list) == 1 {
			yield(list[0], ask(ctx, list[0]))
			return
		}
		answers := make(chan *question[E, A], len(list)) // nobody may wait for the last ones
		var open []*question[E, A]
		defer func() {
			for _, q := range open {
				if ctx.Err() == nil {
					q.keep()
				}
			}
		}()
		timer := time.NewTimer(silence)
		defer timer.Stop()
		patience := time.Now().Add(time.Duration(len(list)+1) * silence) // those who failed by being silent are not asked once more
		for next := 0; next < len(list) || len(open) > 0; {
			var wait <-chan time.Time
			if len(open) < 2 && (next < len(list) || next < 2*len(list) && time.Now().Before(patience)) {
				left := time.Duration(0)
				if len(open) == 1 {
					left = open[0].left(quiet)
				}
				if left <= 0 {
					open = append(open, put(ctx, list[next%len(list)], ask, answers))
					next++
					continue
				}
				timer.Reset(left)
				wait = timer.C
			}
			select {
			case q := <-answers:
				q.keep()
				open = slices.DeleteFunc(open, func(other *question[E, A]) bool { return other == q })
				if !yield(q.to, q.answer) {
					return
				}
			case <-wait:
			}
		}
	}
}

// question is under way to one endpoint, or was answered.
type question[E, A any] struct {
	to     E
	answer A
	keep   func() bool // has it outlive the caller's context
}

// put asks in a goroutine, for as long as the caller is there or the question outlives it.
func put[E, A any](ctx context.Context, to E, ask func(context.Context, E) A, answers chan<- *question[E, A]) *question[E, A] {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if deadline, ok := ctx.Deadline(); ok {
		own, cancel = context.WithDeadline(own, deadline)
	}
	q := &question[E, A]{to: to, keep: context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // else its own time is over now, too
			cancel()
		}
	})}
	go func() {
		defer cancel()
		q.answer = ask(own, to)
		answers <- q
	}()
	return q
}

// left is how long it is until the next endpoint may be asked beside this one. One that is not quiet now may be so later.
func (q *question[E, A]) left(quiet func(E) time.Time) time.Duration {
	since := quiet(q.to)
	if since.IsZero() {
		since = time.Now()
	}
	return time.Until(since.Add(silence))
}

// never is for what may not be asked of two endpoints.
func never(*Endpoint) time.Time { return time.Time{} }

// reads are the methods that only ask. A transaction, or what nobody knows here, is never sent to a second endpoint while the first may have it.
var reads = map[string]bool{
	"eth_blockNumber": true, "eth_call": true, "eth_chainId": true, "eth_estimateGas": true, "eth_feeHistory": true, "eth_gasPrice": true,
	"eth_getBalance": true, "eth_getBlockByHash": true, "eth_getBlockByNumber": true, "eth_getBlockReceipts": true, "eth_getCode": true,
	"eth_getLogs": true, "eth_getStorageAt": true, "eth_getTransactionByHash": true, "eth_getTransactionCount": true,
	"eth_getTransactionReceipt": true, "eth_maxPriorityFeePerGas": true,
}

func onlyReads(calls []*Call) bool {
	return !slices.ContainsFunc(calls, func(c *Call) bool { return !reads[c.Method] })
}

// Quiet returns since when the endpoint has left all its questions without an answer; the zero time if it owes none. A part of an answer over
// HTTP counts, and so does a failure other than that the time was over: what fails is not silent.
func (e *Endpoint) Quiet() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	var since time.Time
	for x := range e.open {
		begun := e.heard
		if x.leftBy(e.client) {
			begun = x.begun
		}
		if since.IsZero() || begun.Before(since) {
			since = begun
		}
	}
	return since
}

// silent tells whether others are to be asked first. The caller holds the lock.
func (e *Endpoint) silent(now time.Time) bool {
	return e.awaited() && now.Sub(e.heard) >= silence
}

// awaited tells whether anybody waits on the connection that is in use, or for one. The caller holds the lock.
func (e *Endpoint) awaited() bool {
	for x := range e.open {
		if !x.leftBy(e.client) {
			return true
		}
	}
	return false
}

// leftBy tells whether an exchange waits on a connection that is not used any more.
func (x *seen) leftBy(client *rpc.Client) bool { return x.client != nil && x.client != client }

// leave has the next call dial a WebSocket that is silent anew. It may be half-open, or only slow: those who wait on it go on waiting.
func (e *Endpoint) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != nil && e.Streams() && e.silent(time.Now()) {
		e.client, e.ours = nil, false
	}
}

// begin notes an exchange that the endpoint has to answer, and what ends it.
func (e *Endpoint) begin(x *seen, cancel context.CancelFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open == nil {
		e.open = map[*seen]context.CancelFunc{}
	}
	if !e.awaited() {
		e.heard = time.Now()
	}
	x.begun = time.Now()
	e.open[x] = cancel
}

// end notes that an exchange is over: something was heard, or nobody waits any more. The last one closes a connection that was left.
func (e *Endpoint) end(x *seen, heard bool) {
	e.mu.Lock()
	if delete(e.open, x); heard {
		e.heard = time.Now()
	}
	last := x.leftBy(e.client)
	for other := range e.open {
		last = last && other.client != x.client
	}
	e.mu.Unlock()
	if last {
		x.client.Close()
	}
}

// hears notes that a part of an answer has come.
func (e *Endpoint) hears() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = time.Now()
}
