package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"lockstep/internal/clientip"
	"lockstep/internal/httpserve"
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
	if origin == "" {
		return true
	}
	for _, allowed := range c.AllowedOrigins {
		if allowed == "*" || strings.EqualFold(allowed, origin) {
			return true
		}
	}
	return false
}
