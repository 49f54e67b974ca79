package mirrorrest

import (
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

func airdropOf(a *state.Airdrop) any {
	out := object{
		"amount": a.Amount, "receiver_id": a.Receiver.String(), "sender_id": a.Sender.String(), "serial_number": nil,
		"timestamp": rangeJSON{From: a.Since.String()}, "token_id": a.Token.String(),
	}
	if a.Serial != 0 {
		out["serial_number"] = a.Serial
	}
	return out
}

// listOutstandingAirdrops answers accounts/{id}/airdrops/outstanding: what the account sent
// and others have not claimed.
func listOutstandingAirdrops(r *request, q *query) (any, error) {
	return r.airdrops(q, false, "receiver.id", func(a *state.Airdrop) hedera.ID { return a.Receiver })
}

// listPendingAirdrops answers accounts/{id}/airdrops/pending: what the account may claim.
func listPendingAirdrops(r *request, q *query) (any, error) {
	return r.airdrops(q, true, "sender.id", func(a *state.Airdrop) hedera.ID { return a.Sender })
}

// airdrops lists by the other party, the token and the serial number, which is 0 for a
// fungible token.
func (r *request) airdrops(q *query, received bool, party string, other func(*state.Airdrop) hedera.ID) (any, error) {
	account, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	return list(r, q, "airdrops", r.view.Airdrops(account.ID, received, q.desc), airdropOf,
		byID(party, r.party, other), byID("token.id", tokenNumber, func(a *state.Airdrop) hedera.ID { return a.Token }),
		byNumber("serialnumber", func(a *state.Airdrop) int64 { return a.Serial })), nil
}
