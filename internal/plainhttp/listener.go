package plainhttp

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/capacity"
)

// Handler answers plain requests.
type Handler interface {
	// Takes tells whether requests for a path may be plain. The path is only valid
	// during the call.
	Takes(path []byte) bool
	// Holding opens the holding of a request whose body is long, before it arrives. A body
	// for which there is no memory is net/http's.
	Holding(r *Request) *capacity.Holding
	// ServePlain answers a request by calling Respond, once. The request is only valid
	// during the call. If it returns later, it has called Later, and the request goes on: whoever answers it calls
	// Done, in any goroutine and perhaps before ServePlain has returned. Meanwhile the connection has no goroutine.
	ServePlain(r *Request) (later bool)
}

// Config is what a Listener works with; all of it is required but Leaving.
type Config struct {
	// Server serves the connections that Accept returns. Its time-outs hold for plain
	// requests, too.
	Server *http.Server
	// Handler answers plain requests.
	Handler Handler
	// BodyLimit is the longest body of a plain request in bytes.
	BodyLimit int
	// Logger is told of panics.
	Logger *slog.Logger
	// Admit decides whether a connection is served, and closes it otherwise. leave is called
	// when the connection is closed.
	Admit func(net.Conn) (leave func(), ok bool)
	// Leaving tells that an answer is to end its connection; nil: none is.
	Leaving func() bool
}

// Listener is a net.Listener that answers plain requests by itself and returns a
// connection when something else has come.
type Listener struct {
	Config
	ctx      context.Context // that of requests
	listener net.Listener
	dates    dates
	memory   memory
	lookout  lookout
	restTime time.Duration // restTime, or another one in tests

	others chan net.Conn // for Accept
	failed chan error    // for Accept
	closed chan struct{} // closed by Close

	draining atomic.Bool
	mu       sync.Mutex
	conns    map[*conn]struct{} // guarded by mu
	empty    chan struct{}      // closed when draining and conns is empty; guarded by mu
}

// New makes a listener in front of ln. The contexts of requests come from ctx.
func New(ctx context.Context, ln net.Listener, c Config) *Listener {
	l := &Listener{
		Config:   c,
		ctx:      ctx,
		listener: ln,
		others:   make(chan net.Conn),
		failed:   make(chan error),
		closed:   make(chan struct{}),
		conns:    make(map[*conn]struct{}),
		empty:    make(chan struct{}),
		restTime: restTime,
	}
	l.lookout.l = l
	return l
}

// Run accepts connections until the listener is closed.
func (l *Listener) Run() {
	for {
		accepted, err := l.listener.Accept()
		if err != nil {
			// It is the http.Server that knows which errors pass and how long to wait.
			select {
			case l.failed <- err:
				continue
			case <-l.closed:
				return
			}
		}
		leave, ok := l.Admit(accepted)
		if !ok {
			continue
		}
		tcp, ok := accepted.(*net.TCPConn)
		if !ok {
			go l.hand(&replayed{Socket: Socket{accepted}, leave: leave})
			continue
		}
		if c, ok := l.enroll(tcp, leave); ok {
			go c.run()
		}
	}
}

// Accept returns the next connection for net/http.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.others:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// hand gives a connection to whoever accepts.
func (l *Listener) hand(c net.Conn) {
	select {
	case l.others <- c:
	case <-l.closed:
		_ = c.Close()
	}
}

// Addr returns the address of the listener behind.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Close stops accepting and closes the connections without a request. The others are
// closed when their request has been answered.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining.Swap(true) {
		return nil
	}
	close(l.closed)
	for c := range l.conns {
		c.closeIdle()
	}
	if len(l.conns) == 0 {
		close(l.empty)
	}
	return l.listener.Close()
}

// Wait waits for the end of all connections after Close; the error is that of the context.
func (l *Listener) Wait(ctx context.Context) error {
	select {
	case <-l.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Abort closes all connections, whatever they are at.
func (l *Listener) Abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		c.abort()
	}
}

func (l *Listener) enroll(tcp *net.TCPConn, leave func()) (*conn, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining.Load() {
		leave()
		_ = tcp.Close()
		return nil, false
	}
	c := newConn(l, tcp)
	c.leave = leave
	l.conns[c] = struct{}{}
	return c, true
}

func (l *Listener) dismiss(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	if l.draining.Load() && len(l.conns) == 0 {
		close(l.empty)
	}
}
