package redistest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/redisx"
)

// patience is how long a server may take to start or to answer. Machines that test are busy.
const patience = 2 * time.Minute

// Server is one redis-server process.
type Server struct {
	t    testing.TB
	args []string
	port int

	mu      sync.Mutex // guards all below
	process *proctest.Process
}

// Start runs one server without persistence. The arguments are added to its command line.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	port := proctest.FreePort(t)
	return start(t, port, append(settings(t.TempDir(), port), args...))
}

func start(t testing.TB, port int, args []string) *Server {
	t.Helper()
	s := &Server{t: t, port: port, args: args}
	s.Restart()
	t.Cleanup(s.Kill)
	return s
}

// Run is Start for a program that is no test: the server has its files in dir.
func Run(ctx context.Context, dir string, port int, args ...string) (*proctest.Process, error) {
	return run(ctx, port, append(settings(dir, port), args...))
}

func settings(dir string, port int) []string {
	return []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no"}
}

// run runs the program and waits until it answers.
func run(ctx context.Context, port int, args []string) (*proctest.Process, error) {
	p, err := proctest.Start(exec.Command("redis-server", args...)) //nolint:noctx // ended by Kill
	if err != nil {
		return nil, fmt.Errorf("redistest: this needs the redis-server program: %w", err)
	}
	if err := p.Until(ctx, patience, func() error { return ping(ctx, port) }); err != nil {
		p.Kill()
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return p, nil
}

// ping asks without a client, which would log each failure.
func ping(ctx context.Context, port int) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address(port))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	const want = "+PONG\r\n"
	got := make([]byte, len(want))
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err = io.WriteString(conn, "PING\r\n"); err == nil {
		_, err = io.ReadFull(conn, got)
	}
	if err == nil && string(got) != want {
		err = fmt.Errorf("it answers %q", got)
	}
	return err
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Addr returns host:port.
func (s *Server) Addr() string { return address(s.port) }

// Port returns the port.
func (s *Server) Port() int { return s.port }

// URL returns redis://host:port.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Client returns a client for looking at the server. It is closed with the test.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr(), MaxRetries: -1, DisableIdentity: true, ContextTimeoutEnabled: true,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
	})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Dial returns a client of what a URL names, as the program has it, with much patience. It is closed with the test.
func Dial(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	c := must.Get(redisx.Open(url, redisx.Options{Timeout: patience}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Kill ends the process at once, as a crash does. Killing a dead server does nothing.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop asks the process to end and waits until it has.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	_ = s.process.Cmd.Process.Signal(sig)
	_ = s.process.Thaw() // a stopped process would not heed SIGTERM
	<-s.process.Ended
	s.process = nil
}

// Running tells whether the process runs, or would if it were not paused.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil
}

// Pause stops the process without ending it: connections stay, nothing answers.
func (s *Server) Pause() { s.running((*proctest.Process).Freeze) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.running((*proctest.Process).Thaw) }

func (s *Server) running(signal func(*proctest.Process) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		s.t.Error("redistest: a signal to a server that does not run")
		return
	}
	if err := signal(s.process); err != nil {
		s.t.Errorf("redistest: %v", err)
	}
}

// Restart starts a killed or stopped server again, on the same port. What it did not
// save, which is everything unless the arguments say otherwise, is lost.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.process, err = run(context.Background(), s.port, s.args); err != nil {
		s.t.Fatal(err)
	}
}
