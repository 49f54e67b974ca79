package mirrorrest

import "lockstep/internal/hedera"

type accountBalanceJSON struct {
	Account string             `json:"account"`
	Balance hedera.Tinybar     `json:"balance"`
	Tokens  []tokenBalanceJSON `json:"tokens"`
}

type balancesJSON struct {
	Timestamp *string              `json:"timestamp"`
	Balances  []accountBalanceJSON `json:"balances"`
	paged
}

// listBalances answers balances. Where a real mirror node has a snapshot every
// quarter of an hour, this one knows the balance at any moment.
func listBalances(r *request) (any, error) {
	q, err := r.query(params{
		"account.balance":   isCount,
		"account.id":        isParty,
		"account.publickey": isPublicKey,
		"timestamp":         isTime,
	}, descending)
	if err != nil {
		return nil, err
	}
	r.view = r.asOf(q.timestamps())
	out := balancesJSON{Balances: []accountBalanceJSON{}}
	if _, known := r.view.Account(hedera.Entity(treasury)); !known {
		return out, nil // before the beginning
	}
	out.Timestamp = timeText(r.view.Time())
	ids := q.bounds("account.id", r.party)
	var last int64
	for a := range r.accounts(q, &ids) {
		out.Balances = append(out.Balances, accountBalanceJSON{Account: a.ID.String(), Balance: a.Balance, Tokens: tokenBalances(r.view, a.ID)})
		if last = a.ID.Num; len(out.Balances) == q.limit {
			break
		}
	}
	full := len(out.Balances) == q.limit && !ids.ends(last, q.desc)
	out.Links = q.next(r.self(), full, cursor{name: "account.id", value: hedera.Entity(last).String()})
	return out, nil
}

// treasury is the number of the account that exists as long as the ledger does.
const treasury = 2
