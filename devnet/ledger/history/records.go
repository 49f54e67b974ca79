package history

import (
	"cmp"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Block is a closed block. Its records are in consensus order, children beside
// their parents.
type Block struct {
	Number   int64
	Hash     state.Hash48
	Previous state.Hash48 // zeros for block 0
	From, To hedera.Timestamp
	Records  []*Record   `json:"-"`
	GasUsed  uint64      // sum over top-level EVM results
	Bloom    types.Bloom // over top-level EVM results
	Size     int         // bytes of the transactions in it

	results, logs int   // how many there are
	weight        int64 // rough size in memory, bytes
}

// Record is one handled transaction: what a client submitted, or a child that the
// handling of one caused. It is immutable once its block is published.
type Record struct {
	Consensus     hedera.Timestamp
	Parent        hedera.Timestamp // consensus time of the parent; zero for a submitted transaction
	Batch         hedera.Timestamp // consensus time of the batch that it was in; zero for none
	BatchKey      *hapi.Key        // that agreed to the batch; nil outside of one
	ID            hedera.TransactionID
	Hash          state.Hash48
	Kind          Kind
	Status        hedera.Status
	Node          hedera.ID // node account that took it
	Memo          string
	MaxFee        hedera.Tinybar
	Fee           hedera.Tinybar // all that was charged, gas included
	ValidDuration int64          // seconds
	Transfers     []Transfer     // by account number, sum zero
	Entity        hedera.ID      // what it acted on: account, contract or file; zero for none

	// What the receipt names; zero where it does not apply.
	Account, File, ContractID hedera.ID

	Alias        []byte // serialised key that became the alias of an account it created
	EVMAddress   []byte // 20 bytes, of an account that it created
	EthereumHash common.Hash
	PRNG         []byte // 48 bytes of pseudorandom seed, where one was drawn

	Block    int64 // number of its block
	Result   *EVMResult
	Children []*Record `json:"-"` // in consensus order; nil for a child

	Seed    state.Hash48 // the randomness it saw
	Effects *Effects     // nil: none; see [Record.Did]
}

// IsChild tells whether the record was caused by another transaction.
func (r *Record) IsChild() bool { return !r.Parent.IsZero() }

// Executed tells whether an EVM result exists that took part in its block, so
// that it has a transaction index there. One that is Refused has, too.
func (r *Record) Executed() bool { return r.Result != nil && r.Result.Index >= 0 }

// Kind names the type of a transaction, in the spelling of the mirror node.
type Kind string

// Some of the kinds.
const (
	KindEthereum       Kind = "ETHEREUMTRANSACTION"
	KindContractCreate Kind = "CONTRACTCREATEINSTANCE"
	KindCryptoCreate   Kind = "CRYPTOCREATEACCOUNT"
	KindCryptoUpdate   Kind = "CRYPTOUPDATEACCOUNT"
	KindCryptoTransfer Kind = "CRYPTOTRANSFER"
	KindCryptoApprove  Kind = "CRYPTOAPPROVEALLOWANCE"
	KindFileCreate     Kind = "FILECREATE"
	KindFileAppend     Kind = "FILEAPPEND"
	KindFileDelete     Kind = "FILEDELETE"
	KindTokenCreate    Kind = "TOKENCREATION"
	KindTokenMint      Kind = "TOKENMINT"
	KindTokenBurn      Kind = "TOKENBURN"
	KindTokenWipe      Kind = "TOKENWIPE"
	KindTokenAirdrop   Kind = "TOKENAIRDROP"
	KindTokenClaim     Kind = "TOKENCLAIMAIRDROP"
	KindTokenCancel    Kind = "TOKENCANCELAIRDROP"
	KindTokenReject    Kind = "TOKENREJECT"
	KindScheduleCreate Kind = "SCHEDULECREATE"
	KindBatch          Kind = "ATOMICBATCH"
	KindUnknown        Kind = "UNKNOWN" // what is not handled here
)

// Transfer is a net change of one account's balance.
type Transfer struct {
	Account  hedera.ID
	Amount   hedera.Tinybar
	Approval bool // spent from an allowance
}

// EVMResult is what the EVM made of a transaction, or how it refused it.
type EVMResult struct {
	From    hedera.ID      // zero when the sender does not exist
	Sender  common.Address // EVM address of From
	To      []byte         // as signed, 20 bytes or empty; long-zero or EVM address for HAPI calls
	Create  bool
	Address common.Address // the contract or account called or created; zero when none
	Target  hedera.ID      // entity of Address; zero when none

	HasResult    bool   // false where no function result exists (call_result is null)
	Output       []byte // return data; empty on failure
	ErrorMessage string // empty on success
	Input        []byte // call data or init code
	Amount       hedera.Tinybar
	GasLimit     uint64
	GasUsed      uint64
	GasPrice     hedera.Tinybar

	// Ethereum transactions only.
	Raw            []byte // signed transaction bytes; nil for HAPI calls
	SignerNonce    int64  // sender nonce afterwards; -1 when unknown
	Authorizations []types.SetCodeAuthorization

	Index        int          // among the EVM transactions of the block; -1 for what has no place there
	Refused      bool         // it has a place and did not run: nobody would pay, or the amount is negative
	Bloom        *types.Bloom // nil without logs
	Logs         []*Log
	Created      []hedera.ID // contracts created, the top-level one included
	Nonces       []ContractNonce
	StateChanges []StateChange
	Actions      []Action
}

// Log is an event, with its place in the block.
type Log struct {
	Address  common.Address
	Contract hedera.ID
	Topics   []common.Hash
	Data     []byte
	Index    int // within the block
}

// Bloom returns the bloom filter of the single log.
func (l *Log) Bloom() types.Bloom {
	var b types.Bloom
	b.Add(l.Address.Bytes())
	for _, topic := range l.Topics {
		b.Add(topic.Bytes())
	}
	return b
}

// ContractNonce is the nonce of a contract that a transaction changed.
type ContractNonce struct {
	Contract hedera.ID
	Nonce    int64
}

// StateChange is one storage slot that a transaction read or wrote.
type StateChange struct {
	Contract hedera.ID
	Address  common.Address
	Slot     common.Hash
	Read     common.Hash  // the value before the transaction
	Written  *common.Hash // nil when it was only read
}

// Action is one frame of the call tree, in the order of entry. Index 0 is the root.
type Action struct {
	CallType      CallType
	Operation     string // the opcode it came from
	Depth         int
	Caller        hedera.ID
	CallerIsCode  bool // the caller is a contract
	From          common.Address
	Recipient     hedera.ID // zero when To is no entity
	RecipientCode bool      // the recipient is a contract
	To            common.Address
	Value         hedera.Tinybar
	Gas, GasUsed  uint64
	Input         []byte
	Result        []byte // output, revert data, or the name of the failure
	ResultType    ResultType
}

// CallType is the class of an action.
type CallType string

// The classes of actions.
const (
	CallTypeCall       CallType = "CALL"
	CallTypeCreate     CallType = "CREATE"
	CallTypePrecompile CallType = "PRECOMPILE"
	CallTypeSystem     CallType = "SYSTEM"
)

// ResultType says what Action.Result holds.
type ResultType string

// The kinds of results.
const (
	ResultOutput ResultType = "OUTPUT"
	ResultRevert ResultType = "REVERT_REASON"
	ResultError  ResultType = "ERROR"
)

// ConsensusEntry is one Ethereum transaction in the order in which consensus saw
// it, whatever became of it.
type ConsensusEntry struct {
	Sequence int64 // counts from 0 over the life of the ledger
	Sender   common.Address
	Nonce    uint64
	Hash     common.Hash
	Node     hedera.ID
	Status   hedera.Status
	Time     hedera.Timestamp
}

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
