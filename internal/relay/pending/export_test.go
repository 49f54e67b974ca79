package pending

// Sizes returns how many transactions and senders are remembered.
func (p *Pool) Sizes() (entries, senders int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.table.hashes), len(p.table.senders)
}
