package mirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
)

func ptr[T any](v T) *T { return &v }

var compareBig = cmp.Comparer(func(a, b *big.Int) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Cmp(b) == 0)
})

func TestDecodeContractResult(t *testing.T) {
	var got ContractResult
	if err := decode([]byte(resultJSON()), func(r *reader) { readResult(r, &got) }); err != nil {
		t.Fatal(err)
	}
	to := address(receiver)
	amount, _ := new(big.Int).SetString("10000000000000000000000", 10)
	want := ContractResult{
		Hash: common.HexToHash(txHash), BlockHash: common.HexToHash(blockHash), BlockNumber: ptr(uint64(17)), Index: ptr(uint64(0)),
		Timestamp: hedera.Timestamp{Seconds: 1767225600, Nanos: 1}, Result: "SUCCESS", Status: 1,
		From: address(sender), To: &to, Address: &to, Contract: hedera.Entity(1003),
		Type: ptr(uint64(2)), ChainID: big.NewInt(298), Nonce: ptr(uint64(5)), GasLimit: 30000, GasUsed: 21000,
		MaxFee: big.NewInt(710_000_000_000), MaxTip: big.NewInt(1), Amount: amount, Input: []byte{0xa9, 0x05, 0x9c, 0xbb}, Output: []byte{},
		V: big.NewInt(1), R: big.NewInt(1), S: big.NewInt(2),
		AccessList:     types.AccessList{{Address: to, StorageKeys: []common.Hash{common.HexToHash("0x1")}}},
		Authorizations: []Authorization{{ChainID: big.NewInt(298), Address: to, Nonce: 7, YParity: 1, R: big.NewInt(10), S: big.NewInt(11)}},
		Bloom:          make([]byte, 256),
		Logs:           []*Log{{Log: eth.Log{Address: to, Topics: []common.Hash{common.HexToHash(txHash)}, Data: []byte{1, 2}, Index: 4}}},
	}
	if diff := cmp.Diff(want, got, compareBig, cmpopts.IgnoreUnexported(Log{})); diff != "" {
		t.Error(diff)
	}
}

// A mirror node writes null for what it does not know.
func TestDecodeNulls(t *testing.T) {
	for name, read := range map[string]func(*reader){
		"result":      func(r *reader) { readResult(r, new(ContractResult)) },
		"block":       func(r *reader) { readBlock(r, new(Block)) },
		"account":     func(r *reader) { readAccount(r, new(Account)) },
		"log":         func(r *reader) { readLog(r, new(Log)) },
		"contract":    func(r *reader) { readContract(r, new(Contract)) },
		"transaction": func(r *reader) { readTransaction(r, new(Transaction)) },
		"fees":        func(r *reader) { readFees(r, new(Fees)) },
	} {
		var members map[string]json.RawMessage
		texts := map[string]string{
			"result": resultJSON(), "block": blockJSON(1),
			"account":     `{"account":"0.0.2","evm_address":"0x","balance":{},"ethereum_nonce":1,"created_timestamp":"1.0","delegation_address":"","deleted":false,"receiver_sig_required":true,"transactions":[],"links":{}}`,
			"log":         `{"address":"0x","data":"0x","topics":[],"index":1,"block_hash":"0x","block_number":1,"timestamp":"1.0","transaction_hash":"0x","transaction_index":1}`,
			"contract":    `{"contract_id":"0.0.1","evm_address":"0x","created_timestamp":"1.0","deleted":true,"nonce":1,"runtime_bytecode":"0x"}`,
			"transaction": `{"transaction_id":"","name":"","result":"","consensus_timestamp":"","entity_id":"0.0.1","nonce":0,"scheduled":false,"charged_tx_fee":1,"transfers":[]}`,
			"fees":        `{"fees":[],"timestamp":"1.0"}`,
		}
		if err := json.Unmarshal([]byte(texts[name]), &members); err != nil {
			t.Fatal(name, err)
		}
		if err := decode([]byte(texts[name]), read); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for member := range members {
			if err := decode([]byte(`{"`+member+`":null}`), read); err != nil {
				t.Errorf("%s: null for %s: %v", name, member, err)
			}
			if err := decode([]byte(`{"`+member+`":`), read); err == nil {
				t.Errorf("%s: a text cut after %s is accepted", name, member)
			}
		}
		if err := decode([]byte("null"), read); err != nil {
			t.Errorf("%s: null: %v", name, err)
		}
	}
}

