package lock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// place says where a waiting ticket is in the queue in Redis.
type place uint8

const (
	placeNone    place = iota // not known to be there
	placeJoining              // being sent
	placeQueued
)

const joinBatch = 256 // most places that one script adds

// far is what a lane has to do with Redis. One worker at a time sends for a lane, so that
// places are taken in ticket order whatever the connection pool does; the release of
// a turn does not wait for it. Guarded by lane.mu.
//
// The waiting tickets whose place is placeNone are always the last ones of the queue.
type far struct {
	syncing   bool          // the worker runs
	pinned    bool          // see pinForNews
	broken    bool          // the keys of this lane cannot be used; ordered locally for a while
	foreign   bool          // … because somebody else's values are there
	retryAt   time.Duration // when broken is over
	paused    bool          // a call failed: the next heartbeat tells whether Redis did
	pausedAt  uint64        // heartbeats that had begun by then
	failures  int           // in a row, although heartbeats succeeded
	verify    bool          // all places are to be sent again
	again     bool          // the places being sent may be in Redis already
	adopt     bool          // the holder's turn may be missing in Redis
	kick      bool          // see whether anybody can go
	hint      bool          // an observed nonce is news to Redis
	forget    uint64        // newest turn with a bad verdict; 0 = none
	reclaim   string        // instance known to be dead; empty = none
	mourned   string        // the dead instance that was removed last
	debts     []debt        // sessions to take back
	releasing []string      // sessions being given back now
	kickAt    time.Duration // when to kick; 0 = not planned
	tried     *Ticket       // the head for which the end of its window was seen to
	heardAt   time.Duration // when the owner was last seen to change
	owner     string        // session of the owner at that time
	verified  time.Duration // when its places were last sent again, or first sent
	fence     uint64        // newest turn that Redis gave this process
	early     *view         // our turn came while the process itself had not ended the one before
}

// rest forgets what an empty lane was about to do.
func (f *far) rest() {
	f.kick, f.kickAt, f.tried = false, 0, nil
	if f.foreign {
		f.broken, f.foreign, f.retryAt = false, false, 0 // the next burst tries again
	}
}

// tryAgain ends the time during which the lane was kept off Redis.
func (l *lane) tryAgain(now time.Duration) {
	f := &l.far
	switch {
	case !f.broken || f.retryAt == 0:
	case now < f.retryAt:
		l.arm(f.retryAt, now)
	default:
		f.broken, f.foreign, f.retryAt = false, false, 0
		f.verify, f.adopt = true, true
		for t := l.head; t != nil; t = t.next {
			l.recount(t, redisStrategy)
		}
	}
}

// pinForNews keeps a lane that has yet to settle something with Redis, although nobody
// uses it any more, so that it is found when Redis returns.
func (l *lane) pinForNews() {
	owing := len(l.far.debts) > 0 || l.far.forget != 0
	switch {
	case owing && !l.far.pinned:
		l.far.pinned = l.svc.reg.repin(l)
	case !owing && l.far.pinned:
		l.far.pinned = false
		l.svc.reg.unpin(l)
	}
}

// pursue moves a lane on whose order Redis decides.
func (l *lane) pursue(now time.Duration) {
	if v := l.far.early; v != nil && l.holder == nil {
		l.far.early = nil
		l.take(*v, now)
	}
	if l.far.kickAt != 0 {
		if now >= l.far.kickAt {
			l.far.kickAt, l.far.kick = 0, true
		} else {
			l.arm(l.far.kickAt, now)
		}
	}
	if h := l.head; h != nil && h.until != 0 && l.holder == nil && l.far.tried != h {
		if now >= h.until {
			l.far.tried, l.far.kick = h, true
		} else {
			l.arm(h.until, now)
		}
	}
	if l.far.syncing || l.far.paused || !l.hasNews() || !l.svc.reg.repin(l) {
		return
	}
	l.far.syncing = true
	if !l.svc.spawn(l.sync) {
		l.far.syncing = false
		l.svc.reg.unpin(l)
	}
}

func (l *lane) hasNews() bool {
	f := &l.far
	unplaced := l.tail != nil && l.tail.place == placeNone
	return unplaced || f.verify && l.head != nil || f.adopt && l.holder != nil || f.kick || f.tellHint(l) ||
		f.verdictReady() || f.reclaim != "" || len(f.debts) > 0
}

