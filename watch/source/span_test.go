package source

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/must"
	"lockstep/watch/watchtest"
)

// TestTroubleLeavesTheSpan: an endpoint that is busy or down says nothing of the range; one that finds the answer too long does, in words that may mean
// anything, too. One that runs out of time is asked for less the next time.
func TestTroubleLeavesTheSpan(t *testing.T) {
	for what, of := range map[string]struct {
		status int
		says   string
		asks   uint64 // blocks, of 100, the next time
	}{
		"is down":                 {503, "", 100},
		"answers 429":             {429, "", 100},
		"limits the rate":         {200, `"code":-32005,"message":"daily request count exceeded, request rate limited"`, 100},
		"finds the range too big": {200, `"code":-32005,"message":"query returned more than 10000 results"`, 1},
		"has a limit":             {200, `"code":-32005,"message":"limit exceeded"`, 1},
		"runs out of time":        {200, `"code":-32002,"message":"request timed out"`, 50},
		"is behind a slow proxy":  {504, "", 50},
	} {
		url := watchtest.Proxy(t, "", func(c *watchtest.Call) {
			switch {
			case c.Method == "eth_chainId":
				c.Say("0x5")
			case c.Method != "eth_getLogs":
				c.Say(map[string]any{"number": c.Params[0], "hash": common.Hash{1}, "timestamp": "0x1"})
			case of.status != http.StatusOK:
				c.Status = of.status
			default:
				c.Error = fmt.Appendf(nil, "{%s}", of.says)
			}
		})
		p := must.Get(New(Config{ChainID: 5, URLs: []string{url}}, Deps{Log: slog.New(slog.DiscardHandler)}))(t)
		defer p.Close()
		e := p.endpoints[0]
		e.span = 100
		if _, _, err := p.LogsOfRange(t.Context(), 1, 1000, Query{Addresses: map[common.Address]struct{}{{1}: {}}, Events: []common.Hash{{1}}}); err == nil {
			t.Errorf("one that %s: no error", what)
		}
		if e.span != of.asks {
			t.Errorf("one that %s is asked for %d blocks at a time, want %d", what, e.span, of.asks)
		}
	}
}

// TestSpanGrowsBelowWhatWasRefused: an endpoint that takes a number of blocks at a time is seldom asked for more, and gets to its limit.
func TestSpanGrowsBelowWhatWasRefused(t *testing.T) {
	const queries = 1000
	for _, takes := range []uint64{1, 10, 100, 1000, 9999} {
		e := &endpoint{span: firstSpan}
		refused, covered := 0, uint64(0)
		for range queries {
			if span := e.span; span > takes {
				refused++
				e.shrink(span)
			} else {
				covered += span
				e.grow(10_000)
			}
		}
		if refused > queries/50 || covered < takes*queries*8/10 {
			t.Errorf("%d blocks at a time: %d of %d queries were refused, %d blocks covered", takes, refused, queries, covered)
		}
	}
	// One that was in trouble takes long spans again.
	e := &endpoint{span: 1000}
	e.shrink(1000)
	e.shrink(500)
	for range 150 {
		e.grow(10_000)
	}
	if e.span != 10_000 {
		t.Errorf("the span is %d", e.span)
	}
	if e = (&endpoint{span: 1}); true { // one that takes everything
		for range 30 {
			e.grow(10_000)
		}
	}
	if e.span != 10_000 {
		t.Errorf("the span is %d", e.span)
	}
}
