package bench

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

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
