package node

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// acceptor serves the connections of one node. Its gRPC server can be replaced while calls are
// under way: the old one says goodbye on its connections (HTTP/2 GOAWAY), finishes the
// calls it has, and gets no new ones. That is what a real node does every few seconds.
type acceptor struct {
	listeners []net.Listener
	build     func() *grpc.Server
	wg        sync.WaitGroup

	mu      sync.Mutex // guards all below
	current *generation
	all     []*generation // that have not ended
	ended   bool
}

// generation is one gRPC server and the connections that are for it. To the server it
// is a listener.
type generation struct {
	server *grpc.Server
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (g *generation) Accept() (net.Conn, error) {
	select {
	case conn := <-g.conns:
		return conn, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

func (g *generation) Close() error {
	g.once.Do(func() { close(g.closed) })
	return nil
}

func (g *generation) Addr() net.Addr { return g.addr }

// renew starts a new generation. f.mu must be held.
func (f *acceptor) renew() {
	g := &generation{server: f.build(), addr: f.listeners[0].Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	f.current, f.all = g, append(f.all, g)
	f.wg.Go(func() { _ = g.server.Serve(g) }) // ends when the generation does
}

// goAway sends every client of the node away: their connections take no new calls, and
// new connections are served.
func (f *acceptor) goAway() {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.current
	if old == nil || f.ended {
		return
	}
	f.renew()
	f.wg.Go(func() {
		old.server.GracefulStop()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all = slices.DeleteFunc(f.all, func(g *generation) bool { return g == old })
	})
}

// run serves until ctx ends or a listener fails.
func (f *acceptor) run(ctx context.Context) error {
	f.mu.Lock()
	f.renew()
	f.mu.Unlock()
	failed := make(chan error, len(f.listeners))
	for _, l := range f.listeners {
		f.wg.Go(func() { failed <- f.accept(l) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	f.mu.Lock()
	f.ended = true
	remaining := slices.Clone(f.all)
	f.mu.Unlock()
	for _, l := range f.listeners {
		_ = l.Close() // accept ends
	}
	for _, g := range remaining {
		f.wg.Go(func() { stop(g.server) })
	}
	f.wg.Wait()
	return err
}

// accept gives the connections of a listener to the newest generation.
func (f *acceptor) accept(l net.Listener) error {
	for {
		conn, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			var temporary interface{ Temporary() bool }
			if errors.As(err, &temporary) && temporary.Temporary() {
				time.Sleep(acceptPause) //nolint:forbidigo // out of file descriptors: nothing to wait for
				continue
			}
			return err
		}
		f.deliver(conn)
	}
}

const acceptPause = 10 * time.Millisecond

func (f *acceptor) deliver(conn net.Conn) {
	for {
		f.mu.Lock()
		g, ended := f.current, f.ended
		f.mu.Unlock()
		if ended {
			_ = conn.Close()
			return
		}
		select {
		case g.conns <- conn:
			return
		case <-g.closed:
		}
	}
}
