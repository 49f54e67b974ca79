package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/secret"
)

// offer is a transaction that arrived at a scripted node.
type offer struct {
	node *scriptedNode
	n    int // of this node's offers, from 1
	id   hedera.TransactionID
	body *hapi.TransactionBody
	ctx  context.Context
}

// scriptedNode is a real gRPC server that answers as its script says. The zero
// scripts accept everything and know no receipt.
type scriptedNode struct {
	t        *testing.T
	id       hedera.ID
	endpoint string
	public   []byte

	submit  func(o offer) (hapi.ResponseCodeEnum, error)
	receipt func(n int, id hedera.TransactionID) (header, receipt hapi.ResponseCodeEnum, err error)

	mu      sync.Mutex // guards all below
	offers  []offer
	queries int
	conns   []*net.TCPConn
	server  *grpc.Server
}

// startNode listens on a free port. The scripts are set before the first call.
func startNode(t *testing.T, num int64, options ...grpc.ServerOption) *scriptedNode {
	t.Helper()
	s := &scriptedNode{t: t, id: hedera.Entity(num), public: mustKey(t, devECDSA, hedera.FormatHexECDSA).Public()}
	s.listen("127.0.0.1:0", options...)
	return s
}

// listen starts the server, also again after stop, on the same endpoint.
func (s *scriptedNode) listen(endpoint string, options ...grpc.ServerOption) {
	s.t.Helper()
	listener, err := net.Listen("tcp", endpoint)
	for end := time.Now().Add(patience); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); {
		<-time.After(10 * time.Millisecond) // somebody had got the port meanwhile
		listener, err = net.Listen("tcp", endpoint)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.UnknownServiceHandler(s.handle))...)
	s.mu.Lock()
	s.endpoint, s.server = listener.Addr().String(), server
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(recordingListener{listener, s})
	}()
	s.t.Cleanup(func() {
		server.Stop()
		<-done
	})
}

func (s *scriptedNode) stop() {
	s.mu.Lock()
	server := s.server
	s.mu.Unlock()
	server.Stop()
}

// recordingListener remembers the connections so that they can be cut.
type recordingListener struct {
	net.Listener
	node *scriptedNode
}

func (l recordingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		l.node.mu.Lock()
		l.node.conns = append(l.node.conns, tcp)
		l.node.mu.Unlock()
	}
	return conn, err
}

// cut resets every connection.
func (s *scriptedNode) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
	s.conns = nil
}

var errCut = errors.New("script: cut the connection")

func (s *scriptedNode) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var response proto.Message
	var err error
	if method == hapi.MethodGetTransactionReceipts {
		response, err = s.handleReceipt(stream)
	} else {
		response, err = s.handleTransaction(stream)
	}
	if errors.Is(err, errCut) {
		s.cut()
	}
	if err != nil {
		return err
	}
	return stream.SendMsg(response)
}

func (s *scriptedNode) handleTransaction(stream grpc.ServerStream) (proto.Message, error) {
	var outer hapi.Transaction
	if err := stream.RecvMsg(&outer); err != nil {
		return nil, err
	}
	var signed hapi.SignedTransaction
	body := new(hapi.TransactionBody)
	if proto.Unmarshal(outer.GetSignedTransactionBytes(), &signed) != nil || proto.Unmarshal(signed.GetBodyBytes(), body) != nil {
		return nil, status.Error(codes.InvalidArgument, "cannot decode")
	}
	pairs := signed.GetSigMap().GetSigPair()
	if len(pairs) != 1 || !hedera.Verify(s.public, signed.GetBodyBytes(), pairs[0].GetECDSASecp256K1()) {
		s.t.Errorf("node %s: the signature does not verify", s.id)
	}
	if got := body.GetNodeAccountID().GetAccountNum(); got != s.id.Num {
		s.t.Errorf("node %s got a transaction for node %d", s.id, got)
	}
	start := body.GetTransactionID().GetTransactionValidStart()
	s.mu.Lock()
	o := offer{
		node: s, n: len(s.offers) + 1, body: body, ctx: stream.Context(),
		id: hedera.TransactionID{
			Payer:      hedera.Entity(body.GetTransactionID().GetAccountID().GetAccountNum()),
			ValidStart: hedera.Timestamp{Seconds: start.GetSeconds(), Nanos: start.GetNanos()},
		},
	}
	s.offers = append(s.offers, o)
	s.mu.Unlock()
	if s.submit == nil {
		return &hapi.TransactionResponse{}, nil
	}
	answer, err := s.submit(o)
	return &hapi.TransactionResponse{NodeTransactionPrecheckCode: answer}, err
}

