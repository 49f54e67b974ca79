package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The figures of the row of limits that others are divided by.
const (
	limitEcho  = "a bare net/http echo of JSON, CPU"
	limitNginx = "nginx in front of the mirror node, CPU"
)

// readsLimit holds what requests cost against what any server must spend: an echo of JSON by net/http, and nginx that
// hands on the same answer of the mirror node.
func readsLimit(ctx context.Context, l *lab, t *table, runs int) error {
	const (
		chain, balance, block, send     = "eth_chainId", "eth_getBalance", "eth_getBlockByNumber, 20 transactions in full", "eth_sendRawTransaction, 50 senders × 20"
		byEcho, byNginx, byPeer, micros = " ÷ echo", " ÷ nginx", " ÷ TypeScript relay", ", CPU of the relay"
	)
	t.want(limitEcho, "µs/request", nil, "")
	t.want(limitNginx, "µs/request", nil, "")
	for _, row := range []struct {
		label       string
		echo, nginx *bound
		peer        string
	}{
		{chain, atMost(1.5, "1.5"), nil, "175"},
		{balance, nil, atMost(4, "4"), "785"},
		{block, atMost(30, "30"), nil, "13,581"},
		{send, atMost(20, "20"), nil, "13,900"},
	} {
		t.want(row.label+micros, "µs/request", nil, row.peer)
		t.want(row.label+byEcho, "×", row.echo, "")
		t.want(row.label+byNginx, "×", row.nginx, "")
		t.want(row.label+byPeer, "×", nil, "1")
	}
	peer := map[string]float64{chain: 175, balance: 785, block: 13_581, send: 13_900}
	plain, err := l.plainServers(ctx, archiveBlocks)
	if err != nil {
		return err
	}
	defer plain.kill()
	a := plain.archive
	for range runs {
		stick, err := l.yardstickOf(ctx, plain)
		if err != nil {
			return err
		}
		cost := map[string]float64{limitEcho: stick.echo, limitNginx: stick.nginx}
		loads := []struct {
			label string
			q     reading
		}{
			{chain, reading{duration: readTime, body: askChainID}},
			{balance, reading{requests: 20_000, body: func(i int) string {
				return ask("eth_getBalance", a.Accounts[i%len(a.Accounts)].Address, "latest")
			}}},
			{block, reading{requests: archiveBlocks, body: func(i int) string { return ask("eth_getBlockByNumber", hex(a.blocks.First+int64(i)), true) }}},
		}
		for _, load := range loads {
			q := load.q
			q.name, q.connections = strings.ReplaceAll(load.label, " ", "-"), readClients
			if q.relay, err = l.relay(ctx, a.network, nil); err != nil {
				return err
			}
			r, err := l.read(ctx, q)
			q.relay.kill()
			if err != nil {
				return err
			}
			cost[load.label] = r.micro()
		}
		if cost[send], err = l.sendCost(ctx); err != nil {
			return err
		}
		t.ours(limitEcho, "µs/request", cost[limitEcho])
		t.ours(limitNginx, "µs/request", cost[limitNginx])
		for label, figure := range peer {
			t.ours(label+micros, "µs/request", cost[label])
			t.ours(label+byEcho, "×", cost[label]/cost[limitEcho])
			t.ours(label+byNginx, "×", cost[label]/cost[limitNginx])
			t.ours(label+byPeer, "×", cost[label]/figure)
		}
	}
	t.note(fmt.Sprintf("%d connections; user and system time of the process. nginx is one process, keeps its connections to the mirror node, and hands on the answer that eth_getBalance needs.", readClients))
	t.note("eth_getBalance asks the mirror node each time, and each full block is a new one. The TypeScript relay's figures were measured earlier; that of sending is one relay with its order in the process.")
	return nil
}

// yardstick is what any server must spend on a request, in microseconds of processor time.
type yardstick struct {
	echo, nginx float64
	at          time.Time
}

// yardstickLasts is for how long a yardstick holds: machines become slower and faster.
const yardstickLasts = time.Minute

// compare enters what a read costs as multiples of what any server must spend, and of the TypeScript relay's figure if there is one.
func (l *lab) compare(ctx context.Context, t *table, label string, micros float64) error {
	if time.Since(l.yardstick.at) > yardstickLasts {
		if err := l.measureYardstick(ctx); err != nil {
			return err
		}
	}
	t.ours(label+", CPU ÷ echo", "×", micros/l.yardstick.echo)
	t.ours(label+", CPU ÷ nginx", "×", micros/l.yardstick.nginx)
	peer := t.figure(label+", CPU of the relay", "").peer
	if figure, err := strconv.ParseFloat(strings.ReplaceAll(peer, ",", ""), 64); err == nil {
		t.ours(label+", CPU ÷ TypeScript relay", "×", micros/figure)
	}
	return nil
}

