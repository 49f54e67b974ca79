package ethapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lockstep/hedera"
	"lockstep/mirror"
	"lockstep/rpc"
)

// fakeChain is a mirror node whose blocks and failures a test decides on. Every block
// has one log, whose data is the block's number.
type fakeChain struct {
	Mirror // what no test needs

	mu       sync.Mutex
	blocks   []*mirror.Block
	listFail error             // of the list of blocks
	readFail func(n int) error // of what is in block n
	empty    bool              // what is in blocks is not there yet
	asked    int               // lists of blocks
	reads    map[uint64]int    // of logs, by block
	contract map[common.Address]common.Address
}

func newFakeChain(blocks int) *fakeChain {
	c := &fakeChain{reads: map[uint64]int{}}
	c.mine(blocks)
	return c
}

func (c *fakeChain) mine(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		number := uint64(len(c.blocks))
		b := &mirror.Block{Number: number, Count: 1, GasUsed: 1, To: hedera.FromNanos(int64(number) + 1), Bloom: make([]byte, 256)}
		b.Hash[0], b.Hash[31], b.Bloom[7] = 1, byte(number), 1
		c.blocks = append(c.blocks, b)
	}
}

func (c *fakeChain) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *fakeChain) Head(context.Context) (*mirror.Block, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listFail != nil {
		return nil, c.listFail
	}
	if len(c.blocks) == 0 {
		return nil, mirror.ErrNotFound
	}
	return c.blocks[len(c.blocks)-1], nil
}

func (c *fakeChain) NextBlocks(_ context.Context, first uint64) ([]*mirror.Block, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.listFail != nil {
		return nil, c.listFail
	}
	for i, b := range c.blocks {
		if b.Number >= first {
			return slices.Clone(c.blocks[i:min(len(c.blocks), i+100)]), nil
		}
	}
	return nil, nil
}

func (c *fakeChain) Pushes() bool { return false }

func (c *fakeChain) BlockLogs(_ context.Context, b *mirror.Block, _ mirror.LogsQuery) ([]*mirror.Log, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads[b.Number]++
	if c.readFail != nil {
		if err := c.readFail(int(b.Number)); err != nil {
			return nil, err
		}
	}
	if c.empty {
		return nil, nil
	}
	return []*mirror.Log{{
		Address: contract, Topics: []common.Hash{{1}, {byte(b.Number % 2)}}, BlockNumber: b.Number, BlockHash: b.Hash,
		Data: []byte(strconv.FormatUint(b.Number, 10)), TransactionHash: common.Hash{9, byte(b.Number)},
	}}, nil
}

func (c *fakeChain) BlockResults(context.Context, *mirror.Block) ([]*mirror.ContractResult, error) {
	return nil, nil
}

func (c *fakeChain) GasPriceAt(context.Context, hedera.Timestamp) (hedera.Tinybar, error) {
	return 71, nil
}

func (c *fakeChain) Alias(_ context.Context, address common.Address) (common.Address, error) {
	if alias, ok := c.contract[address]; ok {
		return alias, nil
	}
	return address, nil
}

func (c *fakeChain) Contract(_ context.Context, address common.Address) (*mirror.Contract, error) {
	if alias, ok := c.contract[address]; ok {
		return &mirror.Contract{Address: alias}, nil
	}
	return nil, mirror.ErrNotFound
}

func (c *fakeChain) Token(_ context.Context, id hedera.ID) (*mirror.Created, error) {
	if id.Num == 1234 {
		return &mirror.Created{}, nil
	}
	return nil, mirror.ErrNotFound
}

// fakeConn is a connection that keeps what it is told.
type fakeConn struct {
	mu      sync.Mutex
	got     map[string][]string // results by subscription
	slow    bool                // takes nothing
	tooSlow int
	closed  []func()
	over    bool
}

func newFakeConn() *fakeConn { return &fakeConn{got: map[string][]string{}} }

func (c *fakeConn) Notify(subscription string, result []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slow || c.over {
		return false
	}
	c.got[subscription] = append(c.got[subscription], string(result))
	return true
}

func (c *fakeConn) TooSlow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tooSlow++
}

func (c *fakeConn) Done() <-chan struct{} { return nil }

func (c *fakeConn) OnClose(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = append(c.closed, f)
}

func (c *fakeConn) close() {
	c.mu.Lock()
	c.over = true
	closed := c.closed
	c.mu.Unlock()
	for _, f := range closed {
		f()
	}
}

// numbers are the numbers of the blocks that a subscription to blocks or logs told of.
func (c *fakeConn) numbers(t *testing.T, id string) (numbers []int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.got[id] {
		var event struct{ Number, BlockNumber string }
		if err := json.Unmarshal([]byte(text), &event); err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(event.Number+event.BlockNumber, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, int(n))
	}
	return numbers
}

// live is subscriptions to a fake chain.
type live struct {
	*Subscriptions
	t     *testing.T
	chain *fakeChain
}