func (s *scriptedNode) handleReceipt(stream grpc.ServerStream) (proto.Message, error) {
	var query hapi.Query
	if err := stream.RecvMsg(&query); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.queries++
	n := s.queries
	s.mu.Unlock()
	id := query.GetTransactionGetReceipt().GetTransactionID()
	header, receipt, err := hapi.ResponseCodeEnum_RECEIPT_NOT_FOUND, hapi.ResponseCodeEnum_OK, error(nil)
	if s.receipt != nil {
		header, receipt, err = s.receipt(n, hedera.TransactionID{
			Payer:      hedera.Entity(id.GetAccountID().GetAccountNum()),
			ValidStart: hedera.Timestamp{Seconds: id.GetTransactionValidStart().GetSeconds(), Nanos: id.GetTransactionValidStart().GetNanos()},
		})
	}
	answer := &hapi.TransactionGetReceiptResponse{Header: &hapi.ResponseHeader{NodeTransactionPrecheckCode: header}}
	if header == hapi.ResponseCodeEnum_OK {
		answer.Receipt = &hapi.TransactionReceipt{Status: receipt}
	}
	return &hapi.Response{Response: &hapi.Response_TransactionGetReceipt{TransactionGetReceipt: answer}}, err
}

func (s *scriptedNode) received() []offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]offer(nil), s.offers...)
}

// Scripts for scriptedNode.submit.

// answers gives the statuses in turn; the last one repeats.
func answers(statuses ...hapi.ResponseCodeEnum) func(offer) (hapi.ResponseCodeEnum, error) {
	return func(o offer) (hapi.ResponseCodeEnum, error) { return statuses[min(o.n, len(statuses))-1], nil }
}

// cutThen cuts the connection after the first offer arrived, then answers.
func cutThen(statuses ...hapi.ResponseCodeEnum) func(offer) (hapi.ResponseCodeEnum, error) {
	return func(o offer) (hapi.ResponseCodeEnum, error) {
		if o.n == 1 {
			return 0, errCut
		}
		return statuses[min(o.n-1, len(statuses))-1], nil
	}
}

// hang never answers.
func hang(o offer) (hapi.ResponseCodeEnum, error) {
	<-o.ctx.Done()
	return 0, o.ctx.Err()
}

// fails answers with a gRPC code.
func fails(code codes.Code) func(offer) (hapi.ResponseCodeEnum, error) {
	return func(offer) (hapi.ResponseCodeEnum, error) { return 0, status.Error(code, "script") }
}

// Scripts for scriptedNode.receipt.

type receiptScript = func(int, hedera.TransactionID) (header, receipt hapi.ResponseCodeEnum, err error)

// after answers the first queries by one script and the others by another.
func after(queries int, first, then receiptScript) receiptScript {
	return func(n int, id hedera.TransactionID) (hapi.ResponseCodeEnum, hapi.ResponseCodeEnum, error) {
		if n <= queries {
			return first(n, id)
		}
		return then(n, id)
	}
}

// knows answers every receipt query with a header and a receipt status.
func knows(header, receipt hapi.ResponseCodeEnum) receiptScript {
	return func(int, hedera.TransactionID) (hapi.ResponseCodeEnum, hapi.ResponseCodeEnum, error) {
		return header, receipt, nil
	}
}

func cutQueries(int, hedera.TransactionID) (hapi.ResponseCodeEnum, hapi.ResponseCodeEnum, error) {
	return 0, 0, errCut
}

const (
	statusOK        = hapi.ResponseCodeEnum_OK
	statusUnknown   = hapi.ResponseCodeEnum_UNKNOWN
	statusBusy      = hapi.ResponseCodeEnum_BUSY
	statusDuplicate = hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION
	statusNotFound  = hapi.ResponseCodeEnum_RECEIPT_NOT_FOUND
	statusSuccess   = hapi.ResponseCodeEnum_SUCCESS
)

// patience is for a machine that stands still at times; what passes, passes at once.
const patience = 2 * time.Minute

// Patience is that of tests with a network around the client.
const Patience = patience

