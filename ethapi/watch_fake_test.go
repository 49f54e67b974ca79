package ethapi

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
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
		b := &mirror.Block{Number: number, Count: 1, GasUsed: 1, Period: mirror.Period{To: hedera.FromNanos(int64(number) + 1)}, Bloom: make([]byte, 256)}
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
	return []*mirror.Log{{Log: eth.Log{
		Address: contract, Topics: []common.Hash{{1}, {byte(b.Number % 2)}}, BlockNumber: hexutil.Uint64(b.Number), BlockHash: b.Hash,
		Data: []byte(strconv.FormatUint(b.Number, 10)), TxHash: common.Hash{9, byte(b.Number)},
	}}}, nil
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

func (c *fakeConn) Notify(subscription string, e *rpc.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slow || c.over {
		return false
	}
	c.got[subscription] = append(c.got[subscription], string(e.Result()))
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
		must.Do(t, json.Unmarshal([]byte(text), &event))
		n := must.Get(strconv.ParseInt(event.Number+event.BlockNumber, 0, 64))(t)
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
	cfg := must.Get(env.ParseAsWithOptions[Config](env.Options{Environment: map[string]string{}}))(t)
	deps := Deps{ChainID: 298, Mirror: chain, Profile: rpc.ProfileEthereum}
	for _, c := range change {
		c(&cfg, &deps)
	}
	api := must.Get(New(cfg, deps))(t)
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
		must.Do(t, m.Write(&d))
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
