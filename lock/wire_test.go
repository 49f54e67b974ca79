package lock

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
)

func text(r lockValue) string {
	expected, base, sure, last := r.chain.fields()
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return strings.Join([]string{r.session, r.instance, number(r.fence), expected, base, sure, last}, "|")
}

func TestParseRecord(t *testing.T) {
	full := lockValue{session: "s", instance: "p.1", fence: 99, chain: chain{
		expected: 7, known: true, sure: true, base: 12, last: Submission{Node: "0.0.3", TxID: "0.0.2@1.5", Open: true}, lastFence: 98,
	}}
	for _, tc := range []struct {
		text string
		want lockValue
		bad  bool
	}{
		{text: "", want: lockValue{}},
		{text: "s|p.1|99|7|12|1|98|0.0.3|0.0.2@1.5", want: full},
		{text: "s|p.1|99||||||", want: lockValue{session: "s", instance: "p.1", fence: 99}},
		{text: "s|p.1|99|||1|||", want: lockValue{session: "s", instance: "p.1", fence: 99}}, // sure of nothing
		{text: "s|p.1|99", bad: true},
		{text: "|p.1|99||||||", bad: true},
		{text: "s||99||||||", bad: true},
		{text: "s|p.1|-99||||||", bad: true},
		{text: "s|p.1|99|1e3|||||", bad: true},
		{text: "s|p.1|18446744073709551616||||||", bad: true},
		{text: strings.Repeat("s", 300) + "|p.1|99||||||", bad: true},
	} {
		got, err := parseLockValue(tc.text)
		if (err != nil) != tc.bad {
			t.Errorf("%q: %v", tc.text, err)
		}
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(lockValue{}, chain{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
}

func TestNamesThatBreakTheFormatAreDropped(t *testing.T) {
	k := chain{expected: 5, known: true, base: 1, lastFence: 3, last: Submission{Node: "a|b", TxID: "x"}}
	if expected, _, _, last := k.fields(); expected != "5" || last != "||" {
		t.Errorf("got %q %q", expected, last)
	}
}

func TestKeys(t *testing.T) {
	a := common.HexToAddress("0xA11CE00000000000000000000000000000000001")
	want := []string{
		"lock:{0xa11ce00000000000000000000000000000000001}", "lock:queue:{0xa11ce00000000000000000000000000000000001}",
		"lock:memory:{0xa11ce00000000000000000000000000000000001}",
	}
	if diff := cmp.Diff(want, keys(a)); diff != "" {
		t.Error(diff)
	}
	if got, err := parseKey(keys(a)[0]); err != nil || got != a {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add("")
	f.Add("s|p.1|99|7|12|1|98|0.0.3|0.0.2@1.5")
	f.Add("s|p.1|99||||||")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseLockValue(s)
		if err != nil || r.session == "" {
			return
		}
		again, err := parseLockValue(text(r))
		if err != nil {
			t.Fatalf("%q: its own text %q is refused: %v", s, text(r), err)
		}
		// What breaks the format is dropped when it is written; nothing else changes.
		if !plain(r.chain.last.Node) || !plain(r.chain.last.TxID) {
			r.chain.last, r.chain.lastFence = Submission{}, 0
		}
		if !r.chain.known {
			r.chain.base, r.chain.sure = 0, false
		}
		if diff := cmp.Diff(r, again, cmp.AllowUnexported(lockValue{}, chain{})); diff != "" {
			t.Fatalf("%q (-first +again):\n%s", s, diff)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add("s|p.1|99||||||", "5", int64(-1), int64(0))
	f.Add("", "x", int64(1<<62), int64(-1<<62))
	f.Fuzz(func(t *testing.T, owner, left string, wait, rejoined int64) {
		v, err := parseView([]any{owner, left, wait, rejoined, int64(0)})
		if err != nil {
			return
		}
		if v.left > 24*time.Hour || v.wait > 24*time.Hour {
			t.Fatalf("a server's claim of %v, %v is believed", v.left, v.wait)
		}
	})
}

func FuzzAdvert(f *testing.F) {
	f.Add("1700000000000 enabled=true")
	f.Fuzz(func(t *testing.T, s string) {
		if at, settings, ok := parseAdvert(s); ok && (at <= 0 || len(settings) > 4096) {
			t.Fatalf("%q: %d, %d bytes", s, at, len(settings))
		}
	})
}
