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

	"github.com/ethereum/go-ethereum/common/hexutil"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/proctest"
)

const (
	readClients = 32              // connections that ask, where a row does not say otherwise
	readTime    = 3 * time.Second // of a load that does not end with its keys
	// archiveBlocks is how many blocks there are to ask about. A relay that was asked about all of them is ended: the
	// next one knows nothing.
	archiveBlocks = 1000
	mebi          = 1 << 20
)

// readCase is one kind of read, with its targets and what the TypeScript relay showed. Every connection sends its next request
// as soon as it has the answer to the one before.
type readCase struct {
	label                            string
	body                             func(a *archive, i int) string
	requests                         int    // 0: as many as there are in readTime
	batch                            int    // calls in one request; 0: no batch
	holds                            string // what each answer must have in its beginning; "": a result
	echo, nginx                      *bound // multiples of what others spend
	peerCPU, peerMirror, peerRequest string
}

func constantly(text string) func(*archive, int) string {
	return func(*archive, int) string { return text }
}

// Where a kind of read asks about everything once, nothing is in a cache. Neighbours in time differ, or they would be one.
var (
	chainID  = readCase{label: "eth_chainId", body: constantly(ask("eth_chainId")), echo: atMost(1.5), peerCPU: "175", peerRequest: "6,154"}
	balances = readCase{
		label: "eth_getBalance", nginx: atMost(4), requests: 20_000, peerCPU: "785", peerMirror: "1", peerRequest: "1,513",
		body: func(a *archive, i int) string {
			return ask("eth_getBalance", a.Accounts[i%len(a.Accounts)].Address, "latest")
		},
	}
	fullBlocks = readCase{
		label: "eth_getBlockByNumber, 20 transactions in full", echo: atMost(30), requests: archiveBlocks, peerCPU: "13,581", peerMirror: "25", peerRequest: "76",
		body: func(a *archive, i int) string {
			return ask("eth_getBlockByNumber", hexutil.EncodeUint64(uint64(a.first)+uint64(i%archiveBlocks)), true)
		},
	}
	limitCases = []readCase{chainID, balances, fullBlocks, {
		label: "batch of 100 eth_chainId", batch: 100, peerCPU: "2,100", peerRequest: "550",
		body: constantly("[" + strings.Repeat(ask("eth_chainId")+",", 99) + ask("eth_chainId") + "]"),
	}}
	// warmth has a relay open its connections to the mirror node and grow what every request needs.
	warmth = readCase{label: "warmth", body: func(_ *archive, i int) string {
		if i%2 == 0 {
			return ask("eth_chainId")
		}
		return ask("eth_getBalance", fmt.Sprintf("0x%040x", 1002+i%16), "latest")
	}}
)

// The figures of a row that others are divided by, and what all costs end in.
const (
	echoCPU  = "a bare net/http echo of JSON, CPU"
	nginxCPU = "nginx in front of the mirror node, CPU"
	relayCPU = ", CPU of the relay"
)

// readsLimit shows what requests cost, beside what any server must spend in the same run: an echo of JSON by
// net/http, and nginx that hands on the same answer of the mirror node.
func readsLimit(s *scenario) {
	s.want(echoCPU, "µs/request", nil, "")
	s.want(nginxCPU, "µs/request", nil, "")
	for _, c := range limitCases {
		s.want(c.label+relayCPU, "µs/request", nil, c.peerCPU)
		s.want(c.label+" ÷ echo", "×", c.echo, "")
		s.want(c.label+" ÷ nginx", "×", c.nginx, "")
		s.want(c.label+" ÷ TypeScript relay", "×", nil, "1")
		s.want(c.label+", calls of the mirror node", "/request", nil, c.peerMirror)
		s.want(c.label+", answered", "requests/s", nil, c.peerRequest)
	}
	a := s.archive(archiveBlocks)
	echo, nginx := s.role(nil, "echo"), s.nginx(a)
	for range s.runs {
		bare := s.read(echo, a, chainID, readClients)
		handed := s.read(nginx, a, readCase{label: "nginx", body: chainID.body, holds: `"account"`}, readClients)
		s.ours(echoCPU, "µs/request", bare.micro())
		s.ours(nginxCPU, "µs/request", handed.micro())
		for _, c := range limitCases {
			relay := s.relay(a.network, nil) // one that has seen nothing before
			r := s.read(relay, a, c, readClients)
			relay.Kill()
			s.ours(c.label+relayCPU, "µs/request", r.micro())
			s.ours(c.label+" ÷ echo", "×", r.micro()/bare.micro())
			s.ours(c.label+" ÷ nginx", "×", r.micro()/handed.micro())
			if peer, err := strconv.ParseFloat(strings.ReplaceAll(c.peerCPU, ",", ""), 64); err == nil {
				s.ours(c.label+" ÷ TypeScript relay", "×", r.micro()/peer)
			}
			s.ours(c.label+", calls of the mirror node", "/request", r.mirror/r.requests)
			s.ours(c.label+", answered", "requests/s", r.requests/r.seconds)
		}
	}
	s.note("%d connections; user and system time of the process. nginx is one process, keeps its connections to the mirror node, and hands on the answer that eth_getBalance needs. The mirror node answers without delay.", readClients)
	s.note("The load shares the processors with the relay: requests/s are what both together make of them. The TypeScript relay's figures were measured earlier.")
}

