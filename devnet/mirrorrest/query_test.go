package mirrorrest

import (
	"errors"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

var testParams = params{"timestamp": isTime, "block.number": isBlockNumber, "hbar": isFlag}

func TestParseQuery(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		want      []string // problem messages; none: accepted
	}{
		{"nothing", "", nil},
		{"every operator", "timestamp=eq:1&timestamp=ne:1&timestamp=gt:1&timestamp=gte:1&timestamp=lt:1&timestamp=lte:1", nil},
		{"escaped colon", "timestamp=gte%3A1.000000001", nil},
		{"names in any case", "TimeStamp=1&LIMIT=2&Order=ASC", nil},
		{"stray separators", "&timestamp=1&&", nil},
		{"unknown parameter", "foo=1", []string{"Unknown query parameter: foo"}},
		{"several faults", "foo=1&timestamp=x&limit=0", []string{
			"Unknown query parameter: foo", "Invalid parameter: timestamp", "Invalid parameter: limit",
		}},
		{"empty value", "timestamp=", []string{"Invalid parameter: timestamp"}},
		{"no value", "timestamp", []string{"Invalid parameter: timestamp"}},
		{"empty value behind an operator", "timestamp=gte:", []string{"Invalid parameter: timestamp"}},
		{"unknown operator", "timestamp=at:1", []string{"Invalid parameter: timestamp"}},
		{"two operators", "timestamp=gt:lt:1", []string{"Invalid parameter: timestamp"}},
		{"ten decimals", "timestamp=1.0000000001", []string{"Invalid parameter: timestamp"}},
		{"eleven digits", "timestamp=12345678901", []string{"Invalid parameter: timestamp"}},
		{"signed", "timestamp=+1", []string{"Invalid parameter: timestamp"}},
		{"broken escape", "timestamp=%zz", []string{"Invalid parameter: timestamp"}},
		{"ne on a block number", "block.number=ne:1", []string{"Invalid parameter: block.number"}},
		{"hex block number", "block.number=gte:0x1f", nil},
		{"negative block number", "block.number=-1", []string{"Invalid parameter: block.number"}},
		{"flag with an operator", "hbar=gt:true", []string{"Invalid parameter: hbar"}},
		{"flag in capitals", "hbar=FALSE", nil},
		{"flag that is none", "hbar=maybe", []string{"Invalid parameter: hbar"}},
		{"limit zero", "limit=0", []string{"Invalid parameter: limit"}},
		{"limit not a number", "limit=ten", []string{"Invalid parameter: limit"}},
		{"unknown order", "order=up", []string{"Invalid parameter: order"}},
		{"a hundred times", strings.Repeat("timestamp=1&", 100), nil},
		{"once more", strings.Repeat("timestamp=1&", 101), []string{
			"Parameter values count exceeds maximum number allowed: timestamp count: 101 max: 100",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseQuery(test.raw, testParams, ascending)
			var got []string
			if p, ok := errors.AsType[*problem](err); ok {
				for _, m := range p.messages {
					got = append(got, m.Message)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitAndOrder(t *testing.T) {
	for _, test := range []struct {
		raw   string
		by    listing
		limit int
		desc  bool
	}{
		{"", ascending, 25, false},
		{"", descending, 25, true},
		{"limit=1&order=desc", ascending, 1, true},
		{"limit=100", ascending, 100, false},
		{"limit=101", ascending, 100, false},
		{"limit=9223372036854775807", ascending, 100, false},
		{"limit=3&limit=4", ascending, 4, false},
		{"order=ASC", descending, 25, false},
	} {
		q, err := parseQuery(test.raw, nil, test.by)
		if err != nil {
			t.Errorf("%q: %v", test.raw, err)
			continue
		}
		if q.limit != test.limit || q.desc != test.desc {
			t.Errorf("%q: limit %d, descending %t; want %d, %t", test.raw, q.limit, q.desc, test.limit, test.desc)
		}
	}
	if _, err := parseQuery("limit=1", nil, single); err == nil {
		t.Error("an endpoint without paging took a limit")
	}
}

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		raw     string
		allowed []int64
	}{
		{"", []int64{0, 1, 2, 3, 4, 5}},
		{"n=2", []int64{2}},
		{"n=2&n=4", []int64{2, 4}},
		{"n=gt:2", []int64{3, 4, 5}},
		{"n=gte:2&n=lt:4", []int64{2, 3}},
		{"n=gte:2&n=gt:3", []int64{4, 5}},
		{"n=ne:2&n=lte:3", []int64{0, 1, 3}},
		{"n=2&n=4&n=gt:2", []int64{4}},
		{"n=gt:4&n=lt:2", nil},
		{"n=gt:9223372036854775807", nil},
		{"n=lt:0", nil},
	} {
		q := must.Get(parseQuery(test.raw, params{"n": isCount}, ascending))(t)
		b := q.bounds("n", parseCount)
		var got []int64
		low, high := b.span()
		for v := range int64(6) {
			if b.allows(v) {
				got = append(got, v)
				if v < low || v > high {
					t.Errorf("%q allows %d outside its span %d to %d", test.raw, v, low, high)
				}
			}
		}
		if diff := cmp.Diff(test.allowed, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.raw, diff)
		}
	}
}

func TestNextLink(t *testing.T) {
	for _, test := range []struct {
		raw     string
		cursors []cursor
		want    string
	}{
		{"limit=2&order=asc", []cursor{{name: "n", value: "7"}}, "/p?limit=2&order=asc&n=gt:7"},
		{"limit=2&order=desc", []cursor{{name: "n", value: "7"}}, "/p?limit=2&order=desc&n=lt:7"},
		{"order=asc&n=gte:1&n=lte:9", []cursor{{name: "n", value: "7"}}, "/p?order=asc&n=lte:9&n=gt:7"},
		{"order=desc&n=gte:1&n=lte:9", []cursor{{name: "n", value: "7"}}, "/p?order=desc&n=gte:1&n=lt:7"},
		{"n=3&n=7&n=9", []cursor{{name: "n", value: "7"}}, "/p?n=3&n=7&n=9&n=gt:7"},
		{"n=gt:1&m=0x1", []cursor{{name: "n", value: "7", inclusive: true}, {name: "m", value: "2"}}, "/p?m=0x1&n=gte:7&m=gt:2"},
		{"m=a%26b", []cursor{{name: "n", value: "7"}}, "/p?m=a%26b&n=gt:7"},
	} {
		anything := func(operator, string) bool { return true }
		q := must.Get(parseQuery(test.raw, params{"n": anything, "m": anything}, ascending))(t)
		if got := *q.next("/p", test.cursors).Next; got != test.want {
			t.Errorf("after %q: %s, want %s", test.raw, got, test.want)
		}
	}
}

func TestParseNanos(t *testing.T) {
	for text, want := range map[string]int64{
		"0":                    0,
		"1":                    1_000_000_000,
		"1.5":                  1_500_000_000,
		"1767225600.000000001": 1_767_225_600_000_000_001,
		"9999999999.999999999": math.MaxInt64,
	} {
		if got, ok := parseNanos(text); !ok || got != want {
			t.Errorf("%s: %d, %t; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", ".", "1.", ".1", "-1", "1e9", "0x1", "1.2.3", " 1", "1.1234567890"} {
		if got, ok := parseNanos(text); ok {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestParseEntity(t *testing.T) {
	for text, want := range map[string]int64{
		"5": 5, "0.5": 5, "0.0.5": 5, "0.0.9223372036854775807": math.MaxInt64, "1.0.5": absent, "0.2.5": absent,
	} {
		if got, ok := parseEntity(text); !ok || got != want {
			t.Errorf("%s: %d, %t; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", ".", "0.0.", "0.0.0.1", "-1", "0.0.+1", "0x1", "0.0.9223372036854775808"} {
		if _, ok := parseEntity(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}

func TestParseAddress(t *testing.T) {
	const hex = "00000000000000000000000000000000000003EA"
	for _, text := range []string{hex, "0x" + hex, "0X" + hex, "0.0." + hex, "0." + hex} {
		if a, ok := parseAddress(text); !ok || a[19] != 0xea {
			t.Errorf("%s: %s, %t", text, a, ok)
		}
	}
	for _, text := range []string{"", hex[1:], hex + "00", "x.y." + hex, "0x" + hex[2:] + "zz"} {
		if _, ok := parseAddress(text); ok {
			t.Errorf("%q was read", text)
		}
	}
}

// Whatever a client sends as a query string is either refused or gives a query
// whose bounds and link can be computed, and the link is accepted in its turn.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{
		"", "limit=2&order=desc", "timestamp=gte:1.5&timestamp=lt:2", "block.number=0x10&hbar=false",
		"TIMESTAMP=eq%3a1", "&&=&%", "foo=bar", "topic0=0x0", "timestamp=lt:0&order=desc",
	} {
		f.Add(seed)
	}
	accepted := params{
		"timestamp": isTime, "block.number": isBlockNumber, "hbar": isFlag, "account.id": isParty,
		"topic0": isTopic, "slot": isSlot, "block.hash": isHash, "account.publickey": isPublicKey,
		"transactiontype": isTransactionType,
	}
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseQuery(raw, accepted, ascending)
		if err != nil {
			if p := (*problem)(nil); !errors.As(err, &p) || p.status != 400 {
				t.Fatalf("not a problem: %v", err)
			}
			return
		}
		if q.limit < 1 || q.limit > maxLimit {
			t.Fatalf("limit %d", q.limit)
		}
		times := q.timestamps()
		if low, high := times.span(); times.allows(low) && high < low {
			t.Fatalf("allows %d outside its span %d to %d", low, low, high)
		}
		newSlotFilter(q)
		if _, err := newLogFilter(q); err != nil {
			return
		}
		link := *q.next("/p", []cursor{{name: "timestamp", value: "1.000000000"}}).Next
		u, err := url.Parse(link)
		if err != nil {
			t.Fatalf("link %q: %v", link, err)
		}
		again, err := parseQuery(u.RawQuery, accepted, ascending)
		if p, ok := errors.AsType[*problem](err); ok {
			if strings.HasPrefix(p.messages[0].Message, "Parameter values count") {
				return // it already had as many as are allowed
			}
			t.Fatalf("link %q is refused: %v", link, err)
		}
		if again.limit != q.limit || again.desc != q.desc {
			t.Fatalf("link %q changes the page", link)
		}
	})
}
