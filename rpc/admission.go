package rpc

import (
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/clientip"
	"lockstep/internal/eth"
	"lockstep/internal/relay/capacity"
)

// admission lets connections in, up to a total limit and a limit for each client. A client may not have more than are
// left free either, so that a few of them cannot keep all others out, and nobody's connection has to be closed for
// another's. A trusted proxy stands for many clients, so its connections count in the total only.
type admission struct {
	limit, perClient int
	proxies          clientip.Networks
	metrics          *Metrics

	mu       sync.Mutex
	open     int            // guarded by mu
	clients  map[string]int // open connections by client; guarded by mu
	refusing int            // connections that are being refused; guarded by mu
}

func newAdmission(c *Config, m *Metrics) *admission {
	return &admission{
		limit: c.HTTP.ConnectionLimit, perClient: c.HTTP.ConnectionLimitPerIP, proxies: c.Proxies(), metrics: m,
		clients: make(map[string]int),
	}
}

// enter counts a connection until leave is called. It closes one that is not let in.
func (d *admission) enter(conn net.Conn) (leave func(), ok bool) {
	client := d.client(conn)
	d.mu.Lock()
	defer d.mu.Unlock()
	free := d.limit - d.open
	share := min(d.perClient, free)
	switch {
	case free <= 0:
		d.refuse(conn, "total", d.limit)
		return nil, false
	case client != "" && d.clients[client] >= share:
		d.refuse(conn, "address", share)
		return nil, false
	}
	d.open++
	if client != "" {
		d.clients[client]++
	}
	d.metrics.connections.Inc()
	v := &visit{admission: d, client: client}
	return v.leave, true
}

// visit is a connection that was let in. It is small, because there may be a hundred thousand.
type visit struct {
	*admission
	client string
	over   atomic.Bool
}

// leave may be called more than once.
func (v *visit) leave() {
	if !v.over.Swap(true) {
		v.left(v.client)
	}
}

// client returns the client of a connection; empty for a proxy.
func (d *admission) client(conn net.Conn) string {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || d.proxies.Have(remote.Addr()) {
		return ""
	}
	return capacity.ClientOfAddr(remote.Addr())
}

func (d *admission) left(client string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	d.metrics.connections.Dec()
	if client == "" {
		return
	}
	if d.clients[client]--; d.clients[client] == 0 {
		delete(d.clients, client)
	}
}

// refuse tells the client why. That takes a moment, so only a bounded number of connections is told at a time;
// the others are closed at once. The caller holds mu.
func (d *admission) refuse(conn net.Conn, limit string, maximum int) {
	d.metrics.refusedConnections.WithLabelValues(limit).Inc()
	const maxRefusals = 64
	if d.refusing == maxRefusals {
		_ = conn.Close()
		return
	}
	d.refusing++
	go func() {
		d.say(conn, maximum)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.refusing--
	}()
}

func (d *admission) say(conn net.Conn, maximum int) {
	defer func() { _ = conn.Close() }()
	if conn.SetDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	e := eth.ErrConnections(maximum)
	body := appendTail(appendErrorObject(appendErrorHead(nil), e.Code, e.Message, nil), nil)
	answer := append([]byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: "+jsonType+"\r\n"+retryHeader+": 1\r\nConnection: close\r\nContent-Length: "),
		strconv.Itoa(len(body))...)
	if _, err := conn.Write(append(append(answer, "\r\n\r\n"...), body...)); err != nil {
		return
	}
	// Input that nobody has read would make the network drop the answer.
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		const longest = 64 << 10
		_, _ = io.CopyN(io.Discard, conn, longest)
	}
}
