package lock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Giving back what a process has in Redis and does not need any more.

// handBackTurn ends the holder's ownership in Redis, without waiting for the network.
func (l *lane) handBackTurn(lease *Lease) {
	d := handback{session: lease.turn.session, instance: lease.turn.instance, turn: true}
	chain := l.chain
	if lease.turn.open {
		chain.sure = false // another process may have gone on meanwhile
	}
	if l.chain.known || lease.unsure || lease.advanced || !errors.Is(lease.ticket.err, ErrReleased) {
		d.chain = &chain
	}
	if !l.svc.governs(l) || l.link.relation == doubted || l.link.adopting {
		l.queueHandback(d)
		return
	}
	l.link.want &^= jobShare // it travels with the release
	epoch := l.svc.remote.epoch.Load()
	l.link.releasing = append(l.link.releasing, d.session)
	spawned := l.svc.spawn(func(ctx context.Context) {
		l.sendHandback(ctx, epoch, d)
	})
	if !spawned {
		l.forgetReleasing(d.session)
	}
}

// handBackPlace gives up whatever a ticket that left may have in Redis.
func (l *lane) handBackPlace(t *Ticket) {
	if t.session == "" || t.place == placeJoining {
		return // never sent, or the worker gives it back when the reply comes
	}
	l.queueHandback(handback{session: t.session, instance: l.svc.remote.instance()})
}

// handBackLatePlace gives up the place of a ticket whose turn is over. Places that were sent again may reach Redis after
// the end of that turn, and nobody would take them out. While the turn's release is on its way, the place waits for its
// answer: given back before, the turn would end without what its holder knew.
func (l *lane) handBackLatePlace(session string) {
	if slices.Contains(l.link.releasing, session) {
		l.link.placedLate = append(l.link.placedLate, session)
		return
	}
	l.queueHandback(handback{session: session, instance: l.svc.remote.instance()})
}

// queueHandback notes a session to give back. Their number is bounded, because Redis may be away for
// long. Redis drops a session that is not given back when this process's heartbeat lapses. Until then a turn that is
// not given back would keep the lock for its hold limit, so a lane with somebody else's values gives its turn back, too.
func (l *lane) queueHandback(d handback) {
	if d.session != "" && !slices.Contains(l.link.releasing, d.session) {
		l.noteHandback(d)
	}
}

// noteHandback is queueHandback for a session that may be on its way back already.
func (l *lane) noteHandback(d handback) {
	const maximum = 4096
	f := &l.link
	if i := slices.IndexFunc(f.handbacks, func(o handback) bool { return o.session == d.session }); i >= 0 {
		if d.chain != nil {
			f.handbacks[i] = d // what its holder knew must not be lost
		}
		return
	}
	if len(f.handbacks) < maximum {
		f.handbacks = append(f.handbacks, d)
	}
}

// sendHandback gives one session back.
func (l *lane) sendHandback(ctx context.Context, epoch uint64, d handback) {
	r := l.svc.remote
	sent := l.svc.now()
	was, v, err := l.svc.calls.release(ctx, l.keys, d)
	again := err != nil && l.sendFailed(opRelease, epoch, err)
	l.mu.Lock()
	defer l.unlock()
	l.forgetReleasing(d.session)
	l.link.handedBack = l.svc.now()
	if err != nil {
		if again && d.instance == r.instance() {
			d.turn = false     // that it is not there any more then says nothing
			l.queueHandback(d) // it may have happened or not; asking again does no harm
		}
		l.dispatch(l.svc.now())
		return
	}
	if l.svc.tracing() {
		l.noteGivenBack(d, v)
	}
	now := l.svc.now()
	l.link.failures = 0
	if d.turn && !was && l.head != nil {
		l.link.want |= jobVerify // Redis has lost the turn, and may have lost places with it
	}
	if epoch == r.epoch.Load() {
		l.applyView(v, sent, now)
	}
	l.dispatch(now)
}

// passVerdict tells Redis of a verdict, and then wakes those who wait for that.
func (l *lane) passVerdict(ctx context.Context, epoch uint64, instance string, v verdict, told []chan struct{}) {
	err := l.svc.calls.judge(ctx, l.keys, instance, v)
	again := err != nil && l.sendFailed(opRelease, epoch, err)
	l.mu.Lock()
	defer l.unlock()
	if again {
		l.link.badVerdict, l.link.verdictWaiters = max(l.link.badVerdict, v.fence), append(l.link.verdictWaiters, told...)
		if v.missing != "" {
			l.link.want |= jobTellGap
		}
	} else {
		for _, waiter := range told {
			close(waiter)
		}
	}
}

func (l *lane) planTurnCheck(wait, now time.Duration) {
	if at := now + max(wait, time.Millisecond); l.head != nil && (l.link.checkTurnAt == 0 || at < l.link.checkTurnAt) {
		l.link.checkTurnAt = at
	}
}

// forgetReleasing notes that a session is not being given back any more.
func (l *lane) forgetReleasing(session string) {
	is := func(s string) bool { return s == session }
	l.link.releasing = slices.DeleteFunc(l.link.releasing, is)
	if slices.ContainsFunc(l.link.placedLate, is) {
		l.link.placedLate = slices.DeleteFunc(l.link.placedLate, is)
		l.handBackLatePlace(session)
	}
}
