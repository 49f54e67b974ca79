package submit

import (
	"context"
	"sync"
	"time"
)

// freshness is how old the look-ups may be when a decision hangs on the nonce alone.
const freshness = 250 * time.Millisecond

// learner looks the nonces of senders up again, and again, while a transaction is the
// first of a lane that holds back: its predecessor may have gone another way, or the
// lane may have lost track, and with a hold-back window all wait for that knowledge.
// One timer serves all transactions; it runs while there are any.
type learner struct {
	chain Chain

	mu      sync.Mutex
	waiting map[*Entry]context.Context // that of its look-ups; guarded by mu
	timer   *time.Timer                // guarded by mu
}

func newLearner(chain Chain) *learner {
	return &learner{chain: chain, waiting: make(map[*Entry]context.Context)}
}

func (l *learner) add(ctx context.Context, e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[e] = ctx
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
	delete(l.waiting, e)
	if len(l.waiting) == 0 {
		l.timer.Stop()
	}
}

// looksPerRound bounds the look-ups of a round, so that a crowd of senders does not
// flood the mirror node; who has to wait for a later round is left to chance.
const looksPerRound = 16

// round starts a look-up for transactions that need one and have none under way.
func (l *learner) round() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return
	}
	looks := 0
	for e, ctx := range l.waiting {
		if looks == looksPerRound {
			break
		}
		if e.ticket.HeldBack() && e.learning.CompareAndSwap(false, true) {
			looks++
			go l.look(ctx, e)
		}
	}
	l.timer.Reset(freshness)
}

func (l *learner) look(ctx context.Context, e *Entry) {
	defer e.learning.Store(false)
	// What fails, be it with a panic, is tried again in the next round.
	_ = safely(func() error {
		account, found, err := l.chain.Account(ctx, e.tx.From())
		if err == nil && found {
			e.ticket.Remind(account.Nonce)
		}
		return err
	})()
}

// learns tells whether the learner is to look after transactions that wait.
func (s *Submitter) learns() bool { return s.ordering.GapHold > 0 && !s.cfg.SkipLookUps }

// renew looks the sender up again if the transaction is about to be taken for a gap on
// the strength of an old look-up. Without a lane's certainty the mirror node is all
// there is to go by, and it may have moved on while the transaction was queued.
func (s *Submitter) renew(turn *turn, e *Entry, known known) known {
	expected, sure := turn.expected(known.nonce)
	if turn.gapIsWrong(sure) || turn.likely(expected, sure) >= e.tx.Nonce() || s.cfg.SkipLookUps || time.Since(known.at) < freshness {
		return known
	}
	account, found, err := s.chain.Account(turn.ctx, e.tx.From())
	if err != nil || !found {
		return known
	}
	known.nonce, known.Balance, known.at = account.Nonce, account.Balance, time.Now()
	return known
}
