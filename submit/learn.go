package submit

import (
	"context"
	"sync"
	"time"
)

// freshness is how old the look-ups may be when a decision hangs on the nonce alone.
const freshness = 250 * time.Millisecond

// How held-back lanes look for what they wait for: more and more seldom, and never
// many at once, so that a crowd of senders does not flood the mirror node.
const (
	slowestLook     = 2 * time.Second
	concurrentLooks = 16
)

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
		pause   = freshness
	)
	look := func() {
		if e.ticket.HeldBack() && e.s.look(ctx, e) {
			pause = min(2*pause, slowestLook)
		}
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			timer.Reset(pause)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(pause, look)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// look asks for the sender's nonce and tells the lane, unless too many look already.
func (s *Submitter) look(ctx context.Context, e *Entry) bool {
	select {
	case s.looks <- struct{}{}:
		defer func() { <-s.looks }()
	default:
		return false
	}
	if account, found, err := s.chain.Account(ctx, e.tx.From()); err == nil && found {
		e.ticket.Observe(account.Nonce)
	}
	return true
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
