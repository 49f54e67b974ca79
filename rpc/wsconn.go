package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"lockstep/internal/relay/apikey"
	"lockstep/internal/relay/capacity"
)

// Close codes of this server's own, and the reasons that go with them.
const (
	closeTooManyPerIP = 4001
	closeInactive     = 4002
	closeTooMany      = 4003

	reasonTooManyPerIP = "Exceeded maximum connections from a single IP address"
	reasonInactive     = "Connection timeout expired"
	reasonTooMany      = "Connection limit exceeded"
	reasonShutdown     = "server is shutting down"
	reasonTooBig       = "message is over the size limit"
	reasonSlow         = "client reads too slowly"
	reasonNotUTF8      = "text is not UTF-8"
	reasonBusy         = "no memory for a message of this size now"
	reasonRevoked      = "the API key is not valid any more"
)

// abandonGrace is how long a connection waits for its cancelled calls: long enough for those that time out to be
// answered.
const abandonGrace = answerGrace + 500*time.Millisecond

// lingerTime is how long this side reads on after it has closed a connection. Unread input would
// make the network drop the close frame.
const lingerTime = time.Second

// ending is why this side ends a connection.
type ending struct {
	code   int
	reason string
	notice []byte // payload of a text frame that goes before the close frame; nil: none
	drop   bool   // waiting frames are not sent
	drain  bool   // messages in progress are finished first
}

// wsConn is one client. One goroutine reads messages and answers those that do not have to
// wait. A message that waits has a goroutine of its own; slots bounds how many there are. Another goroutine sends, while there is
// something to send. So an idle connection costs one goroutine and one small buffer.
type wsConn struct {
	server  *WSServer
	ws      *websocket.Conn // read side; only for the reader
	net     *guardedConn
	ip      string
	client  string         // the client that the address belongs to
	holder  *apikey.Holder // of the key that it was opened with; nil: none
	started time.Time
	out     *sendQueue
	ctx     context.Context    // of the connection's calls
	cancel  context.CancelFunc // ends ctx
	slots   chan struct{}
	timer   *time.Timer // runs tick

	lastActive atomic.Int64 // Unix nanoseconds
	nextPing   time.Time    // only for tick; zero: no pings
	ending     atomic.Pointer[ending]
	stop       chan struct{} // closed when ending is set

	// Owned by the reader.
	arrival *capacity.Holding // of the message at hand
}

// newWSConn makes a connection whose calls do not end with the upgrade request that
// it came from.
func newWSConn(upgrade context.Context, s *WSServer, ws *websocket.Conn, ip string) *wsConn {
	conn := ws.NetConn().(*guardedConn) // both servers guard their listeners
	ctx, cancel := context.WithCancel(context.WithoutCancel(upgrade))
	c := &wsConn{
		server:  s,
		ws:      ws,
		net:     conn,
		ip:      ip,
		client:  capacity.ClientOf(ip),
		started: time.Now(),
		slots:   make(chan struct{}, s.config.MaxInFlight),
		stop:    make(chan struct{}),
		ctx:     ctx,
		cancel:  cancel,
	}
	c.out = &sendQueue{
		writers: &s.writers, conn: conn.Conn, timeout: s.config.WriteTimeout.Duration(), notice: s.d.notice, failed: c.failed, written: make(chan struct{}),
	}
	c.touch()
	// This side sends everything through the send queue, even the answers that the library would
	// send by itself.
	conn.muted = true
	ws.SetPingHandler(func(data string) error {
		c.out.put(frame{opcode: opPong, payload: [][]byte{[]byte(data)}}, queueLimit)
		return nil
	})
	ws.SetCloseHandler(func(int, string) error { return nil })
	return c
}

func (c *wsConn) touch() { c.lastActive.Store(time.Now().UnixNano()) }

// end makes the reader stop and close the connection. The first reason counts; end returns
// whether it was the first.
func (c *wsConn) end(e ending) bool {
	if !c.ending.CompareAndSwap(nil, &e) {
		return false
	}
	close(c.stop)
	if e.drop {
		c.out.drop()
	}
	// This fails only if the connection is closed already.
	_ = c.net.SetReadDeadline(time.Unix(1, 0))
	return true
}

