package mirrorrest

import (
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

func contractOf(a state.Account) object {
	return object{
		"admin_key":                        keyOf(a.Key),
		"auto_renew_account":               idText(a.AutoRenewAccount),
		"auto_renew_period":                positive(a.AutoRenewPeriod),
		"contract_id":                      a.ID.String(),
		"created_timestamp":                timeText(a.Created),
		"deleted":                          a.Deleted,
		"evm_address":                      addressText(a.Address),
		"expiration_timestamp":             timeText(a.Expires),
		"file_id":                          idText(a.Contract.File),
		"max_automatic_token_associations": a.MaxAutoAssociations,
		"memo":                             a.Memo,
		"nonce":                            a.Nonce,
		"obtainer_id":                      idText(a.Obtainer),
		"permanent_removal":                nil,
		"proxy_account_id":                 nil,
		"timestamp":                        rangeJSON{From: a.Modified.String()},
	}
}

// getContract answers contracts/{contractIdOrAddress}.
func getContract(r *request, q *query, num int64) (any, error) {
	a, ok := r.asOf(q.timestamps()).Account(hedera.Entity(num))
	if !ok || !a.IsContract() {
		return nil, notFound()
	}
	out := contractOf(a)
	out["bytecode"], out["runtime_bytecode"] = nil, hexText(a.Contract.Runtime)
	if a.Contract.Initcode != nil {
		out["bytecode"] = hexText(a.Contract.Initcode)
	}
	return out, nil
}

// listContracts answers contracts.
func listContracts(r *request, q *query) (any, error) {
	ids := q.bounds("contract.id", r.party)
	low, high := ids.span()
	return list(r, q, "contracts", where(r.view.Accounts(low, high, q.desc), state.Account.IsContract), func(a state.Account) any { return contractOf(a) },
		byID("contract.id", r.party, func(a state.Account) hedera.ID { return a.ID })), nil
}
