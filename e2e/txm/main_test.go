package txm_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/e2e/harness"
	"lockstep/internal/envx"
	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/nearchain"
	"lockstep/txmgr/signers"
	"lockstep/txmgr/sqlstore"
	"lockstep/watch/watchtest"
)

// nodeVariable makes the test program a node of a fleet instead of running tests.
const nodeVariable = "LOCKSTEP_TEST_TXM_NODE"

func TestMain(m *testing.M) {
	if text := os.Getenv(nodeVariable); text != "" {
		if err := runNode(text); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// These tests wait for leases, blocks and time-outs far more than they compute.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err) // the flag is there since long
	}
	os.Exit(harness.Main(m, filepath.Join("..", "..")))
}

// txmNode is the configuration of one process.
type txmNode struct {
	Ledger   string
	Instance string
	Chain    uint64
	URLs     []string // of endpoints, or of Hedera's mirror node
	Network  string   // of Hedera, as HEDERA_NETWORK is written
	Driver   string   // "near", "relay" of Hedera, or "" for what the rest says
	Depth    uint64
	InFlight int
	Keys     []string
	Point    string // where to die by SIGKILL
	After    int    // how many visits of the point are survived
	Stop     bool   // stop there by SIGSTOP instead, once

	Bump, Cancel, Resend, Lease, Reconcile, Timeout time.Duration
	MaxFee                                          uint64
}

func (n txmNode) config() txmgr.Config {
	c := txmgr.Defaults()
	c.Instance, c.Poll, c.InFlight, c.MaxFeePerGas = n.Instance, envx.Millis(50*time.Millisecond), n.InFlight, n.MaxFee
	for to, d := range map[*envx.Millis]time.Duration{
		&c.BumpAfter: n.Bump, &c.CancelAfter: n.Cancel, &c.ResendAfter: n.Resend, &c.Lease: n.Lease, &c.Reconcile: n.Reconcile,
	} {
		if d != 0 {
			*to = envx.Millis(d)
		}
	}
	c.CancelAfter = max(c.CancelAfter, c.BumpAfter)
	c.Reservation = envx.Millis(time.Hour) // however slow the machine is
	if n.Lease != 0 {
		c.SendTimeout = c.Lease / 2
	}
	return c
}

// open opens the driver: of Hedera if the node knows Hedera's nodes.
func (n txmNode) open(log *slog.Logger) (txmgr.Chain, error) {
	if n.Network != "" {
		return n.hedera(log)
	}
	if n.Driver == "near" {
		return nearchain.New(nearchain.Config{ID: fmt.Sprint(n.Chain), URLs: n.URLs, InFlight: n.InFlight, Timeout: n.Timeout})
	}
	if n.Driver == "relay" {
		return ethchain.New(ethchain.Config{ID: n.Chain, URLs: n.URLs, NoPool: true, InFlight: n.InFlight, Timeout: n.Timeout})
	}
	return ethchain.New(ethchain.Config{ID: n.Chain, URLs: n.URLs, Depth: &n.Depth, Timeout: n.Timeout})
}

// manager opens a node's manager. Without Run it only accepts.
func (n txmNode) manager(ctx context.Context, log *slog.Logger) (*txmgr.Manager, *sqlstore.Store, *ledger.DB, error) {
	db, err := ledger.Open(ctx, n.Ledger)
	if err != nil {
		return nil, nil, nil, err
	}
	store, err := sqlstore.New(ctx, db)
	if err != nil {
		return nil, nil, nil, err
	}
	chain, err := n.open(log)
	if err != nil {
		return nil, nil, nil, err
	}
	c := n.config()
	var keys []txmgr.Key
	for _, text := range n.Keys {
		keys = append(keys, signerOf(text))
	}
	m, err := txmgr.New(txmgr.Options{
		Config: c, Store: store, Chains: []txmgr.Chain{chain}, Keys: keys, Log: log,
		Leases: lease.NewHolder(db, "txm", n.Instance, c.Lease.Duration(), log),
	})
	return m, store, db, err
}