// run serves the connection to its end, and then the server forgets it.
func (c *wsConn) run() {
	defer c.server.dismiss(c)
	defer func() {
		if p := recover(); p != nil {
			c.server.d.log.Error("websocket connection panicked", "ip", c.ip, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	c.serve()
}

func (c *wsConn) serve() {
	defer func() { _ = c.net.Close() }()
	defer c.out.fail()
	defer c.timer.Stop()
	defer c.cancel()
	err := c.read(c.ctx)
	e := c.ending.Load()
	if e == nil {
		e = c.clientEnding(err)
	}
	if e.drop {
		c.out.drop()
	}
	if !e.drain {
		c.cancel()
	}
	c.awaitMessages()
	c.out.seal(e.frames())
	c.awaitWritten(e.drop)
	c.linger(err)
	c.server.d.log.DebugContext(c.ctx, "websocket closed", "ip", c.ip, "code", e.code)
}

// awaitWritten waits until the last frames are written. A client that takes what there is to write in small pieces, each just in
// time, does not make that last for hours.
func (c *wsConn) awaitWritten(drop bool) {
	const longer = 6 // where all that waited is written, and not the frame at hand alone
	limit := c.server.config.WriteTimeout.Duration()
	if !drop {
		limit *= longer
	}
	defer time.AfterFunc(limit, func() { _ = c.net.Close() }).Stop()
	<-c.out.written
}

// clientEnding returns what to do when reading failed and this side did not end the connection:
// repeat the client's close code, or say that the client broke the protocol. If it did neither, there is nothing to send.
func (c *wsConn) clientEnding(err error) *ending {
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
		code := closed.Code
		if code == websocket.CloseNoStatusReceived {
			code = websocket.CloseNormalClosure
		}
		return &ending{code: code}
	}
	if c.net.spoke {
		return &ending{code: websocket.CloseProtocolError, reason: strings.TrimPrefix(err.Error(), "websocket: "), drop: true}
	}
	return &ending{drop: true}
}

// frames are the last frames of a connection.
func (e *ending) frames() []frame {
	var frames []frame
	if e.notice != nil {
		frames = append(frames, textFrame(e.notice))
	}
	if e.code != 0 {
		frames = append(frames, closeFrame(e.code, e.reason))
	}
	return frames
}

// linger reads what the client still sends, for lingerTime.
func (c *wsConn) linger(readErr error) {
	var closed *websocket.CloseError
	if errors.As(readErr, &closed) {
		return // the client sends nothing after its close frame
	}
	if err := c.net.CloseWrite(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return
	}
	if c.net.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	const limit = 16 * megabyte
	_, _ = io.CopyN(io.Discard, c.net, limit)
}

// read handles messages until the connection ends and says why it did.
func (c *wsConn) read(ctx context.Context) error {
	for {
		body, err := c.receive()
		if err != nil {
			return err
		}
		select {
		case <-c.stop:
			c.arrival.Close()
			return errStopped
		case c.slots <- struct{}{}:
		}
		holder, ok := c.currentHolder()
		if !ok {
			<-c.slots
			c.arrival.Close()
			return errStopped
		}
		c.handle(ctx, holder, body)
		c.arrival = nil // it belongs to the message, and the next one may be long in coming
	}
}

// receive reads one message.
func (c *wsConn) receive() ([]byte, error) {
	select {
	case <-c.stop: // messages that the network has buffered are not begun
		return nil, errStopped
	default:
	}
	kind, src, err := c.ws.NextReader()
	if err != nil {
		return nil, err
	}
	c.arrival = new(capacity.Holding)
	c.arrival.Begin(c.server.d.memory, c.ip)
	body, err := readAll(src, c.server.messageLimit(), c.arrival)
	if err != nil {
		c.arrival.Close()
	}
	switch exceeded := (*capacity.Exceeded)(nil); {
	case errors.As(err, &exceeded):
		c.end(ending{code: websocket.CloseTryAgainLater, reason: reasonBusy})
		return nil, err
	case errors.Is(err, errBodyTooLarge):
		c.end(ending{code: websocket.CloseMessageTooBig, reason: reasonTooBig})
		return nil, err
	case err != nil:
		return nil, err
	case kind == websocket.TextMessage && !utf8.Valid(body):
		c.arrival.Close()
		c.end(ending{code: websocket.CloseInvalidFramePayloadData, reason: reasonNotUTF8})
		return nil, errNotUTF8
	}
	c.touch()
	c.server.d.metrics.ws.messages.Inc()
	return body, nil
}

var (
	errNotUTF8 = errors.New("text message is not UTF-8")
	errStopped = errors.New("connection is being closed")
)

// awaitMessages waits until the answers of all messages in progress are sent: it takes all slots. Once the
// context of the calls has ended, it waits for abandonGrace only, because a detached call may take
// longer; that call then goes on without its connection.
func (c *wsConn) awaitMessages() {
	var late <-chan time.Time
	ended := c.ctx.Done()
	for taken := 0; taken < cap(c.slots); {
		select {
		case c.slots <- struct{}{}:
			taken++
		case <-ended:
			t := time.NewTimer(abandonGrace)
			defer t.Stop()
			ended, late = nil, t.C
		case <-late:
			return
		}
	}
}

// handle begins a message and, if nothing in it has to wait, finishes it. The message holds a
// slot until its answer is sent.
func (c *wsConn) handle(ctx context.Context, holder *apikey.Holder, body []byte) {
	request, r := withRequest(ctx, Request{ID: uuid.NewString(), IP: c.ip, Transport: TransportWebSocket, Conn: c, holding: c.arrival, holder: holder})
	d := c.server.d
	if d.tracer.Enabled() {
		request.beginSpan(d, nil, "")
	}
	ctx = request
	d.wsInFlight.Inc()
	ex := d.begin(ctx, TransportWebSocket, r, body)
	c.count(ex)
	if ex.pending == 0 {
		c.finish(ctx, ex)
		return
	}
	if ex.suspend(); ex.mode() == detached {
		await(ctx, ex.calls[0].second, func() { c.finish(ctx, ex) })
		return
	}
	go c.finish(ctx, ex)
}

func (c *wsConn) finish(ctx context.Context, ex *exchange) {
	sent, holding := false, ex.request.holding
	free := func() {
		holding.Close()
		<-c.slots
	}
	if parts := ex.finish(ctx); parts != nil {
		sent = c.out.answer(frame{opcode: opText, payload: parts, free: free})
	} else {
		free()
	}
	if sent {
		c.touch()
	}
	ex.settle(sent)
	ex.observeWS(ctx)
	ex.request.span.End(nil)
	c.server.d.wsInFlight.Dec()
}

// count counts the calls of a message.
func (c *wsConn) count(ex *exchange) {
	for i := range ex.calls {
		c.server.d.metrics.ws.methods.WithLabelValues(ex.calls[i].name()).Inc()
	}
}

// watch starts the timer for keep-alive frames and for idleness.
func (c *wsConn) watch() {
	if interval := c.server.config.PingInterval.Duration(); interval > 0 {
		c.nextPing = time.Now().Add(interval)
	}
	c.timer = time.AfterFunc(math.MaxInt64, c.tick)
	c.timer.Reset(c.untilTick(c.server.config.InactivityTTL.Duration()))
}

// untilTick returns the time until the next ping, or idle if that is less.
func (c *wsConn) untilTick(idle time.Duration) time.Duration {
	if c.nextPing.IsZero() {
		return idle
	}
	return min(idle, time.Until(c.nextPing))
}

// tick sends a keep-alive frame when one is due, and ends a connection that was idle for too long.
func (c *wsConn) tick() {
	if c.ctx.Err() != nil {
		return
	}
	if now := time.Now(); !c.nextPing.IsZero() && !now.Before(c.nextPing) {
		c.out.put(frame{opcode: c.server.pingOpcode, payload: [][]byte{c.server.pingPayload}}, queueLimit)
		c.nextPing = now.Add(c.server.config.PingInterval.Duration())
	}
	c.timer.Reset(c.untilTick(c.checkIdle(c.server.config.InactivityTTL.Duration())))
}

// failed closes a connection to which nothing can be sent any more.
func (c *wsConn) failed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.TooSlow() // unless it is known already
	}
	_ = c.net.Close()
}

