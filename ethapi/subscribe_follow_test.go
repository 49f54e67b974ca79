package ethapi

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/must"
	"lockstep/rpc"
)

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

// TestWatchLaggingReplica: a block is listed before what is in it can be read.
func TestWatchLaggingReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		logs := l.subscribe(conn, `["logs",{}]`)
		chain.set(func() { chain.empty = true })
		chain.mine(1)
		<-time.After(10 * time.Second)
		synctest.Wait()
		l.told("while there is nothing", conn, logs)
		chain.set(func() { chain.empty = false })
		<-time.After(longestBackoff)
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

// TestWatchUnreadableBlock: a block that cannot be read holds up the later ones for a while, longer if the fault may end by itself. Then it
// is given up.
func TestWatchUnreadableBlock(t *testing.T) {
	incomplete := logJSON(synthetic, tokenLog, "0x", 0, 0, 2, transferID)
	incomplete["block_number"] = nil
	for name, test := range map[string]struct {
		answer string
		held   time.Duration
	}{
		"immature":   {listOf("logs", incomplete), time.Second},
		"unreadable": {"{", 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chain := newFakeChain(1)
				chain.spoilt = map[int]string{2: test.answer}
				l, conn := newLive(t, chain), newFakeConn()
				logs := l.subscribe(conn, `["logs",{}]`)
				chain.mine(3)
				<-time.After(test.held)
				synctest.Wait()
				l.told("logs while they may come", conn, logs, 1)
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

// A mistake in how a block is read is an error like others.
func TestWatchMistake(t *testing.T) {
	f := follower{Subscriptions: new(Subscriptions)} // it can read nothing
	if _, err := f.read(t.Context(), nil, demand{}); err == nil {
		t.Error("no error")
	}
}

// TestWatchAfterAnOutage: what came while the mirror node was away is told in order.
func TestWatchAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		heads := l.subscribe(conn, `["newHeads"]`)
		chain.set(func() { chain.down = true })
		chain.mine(10)
		<-time.After(time.Hour)
		l.told("while it is away", conn, heads)
		chain.set(func() { chain.down = false })
		<-time.After(time.Minute)
		l.told("afterwards", conn, heads, span(1, 10)...)
	})
}

// TestWatchDueBlocks: a block of a chain with an even pace is told of within an eighth of the interval.
func TestWatchDueBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		heads := l.subscribe(conn, `["newHeads"]`)
		for block := 1; block <= 40; block++ {
			chain.mine(1)
			<-time.After(pollInterval/closeLooks + time.Millisecond)
			if block > 20 {
				l.told("in time", conn, heads, span(1, block)...)
			}
			<-time.After(5 * pollInterval)
		}
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

		must.Get(l.try(conn, l.unsubscribe, fmt.Sprintf(`[%q]`, heads)))(t)
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
		chain.down = true
		l, conn := newLive(t, chain), newFakeConn()
		if _, err := l.try(conn, l.Subscriptions.subscribe, `["newHeads"]`); err == nil {
			t.Error("subscribed without a block to begin with")
		}
		if got := number(t, l.metrics.subscriptions); got != 0 {
			t.Errorf("subscriptions: got %v, want 0", got)
		}
	})
}

// fakeChain is a mirror node whose blocks and failures a test decides on. Every block has one log, whose data is the block's
// number. It is asked without a socket, so that fake time passes while it is waited for.
type fakeChain struct {
	mu     sync.Mutex
	blocks int            // guarded by mu, as all that follows
	down   bool           // it answers nothing
	spoilt map[int]string // answers about what is in a block
	empty  bool           // what is in blocks is not there yet
	asked  int            // lists of blocks
	reads  map[uint64]int // of logs, by block
}

func newFakeChain(blocks int) *fakeChain {
	return &fakeChain{blocks: blocks, reads: map[uint64]int{}}
}

func (c *fakeChain) mine(n int) { c.set(func() { c.blocks += n }) }

