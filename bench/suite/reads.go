package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/proctest"
	"lockstep/internal/sleep"
)

const (
	readClients = 32              // connections that ask, where a row does not say otherwise
	readTime    = 3 * time.Second // of a load that does not end with its keys
	// archiveBlocks is how many blocks there are to ask about. A relay that was asked about all of them is ended: the
	// next one knows nothing.
	archiveBlocks = 1000
	mebi          = 1 << 20
)

// readCase is one kind of read, with its targets and what the TypeScript relay showed.
type readCase struct {
	label                            string
	body                             func(a *network, i int) string
	requests                         int     // 0: as many as there are in readTime
	batch                            int     // calls in one request; 0: no batch
	echo, nginx                      float64 // targets: multiples of what others spend; 0: none
	peerCPU, peerMirror, peerRequest string
}

func one(method string, params ...any) func(*network, int) string {
	text := ask(method, params...)
	return func(*network, int) string { return text }
}

// Where a kind of read asks about everything once, nothing is in a cache. Neighbours in time differ, or they would be one.
var (
	chainID  = readCase{label: "eth_chainId", body: one("eth_chainId"), echo: 1.5, peerCPU: "175", peerRequest: "6,154"}
	balances = readCase{
		label: "eth_getBalance", nginx: 4, requests: 20_000, peerCPU: "785", peerMirror: "1", peerRequest: "1,513",
		body: func(a *network, i int) string {
			return ask("eth_getBalance", a.Accounts[i%len(a.Accounts)].Address, "latest")
		},
	}
	fullBlocks = readCase{
		label: "eth_getBlockByNumber, 20 transactions in full", echo: 30, requests: archiveBlocks, peerCPU: "13,581", peerMirror: "25", peerRequest: "76",
		body: func(a *network, i int) string { return ask("eth_getBlockByNumber", hex(a.blocks.First+int64(i)), true) },
	}
	limitCases = []readCase{
		chainID, balances, fullBlocks,
		{
			label: "batch of 100 eth_chainId", batch: 100, peerCPU: "2,100", peerRequest: "550",
			body: func(*network, int) string {
				return "[" + strings.TrimSuffix(strings.Repeat(ask("eth_chainId")+",", 100), ",") + "]"
			},
		},
	}
)

// readsLimit shows what requests cost, beside what any server must spend in the same run: an echo of JSON by
// net/http, and nginx that hands on the same answer of the mirror node.
func readsLimit(ctx context.Context, l *lab, t *table, runs int) error {
	t.want(echoCPU, "µs/request", nil, "")
	t.want(nginxCPU, "µs/request", nil, "")
	some := func(limit float64) *bound {
		if limit == 0 {
			return nil
		}
		return atMost(limit)
	}
	for _, c := range limitCases {
		t.want(c.label+relayCPU, "µs/request", nil, c.peerCPU)
		t.want(c.label+" ÷ echo", "×", some(c.echo), "")
		t.want(c.label+" ÷ nginx", "×", some(c.nginx), "")
		t.want(c.label+" ÷ TypeScript relay", "×", nil, "1")
		t.want(c.label+", calls of the mirror node", "/request", nil, c.peerMirror)
		t.want(c.label+", answered", "requests/s", nil, c.peerRequest)
	}
	a, err := l.archive(ctx, archiveBlocks)
	if err != nil {
		return err
	}
	defer a.Kill()
	echo, err := l.compared(ctx, nil, "echo")
	if err != nil {
		return err
	}
	defer echo.Kill()
	nginx, err := l.nginx(ctx, a)
	if err != nil {
		return err
	}
	defer nginx.Kill()
	for range runs {
		var stick yardstick
		for _, plain := range []struct {
			name  string
			micro *float64
			q     reading
		}{
			{echoCPU, &stick.echo, reading{relay: echo}},
			{nginxCPU, &stick.nginx, reading{relay: nginx, holds: `"account"`}},
		} {
			q := plain.q
			q.name, q.connections, q.duration, q.plain, q.body = "plain", readClients, readTime, true, func(i int) string { return chainID.body(a, i) }
			r, err := l.read(ctx, q)
			if err != nil {
				return err
			}
			*plain.micro = r.micro()
			t.ours(plain.name, "µs/request", r.micro())
		}
		for _, c := range limitCases {
			if err := l.readCase(ctx, t, a, c, stick); err != nil {
				return err
			}
		}
	}
	t.note("%d connections; user and system time of the process. nginx is one process, keeps its connections to the mirror node, and hands on the answer that eth_getBalance needs. The mirror node answers without delay.", readClients)
	t.note("The load shares the processors with the relay: requests/s are what both together make of them. The TypeScript relay's figures were measured earlier.")
	return nil
}

