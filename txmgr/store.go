package txmgr

import (
	"context"
	"errors"
	"math/big"
	"time"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
)

// ErrDeposed is what every write of an owner returns when its term is over.
var ErrDeposed = lease.ErrDeposed

// ErrStale says that a write did not fit what the ledger holds; the caller reads again.
var ErrStale = errors.New("the ledger has moved on")

// Store keeps the ledger. Every method is one transaction that is durable when it returns
// nil. An error of a write may be a *ledger.UncertainError: then it was written or not, and
// the owner reads before it goes on. Writes that take a Fence change nothing and return
// ErrDeposed when its term is over. Each change of an intent leaves one event in the outbox,
// in the same transaction. All methods may be called at once from many goroutines.
type Store interface {
	// What callers reach.

	// Accept stores all intents or none, with keys and holds. It returns for each the stored
	// one: the given one, or the earlier one of the same key and body (its Seq is lower and
	// its ID another). ErrIdempotency, ErrForgotten, ErrBudget, ErrKilled.
	Accept(ctx context.Context, list []*Intent) ([]*Intent, error)
	// AcceptRaw stores an intent with its signed attempt in the slot of its nonce. *NonceConflict,
	// ErrDuplicate (with the earlier intent), ErrNoReservation, ErrLocked, and Accept's.
	AcceptRaw(ctx context.Context, intent *Intent, attempt Attempt, slot RawSlot) (*Intent, error)
	// ByKey returns the intent of an idempotency key, ErrNotFound, or ErrForgotten. With the hash of a body it is
	// ErrIdempotency if the key was used for another body, forgotten or not.
	ByKey(ctx context.Context, tenant, key, body string) (*Intent, error)
	// Get returns an intent with attempts and timeline, or ErrNotFound. Tenant "" sees all.
	Get(ctx context.Context, tenant, id string) (*Transaction, error)
	// Find returns intents, newest first, and the cursor of the next page ("" at the end).
	Find(ctx context.Context, q Query) ([]*Intent, string, error)
	// RequestCancel ends an intent that has no signed attempt, or marks a signed one so that
	// its owner cancels it. ErrTooLate if it has a fate or was mined, ErrNotPossible for a
	// transaction that the caller signed.
	RequestCancel(ctx context.Context, tenant, id string) (*Intent, error)
	// AcceptReplacement stores an intent that takes the place of another: at once if nothing
	// was signed, otherwise as another payload for its slot. ErrTooLate, ErrNotPossible.
	AcceptReplacement(ctx context.Context, tenant, old string, intent *Intent) (*Intent, error)

	// Lanes.

	// AddLane adds a lane if it is not there and returns it. A tenant can add no more than MaxAccounts that are not Ours (ErrTooMany). One that is
	// there and asleep (Lane.Asleep) is not known from then on, until its owner has read its nonce again. An existing lane becomes Ours
	// if the given one is, and gets its pools.
	AddLane(ctx context.Context, lane Lane) (*Lane, error)
	// Hold says of which lanes a process has the key, and in which pools its settings put each. It takes back what the process
	// said before, adds the lanes that are not there, and makes them Ours. It counts while the process lives.
	Hold(ctx context.Context, instance string, lanes []Lane) error
	// Lane returns one, or ErrUnknownSigner.
	Lane(ctx context.Context, chain, signer string) (*Lane, error)
	// Lanes returns those of a chain, or of all chains for "".
	Lanes(ctx context.Context, chain string) ([]*Lane, error)
	// Observe notes what was seen of a lane. Nil fields stay.
	Observe(ctx context.Context, f lease.Fence, chain, signer string, o Observation) error
	// Operate changes what an operator decides. Nil fields stay.
	Operate(ctx context.Context, chain, signer, actor string, o Operation) (*Lane, error)
	// Chain returns what is known of a chain's identity; the zero value before NoteChain.
	Chain(ctx context.Context, chain string) (ChainState, error)
	// NoteChain stores the identity and the newest final block. It takes no halt back, and no lower
	// block; ResetChain does.
	NoteChain(ctx context.Context, chain string, s ChainState) error

	// What the owner of a lane does.

	// Queue returns accepted intents of a chain in order, with a maximum of limit, beginning
	// after the number of another, each with what its predecessor of the same orderKey allows
	// it. confirmed: a predecessor frees its successors when it is final, not when it is mined.
	Queue(ctx context.Context, chain string, after int64, limit int, confirmed bool) ([]*Queued, error)
	// Line returns what is not final in a lane.
	Line(ctx context.Context, chain, signer string) (*Line, error)
	// Assign gives intents slots and notes what they may cost, in this order: free slots first, lowest first, then new
	// ones. Intents that are not accepted any more are passed over. It assigns nothing if
	// the lane is disabled, halted, killed or locked (nil, nil).
	Assign(ctx context.Context, f lease.Fence, chain, signer string, list []Placing) ([]Assignment, error)
	// FillSlot makes a free slot one to be filled; cause is the intent that is charged, or "".
	FillSlot(ctx context.Context, f lease.Fence, slot Slot, cause string) error
	// Abandon frees a slot of HolderForeign whose transaction is gone. ErrStale if it is not one,
	// or is consumed.
	Abandon(ctx context.Context, f lease.Fence, slot Slot) error
	// Commit stores signed attempts and returns those stored. An attempt is passed over if
	// its slot is consumed, or if its intent has got a fate, since it was signed, and if a kill
	// switch covers its lane, or the pool of an intent that has no other attempt. *ledger.RestoredError
	// on a server that has another history than the noted one.
	Commit(ctx context.Context, f lease.Fence, list []*Attempt) ([]*Attempt, error)
	// Answered stores what endpoints said.
	Answered(ctx context.Context, f lease.Fence, list []Answer) error
	// Prove stores which transactions used slots and what follows for their intents. For a
	// foreign transaction that is final, the slot's intents are accepted again.
	Prove(ctx context.Context, f lease.Fence, list []Proof) error
	// Unmine takes back proofs that a reorganisation has undone.
	Unmine(ctx context.Context, f lease.Fence, list []Slot) error
	// End gives an intent without a transaction in the chain a fate, and frees its slot.
	End(ctx context.Context, f lease.Fence, id string, status Status, why Failure) error
	// Release takes an intent that nothing was signed for out of its slot, which is free then.
	// The intent is accepted again and says why. ErrStale if something was signed, or it has no slot.
	Release(ctx context.Context, f lease.Fence, id, why string) error
	// Requeue takes an intent out of its slot whose attempts are proven never to execute, and
	// keeps the nonce free for the next. The intent is accepted again, or, with a reason, failed;
	// one whose cancellation was asked for is cancelled.
	Requeue(ctx context.Context, f lease.Fence, id string, failed *Failure) error
	// Wait notes why intents do not move on; "" clears it.
	Wait(ctx context.Context, f lease.Fence, why map[string]string) error
	// Stuck notes once that a transaction which its caller signed does not move, and which
	// fees a replacement needs, if any help, with the event tx.stuck.
	Stuck(ctx context.Context, f lease.Fence, id, why string, fees Fees) error
	// Foreign notes nonces that somebody else used before any slot was made for them.
	Foreign(ctx context.Context, f lease.Fence, chain, signer string, list []Consumer, first uint64) error

	// Reservations. They need no owner: the lane's row makes them atomic.

	// Reserve takes the lowest free nonce of a known lane, else the next. limit bounds what
	// the tenant may hold (ErrTooMany), holds the budgets that a fill of the nonce is charged to, next only that nothing is in flight (chains without
	// gaps; ErrLocked). ErrLocked while somebody has the lane alone. ErrUnknownSigner if the lane is not there, ErrHalted, and
	// ErrNonceUnknown before its owner has read its nonce.
	Reserve(ctx context.Context, chain, signer, tenant string, ttl int64, limit int, only bool, holds ...Hold) (*Reservation, error)
	// Renew moves the expiry. ErrNoReservation.
	RenewReservation(ctx context.Context, tenant, id string, ttl int64) (*Reservation, error)
	// Recycle gives a reservation back that no bytes were accepted for, by id or, with "",
	// by nonce, which then must be the tenant's own and never reissued. False: not possible.
	Recycle(ctx context.Context, tenant, id, chain, signer string, nonce uint64) (bool, error)
	// Expire ends reservations whose time has passed and returns them. Their slots become
	// free; on a lane of ours they are filled by its owner.
	Expire(ctx context.Context) ([]Reservation, error)
	// LockLane lets one caller have a lane alone, with its next nonce. Until it is unlocked, or its time has passed,
	// nobody gets another nonce of the lane: Reserve, LockLane and AcceptRaw without a reservation fail with ErrLocked,
	// and Assign gives none. What has its nonce goes on. The nonce is a reservation whose id is the lock's, and
	// counts for limit. Reserve's errors.
	LockLane(ctx context.Context, chain, signer, tenant string, ttl int64, limit int, only bool, holds ...Hold) (*Reservation, error)
	// UnlockLane ends it if lockID is the holder's. False otherwise.
	UnlockLane(ctx context.Context, chain, signer, tenant, lockID string) (bool, error)

	// What operators and the stream reach.

	// Kill turns a switch on or off. Scopes: "all", "chain/ID", "pool/ID/NAME", "signer/ID/ACCOUNT".
	Kill(ctx context.Context, scope, actor, reason string, on bool) error
	Kills(ctx context.Context) (map[string]string, error)
	// ResetChain makes a reset chain's lanes new: era + 1, open intents failed with the class
	// "chain_reset", nonces to be read again.
	// ErrStale if its era is another one than the given: somebody was faster.
	ResetChain(ctx context.Context, chain, actor, identity string, era int64) error
	// Reconcile clears a lane's halt and sets its next nonce to adopted. Somebody else's
	// transactions wait at the nonces from next up to it: they get slots of HolderForeign.
	Reconcile(ctx context.Context, chain, signer, actor string, next, adopted uint64) (*Lane, error)
	// Audit writes a line that is never changed.
	Audit(ctx context.Context, actor, action, subject, body string) error
	// Forget deletes what became final before a time, with a maximum of limit intents, and leaves the
	// tombstones of their keys. It leaves an intent alone that has an attempt in a slot which is
	// not final. It returns how many.
	Forget(ctx context.Context, before int64, limit int) (int, error)
	// Tidy deletes what is over, is older than a time and belongs to no intent, with a maximum of limit rows of each: slots that
	// somebody else's transactions used or that were filled, reservations, nonce.gap events, and
	// budgets of days for which nothing is held. A reservation stays while its nonce may be given again. It returns how many.
	Tidy(ctx context.Context, before int64, limit int) (int, error)
	// OnEnded sets what gets each intent that this process has given its fate, once that is durable, and only then.
	// It is set before the store is used.
	OnEnded(f func(*Intent))
	// Events and Sequence are the stream.
	Events(ctx context.Context, after int64, limit int) ([]ledger.Event, error)
	Sequence(ctx context.Context) (int64, error)
	// CheckIdentity fails with *ledger.RestoredError on a restored database.
	CheckIdentity(ctx context.Context) error
	AcceptIdentity(ctx context.Context, actor string) error
	// Now is the database's clock.
	Now(ctx context.Context) (int64, error)
	Ping(ctx context.Context) error
}

