package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/test/bufconn"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/mirror/fetch"
)

// chain is a ledger that real mirror node interfaces show.
type chain struct {
	t      *testing.T
	ledger *ledger.Ledger
	starts int64
	wires  *wires // nil: the network of this machine
}

func newChain(t *testing.T) *chain {
	t.Helper()
	l := must.Get(ledger.New(ledger.Config{}))(t)
	return &chain{t: t, ledger: l}
}

// newWiredChain is newChain for a test with fake time: its mirror nodes are reached over wires in the process.
func newWiredChain(t *testing.T) *chain {
	t.Helper()
	c := newChain(t)
	c.wires = newWires()
	t.Cleanup(c.wires.CloseIdleConnections) // before the servers end
	return c
}

// wires is a transport to servers in this process. What waits for them lets fake time pass, which a socket
// does not.
type wires struct {
	*http.Transport
	mu    sync.Mutex
	lines []*bufconn.Listener // guarded by mu; of mirror0 and so on
}

func newWires() *wires {
	w := new(wires)
	w.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		var n int
		if _, err := fmt.Sscanf(address, "mirror%d:80", &n); err != nil {
			return nil, err
		}
		return w.lines[n].DialContext(ctx)
	}}
	return w
}

// serve runs a server and returns its URL.
func (w *wires) serve(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	l := bufconn.Listen(64 << 10)
	w.lines = append(w.lines, l)
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)} //nolint:forbidigo // net/http takes no other
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return fmt.Sprintf("http://mirror%d", len(w.lines)-1)
}

// grow adds blocks, each with one transaction that consensus refused.
func (c *chain) grow(blocks int) {
	c.t.Helper()
	before := c.ledger.View().LatestBlock().Number
	for range blocks {
		c.starts++
		c.ledger.Handle(&core.Submission{
			Body: &hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoTransfer{CryptoTransfer: &hapi.CryptoTransferTransactionBody{}}},
			ID:   hedera.TransactionID{Payer: hedera.Entity(2), ValidStart: hedera.Timestamp{Seconds: c.starts}}, Payer: hedera.Entity(2),
			Node: hedera.Entity(3), Refusal: hapi.ResponseCodeEnum_THROTTLED_AT_CONSENSUS,
		})
	}
	if got := c.ledger.View().LatestBlock().Number; got != before+int64(blocks) {
		c.t.Fatalf("block %d after %d and %d more", got, before, blocks)
	}
}

// face is one mirror node that shows a chain, well or badly.
type face struct {
	URL   string
	Close func() // nil over wires
	wires *wires
	asked atomic.Int64
	mu    sync.Mutex
	view  func() *ledger.View
	fault mirrorrest.Fault
	spoil func(*http.Request) bool // which requests the fault is for; nil: all
}

func (c *chain) face() *face {
	c.t.Helper()
	f := &face{view: c.ledger.View, wires: c.wires}
	handler := mirrorrest.New(mirrorrest.Config{
		View: func() *ledger.View {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.view()
		},
		Log: slog.New(slog.DiscardHandler),
		Fault: func(r *http.Request) mirrorrest.Fault {
			f.asked.Add(1)
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.spoil != nil && !f.spoil(r) {
				return mirrorrest.Fault{}
			}
			return f.fault
		},
	})
	if c.wires != nil {
		f.URL = c.wires.serve(c.t, handler)
		return f
	}
	server := httptest.NewServer(handler)
	f.URL, f.Close = server.URL, server.Close
	c.t.Cleanup(f.Close)
	return f
}

// freeze makes the mirror node stay at what it shows now.
func (f *face) freeze() {
	f.mu.Lock()
	frozen := f.view()
	f.view = func() *ledger.View { return frozen }
	f.mu.Unlock()
}

func (f *face) show(view func() *ledger.View) {
	f.mu.Lock()
	f.view = view
	f.mu.Unlock()
}

func (f *face) spoiled(fault mirrorrest.Fault) {
	f.mu.Lock()
	f.fault = fault
	f.mu.Unlock()
}

