package submit

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/precheck"
)

// A balance of ten pays for ten transactions that cost one, whether this relay handed over all that come before or
// every second one only. What has its verdict at another relay counts no more.
func TestSpendingsCountWhatOtherRelaysHandedOver(t *testing.T) {
	t.Parallel()
	key := must.Get(crypto.GenerateKey())(t)
	tx := func(nonce uint64) *eth.Tx {
		raw := must.Get(types.MustSignNewTx(key, types.HomesteadSigner{}, &types.LegacyTx{Nonce: nonce, To: &common.Address{1}}).MarshalBinary())(t)
		decoded := must.Get(eth.DecodeTx(raw))(t)
		return decoded
	}
	one := hedera.Hbar.Weibar()
	facts := known{Facts: precheck.Facts{}}
	facts.Balance = 10 * hedera.Hbar
	for name, test := range map[string]struct {
		step   uint64 // this relay has every nonce of so many
		proven uint64 // when the balance is asked for
		most   uint64 // the first nonce that is not covered
	}{
		"alone":                      {step: 1, most: 10},
		"every second one":           {step: 2, most: 10},
		"four were executed already": {step: 2, proven: 4, most: 12}, // two of them are known here, and may be in the balance or not
		"none but the first":         {step: 1000, most: 10},
	} {
		p := spendings{senders: map[common.Address]*spending{}}
		first := tx(0)
		p.add(first, one)
		nonce := uint64(1)
		for ; p.covered(tx(nonce), one, facts, test.proven) && nonce < 100; nonce++ {
			if nonce%test.step == 0 {
				p.add(tx(nonce), one)
			}
		}
		if nonce != test.most {
			t.Errorf("%s: the first nonce that is not covered is %d, want %d", name, nonce, test.most)
		}
		if facts.Balance != 10*hedera.Hbar || one.Cmp(new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)) != 0 {
			t.Errorf("%s: the facts have changed", name)
		}
	}
}

// TestTransactionsInProgressAreBoundedInBytes, whoever sent them and whether or not that client still waits.
func TestTransactionsInProgressAreBoundedInBytes(t *testing.T) {
	const long = 128 << 10
	group := newTasks(1 << 20)
	taken := 0
	for group.begin(long) == nil {
		taken++
	}
	if taken != bytesInProgress/long {
		t.Errorf("%d transactions of %d bytes are in progress", taken, long)
	}
	group.end(long)
	if err := group.begin(long); err != nil {
		t.Errorf("there is no room for one more after the end of one: %v", err)
	}
}
