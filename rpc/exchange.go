package rpc

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
)

var errNoFinish = errors.New("the first phase returned no second one")

// call is one call of a request, from its envelope to its answer.
type call struct {
	message
	route        *route // nil if there is no such method
	params       Params
	notification bool       // gets no answer
	mode         mode       // inline until the call waits for finish
	second       Finish     // of a two-phase call
	sent         func(bool) // Answer.Sent, or nil

	failed  bool
	failure fault
	elapsed time.Duration // from the request's arrival to the answer

	own []byte // the answer; nil: there is none, or none yet
}

// name is the method's name for labels and logs.
func (c *call) name() string {
	if c.route == nil {
		return unknownMethod
	}
	return c.route.Name
}

// exchange is one HTTP request or WebSocket message on its way to its answer. It has two phases. begin reads the
// calls, in order: it answers what can be answered at once and lets two-phase calls take their place in line.
// finish runs what has to wait. begin comes first.
type exchange struct {
	d        *Dispatcher
	endpoint *endpoint
	request  *Request
	started  time.Time

	batch   bool
	calls   []call
	pending int
	failure fault // of the body as a whole
	failed  bool

	refusals [][]byte // the answers where no call has one
}

// begin parses a body. The context must carry r.
func (d *Dispatcher) begin(ctx context.Context, t Transport, r *Request, body []byte) *exchange {
	ex := &exchange{d: d, endpoint: &d.endpoints[t], request: r, started: time.Now()}
	permit, err := d.awaitPermit(ctx, r, body)
	if err != nil {
		f, _ := d.config.Profile.translate(err)
		ex.refuse(f)
		return ex
	}
	defer permit.Leave()
	calls, count, s := parse(body, ex.endpoint.batchMax)
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
	case count == 0 && ex.d.config.Profile == ProfileEthereum:
		ex.refuse(known(eth.ErrInvalidRequest))
	case !ex.endpoint.batchEnabled && ex.endpoint.transport == TransportHTTP:
		ex.refuse(ex.endpoint.batchDisabled)
	case !ex.endpoint.batchEnabled:
		ex.refuseItems(ex.endpoint.batchDisabled, 1)
	case count > ex.endpoint.batchMax:
		ex.refuseItems(batchTooLarge(count, ex.endpoint.batchMax), ex.repeats(count))
	default:
		if err := ex.request.holding.Take(callBytes * count); err != nil {
			f, _ := ex.d.config.Profile.translate(err)
			ex.refuse(f)
			return
		}
		for i := range ex.calls {
			ex.start(ctx, &ex.calls[i])
		}
	}
}

// What a batch holds besides its text and its answers, as its holding counts it: for each call,
// and for each of its calls that run at the same time.
const (
	callBytes = 512
	runBytes  = 16 << 10
)

// start answers a call at once or gets it ready for finish.
func (ex *exchange) start(ctx context.Context, c *call) {
	f, ok := ex.d.admit(ctx, ex, c)
	if !ok {
		ex.answerFault(c, f)
		return
	}
	switch m := ex.modeOf(c.route.Method); m {
	case inline:
		ex.answerInline(ctx, c)
	case ordered, detached:
		if ex.enter(ctx, c) {
			ex.wait(c, m)
		}
	case direct, pooled:
		ex.wait(c, m)
	}
}

// wait marks a call that finish has to run.
func (ex *exchange) wait(c *call, m mode) {
	c.mode = m
	ex.pending++
}

func (ex *exchange) answerInline(ctx context.Context, c *call) {
	ex.answer(c, func() (any, error) { return c.route.Handler(ctx, &c.params) })
}

// answer runs a call that does not wait and writes its answer.
func (ex *exchange) answer(c *call, run func() (any, error)) {
	c.own = ex.d.produce(ex.request, c, run)
	ex.answered(c)
}

// answered ends a call that has run.
func (ex *exchange) answered(c *call) {
	c.elapsed = time.Since(ex.started)
	if c.notification {
		c.own = nil
	}
}

// enter runs the first phase of a two-phase call; ok is false if the call has ended with it.
func (ex *exchange) enter(ctx context.Context, c *call) (ok bool) {
	finish, f, failed := ex.d.enter(ctx, ex.request, c)
	if failed {
		ex.answerFault(c, f)
		return false
	}
	c.second = finish
	return true
}

func (d *Dispatcher) enter(ctx context.Context, r *Request, c *call) (finish Finish, f fault, failed bool) {
	defer func() {
		if p := recover(); p != nil {
			finish, f, failed = nil, d.panicked(r, c, p), true
		}
	}()
	finish, err := c.route.Enter(ctx, &c.params)
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
	c.own = ex.d.faultAnswer(ex.request, c, f)
}

