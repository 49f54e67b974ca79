//go:build !race

package rpc

import (
	"net"
	"runtime"
	"testing"

	"lockstep/internal/must"
)

// memory is what the process uses after a thorough collection, in bytes.
func memory() uint64 {
	var m runtime.MemStats
	for range 3 {
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
