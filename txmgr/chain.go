package txmgr

import (
	"context"
	"encoding/json"
	"math/big"
)

// Order is what a chain does with a nonce that is above an account's next one.
type Order int

// The orders.
const (
	OrderPool   Order = iota // takes it and keeps it until those below it are executed
	OrderStrict              // refuses it
	OrderRising              // executes it, and then never those below it
)

// Validity is how long a signed transaction can be executed.
type Validity int

// The validities.
const (
	ValidAlways  Validity = iota // until its nonce is used
	ValidTag                     // for a time that its tag tells; the same bytes under another tag have a time of their own
	ValidPayload                 // for a time that its bytes tell; afterwards another payload must be signed
)

// Traits tell what the owner may rely on. They are free of any one chain's words.
type Traits struct {
	Mempool  bool     // transactions wait at the node: they can be replaced, cancelled, dropped
	Order    Order    // without a pool a lane's next transaction leaves when an endpoint has taken all before it
	Validity Validity // if not for ever, the driver can prove that an attempt is never executed any more (Expired)
	Depth    uint64   // blocks on top of a transaction's block that make it final; 0: at once
	InFlight int      // slots of one lane that may be unconsumed
	Unit     Unit     // of its money
	Dev      bool     // a development chain, which is reset without asking
}

// Patient reports whether bytes that may have left wait before they are offered again: only the next nonce is
// executed, what is refused may be charged, and no record tells that the first offer came to nothing.
func (t Traits) Patient() bool { return t.Order == OrderStrict && t.Validity == ValidAlways }

// InLine reports whether a transaction may leave only behind those before it.
func (t Traits) InLine() bool { return t.Order != OrderPool }

// Head is the newest block of one endpoint.
type Head struct {
	Number uint64
	Hash   string
	Time   int64 // microseconds since 1970
}

// Nonces are an account's, by one endpoint.
type Nonces struct {
	Latest uint64 // the next nonce after the newest block
	Head   Head   // an endpoint's state is at least as new as this
}

// Call is a transaction before it has a nonce.
type Call struct {
	From  string
	To    string // "" deploys
	Value *big.Int
	Data  []byte
	Gas   uint64 // 0: unknown
	// Funded: for Simulate, From is to be treated as if it could pay.
	Funded bool
	State  string // "latest" or "pending"
	Extra  Extra
}

// Simulation is what would happen.
type Simulation struct {
	Success bool
	Gas     uint64 // limit to use
	Output  []byte
	Reason  string // why it would fail
}

// Market is what fees cost now.
type Market struct {
	BaseFee *big.Int        // nil on a chain without one
	Tips    map[string]Fees // by speed
	Cap     *big.Int        // what nothing should cost more than, by the last hour; nil: not known
	At      int64           // when it was measured
}

// Draft is a transaction that wants to be signed.
type Draft struct {
	Signer string
	Nonce  uint64
	Call
	Fees Fees
	// Behind is the tag of the attempt that left before this one and is not known to be
	// executed yet; "" if there is none. Only chains whose transactions leave in line are told.
	Behind string
}

// Unsigned is a draft in the chain's own form.
type Unsigned struct {
	Bytes []byte // the transaction without its signature: what the key hashes and signs
	Form  any    // the driver's own
	Tag   string // goes with the attempt
}

// Signed is a transaction as bytes.
type Signed struct {
	Hash  string
	Raw   []byte
	Tag   string
	Again bool // of Send: it was offered before, or may have been
}

// Decoded is a transaction that a caller signed.
type Decoded struct {
	Signed
	Signer string
	Nonce  uint64
	Call
	Fees Fees
}

// Lookup is one endpoint's answer about one hash.
type Lookup struct {
	Hash, Tag string   // of the question
	Receipt   *Receipt // nil: this endpoint has none
	Refused   *Refusal // the chain has recorded that it was not executed under this tag and never will be
	Err       error    // the question failed: nothing is known
}

// Refusal is a chain's own record of a transaction that was not executed and did not use its
// nonce. ClassFatal: nor can it be under another tag. ClassFunds: somebody could not pay for it; it is not tried again, since
// each try is charged.
type Refusal struct {
	Class Class
	Text  string
}

