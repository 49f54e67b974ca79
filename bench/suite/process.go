package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"lockstep/internal/sleep"
)

// startLimit is for a process to be ready; the machine may be busy.
const startLimit = 2 * time.Minute

// process is a running program. What it writes goes to a file.
type process struct {
	name  string
	log   string // path of the file
	cmd   *exec.Cmd
	ended chan struct{}
}

// start runs a program with the environment given and nothing else.
func (l *lab) start(name string, env []string, program string, args ...string) (*process, error) {
	return l.startAs(nil, l.dir, name, env, program, args...) // in no directory with an .env file of the caller's
}

// startAs runs a program as another user, or as ours without one.
func (l *lab) startAs(as *syscall.Credential, dir, name string, env []string, program string, args ...string) (*process, error) {
	l.started++
	p := &process{name: name, log: filepath.Join(l.dir, fmt.Sprintf("%03d-%s.log", l.started, name)), ended: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	p.cmd = exec.Command(program, args...) //nolint:noctx // ended by stop or kill, with their own signals
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}, env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = withParent()
	p.cmd.SysProcAttr.Credential = as
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ends by a signal of ours, or its output is shown
	}()
	return p, nil
}

// ready waits until a line of the output satisfies read.
func (p *process) ready(ctx context.Context, read func(line []byte) bool) error {
	return poll(ctx, startLimit, 20*time.Millisecond, func() error {
		select {
		case <-p.ended:
			return &fatal{fmt.Errorf("%s ended before it was ready:\n%s", p.name, p.tail())}
		default:
		}
		text, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if read(line) {
				return nil
			}
		}
		return fmt.Errorf("%s is not ready:\n%s", p.name, p.tail())
	})
}

// tail is the end of the output.
func (p *process) tail() string {
	text, _ := os.ReadFile(p.log) // without it there is nothing to show
	return string(text[max(0, len(text)-2000):])
}

// kill ends it at once, as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended by itself
	<-p.ended
}

// cpu returns user and system time of the process in seconds, NaN if it cannot be had.
func (p *process) cpu() float64 {
	const ticks = 100 // per second; the unit of /proc on every Linux that Go runs on
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
	if err != nil {
		return math.NaN()
	}
	// The name, in parentheses, may contain anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return math.NaN()
	}
	user, err1 := strconv.ParseFloat(string(fields[11]), 64)
	system, err2 := strconv.ParseFloat(string(fields[12]), 64)
	if errors.Join(err1, err2) != nil {
		return math.NaN()
	}
	return (user + system) / ticks
}

// rss returns the resident memory in bytes, NaN if it cannot be had.
func (p *process) rss() float64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/statm")
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return math.NaN()
	}
	pages, err := strconv.ParseFloat(string(fields[1]), 64)
	if err != nil {
		return math.NaN()
	}
	return pages * float64(os.Getpagesize())
}

var anonymousLine = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB`)

// anonymous returns the resident memory in bytes without that of files, such as the program itself, whose pages come and
// go as the system has room; NaN if it cannot be had.
func (p *process) anonymous() float64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	m := anonymousLine.FindSubmatch(text)
	if err != nil || m == nil {
		return math.NaN()
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return math.NaN()
	}
	return n * 1024
}

// fatal ends a poll.
type fatal struct{ error }

// poll repeats f until it succeeds, fails in a way that stays, or time is up.
func poll(ctx context.Context, limit, pace time.Duration, f func() error) error {
	end := time.Now().Add(limit)
	for {
		err := f()
		var final *fatal
		switch {
		case err == nil:
			return nil
		case errors.As(err, &final):
			return final.error
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("not within %v: %w", limit, err)
		}
		sleep.For(ctx, pace)
	}
}

// freePort returns a port of loopback that was free a moment ago.
func freePort(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
