package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/devnet"
	"lockstep/internal/httpserve"
	"lockstep/internal/proctest"
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

// start runs a program with the environment given and nothing else, in no directory with an .env file of the caller's.
func (l *lab) start(name string, env []string, program string, args ...string) (*process, error) {
	l.started++
	p := &process{name: name, log: filepath.Join(l.dir, fmt.Sprintf("%03d-%s.log", l.started, name)), ended: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	p.cmd = exec.Command(program, args...) //nolint:noctx // ended by kill
	p.cmd.Dir = l.dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}, env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = proctest.WithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // ends by a signal of ours, or its output is shown
		close(p.ended)
	}()
	return p, nil
}

// up waits until f succeeds, and ends the process if it does not.
func (p *process) up(ctx context.Context, f func() error) error {
	err := poll(ctx, startLimit, 5*time.Millisecond, func() error {
		err := f()
		if err == nil {
			return nil
		}
		text, _ := os.ReadFile(p.log) // without it there is nothing to show
		err = fmt.Errorf("%s: %w\n%s", p.name, err, text[max(0, len(text)-2000):])
		select {
		case <-p.ended:
			return &fatal{err}
		default:
			return err
		}
	})
	if err != nil {
		p.kill()
	}
	return err
}

// says waits for a line of JSON in the output that read takes.
func (p *process) says(ctx context.Context, read func(line []byte) bool) error {
	return p.up(ctx, func() error {
		text, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if read(line) {
				return nil
			}
		}
		return errors.New("not ready")
	})
}

// answers waits until an address takes connections.
func (p *process) answers(ctx context.Context, address string) error {
	return p.up(ctx, func() error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// kill ends it at once, as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended by itself
	<-p.ended
}

// cpu returns user and system time of the process in seconds, NaN if it cannot be had.
func (p *process) cpu() float64 {
	const ticks = 100 // per second; the unit of /proc on every Linux that Go runs on
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
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

// What the kernel says of a process's memory: what is resident, the most that ever was, and what is resident without the
// pages of files, such as the program itself, which come and go as the system has room.
const (
	resident     = "VmRSS"
	peakResident = "VmHWM"
	anonymous    = "RssAnon"
)

// memory returns one of those in bytes, NaN if it cannot be had.
func (p *process) memory(kind string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	_, rest, _ := strings.Cut(string(text), "\n"+kind+":")
	var kilobytes float64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return math.NaN()
	}
	return kilobytes * 1024
}

func memoryOf(relays []*relay, kind string) (total float64) {
	for _, r := range relays {
		total += r.memory(kind)
	}
	return total
}

func cpuOf(relays []*relay) (total float64) {
	for _, r := range relays {
		total += r.cpu()
	}
	return total
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

func listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", "127.0.0.1:0")
}

// freePort returns a port of loopback that was free a moment ago.
func freePort(ctx context.Context) (string, error) {
	l, err := listen(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// ready is the line by which a process of ours says where it is. A network adds its nodes and accounts.
type ready struct {
	URL      string            `json:"suite"`
	Nodes    map[string]string `json:"nodes,omitempty"`
	Accounts []devnet.Account  `json:"accounts,omitempty"`
}

// role starts a process of ours: this program with the arguments given.
func (l *lab) role(ctx context.Context, env []string, args ...string) (*process, ready, error) {
	p, err := l.start(args[0], env, l.self, args...)
	if err != nil {
		return nil, ready{}, err
	}
	var r ready
	err = p.says(ctx, func(line []byte) bool { return json.Unmarshal(line, &r) == nil && r.URL != "" })
	return p, r, err
}

// serve is what the process of a role does: it says where it is, and serves until ctx ends, with more beside it.
func serve(ctx context.Context, out io.Writer, r ready, handler http.Handler, beside ...func(context.Context) error) error {
	l, err := listen(ctx)
	if err != nil {
		return err
	}
	r.URL = "http://" + l.Addr().String()
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: startLimit}
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range beside {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error { return httpserve.Until(ctx, server, l, 0) })
	return group.Wait()
}

// request makes a HTTP request and decodes the answer, if into is not nil.
func request(ctx context.Context, method, url, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	switch v := into.(type) {
	case nil:
		return nil
	case *string:
		*v = string(text)
		return nil
	default:
		return json.Unmarshal(text, into)
	}
}

// call makes one JSON-RPC call. answered is false if the relay said nothing.
func call(ctx context.Context, client *http.Client, url, body string, into any) (answered bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return false, err
	}
	if answer.Error != nil {
		return true, errors.New(answer.Error.Message)
	}
	return true, json.Unmarshal(answer.Result, into)
}

// ask is the text of a request. A parameter of type literal is JSON already.
func ask(method string, params ...any) string {
	parts := make([]string, len(params))
	for i, p := range params {
		if text, ok := p.(string); ok {
			p = strconv.Quote(text)
		}
		parts[i] = fmt.Sprint(p)
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":[` + strings.Join(parts, ",") + `]}`
}

func hex(n int64) string { return "0x" + strconv.FormatInt(n, 16) }

// metrics are the samples of a relay by name, labels included.
type metrics map[string]float64

var sample = regexp.MustCompile(`(?m)^([^# ]\S*) (\S+)$`)

func (r *relay) metrics(ctx context.Context) (metrics, error) {
	m := metrics{}
	if r.naive {
		return m, nil
	}
	var text string
	if err := request(ctx, http.MethodGet, r.url+"/metrics", "", &text); err != nil {
		return nil, err
	}
	for _, line := range sample.FindAllStringSubmatch(text, -1) {
		if v, err := strconv.ParseFloat(line[2], 64); err == nil {
			m[line[1]] = v
		}
	}
	return m, nil
}

// sum adds up all label sets of a metric.
func (m metrics) sum(name string) (total float64) {
	for key, v := range m {
		if key == name || strings.HasPrefix(key, name+"{") {
			total += v
		}
	}
	return total
}

var heapLine = regexp.MustCompile(`(?m)^# (HeapAlloc|Stack) = (\d+)`)

// live returns the memory of the relays' Go heaps after a collection, and of the stacks, in bytes.
func live(ctx context.Context, relays []*relay) (total float64, err error) {
	for _, r := range relays {
		var text string
		if err := request(ctx, http.MethodGet, r.admin+"/debug/pprof/heap?gc=1&debug=1", "", &text); err != nil {
			return 0, err
		}
		for _, m := range heapLine.FindAllStringSubmatch(text, -1) {
			n, err := strconv.ParseFloat(m[2], 64)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}
