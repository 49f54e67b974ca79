package bench

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

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
	cfg.Count, cfg.Spacing = 400, 200*time.Millisecond // the load would take more than a minute
	report := must.Get(Run(ctx, cfg))(t)
	if !report.Partial || report.Clean() {
		t.Fatalf("not a partial report: %+v", report)
	}
	got := outcomeOf(t, report)
	// What was executed may have no answer if that came too late.
	if got.Sent == 0 || got.Sent >= report.Planned || got.Executed != got.Accepted+got.Unconfirmed {
		t.Errorf("outcome %+v of %d planned", got, report.Planned)
	}
	var out strings.Builder
	must.Do(t, report.Write(&out, false))
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
			want:   "eth_chainId: http://127.0.0.1:1: connection refused",
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
			change: func(c *Config) { c.Senders = -1 },
			want:   "senders: want 1 to 100000",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeChain(t)
			cfg := base(f)
			test.change(&cfg)
			if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want %q", err, test.want)
			}
		})
	}
}

// A target that stops answering state queries after the load keeps its measurements.
func TestChainCannotBeAsked(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	cfg := base(f)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.After = func(context.Context) error {
		f.server.Config.Handler = http.NotFoundHandler()
		cancel() // so that it is not asked for long
		return nil
	}
	report := must.Get(Run(ctx, cfg))(t)
	if report.Chain != nil || report.ChainError == "" || report.Accepted != 36 || !report.Partial {
		t.Errorf("report %+v", report)
	}
	var out strings.Builder
	must.Do(t, report.Write(&out, false))
	if text := out.String(); !strings.Contains(text, "chain state unknown: ") || strings.Contains(text, "lost") {
		t.Errorf("the text:\n%s", text)
	}
}

// A run that waits for what may never be executed says so.
func TestWaitingIsTold(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	f.lose = only(11)
	cfg := base(f)
	var told strings.Builder
	cfg.Progress, cfg.Settle = &told, 300*time.Millisecond
	mustRun(t, cfg)
	if strings.Count(told.String(), "transactions whose fate is open; waiting for ") != 1 {
		t.Errorf("it told %q", told.String())
	}
}

// A relay that dies during the load is one of several: another one tells what became of it.
func TestAnotherTargetTellsTheState(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	first := httptest.NewServer(f)
	cfg := base(f)
	cfg.URLs = []string{first.URL, f.server.URL}
	cfg.After = func(context.Context) error {
		first.CloseClientConnections()
		first.Close()
		return nil
	}
	if report := mustRun(t, cfg); !report.Clean() {
		t.Errorf("report %+v", report)
	}
}
