package main

import (
	"strings"
	"testing"

	"lockstep/txmgr/client"
)

// A signer that gets no intents is not shown as ready.
func TestSignersSayWhyTheyArePassedOver(t *testing.T) {
	for want, signer := range map[string]client.Signer{
		"ready":                    {Ours: true, Enabled: true},
		"passed over: low balance": {Ours: true, Enabled: true, PassedOver: "low balance"},
		"paused: tired":            {Ours: true, PausedReason: "tired", PassedOver: "paused: tired"},
		"halted: restored":         {Ours: true, Enabled: true, Halted: "restored", PassedOver: "halted: restored"},
		"caller signs":             {Enabled: true},
	} {
		signer.Chain, signer.Address = "1", "0xaa"
		var out strings.Builder
		if err := printSigners(&out, []client.Signer{signer}); err != nil {
			t.Fatal(err)
		}
		_, row, _ := strings.Cut(out.String(), "\n")
		if !strings.HasPrefix(row, "1      0xaa     "+want+"  ") {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}
