//go:build !race

package consensus

import (
	"testing"

	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// What making and signing one transaction may allocate, with the signatures of the published binary, which are in Go. The
// race detector allocates on its own.
func TestAllocationBudgets(t *testing.T) {
	raw := unhex(t, goldenRaw)
	signer := &Operator{ID: hedera.Entity(1002), Key: mustKey(t, devECDSA, hedera.FormatHexECDSA)}
	got := testing.AllocsPerRun(100, func() {
		d := draft{operation: ethereumOperation(raw, nil, 0), id: goldenID(), maxFee: 1_065_000_000, signer: signer}
		must.Get(d.sign(hedera.Entity(3)))(t)
	})
	if got > 60 {
		t.Errorf("a signed transaction: %v allocations, the budget is 60", got)
	}
}
