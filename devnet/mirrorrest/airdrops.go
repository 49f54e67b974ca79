package mirrorrest

import (
	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

type airdropJSON struct {
	Amount       int64     `json:"amount"`
	ReceiverID   string    `json:"receiver_id"`
	SenderID     string    `json:"sender_id"`
	SerialNumber *int64    `json:"serial_number"`
	Timestamp    sinceJSON `json:"timestamp"`
	TokenID      string    `json:"token_id"`
}

func airdropOf(a *ledger.Airdrop) airdropJSON {
	out := airdropJSON{
		Amount: a.Amount, ReceiverID: a.Receiver.String(), SenderID: a.Sender.String(),
		Timestamp: sinceJSON{From: a.Since.String()}, TokenID: a.Token.String(),
	}
	if a.Serial != 0 {
		out.SerialNumber = &a.Serial
	}
	return out
}

// listOutstandingAirdrops answers accounts/{id}/airdrops/outstanding: what the account sent
// and others have not claimed.
func listOutstandingAirdrops(r *request) (any, error) {
	return r.listAirdrops(false, "receiver.id", func(a *ledger.Airdrop) hedera.ID { return a.Receiver })
}

// listPendingAirdrops answers accounts/{id}/airdrops/pending: what the account may claim.
func listPendingAirdrops(r *request) (any, error) {
	return r.listAirdrops(true, "sender.id", func(a *ledger.Airdrop) hedera.ID { return a.Sender })
}

// listAirdrops lists by the other party, the token and the serial number, which is 0 for a
// fungible token.
func (r *request) listAirdrops(received bool, party string, other func(*ledger.Airdrop) hedera.ID) (any, error) {
	q, err := r.query(params{party: isParty, "serialnumber": isCount, "token.id": isParty}, ascending)
	if err != nil {
		return nil, err
	}
	account, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	columns := [3]bounds{q.bounds(party, r.party), q.bounds("token.id", tokenNumber), q.bounds("serialnumber", parseCount)}
	out := struct {
		Airdrops []airdropJSON `json:"airdrops"`
		paged
	}{Airdrops: []airdropJSON{}}
	for a := range r.view.Airdrops(account.ID, received, q.desc) {
		if !tupleAllowed(columns[:], other(a).Num, a.Token.Num, a.Serial) {
			continue
		}
		if out.Airdrops = append(out.Airdrops, airdropOf(a)); len(out.Airdrops) == q.limit {
			out.Links = q.next(r.self(), true,
				cursor{name: party, value: other(a).String(), inclusive: true},
				cursor{name: "token.id", value: a.Token.String(), inclusive: true},
				cursor{name: "serialnumber", value: decimal(a.Serial)})
			break
		}
	}
	return out, nil
}

// tupleAllowed compares the values of columns that order a list: bounds on a column apply
// at the ends of those on the columns before it only.
func tupleAllowed(columns []bounds, values ...int64) bool {
	atLow, atHigh := true, true
	for i := range columns {
		b, v := &columns[i], values[i]
		exact := b.exact()
		switch {
		case exact && !b.allows(v):
			return false
		case !b.ranged() || exact:
			continue
		case atLow && v < b.lo, atHigh && v > b.hi:
			return false
		}
		atLow, atHigh = atLow && v == b.lo, atHigh && v == b.hi
	}
	return true
}
