package txmgr

import (
	"encoding/json"
	"math/big"

	"lockstep/internal/ledger"
)

// Status is where an intent is.
type Status string

// The states of an intent. The last six are fates: with Intent.Final they never change.
const (
	StatusAccepted  Status = "accepted"  // stored; no nonce
	StatusAssigned  Status = "assigned"  // has a slot; nothing signed
	StatusSigned    Status = "signed"    // an attempt is stored; nothing left the process
	StatusBroadcast Status = "broadcast" // an endpoint has taken an attempt
	StatusUnknown   Status = "unknown"   // an attempt may have left; nobody confirmed it
	StatusMined     Status = "mined"     // executed in a block that may still be replaced; see Receipt.Success
	StatusConfirmed Status = "confirmed" // executed, and the block is final
	StatusReverted  Status = "reverted"  // executed and failed, and the block is final
	StatusFailed    Status = "failed"    // can never have an effect; see Error
	StatusCancelled Status = "cancelled" // never executed, on request or because a predecessor failed
	StatusExpired   Status = "expired"   // ValidUntil passed before anything was signed
	StatusReplaced  Status = "replaced"  // another payload took its place
)

// EventKinds are the kinds of events that the stream and webhooks have: a step of an intent, that a transaction which its caller signed
// needs help, and that a reservation left a hole.
func EventKinds() []string {
	return []string{
		"tx.accepted", "tx.assigned", "tx.signed", "tx.broadcast", "tx.unknown", "tx.mined", "tx.confirmed", "tx.reverted", "tx.failed", "tx.cancelled", "tx.expired",
		"tx.replaced", "tx.stuck", "nonce.gap",
	}
}

// Ended reports whether the status is a fate.
func (s Status) Ended() bool {
	switch s {
	case StatusConfirmed, StatusReverted, StatusFailed, StatusCancelled, StatusExpired, StatusReplaced:
		return true
	default:
		return false
	}
}

// Rank orders the states by progress, for callers who wait for one.
func (s Status) Rank() int {
	switch s {
	case StatusAccepted:
		return 0
	case StatusAssigned:
		return 1
	case StatusSigned, StatusUnknown:
		return 2
	case StatusBroadcast:
		return 3
	case StatusMined:
		return 4
	default:
		return 5
	}
}

// Kind tells who signs an intent's transaction, and why there is one.
type Kind string

// The kinds of intents.
const (
	KindSend    Kind = "send"    // we sign
	KindRaw     Kind = "raw"     // the caller signed; we send and follow
	KindReplace Kind = "replace" // we sign; it takes the place of another intent in its slot
)

// Origin tells through which door an intent came.
type Origin string

// Speeds of fees: percentiles of what others pay.
const (
	SpeedSlow     = "slow"
	SpeedStandard = "standard"
	SpeedFast     = "fast"
)

// What happens to the successors of an orderKey when one fails.
const (
	OnFailureStop     = "stop"
	OnFailureContinue = "continue"
)

// Request is what a caller hands over. Amounts are in the chain's smallest unit; nil means
// that the caller did not say.
type Request struct {
	Tenant         string `db:"tenant"` // who asks; idempotency keys and reads are apart by tenant
	Chain          string `db:"chain"`
	IdempotencyKey string `db:"idem_key"` // "" for none
	Body           []byte // what the caller sent, for comparing under the same key; nil: the fields below
	Origin         Origin `db:"origin"`

	To         string   `db:"to_account"` // "" deploys a contract
	Value      *big.Int `db:"value,0"`
	Data       []byte   `db:"data"`
	Actions    []byte   // as JSON instead of Data, on a chain whose driver is a Composer
	Calling    *Calling `json:",omitempty"` // instead of Data, on a chain whose driver is an Encoder
	Extra      Extra    `json:",omitzero" db:"extra"`
	Gas        uint64   `db:"gas"` // 0: estimated
	Speed      string   `db:"speed"`
	MaxFee     *big.Int `db:"max_fee"`     // per gas
	MaxTip     *big.Int `db:"max_tip"`     // per gas
	Simulate   string   `db:"simulate"`    // "latest" (default), "pending" or "off", which needs Gas
	ValidUntil int64    `db:"valid_until"` // microseconds since 1970; 0: for ever

	Pool       string `db:"pool"`
	Pin        string `db:"pin"` // a signer
	OrderKey   string `db:"order_key"`
	ShardKey   string `db:"shard_key"`
	OnFailure  string `db:"on_failure"`
	KeepTrying bool   `db:"keep_trying"` // never cancelled for its age alone

	Subject   string          `db:"subject"`
	Actor     string          `db:"actor"`
	Method    string          `db:"method"`
	RequestID string          `db:"request_id"`
	Metadata  json.RawMessage `db:"metadata"`
}

