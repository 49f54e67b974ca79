package rpc

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"lockstep/internal/must"
)

// connected is a connection over loopback, and its client's end.
func connected(t *testing.T, s *WSServer) (c *wsConn, client net.Conn) {
	ln := listen(t)
	defer ln.Close()
	client = must.Get(net.Dial("tcp", ln.Addr().String()))(t)
	t.Cleanup(func() { client.Close() })
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c = &wsConn{server: s, net: conn, stop: make(chan struct{}), written: make(chan struct{})}
	if c.raw, err = conn.(*net.TCPConn).SyscallConn(); err != nil {
		t.Fatal(err)
	}
	c.out = newSendQueue(func() { s.writers.add(c) })
	return c, client
}

// heard is how many bytes a client reads of a notification.
func (c *wsConn) heard(id string, event []byte) int {
	n := len(c.server.d.notice) + len(event) + len(noticeMiddle) + len(id) + len(noticeTail)
	switch {
	case n < 126:
		return 2 + n
	case n < 1<<16:
		return 4 + n
	}
	return 10 + n
}

// TestWritersGoRoundSlowClients has more clients that read nothing than there are writers. All others get their notifications, and the
// slow ones get theirs when they read.
func TestWritersGoRoundSlowClients(t *testing.T) {
	const slow, quick, events = 5, 20, 3
	const id = "0x00000000000000000000000000000001"
	s := NewWSServer(testDispatcher(t, testConfig(), Options{}))
	s.writers = newWriters(2, patience, s.d.notice)
	large, small := bytes.Repeat([]byte("7"), 8<<20), bytes.Repeat([]byte("8"), 2<<10)
	conns, stuck := make([]*wsConn, slow), make([]net.Conn, slow)
	for i := range stuck {
		conns[i], stuck[i] = connected(t, s)
		if !conns[i].Notify(id, NewEvent(large)) {
			t.Fatal("a notification was not taken")
		}
	}
	for range quick {
		c, client := connected(t, s)
		for range events {
			if !c.Notify(id, NewEvent(small)) {
				t.Fatal("a notification was not taken")
			}
		}
		_ = client.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(client, make([]byte, events*c.heard(id, small))); err != nil {
			t.Fatalf("a client that reads got nothing: %v", err)
		}
	}
	for i, client := range stuck {
		conns[i].out.mu.Lock()
		writing := conns[i].out.writing
		conns[i].out.mu.Unlock()
		if !writing {
			t.Fatal("the kernel took everything: this test shows nothing")
		}
		_ = client.SetReadDeadline(time.Now().Add(patience))
		got := make([]byte, conns[i].heard(id, large))
		if _, err := io.ReadFull(client, got); err != nil || !bytes.HasSuffix(got, []byte(id+noticeTail)) {
			t.Fatalf("a slow client: %v, %.50q", err, got)
		}
	}
	s.writers.mu.Lock()
	defer s.writers.mu.Unlock()
	if s.writers.taking < 0 || s.writers.taking > s.writers.maximum {
		t.Errorf("%d writers, the maximum is %d", s.writers.taking, s.writers.maximum)
	}
}

// TestSlowClientDelaysNobodyInItsBatch: a writer that stays with its client gives back the others that it took with it.
func TestSlowClientDelaysNobodyInItsBatch(t *testing.T) {
	const id = "0x00000000000000000000000000000001"
	s := NewWSServer(testDispatcher(t, testConfig(), Options{}))
	s.writers = newWriters(1, patience, s.d.notice)
	s.writers.taking = 1 // nobody writes before all wait
	large := bytes.Repeat([]byte("7"), 8<<20)
	stuck, slow := connected(t, s)
	if !stuck.Notify(id, NewEvent(large)) {
		t.Fatal("a notification was not taken")
	}
	small := bytes.Repeat([]byte("8"), 2<<10)
	conns, clients := make([]*wsConn, batchSize-1), make([]net.Conn, batchSize-1)
	for i := range conns {
		conns[i], clients[i] = connected(t, s)
		if !conns[i].Notify(id, NewEvent(small)) {
			t.Fatal("a notification was not taken")
		}
	}
	s.writers.leave(nil, nil)
	for i, client := range clients {
		_ = client.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(client, make([]byte, conns[i].heard(id, small))); err != nil {
			t.Fatalf("client %d waits for the slow one: %v", i, err)
		}
	}
	_ = slow.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(slow, make([]byte, stuck.heard(id, large))); err != nil {
		t.Fatalf("the slow client: %v", err)
	}
}

// TestWritersAreFew: an event for many connections starts no more writers than there may be, and they end.
func TestWritersAreFew(t *testing.T) {
	const connections, maximum = 200, 3
	const id = "0x00000000000000000000000000000001"
	s := NewWSServer(testDispatcher(t, testConfig(), Options{}))
	s.writers = newWriters(maximum, patience, s.d.notice)
	event := bytes.Repeat([]byte("8"), 2<<10)
	conns, clients := make([]*wsConn, connections), make([]net.Conn, connections)
	for i := range conns {
		conns[i], clients[i] = connected(t, s)
	}
	most := 0
	for i, c := range conns {
		if !c.Notify(id, NewEvent(event)) {
			t.Fatal("a notification was not taken")
		}
		s.writers.mu.Lock()
		most = max(most, s.writers.taking)
		s.writers.mu.Unlock()
		_ = clients[i].SetReadDeadline(time.Now().Add(patience))
	}
	for i, client := range clients {
		must.Get(io.ReadFull(client, make([]byte, conns[i].heard(id, event))))(t)
	}
	if most > maximum || most == 0 {
		t.Errorf("%d writers at a time, want 1 to %d", most, maximum)
	}
	eventually(t, func() bool {
		s.writers.mu.Lock()
		defer s.writers.mu.Unlock()
		return s.writers.taking == 0 && len(s.writers.waiting) == s.writers.next
	})
}

// TestLineOfWritersIsBounded: the line of connections is as long as there are connections in it, also if it is never empty.
func TestLineOfWritersIsBounded(t *testing.T) {
	ws, c := newWriters(0, patience, ""), new(wsConn)
	ws.add(c)
	for range 100_000 {
		ws.add(c)
		if got := ws.take(make([]*wsConn, 1)); len(got) != 1 || got[0] != c {
			t.Fatal("the line is empty")
		}
	}
	if room := cap(ws.waiting); room > 16 {
		t.Errorf("room for %d in a line of 1", room)
	}
}
