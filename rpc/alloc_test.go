//go:build !race

package rpc

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// TestWaitingRequestMemory: an HTTP connection whose call waits for its turn costs a maximum of 28 KB of heap and stacks, all that
// net/http needs for it and the client's end of the socket included.
func TestWaitingRequestMemory(t *testing.T) {
	const n, most = 500, 28 << 10
	p := &patient{queued: *newQueued(func() (any, error) { return true, nil }), told: make(chan func(), n)}
	met := NewMetrics()
	address := strings.TrimPrefix(serveHTTP(t, testDispatcher(t, testConfig(), Options{Metrics: met}, p.method()), HTTPOptions{}), "http://")
	var conns []net.Conn
	before := memory()
	for range n {
		conn := must.Get(net.Dial("tcp", address))(t)
		defer conn.Close()
		must.Get(fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall))(t)
		conns = append(conns, conn)
	}
	eventually(t, func() bool { return value(met.inFlight) == n })
	if each := int(memory()-before) / n; each > most {
		t.Errorf("%d bytes for each of %d connections, want %d at most", each, n, most)
	} else {
		t.Logf("%d bytes for each", each)
	}
	for range n {
		(<-p.told)()
		<-p.begun
	}
	runtime.KeepAlive(conns)
}

// TestWaitingCallMemory: a call that came over WebSocket and waits for its turn costs a maximum of 1,400 bytes. A goroutine would be more than
// all the rest.
func TestWaitingCallMemory(t *testing.T) {
	const n, most = 2000, 1400
	p := &patient{queued: *newQueued(func() (any, error) { return true, nil }), told: make(chan func(), n)}
	c, met := testConfig(), NewMetrics()
	c.WebSocket.MaxInFlight = n
	url, _ := serveWS(t, testDispatcher(t, c, Options{Metrics: met}, p.method()))
	conn := rawDial(t, url)
	before := memory()
	for range n {
		must.Get(conn.Write(maskedFrame(queuedCall)))(t)
	}
	eventually(t, func() bool { return value(met.inFlight) == n })
	each := (int64(memory()) - int64(before)) / n
	t.Logf("%d bytes for each", each)
	if each > most {
		t.Errorf("a call that waits costs %d bytes, more than %d", each, most)
	}
	for range n {
		(<-p.told)()
		<-p.begun
	}
}

// memory is what the process uses after a thorough collection, in bytes.
func memory() uint64 {
	var m runtime.MemStats
	for range 4 { // a collection halves the stacks that are too large, and frees what the one before has put aside
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestWebSocketIdleMemory: a connection that has made calls and is idle costs a maximum of
// 12 KB, the client's end of the socket included.
func TestWebSocketIdleMemory(t *testing.T) {
	const connections, most = 1000, 12_000
	c := testConfig()
	c.WebSocket.ConnectionLimit, c.WebSocket.ConnectionLimitPerIP = connections, connections
	met := NewMetrics()
	slow := Method{Name: "eth_accounts", AnyParams: true, Handler: returns([]string{})}
	fast := Method{Name: "eth_chainId", Inline: true, AnyParams: true, Handler: returns("0x12a")}
	url, _ := serveWS(t, testDispatcher(t, c, Options{Metrics: met}, slow, fast))
	before := memory()
	conns := make([]net.Conn, connections)
	for i := range conns {
		conns[i] = rawDial(t, url)
		for _, method := range []string{"eth_accounts", "eth_chainId"} {
			must.Get(conns[i].Write(maskedFrame(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`)))(t)
			var answer [40]byte
			must.Get(conns[i].Read(answer[:]))(t)
		}
	}
	eventually(t, func() bool { return value(met.inFlight) == 0 })
	each := (int64(memory()) - int64(before)) / connections
	t.Logf("%d bytes for each idle connection", each)
	if each > most {
		t.Errorf("an idle connection costs %d bytes, more than %d", each, most)
	}
	runtime.KeepAlive(conns)
}
