package ethapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"runtime/debug"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/eth"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/pending"
	"lockstep/mirror"
	"lockstep/rpc"
)

// Deps are what an API works with.
type Deps struct {
	ChainID uint64
	Version string // of this relay, for web3_clientVersion
	Profile rpc.Profile
	Mirror  *mirror.Client
	Pool    *pending.Pool      // nil: pending.Disabled
	PoolAPI bool               // offer the txpool methods, if the Pool is on
	Trace   *lifecycle.Service // nil: lifecycle.Disabled
	NoAdmin bool               // offer no admin methods
	Manager bool               // relay_*, which are served beside these, are there: for the document and rpc_modules
	// Settings is what admin_config shows, without secrets; nil: nothing.
	Settings func(context.Context) any
	// Operator is the sender of simulated calls that send value without naming a sender; nil: none.
	Operator *common.Address
	// MaxCallGas caps the gas of eth_call; 0 is 15,000,000.
	MaxCallGas uint64
	Filters    FilterStore       // nil: LocalFilters
	Processors *capacity.Permits // of simulations; nil: half of the processors
	// HTTPAPIs and WebSocketAPIs are the namespaces served there, for rpc_modules.
	HTTPAPIs, WebSocketAPIs []string
	Log                     *slog.Logger
}

// API holds the methods. It is safe for concurrent use.
type API struct {
	cfg     Config
	deps    Deps
	mirror  *mirror.Client
	filters FilterStore
	awaited *awaited
	replays chan struct{} // one for each replayed transaction in memory

	simulations *capacity.Permits // one place for each simulation that has begun
	processors  *capacity.Permits // one place for each that is not reading the state

	document json.RawMessage // OpenRPC
}

// New makes the methods. It starts nothing.
func New(cfg Config, deps Deps) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Mirror == nil || deps.ChainID == 0 {
		return nil, errors.New("ethapi: a mirror node and a chain id are needed")
	}
	deps.Log = cmp.Or(deps.Log, slog.New(slog.DiscardHandler))
	deps.MaxCallGas = cmp.Or(deps.MaxCallGas, 15_000_000)
	deps.Profile = cmp.Or(deps.Profile, rpc.ProfileHiero)
	if deps.Processors == nil {
		deps.Processors = capacity.NewProcessors(capacity.Config{})
	}
	if deps.Pool == nil {
		deps.Pool = pending.Disabled(nil)
	}
	if deps.Trace == nil {
		deps.Trace = lifecycle.Disabled()
	}
	if deps.Filters == nil {
		deps.Filters = LocalFilters(cfg)
	}
	document, err := OpenRPC(deps.Version, deps.Profile, deps.Manager)
	if err != nil {
		return nil, fmt.Errorf("ethapi: OpenRPC document: %w", err)
	}
	return &API{
		cfg: cfg, deps: deps, mirror: deps.Mirror,
		filters:     deps.Filters,
		awaited:     newAwaited(cfg.ReadYourWrites.Duration()),
		replays:     make(chan struct{}, cfg.Debug.Replays),
		simulations: capacity.NewPermits(cfg.Simulation.Concurrency, max(1, cfg.Simulation.Concurrency/4)), processors: deps.Processors,
		document: document,
	}, nil
}

func (a *API) chainID() *big.Int { return new(big.Int).SetUint64(a.deps.ChainID) }

// head returns the newest block.
func (a *API) head(ctx context.Context) (*mirror.Block, error) {
	head, err := a.mirror.LatestBlock(ctx)
	if errors.Is(err, mirror.ErrNotFound) {
		return nil, eth.ErrNoLatestBlock
	}
	return head, err
}

// headFor is head for a query that names blocks. A block a little beyond the head that is known may be there by now: the client
// can have heard of it elsewhere, for example from another relay of a fleet.
func (a *API) headFor(ctx context.Context, named ...*eth.BlockRef) (*mirror.Block, error) {
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	for _, ref := range named {
		if ref == nil {
			continue
		}
		if number, ok := ref.Number(); ok && number > head.Number && number <= head.Number+a.cfg.MaxBlockRange {
			newer, err := a.mirror.Head(ctx)
			if missing, err := notFound(err); missing || err != nil {
				return head, err
			}
			return newer, nil
		}
	}
	return head, nil
}

// block finds a block. One that does not exist is nil without an error.
func (a *API) block(ctx context.Context, ref eth.BlockRef) (block *mirror.Block, err error) {
	if ref.IsLatest() {
		return a.head(ctx)
	}
	if number, ok := ref.Number(); ok {
		block, err = a.mirror.BlockByNumber(ctx, number)
	} else if hash, ok := ref.Hash(); ok {
		block, err = a.mirror.BlockByHash(ctx, hash)
	} else {
		block, err = a.mirror.EarliestBlock(ctx)
	}
	if errors.Is(err, mirror.ErrNotFound) {
		return nil, nil
	}
	return block, err
}

// state finds the block whose state is meant. nil without an error is the present state. A block that does not
// exist is an error.
func (a *API) state(ctx context.Context, ref eth.BlockRef) (*mirror.Block, error) {
	if ref.IsLatest() {
		return nil, nil
	}
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	if number, ok := ref.Number(); ok && number >= head.Number {
		if number > head.Number+a.cfg.MaxBlockRange {
			return nil, eth.ErrUnknownBlock
		}
		return nil, nil
	}
	block, err := a.block(ctx, ref)
	switch {
	case err != nil:
		return nil, err
	case block == nil:
		return nil, eth.ErrUnknownBlock
	case block.Number >= head.Number:
		return nil, nil
	}
	return block, nil
}

// tasks runs functions at the same time. The first error ends the others' context. A panic is raised again where
// the tasks are waited for, so that it affects only one request.
type tasks struct {
	group *errgroup.Group
	panic atomic.Pointer[string]
}

func parallel(ctx context.Context, limit int) (*tasks, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	return &tasks{group: group}, ctx
}

func (t *tasks) run(f func() error) {
	t.group.Go(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				text := fmt.Sprintf("%v\n%s", p, debug.Stack())
				t.panic.CompareAndSwap(nil, &text)
				err = errPanicked
			}
		}()
		return f()
	})
}

var errPanicked = fmt.Errorf("a parallel task panicked")

func (t *tasks) wait() error {
	err := t.group.Wait()
	if text := t.panic.Load(); text != nil {
		panic(*text)
	}
	return err
}

// each runs f for every item at the same time.
func each[T any](ctx context.Context, limit int, items []T, f func(context.Context, int, T) error) error {
	if len(items) == 1 {
		return f(ctx, 0, items[0])
	}
	t, ctx := parallel(ctx, limit)
	for i, item := range items {
		t.run(func() error { return f(ctx, i, item) })
	}
	return t.wait()
}
