package ledger

import (
	"maps"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
)

// Snapshot is a moment that the ledger can go back to: accounts, contracts, tokens, topics,
// files, blocks and records alike. It costs next to nothing, since all state has history.
// It is good as long as the ledger keeps the block that it was taken at.
type Snapshot struct {
	ledger  *Ledger
	block   *history.Block // the newest one
	clock   clockState
	nextNum int64
	running [4]state.Hash48
	files   map[int64]*state.File // which have no history
}

// Snapshot closes the open block, if there is one, and takes a snapshot after it.
func (l *Ledger) Snapshot() *Snapshot {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.chain.Open != nil {
		l.closeBlock()
	}
	l.store.RLock()
	defer l.store.RUnlock()
	return &Snapshot{
		ledger: l, block: l.chain.Newest(), clock: l.clock(), nextNum: l.store.NextNum, running: l.chain.Running,
		files: maps.Clone(l.store.World.Files),
	}
}

// Revert goes back to a snapshot: what was handled since then has not happened. It returns
// false, and does nothing, where the snapshot is another ledger's, lies after a moment that
// the ledger went back to since, or is no longer kept. The clock goes back, too, and on from there.
//
// It costs what was changed since the snapshot. Views of moments that are gone show the
// state of the snapshot.
func (l *Ledger) Revert(s *Snapshot) bool {
	l.handling.Lock()
	defer l.handling.Unlock()
	if !l.rewind(s) {
		return false
	}
	l.subscribers.notify()
	return true
}

func (l *Ledger) rewind(s *Snapshot) bool {
	l.store.Lock()
	defer l.store.Unlock()
	c := l.chain
	if s.ledger != l || c.Number(s.block.Number) != s.block {
		return false
	}
	at := s.block.To.UnixNano()
	c.Rewind(s.block, s.running)
	l.store.World.Files = maps.Clone(s.files)
	l.store.NextNum = s.nextNum
	l.published = at
	l.turnBack(s.clock)
	l.newest.Store(l.viewAt(at))
	l.newGeneration(s.block.Number, s.block.Number)
	return true
}

// Reset begins again: the ledger has its genesis accounts and its first block alone, and the clock is the
// machine's. Consensus nodes stay in the address book.
func (l *Ledger) Reset() error {
	l.handling.Lock()
	defer l.handling.Unlock()
	if err := l.restart(); err != nil {
		return err
	}
	l.subscribers.notify()
	return nil
}

func (l *Ledger) restart() error {
	l.store.Lock()
	defer l.store.Unlock()
	l.store.World, *l.chain = state.NewWorld(l.store.Fork), *history.NewChain(l.cfg.History, l.cfg.HistoryBytes)
	l.offset.Store(0)
	l.ahead = 0
	l.nextTime.Store(0)
	l.settled = 0
	l.pace = newPace(l.cfg)
	if err := l.genesis(l.Now()); err != nil {
		return err
	}
	first := l.chain.Oldest().Number
	l.newGeneration(first, first)
	return nil
}