// verdictReady: a verdict must not overtake the release of the turn it is about.
func (f *far) verdictReady() bool { return f.forget != 0 && len(f.releasing) == 0 }

// tellHint: without a hold-back window nobody waits for the knowledge, so it travels with
// the next release instead of costing a command.
func (f *far) tellHint(l *lane) bool {
	return f.hint && l.know.known && l.svc.cfg.GapHold > 0 && l.head != nil
}

// sync is the worker: it sends until there is nothing left to send.
func (l *lane) sync(ctx context.Context) {
	defer l.svc.reg.unpin(l)
	r := l.svc.remote
	for {
		l.mu.Lock()
		if ctx.Err() != nil || !l.svc.governs(l) || l.far.paused || !l.hasNews() {
			l.far.syncing = false
			l.mu.Unlock()
			return
		}
		step := l.nextStep(r)
		l.mu.Unlock()
		step(ctx)
	}
}

// nextStep takes the most urgent piece of news. It must be called with l.mu held, and
// what it returns without.
func (l *lane) nextStep(r *remote) func(context.Context) {
	f := &l.far
	epoch := r.epoch.Load()
	switch {
	case f.adopt && l.holder != nil: // first, so that nothing gives its turn away
	case f.reclaim != "":
		dead := f.reclaim
		f.reclaim = ""
		return func(ctx context.Context) { l.reclaim(ctx, epoch, dead) }
	case len(f.debts) > 0:
		d := f.debts[0]
		f.debts = f.debts[1:]
		f.releasing = append(f.releasing, d.session)
		return func(ctx context.Context) { l.repay(ctx, epoch, d) }
	case f.verdictReady():
		fence := f.forget
		f.forget = 0
		instance := r.instance()
		return func(ctx context.Context) { l.passVerdict(ctx, epoch, instance, fence) }
	}
	call, batch, instance := l.enterCall(r)
	return func(ctx context.Context) {
		sent := l.svc.now()
		v, err := r.enter(ctx, l.keys, instance, call)
		if err != nil {
			l.sendFailed(opAcquire, epoch, err)
		}
		l.entered(epoch, call, batch, v, sent, err)
	}
}

// enterCall collects everything one run of the enter script can say.
func (l *lane) enterCall(r *remote) (enterCall, []*Ticket, string) {
	f := &l.far
	now := l.svc.now()
	instance := r.instance()
	settle := r.settleUntil()
	if f.verify {
		for t := l.head; t != nil; t = t.next {
			t.place = placeNone
		}
		f.verify, f.again, f.verified = false, true, now
	}
	call := enterCall{again: f.again, take: now >= settle}
	if !call.take && (f.kickAt == 0 || f.kickAt > settle) {
		f.kickAt = settle
	}
	if f.hint && l.know.known && (l.svc.cfg.GapHold > 0 || f.again) {
		call.hint = strconv.FormatUint(l.know.expected, 10)
	}
	if t := l.holder; t != nil && f.adopt {
		call.adopt = &adoption{
			session: l.sessionOf(t), nonce: t.nonce, fence: t.lease.turn.fence, left: t.lease.turn.deadline - now,
			strict: t.lease.turn.session != "",
		}
		f.debts = slices.DeleteFunc(f.debts, func(d debt) bool { return d.session == t.session })
	}
	f.kick, f.hint, f.adopt = false, false, false
	batch := l.unplaced()
	for _, t := range batch {
		t.place = placeJoining
		call.places = append(call.places, joiner{session: l.sessionOf(t), nonce: t.nonce})
	}
	if l.tail == nil || l.tail.place != placeNone {
		f.again = false
	}
	return call, batch, instance
}

// unplaced returns the first tickets that have no place, in order.
func (l *lane) unplaced() []*Ticket {
	first, n := l.tail, 0
	if first == nil || first.place != placeNone {
		return nil
	}
	for n = 1; first.prev != nil && first.prev.place == placeNone; n++ {
		first = first.prev
	}
	batch := make([]*Ticket, 0, min(n, joinBatch))
	for t := first; t != nil && len(batch) < joinBatch; t = t.next {
		batch = append(batch, t)
	}
	return batch
}

