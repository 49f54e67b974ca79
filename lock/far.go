package lock

import (
	"context"
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
	syncing   bool            // the worker runs
	pinned    bool            // see pinForNews
	broken    bool            // the keys of this lane cannot be used; ordered locally for a while
	foreign   bool            // … because somebody else's values are there
	retryAt   time.Duration   // when broken is over
	paused    bool            // a call failed: the next heartbeat tells whether Redis did
	pausedAt  uint64          // heartbeats that had begun by then
	failures  int             // in a row, although heartbeats succeeded
	verify    bool            // all places are to be sent again
	again     bool            // the places being sent may be in Redis already
	adopt     bool            // the holder's turn may be missing in Redis
	adopting  bool            // … and is being sent: its release has to wait, or it would be undone
	kick      bool            // see whether anybody can go
	hint      bool            // an observed nonce is news to Redis
	seen      uint64          // … that one; what else the lane knows may be out of date there
	forget    uint64          // newest turn with a bad verdict; 0 = none
	told      []chan struct{} // closed when Redis knows of it
	reclaim   string          // instance known to be dead; empty = none
	mourned   string          // the dead instance that was removed last
	debts     []debt          // sessions to take back
	releasing []string        // sessions being given back now
	kickAt    time.Duration   // when to kick; 0 = not planned
	tried     *Ticket         // the head for which the end of its window was seen to
	heardAt   time.Duration   // when the owner was last seen to change
	owner     string          // session of the owner at that time
	ownedBy   string          // … and its instance
	verified  time.Duration   // when its places were last sent again, or first sent
	fence     uint64          // newest turn that Redis gave this process
	granted   time.Duration   // when it did
	joining   []*Ticket       // whose places the enter script is adding now
	early     *view           // our turn came while the process itself had not ended the one before
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

// tellHint: nobody waits for the knowledge without a hold-back window, nor while somebody has
// the turn, who knows more at its end. So it travels with what is sent anyway.
func (f *far) tellHint(l *lane) bool {
	return f.hint && l.svc.cfg.GapHold > 0 && l.head != nil && f.owner == ""
}

// sync is the worker: it sends until there is nothing left to send.
func (l *lane) sync(ctx context.Context) {
	defer l.svc.reg.unpin(l)
	r := l.svc.remote
	for {
		l.mu.Lock()
		if ctx.Err() != nil || !l.svc.governs(l) || l.far.paused || !l.hasNews() {
			l.far.syncing = false
			l.unlock()
			return
		}
		step := l.nextStep(r)
		l.unlock()
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
		fence, told := f.forget, f.told
		f.forget, f.told = 0, nil
		instance := r.instance()
		return func(ctx context.Context) { l.passVerdict(ctx, epoch, instance, fence, told) }
	}
	call, instance := l.enterCall(r)
	return func(ctx context.Context) {
		sent := l.svc.now()
		v, err := r.enter(ctx, l.keys, instance, call)
		if err != nil {
			l.sendFailed(opAcquire, epoch, err)
		}
		l.entered(epoch, call, v, sent, err)
	}
}

// enterCall collects everything one run of the enter script can say.
func (l *lane) enterCall(r *remote) (enterCall, string) {
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
	if f.hint && (l.svc.cfg.GapHold > 0 || f.again) {
		call.hint = strconv.FormatUint(f.seen, 10)
		f.hint = false
	}
	call.held = f.ending()
	if t := l.holder; t != nil {
		call.held = t.lease.turn.session
	}
	if t := l.holder; t != nil && f.adopt {
		f.adopting = true
		call.adopt = &adoption{
			session: l.sessionOf(t), nonce: t.nonce, fence: t.lease.turn.fence, left: t.lease.turn.deadline - now,
			strict: t.lease.turn.session != "",
		}
		f.debts = slices.DeleteFunc(f.debts, func(d debt) bool { return d.session == t.session })
	}
	f.kick, f.adopt = false, false
	f.joining = l.unplaced()
	for _, t := range f.joining {
		t.place = placeJoining
		call.places = append(call.places, joiner{session: l.sessionOf(t), nonce: t.nonce})
	}
	if l.tail == nil || l.tail.place != placeNone {
		f.again = false
	}
	return call, instance
}

// ending returns the session of the turn that is being given back, or nothing.
func (f *far) ending() string {
	if n := len(f.releasing); n > 0 {
		return f.releasing[n-1]
	}
	return ""
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
func (l *lane) entered(epoch uint64, call enterCall, v view, sent time.Duration, err error) {
	l.mu.Lock()
	defer l.unlock()
	now := l.svc.now()
	current := err == nil && epoch == l.svc.remote.epoch.Load()
	batch := l.far.joining
	l.far.joining, l.far.adopting = nil, false
	for _, t := range batch {
		switch {
		case t.state == waiting && t.place == placeJoining && current:
			t.place = placeQueued
		case t.state == waiting && t.place == placeJoining:
			t.place = placeNone
			l.far.verify, l.far.adopt = true, true
		case t.state == holding && t.lease.turn.session == "":
			l.far.adopt = true // it began its turn without Redis, which may have given it the lock
		case t.state == over && t.lease.turn.session == "":
			// It left. If it had its turn from Redis instead, before this reply came, the end of
			// that turn gives it back, with what it knew; another who did so first would lose that.
			l.owe(debt{session: t.session, instance: l.svc.remote.instance()})
		}
	}
	if err != nil && call.adopt != nil {
		l.far.adopt = true
	}
	if l.svc.tracing && len(batch) > 0 && err == nil {
		l.notePlaced(batch, v)
	}
	if current {
		l.far.failures = 0
		if t := l.holder; v.refused && t != nil && t.session == call.adopt.session && t.lease.turn.session != "" {
			l.lose(t, "another turn has been since")
		}
		l.svc.metrics.rejoins[redisStrategy].Add(float64(v.rejoined))
		l.heard(v, sent, now)
		if call.take && v.owner.session == "" && v.wait < 0 && l.holder == nil && l.head != nil && l.head.place == placeQueued {
			// Nobody is in line there, although we are: the server has lost our places, and with
			// them perhaps whose turn it is.
			l.far.verify = true
			l.svc.remote.unsettle(now)
			l.svc.remote.wake()
		}
	}
	l.dispatch(now)
}

// reclaim removes a dead instance from the lane and moves it on.
func (l *lane) reclaim(ctx context.Context, epoch uint64, dead string) {
	r := l.svc.remote
	sent := l.svc.now()
	v, err := r.reclaim(ctx, l.keys, r.instance(), dead, "")
	if err != nil {
		if l.sendFailed(opAcquire, epoch, err) {
			l.mu.Lock()
			defer l.unlock()
			l.far.reclaim = dead
		}
		return
	}
	if v.removed > 0 {
		l.svc.metrics.zombies.Add(float64(v.removed))
		l.svc.log.WarnContext(ctx, "removed the locks and places of a dead process", "sender", l.sender, "instance", dead, "count", v.removed)
	}
	l.mu.Lock()
	defer l.unlock()
	now := l.svc.now()
	if !r.mayTake() {
		l.far.kickAt = r.settleUntil()
	}
	l.heard(v, sent, now)
	l.dispatch(now)
}
