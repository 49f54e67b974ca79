package source_test

import (
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/watch/source"
	"lockstep/watch/watchtest"
)

// served is a chain behind one endpoint, whatever that speaks.
type served interface {
	// emit puts a log of each given event into one new block, which is empty without events.
	emit(to common.Address, events ...common.Hash)
	// where is the endpoint's URL, with another host if one is given.
	where(host string) string
	chainID() uint64
	sender() common.Address
}

// overHTTP and overWebSocket are go-ethereum's node.
type (
	overHTTP      struct{ *chain }
	overWebSocket struct{ *chain }
)

func (c overHTTP) where(host string) string      { return replaced(c.URL, "http", host) }
func (c overWebSocket) where(host string) string { return replaced(c.URL, "ws", host) }
func (c *chain) chainID() uint64                 { return watchtest.ChainID }
func (c *chain) sender() common.Address          { return c.Sender() }
func (m *mirrorNode) sender() common.Address {
	return common.HexToAddress(m.network.Accounts()[0].Address)
}

// mirrorNode is the development network, which is read through its mirror node.
type mirrorNode struct {
	t       *testing.T
	network *devnet.Network
	nonce   uint64
}

func newMirrorNode(t *testing.T) *mirrorNode {
	t.Helper()
	n := harness.Network(t, devnet.Config{})
	m := &mirrorNode{t: t, network: n}
	for _, address := range []common.Address{emitter, emitter2} {
		must.Do(t, n.Ledger().Edit(ledger.Edit{Address: address, Code: &watchtest.EmitterCode}))
	}
	return m
}

func (m *mirrorNode) where(host string) string {
	return replaced(m.network.Mirror(), "mirror+http", host)
}
func (m *mirrorNode) chainID() uint64 { return 298 }

func (m *mirrorNode) emit(to common.Address, events ...common.Hash) {
	m.t.Helper()
	l := m.network.Ledger()
	l.SetAutomine(false)
	for _, e := range events {
		rec, err := l.Impersonate(types.NewTx(&types.DynamicFeeTx{
			ChainID: new(big.Int).SetUint64(m.chainID()), Nonce: m.nonce, To: &to, Gas: 100_000, GasFeeCap: big.NewInt(2e12), Data: logging(e),
		}), m.sender())
		if err != nil || !rec.Executed() || len(rec.Logs()) != 1 {
			m.t.Fatalf("%+v, %v", rec, err)
		}
		m.nonce++
	}
	if len(events) == 0 {
		l.Mine(1, 0)
		return
	}
	l.CloseBlock()
}

func replaced(raw, scheme, host string) string {
	_, there, _ := strings.Cut(raw, "://")
	if host != "" {
		there = host
	}
	return scheme + "://" + there
}

// counted is a proxy before an endpoint that counts requests, and answers nothing but a status while it has one.
type counted struct {
	host     string
	requests atomic.Int64
	status   atomic.Int64
}

func newCounted(t *testing.T, c served) *counted {
	t.Helper()
	there := must.Get(url.Parse("http://" + hostOf(t, c)))(t)
	p := &counted{}
	forward := httputil.NewSingleHostReverseProxy(there)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		if status := p.status.Load(); status != 0 {
			w.WriteHeader(int(status))
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.host = server.Listener.Addr().String()
	return p
}

func hostOf(t *testing.T, c served) string {
	t.Helper()
	u := must.Get(url.Parse(c.where("")))(t)
	return u.Host
}

// TestContract holds every kind of endpoint to the same promises.
func TestContract(t *testing.T) {
	kinds := map[string]func(t *testing.T) served{
		"JSON-RPC over HTTP":        func(t *testing.T) served { return overHTTP{newChain(t)} },
		"JSON-RPC over WebSocket":   func(t *testing.T) served { return overWebSocket{newChain(t)} },
		"a mirror node's interface": func(t *testing.T) served { return newMirrorNode(t) },
	}
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			for name, promise := range map[string]func(*testing.T, served){
				"the logs of a block and of a range":       logsOfBlockAndRange,
				"an unknown block is not found":            unknownBlock,
				"a range of more logs than one answer has": manyLogs,
				"another chain is refused":                 anotherChain,
				"an endpoint in trouble proves nothing":    inTrouble,
				"calls do not grow with contracts":         fewCalls,
				"the key in a URL is in no error":          noKeyInErrors,
				"which block is final":                     finality,
				"the transactions of blocks":               wholeTransactions,
			} {
				t.Run(name, func(t *testing.T) { promise(t, open(t)) })
			}
		})
	}
}

