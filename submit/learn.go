package submit

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/lock"
)

// freshness is how old the look-ups may be when a decision depends on the nonce alone.
const freshness = 250 * time.Millisecond

// learner looks a sender's nonce up again and again, while a transaction is the first of a lane that holds back.
// Its predecessor may have gone another way, or the lane may not know the next nonce, and with a hold-back window
// all wait for that. One timer serves all transactions; it runs while there are any.
type learner struct {
	chain Chain

	mu      sync.Mutex
	waiting map[*Entry]*watched // guarded by mu
	timer   *time.Timer         // guarded by mu
}

// watched is an entry that waits.
type watched struct {
	ctx    context.Context // of its wait
	sender common.Address
	ticket *lock.Ticket
	cancel context.CancelFunc // of the look-up under way; nil: there is none; guarded by learner.mu
}

func newLearner(chain Chain) *learner {
	return &learner{chain: chain, waiting: make(map[*Entry]*watched)}
}

func (l *learner) add(ctx context.Context, e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.waiting[e]; w != nil && w.ticket == e.ticket {
		return // Notify has added it
	}
	l.drop(e)
	l.waiting[e] = &watched{ctx: ctx, sender: e.tx.From(), ticket: e.ticket}
	switch {
	case len(l.waiting) > 1: // it runs
	case l.timer == nil:
		l.timer = time.AfterFunc(freshness, l.round)
	default:
		l.timer.Reset(freshness)
	}
}

func (l *learner) remove(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(e)
	if len(l.waiting) == 0 {
		l.timer.Stop()
	}
}

// drop also ends the look-up under way: nobody waits for it any more, and a mirror node that hangs would keep it.
func (l *learner) drop(e *Entry) {
	if w := l.waiting[e]; w != nil {
		if w.cancel != nil {
			w.cancel()
		}
		delete(l.waiting, e)
	}
}

// looksPerRound bounds the look-ups of a round, so that many senders do not flood the mirror node. Chance decides
// which of them wait for a later round.
const looksPerRound = 16

// round starts a look-up for transactions that need one and have none under way.
func (l *learner) round() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return
	}
	looks := 0
	for _, w := range l.waiting {
		if looks == looksPerRound {
			break
		}
		if w.cancel == nil && w.ticket.FirstInLine() {
			looks++
			var ctx context.Context
			ctx, w.cancel = context.WithCancel(w.ctx)
			go l.look(ctx, w)
		}
	}
	l.timer.Reset(freshness)
}

func (l *learner) look(ctx context.Context, w *watched) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.cancel()
		w.cancel = nil
	}()
	// A look-up that fails, even by a panic, is tried again in the next round.
	_ = safely(func() error {
		account, found, err := l.chain.Account(ctx, w.sender)
		if err == nil && found {
			w.ticket.Remind(account.Nonce)
		}
		return err
	})()
}

// learns tells whether the learner is to look after the transaction while it waits.
func (e *Entry) learns() bool {
	return !e.s.cfg.SkipLookUps && (e.s.ordering.Window > 0 || e.returned || e.s.cfg.Async)
}