func (l *lab) measureYardstick(ctx context.Context) error {
	plain, err := l.plainServers(ctx, 1)
	if err != nil {
		return err
	}
	defer plain.kill()
	l.yardstick, err = l.yardstickOf(ctx, plain)
	return err
}

// plainServers are the servers that a relay is compared with, and an archive that nginx stands in front of.
type plainServers struct {
	archive     *library
	echo, nginx *relay
}

// plainServers starts them.
func (l *lab) plainServers(ctx context.Context, blocks int) (p plainServers, err error) {
	defer func() {
		if err != nil {
			p.kill()
		}
	}()
	if p.archive, err = l.library(ctx, blocks); err != nil {
		return p, err
	}
	if p.echo, err = l.echo(ctx); err != nil {
		return p, err
	}
	p.nginx, err = l.nginx(ctx, p.archive)
	return p, err
}

// kill ends those that have started.
func (p plainServers) kill() {
	if p.archive != nil {
		p.archive.kill()
	}
	for _, r := range []*relay{p.echo, p.nginx} {
		if r != nil {
			r.kill()
		}
	}
}

func askChainID(int) string { return ask("eth_chainId") }

// yardstickOf measures what an echo of JSON costs, and what nginx does that hands on the same answer of the mirror node.
func (l *lab) yardstickOf(ctx context.Context, p plainServers) (y yardstick, err error) {
	for _, one := range []struct {
		label string
		micro *float64
		q     reading
	}{
		{limitEcho, &y.echo, reading{relay: p.echo}},
		{limitNginx, &y.nginx, reading{relay: p.nginx, cold: true, holds: `"account"`}},
	} {
		q := one.q
		q.name, q.connections, q.duration, q.body = strings.ReplaceAll(one.label, " ", "-"), readClients, readTime, askChainID
		r, err := l.read(ctx, q)
		if err != nil {
			return y, err
		}
		*one.micro = r.micro()
	}
	y.at = time.Now()
	return y, nil
}

// sendCost is the processor time that a relay spends on a transaction of many senders, in microseconds.
func (l *lab) sendCost(ctx context.Context) (micros float64, err error) {
	b, err := l.bed(ctx, false)
	if err != nil {
		return 0, err
	}
	defer b.close()
	r, err := b.relay(ctx, nil)
	if err != nil {
		return 0, err
	}
	o, err := l.fire(ctx, b.net, nil, load{name: "limit " + r.name, relays: []*relay{r}, senders: 50, count: 20, spacing: apart, conduct: usual()})
	if err != nil {
		return 0, err
	}
	if o.Chain.Executed != 1000 {
		return 0, fmt.Errorf("%d of 1000 transactions were executed", o.Chain.Executed)
	}
	return o.perTransaction(o.cpu) * 1e6, nil
}

// nginxConfig is one process that hands on every request as one for an account.
const nginxConfig = `daemon off; master_process off; pid %[1]s/nginx.pid; error_log stderr error;
events { worker_connections 1024; }
http {
	access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	upstream mirror { server %[2]s; keepalive 64; keepalive_requests 1000000000; }
	server {
		listen 127.0.0.1:%[3]s;
		location / {
			proxy_method GET; proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header Content-Type "";
			proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://mirror/api/v1/accounts/%[4]s?transactions=false;
		}
	}
}
`

// nginx starts nginx in front of an archive.
func (l *lab) nginx(ctx context.Context, a *library) (*relay, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		if program = "/usr/sbin/nginx"; exec.CommandContext(ctx, program, "-v").Run() != nil {
			return nil, errors.New("nginx is missing: make setup installs it")
		}
	}
	port, err := freePort(ctx)
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
	made := &relay{process: p, url: "http://127.0.0.1:" + port, naive: true}
	err = poll(ctx, startLimit, 20*time.Millisecond, func() error {
		select {
		case <-p.ended:
			return &fatal{fmt.Errorf("nginx ended:\n%s", p.tail())}
		default:
		}
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		p.kill()
		return nil, err
	}
	return made, nil
}

// has tells whether the beginning of an answer is what the load wants.
func (q reading) has(head []byte) bool {
	if q.holds != "" {
		return bytes.Contains(head, []byte(q.holds))
	}
	return !bytes.Contains(head, []byte(`"error"`)) && !bytes.Contains(head, []byte(`"result":null`)) && bytes.Contains(head, []byte(`"result":`))
}