func poolOf(t *testing.T, c served, deps source.Deps, hosts ...string) *source.Pool {
	t.Helper()
	cfg := source.Config{ChainID: c.chainID()}
	for _, host := range hosts {
		cfg.URLs = append(cfg.URLs, c.where(host))
	}
	if len(hosts) == 0 {
		cfg.URLs = []string{c.where("")}
	}
	return pool(t, cfg, deps)
}

func headOf(t *testing.T, p *source.Pool) source.Block {
	t.Helper()
	return must.Get(p.Head(t.Context()))(t)
}

func logsOfBlockAndRange(t *testing.T, c served) {
	p := poolOf(t, c, source.Deps{})
	before := headOf(t, p).Number
	c.emit(emitter, ping, pong)
	c.emit(emitter2, ping)
	c.emit(emitter, common.Hash{1})
	c.emit(emitter)
	head := headOf(t, p)
	if head.Number != before+4 {
		t.Fatalf("head %d after %d and four blocks", head.Number, before)
	}
	first := must.Get(p.Block(t.Context(), before+1))(t)
	if next, err := p.Block(t.Context(), before+2); err != nil || next.Parent != first.Hash || next.Time < first.Time {
		t.Errorf("block %+v does not follow %+v: %v", next, first, err)
	}
	if again, err := p.BlockByHash(t.Context(), first.Hash); err != nil || again != first {
		t.Errorf("by its hash %+v, by its number %+v: %v", again, first, err)
	}
	logs, err := p.LogsOfBlock(t.Context(), first, following(emitter))
	if err != nil || len(logs) != 2 || logs[0].Topics[0] != ping || logs[1].Topics[0] != pong ||
		logs[1].Index != 1 || logs[0].BlockHash != first.Hash || logs[0].TxHash == logs[1].TxHash {
		t.Errorf("logs of the first block: %+v, %v", logs, err)
	}
	logs, last, err := p.LogsOfRange(t.Context(), before+1, before+4, following(emitter, emitter2))
	if err != nil || len(logs) != 3 || last != head || logs[2].Address != emitter2 || logs[2].BlockNumber != before+2 {
		t.Errorf("logs of the range: %+v to %+v, %v", logs, last, err)
	}
	for number := before + 3; number <= before+4; number++ { // another event, and no transaction
		b := must.Get(p.Block(t.Context(), number))(t)
		if logs, err := p.LogsOfBlock(t.Context(), b, following(emitter, emitter2)); err != nil || len(logs) != 0 {
			t.Errorf("logs of block %d: %+v, %v", number, logs, err)
		}
	}
}

func unknownBlock(t *testing.T, c served) {
	c.emit(emitter, ping)
	p := poolOf(t, c, source.Deps{})
	head := headOf(t, p).Number
	if _, err := p.Block(t.Context(), head+1); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("a number: %v", err)
	}
	if _, err := p.BlockByHash(t.Context(), common.Hash{9}); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("a hash: %v", err)
	}
	if _, err := p.LogsOfBlock(t.Context(), source.Block{Number: head, Hash: common.Hash{9}}, following(emitter)); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("logs by an unknown hash: %v", err)
	}
	if logs, last, err := p.LogsOfRange(t.Context(), head, head+5, following(emitter)); err == nil && last.Number > head || err != nil && !errors.Is(err, source.ErrNotFound) {
		t.Errorf("logs past the head: %d to %+v, %v", len(logs), last, err)
	}
}

func manyLogs(t *testing.T, c served) {
	p := poolOf(t, c, source.Deps{})
	first := headOf(t, p).Number + 1
	for range 3 {
		events := make([]common.Hash, 70) // 210 in all: more than two pages of a mirror node
		for i := range events {
			events[i] = ping
		}
		c.emit(emitter, events...)
	}
	logs, last, err := p.LogsOfRange(t.Context(), first, first+2, following(emitter))
	if err != nil || len(logs) != 210 || last.Number != first+2 {
		t.Fatalf("%d logs to %d: %v", len(logs), last.Number, err)
	}
	for i, l := range logs {
		if l.BlockNumber != first+uint64(i/70) || l.Index != uint64(i%70) {
			t.Fatalf("log %d is the %dth of block %d", i, l.Index, l.BlockNumber)
		}
	}
}

func anotherChain(t *testing.T, c served) {
	c.emit(emitter, ping)
	p := pool(t, source.Config{ChainID: 5, URLs: []string{c.where("")}}, source.Deps{})
	if _, err := p.Head(t.Context()); !errors.Is(err, source.ErrUnavailable) || !strings.Contains(err.Error(), "not chain 5") {
		t.Errorf("%v", err)
	}
}

