package bench

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A caller may look at a target right before and right after the load.
func TestBeforeAndAfter(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	cfg := base(f)
	cfg.Runs = 2
	var got []int
	look := func(_ context.Context, target, run int) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		got = append(got, target, run, len(f.arrivals))
		return nil
	}
	cfg.Before, cfg.After = look, look
	if report := mustRun(t, cfg); !report.Clean() {
		t.Fatalf("not clean: %+v", report.Targets[0].Runs)
	}
	// target, run, transactions of the load by then
	want := []int{0, 0, 0, 0, 0, 36, 0, 1, 36, 0, 1, 72}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestBeforeFails(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	cfg := base(f)
	wrong := errors.New("not now")
	cfg.Before = func(context.Context, int, int) error { return wrong }
	if _, err := Run(t.Context(), cfg, io.Discard); !errors.Is(err, wrong) {
		t.Errorf("Run: %v, want %v", err, wrong)
	}
	if n := len(f.arrivals); n != 0 {
		t.Errorf("%d transactions were sent", n)
	}
}

// Established relays answer for the receipt of a refused transaction with an error. That
// is an answer about the transaction, not a failure of the chain.
func TestReceiptOfARefusedTransaction(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	f.unordered, f.receiptErr, f.swap = true, true, only(10)
	cfg := base(f)
	cfg.ConsensusLog = f.server.URL
	run := mustRun(t, cfg).Targets[0].Runs[0]
	if run.Chain == nil {
		t.Fatalf("no chain state: %s", run.ChainError)
	}
	if run.Refused == 0 || run.Chain.WrongNonce != run.Refused || run.Chain.Executed != 36-run.Refused {
		t.Errorf("%d refused, %d of them for the nonce, %d executed of 36", run.Refused, run.Chain.WrongNonce, run.Chain.Executed)
	}
}