// newLive also runs the subscriptions for as long as the test, which is in a bubble of
// synctest.
func newLive(t *testing.T, chain *fakeChain, change ...func(*Config, *Deps)) *live {
	t.Helper()
	l := idle(t, chain, change...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return l
}

func idle(t *testing.T, chain *fakeChain, change ...func(*Config, *Deps)) *live {
	t.Helper()
	cfg, err := env.ParseAsWithOptions[Config](env.Options{Environment: map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	deps := Deps{ChainID: 298, Mirror: chain, Profile: rpc.ProfileEthereum}
	for _, c := range change {
		c(&cfg, &deps)
	}
	api, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return &live{Subscriptions: NewSubscriptions(api), t: t, chain: chain}
}

func asHiero(_ *Config, d *Deps) { d.Profile = rpc.ProfileHiero }

// try makes a call on a connection, without the answer that would go to the client.
func (l *live) try(conn rpc.Notifier, handler rpc.Handler, params string) (any, error) {
	l.t.Helper()
	p, ok := rpc.NewParams([]byte(params))
	if !ok {
		l.t.Fatalf("not params: %s", params)
	}
	return handler(rpc.WithRequest(l.t.Context(), rpc.Request{Conn: conn}), p)
}

// subscribe also lets the client know the id.
func (l *live) subscribe(conn rpc.Notifier, params string) string {
	l.t.Helper()
	id, sent := l.unanswered(conn, params)
	sent(true)
	return id
}

func (l *live) unanswered(conn rpc.Notifier, params string) (id string, sent func(bool)) {
	l.t.Helper()
	result, err := l.try(conn, l.Subscriptions.subscribe, params)
	if err != nil {
		l.t.Fatalf("subscribe%s: %v", params, err)
	}
	answer := result.(*rpc.Answer)
	return answer.Result.(string), answer.Sent
}

func (l *live) told(what string, conn *fakeConn, id string, want ...int) {
	l.t.Helper()
	if diff := cmp.Diff(want, conn.numbers(l.t, id)); diff != "" {
		l.t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// number is the value of a metric with one series.
func number(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	ch := make(chan prometheus.Metric, 16)
	c.Collect(ch)
	close(ch)
	sum := 0.0
	for m := range ch {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			t.Fatal(err)
		}
		sum += d.GetCounter().GetValue() + d.GetGauge().GetValue() + float64(d.GetHistogram().GetSampleCount())
	}
	return sum
}

func span(first, last int) (all []int) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

// pollInterval is the default.
const pollInterval = 500 * time.Millisecond

func TestWatchTellsEveryBlockOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(3)
		l, conn := newLive(t, chain), newFakeConn()
		heads, logs := l.subscribe(conn, `["newHeads"]`), l.subscribe(conn, `["logs",{}]`)
		for range 40 {
			chain.mine(1)
			<-time.After(pollInterval / 3)
		}
		chain.mine(250) // more than one answer of the mirror node holds
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("heads", conn, heads, span(3, 292)...)
		l.told("logs", conn, logs, span(3, 292)...)
		if got := number(t, l.metrics.newest); got != 292 {
			t.Errorf("newest block told: got %v, want 292", got)
		}
	})
}

// TestWatchOutages: the list of blocks fails, then what is in them, then single blocks.
// Everything comes late, once and in order.
func TestWatchOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		heads, logs := l.subscribe(conn, `["newHeads"]`), l.subscribe(conn, `["logs",{}]`)
		down := &mirror.Error{Status: 503, Message: "down"}

		chain.set(func() { chain.listFail = down })
		chain.mine(20)
		<-time.After(time.Minute)
		l.told("while the list fails", conn, heads)
		chain.set(func() {
			chain.listFail = nil
			chain.readFail = func(int) error { return down }
		})
		<-time.After(time.Minute)
		synctest.Wait()
		l.told("while the contents fail", conn, heads)
		again := map[int]int{}
		chain.set(func() {
			chain.readFail = func(n int) error {
				if n%7 == 0 && again[n] < 6 {
					again[n]++
					return down
				}
				return nil
			}
		})
		for range 20 {
			chain.mine(1)
			<-time.After(pollInterval)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		l.told("heads", conn, heads, span(1, 40)...)
		l.told("logs", conn, logs, span(1, 40)...)
		if number(t, l.metrics.failures) == 0 || number(t, l.metrics.skipped) != 0 {
			t.Errorf("failures %v, skipped %v", number(t, l.metrics.failures), number(t, l.metrics.skipped))
		}
	})
}

// TestWatchLaggingReplica: a block is listed before what is in it can be read.
func TestWatchLaggingReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		logs := l.subscribe(conn, `["logs",{}]`)
		chain.set(func() { chain.empty = true })
		chain.mine(1)
		<-time.After(3 * pollInterval)
		synctest.Wait()
		l.told("while there is nothing", conn, logs)
		chain.set(func() { chain.empty = false })
		<-time.After(3 * pollInterval)
		synctest.Wait()
		l.told("afterwards", conn, logs, 1)

		// If there never is anything, later blocks do not wait for ever.
		chain.set(func() { chain.empty = true })
		chain.mine(1)
		<-time.After(time.Minute)
		chain.set(func() { chain.empty = false })
		chain.mine(1)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("after a block without logs", conn, logs, 1, 3)
	})
}

