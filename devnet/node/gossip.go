package node

import (
	"context"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/internal/hedera"
)

// maxPending bounds the transactions on their way to consensus. Beyond it nodes are
// busy.
const maxPending = 50_000

// gossip carries accepted transactions to consensus. Each node's events are ordered
// among themselves; those of different nodes meet in the order they come in.
type gossip struct {
	ledger          *ledger.Ledger
	latency, jitter time.Duration
	wake            chan struct{}

	mu      sync.Mutex
	random  *rand.Rand
	last    []time.Time      // per node, when its newest transaction is due
	pending []dueTransaction // in the order in which they are due
}

func newGossip(cfg Config) *gossip {
	seed := cfg.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	return &gossip{
		ledger: cfg.Ledger, latency: cfg.Latency, jitter: cfg.Jitter,
		wake:   make(chan struct{}, 1),
		random: rand.New(rand.NewPCG(seed, seed)),
		last:   make([]time.Time, cfg.Nodes),
	}
}

// accept takes a transaction from a node. It is false when too many are on their way.
func (g *gossip) accept(node int, sub *core.Submission) bool {
	if g.latency == 0 && g.jitter == 0 {
		g.ledger.Handle(sub)
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) >= maxPending {
		return false
	}
	due := time.Now().Add(g.latency)
	if g.jitter > 0 {
		due = due.Add(time.Duration(g.random.Int64N(int64(g.jitter))))
	}
	if due.Before(g.last[node]) { // one node's events cannot overtake each other
		due = g.last[node]
	}
	g.last[node] = due
	after := sort.Search(len(g.pending), func(i int) bool { return g.pending[i].due.After(due) })
	g.pending = slices.Insert(g.pending, after, dueTransaction{due, sub})
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return true
}

// run handles transactions as they fall due.
func (g *gossip) run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		sub, wait := g.due()
		if sub != nil {
			g.ledger.Handle(sub)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-g.wake:
		}
	}
}

// due returns the next transaction that is due, or how long to wait for one.
func (g *gossip) due() (*core.Submission, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) == 0 {
		return nil, time.Hour
	}
	if wait := time.Until(g.pending[0].due); wait > 0 {
		return nil, wait
	}
	next := g.pending[0]
	g.pending = g.pending[1:]
	return next.sub, 0
}

type dueTransaction struct {
	due time.Time
	sub *core.Submission
}

// seen remembers the ids of transactions a node accepted, until they expire.
type seen struct {
	mu      sync.Mutex
	expires map[hedera.TransactionID]time.Time
	order   []hedera.TransactionID // by acceptance
}

func newSeen() *seen { return &seen{expires: map[hedera.TransactionID]time.Time{}} }

func (s *seen) has(id hedera.TransactionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.expires[id]
	return known
}

// add is false when the id is there already.
func (s *seen) add(id hedera.TransactionID, expires time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.expires[id]; known {
		return false
	}
	s.expires[id] = expires
	s.order = append(s.order, id)
	for now := time.Now(); len(s.order) > 0; s.order = s.order[1:] {
		until, known := s.expires[s.order[0]]
		if known && !until.Before(now) {
			break
		}
		delete(s.expires, s.order[0])
	}
	return true
}

func (s *seen) remove(id hedera.TransactionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expires, id)
}