// over is a client of several mirror nodes. What is between its requests is no
// matter: nothing is shared.
func over(t *testing.T, change func(*Config), faces ...*face) *Client {
	t.Helper()
	urls := make([]string, len(faces))
	for i, f := range faces {
		urls[i] = f.URL
	}
	var transport http.RoundTripper
	if faces[0].wires != nil {
		transport = faces[0].wires
	}
	return connectOver(t, transport, strings.Join(urls, ","), func(c *Config) {
		c.Freshness, c.CacheEntries = 0, 0
		c.CatchUp, c.HeadHold = envx.Millis(patience), envx.Millis(time.Hour)
		c.HealthInterval = envx.Millis(time.Millisecond)
		if change != nil {
			change(c)
		}
	})
}

func latest(t *testing.T, c *Client) uint64 {
	t.Helper()
	b := must.Get(c.LatestBlock(t.Context()))(t)
	return b.Number
}

func failover(t *testing.T, chain *chain, fault mirrorrest.Fault) {
	t.Helper()
	chain.grow(3)
	first, second := chain.face(), chain.face()
	client := over(t, func(c *Config) { c.KeepAlive = false }, first, second)
	if got := latest(t, client); got != 3 || second.asked.Load() != 0 {
		t.Fatalf("block %d, the second one was asked %d times", got, second.asked.Load())
	}
	first.spoiled(fault)
	if b, err := client.BlockByNumber(t.Context(), 2); err != nil || b.Number != 2 {
		t.Fatalf("%v, %v", b, err)
	}
	first.spoiled(mirrorrest.Fault{})
}

// Whatever goes wrong at the first mirror node, the second one answers.
func TestFailover(t *testing.T) {
	for name, fault := range map[string]mirrorrest.Fault{
		"503":      {Status: 503},
		"500":      {Status: 500},
		"429":      {Status: 429},
		"429 wait": {Status: 429, RetryAfter: time.Minute},
		"dropped":  {Drop: true},
		"cut":      {Cut: true},
		"garbage":  {Garbage: true},
	} {
		t.Run(name, func(t *testing.T) {
			failover(t, newChain(t), fault)
		})
	}
	t.Run("hang", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { failover(t, newWiredChain(t), mirrorrest.Fault{Hang: true}) })
	})
	t.Run("gone", func(t *testing.T) {
		chain := newChain(t)
		first, second := chain.face(), chain.face()
		first.Close()
		client := over(t, nil, first, second)
		if got := latest(t, client); got != 0 {
			t.Fatalf("block %d", got)
		}
	})
	t.Run("absence is an answer", func(t *testing.T) {
		chain := newChain(t)
		first, second := chain.face(), chain.face()
		client := over(t, nil, first, second)
		if _, err := client.BlockByNumber(t.Context(), 99); !errors.Is(err, ErrNotFound) || second.asked.Load() != 0 {
			t.Fatalf("%v, the second one was asked %d times", err, second.asked.Load())
		}
	})
}

// A mirror node that does not answer is left alone, and used again once it does.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newWiredChain(t)
		chain.grow(1)
		first, second := chain.face(), chain.face()
		client := over(t, func(c *Config) { c.BreakerFailures, c.BreakerPause = 3, envx.Millis(time.Hour) }, first, second)
		if latest(t, client) != 1 {
			t.Fatal("not the chain")
		}
		before := first.asked.Load()
		first.spoiled(mirrorrest.Fault{Status: 503})
		for range 10 {
			must.Get(client.BlockByNumber(t.Context(), 1))(t)
		}
		if asked := first.asked.Load() - before; asked != 3 {
			t.Errorf("the broken one was asked %d times", asked)
		}
		first.spoiled(mirrorrest.Fault{})
		must.Run(t, client.Run)
		before = first.asked.Load()
		must.Until(t, "the first one is used again", func() bool {
			must.Get(client.BlockByNumber(t.Context(), 1))(t)
			return client.Upstreams()[0].Err == nil && first.asked.Load() > before
		})
	})
}

// throttledOnce has the mirror node answer one request with 429.
func (f *face) throttledOnce(wait time.Duration) {
	var answered atomic.Bool
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = mirrorrest.Fault{Status: 429, RetryAfter: wait}
	f.spoil = func(*http.Request) bool { return !answered.Swap(true) }
}