// sessionOf returns the key of a ticket's acquisition. Version 7, so that keys rise with
// time: among equal nonces the sorted set then keeps the order of arrival.
func (l *lane) sessionOf(t *Ticket) string {
	if t.session == "" {
		id, err := uuid.NewV7()
		if err != nil {
			id = uuid.New() // panics only if the system has no randomness at all
		}
		t.session = id.String()
	}
	return t.session
}

// entered takes in the reply of the enter script.
func (l *lane) entered(epoch uint64, call enterCall, batch []*Ticket, v view, sent time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.svc.now()
	current := err == nil && epoch == l.svc.remote.epoch.Load()
	for _, t := range batch {
		switch {
		case t.state == waiting && t.place == placeJoining && current:
			t.place = placeQueued
		case t.state == waiting && t.place == placeJoining:
			t.place = placeNone
			l.far.verify, l.far.adopt = true, true
		case t.state == holding && t.lease.turn.session == "":
			l.far.adopt = true // it began its turn without Redis, which may have given it the lock
		case t.state == over:
			l.owe(debt{session: t.session, instance: l.svc.remote.instance()})
		}
	}
	if err != nil && call.adopt != nil {
		l.far.adopt = true
	}
	if current {
		l.far.failures = 0
		if t := l.holder; v.refused && t != nil && t.session == call.adopt.session && t.lease.turn.session != "" {
			l.lose(t, "another turn has been since")
		}
		l.svc.metrics.rejoins[redisStrategy].Add(float64(v.rejoined))
		l.heard(v, sent, now)
	}
	l.dispatch(now)
}

// heard takes in what a script said about whose turn it is.
func (l *lane) heard(v view, sent, now time.Duration) {
	if v.owner.session != l.far.owner {
		// Only a change is news: that an owner is still there says nothing of its life.
		l.far.owner, l.far.heardAt = v.owner.session, now
	}
	if v.wait >= 0 {
		l.heardWait(v.wait, now)
	}
	if v.owner.instance != l.svc.remote.instance() {
		l.heardOfAnother(v.owner, sent)
		return
	}
	if v.left >= 0 {
		v.left += sent // from here on a point in time: the server cannot have counted from earlier
	}
	l.take(v, now)
}

// heardOfAnother takes in that the lock is free, or belongs to another process.
func (l *lane) heardOfAnother(o record, sent time.Duration) {
	t := l.holder
	if t != nil && t.lease.turn.session != "" {
		if o.fence > t.lease.turn.fence {
			l.lose(t, "the lock belongs to another process")
		} else if o.session == "" && t.lease.granted < sent {
			l.far.adopt = true // the server has lost it; nobody else has it yet
		}
	}
	if l.holder == nil && o.know.known {
		l.know.observe(o.know.expected)
	}
}

// take gives our process's turn to the ticket it belongs to. v.left is when it ends.
func (l *lane) take(v view, now time.Duration) {
	o := v.owner
	if t := l.holder; t != nil {
		if o.session == t.lease.turn.session {
			t.lease.turn.instance = o.instance // it may have been adopted under a new name
			return
		}
		if o.session == t.session { // the server took over a turn that began without it
			t.lease.turn.session, t.lease.turn.instance = o.session, o.instance
			l.far.fence = max(l.far.fence, o.fence)
			return
		}
	}
	t := l.waitingFor(o.session)
	if t == nil {
		// A turn nobody here waits for, such as one that came after its ticket left,
		// unless this is old news and a later turn has been ours since.
		if o.fence > l.far.fence && !slices.Contains(l.far.releasing, o.session) {
			l.owe(debt{session: o.session, instance: o.instance})
		}
		return
	}
	if v.left < 0 {
		l.far.kick = true // how long it lasts is not known: ask
		return
	}
	if !l.svc.remote.aliveAt(now) {
		// This process stood still, so the turn may have been taken back: no news
		// counts before the next heartbeat, after which all places are verified.
		l.svc.remote.wake()
		l.far.kickAt = now + l.svc.cfg.PollInterval.Duration()
		return
	}
	if now+l.svc.margin >= v.left {
		l.refuse(t, o)
		return
	}
	if h := l.holder; h != nil && h.lease.turn.session != "" {
		l.lose(h, "its time was over")
	}
	if l.holder != nil {
		l.far.early = &v
		return
	}
	l.accept(l.inOrder(t), o, v.left, now)
}