func runNode(text string) error {
	var n txmNode
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m, _, db, err := n.manager(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	visits := 0
	m.SetFaults(func(_ context.Context, point, _, _ string) {
		if point != n.Point {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		visits++
		if n.Stop && visits == n.After+1 {
			stopHere(point)
		}
		if !n.Stop && visits > n.After {
			fmt.Fprintln(os.Stderr, "node: dies at", point)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until the signal is there
		}
	})
	return errors.Join(m.Run(ctx), db.Close())
}

// stopHere stops this process until somebody lets it go on.
func stopHere(point string) {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	fmt.Fprintln(os.Stderr, "node: stops at", point)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-goesOn
}

// signerOf reads a key of any chain.
func signerOf(text string) txmgr.Key {
	if strings.Contains(text, "/") {
		return accessKeyOf(text)
	}
	return keyOf(text)
}

func keyOf(text string) signers.Signer {
	key, err := crypto.HexToECDSA(text)
	if err != nil {
		panic(err) // a constant of these tests
	}
	return signers.Local(key, "env")
}

// The first keys of anvil's well-known mnemonic.
var devKeys = []string{
	"ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
	"59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
	"5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
	"7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
}

// How a proxy spoils an answer after the node has got the question.
const (
	swallow = "swallow" // the connection breaks
	delay   = "delay"   // the answer does not come before the asker gives up
	null    = "null"    // the node is said to have nothing
	held    = "held"    // the question reaches the node when release is called
)

// proxy stands before a chain's endpoint.
type proxy struct {
	url, target string
	end         chan struct{}

	mu      sync.Mutex
	method  string
	how     string
	n       int
	dead    bool
	sick    fault         // nil: none
	frozen  string        // the head when the fault began
	raws    []string      // transactions that were handed over, as hex
	free    chan struct{} // closed: what is held goes on
	reached chan struct{} // closed: the node has answered what was held
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := &proxy{target: target, end: make(chan struct{}), free: make(chan struct{}), reached: make(chan struct{})}
	between := watchtest.Between(target, p.answer)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		dead := p.dead
		p.mu.Unlock()
		if dead {
			panic(http.ErrAbortHandler)
		}
		between(w, r)
	}))
	p.url = server.URL
	t.Cleanup(func() {
		close(p.end)
		server.CloseClientConnections()
		server.Close()
	})
	return p
}

// spoil spoils the next n calls of a method.
func (p *proxy) spoil(method, how string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.method, p.how, p.n = method, how, n
}

// fall makes every connection break before its question arrives, until it is called again.
func (p *proxy) fall(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
}

func (p *proxy) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// take notes a call, and returns what becomes of it.
func (p *proxy) take(c *watchtest.Call) (sick fault, how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Method == "eth_sendRawTransaction" && len(c.Params) == 1 {
		p.raws = append(p.raws, strings.Trim(string(c.Params[0]), `"`))
	}
	if p.sick == nil && p.n > 0 && c.Method == p.method {
		p.n--
		how = p.how
	}
	return p.sick, how
}

// lost ends a connection when its asker has gone, or the test.
func (p *proxy) lost(c *watchtest.Call) {
	select {
	case <-p.end:
	case <-c.Context.Done():
	}
	panic(http.ErrAbortHandler)
}

func (p *proxy) answer(c *watchtest.Call) {
	sick, how := p.take(c)
	if sick != nil {
		sick(p, c)
		return
	}
	if how == held {
		select {
		case <-p.free:
		case <-p.end:
		}
	}
	c.Ask()
	switch how {
	case held:
		close(p.reached)
	case swallow:
		panic(http.ErrAbortHandler)
	case delay:
		p.lost(c)
	case null:
		c.Say(nil)
	}
}

// release lets what is held, once, reach the node, and waits until it has.
func (p *proxy) release() {
	close(p.free)
	<-p.reached
}

