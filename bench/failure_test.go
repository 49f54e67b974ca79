package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/internal/must"
)

// The end of the context stops sending, keeps what is known and says so.
func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.swap = func(nonce uint64) bool {
		if nonce == 5 {
			cancel()
		}
		return false
	}
	cfg := base(f)
	cfg.Runs, cfg.Count, cfg.Spacing = 4, 400, 200*time.Millisecond // the load would take more than a minute
	var out bytes.Buffer
	report := must.Get(Run(ctx, cfg, &out))(t)
	runs := report.Targets[0].Runs
	if !report.Partial || len(runs) != 1 || !runs[0].Partial || report.Clean() {
		t.Fatalf("not a partial report of one run: partial %v, %d runs", report.Partial, len(runs))
	}
	got := outcomeOf(t, runs[0])
	// What was executed may have no answer if that came too late.
	if got.Sent == 0 || got.Sent >= runs[0].Planned || got.Executed != got.Accepted+got.Unconfirmed {
		t.Errorf("outcome %+v of %d planned", got, runs[0].Planned)
	}
	if len(report.Targets[0].Summary) != 0 {
		t.Error("a summary of partial runs")
	}
	if !strings.Contains(out.String(), "PARTIAL") {
		t.Errorf("the text does not say that it is partial:\n%s", out.String())
	}
}

func TestUnusableTargets(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	tests := map[string]struct {
		change func(*Config)
		want   string
	}{
		"nobody listens": {
			change: func(c *Config) { c.URLs = []string{"http://127.0.0.1:1"} },
			want:   "connect to http://127.0.0.1:1: connection refused",
		},
		"no money and no key": {
			change: func(c *Config) { c.Funder = nil },
			want:   "there is no key to fund them from",
		},
		"poor funder": {
			change: func(c *Config) { c.Funder, _ = crypto.GenerateKey() },
			want:   "Insufficient funds",
		},
		"consensus log elsewhere": {
			change: func(c *Config) { c.ConsensusLog = f.server.URL + "/elsewhere" },
			want:   "consensus log: ",
		},
		"a URL left out": {
			change: func(c *Config) { c.URLs = append(c.URLs, "") },
			want:   "bench: rpc: URL 2: want one of http, https, ws, wss",
		},
		"not valid": {
			change: func(c *Config) { c.Batch = -1 },
			want:   "batch: want 1 to 1000",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeChain(t)
			cfg := base(f)
			test.change(&cfg)
			report, err := Run(t.Context(), cfg, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
			if report.hasRuns() {
				t.Error("runs in the report")
			}
		})
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteFails(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	report, err := Run(t.Context(), base(f), brokenWriter{})
	if !errors.Is(err, errBroken) || !report.hasRuns() {
		t.Errorf("error %v, runs %v", err, report.hasRuns())
	}
}

// A target that stops answering state queries after the load keeps its measurements.
func TestChainCannotBeAsked(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	cfg := base(f).withDefaults()
	s := must.Get(openSession(t.Context(), cfg, 0, &TargetReport{}, nil))(t)
	s.state.close() // every later question fails
	v := &verifier{
		state: s.state, senders: s.senders, quiet: time.Millisecond,
		txs: []transfer{{verdict: accepted}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report := RunReport{Planned: 1, Accepted: 1, Latency: &Histogram{}, Lag: &Histogram{}}
	s.verify(ctx, v, &report)
	if report.Chain != nil || report.ChainError == "" {
		t.Errorf("chain %+v, error %q", report.Chain, report.ChainError)
	}
	figures := summarise([]RunReport{{Latency: &Histogram{}, Lag: &Histogram{}}})
	opts := cmpopts.IgnoreFields(Figure{}, "Unit", "Median", "Min", "Max")
	for _, fig := range figures {
		if cmp.Equal(fig, Figure{Name: "lost"}, opts) {
			t.Error("a figure of the chain, though no run has one")
		}
	}
}

// A run that waits for what may never be executed says so, also where there is no terminal.
func TestWaitingIsTold(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	s := must.Get(openSession(t.Context(), base(f).withDefaults(), 0, &TargetReport{}, nil))(t)
	defer s.state.close()
	var told strings.Builder
	v := &verifier{
		state: s.state, senders: s.senders, quiet: 300 * time.Millisecond, p: newProgress(&told), nonces: make([]uint64, len(s.senders)), receipts: make([]*receipt, 1),
		txs: []transfer{{verdict: accepted}}, // which the chain has never seen
	}
	must.Do(t, v.settle(t.Context()))
	if got := told.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "transactions whose fate is open; waiting for ") {
		t.Errorf("it told %q", got)
	}
}

// A relay that dies during the load is one of several: another one tells what became of it.
func TestAnotherTargetTellsTheState(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	first := httptest.NewServer(f)
	cfg := base(f)
	cfg.URLs = []string{first.URL, "http://127.0.0.1:1", f.server.URL}
	s := must.Get(openSession(t.Context(), cfg.withDefaults(), 0, &TargetReport{}, nil))(t)
	defer s.state.close()
	first.CloseClientConnections()
	first.Close()
	if err := each(t.Context(), 20, func(ctx context.Context, _ int) error {
		_, err := s.state.nonce(ctx, s.senders[0].addr)
		return err
	}); err != nil {
		t.Error(err)
	}
}
