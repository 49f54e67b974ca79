package rpc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/eth"
)

var errNoFinish = errors.New("the first phase returned no second one")

// call is one call of a request, from its envelope to its answer.
type call struct {
	message
	entry        *entry // nil if there is no such method
	params       Params
	notification bool // gets no answer
	pending      bool // its answer comes from finish
	second       Finish
	sent         func(bool) // Answer.Sent, or nil

	failed  bool
	failure fault
	elapsed time.Duration // from the request's arrival to the answer

	// The answer: out[start:end] of the exchange if it was there at once, else own.
	start, end int
	own        []byte
}

// name is the method's name for labels and logs.
func (c *call) name() string {
	if c.entry == nil {
		return unknownMethod
	}
	return c.entry.Name
}

// exchange is one HTTP request or WebSocket message on its way to its answer. It
// has two phases. begin reads the calls, in order: it answers what can be
// answered at once and lets two-phase calls take their place in line. finish runs
// what has to wait. The one comes before the other.
type exchange struct {
	d       *Dispatcher
	face    *face
	request *Request
	started time.Time

	batch   bool
	lone    bool // see aside
	calls   []call
	pending int
	failure fault // of the body as a whole
	failed  bool

	out []byte // answers so far; the whole answer after finish
}

// begin takes a body apart. The context must carry r.
func (d *Dispatcher) begin(ctx context.Context, t Transport, r *Request, body []byte) *exchange {
	ex := d.exchanges.Get().(*exchange)
	ex.d, ex.face, ex.request, ex.started = d, &d.faces[t], r, time.Now()
	calls, count, s := parse(ex.calls[:0], body, ex.face.batchMax)
	ex.calls = calls
	switch s {
	case shapeBroken:
		ex.refuse(ex.parseFault())
	case shapeScalar:
		ex.refuse(ex.scalarFault())
	case shapeSingle:
		ex.start(ctx, &ex.calls[0])
	case shapeBatch:
		ex.batch = true
		ex.beginBatch(ctx, count)
	}
	return ex
}

func (ex *exchange) beginBatch(ctx context.Context, count int) {
	switch {
	case !ex.face.batchEnabled && ex.face.transport == TransportHTTP:
		ex.refuse(ex.face.batchDisabled)
	case !ex.face.batchEnabled:
		ex.refuseItems(ex.face.batchDisabled, 1)
	case count > ex.face.batchMax:
		ex.refuseItems(batchTooLarge(count, ex.face.batchMax), ex.repeats(count))
	default:
		for i := range ex.calls {
			ex.start(ctx, &ex.calls[i])
		}
	}
}

// start answers a call at once or gets it ready for finish.
func (ex *exchange) start(ctx context.Context, c *call) {
	f, ok := ex.d.admit(ctx, ex, c)
	switch {
	case !ok:
		ex.answerFault(c, f)
	case c.entry.Inline:
		ex.answerInline(ctx, c)
	case c.entry.Enter != nil:
		ex.enter(ctx, c)
	case c.entry.Ready != nil && ex.answerReady(c):
	default:
		c.pending = true
		ex.pending++
	}
}

func (ex *exchange) answerInline(ctx context.Context, c *call) {
	ex.answer(c, func() (any, error) { return c.entry.Handler(ctx, &c.params) })
}

// answerReady answers a call whose result is known already, if it is.
func (ex *exchange) answerReady(c *call) bool {
	result, ok := ex.d.ready(ex.request, c)
	if ok {
		ex.answer(c, func() (any, error) { return result, nil })
	}
	return ok
}

// ready leaves a method that panics to its handler.
func (d *Dispatcher) ready(r *Request, c *call) (result any, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			d.panicked(r, c, p)
			result, ok = nil, false
		}
	}()
	return c.entry.Ready(&c.params)
}

// answer runs what does not wait and writes the answer.
func (ex *exchange) answer(c *call, run func() (any, error)) {
	before := len(ex.out)
	c.start = ex.separate()
	ex.out = ex.d.produce(ex.out, ex.request, c, run)
	c.end = len(ex.out)
	c.elapsed = time.Since(ex.started)
	if c.notification {
		ex.out = ex.out[:before]
	}
}

