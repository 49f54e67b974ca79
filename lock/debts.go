package lock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Giving back what a process has in Redis and does not need any more.

// giveBack ends the holder's ownership in Redis, without waiting for the network.
func (l *lane) giveBack(lease *Lease) {
	d := debt{session: lease.turn.session, instance: lease.turn.instance}
	know := l.know
	if lease.turn.open {
		know.sure = false // another process may have gone on meanwhile
	}
	if l.know.known || lease.unsure || lease.advanced || !errors.Is(lease.ticket.err, ErrReleased) {
		d.know = &know
	}
	if !l.svc.governs(l) || l.far.paused || l.far.adopting || !l.svc.reg.repin(l) {
		l.owe(d)
		return
	}
	l.far.hint = false // it travels with the release
	epoch := l.svc.remote.epoch.Load()
	l.far.releasing = append(l.far.releasing, d.session)
	spawned := l.svc.spawn(func(ctx context.Context) {
		l.repay(ctx, epoch, d)
		l.svc.reg.unpin(l)
	})
	if !spawned {
		l.svc.reg.unpin(l)
		l.forgetReleasing(d.session)
	}
}

// abandon gives up whatever a ticket that left may have in Redis.
func (l *lane) abandon(t *Ticket) {
	if t.session == "" || t.place == placeJoining {
		return // never sent, or the worker sees to it when the reply comes
	}
	l.owe(debt{session: t.session, instance: l.svc.remote.instance()})
}

// owe notes a session to take back. The bound is for a server that stays away for
// long: what is dropped there, it drops itself when this process's heartbeat lapses.
func (l *lane) owe(d debt) {
	const most = 4096
	f := &l.far
	if d.session == "" || f.foreign || slices.Contains(f.releasing, d.session) {
		return
	}
	if i := slices.IndexFunc(f.debts, func(o debt) bool { return o.session == d.session }); i >= 0 {
		if d.know != nil {
			f.debts[i] = d // what its holder knew must not be lost
		}
		return
	}
	if len(f.debts) < most {
		f.debts = append(f.debts, d)
	}
}

// repay sends one debt.
func (l *lane) repay(ctx context.Context, epoch uint64, d debt) {
	r := l.svc.remote
	sent := l.svc.now()
	_, v, err := r.release(ctx, l.keys, d)
	again := err != nil && l.sendFailed(opRelease, epoch, err)
	l.mu.Lock()
	defer l.unlock()
	l.forgetReleasing(d.session)
	if err != nil {
		if again && d.instance == r.instance() {
			l.owe(d) // it may have happened or not; asking again does no harm
		}
		l.dispatch(l.svc.now())
		return
	}
	if l.svc.tracing {
		l.noteGivenBack(d, v)
	}
	now := l.svc.now()
	l.far.failures = 0
	if epoch == r.epoch.Load() {
		l.heard(v, sent, now)
	}
	l.dispatch(now)
}

// passVerdict tells Redis of a bad verdict, and then those who wait for that.
func (l *lane) passVerdict(ctx context.Context, epoch uint64, instance string, fence uint64, told []chan struct{}) {
	err := l.svc.remote.forget(ctx, l.keys, instance, fence)
	again := err != nil && l.sendFailed(opRelease, epoch, err)
	l.mu.Lock()
	defer l.unlock()
	if again {
		l.far.forget, l.far.told = max(l.far.forget, fence), append(l.far.told, told...)
	} else {
		for _, waiter := range told {
			close(waiter)
		}
	}
	l.pinForNews()
}

func (l *lane) heardWait(wait, now time.Duration) {
	if at := now + max(wait, time.Millisecond); l.head != nil && (l.far.kickAt == 0 || at < l.far.kickAt) {
		l.far.kickAt = at
	}
}

func (l *lane) forgetReleasing(session string) {
	l.far.releasing = slices.DeleteFunc(l.far.releasing, func(s string) bool { return s == session })
}