// refuse answers the body as a whole with one error.
func (ex *exchange) refuse(f fault) {
	ex.calls, ex.batch = nil, false
	ex.failed, ex.failure = true, f
	ex.refuseOne(f)
}

// refuseItems answers the body with an array of n times the same error.
func (ex *exchange) refuseItems(f fault, n int) {
	ex.calls = nil
	for range n {
		ex.refuseOne(f)
	}
}

func (ex *exchange) refuseOne(f fault) {
	var c call
	ex.refusals = append(ex.refusals, ex.d.faultAnswer(ex.request, &c, f))
}

// repeats is how many errors an oversized batch gets: one per item, as clients of the TypeScript relay may expect,
// up to a bound.
func (ex *exchange) repeats(count int) int {
	const most = 1000
	if ex.endpoint.transport == TransportHTTP && ex.d.config.Profile == ProfileHiero && count <= most {
		return count
	}
	return 1
}

// finish runs the calls that have to wait and returns the whole answer in pieces, none if
// there is none to give.
func (ex *exchange) finish(ctx context.Context) [][]byte {
	switch m := ex.mode(); {
	case m == detached:
		ex.runDetached(ctx)
	case m == direct:
		ex.runDirect(ctx)
	case ex.pending > 0:
		ex.runPending(ctx)
	}
	answers := ex.refusals
	for i := range ex.calls {
		if c := &ex.calls[i]; c.own != nil {
			answers = append(answers, c.own)
			c.own = nil
		}
	}
	if !ex.batch || len(answers) == 0 && len(ex.calls) > 0 { // these want no answer
		return answers
	}
	return joined(answers)
}

// joined makes a list of answers. A long one is a piece of its own, so that it is not copied.
func joined(answers [][]byte) (parts [][]byte) {
	const long = 16 << 10
	out := []byte{'['}
	for i, answer := range answers {
		if i > 0 {
			out = append(out, ',')
		}
		if len(answer) < long {
			out = append(out, answer...)
			continue
		}
		parts = append(parts, out, answer)
		out = nil
	}
	return append(parts, append(out, ']'))
}

// runDirect runs a plain handler where the request is read: a goroutine of its own, with a
// stack that has to grow first, would cost more than many handlers.
func (ex *exchange) runDirect(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, ex.d.config.HTTP.RequestTimeout.Duration())
	defer cancel()
	ex.pending = 0
	c := &ex.calls[0]
	c.mode = inline
	c.own = ex.produce(ctx, c, func(ctx context.Context) (any, error) { return c.route.Handler(ctx, &c.params) })
	ex.answered(c)
}

// produce runs a call that has to wait and returns its answer. A heavy one waits for a permit, which lasts
// until its answer is written. The call also gives back the memory that it holds while it runs.
func (ex *exchange) produce(ctx context.Context, c *call, run func(context.Context) (any, error)) []byte {
	heavy := c.route.Weight > 0 && ex.d.heavy != nil
	if !heavy && !ex.batch {
		return ex.d.produce(ex.request, c, func() (any, error) { return run(ctx) })
	}
	ctx, part := capacity.Part(ctx)
	defer part.Close()
	if !heavy {
		return ex.d.produce(ex.request, c, func() (any, error) { return run(ctx) })
	}
	permit, err := ex.d.heavy.Enter(ctx, ex.request.holding, c.route.Weight, false)
	defer permit.Leave()
	return ex.d.produce(ex.request, c, func() (any, error) {
		if err != nil {
			return nil, err
		}
		result, err := run(ctx)
		if err == nil {
			err = holdText(part, result)
		}
		return result, err
	})
}

// holdText counts the text of a result whose length is not known before it is written. The text is written twice,
// and may be twice as long as what the call has read, since data is written in hex.
func holdText(part *capacity.Holding, result any) error {
	_, known := jsonx.Size(result)
	if _, more := result.(*Answer); known || more { // an Answer counts by itself
		return nil
	}
	return part.Take(int(4 * part.Held()))
}

// runPending runs what has to wait, each call in a goroutine, until all have
// answered or their time is up.
func (ex *exchange) runPending(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, ex.d.config.HTTP.RequestTimeout.Duration())
	defer cancel()
	g := &gate{left: ex.pending, done: make(chan struct{})}
	running := ex.launch(ctx, g)
	select {
	case <-g.done:
		ex.request.holding.Give((running - 1) * runBytes)
	case <-ctx.Done():
		g.waitGrace()
	}
	g.close()
	ex.collect()
}

