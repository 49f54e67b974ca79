package ledger

import (
	"errors"
	"time"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/facts"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// ForkPoint is where a ledger leaves the history of its upstream.
type ForkPoint struct {
	Upstream state.Upstream
	Block    history.Block // the newest one of the upstream that the fork has; its records stay there
	Rate     core.ExchangeRate
	GasPrice hedera.Tinybar

	// First is the number of the first entity that the fork makes. The upstream's are below it.
	First int64
	// System are the balances of the accounts up to 0.0.1000, of which the fork has copies
	// with keys of its own.
	System map[int64]hedera.Tinybar
	// Accounts are those of Config.Accounts that the upstream has under the same number and
	// with the same key: they go on there. For an address that another account of it has,
	// Nonces says how far that is, so that contracts get new addresses.
	Accounts map[int64]state.Account
	Nonces   map[int64]int64

	CacheBytes int64 // of facts about the upstream that are kept, roughly; 64 MiB
}

// upstream is what rows come from.
func (p *ForkPoint) upstream() *state.Origin {
	if p == nil {
		return nil
	}
	return &state.Origin{Upstream: p.Upstream, At: p.Block.To.UnixNano(), Block: p.Block.Number, First: p.First, CacheBytes: p.CacheBytes}
}

// ErrForked is state of a fork that was to be saved or replaced: it is whole only together with its upstream.
var ErrForked = errors.New("the network is a fork: its state is not saved or loaded")

// Prepare fetches what a transaction needs to know of a fork's upstream, as long as no other one waits
// for that. It changes nothing. The error is the upstream's.
func (l *Ledger) Prepare(sub *core.Submission) error {
	if l.fork == nil {
		return nil
	}
	const rounds = 10_000 // each learns something
	r := facts.NewRehearsal[state.FactKey]()
	for range rounds {
		done, err := r.Attempt(func() { l.rehearse(sub, r) })
		if done || err != nil {
			return err
		}
	}
	return &facts.UpstreamError{Err: errors.New("a transaction needs too much of it")}
}

// rehearse handles a transaction on an overlay that is thrown away.
func (l *Ledger) rehearse(sub *core.Submission, r *facts.Rehearsal[state.FactKey]) {
	l.handling.Lock()
	defer l.handling.Unlock()
	h := l.net.Handle(sub, l.upcoming())
	h.State.Rehearsal = r
	h.Run()
}

// genesisBlock is the fork point as the ledger's first block.
func (p *ForkPoint) genesisBlock() *history.Block {
	b := p.Block
	b.Records = nil
	return &b
}

// startAfter keeps the clock from standing before the fork point.
func (l *Ledger) startAfter(at int64) {
	if now := l.Now(); now.UnixNano() < at {
		l.setClock(at)
		l.closedAt = time.Unix(0, at)
	}
}

// rate is the price of hbar: without a fork the bootstrap rate of every network, where 1 ℏ is 12 cents.
func (p *ForkPoint) rate() core.ExchangeRate {
	if p == nil {
		return core.ExchangeRate{Hbar: 1, Cents: 12, Expires: 4_102_444_800}
	}
	return p.Rate
}