// accept starts a turn that Redis gave, with what the lane knows by now.
func (l *lane) accept(t *Ticket, o record, deadline, now time.Duration) {
	know, distrusted := o.know, false
	if know.known && know.base < l.svc.remote.trustFrom() {
		know.forget()
		distrusted = true
	}
	if l.far.hint && l.know.known {
		know.observe(l.know.expected)
	}
	if know.lastFence != 0 && know.lastFence == l.know.lastFence {
		know.last.Open = l.know.last.Open // the verdict may have come, which only this process knows
	}
	l.know = know
	l.far.fence = o.fence
	l.svc.raiseFence(o.fence)
	l.grant(t, now, turn{by: redisStrategy, fence: o.fence, deadline: deadline, session: o.session, instance: o.instance})
	t.lease.unsure = distrusted
}

// refuse returns a turn that is over, or nearly, and sends its ticket back for another.
func (l *lane) refuse(t *Ticket, o record) {
	l.owe(debt{session: o.session, instance: o.instance})
	t.session = ""
	l.far.verify = true
}

// inOrder keeps the order of tickets inside the process even if Redis has lost some
// places: the places of one process are interchangeable, so the oldest ticket takes
// the turn and leaves its own place to the other. With a window nonces decide.
func (l *lane) inOrder(t *Ticket) *Ticket {
	h := l.head
	if h == t || t.until != 0 || h.place == placeJoining || t.place == placeJoining {
		return t
	}
	h.session, t.session = t.session, h.session
	h.place, t.place = t.place, h.place
	return h
}

func (l *lane) waitingFor(session string) *Ticket {
	for t := l.head; t != nil; t = t.next {
		if t.session == session {
			return t
		}
	}
	return nil
}

func (l *lane) owesSession(session string) bool {
	return slices.ContainsFunc(l.far.debts, func(d debt) bool { return d.session == session })
}

// lose ends the holder's turn because Redis gave it to another.
func (l *lane) lose(t *Ticket, why string) {
	t.lease.turn.session, t.session = "", "" // nothing to give back
	if l.end(t, ErrLost) {
		l.svc.logLost(t, why)
		l.svc.reg.unpin(l)
	}
}

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
	if !l.svc.governs(l) || l.far.paused || !l.svc.reg.repin(l) {
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
	if l.far.foreign || len(l.far.debts) >= most || l.owesSession(d.session) {
		return
	}
	l.far.debts = append(l.far.debts, d)
}

// repay sends one debt.
func (l *lane) repay(ctx context.Context, epoch uint64, d debt) {
	r := l.svc.remote
	sent := l.svc.now()
	_, v, err := r.release(ctx, l.keys, d)
	again := err != nil && l.sendFailed(opRelease, epoch, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetReleasing(d.session)
	if err != nil {
		if again && d.instance == r.instance() {
			l.owe(d) // it may have happened or not; asking again does no harm
		}
		l.pinForNews()
		return
	}
	now := l.svc.now()
	l.far.failures = 0
	if epoch == r.epoch.Load() {
		if v.owner.session == "" { // the reply names only owners that are ours
			l.far.owner, l.far.heardAt = "", now
			if v.wait >= 0 {
				l.heardWait(v.wait, now)
			}
		} else {
			l.heard(v, sent, now)
		}
	}
	l.dispatch(now)
}

// passVerdict tells Redis of a bad verdict.
func (l *lane) passVerdict(ctx context.Context, epoch uint64, instance string, fence uint64) {
	err := l.svc.remote.forget(ctx, l.keys, instance, fence)
	again := err != nil && l.sendFailed(opRelease, epoch, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if again {
		l.far.forget = max(l.far.forget, fence)
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

// reclaim removes a dead instance from the lane and moves it on.
func (l *lane) reclaim(ctx context.Context, epoch uint64, dead string) {
	r := l.svc.remote
	sent := l.svc.now()
	v, err := r.reclaim(ctx, l.keys, r.instance(), dead, "")
	if err != nil {
		if l.sendFailed(opAcquire, epoch, err) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.far.reclaim = dead
		}
		return
	}
	if v.removed > 0 {
		l.svc.metrics.zombies.Add(float64(v.removed))
		l.svc.log.WarnContext(ctx, "removed the locks and places of a dead process", "sender", l.sender, "instance", dead, "count", v.removed)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.svc.now()
	if !r.mayTake() {
		l.far.kickAt = r.settleUntil()
	}
	l.heard(v, sent, now)
	l.dispatch(now)
}
