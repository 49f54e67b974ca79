package pending_test

import (
	"testing"

	"lockstep/internal/relay/pending"
)

// TestDisabled: a pool that is off knows nothing, objects to nothing, and announces all the same.
func TestDisabled(t *testing.T) {
	announced := 0
	p := pending.Disabled(func([]byte) { announced++ })
	w := newWallet(t)
	tx := w.tx(5)
	p.Add(tx)
	p.Accepted(tx)
	p.Done(tx, true, false)
	p.Forget()
	ctx := t.Context()
	if p.Enabled() || len(p.Collectors()) > 0 || announced != 1 {
		t.Errorf("enabled %v, %d collectors, announced %d times", p.Enabled(), len(p.Collectors()), announced)
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