// RawSlot says what the caller of AcceptRaw knows of the slot.
type RawSlot struct {
	Reservation string // the id of the held one that it uses, "" for none
	// NoIDs: this caller's calls have no place for an id. It is believed that its bytes are those of the
	// reservation which has the nonce now. From others a nonce that they had several times needs the id.
	NoIDs bool
}

// Query selects intents; empty fields select all.
type Query struct {
	Tenant, Chain, Hash, Key, Signer string
	Nonce                            *uint64
	Status                           Status
	Cursor                           string
	Limit                            int
}

// Lane is one (chain, signer): its row in signer_chains and what is counted from slots.
type Lane struct {
	Chain        string   `db:"chain"`
	Signer       string   `db:"signer"`
	Tenant       string   `db:"tenant"` // who brought it, if it is not Ours
	Ours         bool     `db:"ours"`   // this fleet holds its key; otherwise its callers sign
	Pools        []string `db:"pools"`  // of the settings of processes that live, and of operators
	Holders      []string // processes that live and have its key
	Absent       bool     // it is Ours, and no process that lives has its key
	Enabled      bool     `db:"enabled"`
	PausedReason string   `db:"paused_reason"`
	Draining     bool     `db:"draining"`
	Halted       string   `db:"halted"` // why nothing may be signed until an operator reconciles
	Known        bool     `db:"known"`  // its nonce was once read from the chain
	Era          int64    `db:"era"`
	ChainNonce   uint64   `db:"chain_nonce"` // the account's next nonce as far as is known: when it was last asked for, or by what is in blocks since
	NextNonce    uint64   `db:"next_nonce"`
	Delegated    bool     `db:"delegated"`
	Balance      *big.Int `db:"balance"` // nil: never read
	MinBalance   *big.Int `db:"min_balance,0"`
	Streak       int      `db:"error_streak"`
	LastError    string   `db:"last_error"`
	LastSeen     int64    `db:"last_seen"` // when its owner last had the chain's nonce, or its word that it took something
	Assigned     int64    `db:"assigned"`  // how many slots it ever got, for round-robin
	LockUntil    int64    `db:"lock_until"`

	Locked  bool          // a caller has it alone: LockUntil has not passed, by the database's clock
	Unseen  time.Duration // since LastSeen, by the database's clock; 0 if the lane was never seen
	Pending int           // slots that are not consumed
	// Committed is the most that those slots may take from the balance, to 15 digits.
	Committed *big.Int
	Oldest    int64  // when the oldest of them was assigned; 0 without any
	Gaps      int    // nonces below NextNonce that no bytes are on their way for, with later ones sent
	Owner     string // of the lease, if it has not expired
	Term      int64
}