// The figures of a row that others are divided by, and what all costs end in.
const (
	echoCPU  = "a bare net/http echo of JSON, CPU"
	nginxCPU = "nginx in front of the mirror node, CPU"
	relayCPU = ", CPU of the relay"
)

// yardstick is what any server must spend on a request, in microseconds of processor time.
type yardstick struct{ echo, nginx float64 }

// readCase asks a relay of its own, which has seen nothing before.
func (l *lab) readCase(ctx context.Context, t *table, a *network, c readCase, stick yardstick) error {
	relay, err := l.relay(ctx, a, nil)
	if err != nil {
		return err
	}
	defer relay.Kill()
	q := reading{
		relay: relay, archive: a, connections: readClients, requests: c.requests, batch: c.batch,
		name: strings.NewReplacer(" ", "-", ",", "").Replace(c.label), body: func(i int) string { return c.body(a, i) },
	}
	if q.requests == 0 {
		q.duration = readTime
	}
	r, err := l.read(ctx, q)
	if err != nil {
		return err
	}
	l.compare(t, c.label, r.micro(), stick)
	t.ours(c.label+", calls of the mirror node", "/request", r.mirror/r.requests)
	t.ours(c.label+", answered", "requests/s", r.requests/r.seconds)
	return nil
}

// compare enters what a request costs, also as multiples of what any server must spend, and of the TypeScript relay's figure.
func (l *lab) compare(t *table, label string, micros float64, stick yardstick) {
	f := t.figure(label+relayCPU, "µs/request")
	f.ours = append(f.ours, micros)
	t.ours(label+" ÷ echo", "×", micros/stick.echo)
	t.ours(label+" ÷ nginx", "×", micros/stick.nginx)
	if peer, err := strconv.ParseFloat(strings.ReplaceAll(f.Peer, ",", ""), 64); err == nil {
		t.ours(label+" ÷ TypeScript relay", "×", micros/peer)
	}
}

// readsMemory is what the process of a relay needs.
func readsMemory(ctx context.Context, l *lab, t *table, runs int) error {
	const crowd, idle, busy = 128, "resident, 5 s after the start", "peak, full blocks at 128 connections"
	t.want(idle, "MiB", atMost(40), "163")
	t.want(busy, "MiB", atMost(150), "794")
	a, err := l.archive(ctx, archiveBlocks)
	if err != nil {
		return err
	}
	defer a.Kill()
	for range runs {
		relay, err := l.relay(ctx, a, nil)
		if err != nil {
			return err
		}
		sleep.For(ctx, 5*time.Second)
		t.ours(idle, "MiB", relay.memory(proctest.Resident)/mebi)
		_, err = l.read(ctx, reading{
			relay: relay, archive: a, name: "memory", connections: crowd, requests: 3 * archiveBlocks,
			body: func(i int) string { return fullBlocks.body(a, i%archiveBlocks) },
		})
		t.ours(busy, "MiB", relay.memory(proctest.PeakResident)/mebi)
		relay.Kill()
		if err != nil {
			return err
		}
	}
	t.note("Resident memory is what the kernel counts, and the peak is the kernel's, too.")
	return nil
}

// reading is one load of reads: every connection sends its next request as soon as it
// has the answer to the one before.
type reading struct {
	relay       *relay
	archive     *network // nil: calls of the mirror node are not counted
	name        string
	connections int
	requests    int           // then it is over; 0: no such end
	duration    time.Duration // then it is over; 0: no such end
	batch       int           // calls in one request; 0: no batch
	plain       bool          // it goes to no relay, or needs no warmth: nothing is asked before
	holds       string        // what each answer must have in its beginning; "": a result
	body        func(i int) string
}

// readings is what one load showed.
type readings struct {
	requests float64
	seconds  float64
	cpu      float64 // seconds, of the relay
	mirror   float64 // calls of the mirror node
}