// TestWatchUnreadableBlock: one block that cannot be read does not keep the later ones
// back for ever.
func TestWatchUnreadableBlock(t *testing.T) {
	for name, err := range map[string]error{
		"pages":    &mirror.PagesError{Limit: 3},
		"upstream": &mirror.Error{Status: 500},
		"immature": mirror.ErrImmature,
		"other":    errors.New("odd"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chain := newFakeChain(1)
				chain.readFail = func(n int) error {
					if n == 2 {
						return err
					}
					return nil
				}
				l, conn := newLive(t, chain), newFakeConn()
				logs := l.subscribe(conn, `["logs",{}]`)
				chain.mine(3)
				<-time.After(30 * time.Minute)
				synctest.Wait()
				l.told("logs", conn, logs, 1, 3)
				if got := number(t, l.metrics.skipped); got != 1 {
					t.Errorf("skipped blocks: got %v, want 1", got)
				}
			})
		})
	}
}

// TestWatchPanic: a mistake while a block is read ends neither the process nor the
// blocks behind it.
func TestWatchPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		chain.readFail = func(n int) error {
			if n == 1 {
				panic("mistake")
			}
			return nil
		}
		l, conn := newLive(t, chain), newFakeConn()
		logs := l.subscribe(conn, `["logs",{}]`)
		chain.mine(2)
		<-time.After(time.Minute)
		synctest.Wait()
		l.told("logs", conn, logs, 2)
	})
}

// TestWatchMissingBlocks: numbers that the mirror node does not have are passed over.
func TestWatchMissingBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		heads := l.subscribe(conn, `["newHeads"]`)
		chain.mine(4)
		chain.set(func() { chain.blocks = slices.Delete(chain.blocks, 2, 4) })
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("heads", conn, heads, 1, 4)
	})
}

// TestWatchOnlyWhileWanted: without subscriptions to blocks the mirror node is not
// asked; whoever comes then gets what comes after.
func TestWatchOnlyWhileWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(0)
		l, conn := newLive(t, chain), newFakeConn()
		l.subscribe(conn, `["newPendingTransactions"]`)
		<-time.After(time.Minute)
		if chain.asked != 0 {
			t.Errorf("asked %d times for nobody", chain.asked)
		}
		heads := l.subscribe(conn, `["newHeads"]`)
		chain.mine(2)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("from the very first block", conn, heads, 0, 1)

		if _, err := l.try(conn, l.unsubscribe, fmt.Sprintf(`[%q]`, heads)); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * pollInterval)
		chain.set(func() { chain.asked = 0 })
		chain.mine(5)
		<-time.After(time.Minute)
		if chain.asked != 0 {
			t.Errorf("asked %d times after the last one left", chain.asked)
		}
		again := l.subscribe(conn, `["newHeads"]`)
		chain.mine(1)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("what was told before", conn, heads, 0, 1)
		l.told("after coming back", conn, again, 7)
	})
}

// TestWatchCost: however many subscribe, and to however many different things, one
// question per interval is asked, and each block's logs are read once.
func TestWatchCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l := newLive(t, chain)
		for i := range 1000 {
			l.subscribe(newFakeConn(), fmt.Sprintf(`["logs",{"topics":["0x%064x"]}]`, i))
			l.subscribe(newFakeConn(), `["newHeads"]`)
		}
		<-time.After(pollInterval)
		chain.set(func() { chain.asked = 0 })
		chain.mine(1)
		<-time.After(10 * pollInterval)
		synctest.Wait()
		if chain.asked < 9 || chain.asked > 11 {
			t.Errorf("asked %d times in 10 intervals", chain.asked)
		}
		if chain.reads[1] > 2 { // once for the logs, once for the block, shared by the client's cache
			t.Errorf("logs of the block were read %d times", chain.reads[1])
		}
		if got := number(t, l.metrics.streams); got != 1001 {
			t.Errorf("streams: got %v, want 1001", got)
		}
	})
}

// TestWatchFirstSubscriptionNeedsHead: while the mirror node is down nobody is promised
// blocks from now on.
func TestWatchFirstSubscriptionNeedsHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		chain.listFail = &mirror.Error{Status: 503, Message: "down"}
		l, conn := newLive(t, chain), newFakeConn()
		if _, err := l.try(conn, l.Subscriptions.subscribe, `["newHeads"]`); err == nil {
			t.Error("subscribed without a block to begin with")
		}
		if got := number(t, l.metrics.subscriptions); got != 0 {
			t.Errorf("subscriptions: got %v, want 0", got)
		}
	})
}