const (
	// MaxAccounts is how many accounts that sign for themselves one tenant can bring.
	MaxAccounts = 1000
	// AccountLife is how long such an account is remembered without a transaction or a reservation.
	AccountLife = 24 * time.Hour
	// asleepAfter is how long after its owner last looked an account with nothing on its way is not believed in any more: its caller may have sent
	// by other ways. Owners leave it alone before.
	asleepAfter, idleAfter = 2 * time.Minute, time.Minute
)

// Idle reports whether a lane has nothing on its way that an owner is needed for: nobody but its callers can give it anything.
func (l *Lane) Idle() bool { return !l.Ours && l.Known && l.Pending == 0 && !l.Locked }

// Asleep reports whether a lane's nonce may be an old one, since nobody has looked after it.
func (l *Lane) Asleep() bool { return l.Idle() && l.Unseen > asleepAfter }

// ChainState is what the ledger remembers of a chain.
type ChainState struct {
	Identity    string `db:"identity"`
	Era         int64  `db:"era"`
	Halted      string `db:"halted"`
	FinalNumber uint64 `db:"final_number"`
	FinalHash   string `db:"final_hash"`
}

// Observation is what an owner saw.
type Observation struct {
	ChainNonce *uint64
	NextNonce  *uint64 // sets it, and makes the lane known
	Balance    *big.Int
	Delegated  *bool
	Failed     *string // an error: counts up the streak
	Succeeded  bool    // ends the streak
	Halted     *string
	FirstUse   bool    // Halted was found of a lane that was not known: it is void once an operator has made the lane known
	Ahead      *uint64 // Halted was found since the chain's nonce is this and the lane's is lower: it is void once an operator has raised that
}

