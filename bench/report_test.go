package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

func TestNormalise(t *testing.T) {
	tests := map[string]string{
		"[Request ID: 0f3a5b9c-ab12-4cde-9f00-aabbccddeeff] Nonce too high": "[Request ID: #] Nonce too high",
		"Nonce too low. Provided nonce: 5, current nonce: 27":               "Nonce too low. Provided nonce: #, current nonce: #",
		"failed for 0xdeadBEEF01, sorry":                                    "failed for 0x…, sorry",
		"0x is no number, 0 is":                                             "#x is no number, # is",
		"clear\x1b[2J\nscreen":                                              "clear [#J screen",
		strings.Repeat("é", 500):                                            strings.Repeat("é", maxMessageLen/2),
		"":                                                                  "",
	}
	for in, want := range tests {
		if got := normalise(in); got != want {
			t.Errorf("normalise(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestErrorClassesAreBounded(t *testing.T) {
	many := map[classKey]int{}
	for i := range 10 * maxClasses {
		many[classKey{code: i}]++
	}
	classes := errorClasses(many)
	if last := len(classes) - 1; last != maxClasses || classes[last].Message != "other errors" || classes[last].Count != 9*maxClasses {
		t.Errorf("%d classes, the last of them %+v", len(classes), classes[last])
	}
}

// Whatever a target answers, a transaction gets a verdict, and a class unless it was accepted.
func TestAnswer(t *testing.T) {
	hash := common.Hash{1}
	for name, test := range map[string]struct {
		body string
		err  error
		want verdict
	}{
		"accepted":     {`{"id":1,"result":"` + hash.Hex() + `"}`, nil, accepted},
		"refused":      {`{"id":1,"error":{"code":-32000,"message":"no"}}`, nil, refused},
		"another hash": {`{"id":1,"result":"` + common.Hash{2}.Hex() + `"}`, nil, unanswered},
		"null":         {`{"id":1,"result":null}`, nil, unanswered},
		"no hash":      {`{"id":1,"result":7}`, nil, unanswered},
		"transport":    {``, errTimeout, unanswered},
	} {
		tx := transfer{hash: hash, verdict: unanswered}
		r := reply{at: time.Now(), err: test.err}
		if test.err == nil {
			r.message = must.Get(parseReply([]byte(test.body)))(t)
		}
		tx.answer(r)
		if tx.verdict != test.want || (tx.class == classKey{}) != (test.want == accepted) {
			t.Errorf("%s: %+v", name, tx)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{URLs: []string{"https://host/key"}}
	if err := good.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	bad := Config{
		URLs: []string{"ftp://secret@host", "::secret", "http://"}, ConsensusLog: "ws://host",
		Senders: -1, Count: -1, Connections: -1, Timeout: -1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"rpc: URL 1: want one of", "rpc: URL 2: not a URL", "rpc: URL 3: no host", "consensus log: want one of",
		"senders:", "count:", "connections:", "a duration is negative",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("a URL in the error:\n%v", err)
	}
	huge := good
	huge.Senders, huge.Count = 10_000, 10_000
	if err := huge.Validate(); err == nil || !strings.Contains(err.Error(), "1048576 transactions at most") {
		t.Errorf("a run without bounds: %v", err)
	}
}

func TestParseKey(t *testing.T) {
	const hex = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	for _, in := range []string{hex, "0x" + hex, " 0x" + hex + "\n"} {
		if _, err := ParseKey(in); err != nil {
			t.Error(err)
		}
	}
	if _, err := ParseKey(hex[1:]); err == nil || strings.Contains(err.Error(), hex[5:20]) {
		t.Errorf("error %v", err)
	}
}

// What only a log of consensus tells in full is not shown as 0 without one.
func TestUnknownIsNotZero(t *testing.T) {
	for name, c := range map[string]struct {
		chain Chain
		text  []string // rows, with one space for the gap
		json  []string
	}{
		"from receipts": {
			Chain{OrderFrom: fromReceipts},
			[]string{"out of order, tx –", "wrong nonce at consensus –", "lost, tx 0"},
			[]string{`"out_of_order": null`, `"wrong_nonce_at_consensus": null`, `"lost": 0`},
		},
		"from receipts of refused ones": {
			Chain{OrderFrom: fromReceipts, OutOfOrder: 2, WrongNonceAtConsensus: 3},
			[]string{"out of order, tx 2", "wrong nonce at consensus 3"},
			[]string{`"out_of_order": 2`, `"wrong_nonce_at_consensus": 3`},
		},
		"from a log": {
			Chain{OrderFrom: fromLog},
			[]string{"out of order, tx 0", "wrong nonce at consensus 0"},
			[]string{`"out_of_order": 0`, `"wrong_nonce_at_consensus": 0`},
		},
	} {
		r := Report{Latency: &Histogram{}, Lag: &Histogram{}, Chain: &c.chain}
		for asJSON, wants := range map[bool][]string{false: c.text, true: c.json} {
			var out strings.Builder
			must.Do(t, r.Write(&out, asJSON))
			text := strings.Join(strings.FieldsFunc(out.String(), func(r rune) bool { return r == ' ' }), " ")
			for _, want := range wants {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %q in:\n%s", name, want, out.String())
				}
			}
		}
	}
}

func TestTextOfReport(t *testing.T) {
	var latency Histogram
	latency.Record(38 * time.Millisecond)
	r := Report{
		Load: LoadShape{Senders: 1, Count: 100, SpacingMS: 1}, Hosts: []string{"http://a", "http://b"}, ChainID: big.NewInt(298),
		AcceptedTPS: 18.4, Latency: &latency, Lag: &Histogram{}, Planned: 100, Sent: 100, Accepted: 97, Refused: 1, Unanswered: 2,
		Errors: []ErrorClass{{-32000, "Nonce too high", 1}, {0, "no answer in time", 2}},
		Chain:  &Chain{Executed: 99, WrongNonce: 1, Notes: []string{"a note"}},
	}
	var out strings.Builder
	must.Do(t, r.Write(&out, false))
	for _, want := range []string{
		"1 sender × 100 transactions, spacing 1ms\n\nhttp://a+http://b (chain 298)\n", "accepted rate, tx/s        18.4\n", "latency p50, ms            38\n",
		"wrong nonce, tx            1\n", "\n  1 × -32000 Nonce too high\n  2 × no answer in time\n  a note\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(.5) != 0 || h.Max() != 0 {
		t.Error("an empty histogram has values")
	}
	for _, d := range []time.Duration{1000, -time.Second, 200, 300} {
		h.Record(d)
	}
	for q, want := range map[float64]time.Duration{0: 0, .25: 0, .26: 200, .5: 200, .51: 300, .99: 1000, 1: 1000} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	got, err := json.Marshal(&h)
	if want := `{"count":4,"p50_ms":0.0002,"p90_ms":0.001,"p99_ms":0.001,"max_ms":0.001}`; err != nil || string(got) != want {
		t.Errorf("JSON %s, %v; want %s", got, err, want)
	}
}

func TestSchedule(t *testing.T) {
	one, two := []string{"http://a"}, []string{"http://a", "http://b"}
	tests := map[string]struct {
		cfg  Config
		want []request
	}{
		"one sender": {
			cfg: Config{URLs: one, Senders: 1, Count: 3, Spacing: time.Millisecond},
			want: []request{
				{0, 0, 0, 0},
				{0, 0, time.Millisecond, 1},
				{0, 0, 2 * time.Millisecond, 2},
			},
		},
		"two senders are staggered, two URLs alternate": {
			cfg: Config{URLs: two, Senders: 2, Count: 2, Spacing: time.Millisecond},
			want: []request{
				{0, 0, 0, 0},
				{1, 1, time.Millisecond / 2, 2},
				{0, 1, time.Millisecond, 1},
				{1, 0, 3 * time.Millisecond / 2, 3},
			},
		},
		"sticky": {
			cfg:  Config{URLs: two, Senders: 2, Count: 2, Sticky: true},
			want: []request{{0, 0, 0, 0}, {1, 1, 0, 2}, {0, 0, 0, 1}, {1, 1, 0, 3}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := schedule(test.cfg.withDefaults())
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Errorf("schedule (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShuffle(t *testing.T) {
	cfg := Config{Senders: 2, Count: 25, ShuffleWindow: 10}.withDefaults()
	a, b := sendingOrder(cfg, 0), sendingOrder(cfg, 1)
	if diff := cmp.Diff(a, sendingOrder(cfg, 0)); diff != "" {
		t.Errorf("not reproducible:\n%s", diff)
	}
	if slices.IsSorted(a) {
		t.Error("not shuffled")
	}
	for i := range b {
		b[i] -= cfg.Count
	}
	if cmp.Equal(a, b) {
		t.Error("two senders have the same order")
	}
	for from := 0; from < len(a); from += 10 {
		window := slices.Sorted(slices.Values(a[from:min(from+10, len(a))]))
		for i, tx := range window {
			if tx != from+i {
				t.Fatalf("window at %d holds %v", from, window)
			}
		}
	}
	cfg.Seed = "another"
	if cmp.Equal(a, sendingOrder(cfg, 0)) {
		t.Error("the seed does not matter")
	}
}

func TestDeriveSenders(t *testing.T) {
	key := must.Get(crypto.GenerateKey())(t)
	other := must.Get(crypto.GenerateKey())(t)
	base := deriveSenders(key, "seed", 3)
	if base[0].addr != deriveSenders(key, "seed", 1)[0].addr {
		t.Error("not reproducible")
	}
	seen := map[string]bool{}
	for _, set := range [][]*sender{base, deriveSenders(nil, "seed", 3), deriveSenders(other, "seed", 3), deriveSenders(key, "seed2", 3)} {
		for _, s := range set {
			if seen[s.addr.Hex()] {
				t.Errorf("address %s twice", s.addr)
			}
			seen[s.addr.Hex()] = true
		}
	}
}

func TestInspect(t *testing.T) {
	// Two senders with nonces 5…8 and 0…3.
	txs := make([]transfer, 8)
	for i := range txs {
		txs[i] = transfer{sender: i / 4, nonce: uint64(i % 4)}
		if i < 4 {
			txs[i].nonce += 5
		}
	}
	ok := func(list ...int) (order []sighting) {
		for _, i := range list {
			order = append(order, sighting{tx: i})
		}
		return order
	}
	wrong := func(i int) sighting { return sighting{tx: i, wrongNonce: true} }
	tests := map[string]struct {
		order []sighting
		want  Chain
	}{
		"nothing":              {nil, Chain{}},
		"in order, mixed":      {ok(0, 4, 1, 5, 6, 2, 3, 7), Chain{}},
		"a gap is in order":    {ok(0, 3), Chain{}},
		"swapped":              {ok(0, 2, 1, 3), Chain{OutOfOrder: 1}},
		"reversed":             {ok(3, 2, 1, 0), Chain{OutOfOrder: 3}},
		"late first":           {ok(1, 2, 3, 0), Chain{OutOfOrder: 1}},
		"twice":                {ok(0, 1, 1, 2, 1), Chain{Duplicated: 2}},
		"repeat is not order":  {ok(0, 1, 2, 0), Chain{Duplicated: 1}},
		"other sender no harm": {ok(7, 0, 1), Chain{}},
		"refused, then again": {
			append([]sighting{wrong(1)}, ok(0, 1)...),
			Chain{OutOfOrder: 1, Duplicated: 1, WrongNonceAtConsensus: 1, WrongNonce: 1},
		},
		"done, then refused again": {
			append(ok(0, 1), wrong(1)),
			Chain{Duplicated: 1, WrongNonceAtConsensus: 1},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got Chain
			(&run{txs: txs}).inspect(&got, test.order)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// Reads are repeated when the target is busy, and only then.
func TestReadRetries(t *testing.T) {
	tests := map[string]struct {
		first string // answers before the good one; empty: HTTP 502
		times int64
		ok    bool
		calls int64
	}{
		"at once":         {times: 0, ok: true, calls: 1},
		"rate limit":      {first: `{"id":null,"error":{"code":-32605,"message":"limit"}}`, times: 2, ok: true, calls: 3},
		"gateway":         {times: 2, ok: true, calls: 3},
		"verdict":         {first: `{"id":null,"error":{"code":-32602,"message":"invalid"}}`, times: 9, ok: false, calls: 1},
		"no such method":  {first: `{"id":null,"error":{"code":-32601,"message":"no"}}`, times: 9, ok: false, calls: 1},
		"busy throughout": {first: `{"id":null,"error":{"code":-32603,"message":"busy"}}`, times: 99, ok: false, calls: readAttempts},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			url, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
				if n := calls.Add(1); n <= test.times {
					if test.first == "" {
						w.WriteHeader(http.StatusBadGateway)
					}
					_, _ = io.WriteString(w, test.first)
					return
				}
				echo(w, r)
			})
			c := newClient([]string{url})
			defer c.close()
			v, err := c.quantity(t.Context(), "eth_blockNumber")
			if (err == nil) != test.ok || calls.Load() != test.calls {
				t.Errorf("%v, error %v after %d calls, want %d", v, err, calls.Load(), test.calls)
			}
		})
	}
}

func TestRateLimited(t *testing.T) {
	for _, err := range []error{&rpcError{Code: -32605}, &rpcError{Code: -32005}, transportError{statusError(429)}} {
		if !rateLimited(err) {
			t.Errorf("%v is a rate limit", err)
		}
	}
	for _, err := range []error{nil, &rpcError{Code: -32000}, transportError{statusError(502)}} {
		if rateLimited(err) {
			t.Errorf("%v is no rate limit", err)
		}
	}
}

func TestSleepUntil(t *testing.T) {
	start := time.Now()
	sleepUntil(t.Context(), start.Add(5*time.Millisecond))
	if d := time.Since(start); d < 5*time.Millisecond {
		t.Errorf("woke after %v", d)
	}
	sleepUntil(t.Context(), start) // the past
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sleepUntil(ctx, start.Add(time.Hour))
}

func TestConsensusLogPaging(t *testing.T) {
	entry := func(seq, hash int) string {
		return fmt.Sprintf(`{"hash":"0x%064x","nonce":1,"status":"SUCCESS","sequence":%d}`, hash, seq)
	}
	list := func(entries ...string) string { return `{"entries":[` + strings.Join(entries, ",") + `]}` }
	tests := map[string]struct {
		pages map[string]string // by since; others are empty
		want  []int
		fails bool
		gap   bool
	}{
		"numbered":    {map[string]string{"0": list(entry(0, 1), entry(1, 2)), "2": list(entry(2, 3))}, []int{1, 2, 3}, false, false},
		"dropped":     {map[string]string{"0": list(entry(5, 1))}, []int{1}, false, true},
		"not a list":  {map[string]string{"0": `[]`}, nil, true, false},
		"broken":      {map[string]string{"0": `{"entries":[{"hash":"0x12"}]}`}, nil, true, false},
		"not found":   {map[string]string{"0": "404"}, nil, true, false},
		"nothing yet": {nil, nil, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			url, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
				page, ok := test.pages[r.URL.Query().Get("since")]
				if page == "404" || r.URL.Path != consensusPath {
					http.NotFound(w, r)
					return
				}
				if !ok {
					page = list()
				}
				_, _ = io.WriteString(w, page)
			})
			order := must.Get(newConsensusLog(url))(t)
			var got []int
			gap, err := order.follow(t.Context(), func(e logEntry) { got = append(got, int(e.Hash[31])) })
			order.http.CloseIdleConnections()
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != test.fails || gap != test.gap {
				t.Errorf("gap %v, error %v", gap, err)
			}
		})
	}
}
