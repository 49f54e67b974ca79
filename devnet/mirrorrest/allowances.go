package mirrorrest

import (
	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

type sinceJSON struct {
	From string  `json:"from"`
	To   *string `json:"to"`
}

type allowanceJSON struct {
	Amount        int64     `json:"amount"`
	AmountGranted int64     `json:"amount_granted"`
	Owner         string    `json:"owner"`
	Spender       string    `json:"spender"`
	Timestamp     sinceJSON `json:"timestamp"`
}

type tokenAllowanceJSON struct {
	allowanceJSON
	TokenID string `json:"token_id"`
}

func allowanceOf(a *ledger.Allowance) allowanceJSON {
	return allowanceJSON{
		Amount: a.Amount, AmountGranted: a.Granted, Owner: a.Owner.String(), Spender: a.Spender.String(),
		Timestamp: sinceJSON{From: a.Since.String()},
	}
}

// listCryptoAllowances answers accounts/{id}/allowances/crypto.
func listCryptoAllowances(r *request) (any, error) {
	q, err := r.query(params{"spender.id": isParty}, descending)
	if err != nil {
		return nil, err
	}
	owner, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	spenders := q.bounds("spender.id", r.party)
	out := struct {
		Allowances []allowanceJSON `json:"allowances"`
		paged
	}{Allowances: []allowanceJSON{}}
	for a := range r.view.Allowances(owner.ID, q.desc) {
		if !a.Token.IsZero() || !spenders.allows(a.Spender.Num) {
			continue
		}
		if out.Allowances = append(out.Allowances, allowanceOf(a)); len(out.Allowances) == q.limit {
			full := !spenders.ends(a.Spender.Num, q.desc)
			out.Links = q.next(r.self(), full, cursor{name: "spender.id", value: a.Spender.String()})
			break
		}
	}
	return out, nil
}

// listTokenAllowances answers accounts/{id}/allowances/tokens, by spender and token.
func listTokenAllowances(r *request) (any, error) {
	q, err := r.query(params{"spender.id": isParty, "token.id": isParty}, descending)
	if err != nil {
		return nil, err
	}
	owner, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	spenders, tokens := q.bounds("spender.id", r.party), q.bounds("token.id", tokenNumber)
	out := struct {
		Allowances []tokenAllowanceJSON `json:"allowances"`
		paged
	}{Allowances: []tokenAllowanceJSON{}}
	for a := range r.view.Allowances(owner.ID, q.desc) {
		if a.Token.IsZero() || !pairAllowed(&spenders, &tokens, a.Spender.Num, a.Token.Num) {
			continue
		}
		out.Allowances = append(out.Allowances, tokenAllowanceJSON{allowanceOf(a), a.Token.String()})
		if len(out.Allowances) == q.limit {
			out.Links = q.next(r.self(), true,
				cursor{name: "spender.id", value: a.Spender.String(), inclusive: true},
				cursor{name: "token.id", value: a.Token.String()})
			break
		}
	}
	return out, nil
}

type nftAllowanceJSON struct {
	ApprovedForAll bool      `json:"approved_for_all"`
	Owner          string    `json:"owner"`
	Spender        string    `json:"spender"`
	Timestamp      sinceJSON `json:"timestamp"`
	TokenID        string    `json:"token_id"`
}

// listNFTAllowances answers accounts/{id}/allowances/nfts: what the account gave, or with
// owner=false what it got.
func listNFTAllowances(r *request) (any, error) {
	q, err := r.query(params{"account.id": isParty, "owner": isFlag, "token.id": isParty}, ascending)
	if err != nil {
		return nil, err
	}
	party, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	others, tokens := q.bounds("account.id", r.party), q.bounds("token.id", tokenNumber)
	gave := q.flag("owner", true)
	from := party.ID
	if !gave {
		from = hedera.ID{}
	}
	out := struct {
		Allowances []nftAllowanceJSON `json:"allowances"`
		paged
	}{Allowances: []nftAllowanceJSON{}}
	for a := range r.view.NFTAllowances(from, q.desc) {
		other := a.Spender
		if !gave {
			other = a.Owner
		}
		if !a.Approved || !gave && a.Spender != party.ID || !pairAllowed(&others, &tokens, other.Num, a.Token.Num) {
			continue
		}
		out.Allowances = append(out.Allowances, nftAllowanceJSON{
			ApprovedForAll: a.Approved, Owner: a.Owner.String(), Spender: a.Spender.String(),
			Timestamp: sinceJSON{From: a.Since.String()}, TokenID: a.Token.String(),
		})
		if len(out.Allowances) == q.limit {
			out.Links = q.next(r.self(), true,
				cursor{name: "account.id", value: other.String(), inclusive: true},
				cursor{name: "token.id", value: a.Token.String()})
			break
		}
	}
	return out, nil
}