// checkIdle ends a connection that was idle for its time to live, and returns after how long to
// look again.
func (c *wsConn) checkIdle(ttl time.Duration) time.Duration {
	quiet := time.Since(time.Unix(0, c.lastActive.Load()))
	if quiet < ttl {
		return ttl - quiet
	}
	if c.end(ending{
		code: closeInactive, reason: reasonInactive,
		notice: limitNotice(closeInactive, reasonInactive, "max_inactivity_TTL", ttl.Milliseconds()),
	}) {
		c.server.d.metrics.ws.limitedByTTL.Inc()
	}
	return ttl
}

// limitNotice returns the text frame that goes before a close code of this server's own.
func limitNotice(code int, message, key string, limit int64) []byte {
	text, _ := json.Marshal(map[string]any{ // never fails
		"jsonrpc": "2.0", "id": "1",
		"error": map[string]any{"code": code, "message": message, "data": map[string]any{"message": message, key: limit}},
	})
	return text
}

// refuse ends a connection that is over a limit, after its handshake. Without a code it sends nothing.
func refuse(c *wsConn, e ending) {
	defer func() { _ = c.net.Close() }()
	if e.code == 0 {
		return
	}
	wire := c.out.wire(e.frames())
	if c.out.send(&wire, time.Second) == nil {
		c.linger(nil)
	}
}

// Done implements Notifier.
func (c *wsConn) Done() <-chan struct{} { return c.ctx.Done() }

// OnClose implements Notifier.
func (c *wsConn) OnClose(f func()) { context.AfterFunc(c.ctx, f) }

// Notify implements Notifier.
func (c *wsConn) Notify(subscription string, e *Event) bool {
	for !e.hold(&c.server.notifications) {
		if !c.server.writers.endSlow() {
			c.TooSlow()
			return false
		}
	}
	ok, full := c.out.put(frame{opcode: opText, event: e, subscription: subscription}, c.server.config.NotifyLimit*megabyte)
	if full {
		c.TooSlow()
	}
	if ok {
		c.touch()
	}
	return ok
}

// TooSlow implements Notifier.
func (c *wsConn) TooSlow() {
	if c.end(ending{code: websocket.ClosePolicyViolation, reason: reasonSlow, drop: true}) {
		c.server.d.metrics.ws.slow.Inc()
	}
}
