package state

import (
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

// All returns the keys in the order of their bits.
func (k *TokenKeys) All() []*hapi.Key {
	return []*hapi.Key{k.Admin, k.KYC, k.Freeze, k.Wipe, k.Supply, k.FeeSchedule, k.Pause, k.Metadata}
}

// Airdrop is something that a sender means for a receiver who has no place for it, or who
// wants to agree first. The sender keeps it until the receiver claims it, and may use it up.
type Airdrop struct {
	Sender, Receiver, Token hedera.ID
	Serial                  int64 // of an NFT; 0 for a fungible token
	Amount                  int64 // of a fungible token
	Since                   hedera.Timestamp
}

// Key is the airdrop's key in its table.
func (a *Airdrop) Key() AirdropKey {
	return AirdropKey{a.Sender.Num, a.Receiver.Num, a.Token.Num, a.Serial}
}
