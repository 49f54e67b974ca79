package fleet

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 30 * time.Second // the machine may be building something else
	stopLimit  = 40 * time.Second // a relay may wait for verdicts before it ends
	logKept    = 4 << 20          // bytes of a program's log
	logShown   = 32 << 10         // of it, when a test fails; all of it at level debug
	normal     = 5 * time.Second  // within which a client is answered, trouble or not
)

// logLevel names the variable that sets the relays' log level.
const logLevel = "LOCKSTEP_LOG_LEVEL"

// process is one running program of ours.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	log    *tail
	ended  chan struct{} // closed when the process is gone
}

// start runs the program. It ends with the test, whatever happens.
func start(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	if err := lookAtSources(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, log: &tail{limit: logKept}, ended: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Dir = t.TempDir() // no .env file of the developer's
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}, env...)
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = withParent()
	p.cmd.WaitDelay = time.Second
	out, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = writer
	p.stdout = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	go func() {
		_ = p.cmd.Wait() // by a signal, more often than not
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		out.Close()
		if t.Failed() {
			shown := logShown
			if os.Getenv(logLevel) != "" {
				shown = logKept
			}
			t.Logf("%s: the end of its log:\n%s", name, p.log.last(shown))
		}
	})
	return p
}

// readLine gives the first line of stdout and drops what follows.
func (p *process) readLine() []byte {
	p.t.Helper()
	lines := make(chan []byte, 1)
	go func() {
		line, _ := p.stdout.ReadBytes('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, p.stdout) // so that the program never blocks on a full pipe
	}()
	select {
	case line := <-lines:
		if len(line) == 0 {
			p.t.Fatalf("%s said nothing\n%s", p.cmd.Args, p.log)
		}
		return line
	case <-time.After(startLimit):
		p.t.Fatalf("%s is not ready after %v\n%s", p.cmd.Args, startLimit, p.log)
		return nil
	}
}

// signal sends a signal to this one process.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// freeze stops the process as a paused machine does: nothing of it runs, its
// connections stay.
func (p *process) freeze() { p.t.Helper(); p.signal(syscall.SIGSTOP) }

// thaw lets a frozen process go on.
func (p *process) thaw() { p.t.Helper(); p.signal(syscall.SIGCONT) }

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// exit waits until the process has ended by itself and gives its exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(stopLimit):
		p.t.Fatalf("%s still runs after %v\n%s", p.cmd.Args, stopLimit, p.log)
		return -1
	}
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	text  []byte
}

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	if over := len(w.text) - w.limit; over > 0 {
		w.text = bytes.Clone(w.text[over:])
	}
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

func (w *tail) last(n int) string {
	text := w.String()
	return text[max(0, len(text)-n):]
}

func (w *tail) has(text string) bool { return strings.Contains(w.String(), text) }

// until waits for a condition, for at most limit.
func until(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %v: %s", limit, what)
		case <-poll.C:
		}
	}
}

// pace calls f count times, the given time apart.
func pace(apart time.Duration, count int, f func(i int)) {
	tick := time.NewTicker(apart)
	defer tick.Stop()
	for i := range count {
		f(i)
		if i < count-1 {
			<-tick.C
		}
	}
}

// pause lets time go by where time itself is the trouble, such as a relay that is
// frozen for longer than its heartbeat lives.
func pause(d time.Duration) { <-time.After(d) }