func TestDecodeIncompleteResult(t *testing.T) {
	for name, text := range map[string]string{
		"no index":        resultJSON(`"transaction_index":0`, `"transaction_index":null`),
		"no block number": resultJSON(`"block_number":17`, `"block_number":null`),
		"no block hash":   resultJSON(`"block_hash":"`+blockHash+tail+`"`, `"block_hash":"0x"`),
	} {
		var got ContractResult
		if err := decode([]byte(text), func(r *reader) { readResult(r, &got) }); err != nil || got.Complete() {
			t.Errorf("%s: complete %v, %v", name, got.Complete(), err)
		}
	}
}

func TestDecodeWrongKinds(t *testing.T) {
	for _, text := range []string{
		`{"hash":17}`, `{"hash":"0xzz"}`, `{"block_number":"x"}`, `{"block_number":1.5}`, `{"block_number":-1}`, `{"from":"0x` + strings.Repeat("00", 21) + `"}`,
		`{"created_contract_ids":"0.0.1"}`, `{"created_contract_ids":["0.1"]}`, `{"timestamp":"now"}`, `{"amount":"ten"}`, `[]`, `{"status":"0x10000000000000000"}`,
		`{"gas_price":"0x` + strings.Repeat("f", 65) + `"}`, `{"hash":"0x00"} x`, `{"bloom":"0x0g"}`, `{"logs":[1]}`, `{hash:1}`, `{"hash"}`, `{"a":1,}`, ``,
		`{"nested":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`,
	} {
		if err := decode([]byte(text), func(r *reader) { readResult(r, new(ContractResult)) }); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// escaped is a JSON text with every string in it, names included, written in escapes
// alone. No string of it can be read in a short way.
func escaped(text string) string {
	var b strings.Builder
	quoted := false
	for _, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
			b.WriteRune(c)
		case quoted:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// How a string is written does not change what it says.
func TestDecodeEscapes(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		read func(*reader) any
	}{
		"result": {resultJSON(), func(r *reader) any { v := new(ContractResult); readResult(r, v); return v }},
		"block":  {blockJSON(1), func(r *reader) any { v := new(Block); readBlock(r, v); return v }},
		"log":    {logJSON("1", "2"), func(r *reader) any { v := new(Log); readLog(r, v); return v }},
	} {
		var values [2]any
		for i, text := range []string{test.text, escaped(test.text)} {
			if err := decode([]byte(text), func(r *reader) { values[i] = test.read(r) }); err != nil {
				t.Fatalf("%s: %v in %s", name, err, text)
			}
		}
		if diff := cmp.Diff(values[0], values[1], compareBig, cmp.AllowUnexported(Log{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// FuzzScalars holds the short ways of reading values against the long ones: of a string
// against the same string in escapes, of a number against encoding/json.
func FuzzScalars(f *testing.F) {
	for _, text := range []string{
		"", "0", "17", "007", "-1", "1.5", "1e3", "18446744073709551615", "18446744073709551616", "9999999999999999999", "99999999999999999999", "17 ", "17x", "null",
		"0x", "0x1", "0X12", "1767225600.000000001", "1767225600", "1.", "0.0.5", strings.Repeat("0", 64), txHash, strings.ToUpper(txHash), txHash[:65] + "g",
		txHash[:65], txHash + "00", txHash + strings.Repeat("ab", 16), receiver, receiver[:41] + "x", receiver + "0", receiver[:40] + `"0`, receiver[:40] + `\0`, "é",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted := `"` + text + `"`
		if json.Valid([]byte(quoted)) && utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return c == '\\' || c > 0xffff }) {
			for name, read := range map[string]func(*reader) any{
				"hash": func(r *reader) any { return r.hash() }, "word32": func(r *reader) any { return r.word32() },
				"address": func(r *reader) any { return r.address() }, "maybeAddress": func(r *reader) any { return r.maybeAddress() },
				"bytes": func(r *reader) any { return r.bytes() }, "uint64": func(r *reader) any { return r.uint64() },
				"time": func(r *reader) any { return r.time() }, "id": func(r *reader) any { return r.id() }, "str": func(r *reader) any { return r.str() },
			} {
				short, err1 := scalar(quoted, read)
				long, err2 := scalar(escaped(quoted), read)
				if (err1 == nil) != (err2 == nil) || err1 == nil && !cmp.Equal(short, long) {
					t.Errorf("%s of %q: %v, %v; in escapes %v, %v", name, text, short, err1, long, err2)
				}
			}
		}
		if strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), `"`) {
			return // encoding/json wants numbers without quotes
		}
		var want []*uint64
		err1 := json.Unmarshal([]byte("["+text+"]"), &want)
		have := []*uint64{}
		_, err2 := scalar("["+text+"]", func(r *reader) any {
			r.array(func() { have = append(have, r.optional()) })
			return nil
		})
		if strings.ContainsAny(text, `"[]{}`) {
			return // more than numbers
		}
		if (err1 == nil) != (err2 == nil) || err1 == nil && !cmp.Equal(want, have) {
			t.Errorf("%q: %v, %v; encoding/json: %v, %v", text, have, err2, want, err1)
		}
	})
}

func scalar(text string, read func(*reader) any) (value any, err error) {
	err = decode([]byte(text), func(r *reader) { value = read(r) })
	return value, err
}

// Logs of a page are allocated together and have nothing else in common.
func TestDecodeLogPage(t *testing.T) {
	const count = 50
	var items []string
	for i := range count {
		topics := make([]string, i%6) // more than there can be, too
		for j := range topics {
			topics[j] = fmt.Sprintf(`"0x%x"`, 100*i+j)
		}
		items = append(items, fmt.Sprintf(`{"index":%d,"data":"0x%s","topics":[%s]}`, i, strings.Repeat(fmt.Sprintf("%02x", i), i*i), strings.Join(topics, ",")))
	}
	var got page[Log]
	logs := list[Log]{member: "logs", together: true, read: readLog}
	if err := decode([]byte(`{"logs":[`+strings.Join(items, ",")+`]}`), func(r *reader) { logs.readPage(r, &got) }); err != nil || len(got.items) != count {
		t.Fatalf("%d logs, %v", len(got.items), err)
	}
	for _, l := range got.items {
		_, _ = append(l.Topics, common.Hash{1}), append(l.Data, 1) // it must not be seen anywhere
	}
	for i, l := range got.items {
		want := &Log{Log: eth.Log{Index: uint64(i), Data: bytes.Repeat([]byte{byte(i)}, i*i), Topics: []common.Hash{}}}
		for j := range i % 6 {
			want.Topics = append(want.Topics, common.BigToHash(big.NewInt(int64(100*i+j))))
		}
		if diff := cmp.Diff(want, l, cmpopts.IgnoreUnexported(Log{})); diff != "" {
			t.Errorf("log %d: %s", i, diff)
		}
	}
}

// A hash is read as if its log were the only one, whatever hash came before it.
func TestDecodeRepeatedHashes(t *testing.T) {
	texts := []string{"null", `""`, `"0x"`, `"0x12"`, `"0x123"`, `"\u0030x12"`, `"0x12\u0033"`, `"` + txHash + `"`, `"` + txHash + tail + `"`, `"` + txHash[2:] + `"`, `"` + blockHash + `"`}
	var items []string
	var want []*Log
	for i := range texts {
		for j := range texts {
			for k, pair := range [][2]int{{i, j}, {i, j}, {j, i}} {
				item := fmt.Sprintf(`{"index":%d,"transaction_index":0,"block_number":1,"transaction_hash":%s,"block_hash": %s}`, k, texts[pair[0]], texts[pair[1]])
				items, want = append(items, item), append(want, new(Log))
				if err := decode([]byte(item), func(r *reader) { readLog(r, want[len(want)-1]) }); err != nil {
					t.Fatalf("%s: %v", item, err)
				}
			}
		}
	}
	var got page[Log]
	logs := list[Log]{member: "logs", together: true, read: readLog}
	if err := decode([]byte(`{"logs":[`+strings.Join(items, ",")+`]}`), func(r *reader) { logs.readPage(r, &got) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.items, cmp.AllowUnexported(Log{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"0", "nul", "[]", `"0xg0"`, `"0x12`, `"` + txHash + `00" x`} {
		for _, before := range texts {
			text := fmt.Sprintf(`{"logs":[{"block_hash":%s},{"block_hash":%s},{"block_hash":%s}]}`, before, bad, bad)
			if err := decode([]byte(text), func(r *reader) { logs.readPage(r, new(page[Log])) }); err == nil {
				t.Errorf("%s is accepted", text)
			}
		}
	}
}

// skip passes over exactly one value, and objects to what encoding/json objects to. Nothing makes
// a decoder panic.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(resultJSON()))
	f.Add([]byte(`{"a":[1,"\"\\",{"b":null}],"c":true}`))
	f.Add([]byte(`"\u00e9"`))
	f.Add([]byte(`["\x", "` + "\n" + `"]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		err := decode(text, func(r *reader) { r.skip() })
		if deep := bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > jsonx.MaxDepth; !deep && (err == nil) != json.Valid(text) {
			t.Errorf("%q: %v; encoding/json: %v", text, err, json.Valid(text))
		}
		for _, read := range []func(*reader){
			func(r *reader) { readResult(r, new(ContractResult)) },
			func(r *reader) { readBlock(r, new(Block)) },
			func(r *reader) { readAccount(r, new(Account)) },
			func(r *reader) { readLog(r, new(Log)) },
			func(r *reader) { readFees(r, new(Fees)) },
			func(r *reader) { readAction(r, new(Action)) },
			func(r *reader) { readStateChange(r) },
			func(r *reader) { readOpcodes(r, new(Opcodes)) },
			func(r *reader) { r.next() },
		} {
			_ = decode(text, read)
		}
	})
}

func TestNextPath(t *testing.T) {
	for link, want := range map[string]string{
		"/api/v1/blocks?limit=2&block.number=lt:5":            "blocks?limit=2&block.number=lt:5",
		"https://evil.example/api/v1/blocks?limit=2":          "blocks?limit=2",
		"/proxy/api/v1/contracts/results/logs?timestamp=gt:1": "contracts/results/logs?timestamp=gt:1",
		"/api/v1/accounts/0.0.2?limit=1":                      "accounts/0.0.2?limit=1",
	} {
		if got, err := nextPath(link); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", link, got, err, want)
		}
	}
	for _, link := range []string{"/blocks", "//evil.example/x", "/api/v1/../../secret", "/api/v1/", ":", "http://[::1/api/v1/x"} {
		if got, err := nextPath(link); err == nil {
			t.Errorf("%s is accepted as %q", link, got)
		}
	}
}

func TestPagesErrorText(t *testing.T) {
	var pages *PagesError
	if err := error(&PagesError{Limit: 3}); !errors.As(err, &pages) || !strings.Contains(err.Error(), "3 pages") {
		t.Errorf("%v", err)
	}
}

// decode reads one JSON text.
func decode(body []byte, read func(*reader)) error {
	r := reader{b: body}
	read(&r)
	return r.end()
}
