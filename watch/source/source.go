package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ethrpc"
	"lockstep/internal/outage"
	"lockstep/internal/sleep"
)

var (
	// ErrNotFound means that an endpoint answered that it does not have the block.
	ErrNotFound = errors.New("no endpoint has the block")
	// ErrUnavailable means that no endpoint answered in a way that proves anything. It says nothing about the chain.
	ErrUnavailable = errors.New("no endpoint gave a usable answer")
	// ErrWrongChain means that every endpoint serves another chain.
	ErrWrongChain = errors.New("every endpoint serves another chain")
	// ErrDoubt means that a block's filter names what is followed, and that nothing explains why an answer names no log of it.
	ErrDoubt = errors.New("the block's bloom filter names what is followed, the answer does not, and the block's logs do not make up the filter")
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
	Time        uint64 // of the block, in seconds since 1970
}

// Query says which logs are wanted: those of any of the addresses whose first topic is any of the events. An endpoint may send more than is wanted.
type Query struct {
	Addresses map[common.Address]struct{}
	Events    []common.Hash
	// Topics are what the others may be, beginning with the second; an empty list: whatever it is.
	Topics [3][]common.Hash
	// All says that every log of the addresses is wanted, whatever its topics are.
	All bool
	// Again says that the blocks were read before: another endpoint is asked first than then, if there is one that is well.
	Again bool
}

// positions are the topics of the wanted logs, without the empty lists at the end.
func (q *Query) positions() [][]common.Hash {
	if q.All {
		return nil
	}
	list := [][]common.Hash{q.Events}
	for i, topics := range q.Topics {
		if len(topics) > 0 {
			for len(list) < i+1 {
				list = append(list, nil)
			}
			list = append(list, topics)
		}
	}
	return list
}

// wants tells whether a log is meant.
func (q *Query) wants(l *Log) bool {
	if _, ours := q.Addresses[l.Address]; !ours {
		return false
	}
	for i, topics := range q.positions() {
		if topics != nil && (len(l.Topics) <= i || !slices.Contains(topics, l.Topics[i])) {
			return false
		}
	}
	return true
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
	// Headers has each block of a range explain by its filter that it has no wanted log, where one endpoint says so and nobody else can be asked.
	Headers bool
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
	// firstRest and longestRest bound the pause between two subscriptions.
	firstRest, longestRest = 250 * time.Millisecond, 10 * time.Second
)

// Pool is a chain behind several endpoints. It is safe for concurrent use.
type Pool struct {
	cfg       Config
	log       *slog.Logger
	endpoints []*endpoint
	calls     func(n int) // counts items sent
	client    *ethrpc.Client

	announcers atomic.Int64  // subscriptions that live
	anchored   atomic.Uint64 // the highest block that was named as one that cannot be replaced
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
	cfg.MaxSpan = cmp.Or(cfg.MaxSpan, defaultSpan)
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
	others := map[int]func(context.Context) (uint64, error){}
	for i, url := range cfg.URLs {
		if err := CheckURL(url); err != nil {
			return nil, err
		}
		e := &endpoint{span: min(cfg.MaxSpan, firstSpan)}
		if there, isMirror := strings.CutPrefix(url, mirrorScheme); isMirror {
			m, err := newMirrorNode(there, cfg, p.calls)
			if err != nil {
				return nil, err
			}
			e.reader, others[i] = m, m.head
		}
		p.endpoints = append(p.endpoints, e)
	}
	var err error
	p.client, err = ethrpc.New(ethrpc.Config{
		ChainID: cfg.ChainID, URLs: cfg.URLs, Others: others, Timeout: cfg.Timeout, MaxResponse: cfg.MaxResponse, Log: p.log, Calls: p.calls,
	})
	if err != nil {
		return nil, err
	}
	for i, e := range p.endpoints {
		if e.Endpoint = p.client.All()[i]; e.reader == nil {
			e.reader = jsonRPC{e.Endpoint}
		}
	}
	return p, nil
}

// Close ends the connections.
func (p *Pool) Close() { p.client.Close() }

// inOrder returns the endpoints as they are to be asked: those whose answers proved nothing last.
func (p *Pool) inOrder() []*endpoint {
	var list []*endpoint
	for _, e := range p.client.Everyone() {
		list = append(list, p.endpoints[slices.Index(p.client.All(), e)])
	}
	return outage.Order(list)
}

// turns returns the endpoints in the order in which a query has them.
func (p *Pool) turns(q Query) []*endpoint {
	list := p.inOrder()
	if !q.Again || len(list) < 2 || list[1].Resting() {
		return list
	}
	if rests, _ := list[1].Rests(); !rests {
		list[0], list[1] = list[1], list[0]
	}
	return list
}

// said is what one endpoint said to a question.
type said[A any] struct {
	answer A
	err    error
}

// ask tries the endpoints in turn until one of them answers, and the next one beside a silent one. A block that an endpoint does not have is looked
// for at the others; ErrNotFound is returned only if all of them answered so.
func ask[A any](ctx context.Context, p *Pool, do func(context.Context, *endpoint) (A, error)) (none A, err error) {
	var failed failures
	for e, s := range ethrpc.InTurn(ctx, p.inOrder(), (*endpoint).quiet, func(ctx context.Context, e *endpoint) said[A] { return checked(ctx, p, e, do) }) {
		switch {
		case s.err == nil:
			e.Well()
			return s.answer, nil
		case ctx.Err() != nil:
			return none, ctx.Err()
		case !errors.Is(s.err, ErrNotFound):
			failed.add(e, s.err)
		case failed.lack(e) == len(p.endpoints):
			return none, ErrNotFound
		}
	}
	return none, p.unavailable(failed.errs)
}

