//go:build !race

package rpc

import (
	"bytes"
	"io"
	"net"
	"testing"
)

// connected is a connection over loopback, and its client's end.
func connected(t *testing.T, s *WSServer) (c *wsConn, client net.Conn) {
	ln := listen(t)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c = &wsConn{server: s, net: conn}
	if c.raw, err = conn.(*net.TCPConn).SyscallConn(); err != nil {
		t.Fatal(err)
	}
	c.account.Begin(s.d.memory, "127.0.0.1")
	c.out = newOutbox(func() { go c.write() })
	return c, client
}

// What telling one more subscriber of an event may allocate: its place in the queue of frames, and a writer. All share the event.
func TestAllocationBudgetOfNotifications(t *testing.T) {
	const subscribers, each, beside = 50, 5, 25
	s := NewWSServer(testDispatcher(t, testConfig(), Options{}))
	conns, clients := make([]*wsConn, subscribers), make([]net.Conn, subscribers)
	for i := range conns {
		conns[i], clients[i] = connected(t, s)
	}
	event := bytes.Repeat([]byte("7"), 2<<10)
	const id, head = "0x00000000000000000000000000000001", 4
	answer := make([]byte, head+len(s.d.notice)+len(event)+len(noticeMiddle)+len(id)+len(noticeTail))
	got := testing.AllocsPerRun(200, func() {
		for _, c := range conns {
			if !c.Notify(id, event) {
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
