package pending_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/relay/pending"
)

// alone is a pool without Redis.
func alone(cfg pending.Config) *pending.Pool { return pending.New(cfg, pending.Deps{}) }

// P1: a proof counts for its time and then the mirror node alone, so that what another
// relay did is seen; and at any time the larger of the two.
func TestP1ProofsAgeAndTheMirrorNodeIsAsked(t *testing.T) {
	w := newWallet(t)
	tx := w.tx(6)
	synctest.Test(t, func(t *testing.T) {
		p := alone(settings())
		p.Add(tx)
		p.Done(tx, true, false)
		for _, step := range []struct {
			after          time.Duration
			mirror, latest uint64
		}{
			{0, 6, 7},                // the mirror node lags
			{30 * time.Second, 6, 7}, // and lags
			{0, 9, 9},                // another relay was used
			{31 * time.Second, 3, 3}, // the proof is too old, the network may be another one
		} {
			time.Sleep(step.after) //nolint:forbidigo // fake time
			if got := p.Latest(t.Context(), w.address, step.mirror); got != step.latest {
				t.Errorf("mirror node %d: latest %d, want %d", step.mirror, got, step.latest)
			}
		}
		if _, ok := p.Find(t.Context(), tx.Hash()); ok {
			t.Error("the hash is still known")
		}
	})
}

// P2: however slow the mirror node is, a nonce that was spent stays spent: nothing ends
// because of a time that passed but what has its verdict.
func TestP2SlowMirrorNodeFreesNoNonce(t *testing.T) {
	w := newWallet(t)
	tx := w.tx(6)
	synctest.Test(t, func(t *testing.T) {
		p := alone(settings())
		p.Add(tx)
		time.Sleep(time.Hour) //nolint:forbidigo // fake time: a long queue
		if got := p.Next(t.Context(), w.address, 6); got != 7 {
			t.Errorf("an hour in the queue: %d", got)
		}
		p.Done(tx, true, false)
		time.Sleep(59 * time.Second) //nolint:forbidigo // fake time: the mirror node lags
		if got := p.Latest(t.Context(), w.address, 6); got != 7 {
			t.Errorf("the mirror node lags: %d", got)
		}
	})
}

// A full pool forgets what is over, oldest first, and then takes nothing more; what it
// did not take is submitted all the same, and what was executed is proven.
func TestFullPool(t *testing.T) {
	for name, limit := range map[string]func(*pending.Config){
		"entries": func(c *pending.Config) { c.MaxEntries = 3 },
		"bytes":   func(c *pending.Config) { c.MaxBytes = 2000 }, // of about 630 each
	} {
		t.Run(name, func(t *testing.T) {
			cfg := settings()
			limit(&cfg)
			w, p := newWallet(t), alone(cfg)
			for nonce := range uint64(4) {
				p.Add(w.tx(nonce))
			}
			if n := p.Count(t.Context()); n != 3 {
				t.Errorf("%d entries", n)
			}
			for nonce := range uint64(4) {
				p.Done(w.tx(nonce), true, false)
			}
			if got := p.Latest(t.Context(), w.address, 0); got != 4 {
				t.Errorf("latest %d", got)
			}
			p.Add(w.tx(4))
			_, oldest := p.Find(t.Context(), w.tx(0).Hash())
			_, newest := p.Find(t.Context(), w.tx(4).Hash())
			if oldest || !newest {
				t.Errorf("the oldest is known: %t, the newest: %t", oldest, newest)
			}
		})
	}
}

// Nothing grows with the number of senders that ever were.
func TestNothingIsLeft(t *testing.T) {
	w := newWallet(t)
	synctest.Test(t, func(t *testing.T) {
		p := alone(settings())
		for nonce := range uint64(100) {
			p.Add(w.tx(nonce))
			p.Done(w.tx(nonce), nonce%2 == 0, nonce%3 == 0)
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // fake time
		p.Add(w.tx(100))
		p.Done(w.tx(100), false, false)
		if entries, senders := p.Sizes(); entries != 0 || senders != 0 {
			t.Errorf("%d entries and %d senders are left", entries, senders)
		}
	})
}

func TestMetrics(t *testing.T) {
	p := alone(settings())
	one, other := newWallet(t), newWallet(t)
	for _, tx := range []uint64{0, 1} {
		p.Add(one.tx(tx))
	}
	p.Add(other.tx(0))
	p.Done(one.tx(0), true, false)
	for name, want := range map[string]float64{
		"rpc_relay_txpool_pending_count":    2,
		"rpc_relay_txpool_active_addresses": 2,
		"rpc_relay_txpool_operations_total": 4, // three added, one removed
		"lockstep_txpool_full_total":        0,
	} {
		if got := metric(t, p, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

// TestDisabled: a pool that is off knows nothing, objects to nothing, and announces all the same.
func TestDisabled(t *testing.T) {
	var announced []byte
	p := pending.Disabled(func(raw []byte) { announced = append(announced, raw...) })
	w := newWallet(t)
	tx := w.tx(5)
	p.Add(tx)
	p.Accepted(tx)
	p.Done(tx, true, false)
	p.Forget()
	ctx := t.Context()
	if p.Enabled() || len(p.Collectors()) > 0 || !slices.Equal(announced, tx.Raw()) {
		t.Errorf("enabled %v, %d collectors, announced %x", p.Enabled(), len(p.Collectors()), announced)
	}
	if next, latest, proven := p.Next(ctx, tx.From(), 3), p.Latest(ctx, tx.From(), 3), p.Proven(tx.From()); next != 3 || latest != 3 || proven != 0 {
		t.Errorf("next %d, latest %d, proven %d", next, latest, proven)
	}
	if _, found := p.Find(ctx, tx.Hash()); found || p.Count(ctx) != 0 || len(p.Pending(ctx, nil)) > 0 {
		t.Error("a pool that is off has a transaction")
	}
	if !p.Follows(ctx, tx, 1) {
		t.Error("a pool that is off objects to a gap")
	}
	if err := p.Run(ctx); err != nil {
		t.Error(err)
	}
}
