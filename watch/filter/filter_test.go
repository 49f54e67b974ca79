package filter

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
	"lockstep/watch/decode"
)

func event(t testing.TB, text string) *decode.Signature {
	t.Helper()
	return must.Get(decode.Parse(text))(t)
}

func files(name string) (string, error) {
	if name == "treasury.txt" || name == "two words.txt" {
		return "# ours\n0x5fbdb2315678afecb367f032d93f642f64180aa3 # one\r\n\n0x70997970C51812dc3A010C7d01b50e0d17dc79C8, 0x0000000000000000000000000000000000000001\n", nil
	}
	return "", errors.New("there is no such file")
}

const everything = "E(address indexed from, address indexed to, uint256 amount, int256 change, int8 small, bool indexed paused, string note, bytes4 code, (uint256 amount, string note) order)"

var args = map[string]any{
	"from": "0x5FbDB2315678afecb367f032d93F642f64180aa3", "to": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
	"amount": "115792089237316195423570985008687907853269984665640564039457584007913129639935", "change": "-1000000000000000000001", "small": int64(-5),
	"paused": true, "note": `a "b"`, "code": "0x01020304", "order": map[string]any{"amount": "12", "note": "x"},
}

func TestMatch(t *testing.T) {
	for text, want := range map[string]bool{
		"amount == 115792089237316195423570985008687907853269984665640564039457584007913129639935": true,
		"amount == 115792089237316195423570985008687907853269984665640564039457584007913129639934": false,
		"amount > 115792089237316195423570985008687907853269984665640564039457584007913129639934":  true,
		"amount >= 1000e18":                                  true,
		"1000e18<=amount":                                    true,
		"change < -1000e18":                                  true,
		"change == -1_000_000_000_000_000_000_001":           true,
		"change > small":                                     false,
		"small >= -5 && small <= -5 && !(small < -5)":        true,
		"small in [1, -5]":                                   true,
		"small == 0xfb":                                      false,
		"from == 0x5fbdb2315678afecb367f032d93f642f64180aa3": true,
		"0x5FBDB2315678AFECB367F032D93F642F64180AA3 != from": false,
		"to in treasury.txt":                                 true,
		`(to in "two words.txt")&&from in treasury.txt`:      true,
		"!to in treasury.txt":                                false,
		"from == to":                                         false,
		"from != to || false":                                true,
		"paused":                                             true,
		"!paused || small > 0":                               false,
		"!!paused == true":                                   true,
		"paused != true":                                     false,
		`note == "a"`:                                        false,
		`note in ["", "x"]`:                                  false,
		"code == 0x01020304":                                 true,
		"code in [0x01020305, 0x0102]":                       false,
		`order.amount > 11.5e1 || order.note == "x"`:         true,
		"false && paused || true":                            true, // && before ||
		"paused || false && false":                           true,
		"amount == 1.5e1 || amount > 0 && (paused && (from != to))": true,
	} {
		e, err := Parse(text, files)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		f, err := e.Bind(event(t, everything))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.Match(args); got != want {
			t.Errorf("%s is %v", text, got)
		}
		if f.Match(nil) && !strings.Contains(text, "!") && !strings.Contains(text, "true") {
			t.Errorf("%s is met by nothing", text)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "column 1: it ends where a value is wanted",
		"amount >=":                    "column 10: it ends where a value is wanted",
		"amount >= 10 20":              `column 14: "20" is not expected here`,
		"amount = 5":                   "column 8: want == to compare",
		"amount":                       "column 1: amount is of type uint256 and no condition by itself: compare it with something",
		"5":                            "column 1: a value is no condition by itself",
		"5 == 5":                       "column 3: two values are compared: want the name of an argument on one side",
		"nobody == 5":                  "column 1: E(address,address,uint256,int256,int8,bool,string,bytes4,(uint256,string)) has no argument nobody",
		"order == 5":                   "column 1: order is of type (uint256,string), which is not compared",
		"order.nobody == 5":            "column 1: E(address,address,uint256,int256,int8,bool,string,bytes4,(uint256,string)) has no argument order.nobody",
		"amount > 1.5":                 `column 10: "1.5" cannot be compared with uint256: want a whole number`,
		"amount > 1e999":               `column 10: "1e999" cannot be compared with uint256: want a whole number`,
		`amount > "5"`:                 `column 10: "5" cannot be compared with uint256: want a whole number`,
		"amount > 12ab":                `column 10: "12ab" is not a number`,
		"amount > from":                "column 8: amount is of type uint256 and from of type address: they are not compared",
		"from > 0x01":                  "column 6: from is of type address, which is only compared with == and !=",
		"from == 0x01":                 `column 9: "0x01" is not an address: want 0x and 40 digits`,
		"note == x":                    "column 9: E(address,address,uint256,int256,int8,bool,string,bytes4,(uint256,string)) has no argument x",
		`note == "x`:                   "column 9: the text does not end",
		"ä == 5":                       `column 1: want the name of an argument or a value, not "ä == 5"`,
		`note == "ä" && x`:             "column 16: E(address,address,uint256,int256,int8,bool,string,bytes4,(uint256,string)) has no argument x",
		"to in nowhere.txt":            "column 7: there is no such file",
		"to in":                        "column 6: want a list in brackets, or a file",
		"to in [0x01":                  "column 12: want a comma or ] in the list",
		"small in treasury.txt":        "", // addresses are numbers, too
		"note in treasury.txt":         `column 9: "0x5fbdb2315678afecb367f032d93f642f64180aa3" cannot be compared with string: want a text in quotes`,
		"(paused":                      "column 8: a closing parenthesis is missing",
		strings.Repeat("!", 50):        "column 34: it nests deeper than 32",
		strings.Repeat("(", 50):        "column 34: it nests deeper than 32",
		strings.Repeat("a", maxText+1): "column 1: a condition is a text of at most 4096 bytes",
		"small in [" + strings.Repeat("1,", 40) + "1": "column 92: want a comma or ] in the list",
	} {
		e, err := Parse(text, files)
		if err == nil {
			_, err = e.Bind(event(t, everything))
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60s:\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestTopics: what a node is asked for has at least all that meets the condition.
func TestTopics(t *testing.T) {
	ours := []string{"0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "0x5FbDB2315678afecb367f032d93F642f64180aa3", "0x0000000000000000000000000000000000000001"}
	for text, want := range map[string]map[int]int{
		"to in treasury.txt": {2: 3},
		"to in treasury.txt && from == " + ours[0] + " && amount > 1": {1: 1, 2: 3},
		"to == " + ours[0] + " || to == " + ours[1]:                   {2: 2},
		"to in treasury.txt && to == " + ours[1]:                      {2: 1},
		"to in treasury.txt || amount > 5":                            {},
		"!(to in treasury.txt)":                                       {},
		"to != " + ours[0]:                                            {},
		"paused":                                                      {3: 1},
		"(to in treasury.txt && paused) || (to == " + ours[2] + " && from == to)": {2: 3},
		"order.amount == 5 && note == \"x\"":                                      {},
	} {
		e := must.Get(Parse(text, files))(t)
		f := must.Get(e.Bind(event(t, everything)))(t)
		got := map[int]int{}
		for place, topics := range f.Topics() {
			got[place] = len(topics)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for signature, c := range map[string]struct {
		text string
		want map[int][]common.Hash
	}{
		"F(int8 indexed n)":                     {"n == -1", map[int][]common.Hash{1: {common.HexToHash("0x" + strings.Repeat("f", 64))}}},
		"F(bytes2 indexed n)":                   {"n == 0x0102", map[int][]common.Hash{1: {common.HexToHash("0x0102" + strings.Repeat("0", 60))}}},
		"F(string indexed n)":                   {`n == "hello"`, map[int][]common.Hash{1: {common.HexToHash("0x1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8")}}},
		"F(uint8 indexed m, uint8 n) anonymous": {"m in [7, 7]", map[int][]common.Hash{0: {{31: 7}}}},
		"F(uint8 n)":                            {"n == 7", map[int][]common.Hash{}},
	} {
		e := must.Get(Parse(c.text, files))(t)
		f := must.Get(e.Bind(event(t, signature)))(t)
		if diff := cmp.Diff(c.want, f.Topics()); diff != "" {
			t.Errorf("%s: %s", signature, diff)
		}
	}
}

// TestTextFollowsItsLists: another file is another condition.
func TestTextFollowsItsLists(t *testing.T) {
	said := func(content string) string {
		e := must.Get(Parse("to  in\ta.txt", func(string) (string, error) { return content, nil }))(t)
		return e.String()
	}
	if a, b := said("0x01"), said("0x02"); a == b || a != said("0x01") || !strings.HasPrefix(a, "to in a.txt ") {
		t.Errorf("%q, %q", a, b)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"amount >= 1000e18 && (to in treasury.txt || !paused)", `note in ["a", "b"]`, "small == -0x5", "1e999999 < amount", "order.amount != from"} {
		f.Add(text)
	}
	signature := event(f, everything)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text, files)
		var mistake *Error
		if err == nil {
			var bound *Filter
			if bound, err = e.Bind(signature); err == nil {
				bound.Match(args)
				again, err := Parse(strings.Join(strings.Fields(text), " "), files)
				if err == nil && again.String() != e.String() && !strings.Contains(text, `"`) {
					t.Errorf("%q and %q", again, e)
				}
			}
		}
		if err != nil && (!errors.As(err, &mistake) || mistake.Column < 1 || mistake.Column > len(slices.Collect(strings.SplitSeq(text, "")))+1) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
