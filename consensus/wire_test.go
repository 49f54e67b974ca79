package consensus

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// refusingServer speaks just enough HTTP/2 to take a request and refuse its stream
// in the way that permits a client to repeat it on its own.
type refusingServer struct {
	endpoint string

	mu       sync.Mutex // guards all below
	messages int
}

func startRefusing(t *testing.T) *refusingServer {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &refusingServer{endpoint: listener.Addr().String()}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { s.serve(conn) })
			t.Cleanup(func() { _ = conn.Close() })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
	})
	return s
}

func (s *refusingServer) serve(conn net.Conn) {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings() != nil {
		return
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = framer.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = framer.WritePing(true, frame.Data)
			}
		case *http2.DataFrame:
			s.mu.Lock()
			s.messages++
			s.mu.Unlock()
			_ = framer.WriteRSTStream(frame.StreamID, http2.ErrCodeRefusedStream)
		}
	}
}

func (s *refusingServer) received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages
}

// TestNoHiddenRetry: gRPC repeats a refused stream by itself, and would so write
// the message at a time when the gate has not been asked. Every message that
// arrives must have passed the gate just before.
func TestNoHiddenRetry(t *testing.T) {
	server := startRefusing(t)
	n := newNode(NodeAddress{ID: hedera.Entity(3), Endpoints: []string{server.endpoint}}, false, new(atomic.Bool), slog.New(slog.DiscardHandler))
	defer n.close()
	conn, err := n.connection(forTransactions)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	gate := func() error {
		asked++
		return nil
	}
	err = call(t.Context(), conn, "/proto.SmartContractService/callEthereum", new(hapi.Transaction), gate, nil)
	if err == nil || provablyUnsent(err) {
		t.Errorf("a message that was written and refused: %v", err)
	}
	if asked != 1 || server.received() != 1 {
		t.Errorf("the gate was asked %d times and %d messages arrived, want 1 and 1", asked, server.received())
	}
	shut := errors.New("shut")
	err = call(t.Context(), conn, "/x/y", new(hapi.Transaction), func() error { return shut }, nil)
	if !provablyUnsent(err) || !errors.Is(err, shut) {
		t.Errorf("with the gate shut: %v", err)
	}
	if server.received() != 1 {
		t.Error("a message passed a shut gate")
	}
}

// TestGateIsAskedAfterConnecting: connecting can take seconds, and the gate's
// answer must not be that old.
func TestGateIsAskedAfterConnecting(t *testing.T) {
	a := startNode(t, 3)
	c := quick(t, a)
	connected := false
	_, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}, BeforeSend: func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		connected = len(a.conns) > 0
		return nil
	}})
	if err != nil || !connected {
		t.Errorf("the gate was asked before there was a connection (%v)", err)
	}
}
