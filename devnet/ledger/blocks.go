package ledger

import (
	"context"
	"sync"
	"time"

	"lockstep/internal/hedera"
)

// Run closes blocks when their time is over, and makes a block without transactions for
// each interval in which there were none, so that heads flow as on the network. It executes
// schedules that wait for their time. Without an interval and without such schedules there is
// nothing to do, and it waits for them.
func (l *Ledger) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.deadline:
		case <-timer.C:
		}
		left, timed := l.closeDue()
		if next, any := l.executeWaiting(); any && (!timed || next < left) {
			left, timed = next, true
		}
		if timed {
			timer.Reset(left)
		}
	}
}

// entered ends what a transaction or an edit has done to the open block. The caller holds
// handling.
func (l *Ledger) entered() {
	if l.pace.automine {
		l.closeBlock()
	} else {
		l.wake()
	}
}

// wake has Run look at what has its time: blocks and schedules.
func (l *Ledger) wake() {
	select {
	case l.deadline <- struct{}{}:
	default:
	}
}

// CloseBlock publishes the open block, if there is one, before its time is over.
func (l *Ledger) CloseBlock() {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.chain.Open != nil {
		l.closeBlock()
	}
}

// closeDue closes the open block if its time is over, and a block without transactions
// where the time since the last one is over. It returns how long the next one has; any is
// false where no block ends by time.
func (l *Ledger) closeDue() (left time.Duration, any bool) {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.pace.interval == 0 {
		return 0, false
	}
	begin := l.closedAt
	if open := l.chain.Open; open != nil {
		begin = l.opened(open)
	}
	if left := time.Until(begin.Add(l.pace.interval)); left > 0 {
		return left, true
	}
	if l.chain.Open == nil {
		l.openEmpty()
	}
	l.closeBlock()
	return l.pace.interval, true
}

// openEmpty begins a block that ends at once. It has a consensus time of its own, as if a
// transaction had come. The caller holds handling.
func (l *Ledger) openEmpty() {
	at := l.tick()
	l.store.Lock()
	defer l.store.Unlock()
	l.chain.Begin(hedera.FromNanos(at))
}

// closeBlock publishes the open block. The caller holds handling.
func (l *Ledger) closeBlock() {
	l.closedAt = time.Now()
	l.store.Lock()
	b := l.chain.CloseOpen()
	if b != nil {
		l.published = b.To.UnixNano()
		l.newest.Store(l.viewAt(l.published))
		l.chain.Forget()
	}
	l.store.Unlock()
	if b != nil {
		l.beginSaves()
		l.subscribers.notify()
	}
}

// subscribers are told that there is a new block.
type subscribers struct {
	mu   sync.Mutex
	list map[chan struct{}]struct{}
}

// Subscribe returns a channel that receives after new blocks were published. It
// holds one notice: several blocks may come with one. Cancel ends it.
func (l *Ledger) Subscribe() (changed <-chan struct{}, cancel func()) {
	s := &l.subscribers
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = map[chan struct{}]struct{}{}
	}
	s.list[ch] = struct{}{}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.list, ch)
	}
}

func (s *subscribers) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.list {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
