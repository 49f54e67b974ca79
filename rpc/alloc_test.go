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
	used := func() uint64 {
		var m runtime.MemStats
		for range 4 { // a collection halves the stacks that are too large, and frees what the one before has put aside
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	var conns []net.Conn
	before := used()
	for range n {
		conn := must.Get(net.Dial("tcp", address))(t)
		defer conn.Close()
		must.Get(fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall))(t)
		conns = append(conns, conn)
	}
	eventually(t, func() bool { return value(met.inFlight) == n })
	if each := int(used()-before) / n; each > most {
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