// enter runs the first phase of a two-phase call.
func (ex *exchange) enter(ctx context.Context, c *call) {
	finish, f, failed := ex.d.enter(ctx, ex.request, c)
	if failed {
		ex.answerFault(c, f)
		return
	}
	c.second = finish
	c.pending = true
	ex.pending++
}

func (d *Dispatcher) enter(ctx context.Context, r *Request, c *call) (finish Finish, f fault, failed bool) {
	defer func() {
		if p := recover(); p != nil {
			finish, f, failed = nil, d.panicked(r, c, p), true
		}
	}()
	finish, err := c.entry.Enter(ctx, &c.params)
	switch {
	case err != nil:
		return nil, d.fault(r, c, err), true
	case finish == nil:
		return nil, d.fault(r, c, errNoFinish), true
	}
	return finish, fault{}, false
}

func (ex *exchange) answerFault(c *call, f fault) {
	c.elapsed = time.Since(ex.started)
	if c.notification {
		c.failed, c.failure = true, f
		return
	}
	c.start = ex.separate()
	ex.out = ex.d.appendFault(ex.out, ex.request, c, f)
	c.end = len(ex.out)
}

// separate gets out ready for another answer and returns where it starts. In a
// batch every answer is preceded by the bracket or the comma.
func (ex *exchange) separate() int {
	if ex.batch {
		if len(ex.out) == 0 {
			ex.out = append(ex.out, '[')
		} else {
			ex.out = append(ex.out, ',')
		}
	}
	return len(ex.out)
}

// refuse answers the body as a whole with one error.
func (ex *exchange) refuse(f fault) {
	ex.forgetCalls()
	ex.batch = false
	ex.failed, ex.failure = true, f
	var c call
	ex.out = ex.d.appendFault(ex.out, ex.request, &c, f)
}

// refuseItems answers the body with an array of n times the same error.
func (ex *exchange) refuseItems(f fault, n int) {
	ex.forgetCalls()
	var c call
	for range n {
		ex.separate()
		ex.out = ex.d.appendFault(ex.out, ex.request, &c, f)
	}
}

// repeats is how often an oversized batch is told so: once per item, as clients
// of established relays may expect, within reason.
func (ex *exchange) repeats(count int) int {
	const most = 1000
	if ex.face.transport == TransportHTTP && ex.d.config.Profile == ProfileHiero && count <= most {
		return count
	}
	return 1
}

// finish runs the calls that have to wait and returns the whole answer, empty if
// there is none to give. The answer is valid until release.
func (ex *exchange) finish(ctx context.Context) []byte {
	switch {
	case ex.lone:
		ex.runLone(ctx)
	case ex.single():
		ex.runSingle(ctx)
	case ex.pending > 0:
		ex.runPending(ctx)
	}
	if ex.batch {
		ex.closeBatch()
	}
	return ex.out
}

func (ex *exchange) closeBatch() {
	switch {
	case len(ex.out) > 0:
		ex.out = append(ex.out, ']')
	case len(ex.calls) == 0:
		ex.out = append(ex.out, '[', ']')
	}
}

// release gives the exchange back for reuse. If handlers that may still run or
// may have kept their parameters have seen it, it is left to the collector, and
// so must the body be: the result says whether the body may be reused.
func (ex *exchange) release() (bodyToo bool) {
	if ex.pending > 0 {
		return false
	}
	const largest = 256 << 10 // do not hoard the memory of rare large answers
	d := ex.d
	ex.forgetCalls()
	*ex = exchange{calls: ex.calls, out: ex.out[:0]}
	if cap(ex.out) <= largest {
		d.exchanges.Put(ex)
	}
	return true
}

// forgetCalls empties calls, keeping their memory for extend.
func (ex *exchange) forgetCalls() {
	for i := range ex.calls {
		args := ex.calls[i].params.args
		clear(args) // they point into the body
		ex.calls[i] = call{params: Params{args: args[:0]}}
	}
	ex.calls = ex.calls[:0]
}

// extend appends an empty call, reusing what forgetCalls kept.
func extend(calls []call) []call {
	if len(calls) < cap(calls) {
		return calls[:len(calls)+1]
	}
	return append(calls, call{})
}

