package txmgr

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// limited is a chain whose provider refuses whatever it is asked.
type limited struct {
	Chain
	asked int
	well  bool
}

func (c *limited) Trouble() string {
	if c.well {
		return ""
	}
	return "endpoint 1: 429 Too Many Requests"
}

// Four owners that wait for a provider which limits them ask no more than once a second together, and one line of the log says so.
func TestOwnersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		chain, turns := &limited{}, &pace{}
		log := slog.New(slog.NewTextHandler(&text, nil))
		began := time.Now()
		var owners []*worker
		for range 4 {
			owners = append(owners, &worker{c: chain, pace: turns, log: log})
		}
		const lasts = 5 * time.Minute
		for time.Since(began) < lasts {
			for _, w := range owners {
				if w.pace.turn(time.Now()) == 0 {
					chain.asked++
					w.report(context.Background(), errors.New("429"))
				}
			}
			time.Sleep(250 * time.Millisecond) //nolint:forbidigo // fake time
		}
		if most := int(lasts/time.Second) + len(owners); chain.asked > most {
			t.Errorf("%d questions in %v", chain.asked, lasts)
		}
		if lines := strings.Count(text.String(), "\n"); lines != 1 {
			t.Errorf("%d lines:\n%s", lines, text.String())
		}
		chain.well = true
		for _, w := range owners {
			w.report(context.Background(), nil)
			if pause := w.pace.turn(time.Now()); pause != 0 {
				t.Errorf("waits %v although the chain answers", pause)
			}
		}
		if !strings.Contains(text.String(), "the chain answers its owners again") {
			t.Error(text.String())
		}
	})
}

// Who waits for a cap is told whose cap that is.
func TestCapsAreNamed(t *testing.T) {
	gwei := func(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e9)) }
	for name, c := range map[string]struct {
		own, chain, hour *big.Int
		all              uint64
		replaces         bool
		want             string
	}{
		"its own":           {own: gwei(5), chain: gwei(9), want: "its own maxFeePerGas"},
		"the chain's":       {own: gwei(9), chain: gwei(5), want: "the highest price of the settings"},
		"that of all":       {all: 5e9, want: "the highest price of the settings"},
		"none":              {hour: gwei(5), want: "no cap is set"},
		"lower than none":   {own: gwei(4), hour: gwei(5), want: "its own maxFeePerGas"},
		"twice the market":  {replaces: true, hour: gwei(500), want: "twice the market"},
		"replaces, its own": {replaces: true, own: gwei(3), want: "its own maxFeePerGas"},
	} {
		m := &Manager{feeCaps: map[string]*big.Int{}, fees: map[string]*feeCache{"1": {market: Market{Cap: c.hour}}}, c: Config{MaxFeePerGas: c.all}}
		if c.chain != nil {
			m.feeCaps["1"] = c.chain
		}
		got := m.capped(&Intent{Request: Request{Chain: "1", MaxFee: c.own}}, gwei(10), c.replaces)
		if !strings.HasPrefix(got, "fee_cap: ") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
