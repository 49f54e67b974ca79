package transfers

import (
	"math/bits"
	"slices"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// assess adds the custom fees of what the plan moves. Fees that are paid in other tokens
// with fees of their own cause those too.
func (p *Plan) assess() hedera.Status {
	original := slices.Clone(p.tokens)
	for _, tp := range original {
		if len(tp.t.Fees) == 0 {
			continue
		}
		assessed := p.assessFungible
		if tp.t.NonFungible {
			assessed = p.assessNFTs
		}
		if status := assessed(tp); status != okay {
			return status
		}
	}
	return okay
}

// exempt tells whether an account pays no fee: the treasury, the collector, and all
// collectors where the fee says so.
func exempt(t *state.Token, fee *hapi.CustomFee, account int64) bool {
	collects := func(f *hapi.CustomFee) bool { return f.GetFeeCollectorAccountId().GetAccountNum() == account }
	return account == t.Treasury.Num || collects(fee) ||
		fee.GetAllCollectorsAreExempt() && slices.ContainsFunc(t.Fees, collects)
}

func (p *Plan) assessFungible(tp *tokenPlan) hedera.Status {
	moved := make([]entry, 0, len(tp.entries))
	for _, e := range tp.entries {
		moved = append(moved, *e)
	}
	for _, e := range moved {
		if e.amount >= 0 {
			continue
		}
		for _, fee := range tp.t.Fees {
			if exempt(tp.t, fee, e.a.Num) {
				continue
			}
			fixed := fee.GetFixedFee()
			if fixed == nil {
				if status := p.chargeFraction(tp, moved, e, fee); status != okay {
					return status
				}
				continue
			}
			if status := p.Charge(tp.t, e.a, fixed, p.collector(fee), 1); status != okay {
				return status
			}
		}
	}
	return okay
}

func (p *Plan) collector(fee *hapi.CustomFee) *state.Party {
	return p.h.State.EntityAccount(fee.GetFeeCollectorAccountId().GetAccountNum())
}

// Charge takes a fixed fee.
func (p *Plan) Charge(of *state.Token, payer *state.Party, fee *hapi.FixedFee, collector *state.Party, depth int) hedera.Status {
	if payer == collector {
		return okay
	}
	id := fee.GetDenominatingTokenId()
	assessed := history.AssessedFee{Amount: fee.GetAmount(), Collector: hedera.Entity(collector.Num), Payers: []hedera.ID{hedera.Entity(payer.Num)}}
	if id == nil {
		add(&p.hbar, payer, -fee.GetAmount(), true)
		add(&p.hbar, collector, fee.GetAmount(), false)
		p.h.Did().Fees = append(p.h.Did().Fees, assessed)
		return okay
	}
	denomination, status := tokens.Usable(p.h, id)
	if status != okay {
		return status
	}
	if tokens.Relation(p.h, payer.Num, denomination.ID.Num) == nil {
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	}
	tp := p.of(denomination)
	add(&tp.entries, payer, -fee.GetAmount(), true)
	add(&tp.entries, collector, fee.GetAmount(), false)
	assessed.Token = denomination.ID
	p.h.Did().Fees = append(p.h.Did().Fees, assessed)
	if denomination.ID == of.ID {
		return okay
	}
	for _, next := range denomination.Fees {
		fixed := next.GetFixedFee()
		switch {
		case fixed == nil || exempt(denomination, next, payer.Num):
			continue
		case depth >= tokens.MaxFeeDepth:
			return hapi.ResponseCodeEnum_CUSTOM_FEE_CHARGING_EXCEEDED_MAX_RECURSION_DEPTH
		}
		if status := p.Charge(denomination, payer, fixed, p.collector(next), depth+1); status != okay {
			return status
		}
	}
	return okay
}

// chargeFraction takes a part of what is sent: from what receivers get, or from the
// sender on top of it.
func (p *Plan) chargeFraction(tp *tokenPlan, moved []entry, sender entry, fee *hapi.CustomFee) hedera.Status {
	f, collector := fee.GetFractionalFee(), p.collector(fee)
	amount := fraction(-sender.amount, f.GetFractionalAmount())
	amount = max(amount, f.GetMinimumAmount())
	if f.GetMaximumAmount() > 0 {
		amount = min(amount, f.GetMaximumAmount())
	}
	if amount == 0 {
		return okay
	}
	assessed := history.AssessedFee{Amount: amount, Token: tp.t.ID, Collector: hedera.Entity(collector.Num)}
	if f.GetNetOfTransfers() {
		add(&tp.entries, sender.a, -amount, true)
		assessed.Payers = []hedera.ID{hedera.Entity(sender.a.Num)}
	} else {
		received := int64(0)
		for _, e := range moved {
			received += max(e.amount, 0)
		}
		if received < amount {
			return hapi.ResponseCodeEnum_INSUFFICIENT_SENDER_ACCOUNT_BALANCE_FOR_CUSTOM_FEE
		}
		left := amount
		for i, e := range moved {
			if e.amount <= 0 {
				continue
			}
			share := fraction(e.amount, &hapi.Fraction{Numerator: amount, Denominator: received})
			if !slices.ContainsFunc(moved[i+1:], func(e entry) bool { return e.amount > 0 }) {
				share = left
			}
			left -= share
			add(&tp.entries, e.a, -share, false)
			assessed.Payers = append(assessed.Payers, hedera.Entity(e.a.Num))
		}
	}
	add(&tp.entries, collector, amount, false)
	p.h.Did().Fees = append(p.h.Did().Fees, assessed)
	return okay
}

// fraction is the part of an amount, rounded down. It saturates instead of overflowing.
func fraction(amount int64, f *hapi.Fraction) int64 {
	high, low := bits.Mul64(uint64(amount), uint64(f.GetNumerator()))
	if high >= uint64(f.GetDenominator()) {
		return state.Last
	}
	part, _ := bits.Div64(high, low, uint64(f.GetDenominator()))
	return int64(min(part, state.Last))
}

// assessNFTs takes fixed fees of every NFT from its sender, and royalties once from each
// sender.
func (p *Plan) assessNFTs(tp *tokenPlan) hedera.Status {
	gains := p.gains()
	var settled []int64 // senders whose royalties are done
	for _, move := range tp.nfts {
		from := p.h.State.EntityAccount(move.nft.Owner.Num)
		royalties := !slices.Contains(settled, from.Num)
		for _, fee := range tp.t.Fees {
			if exempt(tp.t, fee, from.Num) {
				continue
			}
			status := okay
			if fixed := fee.GetFixedFee(); fixed != nil {
				status = p.Charge(tp.t, from, fixed, p.collector(fee), 1)
			} else if royalties {
				status = p.chargeRoyalty(tp.t, gains, from, move.to, fee)
			}
			if status != okay {
				return status
			}
		}
		settled = append(settled, from.Num)
	}
	return okay
}

// gain is what an account gets by the transfer itself, hbar where the token is nil.
type gain struct {
	t      *state.Token
	a      *state.Party
	amount int64
}

func (p *Plan) gains() (list []gain) {
	for _, e := range p.hbar {
		if e.amount > 0 {
			list = append(list, gain{a: e.a, amount: e.amount})
		}
	}
	for _, tp := range p.tokens {
		for _, e := range tp.entries {
			if e.amount > 0 {
				list = append(list, gain{tp.t, e.a, e.amount})
			}
		}
	}
	return list
}

// chargeRoyalty takes a part of what the sender gets for an NFT. Where that is nothing, the
// receiver pays the fallback fee and must agree.
func (p *Plan) chargeRoyalty(t *state.Token, gains []gain, from, to *state.Party, fee *hapi.CustomFee) hedera.Status {
	royalty, collector, paid := fee.GetRoyaltyFee(), p.collector(fee), false
	for _, g := range gains {
		if g.a != from {
			continue
		}
		paid = true
		amount := fraction(g.amount, royalty.GetExchangeValueFraction())
		if amount == 0 {
			continue
		}
		list, assessed := &p.hbar, history.AssessedFee{Amount: amount, Collector: hedera.Entity(collector.Num), Payers: []hedera.ID{hedera.Entity(from.Num)}}
		if g.t != nil {
			if tokens.Relation(p.h, collector.Num, g.t.ID.Num) == nil {
				return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_FEE_COLLECTOR
			}
			list, assessed.Token = &p.of(g.t).entries, g.t.ID
		}
		add(list, from, -amount, true)
		add(list, collector, amount, false)
		p.h.Did().Fees = append(p.h.Did().Fees, assessed)
	}
	fallback := royalty.GetFallbackFee()
	if paid || fallback == nil || exempt(t, fee, to.Num) {
		return okay
	}
	if !p.h.SignedBy(to) {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return p.Charge(t, to, fallback, collector, 1)
}
