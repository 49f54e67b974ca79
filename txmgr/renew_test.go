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
