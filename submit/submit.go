package submit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/limit"
	"lockstep/lock"
	"lockstep/precheck"
)

// Submitter takes raw transactions from clients to the network.
type Submitter struct {
	Deps
	cfg       Config
	rejects   map[hedera.Status]bool // receipt statuses that mean "refused before execution"
	gates     *gates
	metrics   *metrics
	tasks     *tasks
	learner   *learner
	memory    *memory
	lookers   chan struct{} // a slot for each look-up that has a goroutine of its own
	spendings spendings
}

// Deps are what a Submitter works with. All are needed; a part that is off is a value such as pending.Disabled.
type Deps struct {
	Rules    precheck.Rules
	Locks    *lock.Service
	Ordering lock.Config // the settings Locks was made with
	Nodes    Nodes
	Chain    Chain
	Pool     Pool
	Promises Promises
	Trace    Trace
	Files    Files
	Budget   *limit.Budget
	Nonces   *limit.WrongNonces
	// Subsidy tells who pays for the gas of a transaction to an address instead of its sender. A nil address is a
	// creation.
	Subsidy func(to *common.Address) (consensus.Subsidy, bool)
	// Charged is told of transactions that the operator was charged for, and the hash of the
	// Ethereum transaction that they are for; it must not block. TellNobody: nobody is.
	Charged func(hash common.Hash, ids ...hedera.TransactionID)
	// Asker tells with which request a transaction came.
	Asker    func(context.Context) Asker
	Log      *slog.Logger
	WaitTime time.Duration // how long a caller waits for the verdict on an accepted transaction
}

// Nodes is the consensus side: a thin wrapper of *consensus.Client.
type Nodes interface {
	// Submit hands a transaction to a node and returns at that node's acceptance. Its
	// errors are those of package consensus. A Pending that comes with one may be at its node.
	Submit(ctx context.Context, s consensus.Submission) (Pending, error)
	// Await waits until the network has a verdict on a transaction, good or bad.
	Await(ctx context.Context, id hedera.TransactionID, node hedera.ID) error
	// Knows asks a node once whether it has heard of a transaction. An error says nothing about it.
	Knows(ctx context.Context, id hedera.TransactionID, node hedera.ID) (known bool, err error)
	// OfferAgain offers a transaction that its node may have to that node under the same id, if the node says
	// that it does not know it. It tells whether the node has it now.
	OfferAgain(ctx context.Context, s consensus.Submission, p Pending) (taken bool)
}

// Pending is a transaction that a node has, or may have, and whose verdict is awaited.
type Pending interface {
	ID() hedera.TransactionID
	Node() hedera.ID
	Receipt(ctx context.Context) (consensus.Receipt, error)
	// Ask asks its node once for the receipt. An error says nothing about the transaction.
	Ask(ctx context.Context) (found bool, err error)
	// Denied is closed when its node says, while Receipt waits, that it never heard of it.
	Denied() <-chan struct{}
}

// Chain answers what the prechecks need to know. It is implemented over the
// mirror node; its answers may lag behind consensus by a few seconds.
type Chain interface {
	// Account looks an account up by EVM address. found is false when there is none.
	Account(ctx context.Context, address common.Address) (account Account, found bool, err error)
	// GasPrice returns the network's gas price in weibar, the operator's buffer
	// included. The result is not shared.
	GasPrice(ctx context.Context) (*big.Int, error)
	// Record tells how much the mirror node's record of a transaction says of what became of it. An error says nothing.
	Record(ctx context.Context, id hedera.TransactionID) (Record, error)
	// Changed says that a transaction of sender reached consensus, so that what was
	// remembered from before is stale.
	Changed(sender common.Address)
}

// Account is what the prechecks need of an account.
type Account struct {
	Nonce             uint64
	Balance           hedera.Tinybar
	BalanceUnknown    bool // there is an account, but its balance is not known
	SignatureRequired bool // as a receiver
}

// Record is what the record of a transaction that reached consensus says, whatever its status is called.
type Record uint8

// What records say.
const (
	RecordOpen    Record = iota // nothing: there is none yet, or it is not complete
	RecordRan                   // the EVM ran it: its sender's nonce is spent
	RecordInBlock               // it is in a block, and was not run: nobody paid for it, or could
	RecordRefused               // it was not run, and is in no block
)

// Pool is told which transactions are on their way: package pending. Its methods never block unless they say so.
type Pool interface {
	// Add says that a transaction is in line. Done follows, once.
	Add(tx *eth.Tx)
	// Accepted says that a consensus node has it.
	Accepted(tx *eth.Tx)
	// Done says that it has its verdict. spent: the network executed it, so that the
	// sender's next nonce is past it. perhaps: that is not known.
	Done(tx *eth.Tx, spent, perhaps bool)
	// Proven returns a sender's next nonce as far as this process has seen the network prove
	// it, or 0.
	Proven(sender common.Address) uint64
	// Follows tells whether all that comes before a transaction, from the sender's next nonce
	// on, is on its way, and nothing else with its nonce. It may ask Redis.
	Follows(ctx context.Context, tx *eth.Tx, next uint64) bool
	// Next returns a sender's next nonce with what is on its way; confirmed is what the mirror node says. It may ask Redis.
	Next(ctx context.Context, sender common.Address, confirmed uint64) uint64
	// Alone tells whether no other attempt at a transaction's nonce is on its way in this process.
	Alone(tx *eth.Tx) bool
	// Latest is Proven for the whole fleet, or confirmed if that is more. It may ask Redis.
	Latest(ctx context.Context, sender common.Address, confirmed uint64) uint64
}

