package ethapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/must"
	"lockstep/rpc"
)

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
		answer.StatusCode = http.StatusNotFound
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
		return text(member{"account": "0.0.1010", "evm_address": hexutil.Encode(contract[:])}), true
	case "tokens/0.0.1234", "transactions":
		return listOf("transactions", member{"transaction_id": "0.0.2-1-1"}), true
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
