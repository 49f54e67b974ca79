package lock

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// holder is a holder of the policy's tables, by the words of the table at decide.
type holder struct {
	chain chain
	facts facts
}

// rows are holders that stand as the rows of the table say, and the columns are how their lanes go on.
func holderOf(t *testing.T, row string, m mode) holder {
	t.Helper()
	no, none := func(uint64) bool { return false }, func(uint64) *Submitted { return nil }
	h := holder{facts: facts{nonce: 5, known: Known{Shown: 5, Looked: true, Fresh: true, Fleet: true}, recovery: true, waitsLate: time.Second, memory: time.Minute, waits: no, judge: no, sent: none}}
	h.chain.observe(5)
	h.chain.mode = m
	switch row {
	case "too low":
		h.facts.nonce = 4
	case "next":
	case "next, its predecessor is open":
		h.chain.last, h.chain.lastFence = Submission{Open: true}, 1
	case "ahead, predecessor is here":
		h.facts.nonce, h.facts.waits = 7, func(next uint64) bool { return next == 5 }
	case "ahead, in its window":
		h.facts.nonce, h.facts.inWindow = 7, true
	case "ahead, after others here":
		h.facts.nonce, h.facts.followed, h.facts.follows = 7, true, true
	case "ahead, chain is sure":
		h.facts.nonce, h.facts.followed, h.facts.late = 7, true, true
		h.chain.sure = m == flowing
	case "ahead, it came alone, and the missing one was answered":
		h.facts.nonce, h.facts.holeReported = 7, true
	case "ahead, the network refused one ahead":
		h.facts.nonce, h.facts.followed, h.facts.late, h.facts.gapFor = 7, true, true, time.Second
		if m == flowing {
			h.chain.gap = certain
		}
	case "ahead, while it judges one":
		h.facts.nonce, h.facts.judge = 7, func(next uint64) bool { return next == 5 }
	case "ahead, nothing is sure":
		h.facts.nonce = 7
	default:
		t.Fatalf("no such row: %q", row)
	}
	return h
}

// The table at decide is what the policy does.
func TestPolicyIsAsDocumented(t *testing.T) {
	t.Parallel()
	rows := table(t, "policy.go", "holder's nonce is")
	flows, recovers := strings.Index(rows[0], "flowing"), strings.Index(rows[0], "recovering")
	names := map[string]Step{"Go": Go, "Await": Await, "GiveWay": GiveWay, "Early": Early, "PutBack": PutBack, "Refuse": Refuse}
	for _, row := range rows[1:] {
		name := strings.TrimSpace(row[:flows])
		for m, text := range map[mode]string{flowing: row[flows:recovers], recovering: row[recovers:]} {
			word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
			want, known := names[strings.TrimRight(word, ":;,")]
			if !known {
				t.Fatalf("no step %q", word)
			}
			h := holderOf(t, name, m)
			if got := decide(h.chain, h.facts); got.Step != want {
				t.Errorf("%q, mode %d: step %d, want %s", name, m, got.Step, word)
			}
		}
	}
}

// What is known counts until something newer is known of the same nonce.
func TestAGapIsOfOneNonce(t *testing.T) {
	t.Parallel()
	ahead := Next{ahead: true}
	k := chain{}
	if k.observe(0); k.accepted(3, 7, Submission{}, ahead) || k.gap != tried {
		t.Errorf("one went ahead: %+v", k)
	}
	for name, change := range map[string]func(*chain){
		"another is next":    func(k *chain) { k.observe(2) },
		"the lane recovers":  func(k *chain) { k.recover() },
		"what is next comes": func(k *chain) { k.accepted(0, 8, Submission{}, Next{isNext: true}) },
	} {
		k := k
		if !k.tooHigh(3, 0) || k.gap != certain {
			t.Errorf("it was refused: %+v", k)
		}
		if change(&k); k.gap != notTried || k.tooHigh(3, 0) {
			t.Errorf("%s: %+v", name, k)
		}
	}
	var other chain
	other.observe(0)
	k.tooHigh(3, 0)
	if other.inherit(k); other.gap != certain {
		t.Errorf("another turn forgets it: %+v", other)
	}
}

// Those who follow what no node took hear why, until a node takes something again.
func TestFailureExplains(t *testing.T) {
	t.Parallel()
	f := failure{first: 3, last: 3, cause: errors.New("no node"), at: 1}
	for _, c := range []struct {
		entered time.Duration
		missing uint64
		over    time.Duration
		told    bool
	}{{1, 3, 0, true}, {1, 2, 0, false}, {1, 4, 0, true}, {9, 3, 5, false}, {1, 3, 5, true}} {
		if f.over = c.over; (f.explain(4, c.entered, c.missing) != nil) != c.told {
			t.Errorf("%+v", c)
		}
	}
}
