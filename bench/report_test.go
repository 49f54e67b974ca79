package bench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

func runWith(tps float64, latency time.Duration, partial bool) RunReport {
	var h Histogram
	if latency > 0 {
		h.Record(latency)
	}
	return RunReport{AcceptedTPS: tps, AnsweredTPS: tps, Latency: &h, RefusalLatency: &Histogram{}, Lag: &Histogram{}, Partial: partial}
}

func TestSpread(t *testing.T) {
	tests := []struct {
		in   []float64
		want [3]float64
	}{
		{nil, [3]float64{0, 0, 0}},
		{[]float64{5}, [3]float64{5, 5, 5}},
		{[]float64{9, 1, 4}, [3]float64{4, 1, 9}},
		{[]float64{4, 1, 9, 2}, [3]float64{3, 1, 9}},
	}
	for _, test := range tests {
		m, low, high := spread(test.in)
		if diff := cmp.Diff(test.want, [3]float64{m, low, high}); diff != "" {
			t.Errorf("spread(%v) (-want +got):\n%s", test.in, diff)
		}
	}
}

// Ratios are made pair by pair and leave out pairs that have nothing to divide.
func TestCompareRatios(t *testing.T) {
	ms := time.Millisecond
	a := []RunReport{runWith(100, 10*ms, false), runWith(300, 10*ms, false), runWith(80, 0, false), runWith(7, ms, true), runWith(1, ms, false)}
	b := []RunReport{runWith(50, 20*ms, false), runWith(100, 40*ms, false), runWith(0, 5*ms, false), runWith(7, ms, false)}
	got := map[string]Ratio{}
	for _, r := range compare(a, b) {
		got[r.Name] = r
	}
	want := map[string]Ratio{
		"accepted rate": {Name: "accepted rate", Better: "higher", Pairs: 2, Median: 2.5, Min: 2, Max: 3},
		"latency p50":   {Name: "latency p50", Better: "lower", Pairs: 2, Median: .375, Min: .25, Max: .5},
		"executed":      {Name: "executed", Better: "higher"}, // no chain state
	}
	for name, ratio := range want {
		if diff := cmp.Diff(ratio, got[name], cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) < 1e-9 })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, present := got["offered rate"]; present {
		t.Error("a ratio of what the generator offered")
	}
}

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

func TestTallyIsBounded(t *testing.T) {
	tally := newTally(make([]transfer, 1), nil)
	for i := range 10 * maxClasses {
		tally.count(classKey{code: i}, 1)
	}
	classes := tally.errorClasses()
	if len(classes) != maxClasses+1 || classes[0].Message != "other errors" || classes[0].Count != 9*maxClasses {
		t.Errorf("%d classes, first %+v", len(classes), classes[0])
	}
}

