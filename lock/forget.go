package lock

// Forget drops what this process knows of all senders' nonces: a development network can go back to an earlier
// state, in which they are lower. Waiting tickets and present turns stay. What lanes have in Redis stays, too,
// until its time to live ends.
func (s *Service) Forget() {
	for _, l := range s.reg.pinAll() {
		l.mu.Lock()
		l.chain, l.afterAccepted, l.recoveredAt, l.holeTold = chain{}, 0, 0, false
		l.dispatch(s.now())
		l.unlock()
		s.reg.unpin(l)
	}
}

// pinAll pins and returns all lanes that there are. The caller unpins each.
func (r *registry) pinAll() []*lane {
	r.mu.Lock()
	idle := r.idle.Values()
	r.mu.Unlock()
	out := r.pinBusy()
	for _, l := range idle {
		if r.repin(l) {
			out = append(out, l)
		}
	}
	return out
}
