package ledger

import (
	"math/bits"
	"slices"

	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// maxFeeDepth is how deep custom fees cause custom fees.
const maxFeeDepth = 2

// setFees replaces the custom fees of a token. Collectors of the token itself must sign
// when it is created, and are associated with it.
func (h *handling) setFees(t *state.Token, fees []*hapi.CustomFee, creation bool) hedera.Status {
	if len(fees) > maxCustomFees {
		return hapi.ResponseCodeEnum_CUSTOM_FEES_LIST_TOO_LONG
	}
	t.Fees, t.FeesSince = nil, h.r.Consensus
	for _, given := range fees {
		fee := proto.CloneOf(given)
		collector, status := h.party(fee.GetFeeCollectorAccountId())
		if status != okay {
			return hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_COLLECTOR
		}
		fee.FeeCollectorAccountId = hedera.Entity(collector.Num).AccountID()
		own, status := h.checkFee(t, fee, collector.Num, creation)
		switch {
		case status != okay:
			return status
		case !own:
		case creation && !h.signedBy(collector):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		case h.relation(collector.Num, t.ID.Num) != nil:
		case !creation:
			return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_FEE_COLLECTOR
		default:
			h.associate(t, collector.Num, false)
			h.did().Associations = append(h.did().Associations, history.Association{Token: t.ID, Account: hedera.Entity(collector.Num)})
		}
		t.Fees = append(t.Fees, fee)
	}
	h.putToken(t)
	return okay
}

// checkFee tells whether a fee is collected in units of its own token.
func (h *handling) checkFee(t *state.Token, fee *hapi.CustomFee, collector int64, creation bool) (own bool, _ hedera.Status) {
	switch kind := fee.GetFee().(type) {
	case *hapi.CustomFee_FixedFee:
		return h.checkFixed(t, kind.FixedFee, collector, creation)
	case *hapi.CustomFee_FractionalFee:
		f := kind.FractionalFee
		switch {
		case t.NonFungible:
			return false, hapi.ResponseCodeEnum_CUSTOM_FRACTIONAL_FEE_ONLY_ALLOWED_FOR_FUNGIBLE_COMMON
		case f.GetFractionalAmount().GetDenominator() == 0:
			return false, hapi.ResponseCodeEnum_FRACTION_DIVIDES_BY_ZERO
		case f.GetFractionalAmount().GetNumerator() <= 0 || f.GetFractionalAmount().GetDenominator() < 0,
			f.GetMinimumAmount() < 0 || f.GetMaximumAmount() < 0:
			return false, hapi.ResponseCodeEnum_CUSTOM_FEE_MUST_BE_POSITIVE
		case f.GetMaximumAmount() > 0 && f.GetMaximumAmount() < f.GetMinimumAmount():
			return false, hapi.ResponseCodeEnum_FRACTIONAL_FEE_MAX_AMOUNT_LESS_THAN_MIN_AMOUNT
		}
		return true, okay
	case *hapi.CustomFee_RoyaltyFee:
		f := kind.RoyaltyFee
		switch fraction := f.GetExchangeValueFraction(); {
		case !t.NonFungible:
			return false, hapi.ResponseCodeEnum_CUSTOM_ROYALTY_FEE_ONLY_ALLOWED_FOR_NON_FUNGIBLE_UNIQUE
		case fraction.GetDenominator() == 0:
			return false, hapi.ResponseCodeEnum_FRACTION_DIVIDES_BY_ZERO
		case fraction.GetNumerator() <= 0 || fraction.GetDenominator() < 0:
			return false, hapi.ResponseCodeEnum_CUSTOM_FEE_MUST_BE_POSITIVE
		case fraction.GetNumerator() > fraction.GetDenominator():
			return false, hapi.ResponseCodeEnum_ROYALTY_FRACTION_CANNOT_EXCEED_ONE
		case f.GetFallbackFee() == nil:
			return false, okay
		}
		return h.checkFixed(t, f.GetFallbackFee(), collector, creation)
	default:
		return false, hapi.ResponseCodeEnum_CUSTOM_FEE_NOT_FULLY_SPECIFIED
	}
}

// checkFixed also puts the token itself where a fee names none by number 0.
func (h *handling) checkFixed(t *state.Token, fee *hapi.FixedFee, collector int64, creation bool) (own bool, _ hedera.Status) {
	id := fee.GetDenominatingTokenId()
	switch {
	case fee.GetAmount() <= 0:
		return false, hapi.ResponseCodeEnum_CUSTOM_FEE_MUST_BE_POSITIVE
	case id == nil:
		return false, okay
	case creation && id.GetTokenNum() == 0 || id.GetTokenNum() == t.ID.Num:
		if t.NonFungible {
			return false, hapi.ResponseCodeEnum_CUSTOM_FEE_DENOMINATION_MUST_BE_FUNGIBLE_COMMON
		}
		fee.DenominatingTokenId = t.ID.TokenID()
		return true, okay
	}
	denomination, status := h.token(id)
	switch {
	case status != okay:
		return false, hapi.ResponseCodeEnum_INVALID_TOKEN_ID_IN_CUSTOM_FEES
	case denomination.NonFungible:
		return false, hapi.ResponseCodeEnum_CUSTOM_FEE_DENOMINATION_MUST_BE_FUNGIBLE_COMMON
	case h.relation(collector, denomination.ID.Num) == nil:
		return false, hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_FEE_COLLECTOR
	}
	return false, okay
}

// assess adds the custom fees of what the plan moves. Fees that are paid in other tokens
// with fees of their own cause those too.
func (p *plan) assess() hedera.Status {
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

func (p *plan) assessFungible(tp *tokenPlan) hedera.Status {
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
			if status := p.charge(tp.t, e.a, fixed, p.collector(fee), 1); status != okay {
				return status
			}
		}
	}
	return okay
}

