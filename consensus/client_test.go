package consensus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/secret"
)

// TestTLS submits over TLS to a node with a certificate of its own: by the right
// pin, by a wrong one, and without one.
func TestTLS(t *testing.T) {
	certificate, pin := selfSigned(t)
	tests := []struct {
		name string
		pin  string
		want string
	}{
		{"right pin", pin, "accepted"},
		{"pin in upper case", "0x" + strings.ToUpper(pin), "accepted"},
		{"wrong pin", strings.Repeat("ab", 48), "not sent"},
		{"no pin", "", "accepted"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := startNode(t, 3, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{certificate}})))
			cfg := Config{
				Network: fmt.Sprintf(`{%q:"0.0.3"}`, a.endpoint), TransportSecurity: true,
				OperatorID: "0.0.1002", OperatorKey: secret.String(devECDSA), OperatorKeyFormat: "HEX_ECDSA",
				MaxAttempts: 2, AttemptTimeout: envx.Millis(patience), RequestTimeout: envx.Millis(patience),
			}
			if test.want != "accepted" {
				cfg.RequestTimeout = 5e9 // it ends by its time
			}
			if test.pin != "" {
				cfg.CertHashes = fmt.Sprintf(`{"0.0.3":%q}`, test.pin)
			}
			var log proctest.Tail
			c, err := New(cfg, slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.BePatient()
			c.pace.wake = time.Millisecond
			_, err = c.Submit(t.Context(), Submission{Ethereum: []byte{1}})
			// On a slow machine the time is over before the node has shown its certificate.
			for end := time.Now().Add(patience); test.want == "not sent" && !strings.Contains(fmt.Sprint(err), "SHA-384") && time.Now().Before(end); {
				_, err = c.Submit(t.Context(), Submission{Ethereum: []byte{1}})
			}
			if got := certainty(err); got != test.want {
				t.Errorf("%s, want %s: %v", got, test.want, err)
			}
			if test.want == "not sent" {
				if len(a.received()) > 0 {
					t.Error("the transaction reached a node with the wrong certificate")
				}
				if !strings.Contains(err.Error(), "SHA-384") {
					t.Errorf("the error does not say why: %v", err)
				}
			}
			if warned := strings.Count(log.String(), "is not trusted"); warned != 0 && test.want != "not sent" || warned != 1 && test.want == "not sent" {
				t.Errorf("%d warnings:\n%s", warned, log.String())
			}
		})
	}
}

// selfSigned makes a node's certificate and its pin.
func selfSigned(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	sum := sha512.Sum384(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, hex.EncodeToString(sum[:])
}

// TestRunBringsNodesBack: a node that went away and came back serves its senders
// again without a submission that had to try.
func TestRunBringsNodesBack(t *testing.T) {
	a, b := startNode(t, 3), startNode(t, 4)
	c := quick(t, a, b)
	sender := senderOf(t, c, a.id)
	must.Run(t, c.Run)
	must.Get(c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Sender: sender}))(t)
	a.stop()
	must.Until(t, "the loss is noticed without a submission", func() bool { return c.nodeFor(sender) == b.id })
	a.listen(a.endpoint)
	must.Until(t, "the node is back", func() bool { return c.nodeFor(sender) == a.id })
	if got := c.Nodes(); !got[0].Healthy || got[0].Failures != 0 || got[0].Err != nil {
		t.Errorf("the node that is back: %+v", got[0])
	}
}

// TestRunKeepsConnectionsWarm: a connection that the node closed for its age is
// open again before the next submission.
func TestRunKeepsConnectionsWarm(t *testing.T) {
	a := startNode(t, 3)
	c := quick(t, a)
	must.Run(t, c.Run)
	must.Get(c.Submit(t.Context(), Submission{Ethereum: []byte{1}}))(t)
	conn := must.Get(c.nodes.all()[0].connection(forTransactions))(t)
	a.cut()
	must.Until(t, "the cut is noticed and mended", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.conns) > 0 && conn.GetState() == connectivity.Ready
	})
}

func TestNodesReport(t *testing.T) {
	a, b := startNode(t, 3), startNode(t, 4)
	c := quick(t, a, b)
	broken := errors.New("broken")
	keepOut(c.nodes.all()[1], broken)
	got := c.Nodes()
	if got[0].ID != a.id || !got[0].Healthy || got[0].Endpoints[0] != a.endpoint {
		t.Errorf("node a: %+v", got[0])
	}
	if got[1].ID != b.id || got[1].Healthy || got[1].Failures != 1 || !errors.Is(got[1].Err, broken) {
		t.Errorf("node b: %+v", got[1])
	}
}

func TestMetrics(t *testing.T) {
	a := startNode(t, 3)
	a.submit = answers(statusOK, statusDuplicate)
	c := quick(t, a)
	for range 2 {
		_, _ = c.Submit(t.Context(), Submission{Ethereum: []byte{1}})
	}
	c.probe(c.nodes.all()[0], time.Now())
	want := must.Metrics{
		`rpc_relay_consensus_attempts_total accepted`:                 1,
		`rpc_relay_consensus_attempts_total refused`:                  1,
		`rpc_relay_consensus_node_errors_total DUPLICATE_TRANSACTION`: 1,
		`rpc_relay_consensus_node_healthy 0.0.3`:                      1,
		`rpc_relay_consensus_submit_seconds accepted`:                 1,
		`rpc_relay_consensus_submit_seconds refused`:                  1,
	}
	if diff := cmp.Diff(want, must.Measure(t, c.Collectors()...)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// nodeFor returns the node that a sender's transactions go to now.
func (c *Client) nodeFor(sender common.Address) hedera.ID { return c.nodes.best(sender, nil).id }

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