// Consumer is the transaction that used a nonce, or one above it where that ends it.
type Consumer struct {
	Hash      string
	Block     uint64
	BlockHash string
	Head      Head // of the endpoint that said so
}

// FirstUse is for drivers that look for a Consumer: it finds the first block after which a nonce is used, as it is after the head. It walks back from the
// head in growing steps, since most endpoints keep old states for a short while only, and halves what is left.
func FirstUse(head uint64, used func(block uint64) (bool, error)) (uint64, error) {
	low, high := uint64(0), head
	for step := uint64(1); low < high; step *= 2 {
		at := high - min(step, high)
		if low > 0 {
			at = low + (high-low)/2
		}
		past, err := used(at)
		switch {
		case err != nil:
			return 0, err
		case past:
			high = at
		default:
			low = at + 1
		}
	}
	return low, nil
}

// Chain is the driver of one chain. Its methods may be called at once from many goroutines.
// Errors of questions mean that nothing is known.
type Chain interface {
	// ID is the chain's name in the ledger: for Ethereum its number in decimal.
	ID() string
	// Traits may be asked at any time and never change.
	Traits() Traits
	// Identity tells this chain apart from another one, or another run of it, with the same
	// id: for Ethereum the hash of the first block. Where the endpoint lacks that it is ID() alone, which proves nothing.
	Identity(ctx context.Context) (string, error)
	// Account returns the ledger's form of an account's name, or an error.
	Account(text string) (string, error)
	// Head asks for the newest block.
	Head(ctx context.Context) (Head, error)
	// BlockHash returns the hash of the block at a height, "" if the chain has none there, or the endpoint that says so has fewer than so many blocks above it:
	// its block may be one that the chain has left.
	BlockHash(ctx context.Context, number, above uint64) (string, error)
	// Nonces asks one endpoint; Latest is never lower than an answer at its own Head allows.
	Nonces(ctx context.Context, account string) (Nonces, error)
	// HighestPending asks every endpoint and returns the highest nonces: the next one after the newest block, and that
	// behind what waits; an error if any of them does not answer, unless it has been silent for half a minute.
	HighestPending(ctx context.Context, account string) (latest, pending uint64, err error)
	// Balance returns the account's money.
	Balance(ctx context.Context, account string) (*big.Int, error)
	// Delegated reports whether the account's key has delegated it to code, which limits it to
	// one transaction in flight.
	Delegated(ctx context.Context, account string) (bool, error)
	// Market returns what fees cost.
	Market(ctx context.Context) (Market, error)
	// Simulate tries a call without sending it. An error says that it could not be tried.
	Simulate(ctx context.Context, call Call) (Simulation, error)
	// Prepare gives a draft the chain's form.
	Prepare(ctx context.Context, draft Draft) (Unsigned, error)
	// Seal puts a signature to it.
	Seal(unsigned Unsigned, signature []byte) (Signed, error)
	// Decode reads a transaction that a caller signed. It checks signature and chain.
	Decode(raw []byte) (Decoded, error)
	// Send offers transactions of one lane in this order and answers for each: nil if the
	// endpoint has taken it, or a *SendError. It never changes the bytes. What it could not
	// offer at all is ClassNotSent.
	Send(ctx context.Context, list []Signed) []error
	// Receipts asks one endpoint for several hashes, which are in the order of their nonces.
	// If the error is nil, Head is that endpoint's head from before the questions.
	Receipts(ctx context.Context, list []Signed) (Head, []Lookup, error)
	// Consumer finds the transaction that used a nonce below Nonces.Latest: with OrderRising
	// the lowest from this nonce on, so that this one is never executed. It returns nil without
	// an error if the endpoint's chain has none.
	Consumer(ctx context.Context, account string, nonce uint64) (*Consumer, error)
	// Expired reports whether an attempt that was never seen executed can never execute any
	// more, with ValidTag under its tag. With ValidAlways it is false.
	Expired(ctx context.Context, attempt Signed) (bool, error)
	// Renew gives the bytes of an attempt that has expired, or was refused, a new tag. The
	// bytes and their nonce stay, so that the chain executes them once, whatever becomes of
	// the old tag. ErrNotPossible unless the chain has ValidTag.
	Renew(ctx context.Context, attempt Signed, behind string) (Signed, error)
}

