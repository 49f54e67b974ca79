package history

import (
	"cmp"
	"slices"

	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// Effects are what a transaction did beside what every record tells. They belong to its
// record.
type Effects struct {
	Token        hedera.ID // created
	TokenSupply  int64     // after a change of it
	Serials      []int64   // of minted NFTs
	Tokens       []TokenTransfer
	NFTs         []NFTTransfer
	Airdrops     []state.Airdrop // that are pending since
	Fees         []AssessedFee
	Associations []Association        // made by transfers
	Topic        hedera.ID            // created
	Schedule     hedera.ID            // created, or found to be identical
	Scheduled    hedera.TransactionID // of the schedule that was created, signed or found
	ScheduleRef  hedera.ID            // the schedule that the transaction was waiting in
	Message      *state.TopicMessage  // submitted
	Number       *int32               // drawn from a range
	Logs         []*Log               // the events that the mirror node makes of it
	Index        int                  // where there are such: its place among the block's transactions with events or results
}

// TokenTransfer is a net change of an account's balance of a fungible token.
type TokenTransfer struct {
	Token, Account hedera.ID
	Amount         int64
	Approval       bool
}

// NFTTransfer is a change of owner. Minting has no sender, burning and wiping no receiver.
type NFTTransfer struct {
	Token            hedera.ID
	Serial           int64
	Sender, Receiver hedera.ID
	Approval         bool
}

// AssessedFee is a custom fee that a transfer caused, in hbar where Token is zero.
type AssessedFee struct {
	Amount           int64
	Token, Collector hedera.ID
	Payers           []hedera.ID
}

// Association is a new pair of account and token.
type Association struct{ Token, Account hedera.ID }

var noEffects Effects

// Did returns the effects of a record; they are empty for most. They must not be changed.
func (r *Record) Did() *Effects {
	if r.Effects == nil {
		return &noEffects
	}
	return r.Effects
}

// Logs returns the events of a record: those that contracts emitted, or else those that
// the mirror node makes of what happened to tokens.
func (r *Record) Logs() []*Log {
	if r.Result != nil {
		return r.Result.Logs
	}
	return r.Did().Logs
}

// Sorted puts transfers into the order in which records list them, and sums those that
// belong together.
func (e *Effects) Sorted() {
	slices.SortStableFunc(e.Tokens, func(a, b TokenTransfer) int {
		return cmp.Or(cmp.Compare(a.Token.Num, b.Token.Num), cmp.Compare(a.Account.Num, b.Account.Num))
	})
	var list []TokenTransfer
	for _, t := range e.Tokens {
		if n := len(list); n > 0 && list[n-1].Token == t.Token && list[n-1].Account == t.Account {
			list[n-1].Amount += t.Amount
			list[n-1].Approval = list[n-1].Approval || t.Approval
			continue
		}
		list = append(list, t)
	}
	e.Tokens = slices.DeleteFunc(list, func(t TokenTransfer) bool { return t.Amount == 0 })
	slices.SortStableFunc(e.NFTs, func(a, b NFTTransfer) int {
		return cmp.Or(cmp.Compare(a.Token.Num, b.Token.Num), cmp.Compare(a.Serial, b.Serial))
	})
}
