package lock

import "github.com/ethereum/go-ethereum/common"

// Observe tells the lane the account's nonce as the mirror node shows it. It counts if
// the lane knows none, or a lower one: the mirror node lags, so it never lowers.
// With a hold-back window, a burst on a lane that knows nothing waits for it.
func (t *Ticket) Observe(nonce uint64) {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	if t.state != over {
		l.learn(nonce, false)
	}
}

// Remind is Observe for a ticket that is held back. It tells Redis even what is no news
// here: Redis may have forgotten it, with the turn of a process that died.
func (t *Ticket) Remind(nonce uint64) {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	if t.state != over {
		l.learn(nonce, l.head == t && l.holder == nil)
	}
}

// Observe tells the sender's lane a nonce that a verdict proves. It does nothing when
// the lane has been forgotten: nobody waits for it then.
func (s *Service) Observe(sender common.Address, nonce uint64) {
	l := s.reg.pinKnown(sender)
	if l == nil {
		return
	}
	defer s.reg.unpin(l)
	l.mu.Lock()
	defer l.unlock()
	l.know.prove(nonce)
	l.learn(nonce, false)
}

// HeldBack tells whether the ticket is the first of its lane in this process and, as far as
// this process knows, nobody has the turn, here or elsewhere: it waits for a predecessor, or
// for knowledge of the next nonce after a turn was lost. Whoever can look the nonce up should,
// and Observe it.
func (t *Ticket) HeldBack() bool {
	l := t.lane
	l.mu.Lock()
	defer l.unlock()
	return l.head == t && l.holder == nil && (l.far.owner == "" || !l.svc.governs(l))
}

func (l *lane) learn(nonce uint64, insist bool) {
	news := l.know.observe(nonce)
	if news && l.holder != nil {
		l.know.begin(l.holder.lease.turn.fence)
	}
	if news || insist {
		if !l.far.hint || nonce > l.far.seen {
			l.far.hint, l.far.seen = true, nonce
		}
		l.dispatch(l.svc.now())
	}
}
