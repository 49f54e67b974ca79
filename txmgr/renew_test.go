package txmgr

import "testing"

// TestNeverLeft: an intent may have another nonce only if nobody has bytes of it, those of an
// earlier attempt included.
func TestNeverLeft(t *testing.T) {
	refused, sent := &Attempt{State: AttemptRefused}, &Attempt{State: AttemptSent}
	for name, row := range map[string]struct {
		attempts []*Attempt
		want     bool
	}{
		"refused":                   {[]*Attempt{refused}, true},
		"refused twice":             {[]*Attempt{refused, refused}, true},
		"refused, after one of old": {[]*Attempt{{State: AttemptReplaced}, refused}, true},
		"taken before":              {[]*Attempt{sent, refused}, false},
		"perhaps taken before":      {[]*Attempt{{State: AttemptUnknown, Ambiguous: true}, refused}, false},
		"refused, once unclear":     {[]*Attempt{{State: AttemptRefused, Ambiguous: true}}, false},
		"signed":                    {[]*Attempt{{State: AttemptSigned}}, false},
	} {
		if got := neverLeft(&LineSlot{Attempts: row.attempts}); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestFirstUse finds the first block after which a nonce is used, wherever it is.
func TestFirstUse(t *testing.T) {
	for head := range uint64(40) {
		for want := range head + 1 {
			got, err := FirstUse(head, func(block uint64) (bool, error) { return block >= want, nil })
			if err != nil || got != want {
				t.Errorf("used from block %d of %d on: %d, %v", want, head, got, err)
			}
		}
	}
}