// readsMemory is what the process of a relay needs.
func readsMemory(s *scenario) {
	const crowd, idle, busy = 128, "resident, 5 s after the start", "peak, full blocks at 128 connections"
	s.want(idle, "MiB", atMost(40), "163")
	s.want(busy, "MiB", atMost(150), "794")
	a := s.archive(archiveBlocks)
	three := fullBlocks
	three.requests *= 3
	for range s.runs {
		relay := s.relay(a.network, nil)
		s.pause(5 * time.Second)
		s.ours(idle, "MiB", relay.memory(proctest.Resident)/mebi)
		s.read(relay, a, three, crowd)
		s.ours(busy, "MiB", relay.memory(proctest.PeakResident)/mebi)
		relay.Kill()
	}
	s.note("Resident memory is what the kernel counts, and the peak is the kernel's, too.")
}

// readings is what one load showed.
type readings struct {
	requests float64
	seconds  float64
	cpu      float64 // seconds, of the relay
	mirror   float64 // calls of the mirror node
}

func (r readings) micro() float64 { return r.cpu / r.requests * 1e6 }

// read runs a load. What is no relay of ours needs no warmth.
func (s *scenario) read(from *relay, a *archive, c readCase, connections int) readings {
	if !from.naive {
		warmth := warmth
		warmth.requests = 50 * connections
		_, err := warmth.run(s.ctx, from.url, a, connections)
		s.must(err)
	}
	calls, cpu, start := a.calls.Load(), from.cpu(), time.Now()
	done, err := c.run(s.ctx, from.url, a, connections)
	s.must(err)
	return readings{
		requests: float64(done), seconds: time.Since(start).Seconds(), cpu: from.cpu() - cpu, mirror: float64(a.calls.Load() - calls),
	}
}

// run drives the connections and returns how many requests were answered.
func (c readCase) run(ctx context.Context, url string, a *archive, connections int) (int, error) {
	var asked atomic.Int64
	end := time.Now().Add(readTime)
	clients, ctx := errgroup.WithContext(ctx)
	for range connections {
		clients.Go(func() error {
			return c.client(ctx, strings.TrimPrefix(url, "http://"), func() string {
				i := int(asked.Add(1) - 1)
				if c.requests > 0 && i >= c.requests || c.requests == 0 && time.Now().After(end) {
					return ""
				}
				return c.body(a, i)
			})
		})
	}
	err := clients.Wait()
	return int(asked.Load()) - connections, err // each of them asked once in vain
}

// client is one connection, until there is nothing more to send. It writes requests by hand, so that the processors are there
// for the relay and not for the load.
func (c readCase) client(ctx context.Context, host string, next func() string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return fmt.Errorf("%s: %w", c.label, err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	defer func() { _ = conn.Close() }() // nothing is left to say
	in := bufio.NewReaderSize(conn, 16<<10)
	var text []byte
	for body := next(); body != ""; body = next() {
		text = fmt.Appendf(text[:0], "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
		_, err := conn.Write(text)
		if err == nil {
			err = c.answer(in)
		}
		if err != nil {
			return fmt.Errorf("%s: %.200s: %w", c.label, body, err)
		}
	}
	return ctx.Err()
}

// answer reads an answer of status 200 whose beginning has what the load wants.
func (c readCase) answer(in *bufio.Reader) error {
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
	good := bytes.Contains(head, []byte(cmp.Or(c.holds, `"result":`))) && (c.holds != "" ||
		!bytes.Contains(head, []byte(`"error"`)) && !bytes.Contains(head, []byte(`"result":null`)))
	if resp.StatusCode != http.StatusOK || !good || c.batch > 0 && head[0] != '[' {
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
func (s *scenario) nginx(a *archive) *relay {
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program = "/usr/sbin/nginx"; exec.CommandContext(s.ctx, program, "-v").Run() != nil {
			s.must(errors.New("nginx is missing: make setup-all installs it"))
		}
	}
	port, release, err := proctest.KeepPort()
	s.must(err)
	s.atEnd(release)
	dir, err := os.MkdirTemp(s.dir, "nginx-")
	s.must(err)
	file := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(nginxConfig, dir, strings.TrimPrefix(a.URL, "http://"), port, a.Accounts[0].Address)
	s.must(os.WriteFile(file, []byte(text), 0o600))
	r := &relay{process: s.spawn("nginx", nil, program, "-p", dir, "-c", file), url: fmt.Sprintf("http://127.0.0.1:%d", port), naive: true}
	s.ready(r.process, func() error { _, err := request(s.ctx, http.MethodGet, r.url, ""); return err })
	return r
}