// throttle makes one read that is answered with 429, and returns its result when there is one.
func throttle(t *testing.T, c *Client, f *face, wait time.Duration) <-chan error {
	t.Helper()
	f.throttledOnce(wait)
	result := make(chan error, 1)
	go func() {
		_, err := c.LatestBlock(t.Context())
		result <- err
	}()
	must.Until(t, "the mirror node throttles", func() bool { return c.Upstreams()[0].Err != nil })
	return result
}

// One 429 of the only mirror node delays requests for as long as it says, and refuses none:
// neither the one that met it nor those that come meanwhile. If it does not say, they wait a little.
func TestThrottledReadsWait(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, 0} {
		synctest.Test(t, func(t *testing.T) { throttledReadsWait(t, wait) })
	}
}

func throttledReadsWait(t *testing.T, wait time.Duration) {
	const crowd = 30
	chain := newWiredChain(t)
	chain.grow(crowd)
	only := chain.face()
	client := over(t, nil, only)
	first := throttle(t, client, only, wait)
	results := make(chan error, crowd)
	for i := range crowd {
		go func() {
			_, err := client.BlockByNumber(t.Context(), uint64(i))
			results <- err
		}()
	}
	for range crowd {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if asked := only.asked.Load(); asked != crowd+2 {
		t.Errorf("%d requests, want each once and the one that met it twice", asked)
	}
}

// When all mirror nodes throttle, the one that ends first is waited for.
func TestAllThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newWiredChain(t)
		first, second := chain.face(), chain.face()
		client := over(t, nil, first, second)
		first.throttledOnce(time.Minute)
		second.throttledOnce(time.Second)
		if _, err := client.LatestBlock(t.Context()); err != nil {
			t.Error(err)
		}
		if first.asked.Load() != 1 || second.asked.Load() != 2 {
			t.Errorf("%d and %d requests", first.asked.Load(), second.asked.Load())
		}
	})
}

// lags reads the metric of how far mirror nodes are behind.
func lags(t *testing.T, client *Client) (all []float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(client.Collectors()...)
	families := must.Get(registry.Gather())(t)
	for _, f := range families {
		if f.GetName() != "rpc_relay_mirror_upstream_lag_blocks" {
			continue
		}
		for _, m := range f.GetMetric() {
			all = append(all, m.GetGauge().GetValue())
		}
	}
	return all
}

// A mirror node that lags is not used while another one is ahead of it.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newWiredChain(t)
		chain.grow(1)
		slow, good := chain.face(), chain.face()
		client := over(t, func(c *Config) { c.MaxLag = 2 }, slow, good)
		must.Run(t, client.Run)
		must.Until(t, "both are known", func() bool { return client.Upstreams()[0].Head == 1 && client.Upstreams()[1].Head == 1 })
		slow.freeze()
		chain.grow(2)
		must.Until(t, "the second one is ahead", func() bool { return client.Upstreams()[1].Head == 3 })
		if got := latest(t, client); got != 1 {
			t.Errorf("block %d: two blocks behind is allowed", got)
		}
		if got := lags(t, client); !slices.Equal(got, []float64{2, 0}) && !slices.Equal(got, []float64{0, 2}) {
			t.Errorf("the metric of the lag says %v", got)
		}
		chain.grow(1)
		must.Until(t, "the second one is too far ahead", func() bool { return client.Upstreams()[1].Head == 4 })
		if got := latest(t, client); got != 4 {
			t.Errorf("block %d", got)
		}
		slow.show(chain.ledger.View)
		must.Until(t, "the first one is used again", func() bool {
			before := slow.asked.Load()
			head := client.Upstreams()[0].Head
			return latest(t, client) == 4 && head == 4 && slow.asked.Load() > before
		})
	})
}

