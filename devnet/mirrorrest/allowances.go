package mirrorrest

import (
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

func allowanceOf(a *state.Allowance) any {
	out := object{
		"amount": a.Amount, "amount_granted": a.Granted, "owner": a.Owner.String(), "spender": a.Spender.String(),
		"timestamp": rangeJSON{From: a.Since.String()},
	}
	if !a.Token.IsZero() {
		out["token_id"] = a.Token.String()
	}
	return out
}

func (r *request) spenders() column[*state.Allowance] {
	return byID("spender.id", r.party, func(a *state.Allowance) hedera.ID { return a.Spender })
}

// listCryptoAllowances answers accounts/{id}/allowances/crypto.
func listCryptoAllowances(r *request, q *query, owner state.Account) (any, error) {
	hbar := where(r.view.Allowances(owner.ID, q.desc), func(a *state.Allowance) bool { return a.Token.IsZero() })
	return list(r, q, "allowances", hbar, allowanceOf, r.spenders()), nil
}

// listTokenAllowances answers accounts/{id}/allowances/tokens, by spender and token.
func listTokenAllowances(r *request, q *query, owner state.Account) (any, error) {
	tokens := where(r.view.Allowances(owner.ID, q.desc), func(a *state.Allowance) bool { return !a.Token.IsZero() })
	return list(r, q, "allowances", tokens, allowanceOf,
		r.spenders(), byID("token.id", tokenNumber, func(a *state.Allowance) hedera.ID { return a.Token })), nil
}

// listNFTAllowances answers accounts/{id}/allowances/nfts: what the account gave, or with
// owner=false what it got.
func listNFTAllowances(r *request, q *query, party state.Account) (any, error) {
	gave := q.flag("owner", true)
	from, other := party.ID, func(a *state.NFTAllowance) hedera.ID { return a.Spender }
	if !gave {
		from, other = hedera.ID{}, func(a *state.NFTAllowance) hedera.ID { return a.Owner }
	}
	rows := where(r.view.NFTAllowances(from, q.desc), func(a *state.NFTAllowance) bool { return a.Approved && (gave || a.Spender == party.ID) })
	return list(r, q, "allowances", rows, func(a *state.NFTAllowance) any {
		return object{
			"approved_for_all": a.Approved, "owner": a.Owner.String(), "spender": a.Spender.String(),
			"timestamp": rangeJSON{From: a.Since.String()}, "token_id": a.Token.String(),
		}
	}, byID("account.id", r.party, other), byID("token.id", tokenNumber, func(a *state.NFTAllowance) hedera.ID { return a.Token })), nil
}
