package rpc

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
)

// TestReady: a result that is known spares the handler; one that is not does not.
func TestReady(t *testing.T) {
	var known, ran atomic.Int64
	m := NewMetrics()
	d := testDispatcher(t, testConfig(), Options{Metrics: m},
		Method{Name: "eth_lucky", Params: []Param{Required(Text())}, Handler: func(context.Context, *Params) (any, error) {
			ran.Add(1)
			return "asked", nil
		}, Ready: func(p *Params) (any, bool) {
			switch p.At(0).Text() {
			case "0x1":
				known.Add(1)
				return "known", true
			case "0x2":
				panic("oops")
			case "0x3":
				return explosive{}, true
			}
			return nil, false
		}},
	)
	call := func(param string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_lucky","params":[%s]}`, param)
	}
	const (
		knownAnswer = `{"result":"known","jsonrpc":"2.0","id":1}`
		askedAnswer = `{"result":"asked","jsonrpc":"2.0","id":1}`
	)
	for _, tt := range []struct {
		body, want string
		known, ran int64
	}{
		{call(`"0x1"`), knownAnswer, 1, 0},
		{call(`"0x0"`), askedAnswer, 0, 1},
		{call(`"0x2"`), askedAnswer, 0, 1},
		{"[" + call(`"0x0"`) + "," + call(`"0x1"`) + "," + call(`"0x0"`) + "]", "[" + askedAnswer + "," + knownAnswer + "," + askedAnswer + "]", 1, 2},
	} {
		known.Store(0)
		ran.Store(0)
		if got := exchangeOnce(t.Context(), d, tt.body); got != tt.want || known.Load() != tt.known || ran.Load() != tt.ran {
			t.Errorf("%s\n got %s\nwant %s\nknown %d, ran %d", tt.body, got, tt.want, known.Load(), ran.Load())
		}
	}
	if got := value(m.panics.WithLabelValues("eth_lucky")); got != 1 {
		t.Errorf("panics: got %v, want 1", got)
	}
	// Neither the rules nor an encoder that panics are passed by.
	known.Store(0)
	for _, param := range []string{`"0x1","0x1"`, `1`, `"0x3"`} {
		if got := exchangeOnce(t.Context(), d, call(param)); known.Load() != 0 || got == knownAnswer || got == askedAnswer {
			t.Errorf("%s: %s", param, got)
		}
	}
}
