package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/clientip"
	"lockstep/internal/httpserve"
	"lockstep/internal/relay/apikey"
	"lockstep/internal/relay/capacity"
)

// WSServer serves JSON-RPC over WebSocket. It is a http.Handler for
// upgrade requests, on any path; Run serves it on a listener of its own.
type WSServer struct {
	d        *Dispatcher
	config   *WebSocketConfig
	upgrader websocket.Upgrader

	pingOpcode  byte
	pingPayload []byte
	writers     writers

	notifications capacity.Holding // of all connections, that wait

	mu       sync.Mutex
	conns    map[*wsConn]struct{} // guarded by mu
	byIP     map[string]int       // open connections by client; guarded by mu
	refusing int                  // connections that are being refused; guarded by mu
	draining bool                 // guarded by mu
	empty    chan struct{}        // closed when draining and conns is empty
}

// NewWSServer makes a server for d's methods.
func NewWSServer(d *Dispatcher) *WSServer {
	s := &WSServer{
		d:      d,
		config: &d.config.WebSocket,
		upgrader: websocket.Upgrader{
			// Every connection keeps one of these. Long messages are read past it.
			ReadBufferSize:   512,
			WriteBufferPool:  new(sync.Pool), // frames do not pass through it
			HandshakeTimeout: 10 * time.Second,
			CheckOrigin:      d.config.WebSocket.allowsOrigin,
		},
		pingOpcode: opPing,
		conns:      make(map[*wsConn]struct{}),
		byIP:       make(map[string]int),
		empty:      make(chan struct{}),
	}
	s.notifications.Begin(d.memory, "notifications")
	count := s.busiest
	d.metrics.ws.most.Store(&count)
	if d.config.Profile == ProfileHiero {
		s.pingOpcode = opText
		s.pingPayload = []byte(`{"result":null,"jsonrpc":"2.0","id":null}`)
	}
	return s
}

// messageLimit is the largest message in bytes.
func (s *WSServer) messageLimit() int {
	if s.config.InputSizeLimit < 0 {
		return math.MaxInt
	}
	return s.config.InputSizeLimit * megabyte
}

// ServeHTTP upgrades a request. The connection is served in a goroutine of its own, so that the buffers of the
// HTTP server are free meanwhile.
func (s *WSServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isUpgrade(r) {
		http.Error(w, "Not Found", http.StatusNotFound)
		return
	}
	if s.stopping() {
		http.Error(w, "Service Unavailable", http.StatusServiceUnavailable)
		return
	}
	holder, f, ok := s.d.identify(r.Header)
	if !ok {
		s.refuseHandshake(w, r, f)
		return
	}
	ip := clientip.Of(r.Header, r.RemoteAddr, s.d.proxies)
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		s.d.log.DebugContext(r.Context(), "websocket handshake failed", "error", err)
		return
	}
	c := newWSConn(r.Context(), s, ws, ip)
	c.holder = holder
	if e, ok := s.enroll(c); !ok {
		defer s.refused()
		defer c.cancel()
		refuse(c, e)
		return
	}
	_, _ = c.currentHolder() // the key may have been revoked since it was looked up
	c.watch()
	go c.run()
}

func (s *WSServer) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// enroll registers a connection, or says how to refuse it.
func (s *WSServer) enroll(c *wsConn) (e ending, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.d.metrics.ws
	switch {
	case s.draining:
		e = ending{code: websocket.CloseGoingAway, reason: reasonShutdown}
	case len(s.conns) >= s.config.ConnectionLimit:
		m.limited.Inc()
		e = ending{code: closeTooMany, reason: reasonTooMany, notice: limitNotice(
			closeTooMany, reasonTooMany, "max_connection", int64(s.config.ConnectionLimit))}
	case s.byIP[c.client] >= s.config.ConnectionLimitPerIP:
		m.limitedByIP.Inc()
		e = ending{code: closeTooManyPerIP, reason: reasonTooManyPerIP, notice: limitNotice(
			closeTooManyPerIP, reasonTooManyPerIP, "max_connection", int64(s.config.ConnectionLimitPerIP))}
	default:
		s.conns[c] = struct{}{}
		s.byIP[c.client]++
		m.opened.Inc()
		m.active.Inc()
		return ending{}, true
	}
	// Each refusal with a reason takes a moment, so the number of refusals at a time has a limit of its own.
	const mostRefusals = 64
	if s.refusing++; s.refusing > mostRefusals {
		e = ending{}
	}
	return e, false
}

