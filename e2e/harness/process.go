package harness

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/proctest"
)

// What takes longer than these limits is stuck, however slow the machine is.
const (
	// StartLimit is for a program to be ready, and for whatever a test waits for.
	StartLimit = 5 * time.Minute
	// stopLimit is for a program to end; a relay may wait for verdicts before it does.
	stopLimit = 5 * time.Minute
	// endLimit is for a program that has ended to be read to the end.
	endLimit = time.Minute
	logKept  = 4 << 20 // bytes of a program's log
)

// Command is what to run.
type Command struct {
	Name     string // in the test's log
	Program  string // another build of the program; empty = the one under test
	Settings []string
	Args     []string
	// Rough ends it with the test as a crash does; else SIGTERM has to be enough.
	Rough bool
	// Shown is how much of its log a failed test shows, in bytes.
	Shown int
}

// Process is one running program of ours.
type Process struct {
	Log   *Tail         // what it wrote to stderr
	Ended chan struct{} // closed when it is gone
	Dir   string        // its working directory, where it looks for its .env file

	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
}

// Start runs the program. It ends with the test, whatever happens.
func (c Command) Start(t *testing.T) *Process {
	t.Helper()
	p := &Process{t: t, Log: &Tail{Limit: logKept}, Ended: make(chan struct{}), Dir: t.TempDir()}
	p.cmd = exec.Command(cmp.Or(c.Program, Program(t)), c.Args...) //nolint:noctx // ended by signals
	p.cmd.Dir = p.Dir                                              // no .env file of the developer's
	// Nobody here has to take notice of a relay that stops; a setting of the test's counts.
	p.cmd.Env = append(append(Environment(), "SHUTDOWN_DRAIN_DELAY_MS=0"), c.Settings...)
	p.cmd.Stderr = p.Log
	p.cmd.SysProcAttr = proctest.WithParent()
	p.cmd.WaitDelay = endLimit // a child of the program's must not keep it alive for us
	out, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = writer
	p.stdout = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	go func() {
		_ = p.cmd.Wait() // by a signal, more often than not
		close(p.Ended)
	}()
	t.Cleanup(func() {
		if c.Rough {
			p.Kill()
		} else {
			p.Stop()
		}
		_ = out.Close()
		if t.Failed() {
			t.Logf("%s: the end of its log:\n%s", c.Name, p.Log.Last(c.Shown))
		}
	})
	return p
}

// ReadReady decodes the first line of stdout, which says that the program is ready, and
// drops what follows.
func (p *Process) ReadReady(into any) {
	p.t.Helper()
	lines := make(chan []byte, 1)
	go func() {
		line, _ := p.stdout.ReadBytes('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, p.stdout) // so that the program never blocks on a full pipe
	}()
	select {
	case line := <-lines:
		if err := json.Unmarshal(line, into); err != nil {
			p.t.Fatalf("%s is not ready: %v\n%s\n%s", p.cmd.Args, err, line, p.Log)
		}
	case <-time.After(StartLimit):
		p.t.Fatalf("%s is not ready after %v\n%s", p.cmd.Args, StartLimit, p.Log)
	}
}

// ready is what a program logs of where it listens: the ports may be of the kernel's choice.
type ready struct{ Msg, HTTP, WS, Admin, URL string }

// logged waits until the program logs that it is ready.
func (p *Process) logged(msg string) (found ready) {
	p.t.Helper()
	Until(p.t, StartLimit, msg, func() bool {
		if !p.Alive() {
			p.t.Fatalf("%s ended\n%s", p.cmd.Args, p.Log)
		}
		for line := range strings.Lines(p.Log.String()) {
			found = ready{}
			if json.Unmarshal([]byte(line), &found) == nil && found.Msg == msg {
				return true
			}
		}
		return false
	})
	return found
}

// Addresses waits until a relay says where it listens.
func (p *Process) Addresses() (http, ws, admin string) {
	p.t.Helper()
	found := p.logged("relay is ready")
	return found.HTTP, found.WS, found.Admin
}

// URL waits until another program says with these words where it listens.
func (p *Process) URL(msg string) string { p.t.Helper(); return p.logged(msg).URL }

// Signal sends a signal to this one process.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// Freeze stops the process as a paused machine does: nothing of it runs, its connections
// stay.
func (p *Process) Freeze() {
	p.t.Helper()
	if err := proctest.Freeze(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// Thaw lets a frozen process go on.
func (p *Process) Thaw() { p.t.Helper(); p.Signal(syscall.SIGCONT) }

// Kill ends the process as a crash does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.Ended
}

// Exit waits until the process has ended by itself and gives its exit code.
func (p *Process) Exit() int {
	p.t.Helper()
	select {
	case <-p.Ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(stopLimit):
		p.t.Fatalf("%s still runs after %v\n%s", p.cmd.Args, stopLimit, p.Log)
		return -1
	}
}

// Alive tells whether the process has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Stop ends the process with SIGTERM, which it has to follow. One that a test has left frozen goes on for it.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.Ended:
	case <-time.After(stopLimit):
		p.t.Errorf("%s ignored SIGTERM for %v", p.cmd.Args, stopLimit)
		p.Kill()
	}
}

// Memory is the process's resident memory, in bytes.
func (p *Process) Memory() int { p.t.Helper(); return p.memory("VmRSS") }

// OwnMemory is Memory without the pages of the program's file, which the system shares and takes back.
func (p *Process) OwnMemory() int { p.t.Helper(); return p.memory("RssAnon") }

func (p *Process) memory(field string) int {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				p.t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	p.t.Fatalf("no %s:\n%s", field, text)
	return 0
}

// Until waits for a condition, for a maximum of limit. It looks less often the longer that takes, so
// that a busy machine is not made busier, and once more when the time is over: this process may
// have stood still.
func Until(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for pause := 5 * time.Millisecond; ; pause = min(pause+pause/8, 100*time.Millisecond) {
		over := time.Now().After(deadline)
		if holds() {
			return
		}
		if over {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(pause)
	}
}
