package api

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

// What a Quantity reads, it writes as decimal text of the same number.
func FuzzQuantity(f *testing.F) {
	for _, seed := range []string{`"0"`, `1`, `"0xff"`, `"-1"`, `1e3`, `"1_0"`, `null`, `"115792089237316195423570985008687907853269984665640564039457584007913129639936"`, `{}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var q Quantity
		if json.Unmarshal(raw, &q) != nil {
			return
		}
		if q.Int == nil {
			if strings.TrimSpace(string(raw)) != "null" {
				t.Fatalf("%s was read as nothing", raw)
			}
			return
		}
		text, err := json.Marshal(q)
		var again Quantity
		if err != nil || json.Unmarshal(text, &again) != nil || again.Int.Cmp(q.Int) != 0 || q.Int.Sign() < 0 || q.Int.BitLen() > 256 {
			t.Fatalf("%s became %s (%v)", raw, text, err)
		}
		if plain, ok := new(big.Int).SetString(strings.Trim(string(raw), `" `), 10); ok && plain.Cmp(q.Int) != 0 {
			t.Fatalf("%s became %s", raw, text)
		}
	})
}

// An intent that is read can be written into a request, and its parts are in range.
func FuzzIntent(f *testing.F) {
	for _, seed := range []string{
		`{"chain":1,"to":"0x05FbA803Be258049A27B820088bab1cAD2058871","value":"1","data":"0x","validUntil":"2026-01-31T12:00:00Z"}`,
		`{"chain":"0x1","gas":"21000","maxFeePerGas":1,"metadata":{"a":[1]},"validUntil":1800000000}`, `{"chain":"","validUntil":-1}`, `{"data":"zz"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var body IntentBody
		if json.Unmarshal(raw, &body) != nil {
			return
		}
		r := body.request("t", "k")
		if r.Value != nil && r.Value.BitLen() > 256 || r.ValidUntil < 0 || r.Chain != string(body.Chain) {
			t.Fatalf("%s became %+v", raw, r)
		}
	})
}