// Whatever a target answers, every transaction of the request gets exactly one verdict.
func TestDeliver(t *testing.T) {
	hash := func(i int) string { return `"` + common.Hash{byte(i)}.Hex() + `"` }
	tests := map[string]struct {
		body string
		err  error
		want []verdict
	}{
		"accepted":           {`[{"id":1,"result":` + hash(1) + `},{"id":2,"result":` + hash(2) + `}]`, nil, []verdict{accepted, accepted}},
		"other order":        {`[{"id":2,"result":` + hash(2) + `},{"id":1,"result":` + hash(1) + `}]`, nil, []verdict{accepted, accepted}},
		"one refused":        {`[{"id":1,"result":` + hash(1) + `},{"id":2,"error":{"code":-32000,"message":"no"}}]`, nil, []verdict{accepted, refused}},
		"one missing":        {`[{"id":2,"result":` + hash(2) + `}]`, nil, []verdict{garbled, accepted}},
		"twice":              {`[{"id":1,"result":` + hash(1) + `},{"id":1,"error":{"code":1,"message":""}}]`, nil, []verdict{accepted, garbled}},
		"refused as a whole": {`{"id":null,"error":{"code":-32600,"message":"too many"}}`, nil, []verdict{refused, refused}},
		"hashes swapped":     {`[{"id":1,"result":` + hash(2) + `},{"id":2,"result":` + hash(1) + `}]`, nil, []verdict{garbled, garbled}},
		"no hash":            {`[{"id":1,"result":null},{"id":2,"result":7}]`, nil, []verdict{garbled, garbled}},
		"foreign ids":        {`[{"id":"1","result":` + hash(1) + `},{"id":9,"result":` + hash(2) + `}]`, nil, []verdict{garbled, garbled}},
		"empty batch":        {`[]`, nil, []verdict{garbled, garbled}},
		"transport":          {``, errTimeout, []verdict{garbled, garbled}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			txs := []transfer{{hash: common.Hash{1}, verdict: unanswered}, {hash: common.Hash{2}, verdict: unanswered}}
			tally := newTally(txs, nil)
			r := reply{at: time.Now(), err: test.err}
			if test.err == nil {
				var err error
				if r.messages, err = parseReply([]byte(test.body)); err != nil {
					t.Fatal(err)
				}
			}
			tally.deliver(&exchange{start: time.Now()}, []int{0, 1}, r)
			if diff := cmp.Diff(test.want, []verdict{txs[0].verdict, txs[1].verdict}); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
			bad := 0
			for _, c := range tally.errorClasses() {
				bad += c.Count
			}
			if good := int(tally.accepted.Count()); good+bad != 2 {
				t.Errorf("%d accepted and %d errors for two transactions", good, bad)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	good := Config{Target: Target{URLs: []string{"https://host/key"}}}
	if err := good.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	bad := Config{
		Target:  Target{URLs: []string{"ftp://secret@host", "::secret", "http://"}, ConsensusLog: "ws://host"},
		Compare: &Target{},
		Senders: -1, Count: -1, Batch: 1001, Runs: 1001, Connections: -1, Timeout: -1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"rpc: URL 1: want one of", "rpc: URL 2: not a URL", "rpc: URL 3: no host", "consensus log: want one of",
		"compare: no URL", "senders:", "count:", "batch:", "runs:", "connections:", "a duration is negative",
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
	if err := huge.Validate(); err == nil || !strings.Contains(err.Error(), "in memory") {
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

func TestProgress(t *testing.T) {
	if newProgress(nil) != nil {
		t.Error("a progress without a writer")
	}
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	defer func() { _ = file.Close() }()
	plain := newProgress(file) // no bar in a file, but notes
	plain.begin("send", 1)
	plain.add(1)
	plain.note("waiting for %d", 3)
	plain.end()
	if written, err := os.ReadFile(file.Name()); err != nil || string(written) != "waiting for 3\n" {
		t.Errorf("the file has %q, %v", written, err)
	}
	var none *progress // must not draw, nor fail
	none.run("a")
	none.begin("send", 1)
	none.add(1)
	none.note("")
	none.end()

	var out strings.Builder
	p := &progress{w: &out, terminal: true}
	p.run("relay run 1/2")
	p.begin("send", 4)
	p.mu.Lock()
	p.drawn = time.Time{}
	p.mu.Unlock()
	p.add(2)
	p.end()
	want := "relay run 1/2 send   [###############...............] 2/4"
	if !strings.Contains(out.String(), want) || !strings.HasSuffix(out.String(), clearLineCode) {
		t.Errorf("drawn %q", out.String())
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
			[]string{"out of order, tx – – –", "wrong nonce at consensus – – –", "lost, tx 0 0 0"},
			[]string{`"out_of_order": null`, `"wrong_nonce_at_consensus": null`, `"lost": 0`},
		},
		"from receipts of refused ones": {
			Chain{OrderFrom: fromReceipts, OutOfOrder: 2, WrongNonceAtConsensus: 3},
			[]string{"out of order, tx 2 2 2", "wrong nonce at consensus 3 3 3"},
			[]string{`"out_of_order": 2`, `"wrong_nonce_at_consensus": 3`},
		},
		"from a log": {
			Chain{OrderFrom: fromLog},
			[]string{"out of order, tx 0 0 0", "wrong nonce at consensus 0 0 0"},
			[]string{`"out_of_order": 0`, `"wrong_nonce_at_consensus": 0`},
		},
	} {
		run := runWith(1, time.Millisecond, false)
		run.Chain = &c.chain
		partial := run
		partial.Partial = true
		runs := []RunReport{run, partial}
		r := Report{Targets: []TargetReport{{Name: "relay", Runs: runs, Summary: summarise(runs)}}}
		for asJSON, wants := range map[bool][]string{false: c.text, true: c.json} {
			var out strings.Builder
			must.Do(t, r.Write(&out, asJSON))
			text := out.String()
			if !asJSON {
				text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' }), " ")
			}
			for _, want := range wants {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %q in:\n%s", name, want, out.String())
				}
			}
			if dash := strings.Contains(text, "PARTIAL: 0 executed, – out of order"); !asJSON && dash != (name == "from receipts") {
				t.Errorf("%s: the partial run:\n%s", name, text)
			}
		}
	}
}

func TestTextOfReport(t *testing.T) {
	run := runWith(18.4, 38*time.Millisecond, false)
	run.Planned, run.Sent, run.Accepted, run.Refused = 100, 100, 99, 1
	run.Errors = []ErrorClass{{-32000, "Nonce too high", 1}, {0, "no answer in time", 2}}
	run.Chain = &Chain{Executed: 99, WrongNonce: 1, Notes: []string{"a note"}}
	r := Report{Load: LoadShape{Senders: 1, Count: 100, SpacingMS: 1, Batch: 1, Runs: 1}, Targets: []TargetReport{
		{Name: "relay", Runs: []RunReport{run}, Summary: summarise([]RunReport{run})},
	}}
	var out strings.Builder
	must.Do(t, r.Write(&out, false))
	for _, want := range []string{
		"1 sender × 100 transactions, spacing 1ms", "over 1 run ", "accepted rate, tx/s  ", "18.4", "latency p50, ms ", "38 ",
		"wrong nonce, tx ", "run 1: 1 × -32000 Nonce too high", "run 1: 2 × no answer in time", "run 1: a note",
		"  ≤     67.1 ms       1 ##############################\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	out.Reset()
	if err := r.Write(&out, true); err != nil || !json.Valid([]byte(out.String())) {
		t.Errorf("JSON: %v", err)
	}
}