func (c *fakeChain) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// RoundTrip implements http.RoundTripper.
func (c *fakeChain) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r}
	body, ok := c.answer(strings.TrimPrefix(r.URL.Path, "/api/v1/"), r.URL.Query())
	switch {
	case c.down:
		answer.StatusCode = http.StatusServiceUnavailable
	case !ok:
		answer.StatusCode, body = http.StatusNotFound, `{"_status":{"messages":[{"message":"Not found"}]}}`
	}
	answer.Body = io.NopCloser(strings.NewReader(body))
	return answer, nil
}

func (c *fakeChain) answer(path string, query url.Values) (body string, ok bool) {
	switch path {
	case "blocks":
		first, many := c.blocks-1, 1
		if from, list := strings.CutPrefix(query.Get("block.number"), "gte:"); list {
			first, many = atoi(from), atoi(query.Get("limit"))
			c.asked++
		}
		var blocks []any
		for n := max(first, 0); n < min(first+many, c.blocks); n++ {
			blocks = append(blocks, member{
				"number": n, "count": 1, "gas_used": 1, "hash": fmt.Sprintf("0x%064x", n+1), "logs_bloom": "0x" + strings.Repeat("01", 256),
				"timestamp": member{"from": fmt.Sprintf("%d.000000000", n+1), "to": fmt.Sprintf("%d.999999999", n+1)},
			})
		}
		return listOf("blocks", blocks...), true
	case "contracts/results":
		return listOf("results"), true
	case "contracts/results/logs":
		n := atoi(strings.TrimSuffix(strings.TrimPrefix(query.Get("timestamp"), "gte:"), ".000000000")) - 1
		c.reads[uint64(n)]++
		if spoilt, is := c.spoilt[n]; is {
			return spoilt, true
		}
		if c.empty {
			return listOf("logs"), true
		}
		l := logJSON(fmt.Sprintf("0x%064x", n+1), text(contract), fmt.Sprintf("0x%x", strconv.Itoa(n)), 0, 0, n, fmt.Sprintf("0x01%062d", 0), fmt.Sprintf("0x%02x%062d", n%2, 0))
		l["address"], l["block_hash"], l["timestamp"] = hexutil.Encode(contract[:]), fmt.Sprintf("0x%064x", n+1), fmt.Sprintf("%d.000000001", n+1)
		return listOf("logs", l), true
	case "network/fees":
		return fees(71), true
	case "accounts/0.0.1010", "contracts/" + hexutil.Encode(contract[:]):
		return text(member{"account": "0.0.1010", "contract_id": "0.0.1010", "evm_address": hexutil.Encode(contract[:])}), true
	case "tokens/0.0.1234", "transactions":
		return listOf("transactions", member{"transaction_id": "0.0.2-1-1", "consensus_timestamp": query.Get("timestamp")}), true
	}
	return "", false
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
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
func newLive(t *testing.T, chain *fakeChain, change ...func(*settings)) *live {
	t.Helper()
	l := idle(t, chain, change...)
	must.Run(t, l.Run)
	return l
}

func idle(t *testing.T, chain *fakeChain, change ...func(*settings)) *live {
	t.Helper()
	api, _ := newAPI(t, "http://mirror", append([]func(*settings){func(s *settings) { s.transport = chain }}, change...)...)
	return &live{Subscriptions: NewSubscriptions(api), t: t, chain: chain}
}

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

// play has a follower look at a chain whose blocks come at the given times, and returns how long after it each was
// found and how many looks that took.
func play(blocks []time.Duration, answer time.Duration) (late []time.Duration, looks int, widest time.Duration) {
	begin := time.Unix(1_700_000_000, 0)
	r := rhythm{interval: 500 * time.Millisecond}
	for now := begin; len(blocks) > 0; looks++ {
		found := 0
		for ; len(blocks) > 0 && !begin.Add(blocks[0]).After(now); blocks = blocks[1:] {
			late = append(late, now.Sub(begin.Add(blocks[0])))
			found++
		}
		r.saw(now, found)
		next := r.next(now)
		if earliest := now.Add(answer); next.Before(earliest) {
			next = earliest
		}
		widest = max(widest, next.Sub(now))
		now = next
	}
	return late, looks, widest
}

// TestBlocksOfAnEvenPaceAreFoundSoon: whatever the pace and wherever the looks began, a block is found within a step once
// the pace is known, and there are at most twice as many looks as intervals.
func TestBlocksOfAnEvenPaceAreFoundSoon(t *testing.T) {
	for _, period := range []time.Duration{2 * time.Second, 2345 * time.Millisecond, 12 * time.Second} {
		for phase := time.Duration(0); phase < 500*time.Millisecond; phase += 37 * time.Millisecond {
			var blocks []time.Duration
			for i := range 100 {
				blocks = append(blocks, phase+time.Duration(i)*period)
			}
			late, looks, widest := play(blocks, 5*time.Millisecond)
			if worst := slices.Max(late[20:]); worst > 70*time.Millisecond {
				t.Errorf("a block every %v, phase %v: found %v after it came", period, phase, worst)
			}
			if intervals := int(blocks[99]/(500*time.Millisecond)) + 1; looks > 2*intervals+20 {
				t.Errorf("a block every %v, phase %v: %d looks in %d intervals", period, phase, looks, intervals)
			}
			if widest > 500*time.Millisecond {
				t.Errorf("a block every %v, phase %v: two looks were %v apart", period, phase, widest)
			}
		}
	}
}

// TestBlocksOfAnUnevenPace: without a pace, with one that changes, and with one that stops, no block waits longer than an
// interval, and what is looked for in vain costs no more than a few looks.
func TestBlocksOfAnUnevenPace(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, gap := range map[string]func(i int) time.Duration{
		"at random": func(int) time.Duration { return time.Duration(random.Int64N(int64(6 * time.Second))) },
		"a little uneven": func(int) time.Duration {
			return 1800*time.Millisecond + time.Duration(random.Int64N(int64(400*time.Millisecond)))
		},
		"another pace": func(i int) time.Duration { return time.Duration(2+i/50) * time.Second },
		"stops for a while": func(i int) time.Duration {
			return 2*time.Second + time.Duration(i/50%2)*time.Duration(i%50/49)*time.Minute
		},
	} {
		var blocks []time.Duration
		at := time.Duration(0)
		for i := range 200 {
			at += gap(i)
			blocks = append(blocks, at)
		}
		late, looks, widest := play(blocks, 5*time.Millisecond)
		if worst := slices.Max(late); worst > 500*time.Millisecond || widest > 500*time.Millisecond {
			t.Errorf("%s: found %v after it came, looks %v apart", name, worst, widest)
		}
		if intervals := int(at/(500*time.Millisecond)) + 1; looks > 2*intervals+20 {
			t.Errorf("%s: %d looks in %d intervals", name, looks, intervals)
		}
	}
}

// A failure and a backlog end what is known of the pace.
func TestThePaceIsLost(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	known := func() *rhythm {
		r := &rhythm{interval: 500 * time.Millisecond}
		for i := range 10 {
			r.saw(begin.Add(time.Duration(i)*2*time.Second), 1)
		}
		return r
	}
	look := begin.Add(19700 * time.Millisecond)
	if next := known().next(look); !next.Before(look.Add(400 * time.Millisecond)) {
		t.Fatalf("looked for %v after the look, though a block is due 300 ms after it", next.Sub(look))
	}
	for name, lose := range map[string]func(r *rhythm){
		"a failure": (*rhythm).lose,
		"a backlog": func(r *rhythm) { r.saw(look, 3) },
	} {
		r := known()
		lose(r)
		if next := r.next(look); !next.Equal(look.Add(500 * time.Millisecond)) {
			t.Errorf("%s: the next look is %v later", name, next.Sub(look))
		}
	}
}