// Extra is what only some chains' transactions have. Their drivers read it.
type Extra struct {
	AccessList     json.RawMessage `json:"accessList,omitempty"`        // EIP-2930
	Authorizations json.RawMessage `json:"authorizationList,omitempty"` // EIP-7702
	OnePrice       bool            `json:"onePrice,omitempty"`          // MaxFee is the price, and there is no tip
	Errors         []string        `json:"errors,omitempty"`            // declared by the contract: "Short(uint256 have,uint256 want)"
}

// IsZero reports whether there is nothing of it.
func (e Extra) IsZero() bool {
	return len(e.AccessList) == 0 && len(e.Authorizations) == 0 && !e.OnePrice && len(e.Errors) == 0
}

// Intent is a request with its place in the ledger.
type Intent struct {
	Request

	ID       string `db:"id"`
	Seq      int64  `db:"seq,serial"` // order of acceptance
	Era      int64  `db:"era"`        // of the chain, valid with Signer
	Kind     Kind   `db:"kind"`
	BodyHash string `db:"body_hash"`
	Status   Status `db:"status"`
	Final    bool   `db:"final"`   // the status never changes again
	Waiting  string `db:"waiting"` // why it does not move on, in words; "" when it does

	Signer    string   `db:"signer"`   // "" without a slot
	Nonce     uint64   `db:"nonce"`    // valid with Signer
	Hash      string   `db:"hash"`     // of the attempt that was mined, or else of the newest one
	Replaces  string   `db:"replaces"` // the intent whose place this one takes
	Cancel    bool     `db:"cancel"`   // a cancel was asked for and is on its way
	Receipt   *Receipt `db:"receipt"`
	Failure            // why it failed; zero: it did not
	Holds     []Hold   `db:"holds"`
	Caused    *big.Int `db:"extra_cost,0"` // what fills and cancels that it caused have cost
	Claims    []string // what it carries and no other intent may, unless this one ended without being executed; see Screener
	Accepted  int64    `db:"accepted_at"` // microseconds since 1970, as all times
	Updated   int64    `db:"updated_at"`
	FirstSent int64    `db:"first_sent"` // 0: nothing left the process yet
}

// Failure is why an intent failed or does not move on.
type Failure struct {
	Class   Class  `json:"class" db:"error_class"` // "": there is none
	Message string `json:"message" db:"error"`
}

// Told is a failure as callers see it: nil if there is none.
func (f Failure) Told() *Failure {
	if f.Class == "" {
		return nil
	}
	return &f
}

// Receipt is what a chain says of an executed transaction.
type Receipt struct {
	Hash      string          `json:"transactionHash"`
	Block     uint64          `json:"blockNumber"`
	BlockHash string          `json:"blockHash"`
	Success   bool            `json:"success"`
	GasUsed   uint64          `json:"gasUsed"`
	GasPrice  *big.Int        `json:"effectiveGasPrice"`
	Contract  string          `json:"contractAddress,omitempty"`
	Final     bool            `json:"final"`
	Reason    string          `json:"reason,omitempty"` // of a failure, where the chain tells
	Output    []byte          `json:"output,omitempty"` // of a failure: what the contract returned, where the chain tells
	Raw       json.RawMessage `json:"raw,omitempty"`    // as the chain gave it
}

// Cost returns gas used × price.
func (r *Receipt) Cost() *big.Int {
	if r == nil || r.GasPrice == nil {
		return new(big.Int)
	}
	return new(big.Int).Mul(new(big.Int).SetUint64(r.GasUsed), r.GasPrice)
}

