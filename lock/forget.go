package lock

// Forget drops what this process knows of all senders' nonces: a development network can go back to an earlier
// state, in which they are lower. Waiting tickets and present turns stay. What lanes have in Redis stays, too,
// until its time to live ends.
func (s *Service) Forget() {
	s.each(true, func(l *lane) {
		l.chain, l.afterAccepted, l.recoveredAt, l.holeTold = chain{}, 0, 0, false
		l.dispatch(s.now())
	})
}
