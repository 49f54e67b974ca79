package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/proctest"
)

// patience is how long a server may take to start or to answer. Machines that test are busy.
const patience = 2 * time.Minute

// Server is one redis-server process.
type Server struct {
	t    testing.TB
	dir  string
	args []string
	port int

	mu   sync.Mutex // guards all below
	cmd  *exec.Cmd
	done chan struct{}
	out  *bytes.Buffer
}

// Start runs one server without persistence. The arguments are added to its command line.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), args: args}
	// Another process may take a port between its choice and its use.
	for try := 0; ; try++ {
		s.port = proctest.FreePort(t)
		err := s.launch()
		if err == nil {
			break
		}
		if try == 4 {
			t.Fatal(err)
		}
	}
	t.Cleanup(s.Kill)
	return s
}

// Addr returns host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

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

// Kill ends the process at once, as a crash does. Killing a dead server does nothing.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop asks the process to end and waits until it has.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // a stopped process would not heed SIGTERM
	_ = s.cmd.Process.Signal(sig)
	<-s.done
	s.cmd = nil
}

// Running tells whether the process runs, or would if it were not paused.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd != nil
}

// Pause stops the process without ending it: connections stay, nothing answers.
func (s *Server) Pause() { s.running(proctest.Freeze) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.running(proctest.Thaw) }

func (s *Server) running(signal func(*os.Process) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Error("redistest: a signal to a server that does not run")
		return
	}
	if err := signal(s.cmd.Process); err != nil {
		s.t.Errorf("redistest: %v", err)
	}
}

// Restart starts a killed or stopped server again, on the same port. What it did not
// save, which is everything unless the arguments say otherwise, is lost.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.launch(); err != nil {
		s.t.Fatal(err)
	}
}

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		s.t.Fatalf("redistest: this test needs the redis-server program: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, s.args...)
	return s.exec(path, args)
}

// exec runs the program until it answers; s.mu is held.
func (s *Server) exec(path string, args []string) error {
	s.out = new(bytes.Buffer)
	s.cmd = exec.Command(path, args...) //nolint:noctx // ended by Kill, with its own signals
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.SysProcAttr = proctest.WithParent()
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	done := make(chan struct{})
	s.done = done
	go func(cmd *exec.Cmd) {
		defer close(done)
		_ = cmd.Wait() // ends by a signal of ours, or its output is shown
	}(s.cmd)
	if err := s.answers(done); err != nil {
		_ = s.cmd.Process.Kill()
		<-done
		s.cmd = nil
		return fmt.Errorf("redistest: %s did not start: %w\n%s", path, err, s.out)
	}
	return nil
}

func (s *Server) answers(done <-chan struct{}) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
	defer func() { _ = c.Close() }()
	return poll(patience, func() error {
		select {
		case <-done:
			return errEnded
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return c.Ping(ctx).Err()
	})
}

var errEnded = errors.New("the process ended")

// poll repeats f until it succeeds, the process ends, or time is up.
func poll(limit time.Duration, f func() error) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	end := time.Now().Add(limit)
	for {
		err := f()
		if err == nil || errors.Is(err, errEnded) || time.Now().After(end) {
			return err
		}
		<-ticker.C
	}
}

// writeFile puts a configuration into the server's directory.
func (s *Server) writeFile(name, text string) string {
	path := s.dir + "/" + name
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}
