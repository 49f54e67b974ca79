package ledger

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/hedera"
)

// Run closes blocks when their time is over. Without a block time there is nothing
// to do, and it only waits for the context.
func (l *Ledger) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.deadline:
			timer.Reset(l.closeDue())
		case <-timer.C:
			if wait := l.closeDue(); wait > 0 {
				timer.Reset(wait)
			}
		}
	}
}

// blockOpened tells Run that there is a block to close.
func (l *Ledger) blockOpened() {
	select {
	case l.deadline <- struct{}{}:
	default:
	}
}

// CloseBlock publishes the open block, if there is one, before its time is over.
func (l *Ledger) CloseBlock() {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.chain.open != nil {
		l.closeBlock()
	}
}

// closeDue closes the open block if its time is over, else it returns how long it
// still has; 0 without an open block.
func (l *Ledger) closeDue() time.Duration {
	l.handling.Lock()
	defer l.handling.Unlock()
	open := l.chain.open
	if open == nil {
		return 0
	}
	if left := time.Until(open.From.Time().Add(l.cfg.BlockTime)); left > 0 {
		return left
	}
	l.closeBlock()
	return 0
}

// closeBlock publishes the open block. The caller holds handling.
func (l *Ledger) closeBlock() {
	l.mu.Lock()
	b := l.chain.closeOpen()
	if b != nil {
		l.published = b.To.UnixNano()
		l.newest.Store(&View{l: l, asOf: l.published})
		l.chain.forget(l.world)
	}
	l.mu.Unlock()
	if b != nil {
		l.subscribers.notify()
	}
}

// env is what the EVM sees of the block that a transaction at a time falls into.
// The caller holds handling.
func (l *Ledger) env(at int64) blockEnv {
	begin := hedera.FromNanos(at)
	if open := l.chain.open; open != nil {
		begin = open.From
	}
	number := l.chain.nextNumber()
	return blockEnv{
		number: number, time: begin.Seconds, seed: l.chain.seed(),
		hashes: func(n uint64) common.Hash { return l.chain.hash(number, n) },
	}
}

// hash is what BLOCKHASH shows of block n in block current: the first 32 bytes, for
// the last 256 blocks.
func (c *chain) hash(current int64, n uint64) common.Hash {
	if n >= uint64(current) || uint64(current)-n > 256 {
		return common.Hash{}
	}
	b := c.number(int64(n))
	if b == nil {
		return common.Hash{}
	}
	return common.Hash(b.Hash[:32])
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