// launch starts every two-phase call at once, so that its place in line never waits behind other items. It starts
// the others up to the limit, and returns how many run at the same time.
func (ex *exchange) launch(ctx context.Context, g *gate) (running int) {
	var queue []*call
	for i := range ex.calls {
		c := &ex.calls[i]
		switch c.mode {
		case ordered:
			await(ctx, c.second, func() { ex.runCall(ctx, g, c) })
		case direct, pooled:
			queue = append(queue, c)
		case inline, detached:
		}
	}
	var next atomic.Int64
	running = ex.runners(len(queue))
	for range running {
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
	return running
}

// runners is how many of the calls run at the same time: as many as the limit and the memory allow, but at least
// one.
func (ex *exchange) runners(calls int) int {
	limit := min(calls, ex.d.config.Batch.Concurrency)
	for n := 1; n < limit; n++ {
		if !ex.request.holding.TryTake(runBytes) {
			return n
		}
	}
	return limit
}

// runCall runs one call that has to wait and delivers its answer. Until the gate
// lets the answer in, c is only read.
func (ex *exchange) runCall(ctx context.Context, g *gate, c *call) {
	done := call{message: c.message, route: c.route}
	ctx, span := ex.itemSpan(ctx, c)
	done.own = ex.produce(ctx, &done, func(ctx context.Context) (any, error) {
		if c.second != nil {
			return c.second.Run(ctx)
		}
		if err := ctx.Err(); err != nil {
			return nil, err // the permit came too late
		}
		return c.route.Handler(ctx, &c.params)
	})
	span.endItem(&done)
	done.elapsed = time.Since(ex.started)
	delivered := g.deliver(func() {
		c.own, c.failed, c.failure, c.elapsed, c.sent = done.own, done.failed, done.failure, done.elapsed, done.sent
	})
	if !delivered && done.sent != nil {
		done.sent(false)
	}
}

// suspend forgets the body of a request whose only call waits for its turn: thousands of such calls may wait at the same time.
func (ex *exchange) suspend() {
	if m := ex.mode(); m == ordered || m == detached {
		c := &ex.calls[0]
		c.message = message{object: true, version: true, hasMethod: true, id: bytes.Clone(c.id)}
		c.params = Params{}
	}
}

// await calls f in a goroutine of its own: when the call's turn has come, or at once if the
// call cannot tell that.
func await(ctx context.Context, second Finish, f func()) {
	if p, ok := second.(Patient); ok && p.Notify(ctx, f) {
		return
	}
	go f()
}

// runDetached runs the second phase of the one call in this goroutine. The call has no time-out, so
// no other goroutine has to answer for it.
func (ex *exchange) runDetached(ctx context.Context) {
	c := &ex.calls[0]
	ex.answer(c, func() (any, error) { return c.second.Run(ctx) })
}

// settle tells the calls that asked for it whether their answer is on its way. Call it after finish.
func (ex *exchange) settle(sent bool) {
	for i := range ex.calls {
		if c := &ex.calls[i]; c.sent != nil {
			c.sent(sent && !c.failed && !c.notification)
		}
	}
}

// mode is how a call runs; doc.go has the table.
type mode uint8

const (
	// inline: the call is answered where the request is read. Its handler never waits, or the call was refused.
	inline mode = iota
	// direct: the call runs where the request is read, and may wait.
	direct
	// pooled: the call runs in a goroutine of its own; the number of such calls is bounded.
	pooled
	// ordered: the call has taken a place in line. Its second phase runs in a goroutine of its own
	// when its turn comes.
	ordered
	// detached: like ordered, but the call waits without a time-out and without the request's memory.
	detached
)

// modeOf decides how a call of the method runs.
func (ex *exchange) modeOf(m *Method) mode {
	alone, http := !ex.batch, ex.endpoint.transport == TransportHTTP
	switch {
	case m.Inline:
		return inline
	case m.Enter != nil && alone && !http:
		return detached
	case m.Enter != nil:
		return ordered
	case alone && http:
		return direct
	}
	return pooled
}

// mode returns the mode of the only call of a request; of a batch it returns inline.
func (ex *exchange) mode() mode {
	if ex.batch || len(ex.calls) == 0 {
		return inline
	}
	return ex.calls[0].mode
}

// collect gives the calls that have not ended in time their answer.
func (ex *exchange) collect() {
	for i := range ex.calls {
		c := &ex.calls[i]
		if c.mode != inline && c.own == nil {
			ex.d.metrics.abandoned.WithLabelValues(c.name()).Inc()
			ex.answerFault(c, known(eth.ErrRequestTimeout))
		}
		if c.notification {
			c.own = nil
		}
	}
}

// gate takes answers until it is closed. An answer that comes later cannot change what was sent
// instead of it.
type gate struct {
	mu     sync.Mutex
	left   int  // number of answers still to come; guarded by mu
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

// message is the envelope of one call. Its parts are views of the request's
// bytes, except a method name that was written with escapes.
type message struct {
	object    bool        // it is a JSON object at all
	version   bool        // "jsonrpc" is "2.0"
	hasMethod bool        // "method" is a string
	id        jsonx.Value // absent, or as the client wrote it
	method    []byte      // the name, without quotes
	params    jsonx.Value
}

// validID reports whether the id is one that an answer can repeat.
func (m *message) validID() bool {
	return m.id.Null() || m.id.IsString() || m.id.IsNumber()
}

// answerID is the id an answer carries: null where the call has no usable one.
func (m *message) answerID() jsonx.Value {
	if m.validID() {
		return m.id
	}
	return nil
}

// member takes one member of the envelope. The last of several equal keys wins;
// unknown members are ignored.
func (m *message) member(key, value []byte) {
	switch string(key) {
	case `"id"`:
		m.id = value
	case `"method"`:
		m.hasMethod = jsonx.Value(value).IsString()
		m.method = jsonx.Value(value).View()
	case `"params"`:
		m.params = value
	case `"jsonrpc"`:
		m.version = string(jsonx.Value(value).View()) == "2.0"
	default:
		if bytes.IndexByte(key, '\\') >= 0 {
			m.escaped(key, value)
		}
	}
}

// escaped takes a member whose key is written with escapes.
func (m *message) escaped(key, value []byte) {
	for _, name := range [...]string{"id", "method", "params", "jsonrpc"} {
		if jsonx.IsKey(key, name) {
			m.member([]byte(`"`+name+`"`), value)
		}
	}
}

// shape is what a body turned out to be.
type shape int

const (
	shapeBroken shape = iota // not JSON, or not UTF-8
	shapeScalar              // JSON, but neither object nor array
	shapeSingle
	shapeBatch
)

// parse checks a whole body and splits it into one call per object or batch item, but never more than limit; count is the number that the body holds. An empty body counts as an empty object.
func parse(body []byte, limit int) (calls []call, count int, s shape) {
	if !utf8.Valid(body) {
		return nil, 0, shapeBroken
	}
	i := jsonx.SkipSpace(body, 0)
	if i == len(body) {
		return []call{{message: message{object: true}}}, 1, shapeSingle
	}
	switch body[i] {
	case '{':
		calls = make([]call, 1)
		i, count, s = parseItem(&calls[0].message, body, i), 1, shapeSingle
	case '[':
		calls, i, count = parseItems(body, i, limit)
		s = shapeBatch
	default:
		i, s = jsonx.ScanValue(body, i, 0), shapeScalar
	}
	if i < 0 || jsonx.SkipSpace(body, i) != len(body) {
		return nil, 0, shapeBroken
	}
	return calls, count, s
}

// parseItem reads the value at b[i] as an envelope and returns its end, or -1.
func parseItem(m *message, b []byte, i int) int {
	if i >= len(b) || b[i] != '{' {
		return jsonx.ScanValue(b, i, 1)
	}
	m.object = true
	return jsonx.ScanObject(b, i, 1, m.member)
}

// parseItems reads the batch at b[i]. The items beyond limit are checked and counted.
func parseItems(b []byte, i, limit int) (calls []call, end, count int) {
	var beyond message
	calls = make([]call, 0, min(limit, bytes.Count(b, []byte(`"method"`)))) // few batches have more calls
	end = jsonx.ScanItems(b, i, func(start int) int {
		m := &beyond
		if count < limit {
			calls = append(calls, call{})
			m = &calls[len(calls)-1].message
		}
		count++
		return parseItem(m, b, start)
	})
	return calls, end, count
}

// An answer is written around its result so that nothing is encoded twice:
// appendResultHead and the result, or appendErrorHead and the error object, then appendTail.

func appendResultHead(dst []byte) []byte { return append(dst, `{"result":`...) }

func appendErrorHead(dst []byte) []byte { return append(dst, `{"error":`...) }

func appendTail(dst []byte, id jsonx.Value) []byte {
	dst = append(dst, `,"jsonrpc":"2.0","id":`...)
	if len(id) == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, id...)
	}
	return append(dst, '}')
}

// appendErrorObject writes {"code":…,"message":…,"data":…}. Data that cannot be
// encoded is left out: the error itself matters more.
func appendErrorObject(dst []byte, code int, message string, data any) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = jsonx.AppendString(dst, message)
	if data != nil {
		if out, ok := appendData(append(dst, `,"data":`...), data); ok {
			dst = out
		}
	}
	return append(dst, '}')
}

// appendData is jsonx.Append for values whose methods may panic.
func appendData(dst []byte, data any) (out []byte, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	out, err := jsonx.Append(dst, data)
	return out, err == nil
}
