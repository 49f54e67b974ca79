package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lockstep/internal/must"
)

// TestMain looks for goroutines that outlive the tests. Those of closed connections may need a while to
// end on a busy machine.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		err := goleak.Find()
		for end := time.Now().Add(generous); err != nil && time.Now().Before(end); {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// generous only says that something is stuck.
const generous = 2 * time.Minute

// base is a load for f that gives up early on what the chain does not show.
func base(f *fakeChain) Config {
	return Config{
		URLs:    []string{f.server.URL},
		Senders: 3, Count: 12,
		Funder: f.funder,
		Settle: 50 * time.Millisecond, Timeout: generous,
	}
}

func mustRun(t *testing.T, cfg Config) Report {
	t.Helper()
	return must.Get(Run(t.Context(), cfg))(t)
}

// figures of a run that tests look at.
type outcome struct {
	Sent, Accepted, Refused, Unanswered            int
	Executed, Unconfirmed, OutOfOrder, WrongNonce  int
	WrongNonceAtConsensus, Lost, Duplicated, Nonce int
}

func outcomeOf(t *testing.T, r Report) outcome {
	t.Helper()
	if r.Chain == nil {
		t.Fatalf("no chain state: %s", r.ChainError)
	}
	c := r.Chain
	return outcome{
		r.Sent, r.Accepted, r.Refused, r.Unanswered,
		c.Executed, c.ExecutedUnconfirmed, c.OutOfOrder, c.WrongNonce,
		c.WrongNonceAtConsensus, c.Lost, c.Duplicated, c.NonceAdvance,
	}
}

// patient gives a run more and more time for each request, until only the requests that are never
// answered find no answer in time: on a busy machine others are late, too.
func patient(once func(timeout time.Duration) Report, mute int) (run Report) {
	for timeout := time.Second; timeout <= generous; timeout *= 3 {
		if run = once(timeout); run.Unanswered == mute {
			break
		}
	}
	return run
}

func only(n uint64) func(uint64) bool { return func(nonce uint64) bool { return nonce == n } }

// Every count can be zero and something else, with the order taken from the consensus
// log and from receipts and blocks.
func TestCounts(t *testing.T) {
	all := outcome{Sent: 36, Accepted: 36, Executed: 36, Nonce: 36}
	tests := map[string]struct {
		knobs    func(*fakeChain)
		cfg      func(*Config)
		mutes    bool     // something is never answered
		log      *outcome // with the consensus log; nil: the same as receipts
		receipts outcome
	}{
		"perfect": {receipts: all},
		"perfect, shuffled": {
			cfg:      func(c *Config) { c.ShuffleWindow = 6 },
			receipts: all,
		},
		"lost": {
			knobs:    func(f *fakeChain) { f.lose = only(11) },
			receipts: outcome{Sent: 36, Accepted: 36, Executed: 33, Lost: 3, Nonce: 33},
		},
		"no answer": {
			knobs:    func(f *fakeChain) { f.mute = only(11) },
			mutes:    true,
			receipts: outcome{Sent: 36, Accepted: 33, Unanswered: 3, Executed: 33, Nonce: 33},
		},
		"answered with an error, yet executed": {
			knobs:    func(f *fakeChain) { f.regret = only(4) },
			receipts: outcome{Sent: 36, Accepted: 33, Refused: 3, Executed: 36, Unconfirmed: 3, Nonce: 36},
		},
		"answered with another hash": {
			knobs:    func(f *fakeChain) { f.garble = only(4) },
			receipts: outcome{Sent: 36, Accepted: 33, Unanswered: 3, Executed: 36, Unconfirmed: 3, Nonce: 36},
		},
		"in two blocks": {
			knobs:    func(f *fakeChain) { f.repeat = only(11) },
			log:      &all,
			receipts: outcome{Sent: 36, Accepted: 36, Executed: 36, Duplicated: 3, Nonce: 36},
		},
		"two swapped, the refused have receipts": {
			knobs: func(f *fakeChain) { f.optimistic = true; f.receiptAll = true; f.swap = only(10) },
			receipts: outcome{
				Sent: 36, Accepted: 36, Executed: 33, OutOfOrder: 3, WrongNonce: 3,
				WrongNonceAtConsensus: 3, Lost: 3, Nonce: 33,
			},
		},
	}
	for name, test := range tests {
		for _, source := range []string{"receipts", "consensus log"} {
			t.Run(name+"/"+source, func(t *testing.T) {
				t.Parallel()
				want := test.receipts
				if source == "consensus log" && test.log != nil {
					want = *test.log
				}
				once := func(timeout time.Duration) Report {
					f := newFakeChain(t)
					if test.knobs != nil {
						test.knobs(f)
					}
					cfg := base(f)
					cfg.Timeout = timeout
					if test.cfg != nil {
						test.cfg(&cfg)
					}
					if source == "consensus log" {
						cfg.ConsensusLog = f.server.URL
					}
					return mustRun(t, cfg)
				}
				var run Report
				if test.mutes {
					run = patient(once, want.Unanswered)
				} else {
					run = once(generous)
				}
				if diff := cmp.Diff(want, outcomeOf(t, run)); diff != "" {
					t.Errorf("outcome (-want +got):\n%s\nerrors: %+v", diff, run.Errors)
				}
				if run.Chain.OrderFrom != source {
					t.Errorf("order from %q", run.Chain.OrderFrom)
				}
				if clean := want == all; run.Clean() != clean {
					t.Errorf("Clean() = %v, want %v", run.Clean(), clean)
				}
			})
		}
	}
}

// Relays allow ten connections of one client, as delivered: the load and its state have to do with them.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	f.sockets = make(chan struct{}, 10)
	cfg := base(f)
	cfg.Senders = 20
	cfg.URLs = []string{f.wsURL()} // state over WebSocket as well
	if run := mustRun(t, cfg); !run.Clean() {
		t.Errorf("not clean: %+v %+v", outcomeOf(t, run), run.Errors)
	}
}

