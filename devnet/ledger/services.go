package ledger

import (
	"cmp"
	"slices"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Token is a token as it was at one moment. The slices and messages in it are shared and
// must not be changed.
type Token struct {
	ID          hedera.ID
	Name        string
	Symbol      string
	Memo        string
	Metadata    []byte
	NonFungible bool
	Decimals    uint32
	Supply      int64 // in existence: the smallest units, or the number of NFTs
	Initial     int64 // supply at creation
	MaxSupply   int64 // 0: no maximum
	LastSerial  int64 // of the newest NFT
	Treasury    hedera.ID

	Keys          TokenKeys
	FreezeDefault bool
	Paused        bool
	Deleted       bool
	Fees          []*hapi.CustomFee
	FeesSince     hedera.Timestamp // when Fees were last set

	AutoRenewAccount hedera.ID // zero for none
	AutoRenewPeriod  int64     // seconds; 0 for none
	Created          hedera.Timestamp
	Modified         hedera.Timestamp
	Expires          hedera.Timestamp
}

// TokenKeys are the keys that may change a token; nil for those it does not have.
type TokenKeys struct {
	Admin, KYC, Freeze, Wipe, Supply, FeeSchedule, Pause, Metadata *hapi.Key
}

// Relation is an account's association with a token. A freeze or KYC state means nothing
// for a token without the key for it.
type Relation struct {
	Account   hedera.ID
	Token     hedera.ID
	Balance   int64 // smallest units, or the number of NFTs
	Frozen    bool
	KYC       bool // granted, or not asked for
	Automatic bool // made by a transfer
	Created   hedera.Timestamp
}

// NFT is one non-fungible token, burned ones included.
type NFT struct {
	Token   hedera.ID
	Serial  int64
	Owner   hedera.ID
	Spender hedera.ID // approved for this one; zero for none
	// Delegating is who approved the spender instead of the owner; zero for nobody.
	Delegating hedera.ID
	Metadata   []byte
	Created    hedera.Timestamp
	Modified   hedera.Timestamp
	Deleted    bool
}

// Allowance is what an owner lets a spender spend: hbar where Token is zero.
type Allowance struct {
	Owner, Spender, Token hedera.ID
	Granted               int64 // as approved
	Amount                int64 // what is left
	Since                 hedera.Timestamp
}

// NFTAllowance lets a spender transfer all NFTs that an owner has of a token.
type NFTAllowance struct {
	Owner, Spender, Token hedera.ID
	Approved              bool
	Since                 hedera.Timestamp
}

// Effects are what a transaction did beside what every record tells. They belong to its
// record.
type Effects struct {
	Token        hedera.ID // created
	TokenSupply  int64     // after a change of it
	Serials      []int64   // of minted NFTs
	Tokens       []TokenTransfer
	NFTs         []NFTTransfer
	Airdrops     []Airdrop // that are pending since
	Fees         []AssessedFee
	Associations []Association        // made by transfers
	Topic        hedera.ID            // created
	Schedule     hedera.ID            // created, or found to be identical
	Scheduled    hedera.TransactionID // of the schedule that was created, signed or found
	ScheduleRef  hedera.ID            // the schedule that the transaction was waiting in
	Message      *TopicMessage        // submitted
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

// did returns the effects of the transaction to add to.
func (h *handling) did() *Effects {
	if h.r.Effects == nil {
		h.r.Effects = &Effects{}
	}
	return h.r.Effects
}

// sorted puts transfers into the order in which records list them, and sums those that
// belong together.
func (e *Effects) sorted() {
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
