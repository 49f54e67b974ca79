package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// What takes longer than these limits is stuck, however slow the machine is.
const (
	// StartLimit is for a program to be ready, and for whatever a test waits for.
	StartLimit = 5 * time.Minute
	// stopLimit is for a program to end; a relay may wait for verdicts before it does.
	stopLimit = 5 * time.Minute
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

// Process is one running program of a test. Its log is what it writes to stderr.
type Process struct {
	*proctest.Process
	Dir string // its working directory, where it looks for its .env file

	t   testing.TB
	out *proctest.Tail // what it wrote to stdout
}

// Start runs the program. It ends with the test, whatever happens.
func (c Command) Start(t *testing.T) *Process {
	t.Helper()
	cmd := exec.Command(cmp.Or(c.Program, Program(t)), c.Args...) //nolint:noctx // ended by signals
	cmd.Dir = t.TempDir()                                         // no .env file of the developer's
	// Nobody here has to take notice of a relay that stops; a setting of the test's counts.
	cmd.Env = append(append(Environment(), "SHUTDOWN_DRAIN_DELAY_MS=0"), c.Settings...)
	p := &Process{t: t, Dir: cmd.Dir, out: new(proctest.Tail)}
	cmd.Stdout = p.out
	p.begin(cmd, c.Name, c.Shown, func() {
		if c.Rough {
			p.Kill()
		} else {
			p.Stop()
		}
	})
	return p
}

// Run runs any program. It is killed when the test ends, and its log has what it writes to stdout, too.
func Run(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, Dir: cmd.Dir}
	p.begin(cmd, filepath.Base(cmd.Path), 1<<20, func() { p.Kill() })
	return p
}

func (p *Process) begin(cmd *exec.Cmd, name string, shown int, end func()) {
	p.t.Helper()
	var err error
	if p.Process, err = proctest.Start(cmd); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		end()
		if p.t.Failed() {
			p.t.Logf("%s: the end of its log:\n%s", name, p.Log.Last(shown))
		}
	})
}

// ReadReady decodes the first line of stdout, which says that the program is ready.
func (p *Process) ReadReady(into any) {
	p.t.Helper()
	p.must(p.Until(context.Background(), StartLimit, func() error {
		line, _, whole := strings.Cut(p.out.String(), "\n")
		if !whole {
			return errors.New("not ready")
		}
		if err := json.Unmarshal([]byte(line), into); err != nil {
			p.t.Fatalf("%s is not ready: %v\n%s\n%s", p.Cmd.Args, err, line, p.Log)
		}
		return nil
	}))
}

// ready is what a program logs of where it listens: the ports may be of the kernel's choice.
type ready struct{ Msg, HTTP, WS, Admin, URL string }

// logged waits until the program logs that it is ready.
func (p *Process) logged(msg string) (found ready) {
	p.t.Helper()
	p.must(p.Says(context.Background(), StartLimit, func(line []byte) bool {
		found = ready{}
		return json.Unmarshal(line, &found) == nil && found.Msg == msg
	}))
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

func (p *Process) must(err error) {
	p.t.Helper()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// Signal sends a signal to this one process.
func (p *Process) Signal(s os.Signal) { p.t.Helper(); p.must(p.Cmd.Process.Signal(s)) }

// Freeze stops the process as a paused machine does: nothing of it runs, its connections
// stay.
func (p *Process) Freeze() { p.t.Helper(); p.must(p.Process.Freeze()) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() { p.t.Helper(); p.must(p.Process.Thaw()) }

// Exit waits until the process has ended by itself and gives its exit code.
func (p *Process) Exit() int {
	p.t.Helper()
	select {
	case <-p.Ended:
		return p.Cmd.ProcessState.ExitCode()
	case <-time.After(stopLimit):
		p.t.Fatalf("%s still runs after %v\n%s", p.Cmd.Args, stopLimit, p.Log)
		return -1
	}
}

// Stop ends the process with SIGTERM, which it has to follow. One that a test has left frozen goes on for it.
func (p *Process) Stop() {
	_ = p.Cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	_ = p.Process.Thaw()
	select {
	case <-p.Ended:
	case <-time.After(stopLimit):
		p.t.Errorf("%s ignored SIGTERM for %v", p.Cmd.Args, stopLimit)
		p.Kill()
	}
}

// Memory is the process's resident memory, in bytes.
func (p *Process) Memory() int { p.t.Helper(); return p.memory(proctest.Resident) }

// OwnMemory is Memory without the pages of the program's file, which the system shares and takes back.
func (p *Process) OwnMemory() int { p.t.Helper(); return p.memory(proctest.Anonymous) }

func (p *Process) memory(kind string) int {
	p.t.Helper()
	bytes, err := p.Process.Memory(kind)
	p.must(err)
	return bytes
}

// Until waits for a condition.
func Until(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	must.Do(t, proctest.Until(context.Background(), limit, func() error {
		if holds() {
			return nil
		}
		return errors.New(what)
	}))
}
