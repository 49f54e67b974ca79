package ethapi

import (
	"testing"

	"lockstep/rpc"
)

// Whatever the rules let through can be read.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{
		`["0x11"]`, `["latest"]`, `[{"blockHash":"` + blockHash + `","requireCanonical":true}]`, `[{"blockNumber":"0x1"}]`, `[{}]`,
		`[{"fromBlock":"0x1","toBlock":"latest","address":["` + tokenLog + `"],"topics":[null,["` + transferID + `",null],[]]}]`,
		`[{"from":"` + tokenLog + `","to":null,"gas":"0x5208","gasPrice":"0x","value":"0xde0b6b3a7640000","data":"0x00","input":"0x"},"latest",{}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, ok := rpc.NewParams(text)
		if !ok {
			return
		}
		v := p.At(0)
		if blockParamsRule(blockNumberRule()).Matches(v) {
			if ref, err := blockRef(v); err == nil && ref.String() == "" {
				t.Errorf("%s names no block", v)
			}
		}
		if filterRule(blockNumberRule(), true).Matches(v) {
			q, err := new(API).readLogQuery(v)
			if err == nil && (len(q.addresses) > maxAddresses || len(q.topics.at[0]) > maxAlternatives) {
				t.Errorf("%s is too large", v)
			}
		}
		if transactionRule().Matches(v) {
			q, err := new(API).callRequest(t.Context(), p)
			if err == nil && q.Value < 0 {
				t.Errorf("%s sends %d", v, q.Value)
			}
		}
	})
}