func (r readings) micro() float64 { return r.cpu / r.requests * 1e6 }

// read runs a load.
func (l *lab) read(ctx context.Context, q reading) (r readings, err error) {
	calls := func() (n float64) {
		if q.archive != nil && err == nil {
			n, err = q.archive.calls(ctx)
		}
		return n
	}
	if !q.plain { // the relay opens its connections to the mirror node and grows what every request needs
		warm := reading{relay: q.relay, connections: q.connections, requests: 50 * q.connections, body: func(i int) string {
			if i%2 == 0 {
				return ask("eth_chainId")
			}
			return ask("eth_getBalance", fmt.Sprintf("0x%040x", 1002+i%16), "latest")
		}}
		if _, err := warm.run(ctx); err != nil {
			return r, err
		}
	}
	before, cpu, start := calls(), q.relay.cpu(), time.Now()
	if err != nil {
		return r, err
	}
	done, err := q.run(ctx)
	r = readings{requests: float64(done), seconds: time.Since(start).Seconds(), cpu: q.relay.cpu() - cpu}
	r.mirror = calls() - before
	if err != nil {
		err = fmt.Errorf("%s: %w", q.name, err)
	}
	return r, err
}

// run drives the connections and returns how many requests were answered.
func (q reading) run(ctx context.Context) (int, error) {
	var next, done atomic.Int64
	end := time.Now().Add(q.duration)
	clients, ctx := errgroup.WithContext(ctx)
	for range q.connections {
		clients.Go(func() error {
			return q.client(ctx, &done, func() (int, bool) {
				i := int(next.Add(1) - 1)
				return i, (q.requests == 0 || i < q.requests) && (q.duration == 0 || time.Now().Before(end))
			})
		})
	}
	err := clients.Wait()
	return int(done.Load()), err
}

// client is one connection. It writes requests by hand, so that the processors are there for the relay and not for the load.
func (q reading) client(ctx context.Context, done *atomic.Int64, index func() (int, bool)) error {
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
	for {
		i, more := index()
		if !more || ctx.Err() != nil {
			return ctx.Err()
		}
		body := q.body(i)
		text = fmt.Appendf(text[:0], "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
		if _, err := conn.Write(text); err != nil {
			return err
		}
		if err := q.answer(in); err != nil {
			return fmt.Errorf("%.200s: %w", body, err)
		}
		done.Add(1)
	}
}

// answer reads an answer of status 200 whose beginning has what the load wants.
func (q reading) answer(in *bufio.Reader) error {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end, or the connection is over
	var beginning [512]byte
	n, err := io.ReadFull(resp.Body, beginning[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	head := beginning[:n]
	good := bytes.Contains(head, []byte(cmp.Or(q.holds, `"result":`))) && (q.holds != "" ||
		!bytes.Contains(head, []byte(`"error"`)) && !bytes.Contains(head, []byte(`"result":null`)))
	if resp.StatusCode != http.StatusOK || !good || q.batch > 0 && head[0] != '[' {
		return fmt.Errorf("status %d: %s", resp.StatusCode, head)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// nginxConfig is one process that hands on every request as one for an account.
const nginxConfig = `daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr error;
events { worker_connections 1024; }
http {
	access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	upstream mirror { server %[2]s; keepalive 64; keepalive_requests 1000000000; }
	server {
		listen 127.0.0.1:%[3]d;
		location / {
			proxy_method GET; proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header Content-Type "";
			proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://mirror/api/v1/accounts/%[4]s?transactions=false;
		}
	}
}
`

// nginx starts nginx in front of an archive.
func (l *lab) nginx(ctx context.Context, a *network) (*relay, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program = "/usr/sbin/nginx"; exec.CommandContext(ctx, program, "-v").Run() != nil {
			return nil, errors.New("nginx is missing: make setup-all installs it")
		}
	}
	port, _, err := proctest.KeepPort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "nginx-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(nginxConfig, dir, strings.TrimPrefix(a.URL, "http://"), port, a.Accounts[0].Address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := l.start("nginx", nil, program, "-p", dir, "-c", file)
	if err != nil {
		return nil, err
	}
	made := &relay{process: p, url: fmt.Sprintf("http://127.0.0.1:%d", port), naive: true}
	return made, p.up(ctx, func() error { return request(ctx, http.MethodGet, made.url, "", nil) })
}