func inTrouble(t *testing.T, c served) {
	if _, ok := c.(overWebSocket); ok {
		t.Skip("a WebSocket has no status: TestNewHeadsAreAnnounced cuts its line")
	}
	p := poolOf(t, c, source.Deps{})
	first := headOf(t, p).Number + 1
	c.emit(emitter, ping)
	c.emit(emitter, ping)
	broken := newCounted(t, c)
	both, alone := poolOf(t, c, source.Deps{}, broken.host, hostOf(t, c)), poolOf(t, c, source.Deps{}, broken.host)
	for _, status := range []int64{500, 502, 413, 429, 401} {
		broken.status.Store(status)
		if logs, last, err := alone.LogsOfRange(t.Context(), first, first+1, following(emitter)); !errors.Is(err, source.ErrUnavailable) {
			t.Errorf("alone with %d: %d logs to %+v, %v", status, len(logs), last, err)
		}
		if logs, _, err := both.LogsOfRange(t.Context(), first, first+1, following(emitter)); err != nil || len(logs) != 2 {
			t.Errorf("with %d beside a good one: %d logs, %v", status, len(logs), err)
		}
	}
	broken.status.Store(0)
	watchtest.Until(t, "the logs, when it is well and has rested", func() (bool, error) {
		logs, last, err := alone.LogsOfRange(t.Context(), first, first, following(emitter))
		return err == nil && len(logs) == 1 && last.Number == first, err
	})
}

func fewCalls(t *testing.T, c served) {
	c.emit(emitter, ping)
	var told atomic.Int64
	proxy := newCounted(t, c)
	p := poolOf(t, c, source.Deps{Calls: func(n int) { told.Add(int64(n)) }}, proxy.host)
	q := following(emitter)
	for i := range 10_000 {
		q.Addresses[common.BigToAddress(big.NewInt(int64(1_000_000+i)))] = struct{}{}
	}
	b := headOf(t, p)
	told.Store(0)
	proxy.requests.Store(0)
	logs, err := p.LogsOfBlock(t.Context(), b, q)
	if err != nil || len(logs) != 1 {
		t.Fatalf("%d logs, %v", len(logs), err)
	}
	if told.Load() > 5 || proxy.requests.Load() > told.Load() {
		t.Errorf("%d calls were told of, %d requests came", told.Load(), proxy.requests.Load())
	}
}

func noKeyInErrors(t *testing.T, c served) {
	scheme, _, _ := strings.Cut(c.where(""), "://")
	p := pool(t, source.Config{URLs: []string{scheme + "://user:hunter1@127.0.0.1:1/v2/hunter2"}}, source.Deps{})
	_, err := p.Head(t.Context())
	if err == nil || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("%v", err)
	}
}

func finality(t *testing.T, c served) {
	c.emit(emitter, ping)
	p := poolOf(t, c, source.Deps{})
	final, err := p.Finalized(t.Context())
	switch c.(type) {
	case *mirrorNode:
		if head := headOf(t, p); err != nil || final != head {
			t.Errorf("final %+v, head %+v, %v", final, head, err)
		}
	default: // a new chain of go-ethereum has no final block but its first
		if err == nil && final.Number != 0 || err != nil && !errors.Is(err, source.ErrNotFound) && !errors.Is(err, source.ErrUnavailable) {
			t.Errorf("final %+v, %v", final, err)
		}
	}
}

// TestMirrorNodesThatLag reads the newest block from an address behind which one of several mirror nodes lacks what another has told of.
func TestMirrorNodesThatLag(t *testing.T) {
	m := newMirrorNode(t)
	m.emit(emitter, ping, pong)
	forward := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(m.network.Mirror()))(t))
	var lacking atomic.Int64 // so many lists are empty
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if of := path.Base(r.URL.Path); (of == "logs" || of == "results") && lacking.Add(-1) >= 0 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"`+of+`":[],"links":{"next":null}}`)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer server.Close()
	host := server.Listener.Addr().String()
	newest := headOf(t, poolOf(t, m, source.Deps{}))
	p := poolOf(t, m, source.Deps{}, host)
	if got := headOf(t, p); got != newest {
		t.Fatalf("the head is %+v", got)
	}
	for _, lists := range []int64{1, 3} {
		lacking.Store(lists)
		if logs, err := p.LogsOfBlock(t.Context(), newest, following(emitter)); err != nil || len(logs) != 2 {
			t.Errorf("after %d lists without any, %d logs, %v", lists, len(logs), err)
		}
		lacking.Store(lists)
		list, err := p.TransactionsOfBlock(t.Context(), newest, func(*source.Transaction) bool { return true })
		if err != nil || len(list) != 2 {
			t.Errorf("after %d lists without any, %d transactions, %v", lists, len(list), err)
		}
		p = poolOf(t, m, source.Deps{}, host) // one that has kept nothing
		headOf(t, p)
	}
}
