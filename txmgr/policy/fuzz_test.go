package policy

import (
	"encoding/json"
	"reflect"
	"testing"

	"lockstep/internal/must"
)

// Rules that are taken mean the same after they were stored and read again.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"receivers":["0x05FbA803Be258049A27B820088bab1cAD2058871"],"selectors":["0xa9059cbb"]}`, `{"maxValue":"10","tenantDailyGas":"400000000000000"}`,
		`{"selectors":["a9059cbb0"]}`, `{"receivers":[""]}`, `{"maxValue":"-1"}`, `{"maxValue":"0x10"}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r Rules
		if json.Unmarshal(raw, &r) != nil || r.normalise() != nil {
			return
		}
		stored := must.Get(json.Marshal(r))(t)
		var again Rules
		if err := json.Unmarshal(stored, &again); err != nil {
			t.Fatalf("%s became %s: %v", raw, stored, err)
		}
		if err := again.normalise(); err != nil {
			t.Fatalf("%s became %s: %v", raw, stored, err)
		}
		twice, err := json.Marshal(again)
		if err != nil || string(twice) != string(stored) || !reflect.DeepEqual(r, again) && string(twice) != string(stored) {
			t.Fatalf("%s became %s and then %s", raw, stored, twice)
		}
	})
}
