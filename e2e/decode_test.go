package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
	"lockstep/watch/decode"
)

// librariesReading is what the libraries make of a log.
type librariesReading struct {
	Ethers any `json:"ethers"`
	Viem   any `json:"viem"`
}

// TestOddLogs has ethers and viem read data that no compiler would write today. The watchers read what one of the two reads, the same way, and
// nothing that both refuse.
func TestOddLogs(t *testing.T) {
	t.Parallel()
	word := func(hex string) string { return strings.Repeat("0", 64-len(hex)) + hex }
	words := func(hex ...string) (all string) {
		for _, w := range hex {
			all += word(w)
		}
		return all
	}
	left := func(hex string) string { return hex + strings.Repeat("0", 64-len(hex)) } // the padding of texts and bytes
	dirty := strings.Repeat("fe", 32)
	rows := []struct{ name, event, data, ethers, viem, watch string }{
		{"bytes behind the end", "E(uint8)", words("7") + "0102", `["7"]`, `["7"]`, `["7"]`},
		{"words behind the end", "E(uint8)", words("7", "1", "2"), `["7"]`, `["7"]`, `["7"]`},
		{"words behind a text", "E(string)", words("20", "2") + left("6f6b") + words("1", "2"), `["ok"]`, `["ok"]`, `["ok"]`},
		{"a wide address", "E(address)", dirty, `null`, `["0xfefeFEFeFEFEFEFEFeFefefefefeFEfEfefefEfe"]`, `["0xfefeFEFeFEFEFEFEFeFefefefefeFEfEfefefEfe"]`},
		{"a wide uint8", "E(uint8)", dirty, `["254"]`, `null`, `["254"]`},
		{"a wide uint64", "E(uint64)", dirty, `["18374403900871474942"]`, `["115338002612856131912106000753751876842080690608128248102047946423568372268798"]`, `["18374403900871474942"]`},
		{"a wide int8", "E(int8)", dirty, `["-2"]`, `null`, `["-2"]`},
		{"a wide bool", "E(bool)", dirty, `[true]`, `null`, `[true]`},
		{"bytes2 with more behind them", "E(bytes2)", dirty, `["0xfefe"]`, `["0xfefe"]`, `["0xfefe"]`},
		{"a text with more behind it", "E(string)", words("20", "2") + "6f6b" + strings.Repeat("ff", 30), `["ok"]`, `["ok"]`, `["ok"]`},
		{"tails in another order", "E(bytes,bytes)", words("80", "40", "1") + left("b1") + word("1") + left("a1"), `["0xa1","0xb1"]`, `["0xa1","0xb1"]`, `["0xa1","0xb1"]`},
		{"one tail for two", "E(bytes,bytes)", words("40", "40", "1") + left("b1"), `["0xb1","0xb1"]`, `["0xb1","0xb1"]`, `["0xb1","0xb1"]`},
		{"a gap before a tail", "E(bytes)", words("40", "63", "1") + left("b1"), `["0xb1"]`, `["0xb1"]`, `["0xb1"]`},
		{"an end without padding", "E(string)", words("20", "2") + "6f6b", `["ok"]`, `["ok"]`, `["ok"]`},
		{"tails without padding", "E(string,bytes)", words("40", "62", "2") + "6f6b" + word("1") + "ff", `["ok","0xff"]`, `["ok","0xff"]`, `["ok","0xff"]`},
		{"a list of texts, in another order", "E(string[])", words("20", "2", "80", "40", "1") + left("62") + word("1") + left("61"), `[["a","b"]]`, `[["a","b"]]`, `[["a","b"]]`},
		{"a list of tuples, in another order", "E((uint8,string)[])", words("20", "2", "c0", "40", "8", "40", "1") + left("62") + words("7", "40", "1") + left("61"), `[[["7","a"],["8","b"]]]`, `[[["7","a"],["8","b"]]]`, `[[["7","a"],["8","b"]]]`},
		{"a text that is none", "E(string)", words("20", "3") + left("6100ff"), `null`, "[\"a\\u0000\ufffd\"]", "[\"a\\u0000\ufffd\"]"},
		{"a text with half a letter", "E(string)", words("20", "3") + left("e282c0"), `null`, "[\"\ufffd\ufffd\"]", "[\"\ufffd\ufffd\"]"},
		{"no data", "E(uint256)", "", `null`, `null`, `null`},
		{"half a word", "E(uint256)", "01", `null`, `null`, `null`},
		{"a text longer than the data", "E(string)", words("20", "3e8"), `null`, `null`, `null`},
		{"an offset behind the end", "E(bytes)", words("7d0"), `null`, `null`, `null`},
		{"an offset of 2^255", "E(bytes)", left("8"), `null`, `null`, `null`},
	}
	type log struct {
		Event string `json:"event"`
		Data  string `json:"data"`
	}
	var logs []log
	for _, row := range rows {
		logs = append(logs, log{"event " + row.event, "0x" + row.data})
	}
	var read []librariesReading
	script(t, "decode", map[string]any{"task": "logs", "logs": logs}, &read)
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			event := must.Get(decode.Parse(row.event))(t)
			var own any
			if values, err := event.Decode([]common.Hash{event.Selector}, common.FromHex(row.data)); err == nil {
				own = ordered(t, values.Args)
			}
			got := []string{text(t, read[i].Ethers), text(t, read[i].Viem), text(t, own)}
			if diff := cmp.Diff([]string{row.ethers, row.viem, row.watch}, got); diff != "" {
				t.Errorf("ethers, viem and the watchers read (-want +got)\n%s", diff)
			}
			if !slices.Contains(got[:2], got[2]) {
				t.Errorf("%s is read as neither of them reads it", row.data)
			}
		})
	}
}

// ordered makes lists of what has names, arg0 and so on, and texts of numbers.
func ordered(t *testing.T, args any) any {
	t.Helper()
	body := json.NewDecoder(strings.NewReader(text(t, args)))
	body.UseNumber()
	var value any
	must.Do(t, body.Decode(&value))
	var list func(value any) any
	list = func(value any) any {
		switch v := value.(type) {
		case map[string]any:
			out := make([]any, len(v))
			for name, one := range v {
				out[slices.Index([]string{"arg0", "arg1"}, name)] = list(one)
			}
			return out
		case []any:
			for i := range v {
				v[i] = list(v[i])
			}
			return v
		case json.Number:
			return v.String()
		default:
			return v
		}
	}
	return list(value)
}

func text(t *testing.T, value any) string {
	t.Helper()
	out := must.Get(json.Marshal(value))(t)
	return string(out)
}
