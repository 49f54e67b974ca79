package ethapi

// rewinder is a FilterStore that can take cursors back.
type rewinder interface{ rewind(next uint64) }

// WentBack forgets the blocks after a block: a development network can go back to an earlier state. Filters and
// subscriptions then tell of the new blocks after it.
func (s *Subscriptions) WentBack(block uint64) {
	if f, ok := s.api.filters.(rewinder); ok {
		f.rewind(block + 1)
	}
	s.hub.rewind(block + 1)
}

// rewind implements rewinder.
func (s *localFilters) rewind(next uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byID {
		f := e.Value.(*localFilter)
		f.next = min(f.next, next)
	}
}

// rewind makes a block the next one to tell of, if later ones have been told of. Blocks that are being read
// meanwhile are told to nobody.
func (h *hub) rewind(next uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.position.epoch++
	h.position.next = min(h.position.next, next)
}
