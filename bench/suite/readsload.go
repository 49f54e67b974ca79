package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// reading is one load of reads: every connection sends its next request as soon as it
// has the answer to the one before.
type reading struct {
	relay       *relay
	archive     *library // nil: calls of the mirror node are not counted
	name        string
	connections int
	requests    int           // then it is over; 0: no such end
	duration    time.Duration // then it is over; 0: no such end
	calls       int           // in one request; 0 means 1
	cold        bool          // it is no relay: nothing is asked of it before
	holds       string        // what each answer must have in its beginning; "": a result
	body        func(i int) string
	during      func(ctx context.Context) error // beside the load; its context ends with it
}

// readings is what one load showed.
type readings struct {
	requests float64
	seconds  float64
	cpu      float64 // seconds, of the relay
	mirror   float64 // calls of the mirror node
}

func (r readings) rate() float64  { return r.requests / r.seconds }
func (r readings) micro() float64 { return r.cpu / r.requests * 1e6 }

// read runs a load.
func (l *lab) read(ctx context.Context, q reading) (readings, error) {
	load, stop := context.WithCancel(ctx)
	defer stop()
	if !q.cold {
		if err := q.warm(ctx); err != nil {
			return readings{}, err
		}
	}
	l.take(ctx, q.relay, q.name)
	var before, after float64
	var err error
	if q.archive != nil {
		if before, err = q.archive.calls(ctx); err != nil {
			return readings{}, err
		}
	}
	cpu, start := q.relay.cpu(), time.Now()
	done, err := q.run(load, stop)
	r := readings{requests: float64(done), seconds: time.Since(start).Seconds(), cpu: q.relay.cpu() - cpu}
	l.profiling.Wait() // the relay may be ended next
	if err != nil {
		return r, fmt.Errorf("%s: %w", q.name, err)
	}
	if q.archive != nil {
		if after, err = q.archive.calls(ctx); err != nil {
			return r, err
		}
		r.mirror = after - before
	}
	return r, nil
}

// warm opens the relay's connections to the mirror node and lets it grow what every
// request needs.
func (q reading) warm(ctx context.Context) error {
	const each = 50
	var next atomic.Int64
	warm := reading{relay: q.relay, connections: q.connections, body: func(i int) string {
		if i%2 == 0 {
			return ask("eth_chainId")
		}
		return ask("eth_getBalance", fmt.Sprintf("0x%040x", 1002+i%16), "latest")
	}}
	limit := int64(each * q.connections)
	return warm.each(ctx, func() (int, bool) {
		i := next.Add(1) - 1
		return int(i), i < limit
	}, nil)
}

// run drives the connections and returns how many requests were answered.
func (q reading) run(ctx context.Context, stop func()) (int, error) {
	var next, done atomic.Int64
	end := time.Now().Add(q.duration)
	beside := make(chan error, 1)
	go func() {
		defer close(beside)
		if q.during != nil {
			beside <- q.during(ctx)
		}
	}()
	err := q.each(ctx, func() (int, bool) {
		i := next.Add(1) - 1
		over := q.requests > 0 && i >= int64(q.requests) || q.duration > 0 && time.Now().After(end)
		return int(i), !over
	}, func() { done.Add(1) })
	stop()
	return int(done.Load()), errors.Join(err, <-beside)
}

// each lets every connection ask for one index after the other.
func (q reading) each(ctx context.Context, index func() (int, bool), answered func()) error {
	var group sync.WaitGroup
	errs := make(chan error, q.connections)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range q.connections {
		group.Go(func() {
			if err := q.connection(ctx, index, answered); err != nil {
				errs <- err
				cancel()
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

// connection is one client. It speaks HTTP by hand, so that the processors are there for
// the relay and not for the load.
func (q reading) connection(ctx context.Context, index func() (int, bool), answered func()) error {
	var dialer net.Dialer
	host := strings.TrimPrefix(q.relay.url, "http://")
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	defer func() { _ = conn.Close() }() // nothing is left to say
	in := bufio.NewReaderSize(conn, 16<<10)
	var text []byte
	for ctx.Err() == nil {
		i, more := index()
		if !more {
			return nil
		}
		body := q.body(i)
		text = fmt.Appendf(text[:0], "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
		if _, err := conn.Write(text); err != nil {
			return err
		}
		if err := goodAnswer(in, max(q.calls, 1), q.has); err != nil {
			return fmt.Errorf("%s: %w", body[:min(len(body), 200)], err)
		}
		if answered != nil {
			answered()
		}
	}
	return ctx.Err()
}

// goodAnswer reads an answer of status 200 to so many calls, whose beginning must be good: usually, that
// it has a result that is not null.
func goodAnswer(in *bufio.Reader, calls int, good func(head []byte) bool) error {
	status, length, err := readHead(in)
	if err != nil {
		return err
	}
	head, err := in.Peek(min(length, 512))
	if err != nil {
		return err
	}
	if status != http.StatusOK || !good(head) {
		return fmt.Errorf("status %d: %s", status, head)
	}
	if calls > 1 && head[0] != '[' {
		return fmt.Errorf("not a batch: %s", head)
	}
	_, err = in.Discard(length)
	return err
}

// readHead reads up to the body of an answer whose length is given.
func readHead(in *bufio.Reader) (status, length int, err error) {
	length = -1
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case first && len(line) > 12:
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, 0, err
			}
		case len(line) == 0 && length < 0:
			return 0, 0, errors.New("an answer without a length")
		case len(line) == 0:
			return status, length, nil
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(line[16:])); err != nil {
				return 0, 0, err
			}
		}
	}
}

// ask is the text of a request.
func ask(method string, params ...any) string {
	parts := make([]string, len(params))
	for i, p := range params {
		switch p := p.(type) {
		case string:
			parts[i] = strconv.Quote(p)
		default:
			parts[i] = fmt.Sprint(p)
		}
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":[` + strings.Join(parts, ",") + `]}`
}

// literal is a parameter that is JSON already.
type literal string

func hex(n int64) string { return "0x" + strconv.FormatInt(n, 16) }

var peakLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB`)

// peak returns the most resident memory that the process has had, in bytes, NaN if it
// cannot be had.
func (p *process) peak() float64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	m := peakLine.FindSubmatch(text)
	if err != nil || m == nil {
		return math.NaN()
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return math.NaN()
	}
	return n * 1024
}