// unavailable is the error of a question that no endpoint answered in a way that proves anything.
func (p *Pool) unavailable(failures []error) error {
	why := ErrUnavailable
	if len(failures) == len(p.endpoints) && !slices.ContainsFunc(failures, func(err error) bool { return ethrpc.ClassOf(err) != ethrpc.WrongChain }) {
		why = fmt.Errorf("%w: %w", ErrUnavailable, ErrWrongChain)
	}
	return fmt.Errorf("%w: %w", why, errors.Join(failures...))
}

// checked calls do after the endpoint has shown once that it serves this chain.
func checked[A any](ctx context.Context, p *Pool, e *endpoint, do func(context.Context, *endpoint) (A, error)) (s said[A]) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	if s.err = e.check(ctx); s.err == nil {
		s.answer, s.err = do(ctx, e)
	}
	return s
}

// Anchor names a block that cannot be replaced any more. An endpoint that has another one in its place is on another fork: it is asked for nothing while any other may have this one. A
// block below one that was named before is passed over, and so is a mirror node's fork.
func (p *Pool) Anchor(b Block) {
	for now := p.anchored.Load(); b.Number > now; now = p.anchored.Load() {
		if p.anchored.CompareAndSwap(now, b.Number) {
			p.client.Anchor(b.Number, b.Hash)
			return
		}
	}
}

// Head returns the newest block. It may be older than one returned before, if the endpoint is behind.
func (p *Pool) Head(ctx context.Context) (Block, error) {
	p.client.Compare(ctx)
	return ask(ctx, p, func(ctx context.Context, e *endpoint) (Block, error) {
		b, err := e.block(ctx, "latest")
		if err == nil {
			e.Showed(ctx, b.Number)
		}
		return b, err
	})
}

// Highest returns the highest head that any endpoint has shown, and when it was shown first; a zero time if none was. The one in use may be
// behind it, or all may stand still.
func (p *Pool) Highest() (number uint64, at time.Time) { return p.client.Highest() }

// Endpoints tells which of the endpoints fail.
func (p *Pool) Endpoints() (int, []outage.Failing) { return p.client.Endpoints() }

// Finalized returns the newest block that the chain calls final. ErrNotFound means that the chain has no such thing.
func (p *Pool) Finalized(ctx context.Context) (Block, error) {
	return p.block(ctx, func(ctx context.Context, e *endpoint) (Block, error) { return e.block(ctx, "finalized") }, func(Block) bool { return true })
}

// Block returns the block of a number.
func (p *Pool) Block(ctx context.Context, number uint64) (Block, error) {
	tag := fmt.Sprintf("0x%x", number)
	return p.block(ctx, func(ctx context.Context, e *endpoint) (Block, error) { return e.block(ctx, tag) }, func(b Block) bool { return b.Number == number })
}

// BlockByHash returns the block of a hash.
func (p *Pool) BlockByHash(ctx context.Context, hash common.Hash) (Block, error) {
	return p.block(ctx, func(ctx context.Context, e *endpoint) (Block, error) { return e.blockByHash(ctx, hash) }, func(b Block) bool { return b.Hash == hash })
}

func (p *Pool) block(ctx context.Context, read func(context.Context, *endpoint) (Block, error), meant func(Block) bool) (Block, error) {
	return ask(ctx, p, func(ctx context.Context, e *endpoint) (Block, error) {
		b, err := read(ctx, e)
		if err == nil && !meant(b) {
			err = errAnother
		}
		return b, err
	})
}

// errSilent means that a subscription ended without a reason.
var errSilent = errors.New("the subscription ended")

// Announce calls wake when a WebSocket endpoint tells of a new block, and when there is a new subscription, until the context ends. It is
// a hint and no more: who wakes asks for the head, and asks now and then without it.
func (p *Pool) Announce(ctx context.Context, wake func()) {
	var all sync.WaitGroup
	for _, e := range p.endpoints {
		if j, ok := e.reader.(jsonRPC); ok && j.Streams() {
			all.Go(func() { p.announce(ctx, e, j, wake) })
		}
	}
	all.Wait()
}

// Announced tells whether any endpoint tells of new blocks by itself now.
func (p *Pool) Announced() bool { return p.announcers.Load() > 0 }

// announce keeps one WebSocket endpoint's subscription. Pauses between attempts grow while they fail.
func (p *Pool) announce(ctx context.Context, e *endpoint, j jsonRPC, wake func()) {
	pause := firstRest
	for ctx.Err() == nil {
		began := time.Now()
		err := p.subscribed(ctx, j, wake)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > longestRest {
			pause = firstRest
		}
		p.log.WarnContext(ctx, "new blocks are not announced by this endpoint; it is asked for them", "chain", p.cfg.ChainID, "error", e.named(err))
		sleep.For(ctx, pause)
		pause = min(2*pause, longestRest)
	}
}

// subscribed holds one subscription until it ends.
func (p *Pool) subscribed(ctx context.Context, j jsonRPC, wake func()) error {
	heads := make(chan struct {
		Number string `json:"number"`
	}, 16)
	sub, err := j.Subscribe(ctx, heads, "newHeads")
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	p.announcers.Add(1)
	defer p.announcers.Add(-1)
	wake() // what came before the subscription is not told
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-sub.Err():
			if err == nil {
				err = errSilent
			}
			return err
		case <-heads:
			wake()
		}
	}
}
