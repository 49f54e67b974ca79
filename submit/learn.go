package submit

import (
	"context"
	"sync"
	"time"
)

// freshness is how old the look-ups may be when a decision hangs on the nonce alone.
const freshness = 250 * time.Millisecond

// keepLearning looks the sender's nonce up again, and again, while the transaction is
// the first of a lane that holds back: its predecessor may have gone another way, or
// the lane may have lost track, and with a hold-back window all wait for that knowledge.
// It costs a timer for each queued transaction and nothing else.
func (e *Entry) keepLearning(ctx context.Context) (stop func()) {
	if e.s.ordering.GapHold == 0 || e.s.cfg.SkipLookUps {
		return func() {}
	}
	var (
		mu      sync.Mutex
		stopped bool
		timer   *time.Timer
	)
	look := func() {
		if e.ticket.HeldBack() {
			if account, found, err := e.s.chain.Account(ctx, e.tx.From()); err == nil && found {
				e.ticket.Observe(account.Nonce)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			timer.Reset(freshness)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(freshness, look)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// renew looks the sender up again if the transaction is about to be taken for a gap on
// the strength of an old look-up. Without a lane's certainty the mirror node is all
// there is to go by, and it may have moved on while the transaction was queued.
func (s *Submitter) renew(turn *turn, e *Entry, known known) known {
	expected, sure := turn.expected(known.nonce)
	if turn.gapIsWrong(sure) || expected >= e.tx.Nonce() || s.cfg.SkipLookUps || time.Since(known.at) < freshness {
		return known
	}
	account, found, err := s.chain.Account(turn.ctx, e.tx.From())
	if err != nil || !found {
		return known
	}
	known.nonce, known.Balance, known.at = account.Nonce, account.Balance, time.Now()
	return known
}