func (s *WSServer) refused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing--
}

// busiest is how many connections the client has that has most.
func (s *WSServer) busiest() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for _, n := range s.byIP {
		most = max(most, n)
	}
	return float64(most)
}

// dismiss forgets a connection that has ended.
func (s *WSServer) dismiss(c *wsConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.d.metrics.ws
	m.duration.Observe(time.Since(c.started).Seconds())
	delete(s.conns, c)
	m.closed.Inc()
	m.active.Dec()
	if s.byIP[c.client]--; s.byIP[c.client] == 0 {
		delete(s.byIP, c.client)
	}
	if s.draining && len(s.conns) == 0 {
		close(s.empty)
	}
}

// Run serves on ln until ctx ends, then lets messages in progress finish for the
// drain time-out and closes every connection with 1001. Where the HTTP server
// passes upgrade requests on, ln may be nil: Run then only waits and drains. It
// runs once. The error is nil after a complete drain.
func (s *WSServer) Run(ctx context.Context, ln net.Listener) error {
	if ln == nil {
		<-ctx.Done()
		return s.drain()
	}
	server := s.d.server(context.WithoutCancel(ctx), s)
	// Upgraded connections do not belong to the http.Server any more.
	err := httpserve.Until(ctx, server, s.d.guard(server, ln), 0)
	if err != nil {
		err = fmt.Errorf("serve websocket: %w", err)
	}
	return errors.Join(err, s.drain())
}

// drain ends all connections and waits for them, in two stages: first their
// messages in progress may finish, then these are cancelled.
func (s *WSServer) drain() error {
	conns := s.startDrain()
	for _, c := range conns {
		c.end(ending{code: websocket.CloseGoingAway, reason: reasonShutdown, drain: true})
	}
	if s.waitEmpty(s.d.config.HTTP.DrainTimeout.Duration()) {
		return nil
	}
	for _, c := range conns {
		c.cancel()
	}
	if !s.waitEmpty(closeSlack + lingerTime) {
		for _, c := range conns {
			_ = c.net.Close()
		}
	}
	return errors.New("drain websocket: messages were still in progress")
}

func (s *WSServer) startDrain() []*wsConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	conns := slices.Collect(maps.Keys(s.conns))
	if len(conns) == 0 {
		close(s.empty)
	}
	return conns
}

func (s *WSServer) waitEmpty(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-s.empty:
		return true
	case <-t.C:
		return false
	}
}

// isOrigin reports whether a setting is *, or an origin as browsers send it.
func isOrigin(text string) bool {
	if text == "*" {
		return true
	}
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != "" && u.User == nil &&
		strings.EqualFold(text, u.Scheme+"://"+u.Host)
}

// allowsOrigin tells whether the page that makes an upgrade request may connect. A
// request without an origin does not come from a page.
func (c *WebSocketConfig) allowsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	return origin == "" || slices.ContainsFunc(c.AllowedOrigins, func(allowed string) bool {
		return allowed == "*" || strings.EqualFold(allowed, origin)
	})
}

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
	notice []byte             // payload of a text frame that goes before the close frame; nil: none
	drop   bool               // waiting frames are not sent
	drain  bool               // messages in progress are finished first
	counts prometheus.Counter // of such endings; nil: nobody counts them
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

// end makes the reader stop and close the connection, for the first reason that it is given. It is counted before the client can know.
func (c *wsConn) end(e ending) {
	if !c.ending.CompareAndSwap(nil, &e) {
		return
	}
	if e.counts != nil {
		e.counts.Inc()
	}
	close(c.stop)
	if e.drop {
		c.out.drop()
	}
	// This fails only if the connection is closed already.
	_ = c.net.SetReadDeadline(time.Unix(1, 0))
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
	if closed, ok := errors.AsType[*websocket.CloseError](err); ok && closed.Code != websocket.CloseAbnormalClosure {
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
	if _, ok := errors.AsType[*websocket.CloseError](readErr); ok {
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
	c.end(ending{
		code: closeInactive, reason: reasonInactive, counts: c.server.d.metrics.ws.limitedByTTL,
		notice: limitNotice(closeInactive, reasonInactive, "max_inactivity_TTL", ttl.Milliseconds()),
	})
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
	c.end(ending{code: websocket.ClosePolicyViolation, reason: reasonSlow, drop: true, counts: c.server.d.metrics.ws.slow})
}
