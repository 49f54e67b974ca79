package state

import (
	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Numbers with a meaning on every Hedera network.
const (
	Treasury         = 2   // genesis account, payer of simulations without a sender
	Coinbase         = 98  // shown by COINBASE
	FeeCollector     = 802 // gas and fees end here
	LastSystemNumber = 750 // these and below take no value in the EVM
	LastSystemCode   = 1000
	FirstUserNumber  = 1001
)

// TotalSupply is 50 billion ℏ. The treasury holds what no other account got.
const TotalSupply = 50_000_000_000 * hedera.Hbar

// Hash48 is a SHA-384 digest: the hash of a block or of a HAPI transaction.
type Hash48 [48]byte

// Account is an account or a contract as it was at one moment. It is a copy; the
// slices and messages in it are shared and must not be changed.
type Account struct {
	ID       hedera.ID
	Balance  hedera.Tinybar
	Nonce    int64            // Ethereum nonce of an account, EIP-161 nonce of a contract
	Modified hedera.Timestamp // when anything here last changed
	Description
}

// Description is the part of an account or a contract that rarely changes. The ledger's own are immutable: a change
// makes a copy.
type Description struct {
	Address             common.Address // the EVM alias, or the long-zero address without one
	Alias               []byte         // as set at creation: 20-byte EVM address or serialised key; nil for none
	Key                 *hapi.Key      // nil for none; an empty KeyList for a hollow account
	Memo                string
	Created             hedera.Timestamp
	Expires             hedera.Timestamp // Created plus AutoRenewPeriod unless an update set it
	AutoRenewPeriod     int64            // seconds
	AutoRenewAccount    hedera.ID        // zero for none
	MaxAutoAssociations int32            // -1 for unlimited
	ReceiverSigRequired bool
	DeclineReward       bool
	StakedAccount       hedera.ID        // zero for none
	StakedNode          int64            // -1 for none
	StakePeriodStart    hedera.Timestamp // beginning of the day since which it stakes to the node, or since its wish about rewards changed; zero without a node
	Deleted             bool
	Obtainer            hedera.ID      // who got the balance of a deleted entity
	Contract            *Contract      // nil for an account
	Delegation          common.Address // of an account: whose code runs as its own; zero for none
}

// IsContract tells whether the entity is a contract.
func (a Account) IsContract() bool { return a.Contract != nil }

// IsHollow tells whether the account has an EVM address and no key yet.
func (a Account) IsHollow() bool {
	return a.Contract == nil && hapikey.Empty(a.Key)
}

// Contract is what a contract has beside its account.
type Contract struct {
	Initcode []byte // nil where a parent contract created it and the init code was not kept
	Runtime  []byte // deployed code
	CodeHash common.Hash
	File     hedera.ID // the file the init code came from, zero for none
}

// File is a file. The slices in it are shared and must not be changed.
type File struct {
	ID       hedera.ID
	Contents []byte
	Keys     []*hapi.Key
	Memo     string
	Created  hedera.Timestamp
	Modified hedera.Timestamp
	Expires  hedera.Timestamp
	Deleted  bool
}

// StorageSlot is one storage word of a contract.
type StorageSlot struct {
	Slot, Value common.Hash
	Modified    hedera.Timestamp
}

// Override replaces parts of an account for one simulation. Nil fields are left.
type Override struct {
	Balance   *hedera.Tinybar
	Nonce     *uint64
	Code      []byte
	State     map[common.Hash]common.Hash // replaces all storage
	StateDiff map[common.Hash]common.Hash // replaces single slots
}