func TestWebSocketNoAnswer(t *testing.T) {
	t.Parallel()
	run := patient(func(timeout time.Duration) Report {
		f := newFakeChain(t)
		f.mute = only(11)
		cfg := base(f)
		cfg.URLs = []string{f.wsURL()}
		cfg.Timeout = timeout
		return mustRun(t, cfg)
	}, 3)
	want := []ErrorClass{{Message: "no answer in time", Count: 3}}
	if diff := cmp.Diff(want, run.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// A second run goes on from the nonces of the first, and senders that have enough are not funded.
func TestRunsContinue(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	cfg := base(f)
	for _, s := range deriveSenders(f.funder, "lockstep", 3) {
		f.balances[s.addr] = new(big.Int).Exp(big.NewInt(10), big.NewInt(20), nil)
	}
	for range 2 {
		if report := mustRun(t, cfg); !report.Clean() {
			t.Fatalf("not clean: %+v", report)
		}
	}
	if sends := f.methods["eth_sendRawTransaction"]; sends != 2*36 {
		t.Errorf("%d transactions for two runs", sends)
	}
	for _, s := range deriveSenders(f.funder, "lockstep", 3) {
		if n := f.nonces[s.addr]; n != 24 {
			t.Errorf("nonce of %s is %d after two runs of 12", s.addr, n)
		}
	}
}

func TestAlternatingAndSticky(t *testing.T) {
	t.Parallel()
	for _, sticky := range []bool{false, true} {
		f := newFakeChain(t)
		cfg := base(f)
		cfg.Sticky = sticky
		other := strings.Replace(f.server.URL, "127.0.0.1", "localhost", 1)
		cfg.URLs = []string{f.server.URL, other}
		if report := mustRun(t, cfg); !report.Clean() {
			t.Fatalf("not clean: %+v", report)
		}
		type stop struct {
			sender common.Address
			host   string
		}
		hosts, turns := map[stop]bool{}, map[any]bool{}
		for _, a := range f.arrivals {
			at := stop{a.sender, a.host}
			hosts[at], turns[[2]any{at, a.nonce % 2}] = true, true
		}
		// A sender has one host for all its nonces, or one for the even and one for the odd ones.
		want := 2 * cfg.Senders
		if sticky {
			want = cfg.Senders
		}
		if len(hosts) != want || len(turns) != 2*cfg.Senders {
			t.Errorf("sticky %v: %v", sticky, turns)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	cfg := base(f)
	cfg.URLs = []string{strings.Replace(f.server.URL, "http://", "http://user:hunter2@", 1) + "/v1/apikey?token=hunter3"}
	var out bytes.Buffer
	must.Do(t, mustRun(t, cfg).Write(&out, true))
	for _, secret := range []string{"hunter2", "hunter3", "apikey", common.Bytes2Hex(crypto.FromECDSA(f.funder))} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the report contains the secret %q", secret)
		}
	}
	var got struct {
		Partial  bool
		Hosts    []string
		Accepted int
		Latency  struct {
			Count int     `json:"count"`
			P99   float64 `json:"p99_ms"`
		}
		Chain struct{ Executed, Lost int }
	}
	must.Do(t, json.Unmarshal(out.Bytes(), &got))
	if got.Accepted != 36 || got.Latency.Count != 36 || got.Latency.P99 <= 0 || got.Chain.Executed != 36 || got.Partial {
		t.Errorf("JSON: %+v", got)
	}
	if diff := cmp.Diff([]string{f.server.URL}, got.Hosts); diff != "" {
		t.Error(diff)
	}
}

// A caller may look at a target right before and right after the load.
func TestBeforeAndAfter(t *testing.T) {
	t.Parallel()
	f := newFakeChain(t)
	cfg := base(f)
	var got []int
	look := func(context.Context) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		got = append(got, len(f.arrivals))
		return nil
	}
	cfg.Before, cfg.After = look, look
	mustRun(t, cfg)
	if diff := cmp.Diff([]int{0, 36}, got); diff != "" {
		t.Errorf("transactions of the load by then (-want +got):\n%s", diff)
	}

	wrong := errors.New("not now")
	cfg.Before = func(context.Context) error { return wrong }
	if _, err := Run(t.Context(), cfg); !errors.Is(err, wrong) {
		t.Errorf("Run: %v, want %v", err, wrong)
	}
	if n := len(f.arrivals); n != 36 {
		t.Errorf("%d transactions were sent", n-36)
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
	run := mustRun(t, cfg)
	if run.Chain == nil {
		t.Fatalf("no chain state: %s", run.ChainError)
	}
	if run.Refused == 0 || run.Chain.WrongNonce != run.Refused || run.Chain.Executed != 36-run.Refused {
		t.Errorf("%d refused, %d of them for the nonce, %d executed of 36", run.Refused, run.Chain.WrongNonce, run.Chain.Executed)
	}
}

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
