package tokens

import (
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// MaxFeeDepth is how deep custom fees cause custom fees.
const MaxFeeDepth = 2

// setFees replaces the custom fees of a token. Collectors of the token itself must sign
// when it is created, and are associated with it.
func setFees(h *core.Handling, t *state.Token, fees []*hapi.CustomFee, creation bool) hedera.Status {
	if len(fees) > MaxCustomFees {
		return hapi.ResponseCodeEnum_CUSTOM_FEES_LIST_TOO_LONG
	}
	t.Fees, t.FeesSince = nil, h.Record.Consensus
	for _, given := range fees {
		fee := proto.CloneOf(given)
		collector, status := h.Party(fee.GetFeeCollectorAccountId())
		if status != okay {
			return hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_COLLECTOR
		}
		fee.FeeCollectorAccountId = hedera.Entity(collector.Num).AccountID()
		own, status := checkFee(h, t, fee, collector.Num, creation)
		switch {
		case status != okay:
			return status
		case !own:
		case creation && !h.SignedBy(collector):
			return hapi.ResponseCodeEnum_INVALID_SIGNATURE
		case Relation(h, collector.Num, t.ID.Num) != nil:
		case !creation:
			return hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_FEE_COLLECTOR
		default:
			Associate(h, t, collector.Num, false)
			h.Did().Associations = append(h.Did().Associations, history.Association{Token: t.ID, Account: hedera.Entity(collector.Num)})
		}
		t.Fees = append(t.Fees, fee)
	}
	putToken(h, t)
	return okay
}

// checkFee tells whether a fee is collected in units of its own token.
func checkFee(h *core.Handling, t *state.Token, fee *hapi.CustomFee, collector int64, creation bool) (own bool, _ hedera.Status) {
	switch kind := fee.GetFee().(type) {
	case *hapi.CustomFee_FixedFee:
		return CheckFixed(h, t, kind.FixedFee, collector, creation)
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
		return CheckFixed(h, t, f.GetFallbackFee(), collector, creation)
	default:
		return false, hapi.ResponseCodeEnum_CUSTOM_FEE_NOT_FULLY_SPECIFIED
	}
}

// CheckFixed also puts the token itself where a fee names none by number 0.
func CheckFixed(h *core.Handling, t *state.Token, fee *hapi.FixedFee, collector int64, creation bool) (own bool, _ hedera.Status) {
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
	denomination, status := Token(h, id)
	switch {
	case status != okay:
		return false, hapi.ResponseCodeEnum_INVALID_TOKEN_ID_IN_CUSTOM_FEES
	case denomination.NonFungible:
		return false, hapi.ResponseCodeEnum_CUSTOM_FEE_DENOMINATION_MUST_BE_FUNGIBLE_COMMON
	case Relation(h, collector, denomination.ID.Num) == nil:
		return false, hapi.ResponseCodeEnum_TOKEN_NOT_ASSOCIATED_TO_FEE_COLLECTOR
	}
	return false, okay
}