// Troubled is a Chain that knows by itself why nothing can be sent on it.
type Troubled interface {
	// Trouble says why the network refuses whatever is sent, in words without secrets; "" if nothing is known to be wrong.
	Trouble() string
}

// Anchored is a Chain that may ask several endpoints, and asks none that is on another fork than the block that is named here.
type Anchored interface {
	// Anchor names a final block; "" for its hash: none is known. One below the one that was named last says nothing new.
	Anchor(number uint64, hash string)
}

// Composer is a Chain whose transactions are lists of actions, which callers may hand over as JSON instead of To, Value
// and Data.
type Composer interface {
	// Compose returns the call that the actions are. To and From are empty if the actions do not tell.
	Compose(actions []byte) (Call, error)
}

// Calling is a call by the signature of its function, or the deployment of a contract whose constructor takes arguments.
type Calling struct {
	Function string            // a declaration such as "transfer(address to,uint256 amount)", or a name of the ABI; to deploy "constructor(…)" or ""
	Args     []json.RawMessage // one for each argument
	Bytecode []byte            // deploys
	ABI      json.RawMessage   // as a compiler writes it; may be missing where Function tells the types
}

// Encoder is a Chain whose contracts have functions with typed arguments, and fail with typed errors.
type Encoder interface {
	// Encode returns Call.Data, and the errors that the ABI declares, as Extra has them. Errors are InvalidErrors of the members of Calling by
	// their names in a body.
	Encode(c Calling) (data []byte, declared []string, err error)
	// Check refuses, with an InvalidError, an Extra that no transaction of the chain can have, and gas that is too little for its data. Gas of 0 is
	// estimated later.
	Check(call Call) error
	// Reason puts what a failed call returned in words, with the errors that were declared; "" if it tells nothing.
	Reason(output []byte, declared []string) string
}

// Replayer is a Chain whose receipts do not say why a transaction failed, but whose endpoints can try it again on the state that it had.
type Replayer interface {
	// Replay tries an executed call again where it was executed. Reason and Output are empty if it does not fail there.
	Replay(ctx context.Context, call Call, r *Receipt) (Simulation, error)
}

// Screener is a Chain that carries what others signed, which is checked before an intent is accepted, simulated or not.
type Screener interface {
	// Screen refuses a call with an error that says why: ErrInvalid, ErrPolicy, ErrUnavailable. It returns names of what
	// the call carries and what may be executed only once: the ledger accepts one intent for each.
	Screen(ctx context.Context, call Call) (claims []string, err error)
}

// Pooled is a Chain whose endpoints tell what waits in their pools.
type Pooled interface {
	// Pool asks one endpoint, the one that Send would ask first. next is the account's nonce after all that waits in line;
	// held tells of each given transaction whether the endpoint has it, waiting or executed.
	Pool(ctx context.Context, account string, list []Signed) (next uint64, held []bool, err error)
}

// Restricted is a Chain with keys that may sign some calls alone.
type Restricted interface {
	// MaySign returns "" if a signer's key may sign a call, else why not. An error says that this is not known.
	MaySign(ctx context.Context, signer string, call Call) (why string, err error)
}

// Key signs for one account of one chain, or of every chain of its kind.
type Key interface {
	// Account is the account's name, in any form that Chain.Account takes.
	Account() string
	// Sign hashes what Unsigned.Bytes has, as the account's kind of chain does, and signs that: for secp256k1,
	// r, s and the recovery id (0 or 1) in 65 bytes; for ed25519, its 64 bytes. It is given the bytes and not
	// their hash since some who keep keys want to see what they sign.
	// It honours the context. An error shows nothing of the key.
	Sign(ctx context.Context, unsigned []byte) ([]byte, error)
}
