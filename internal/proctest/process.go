package proctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is a running program.
type Process struct {
	Cmd   *exec.Cmd
	Log   *Tail         // of what it writes, where the command does not say where that goes
	Ended chan struct{} // closed when it is gone, and Log has all that it wrote
}

// Start starts a program that ends with this one, even if that is killed.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: cmd, Log: new(Tail), Ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Log
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Log
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	withParent(cmd.SysProcAttr)
	cmd.WaitDelay = time.Minute // a child of the program's must not keep it alive for us
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // by a signal, more often than not
		close(p.Ended)
	}()
	return p, nil
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

// Kill ends the process at once, as a crash does, and returns when it is gone. Killing a dead one does nothing.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended by itself
	<-p.Ended
}

// Freeze is the function for this process.
func (p *Process) Freeze() error { return Freeze(p.Cmd.Process) }

// Thaw is the function for this process.
func (p *Process) Thaw() error { return Thaw(p.Cmd.Process) }

// ErrEnded says that a process ended before it was ready.
var ErrEnded = errors.New("the process ended")

// Until repeats look until it finds nothing wrong. An error has the end of the log; it is ErrEnded if the process ended first.
func (p *Process) Until(ctx context.Context, limit time.Duration, look func() error) error {
	if err := until(ctx, limit, p.Ended, look); err != nil {
		const shown = 4 << 10
		return fmt.Errorf("%s: %w\n%s", filepath.Base(p.Cmd.Path), err, p.Log.Last(shown))
	}
	return nil
}

// Says waits for a line of the log that read takes.
func (p *Process) Says(ctx context.Context, limit time.Duration, read func(line []byte) bool) error {
	return p.Until(ctx, limit, func() error { return p.Log.line(read) })
}

// Until repeats look until it finds nothing wrong.
func Until(ctx context.Context, limit time.Duration, look func() error) error {
	return until(ctx, limit, nil, look)
}

// until looks less often the longer it takes, so that a busy machine is not made busier, and once more when the time is over or the
// process has ended: this one may have stood still.
func until(ctx context.Context, limit time.Duration, ended <-chan struct{}, look func() error) error {
	end, gone := time.Now().Add(limit), false
	for pause := 5 * time.Millisecond; ; pause = min(pause+pause/8, 100*time.Millisecond) {
		over := time.Now().After(end)
		err := look()
		switch {
		case err == nil:
			return nil
		case gone:
			return fmt.Errorf("%w: %w", ErrEnded, err)
		case over:
			return fmt.Errorf("not within %v: %w", limit, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-ended:
			gone = true
		case <-time.After(pause):
		}
	}
}

// What the kernel says of a process's memory: what is resident, the most that ever was, and what is resident without the
// pages of files, such as the program itself, which the system shares and takes back.
const (
	Resident     = "VmRSS"
	PeakResident = "VmHWM"
	Anonymous    = "RssAnon"
)

// Memory returns one of those in bytes.
func (p *Process) Memory(kind string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\n"+kind+":")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kilobytes, err := strconv.Atoi(number)
	return kilobytes << 10, err
}

// FreePort is KeepPort until the test ends.
func FreePort(t testing.TB) int {
	t.Helper()
	port, release, err := KeepPort()
	if err != nil {
		t.Fatalf("proctest: %v", err)
	}
	t.Cleanup(release)
	return port
}

// Freeze stops a process as a paused machine does: nothing of it runs, its connections stay. It returns when that is so.
// The kernel gives the signal to one thread, which stops the others when it next has a processor; on a busy machine they
// can answer a request in between.
func Freeze(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return stopped(p.Pid)
}

// Thaw lets a frozen process go on.
func Thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
