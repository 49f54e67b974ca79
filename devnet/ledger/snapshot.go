package ledger

import (
	"maps"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/versions"
)

// Snapshot is a moment that the ledger can go back to: accounts, contracts, tokens, topics,
// files, blocks and records alike. It costs next to nothing, since all state has history.
// It is good as long as the ledger keeps the block that it was taken at.
type Snapshot struct {
	ledger  *Ledger
	block   *Block // the newest one
	clock   clockState
	nextNum int64
	running [4]state.Hash48
	files   map[int64]*state.File // which have no history
}

// Snapshot closes the open block, if there is one, and takes a snapshot after it.
func (l *Ledger) Snapshot() *Snapshot {
	l.handling.Lock()
	defer l.handling.Unlock()
	if l.chain.open != nil {
		l.closeBlock()
	}
	l.store.RLock()
	defer l.store.RUnlock()
	newest := l.chain.blocks[len(l.chain.blocks)-1]
	return &Snapshot{
		ledger: l, block: newest, clock: l.clock(), nextNum: l.store.NextNum, running: l.chain.running,
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
	if s.ledger != l || c.number(s.block.Number) != s.block {
		return false
	}
	at := s.block.To.UnixNano()
	if c.open != nil {
		c.drop(c.open)
		rewind(c.openTouched, at)
		c.open, c.openTouched = nil, nil
	}
	c.chosen = nil
	keep := int(s.block.Number - c.blocks[0].Number + 1)
	for i := len(c.blocks) - 1; i >= keep; i-- {
		c.drop(c.blocks[i])
		delete(c.byHash, [32]byte(c.blocks[i].Hash[:32]))
		c.weight -= c.blocks[i].weight
		rewind(c.touched[i], at)
	}
	// Readers may hold the old lists: they are not written over.
	c.blocks, c.touched = slices.Clip(c.blocks[:keep]), slices.Clip(c.touched[:keep])
	c.running = s.running
	l.store.World.Files = maps.Clone(s.files)
	l.store.NextNum = s.nextNum
	l.published = at
	l.turnBack(s.clock)
	l.newest.Store(l.viewAt(at))
	l.newGeneration(s.block.Number, s.block.Number)
	return true
}

// drop forgets the records of a block, which are the newest that there are.
func (c *chain) drop(b *Block) {
	for _, r := range slices.Backward(b.Records) {
		if r.IsChild() {
			continue
		}
		dropLast(c.byID, r.ID)
		if key := [32]byte(r.Hash[:32]); c.byTxHash[key] == r {
			delete(c.byTxHash, key)
			if earlier := c.byID[r.ID]; len(earlier) > 0 && earlier[len(earlier)-1].Hash == r.Hash {
				c.byTxHash[key] = earlier[len(earlier)-1] // a duplicate of it was dropped
			}
		}
		if r.EthereumHash != (common.Hash{}) {
			dropLast(c.byEthHash, r.EthereumHash)
		}
	}
}

// dropLast removes the newest record of a key.
func dropLast[K comparable](m map[K][]*Record, key K) {
	if list := m[key]; len(list) > 1 {
		m[key] = slices.Clone(list[:len(list)-1])
		return
	}
	delete(m, key)
}

// rewind takes back what was touched after a time.
func rewind(touched []versions.Ref, ns int64) {
	for _, row := range touched {
		row.Rewind(ns)
	}
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
	l.store.World, l.chain = state.NewWorld(l.store.Fork), newChain(l.cfg.History, l.cfg.HistoryBytes)
	l.offset.Store(0)
	l.ahead = 0
	l.nextTime.Store(0)
	l.settled = 0
	l.pace = newPace(l.cfg)
	if err := l.genesis(l.Now()); err != nil {
		return err
	}
	first := l.chain.blocks[0].Number
	l.newGeneration(first, first)
	return nil
}
