package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// Defaults of Config.
const (
	DefaultChainID  = 298
	DefaultGasPrice = hedera.Tinybar(71)
	DefaultHistory  = 65_536

	DefaultHistoryBytes = 256 << 20
)

// Config shapes a ledger. The zero value of a field means its default.
type Config struct {
	ChainID  uint64         // EVM chain id; 298
	GasPrice hedera.Tinybar // network price of a unit of gas at first; 71

	// BlockTime is how much consensus time a block covers; where nothing happens in it,
	// Run makes a block without transactions. 0 closes a block after every transaction,
	// and there are no others.
	BlockTime time.Duration

	// History is how many closed blocks are kept, with their records and the state
	// at the end of each; 65,536. It bounds the memory of a long run: a plain
	// transfer costs about 3 KiB of it.
	History int

	// HistoryBytes bounds the same by size, roughly: fewer blocks are kept where
	// they are full of call data, logs and traces; 256 MiB. Up to twice as much may
	// be in memory before the collector gets what was dropped.
	HistoryBytes int64

	// Accounts are made at genesis beside the system accounts; devaccounts.All when nil.
	Accounts []devaccounts.Account

	// Deterministic makes the same of the same: numbers, times and hashes follow from what
	// is submitted alone, and from the order. The clock stands still but for blocks, which
	// are a second apart, and for tools. An Ethereum transaction has a hash that follows from its
	// own, and not from the transaction around it, whose id a relay draws. Not with BlockTime.
	Deterministic bool

	// SetCode executes transactions with authorizations (type 4), which the network has
	// decided to have and refuses so far.
	SetCode bool

	// ExactEstimates has View.Estimate find the lowest limit that is enough, rather than one as the network's mirror
	// node finds it, 5 % above the gas used or more.
	ExactEstimates bool

	// Fees charges what transactions cost on the network (HIP-1261), to the nearest that can be said without hooks and
	// high volumes. Without it only gas is charged, and an offer of Required is enough.
	Fees bool

	// Fork, where set, makes the ledger go on from the state of another network.
	Fork *ForkPoint

	// Nodes are the consensus nodes whose accounts genesis makes; 0.0.3 when nil.
	Nodes []hedera.ID

	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	c.ChainID = cmp.Or(c.ChainID, DefaultChainID)
	c.GasPrice = cmp.Or(c.GasPrice, DefaultGasPrice)
	c.History = cmp.Or(c.History, DefaultHistory)
	c.HistoryBytes = cmp.Or(c.HistoryBytes, DefaultHistoryBytes)
	if c.Nodes == nil {
		c.Nodes = []hedera.ID{hedera.Entity(3)}
	}
	if c.Accounts == nil {
		c.Accounts = devaccounts.All()
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Ledger is the state of a network and its history. All methods are safe for
// concurrent use; transactions are handled one at a time, in the order of the
// calls.
type Ledger struct {
	cfg Config

	// handling is held while a transaction is handled: it serialises the writers
	// and is taken before store, never after it.
	handling sync.Mutex
	lastTime int64     // guarded by handling: newest consensus time in use, ns
	ahead    int64     // guarded by handling: what blocks have hurried the clock by, ns, a part of offset
	settled  int64     // guarded by handling: schedules that expired by this time are done with, ns
	closedAt time.Time // guarded by handling: when the newest block was closed, by the machine's clock
	pace     pace      // guarded by handling
	net      *core.Network
	engine   *evm.Engine
	fork     *ForkPoint     // nil: no upstream
	atClose  []chan *saving // guarded by handling: who waits for the open block to end

	// store guards itself and the rest. Writers hold handling as well, so that the handler of a
	// transaction may read without it.
	store     *state.Store
	chain     *history.Chain
	order     *history.Order
	nodes     []NodeInfo
	published int64 // consensus time of the end of the newest closed block, ns

	offset     atomic.Int64 // of consensus time against the machine's clock, ns; written with handling
	nextTime   atomic.Int64 // consensus time of the next block, ns; 0: the clock's; written with handling
	generation atomic.Pointer[Generation]
	turns      turns

	subscribers subscribers
	deadline    chan struct{} // tells Run that something has a time now
	newest      atomic.Pointer[View]
}

// New makes a ledger with its genesis accounts and block 0.
func New(cfg Config) (*Ledger, error) {
	cfg = cfg.withDefaults()
	if cfg.History < 1 || cfg.HistoryBytes < 1 || cfg.GasPrice < 1 || cfg.BlockTime < 0 {
		return nil, fmt.Errorf("ledger: history of %d blocks and %d bytes, gas price %d and block time %s must be positive",
			cfg.History, cfg.HistoryBytes, cfg.GasPrice, cfg.BlockTime)
	}
	if cfg.Deterministic && cfg.BlockTime != 0 {
		return nil, errors.New("ledger: blocks that come by time are not deterministic")
	}
	if cfg.Fork != nil && cfg.Fork.GasPrice > 0 {
		cfg.GasPrice = cfg.Fork.GasPrice
	}
	l := &Ledger{
		cfg:      cfg,
		fork:     cfg.Fork,
		store:    state.NewStore(cfg.Fork.upstream()),
		chain:    history.NewChain(cfg.History, cfg.HistoryBytes),
		order:    history.NewOrder(max(cfg.History, 1024)),
		deadline: make(chan struct{}, 1),
		pace:     newPace(cfg),
	}
	l.net = &core.Network{Store: l.store, Chain: l.chain, Nodes: cfg.Nodes, Fees: cfg.Fees, Rate: cfg.Fork.rate(), Wake: l.wake, Log: cfg.Log}
	l.net.Price.Store(int64(cfg.GasPrice))
	l.engine = evm.NewEngine(l.net, cfg.ChainID, cfg.SetCode)
	l.net.Services = newServices(l.net, l.engine)
	if err := l.genesis(l.Now()); err != nil {
		return nil, fmt.Errorf("ledger: genesis: %w", err)
	}
	first := l.chain.Oldest().Number
	l.newGeneration(first, first)
	return l, nil
}

// View returns the newest closed block and the state at its end.
func (l *Ledger) View() *View {
	return l.newest.Load()
}

// ViewBefore returns what a mirror node shows that is behind: the newest closed
// block that ended at t or before. Block 0 is always visible.
func (l *Ledger) ViewBefore(t hedera.Timestamp) *View {
	newest := l.newest.Load()
	if newest.reader.AsOf <= t.UnixNano() {
		return newest
	}
	l.store.RLock()
	defer l.store.RUnlock()
	return l.viewAt(l.chain.Latest(t.UnixNano()).To.UnixNano())
}

// Handled returns a view of everything handled so far, the open block included:
// what consensus nodes answer queries from. It has no blocks that View has not.
func (l *Ledger) Handled() *View {
	l.store.RLock()
	defer l.store.RUnlock()
	if l.chain.Open != nil {
		return l.viewAt(l.chain.Open.To.UnixNano())
	}
	return l.newest.Load()
}

// SetNodes enters the address book: what View.Nodes and the files 0.0.101 and 0.0.102
// show.
func (l *Ledger) SetNodes(nodes []NodeInfo) {
	l.handling.Lock()
	defer l.handling.Unlock()
	l.store.Lock()
	defer l.store.Unlock()
	l.nodes = nodes
	l.bookFiles()
}

// bookFiles writes the address book into its files. The caller holds both locks.
func (l *Ledger) bookFiles() {
	book := l.addressBook()
	for _, num := range []int64{fileAddressBook, fileNodeDetails} {
		if f := l.store.World.Files[num]; f != nil {
			changed := *f
			changed.Contents = book
			l.store.World.Files[num] = &changed
		}
	}
}
