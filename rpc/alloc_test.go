//go:build !race

package rpc

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
)

// What a call may allocate between its bytes and the bytes of its answer. A pool may be emptied meanwhile, so there is
// some room. The race detector allocates on its own.
func TestAllocationBudgets(t *testing.T) {
	for _, c := range []struct {
		name, body string
		budget     float64
	}{
		{"eth_chainId", chainIDCall, 3},
		{"a method with a parameter", sha3Call, 5},
		{"a method that may wait", call1("eth_accounts"), 9},
		{"a batch of 100", chainIDBatch(100), 5},
	} {
		d, body := testDispatcher(t, testConfig(), Options{}), []byte(c.body)
		got := testing.AllocsPerRun(1000, func() {
			req := &requestContext{Context: context.Background(), request: Request{ID: newRequestID(), IP: "127.0.0.1"}}
			ex := d.begin(req, TransportHTTP, &req.request, body)
			ex.finish(req)
			ex.observeHTTP(req, ex.httpStatus())
			ex.release()
		})
		if got > c.budget {
			t.Errorf("%s: %v allocations, the budget is %v", c.name, got, c.budget)
		}
	}
}

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
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall); err != nil {
			t.Fatal(err)
		}
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