// Operation is what an operator wants of a signer. Nil fields stay.
type Operation struct {
	Enabled    *bool    // false: it gets nothing new, and what is signed is followed
	Reason     string   // why it is not enabled
	Draining   *bool    // nothing more is assigned to it; its lane says Pending 0 when it is empty
	MinBalance *big.Int // below which it gets nothing new
}

// Placing is an intent that is to have a slot.
type Placing struct {
	Intent string
	Cost   *big.Int // the most that it may take from the signer's balance
}

// Assignment is an intent with its slot.
type Assignment struct {
	Intent *Intent
	Slot   Slot
}

// Line is all that an owner works on in one lane: slots that are not final, with their
// attempts and intents.
type Line struct {
	Lane     *Lane
	Slots    []*LineSlot // by nonce
	Identity ChainState
	Now      int64 // the database's clock
}

// LineSlot is a slot with what belongs to it.
type LineSlot struct {
	Slot
	Attempts []*Attempt // by version
	Intents  []*Intent  // the holder first, then replacements in order
}

// Answer is what an endpoint said to an attempt.
type Answer struct {
	Attempt   *Attempt
	Class     Class // "" for taken
	Text      string
	Ambiguous bool // an earlier offer of it may have had an effect
}

// Proof says which transaction used a slot, as far as it is known.
type Proof struct {
	Slot      Slot
	Attempt   *Attempt // nil: somebody else's transaction
	Receipt   *Receipt // of the attempt
	Foreign   string   // hash of somebody else's transaction
	Block     uint64
	BlockHash string
	Final     bool
}

// Queued is an intent that waits for a slot.
type Queued struct {
	*Intent
	// Behind is the signer of an unmined predecessor of the same orderKey. "" without one.
	Behind string
	// Blocked: a predecessor is itself not assigned, or this one may not follow it yet.
	Blocked bool
	// Stop: a predecessor failed, and this one does not want to go on after it.
	Stop string

	cost *big.Int // the most that it may take from its signer's balance; nil: not known yet
}

// Reservation is a nonce that a caller holds who signs for itself.
type Reservation struct {
	ID      string `db:"id"`
	Chain   string `db:"chain"`
	Era     int64  `db:"era"` // of the chain
	Signer  string `db:"signer"`
	Tenant  string `db:"tenant"`
	Nonce   uint64 `db:"nonce"`
	Status  string `db:"status"` // held, used, recycled, expired
	Created int64  `db:"created_at"`
	Expires int64  `db:"expires_at"`
	Holds   []Hold `db:"holds"` // that a fill of the nonce is charged to
	LockID  string // of Lock alone
}
