package ethapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/gorilla/websocket"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"lockstep/devnet/ledger"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
	"lockstep/rpc"
)

// stage is a development network, a mirror node that can be stopped, and a relay with
// subscriptions, all on real sockets.
type stage struct {
	*network
	mirror *stoppable
	ws     string // address of the relay's WebSocket port
	to     common.Address
	nonce  uint64
	subs   *Subscriptions
}

// failures is how often the relay failed to read the mirror node.
func (s *stage) failures() float64 {
	var m dto.Metric
	must.Do(s.t, s.subs.metrics.failures.Write(&m))
	return m.GetCounter().GetValue()
}

// stoppable is a mirror node's server that can go away and come back at its address.
type stoppable struct {
	t       testing.TB
	handler http.Handler
	addr    string
	server  *http.Server
	done    chan error
}

func (s *stoppable) start() {
	s.t.Helper()
	ln, err := net.Listen("tcp", s.addr)
	for end := time.Now().Add(patience); err != nil; ln, err = net.Listen("tcp", s.addr) {
		if time.Now().After(end) { // until then somebody may have used the port for a connection
			s.t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
	s.addr = ln.Addr().String()
	s.server, s.done = &http.Server{Handler: s.handler}, make(chan error, 1)
	server, done := s.server, s.done
	go func() { done <- server.Serve(ln) }()
}

// kill cuts all connections.
func (s *stoppable) kill() {
	s.t.Helper()
	s.server.Close()
	if err := <-s.done; !errors.Is(err, http.ErrServerClosed) {
		s.t.Error(err)
	}
}

func newStage(t testing.TB, connections int, change ...func(*settings)) *stage {
	t.Helper()
	l := must.Get(ledger.New(ledger.Config{}))(t)
	node := &stoppable{t: t, addr: "127.0.0.1:0", handler: mirrorrest.New(mirrorrest.Config{
		View: l.View, Log: slog.New(slog.DiscardHandler), Changed: l.Subscribe,
	})}
	node.start()
	t.Cleanup(func() { node.kill() })
	s := &stage{mirror: node, network: newNetworkOver(t, l, &httptest.Server{URL: "http://" + node.addr}, append([]func(*settings){func(c *settings) {
		c.API.Subscriptions.PollingInterval = envx.Millis(20 * time.Millisecond)
		c.RPC.WebSocket.ConnectionLimit, c.RPC.WebSocket.ConnectionLimitPerIP = connections, connections
		c.RPC.WebSocket.PingInterval, c.RPC.WebSocket.InactivityTTL = 0, envx.Millis(time.Hour)
	}}, change...)...)}
	s.serve(t)
	s.deploy()
	return s
}

// serve runs the relay's WebSocket port and its subscriptions.
func (s *stage) serve(t testing.TB) {
	t.Helper()
	subs := NewSubscriptions(s.api)
	s.subs = subs
	registry := must.Get(rpc.NewRegistry(subs.Methods()...))(t)
	dispatcher := must.Get(rpc.NewDispatcher(s.settings.RPC, registry, rpc.Options{Logger: slog.New(slog.DiscardHandler), Metrics: rpc.NewMetrics(), Unknown: UnknownMethod, Notification: Notification, Memory: s.settings.Memory}))(t)
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.ws = ln.Addr().String()
	group, ctx := errgroup.WithContext(t.Context()) // ends before cleanups begin
	group.Go(func() error { return subs.Run(ctx) })
	group.Go(func() error { return rpc.NewWSServer(dispatcher).Run(ctx, ln) })
	t.Cleanup(func() {
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// deploy makes a contract that logs its call data's first word.
func (s *stage) deploy() {
	const runtime = "600035600052600160206000a100"
	tx := s.dynamic(s.nonce, nil, 0, 200_000, common.FromHex("6d"+runtime+"600052600e6012f3"))
	s.nonce++
	var receipt struct{ ContractAddress common.Address }
	must.Do(s.t, json.Unmarshal(s.call("eth_getTransactionReceipt", fmt.Sprintf("[%q]", tx.Hash().Hex())).Result, &receipt))
	s.to = receipt.ContractAddress
}

// block makes one block with one log, whose data is the number that is returned.
func (s *stage) block() uint64 {
	n := s.nonce
	s.nonce++
	s.send(&types.DynamicFeeTx{
		ChainID: big.NewInt(298), Nonce: n, GasFeeCap: big.NewInt(800_000_000_000), GasTipCap: new(big.Int), Gas: 100_000, To: &s.to,
		Data: common.BigToHash(new(big.Int).SetUint64(n)).Bytes(),
	})
	return n
}

// listener is a client with a subscription to blocks and one to logs.
type listener struct {
	conn        *websocket.Conn
	heads, logs string // ids
	head, log   uint64 // the next ones expected; 0: any
	blocks      uint64 // told so far
}

func (s *stage) listen(filter string) (*listener, error) {
	dialer := websocket.Dialer{ReadBufferSize: 1 << 10, WriteBufferSize: 1 << 10}
	conn, answer, err := dialer.Dial("ws://"+s.ws, nil)
	if err != nil {
		return nil, err
	}
	answer.Body.Close()
	c := &listener{conn: conn}
	if c.heads, err = c.subscribe(`["newHeads"]`); err != nil {
		return nil, err
	}
	c.logs, err = c.subscribe(`["logs",` + filter + `]`)
	return c, err
}

func (c *listener) subscribe(params string) (string, error) {
	call := `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":` + params + `}`
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(call)); err != nil {
		return "", err
	}
	for {
		_, message, err := c.conn.ReadMessage()
		if err != nil {
			return "", err
		}
		if bytes.Contains(message, []byte(`"eth_subscription"`)) {
			if err := c.take(message); err != nil {
				return "", err
			}
			continue
		}
		var answer response
		var id string
		if err := json.Unmarshal(message, &answer); err != nil || answer.Error != nil || json.Unmarshal(answer.Result, &id) != nil {
			return "", fmt.Errorf("subscribe: %s", message)
		}
		return id, nil
	}
}

// take checks that a notification is the one that must come next.
func (c *listener) take(message []byte) error {
	const tail = 34 + len(`"}}`)
	id := string(message[len(message)-tail : len(message)-len(`"}}`)])
	name, expected := `"number":"`, &c.head
	switch id {
	case c.heads:
	case c.logs:
		name, expected = `"data":"`, &c.log
	default:
		return fmt.Errorf("notification of an unknown subscription: %s", message)
	}
	_, rest, _ := bytes.Cut(message, []byte(name))
	digits, _, _ := bytes.Cut(rest, []byte(`"`))
	n, err := strconv.ParseUint(strings.TrimPrefix(string(digits), "0x"), 16, 64)
	if err != nil {
		return fmt.Errorf("%s: %w", message, err)
	}
	if *expected != 0 && n != *expected {
		return fmt.Errorf("%s%d after %d", name, n, *expected-1)
	}
	*expected = n + 1
	if id == c.heads {
		c.blocks++
	}
	return nil
}

// until reads until the log of that number has come, and so its block, which is told
// before. There must have been as many blocks as logs.
func (c *listener) until(log uint64) error {
	first := c.log
	for c.log <= log {
		_, message, err := c.conn.ReadMessage()
		if err != nil {
			return err
		}
		if err := c.take(message); err != nil {
			return err
		}
	}
	if logs := c.log - first; logs != c.blocks {
		return fmt.Errorf("%d blocks for %d logs", c.blocks, logs)
	}
	return nil
}

// crowd opens connections and reads all of them until the last block.
type crowd struct {
	listeners []*listener
	group     errgroup.Group
}

func (s *stage) crowd(n int, filter func(i int) string) *crowd {
	s.t.Helper()
	c := &crowd{listeners: make([]*listener, n)}
	var dialing errgroup.Group
	dialing.SetLimit(64)
	for i := range n {
		dialing.Go(func() (err error) {
			c.listeners[i], err = s.listen(filter(i))
			return err
		})
	}
	must.Do(s.t, dialing.Wait())
	s.t.Cleanup(func() {
		for _, l := range c.listeners {
			l.conn.Close()
		}
	})
	return c
}

// read lets every client read up to the log; each must get every block and every log
// once, in order, from the first on.
func (c *crowd) read(first, last uint64) {
	for _, l := range c.listeners {
		l.conn.SetReadDeadline(time.Now().Add(5 * patience))
		l.log = first
		c.group.Go(func() error { return l.until(last) })
	}
}

// raiseFiles lets the process have as many sockets as the system allows.
func raiseFiles(t testing.TB, need uint64) {
	t.Helper()
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur = limit.Max
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if limit.Cur < need {
		t.Fatalf("%d files are needed and %d allowed: raise the limit, or use fewer -subscribers", need, limit.Cur)
	}
}

// TestSubscribeMirrorRestart: the mirror node goes away in the middle of it and comes
// back, several times, polled and pushing.
func TestSubscribeMirrorRestart(t *testing.T) {
	for _, push := range []bool{false, true} {
		t.Run(fmt.Sprintf("push=%v", push), func(t *testing.T) {
			s := newStage(t, 20, func(c *settings) { c.Mirror.Push = push })
			c := s.crowd(20, func(int) string { return `{}` })
			const rounds, perRound = 6, 5
			first := s.nonce
			c.read(first, first+2*rounds*perRound-1)
			for range rounds {
				for range perRound {
					s.block()
				}
				before := s.failures()
				s.mirror.kill()
				for range perRound {
					s.block()
				}
				for deadline := time.Now().Add(patience); s.failures() == before; <-time.After(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("the relay never noticed that the mirror node is away")
					}
				}
				s.mirror.start()
			}
			must.Do(t, c.group.Wait())
		})
	}
}

// TestBlocksAfterAnOutageEndNobody: however they ask for the same logs, what many subscribers are told in a row, after the mirror node was away, is memory once. It is more
// than these could hold if each had it for itself.
func TestBlocksAfterAnOutageEndNobody(t *testing.T) {
	const connections, blocks = 1000, 14
	raiseFiles(t, 2*connections+200)
	s := newStage(t, connections, func(c *settings) {
		c.Memory = capacity.NewMemory(capacity.Config{Limit: 512, Requests: 4, Client: 4, Request: 4, RequestTime: envx.Millis(time.Hour), HeavyReads: 16})
	})
	filters := []string{`{}`, `{"address":"` + s.to.Hex() + `"}`, `{"topics":["0x` + strings.Repeat("0", 63) + `1"]}`, `{"topics":[null]}`}
	c := s.crowd(connections, func(i int) string { return filters[i%len(filters)] })
	first := s.nonce
	c.read(first, first+blocks-1)
	s.mirror.kill()
	for range blocks {
		s.block()
	}
	s.mirror.start()
	must.Do(t, c.group.Wait())
}