// No answer goes back behind another one because the mirror node that gave that is
// gone: the other one gets time to catch up, and if it does not there is an error.
func TestHeadNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newWiredChain(t)
		chain.grow(5)
		first, second := chain.face(), chain.face()
		second.freeze()
		chain.grow(5)
		client := over(t, func(c *Config) { c.MaxLag = 100 }, first, second)
		if got := latest(t, client); got != 10 {
			t.Fatalf("block %d", got)
		}
		first.spoiled(mirrorrest.Fault{Drop: true})
		answered := make(chan uint64)
		go func() { answered <- latest(t, client) }()
		must.Until(t, "the second one is asked", func() bool { return second.asked.Load() > 1 })
		select {
		case got := <-answered:
			t.Fatalf("block %d from a mirror node that has 5", got)
		default:
		}
		second.show(chain.ledger.View)
		if got := <-answered; got != 10 {
			t.Errorf("block %d", got)
		}
	})
}

func TestBehindIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newWiredChain(t)
		chain.grow(5)
		first, second := chain.face(), chain.face()
		second.freeze()
		chain.grow(5)
		client := over(t, func(c *Config) { c.CatchUp = envx.Millis(10 * time.Millisecond) }, first, second)
		if got := latest(t, client); got != 10 {
			t.Fatalf("block %d", got)
		}
		first.spoiled(mirrorrest.Fault{Drop: true})
		var e *Error
		if _, err := client.Logs(t.Context(), LogsQuery{}); !errors.As(err, &e) || e.Status != 503 {
			t.Errorf("logs of a mirror node that is behind: %v", err)
		}
	})
}

// One mirror node of those behind an address may lag; the newest block does not.
func TestHeadNeverGoesBackBehindOneAddress(t *testing.T) {
	chain := newChain(t)
	chain.grow(5)
	only := chain.face()
	client := over(t, nil, only)
	old := chain.ledger.View()
	chain.grow(5)
	if got := latest(t, client); got != 10 {
		t.Fatalf("block %d", got)
	}
	only.show(func() *ledger.View { return old })
	if got := latest(t, client); got != 10 {
		t.Errorf("block %d after block 10", got)
	}
	if b, err := client.Head(t.Context()); err != nil || b.Number != 10 {
		t.Errorf("head %v, %v", b, err)
	}
}

// A network that was reset starts over: at once when a block is another one, and in
// the end in any case.
func TestReset(t *testing.T) {
	chain, anew := newChain(t), newChain(t)
	chain.grow(5)
	anew.grow(3)
	for name, change := range map[string]func(*Config){
		"another block": func(c *Config) { c.CacheEntries = 100 },
		"gone for long": func(c *Config) { c.HeadHold = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			only := chain.face()
			client := over(t, change, only)
			if b, err := client.BlockByNumber(t.Context(), 3); err != nil || b.Number != 3 {
				t.Fatal(b, err)
			}
			if got := latest(t, client); got != 5 {
				t.Fatalf("block %d", got)
			}
			only.show(anew.ledger.View)
			if got := latest(t, client); got != 3 {
				t.Errorf("block %d of the new chain", got)
			}
		})
	}
}

// An outage is not made worse by repetitions.
func TestOutageIsNotAmplified(t *testing.T) {
	chain := newChain(t)
	only := chain.face()
	only.spoiled(mirrorrest.Fault{Status: 503})
	const requests, reserve = 200, 20 // what a quiet relay may repeat
	client := over(t, func(c *Config) {
		c.Retries, c.RetryCodes, c.BreakerFailures, c.RetryBudget = 5, envx.Strings{"503"}, 0, 0.1
	}, only)
	for range requests {
		if _, err := client.BlockByNumber(t.Context(), 1); err == nil {
			t.Fatal("no error")
		}
	}
	if asked := only.asked.Load(); asked < requests+reserve || asked > requests+reserve+requests/10 {
		t.Errorf("%d requests became %d", requests, asked)
	}
}