// TestMain fails when a test leaves a goroutine behind: Close and Run end all they began.
func TestMain(m *testing.M) {
	connectMinTimeout = patience
	code := m.Run()
	leak := goleak.Find()
	for end := time.Now().Add(patience); leak != nil && time.Now().Before(end); leak = goleak.Find() { // machines are slow
	}
	if code == 0 && leak != nil {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

// longEnough tries with more time until that was enough for a slow machine.
func longEnough(t *testing.T, first time.Duration, try func(time.Duration) (inTime bool)) {
	t.Helper()
	for d := first; !try(d); d *= 2 {
		if d > patience {
			t.Fatal("the machine is too slow")
		}
	}
}

// quick makes a client for the nodes that retries in milliseconds. However slow the machine is, nothing ends by
// its time.
func quick(t *testing.T, nodes ...*scriptedNode) *Client {
	t.Helper()
	network := "{"
	for i, n := range nodes {
		if i > 0 {
			network += ","
		}
		network += `"` + n.endpoint + `":"` + n.id.String() + `"`
	}
	return quickNetwork(t, network+"}")
}

func quickLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func quickNetwork(t *testing.T, network string) *Client {
	t.Helper()
	c := must.Get(New(Config{
		Network: network, OperatorID: "0.0.1002", OperatorKey: secret.String(devECDSA), OperatorKeyFormat: "HEX_ECDSA",
		MaxAttempts: 6, AttemptTimeout: envx.Millis(patience), RequestTimeout: envx.Millis(patience),
	}, quickLog(t)))(t)
	c.pace = pace{
		retryMin: time.Millisecond, retryMax: 5 * time.Millisecond, wake: 50 * time.Millisecond, connect: patience, query: patience, probe: 2 * time.Millisecond, bookRest: time.Millisecond, source: time.Millisecond, restart: patience, lost: patience,
		receipt: []time.Duration{0, time.Millisecond, 5 * time.Millisecond},
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// BePatient makes a client that waits for as long as a slow machine needs.
func (c *Client) BePatient() {
	c.pace.connect, c.pace.query, c.pace.restart = patience, patience, patience
}

// untilCalled is a context whose time is up when over is closed, not by any clock.
type untilCalled struct {
	context.Context
	over chan struct{}
}

func (u untilCalled) Done() <-chan struct{} { return u.over }

func (u untilCalled) Err() error {
	select {
	case <-u.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// afterOffers returns a context whose time is up when each of the nodes has had some offers.
func afterOffers(ctx context.Context, offers int, nodes ...*scriptedNode) context.Context {
	u := untilCalled{ctx, make(chan struct{})}
	var mu sync.Mutex
	missing := len(nodes)
	for _, n := range nodes {
		script := n.submit
		n.submit = func(o offer) (hapi.ResponseCodeEnum, error) {
			if o.n == offers {
				mu.Lock()
				defer mu.Unlock()
				if missing--; missing == 0 {
					close(u.over)
				}
			}
			return script(o)
		}
	}
	return u
}

// keepOut makes a node unhealthy for as long as any test takes.
func keepOut(n *node, err error) {
	n.failed(err, false)
	n.retryAt.Store(time.Now().Add(time.Hour).UnixNano())
}

// movedAway tells whether a sender's transactions go to another node than its own, or the time is over for which
// they do.
func movedAway(c *Client, sender common.Address, from hedera.ID) bool {
	if c.nodeFor(sender) != from {
		return true
	}
	n := c.nodes.find(from)
	retryAt := n.retryAt.Load()
	return retryAt != 0 && retryAt <= time.Now().UnixNano()
}

// senderOf finds a sender whose node is the wanted one while all are healthy.
func senderOf(t *testing.T, c *Client, want hedera.ID) common.Address {
	t.Helper()
	for i := range 10_000 {
		sender := common.Address{byte(i), byte(i >> 8), 7}
		if c.nodeFor(sender) == want {
			return sender
		}
	}
	t.Fatalf("no sender goes to node %s", want)
	return common.Address{}
}

// connect opens all connections for transactions.
func connect(t *testing.T, c *Client) {
	t.Helper()
	for _, n := range c.nodes.all() {
		conn := must.Get(n.connection(forTransactions))(t)
		conn.Connect()
		must.Until(t, "a connection", func() bool { return conn.GetState() == connectivity.Ready })
	}
}
