package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

var (
	// ErrNotFound means that an endpoint answered that it does not have the block.
	ErrNotFound = errors.New("no endpoint has the block")
	// ErrUnavailable means that no endpoint answered in a way that proves anything. It says nothing about the chain.
	ErrUnavailable = errors.New("no endpoint gave a usable answer")
)

// Block is what is needed of a header.
type Block struct {
	Number       uint64
	Hash, Parent common.Hash
	Time         uint64 // seconds since 1970
}

// Log is one event log.
type Log struct {
	Address     common.Address
	Topics      []common.Hash
	Data        []byte
	BlockNumber uint64
	BlockHash   common.Hash
	TxHash      common.Hash
	Index       uint64 // in the block
	Time        uint64 // of the block, in seconds since 1970; 0 where the endpoint did not send it
}

// Query says which logs are wanted: those of any of the addresses whose first topic is any of the events.
type Query struct {
	Addresses map[common.Address]struct{}
	Events    []common.Hash
}

// Config says where a chain is read from.
type Config struct {
	ChainID uint64
	URLs    []string
	// MaxSpan is the maximum of blocks that one query covers.
	MaxSpan uint64
	// Timeout bounds each call.
	Timeout time.Duration
	// MaxResponse bounds the bytes of one answer.
	MaxResponse int64
}

const (
	defaultSpan     = 10_000
	firstSpan       = 250 // of an endpoint that was not asked yet; it grows with each answer
	defaultTimeout  = 20 * time.Second
	defaultResponse = 64 << 20
	// addressesPerCall is the longest list of addresses that one query names.
	addressesPerCall = 1000
	// maxLists is how many such lists are asked of a range of blocks. With more addresses the query names only the events. One block has few
	// logs of these events, whoever wrote them, so it is asked for fewer lists.
	maxLists, maxListsOfBlock = 4, 2
	// lagTolerance is how many blocks the endpoint in use may be behind another one.
	lagTolerance = 2
	// compareEvery is after how many questions for the head the other endpoints are asked for theirs.
	compareEvery = 16
	// firstRest and longestRest bound how long an endpoint is left alone after a failure.
	firstRest, longestRest = 250 * time.Millisecond, 10 * time.Second
)

// Pool is a chain behind several endpoints. It is safe for concurrent use.
type Pool struct {
	cfg       Config
	log       *slog.Logger
	endpoints []*endpoint
	calls     func(n int) // counts items sent

	announcers atomic.Int64 // subscriptions that live

	mu    sync.Mutex
	first int // index of the endpoint that is asked first
	heads int // questions for the head so far
}

// Deps are what a Pool uses.
type Deps struct {
	Log *slog.Logger
	// Calls is told how many JSON-RPC calls are about to be sent; may be nil.
	Calls func(n int)
}

// New makes a Pool. It contacts nobody.
func New(cfg Config, deps Deps) (*Pool, error) {
	if len(cfg.URLs) == 0 {
		return nil, fmt.Errorf("chain %d has no endpoint", cfg.ChainID)
	}
	if cfg.MaxSpan == 0 {
		cfg.MaxSpan = defaultSpan
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.MaxResponse <= 0 {
		cfg.MaxResponse = defaultResponse
	}
	p := &Pool{cfg: cfg, log: deps.Log, calls: deps.Calls}
	if p.calls == nil {
		p.calls = func(int) {}
	}
	for _, url := range cfg.URLs {
		e, err := newEndpoint(url, cfg, p.calls)
		if err != nil {
			return nil, err
		}
		p.endpoints = append(p.endpoints, e)
	}
	return p, nil
}

// Close ends the connections.
func (p *Pool) Close() {
	for _, e := range p.endpoints {
		e.close()
	}
}

// inOrder returns the endpoints as they are to be asked: the first one, the others, and last those that rest.
func (p *Pool) inOrder() []*endpoint {
	p.mu.Lock()
	first := p.first
	p.mu.Unlock()
	var ready, resting []*endpoint
	for i := range p.endpoints {
		e := p.endpoints[(first+i)%len(p.endpoints)]
		if e.rests() {
			resting = append(resting, e)
		} else {
			ready = append(ready, e)
		}
	}
	return append(ready, resting...)
}

// prefer makes an endpoint the first one.
func (p *Pool) prefer(e *endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.endpoints {
		if p.endpoints[i] == e {
			p.first = i
		}
	}
}

// ask tries the endpoints in turn until one of them answers. A block that an endpoint does not have is looked for at the
// others; ErrNotFound is returned only if all of them answered so.
func (p *Pool) ask(ctx context.Context, do func(context.Context, *endpoint) error) error {
	var failures []error
	missing := 0
	for _, e := range p.inOrder() {
		err := p.checked(ctx, e, do)
		switch {
		case err == nil:
			e.succeeded()
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrNotFound):
			missing++
		default:
			e.failed()
			failures = append(failures, e.named(err))
		}
	}
	if missing == len(p.endpoints) {
		return ErrNotFound
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(failures...))
}

// checked calls do after the endpoint has shown once that it serves this chain.
func (p *Pool) checked(ctx context.Context, e *endpoint, do func(context.Context, *endpoint) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if err := p.checkChain(ctx, e); err != nil {
		return err
	}
	return do(ctx, e)
}

// Head returns the newest block. It may be older than one returned before, if the endpoint is behind.
func (p *Pool) Head(ctx context.Context) (Block, error) {
	p.mu.Lock()
	p.heads++
	compare := p.heads%compareEvery == 1 && len(p.endpoints) > 1
	p.mu.Unlock()
	if compare {
		p.preferNewest(ctx)
	}
	return p.header(ctx, "latest")
}

// preferNewest makes an endpoint the first one whose head is clearly past that of the present first one.
func (p *Pool) preferNewest(ctx context.Context) {
	var best *endpoint
	var newest, present uint64
	for i, e := range p.inOrder() {
		var number uint64
		err := p.checked(ctx, e, func(ctx context.Context, e *endpoint) (err error) {
			number, err = e.number(ctx)
			return err
		})
		if err != nil {
			e.failed()
			continue
		}
		if i == 0 {
			present = number
		}
		if number > newest {
			best, newest = e, number
		}
	}
	if best != nil && newest > present+lagTolerance {
		p.log.InfoContext(ctx, "another endpoint is ahead and is asked first from now on", "chain", p.cfg.ChainID, "endpoint", best.name, "head", newest, "behind", present)
		p.prefer(best)
	}
}

// Finalized returns the newest block that the chain calls final. ErrNotFound means that the chain has no such thing.
func (p *Pool) Finalized(ctx context.Context) (Block, error) { return p.header(ctx, "finalized") }

// Block returns the block of a number.
func (p *Pool) Block(ctx context.Context, number uint64) (Block, error) {
	return p.header(ctx, fmt.Sprintf("0x%x", number))
}

// BlockByHash returns the block of a hash.
func (p *Pool) BlockByHash(ctx context.Context, hash common.Hash) (Block, error) {
	var b Block
	err := p.ask(ctx, func(ctx context.Context, e *endpoint) (err error) {
		b, err = e.blockByHash(ctx, hash)
		return err
	})
	return b, err
}

func (p *Pool) header(ctx context.Context, tag string) (Block, error) {
	var b Block
	err := p.ask(ctx, func(ctx context.Context, e *endpoint) (err error) {
		b, err = e.block(ctx, tag)
		return err
	})
	return b, err
}