// Hold is a part of a budget that an intent holds from its acceptance until it is settled.
type Hold struct {
	Scope  string   `json:"scope"` // whose budget: "tenant/t1", "actor/u7", a policy's id
	Day    string   `json:"day"`   // 2026-01-31, the day of acceptance
	Amount *big.Int `json:"amount"`
	Limit  *big.Int `json:"limit"` // of the scope and day; nil: none
}

// Slot is one nonce of one lane.
type Slot struct {
	Chain       string   `db:"chain"`
	Era         int64    `db:"era"` // of the chain
	Signer      string   `db:"signer"`
	Nonce       uint64   `db:"nonce"`
	Holder      Holder   `db:"holder"`
	Intent      string   `db:"intent"` // of whom; for a fill, whose fault it is
	Reservation string   `db:"reservation"`
	Cost        *big.Int `db:"cost,0"`   // the most that it may take from the signer's balance; nil: nothing
	Signed      bool     `db:"signed"`   // an attempt was ever signed for it
	Consumed    string   `db:"consumed"` // hash of the transaction that used the nonce; "" while none is known
	Block       uint64   `db:"block"`
	BlockHash   string   `db:"block_hash"`
	Final       bool     `db:"final"`
	AssignedAt  int64    `db:"assigned_at"`
	SentAt      int64    `db:"sent_at"` // first send
}

// Holder tells who a slot is for.
type Holder string

// The holders of slots.
const (
	HolderIntent      Holder = "intent"
	HolderFill        Holder = "fill"
	HolderReservation Holder = "reservation"
	HolderForeign     Holder = "foreign" // somebody else's transaction used the nonce, or waits for it (adopted)
	HolderFree        Holder = "free"    // nobody; the next intent or a fill takes it
)

// AttemptState is what is known of one signed transaction.
type AttemptState string

// The states of attempts.
const (
	AttemptSigned   AttemptState = "signed"   // stored, never sent
	AttemptSent     AttemptState = "sent"     // an endpoint has it
	AttemptUnknown  AttemptState = "unknown"  // it may have left
	AttemptRefused  AttemptState = "refused"  // an endpoint named a reason
	AttemptReplaced AttemptState = "replaced" // another attempt of the slot was mined, and stays
	AttemptMined    AttemptState = "mined"
)

// Purpose is what an attempt is to do with its slot.
type Purpose string

// The purposes of attempts.
const (
	PurposeIntent  Purpose = "intent"
	PurposeReplace Purpose = "replace"
	PurposeCancel  Purpose = "cancel"
	PurposeFill    Purpose = "fill"
	PurposeRaw     Purpose = "raw"
)

// Attempt is one signed transaction for a slot. Its bytes never change.
type Attempt struct {
	Chain   string  `db:"chain"`
	Era     int64   `db:"era"` // of the chain
	Signer  string  `db:"signer"`
	Nonce   uint64  `db:"nonce"`
	Hash    string  `db:"hash"`
	Version int     `db:"version"` // 1, 2, 3 … within the slot
	Intent  string  `db:"intent"`
	Purpose Purpose `db:"purpose"`
	Raw     []byte  `db:"raw"`
	Tag     string  `db:"tag"` // what the driver needs to send the same bytes again (Hedera: id and node)
	Fees
	Gas       uint64       `db:"gas"`
	State     AttemptState `db:"state"`
	Ambiguous bool         `db:"ambiguous"` // it was offered at least once without a definite answer
	SignedAt  int64        `db:"signed_at"`
	SentAt    int64        `db:"sent_at"` // last offer
	Offers    int          `db:"offers"`
	RefusedAt int64        `db:"refused_at"` // since when all answers are firm refusals or lost; 0: none is such a refusal, or it was taken
	Failure                // what the last answer said against it
	Term      int64        `db:"term"`
}

// Fees are what a transaction pays per gas. Tip is nil for a legacy transaction, whose
// price is Max.
type Fees struct {
	Max *big.Int `db:"max_fee,0"`
	Tip *big.Int `db:"tip"`
}

// Transaction is all that is known of an intent.
type Transaction struct {
	Intent
	Attempts []Attempt
	Timeline []Step
}

// Step is one event in an intent's life.
type Step struct {
	Cursor int64           `json:"cursor"`
	At     ledger.Moment   `json:"at" doc:"A time: RFC 3339."`
	Kind   string          `json:"kind"`
	Body   json.RawMessage `json:"body"`
}
