package txmgr

import "math/big"

// eighthMore returns a price raised by an eighth, rounded up, and by no less than one. Every
// node known takes a replacement at this step: geth wants a tenth, others an eighth.
func eighthMore(price *big.Int) *big.Int {
	if price == nil {
		return nil
	}
	raised := new(big.Int).Mul(price, big.NewInt(9))
	raised.Add(raised, big.NewInt(7)).Rsh(raised, 3)
	if least := new(big.Int).Add(price, big.NewInt(1)); raised.Cmp(least) < 0 {
		return least
	}
	return raised
}

func higher(a, b *big.Int) *big.Int {
	switch {
	case a == nil:
		return b
	case b == nil || a.Cmp(b) >= 0:
		return a
	default:
		return b
	}
}

func lower(a, b *big.Int) *big.Int {
	switch {
	case a == nil:
		return b
	case b == nil || a.Cmp(b) <= 0:
		return a
	default:
		return b
	}
}

// firstFees returns what an intent's first attempt pays, or false if its own cap, or the
// chain's, is below what a block takes now.
func firstFees(intent *Intent, market Market, limit *big.Int) (Fees, bool) {
	fees := market.Tips[intent.Speed]
	cap := lower(intent.MaxFee, limit)
	if intent.Extra.OnePrice {
		return Fees{Max: cap}, market.BaseFee == nil || cap.Cmp(market.BaseFee) >= 0
	}
	if market.BaseFee == nil {
		if cap != nil && cap.Cmp(fees.Max) < 0 {
			return Fees{}, false
		}
		return Fees{Max: fees.Max}, true
	}
	if cap != nil && cap.Cmp(market.BaseFee) < 0 {
		return Fees{}, false
	}
	most := lower(fees.Max, cap)
	tip := lower(lower(fees.Tip, intent.MaxTip), most)
	return Fees{Max: most, Tip: tip}, true
}

// replacementFees returns what an attempt pays that takes the place of one in the pool:
// both fields at least an eighth more than the highest attempt's and no less than the
// market. It is false when the cap does not allow it.
func replacementFees(old Fees, market Fees, cap *big.Int) (Fees, bool) {
	fees := Fees{Max: higher(eighthMore(old.Max), market.Max)}
	if old.Tip != nil {
		fees.Tip = higher(eighthMore(old.Tip), market.Tip)
		fees.Max = higher(fees.Max, fees.Tip)
	}
	if cap == nil || fees.Max.Cmp(cap) <= 0 {
		return fees, true
	}
	// The market is above the cap, but the smallest step may still be below it.
	fees.Max = eighthMore(old.Max)
	if old.Tip != nil {
		fees.Tip = eighthMore(old.Tip)
	}
	if fees.Max.Cmp(cap) > 0 || fees.Tip != nil && fees.Tip.Cmp(fees.Max) > 0 {
		return Fees{}, false
	}
	return fees, true
}