func (p *plan) collector(fee *hapi.CustomFee) *state.Party {
	return p.h.o.EntityAccount(fee.GetFeeCollectorAccountId().GetAccountNum())
}

// charge takes a fixed fee.
func (p *plan) charge(of *state.Token, payer *state.Party, fee *hapi.FixedFee, collector *state.Party, depth int) hedera.Status {
	if payer == collector {
		return okay
	}
	id := fee.GetDenominatingTokenId()
	assessed := history.AssessedFee{Amount: fee.GetAmount(), Collector: hedera.Entity(collector.Num), Payers: []hedera.ID{hedera.Entity(payer.Num)}}
	if id == nil {
		add(&p.hbar, payer, -fee.GetAmount(), true)
		add(&p.hbar, collector, fee.GetAmount(), false)
		p.h.did().Fees = append(p.h.did().Fees, assessed)
		return okay
	}
	denomination, status := p.h.usable(id)
	if status != okay {
		return status
	}
	if p.h.relation(payer.Num, denomination.ID.Num) == nil {
		return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_ACCOUNT
	}
	tp := p.of(denomination)
	add(&tp.entries, payer, -fee.GetAmount(), true)
	add(&tp.entries, collector, fee.GetAmount(), false)
	assessed.Token = denomination.ID
	p.h.did().Fees = append(p.h.did().Fees, assessed)
	if denomination.ID == of.ID {
		return okay
	}
	for _, next := range denomination.Fees {
		fixed := next.GetFixedFee()
		switch {
		case fixed == nil || exempt(denomination, next, payer.Num):
			continue
		case depth >= maxFeeDepth:
			return hapi.ResponseCodeEnum_CUSTOM_FEE_CHARGING_EXCEEDED_MAX_RECURSION_DEPTH
		}
		if status := p.charge(denomination, payer, fixed, p.collector(next), depth+1); status != okay {
			return status
		}
	}
	return okay
}

// chargeFraction takes a part of what is sent: from what receivers get, or from the
// sender on top of it.
func (p *plan) chargeFraction(tp *tokenPlan, moved []entry, sender entry, fee *hapi.CustomFee) hedera.Status {
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
	p.h.did().Fees = append(p.h.did().Fees, assessed)
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
func (p *plan) assessNFTs(tp *tokenPlan) hedera.Status {
	gains := p.gains()
	var settled []int64 // senders whose royalties are done
	for _, move := range tp.nfts {
		from := p.h.o.EntityAccount(move.nft.Owner.Num)
		royalties := !slices.Contains(settled, from.Num)
		for _, fee := range tp.t.Fees {
			if exempt(tp.t, fee, from.Num) {
				continue
			}
			status := okay
			if fixed := fee.GetFixedFee(); fixed != nil {
				status = p.charge(tp.t, from, fixed, p.collector(fee), 1)
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

func (p *plan) gains() (list []gain) {
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
func (p *plan) chargeRoyalty(t *state.Token, gains []gain, from, to *state.Party, fee *hapi.CustomFee) hedera.Status {
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
			if p.h.relation(collector.Num, g.t.ID.Num) == nil {
				return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_FEE_COLLECTOR
			}
			list, assessed.Token = &p.of(g.t).entries, g.t.ID
		}
		add(list, from, -amount, true)
		add(list, collector, amount, false)
		p.h.did().Fees = append(p.h.did().Fees, assessed)
	}
	fallback := royalty.GetFallbackFee()
	if paid || fallback == nil || exempt(t, fee, to.Num) {
		return okay
	}
	if !p.h.signedBy(to) {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return p.charge(t, to, fallback, collector, 1)
}