// sent returns the transactions that were handed over so far.
func (p *proxy) sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.raws)
}

// newKey makes a key that the chain has given money to.
func newKey(t testing.TB, chain *anvil) string {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	text := hex.EncodeToString(crypto.FromECDSA(key))
	chain.call("anvil_setBalance", nil, keyOf(text).Account(), "0x3635c9adc5dea00000")
	return text
}

// owner returns the instance that owns the caller's signer, "" for none.
func (c *caller) owner() string {
	c.t.Helper()
	instance, _, _ := strings.Cut(c.text("SELECT coalesce(max(owner), '') FROM leases WHERE name LIKE 'txm:%'"), "/")
	return instance
}

func (c *caller) text(query ledger.SQL, args ...any) string {
	c.t.Helper()
	return must.Get(ledgertest.One[string](c.t, c.db, query, args...))(c.t)
}

// maxOpen bounds the callers who wait at once.
const maxOpen = 500

// load is callers who keep the contract: each asks again with the same key until it has an
// answer.
type load struct {
	m      *managers
	stop   context.CancelFunc
	group  sync.WaitGroup
	late   atomic.Int64 // calls that had to be repeated
	places chan struct{}

	mu       sync.Mutex
	accepted map[string][]byte // intent → topic
}

func startLoad(m *managers, rate int) *load {
	ctx, stop := context.WithCancel(m.t.Context())
	l := &load{m: m, stop: stop, places: make(chan struct{}, maxOpen), accepted: map[string][]byte{}}
	l.group.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case l.places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			l.group.Go(func() {
				defer func() { <-l.places }()
				l.one(n)
			})
		}
	})
	return l
}

// one hands over one transaction, sometimes twice at once.
func (l *load) one(n int) {
	word := topic()
	key := fmt.Sprintf("key-%d", n)
	body := map[string]any{"chain": 31337, "to": counter, "data": "0x" + hex.EncodeToString(word), "gas": "60000", "simulate": "off"}
	if n%10 == 0 {
		body["orderKey"] = fmt.Sprintf("trader-%d", n/10%5)
	}
	text, err := json.Marshal(body)
	if err != nil {
		l.m.t.Error(err)
		return
	}
	ids := make([]string, 1+n%20/19)
	var both sync.WaitGroup
	for i := range ids {
		both.Go(func() { ids[i] = l.insist(key, string(text)) })
	}
	both.Wait()
	for _, id := range ids {
		if id != ids[0] {
			l.m.t.Errorf("key %s has intents %s and %s", key, ids[0], id)
		}
	}
	if ids[0] != "" {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.accepted[ids[0]] = word
	}
}

// insist asks one process after the other until one has accepted.
func (l *load) insist(key, body string) string {
	began := time.Now()
	for try := 0; time.Since(began) < 20*time.Minute; try++ {
		var answer struct{ ID string }
		name := l.m.names[rand.IntN(len(l.m.names))]
		status := ask("POST", l.m.urls[name]+"/v1/transactions", body, key, &answer)
		switch {
		case status/100 == 2 && answer.ID != "":
			return answer.ID
		case status/100 == 4:
			l.m.t.Errorf("key %s: refused with %d", key, status)
			return ""
		case try == 0:
			l.late.Add(1)
		}
		<-time.After(time.Duration(50+rand.IntN(400)) * time.Millisecond)
	}
	l.m.t.Errorf("key %s was never accepted", key)
	return ""
}

// end stops offering and waits until every caller has its answer.
func (l *load) end() {
	l.stop()
	l.group.Wait()
}

var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

// ask makes one call and returns its status, 0 without an answer.
func ask(method, url, body, key string, into any) int {
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	return askWith(header, method, url, body, into)
}

// askWith makes one call with headers.
func askWith(header http.Header, method, url, body string, into any) int {
	request, err := http.NewRequest(method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0
	}
	request.Header = header
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	if into != nil && json.NewDecoder(response.Body).Decode(into) != nil {
		return 0
	}
	return response.StatusCode
}
