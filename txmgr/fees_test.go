package txmgr

import (
	"math/big"
	"testing"
)

func wei(n int64) *big.Int { return big.NewInt(n) }

func TestEighthMore(t *testing.T) {
	for old, want := range map[int64]int64{0: 1, 1: 2, 7: 8, 8: 9, 9: 11, 100: 113, 1_000_000_000: 1_125_000_000} {
		if got := eighthMore(wei(old)); got.Int64() != want {
			t.Errorf("%d: got %s, want %d", old, got, want)
		}
	}
}

func TestReplacementFees(t *testing.T) {
	for name, row := range map[string]struct {
		old, market Fees
		cap         *big.Int
		want        Fees
		ok          bool
	}{
		"a quiet market":              {Fees{wei(800), wei(80)}, Fees{wei(500), wei(10)}, nil, Fees{wei(900), wei(90)}, true},
		"the market is higher":        {Fees{wei(800), wei(80)}, Fees{wei(2000), wei(100)}, nil, Fees{wei(2000), wei(100)}, true},
		"the cap is below the market": {Fees{wei(800), wei(80)}, Fees{wei(2000), wei(100)}, wei(1000), Fees{wei(900), wei(90)}, true},
		"the cap is reached":          {Fees{wei(800), wei(80)}, Fees{wei(2000), wei(100)}, wei(899), Fees{}, false},
		"legacy":                      {Fees{Max: wei(800)}, Fees{Max: wei(500)}, nil, Fees{Max: wei(900)}, true},
	} {
		got, ok := replacementFees(row.old, row.market, row.cap)
		if ok != row.ok || ok && (got.Max.Cmp(row.want.Max) != 0 || row.want.Tip != nil && got.Tip.Cmp(row.want.Tip) != 0) {
			t.Errorf("%s: got %v %v %t", name, got.Max, got.Tip, ok)
		}
	}
}

func TestFirstFees(t *testing.T) {
	market := Market{BaseFee: wei(100), Tips: map[string]Fees{SpeedStandard: {Max: wei(210), Tip: wei(10)}}}
	intent := func(cap, tip *big.Int) *Intent {
		return &Intent{Request: Request{Speed: SpeedStandard, MaxFee: cap, MaxTip: tip}}
	}
	if _, ok := firstFees(intent(wei(99), nil), market, nil); ok {
		t.Error("an intent whose cap is below the base fee is assigned")
	}
	if _, ok := firstFees(intent(nil, nil), market, wei(99)); ok {
		t.Error("the chain's cap does not bind")
	}
	if fees, ok := firstFees(intent(wei(150), wei(3)), market, nil); !ok || fees.Max.Int64() != 150 || fees.Tip.Int64() != 3 {
		t.Errorf("got %v %v %t", fees.Max, fees.Tip, ok)
	}
}