// Promises keeps the transactions whose hashes clients get before a node has them, where another
// relay goes on with them when this one dies: package pending.
type Promises interface {
	// Keep notes a promise. It never blocks; the function that it returns waits until the promise
	// is where others find it, for a bounded time. Release follows, once.
	Keep(tx *eth.Tx) (wait func(context.Context))
	// Release ends a promise: the transaction has its verdict. It never blocks.
	Release(tx *eth.Tx)
}

// Trace keeps what happened to a transaction: package lifecycle. It never blocks.
type Trace interface {
	Record(hash common.Hash, step lifecycle.Step)
}

// Asker is the request with which a transaction came.
type Asker struct {
	ID     string // of the request
	IP     string // its client's address, for the budget
	Client string // … as far as the log may show it
}

// TellNobody is a Deps.Charged for those who do not want to know.
func TellNobody(common.Hash, ...hedera.TransactionID) {}

// New returns a Submitter. It starts nothing; Drain ends what calls started.
func New(cfg Config, deps Deps) (*Submitter, error) {
	rejects, err := statusSet(cfg.RejectedStatuses)
	if err != nil {
		return nil, err
	}
	group := newTasks(cfg.MaxInProgress)
	return &Submitter{
		Deps: deps, cfg: cfg, rejects: rejects, gates: newGates(deps.Ordering.MaxQueue),
		metrics: newMetrics(group.count), tasks: group, learner: newLearner(deps.Chain),
		memory: newMemory(cfg.StaleFacts.Duration()), lookers: make(chan struct{}, maxBeside),
		spendings: spendings{senders: map[common.Address]*spending{}},
	}, nil
}

// Submit takes one transaction through the whole path.
func (s *Submitter) Submit(ctx context.Context, raw []byte) Result {
	entry, err := s.Enter(raw)
	if err != nil {
		return notSent(err)
	}
	return entry.Finish(ctx)
}

// Drain waits until every started submission has its verdict, or ctx ends; new
// ones are refused. It returns how many were left behind.
func (s *Submitter) Drain(ctx context.Context) int { return s.tasks.drain(ctx) }

// tasks is the bounded group of transactions in progress. Each runs to its verdict
// even if its client left; drain waits for them when the process stops. What a client has sent is in memory until then, also when
// its request is over and counts for nobody any more: so the bytes are bounded, too.
type tasks struct {
	limit int

	mu     sync.Mutex
	n      int           // running
	bytes  int           // of their transactions
	closed bool          // drain has begun
	idle   chan struct{} // closed when n falls to 0 after drain has begun
}

// bytesInProgress is the largest number of bytes that all transactions in progress may have. Hundreds of thousands of transfers fit.
const bytesInProgress = 64 << 20

func newTasks(limit int) *tasks { return &tasks{limit: limit, idle: make(chan struct{})} }

// begin takes a place in the group for a transaction of so many bytes; every one must be followed by one end. The error
// is the client's.
func (t *tasks) begin(bytes int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return eth.ErrShuttingDown
	case t.n >= t.limit, t.bytes+bytes > bytesInProgress:
		return eth.ErrTooManyInProgress(t.n)
	}
	t.n++
	t.bytes += bytes
	return nil
}

func (t *tasks) end(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes -= bytes
	if t.n--; t.n == 0 && t.closed {
		close(t.idle)
	}
}

// closing tells whether drain has begun.
func (t *tasks) closing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// count returns how many are running.
func (t *tasks) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// drain refuses new tasks and waits for the running ones or the end of ctx. It
// returns how many are still running.
func (t *tasks) drain(ctx context.Context) int {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		if t.n == 0 {
			close(t.idle)
		}
	}
	t.mu.Unlock()
	select {
	case <-t.idle:
	case <-ctx.Done():
	}
	return t.count()
}

// When the client gets its answer.
const (
	ReturnsConsensus = "consensus"
	ReturnsAccepted  = "accepted"
)

// Config holds the settings of the path of a raw transaction.
type Config struct {
	// Take no transactions at all. No operator is needed then.
	ReadOnly bool `env:"READ_ONLY" envDefault:"false"`
	// Answer with the hash right after the prechecks and do the rest in the background.
	Async bool `env:"USE_ASYNC_TX_PROCESSING" envDefault:"false"`
	// When the client gets its answer: consensus (what node and network find wrong is
	// returned as an error) or accepted (the hash as soon as a node accepts it).
	Returns string `env:"SEND_RAW_TRANSACTION_RETURNS" envDefault:"consensus"`
	// Submit without asking the mirror node anything: balance, nonce, gas price and
	// receiver are left to the network to judge.
	SkipLookUps bool `env:"DISABLE_MN_PRECHECKS_ON_TX_SENDING" envDefault:"false"`
	// Maximum age of remembered accounts and prices with which a transaction that is certainly its sender's next one is still sent while the mirror node does not answer. 0: none is sent. Milliseconds.
	StaleFacts envx.Millis `env:"STALE_FACTS_MAX_AGE_MS" envDefault:"60000" min:"0"`
	// Receipt statuses that mean the transaction was refused before it was executed.
	// Empty for the built-in list.
	RejectedStatuses envx.Strings `env:"HEDERA_SPECIFIC_REVERT_STATUSES"`
	// Maximum number of transactions in progress in this process, queued ones included.
	MaxInProgress int `env:"MAX_TRANSACTIONS_IN_PROGRESS" envDefault:"65536" min:"1"`
}

// Validate reports every setting that makes no sense.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if c.Returns != ReturnsConsensus && c.Returns != ReturnsAccepted {
		errs = append(errs, fmt.Errorf("SEND_RAW_TRANSACTION_RETURNS %q: want consensus or accepted", c.Returns))
	}
	_, err := statusSet(c.RejectedStatuses)
	return errors.Join(append(errs, err)...)
}
