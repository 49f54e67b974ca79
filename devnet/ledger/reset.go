package ledger

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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.world, l.chain = newWorld(l.fork), newChain(l.cfg.History, l.cfg.HistoryBytes)
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