// single tells whether a plain handler is all that there is to run, on a connection
// where nothing else can happen meanwhile.
func (ex *exchange) single() bool {
	return ex.face.transport == TransportHTTP && !ex.batch && ex.pending == 1 && ex.calls[0].second == nil
}

// runSingle runs a plain handler where the request is: a goroutine of its own, with a
// stack that has to grow first, would cost more than many a handler.
func (ex *exchange) runSingle(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, ex.d.config.HTTP.RequestTimeout.Duration())
	defer cancel()
	ex.pending = 0
	c := &ex.calls[0]
	c.pending = false
	ex.answer(c, func() (any, error) { return c.entry.Handler(ctx, &c.params) })
}

// runPending runs what has to wait, each call in a goroutine, until all have
// answered or their time is up.
func (ex *exchange) runPending(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, ex.d.config.HTTP.RequestTimeout.Duration())
	defer cancel()
	g := &gate{left: ex.pending, done: make(chan struct{})}
	ex.launch(ctx, g)
	select {
	case <-g.done:
	case <-ctx.Done():
		g.waitGrace()
	}
	g.close()
	ex.collect()
}

// launch starts every two-phase call at once, so that whatever it holds a place in
// line for never waits behind other items, and the others as far as the limit goes.
func (ex *exchange) launch(ctx context.Context, g *gate) {
	var queue []*call
	for i := range ex.calls {
		c := &ex.calls[i]
		switch {
		case !c.pending:
		case c.second != nil:
			await(ctx, c.second, func() { ex.runCall(ctx, g, c) })
		default:
			queue = append(queue, c)
		}
	}
	var next atomic.Int64
	for range min(len(queue), ex.d.config.Batch.Concurrency) {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(queue) {
					return
				}
				ex.runCall(ctx, g, queue[i])
			}
		}()
	}
}

// runCall runs one call that has to wait and delivers its answer. Until the gate
// lets the answer in, c is only read.
func (ex *exchange) runCall(ctx context.Context, g *gate, c *call) {
	done := call{message: c.message, entry: c.entry}
	done.own = ex.d.produce(nil, ex.request, &done, func() (any, error) {
		if c.second != nil {
			return c.second.Run(ctx)
		}
		if err := ctx.Err(); err != nil {
			return nil, err // its turn came too late
		}
		return c.entry.Handler(ctx, &c.params)
	})
	done.elapsed = time.Since(ex.started)
	delivered := g.deliver(func() {
		c.own, c.failed, c.failure, c.elapsed, c.sent = done.own, done.failed, done.failure, done.elapsed, done.sent
	})
	if !delivered && done.sent != nil {
		done.sent(false)
	}
}

// settle tells the calls that asked for it whether their answer is on its way. It
// comes after finish and before release.
func (ex *exchange) settle(sent bool) {
	for i := range ex.calls {
		if c := &ex.calls[i]; c.sent != nil {
			c.sent(sent && !c.failed && !c.notification)
		}
	}
}

// collect puts the answers of all calls together, in the order of the request.
func (ex *exchange) collect() {
	at := ex.out
	ex.out = nil
	for i := range ex.calls {
		c := &ex.calls[i]
		switch {
		case c.pending && c.own == nil:
			ex.d.metrics.abandoned.WithLabelValues(c.name()).Inc()
			ex.answerFault(c, known(eth.ErrRequestTimeout()))
		case c.notification:
		case c.pending:
			if ex.separate() == 0 {
				ex.out = c.own // alone, and perhaps long
			} else {
				ex.out = append(ex.out, c.own...)
			}
		default:
			ex.separate()
			ex.out = append(ex.out, at[c.start:c.end]...)
		}
	}
}

// gate lets answers in until it is closed, so that an answer that comes too late
// cannot touch what has been sent in its place.
type gate struct {
	mu     sync.Mutex
	left   int  // answers still to come; guarded by mu
	closed bool // guarded by mu

	done chan struct{} // closed when left is 0
}

func (g *gate) deliver(store func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	store()
	if g.left--; g.left == 0 {
		close(g.done)
	}
	return true
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) waitGrace() {
	t := time.NewTimer(answerGrace)
	defer t.Stop()
	select {
	case <-g.done:
	case <-t.C:
	}
}