func TestHedge(t *testing.T) {
	chain := newChain(t)
	chain.grow(2)
	hedging := func(c *Config) { c.HedgeDelay = envx.Millis(time.Millisecond) }
	answers := func(t *testing.T, client *Client) {
		t.Helper()
		if b, err := client.BlockByNumber(t.Context(), 1); err != nil || b.Number != 1 {
			t.Fatalf("%v, %v", b, err)
		}
	}
	t.Run("another mirror node", func(t *testing.T) {
		first, second := chain.face(), chain.face()
		first.spoiled(mirrorrest.Fault{Hang: true})
		answers(t, over(t, hedging, first, second))
	})
	t.Run("another connection", func(t *testing.T) {
		only := chain.face()
		var hung atomic.Bool
		only.mu.Lock()
		only.fault = mirrorrest.Fault{Hang: true}
		only.spoil = func(*http.Request) bool { return hung.CompareAndSwap(false, true) }
		only.mu.Unlock()
		answers(t, over(t, hedging, only))
		if only.asked.Load() != 2 {
			t.Errorf("%d requests", only.asked.Load())
		}
	})
	t.Run("not without budget", func(t *testing.T) {
		only := chain.face()
		client := over(t, func(c *Config) { c.HedgeDelay, c.RetryBudget = envx.Millis(time.Millisecond), 0 }, only)
		only.spoiled(mirrorrest.Fault{Delay: 50 * time.Millisecond})
		if _, err := client.BlockByNumber(t.Context(), 1); err != nil || only.asked.Load() != 1 {
			t.Errorf("%v after %d requests", err, only.asked.Load())
		}
	})
	t.Run("a mistake fails one read", func(t *testing.T) {
		client := over(t, func(c *Config) { c.HedgeDelay = envx.Millis(time.Hour) }, chain.face())
		_, err := sharedWith(t.Context(), client, "blocks", fetch.Request{Label: "x", Path: "blocks"}, func([]byte, *int) error { panic("a mistake") })
		if !errors.Is(err, fetch.ErrPanic) {
			t.Error(err)
		}
	})
}

// A development network goes back: what was known of what is gone is forgotten, and who wants
// to know is told. Answers of the history that is gone are asked for again.
func TestGenerations(t *testing.T) {
	n := newNode(t)
	var mu sync.Mutex
	generations, head := []string{"7:0"}, 20 // of the answers to come; the last generation stays
	become := func(newest int, next ...string) {
		mu.Lock()
		defer mu.Unlock()
		head, generations = newest, next
	}
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Lockstep-Generation", generations[0])
		generations = generations[min(1, len(generations)-1):]
		switch r.URL.Path {
		case "/api/v1/blocks/17":
			_, _ = w.Write([]byte(blockJSON(17)))
		case "/api/v1/blocks":
			_, _ = w.Write([]byte(blocksJSON("null", head)))
		default:
			notFound(w, r)
		}
	}
	config := defaults(t)
	config.URL, config.RetryDelay, config.Timeout = secret.URL(n.URL), 0, envx.Millis(patience)
	var told []uint64
	client := must.Get(New(config, Options{Log: slog.New(slog.DiscardHandler), WentBack: func(block uint64) { told = append(told, block) }}))(t)
	t.Cleanup(client.fetch.CloseIdleConnections)
	read := func(requests int) {
		t.Helper()
		if b, err := client.BlockByNumber(t.Context(), 17); err != nil || b.Number != 17 {
			t.Fatalf("%v, %v", b, err)
		}
		if got := len(n.requests()); got != requests {
			t.Errorf("%d requests, want %d", got, requests)
		}
	}
	latest := func(want uint64) {
		t.Helper()
		client.Invalidate()
		if b, err := client.Head(t.Context()); err != nil || b.Number != want {
			t.Fatalf("head %v, %v; want %d", b, err, want)
		}
		n.requests()
	}
	read(1)
	read(0)
	latest(20)

	become(12, "8:11")
	latest(12) // although it was 20
	if !slices.Equal(told, []uint64{11}) {
		t.Errorf("told of %v", told)
	}
	read(1)
	read(0)

	become(12, "7:0", "8:11")
	client.Forget()
	read(2) // the first answer is of a history that is gone
	if !slices.Equal(told, []uint64{11}) {
		t.Errorf("told of %v", told)
	}
	become(12, "7:0")
	client.Forget()
	var failed *Error
	if _, err := client.BlockByNumber(t.Context(), 17); !errors.As(err, &failed) {
		t.Errorf("from a history that is gone: %v", err)
	}
	for i, text := range []string{"", "nonsense", "-1:2", strconv.Itoa(9)} { // the last has no block
		client.Forget()
		become(12, text)
		if _, err := client.BlockByNumber(t.Context(), 17); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if !slices.Equal(told, []uint64{11, 0}) {
		t.Errorf("told of %v", told)
	}
}
