package main

import (
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
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/httpserve"
	"lockstep/internal/proctest"
)

// startLimit is for a process to be ready; the machine may be busy.
const startLimit = 2 * time.Minute

// process is a running program.
type process struct {
	*proctest.Process
	name string
}

// spawn runs a program with the environment given and nothing else, in no directory with an .env file of the caller's.
func (s *scenario) spawn(name string, env []string, program string, args ...string) *process {
	cmd := exec.Command(program, args...) //nolint:noctx // ended by Kill
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}, env...)
	p, err := proctest.Start(cmd)
	return s.started(name, p, err)
}

// started ends a process with the scenario.
func (s *scenario) started(name string, p *proctest.Process, err error) *process {
	s.must(err)
	s.atEnd(p.Kill)
	return &process{p, name}
}

// ready waits until f succeeds.
func (s *scenario) ready(p *process, f func() error) { s.must(p.Until(s.ctx, startLimit, f)) }

// says waits for a line of the log that read takes.
func (s *scenario) says(p *process, read func(line []byte) bool) {
	s.must(p.Says(s.ctx, startLimit, read))
}

// cpu returns user and system time of the process in seconds, NaN if it cannot be had.
func (p *process) cpu() float64 {
	const ticks = 100 // per second; the unit of /proc on every Linux that Go runs on
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		return math.NaN()
	}
	const fields = `(?s)^.*\) ` // the name, in parentheses, may contain anything
	return (sum(text, fields+`(?:\S+ ){11}(\d+)`) + sum(text, fields+`(?:\S+ ){12}(\d+)`)) / ticks
}

// memory returns what the process has in bytes, NaN if it cannot be had.
func (p *process) memory(kind string) float64 {
	bytes, err := p.Memory(kind)
	if err != nil {
		return math.NaN()
	}
	return float64(bytes)
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

// role starts a process of ours that is no relay of ours: this program with the arguments given. It says where it is.
func (s *scenario) role(env []string, args ...string) *relay {
	r := &relay{process: s.spawn(args[0], env, s.self, args...), naive: true}
	s.says(r.process, func(line []byte) bool { r.url = strings.TrimSpace(string(line)); return true })
	return r
}

// serve is what the process of a role does: it says where it is, and serves until ctx ends, with more beside it.
func serve(ctx context.Context, out io.Writer, handler http.Handler, beside ...func(context.Context) error) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
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

// request makes a HTTP request that has to succeed.
func request(ctx context.Context, method, url, body string) ([]byte, error) {
	status, text, err := exchange(ctx, http.DefaultClient, method, url, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s %s: %d: %s", method, url, status, text)
	}
	return text, err
}

// call makes one JSON-RPC call. answered is false if the relay said nothing.
func call(ctx context.Context, client *http.Client, url, body string, into any) (answered bool, err error) {
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	_, text, err := exchange(ctx, client, http.MethodPost, url, body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	switch {
	case err != nil:
		return false, err
	case answer.Error != nil:
		return true, errors.New(answer.Error.Message)
	}
	return true, json.Unmarshal(answer.Result, into)
}

func exchange(ctx context.Context, client *http.Client, method, url, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
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

// sum adds up the numbers that a pattern finds in a text.
func sum(text []byte, pattern string) (total float64) {
	for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		number, _ := strconv.ParseFloat(string(found[1]), 64) // the pattern takes nothing else
		total += number
	}
	return total
}

// metric is one of a relay of ours, all its label sets together; 0 of a baseline.
func (r *relay) metric(ctx context.Context, name string) (float64, error) {
	if r.naive {
		return 0, nil
	}
	text, err := request(ctx, http.MethodGet, r.url+"/metrics", "")
	return sum(text, `(?m)^`+name+`(?:\{.*\})? (\S+)$`), err
}

// live returns the memory of the relays' Go heaps after a collection, and of the stacks, in bytes.
func (s *scenario) live(relays []*relay) (total float64) {
	for _, r := range relays {
		text, err := request(s.ctx, http.MethodGet, r.admin+"/debug/pprof/heap?gc=1&debug=1", "")
		s.must(err)
		total += sum(text, `(?m)^# (?:HeapAlloc|Stack) = (\d+)`)
	}
	return total
}
