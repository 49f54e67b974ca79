//go:build !race

package rpc

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
)

// What telling one more subscriber of an event may allocate: its place in the queue of frames, and a writer. All share the event.
func TestAllocationBudgetOfNotifications(t *testing.T) {
	const subscribers, each, beside = 50, 5, 25
	s := NewWSServer(testDispatcher(t, testConfig(), Options{}))
	conns, clients := make([]*wsConn, subscribers), make([]net.Conn, subscribers)
	for i := range conns {
		conns[i], clients[i] = connected(t, s)
	}
	event := bytes.Repeat([]byte("7"), 2<<10)
	const id = "0x00000000000000000000000000000001"
	answer := make([]byte, conns[0].heard(id, event))
	got := testing.AllocsPerRun(200, func() {
		told := NewEvent(event)
		for _, c := range conns {
			if !c.Notify(id, told) {
				t.Fatal("a notification was not taken")
			}
		}
		for _, client := range clients {
			if _, err := io.ReadFull(client, answer); err != nil {
				t.Fatal(err)
			}
		}
	})
	if !bytes.HasSuffix(answer, []byte(noticeMiddle+id+noticeTail)) {
		t.Fatalf("the client read %.100q", answer)
	}
	if got > subscribers*each+beside {
		t.Errorf("an event for %d subscribers: %v allocations, the budget is %d for each and %d beside", subscribers, got, each, beside)
	}
}

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
			if _, err := conns[i].Write(maskedFrame(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`)); err != nil {
				t.Fatal(err)
			}
			var answer [40]byte
			if _, err := conns[i].Read(answer[:]); err != nil {
				t.Fatal(err)
			}
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
