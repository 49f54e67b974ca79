package ledger

import (
	"errors"
	"math"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// An edit is there at once, conserves hbar, and goes with a revert.
func TestEdit(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	snapshot := r.Snapshot()
	balance, nonce, code := hedera.Tinybar(123), uint64(9), []byte{0x60, 1, 0x60, 0, 0x55}
	slot := common.Hash{31: 7}
	must.Do(t, r.Edit(Edit{Address: owner.address, Balance: &balance, Nonce: &nonce}))
	stranger := common.HexToAddress("0x1234512345123451234512345123451234512345")
	must.Do(t, r.Edit(Edit{Address: stranger, Balance: &balance, Code: &code, Storage: map[common.Hash]common.Hash{slot: {31: 1}}}))
	a, _ := r.View().AccountByAddress(owner.address)
	c, known := r.View().AccountByAddress(stranger)
	if a.Balance != balance || a.Nonce != 9 || !known || !c.IsContract() || c.Balance != balance || string(c.Contract.Runtime) != string(code) {
		t.Errorf("%+v\n%+v", a, c)
	}
	if got := r.View().Storage(c.ID, slot).Value; got != (common.Hash{31: 1}) {
		t.Errorf("slot %s", got)
	}
	if total, _ := r.View().Supply(); total != state.TotalSupply {
		t.Errorf("%d tinybar exist", total)
	}
	before := r.View().LatestBlock().Number
	r.Mine(3, 0)
	if got := r.View().LatestBlock(); got.Number != before+3 || len(got.Records) != 0 {
		t.Errorf("block %d after %d", got.Number, before)
	}
	if !r.Revert(snapshot) {
		t.Fatal("not reverted")
	}
	if _, known := r.View().AccountByAddress(stranger); known || r.View().LatestBlock().Number != 0 {
		t.Error("the stranger is still there")
	}
	if a, _ := r.View().AccountByAddress(owner.address); a.Balance != devaccounts.RichBalance || a.Nonce != 0 {
		t.Errorf("%+v", a)
	}
	tooMuch, tooHigh := state.TotalSupply+1, uint64(math.MaxInt64)
	for name, tt := range map[string]struct {
		edit Edit
		want error
	}{
		"the system":          {Edit{Address: hedera.Entity(0x167).LongZero(), Balance: &balance}, ErrNotEditable},
		"a number of nothing": {Edit{Address: hedera.Entity(99_999).LongZero(), Balance: &balance}, ErrNobody},
		"more than there is":  {Edit{Address: owner.address, Balance: &tooMuch}, ErrNotThere},
		"more than 63 bits":   {Edit{Address: owner.address, Nonce: &tooHigh}, ErrNonce},
	} {
		if err := r.Edit(tt.edit); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
