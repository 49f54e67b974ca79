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

const joinBatch = 256 // maximum number of places that one script adds

// transport carries what lanes say to Redis. Each call is one script and may be repeated without harm.
type transport interface {
	// enter takes places, or the lock; see enterCall.
	enter(ctx context.Context, keys []string, instance string, c enterCall) (view, error)
	// release ends a turn or gives up a place. was: the session owned the lock.
	release(ctx context.Context, keys []string, d handback) (was bool, v view, err error)
	// reclaim removes a dead instance, or one session by force; either may be empty.
	reclaim(ctx context.Context, keys []string, instance, dead, session string) (view, error)
	// repair removes somebody else's values from a lane's keys. overdue: they are older than a turn may last.
	repair(ctx context.Context, keys []string, instance string, overdue bool) (removed int, err error)
	// judge passes a verdict on.
	judge(ctx context.Context, keys []string, instance string, v verdict) error
}

// link is a lane's side of Redis. One worker at a time sends for a lane, so that it takes places in ticket order
// whatever the connection pool does. The release of a turn does not wait for the worker. Guarded by lane.mu.
//
// The waiting tickets whose place is placeNone are always the last ones of the queue.
type link struct {
	sending        bool            // the worker runs
	relation       relation        // how the lane stands to Redis; change it by relate
	strayed        error           // the first change of relation that the table does not have; nil: none
	foreignSince   time.Duration   // since when its keys have somebody else's values; 0 = they have not
	retryAt        time.Duration   // failing, foreign: when the lane tries again
	pausedAt       uint64          // doubted: heartbeats that had begun by then
	failures       int             // in a row, although heartbeats succeeded
	want           jobs            // what is to be sent, as soon as it can be; see lane.jobs
	again          bool            // the places that are being sent may be in Redis already
	adopting       bool            // the holder's turn is being adopted: its release has to wait, or it would be undone
	nonceToShare   uint64          // the nonce that jobShare tells Redis
	badVerdict     uint64          // newest turn with a bad verdict; 0 = none
	verdictWaiters []chan struct{} // closed when Redis knows of it
	reclaim        string          // instance known to be dead; empty = none
	removedLast    string          // the dead instance that was removed last
	handbacks      []handback      // sessions to take back
	releasing      []string        // sessions being given back now
	placedLate     []string        // of those, the ones whose place a late enter may have added after their turn
	handedBack     time.Duration   // when the newest answer about one of them came
	checkTurnAt    time.Duration   // when to look; 0 = not planned
	windowEndSeen  *Ticket         // the head whose window's end has been handled
	ownerChangedAt time.Duration   // when the owner was last seen to change
	owner          string          // session of the owner at that time
	ownedBy        string          // … and its instance
	ownedAt        time.Duration   // when the newest call was sent whose answer named an owner
	verified       time.Duration   // when its places were last sent again, or first sent
	fence          uint64          // newest turn that Redis gave this process
	granted        time.Duration   // when it did
	joining        []*Ticket       // whose places the enter script is adding now
	pendingGrant   *view           // our next turn, which came before this process had ended the present one
}

// rest drops the jobs that make no sense in an empty lane.
func (f *link) rest() {
	f.want &^= jobLook
	f.checkTurnAt, f.windowEndSeen = 0, nil
	if f.relation == foreign {
		f.relate(linked) // the next burst tries again
		f.want |= jobRepair
	}
}

// tryAgain ends the time during which the lane was kept off Redis.
func (l *lane) tryAgain(now time.Duration) {
	f := &l.link
	switch {
	case f.relation != failing && f.relation != foreign:
	case now < f.retryAt:
		l.arm(f.retryAt, now)
	default:
		if f.relation == foreign {
			f.want |= jobRepair
		}
		f.relate(linked)
		f.want |= jobVerify | jobAdopt
		for t := l.head; t != nil; t = t.next {
			l.recount(t, redisStrategy)
		}
	}
}

// busy tells whether the lane still has something to send to Redis, or has sent it and waits for the answer. So it is found
// when Redis returns, or when a heartbeat has ended its doubt.
func (f *link) busy() bool {
	return f.sending || len(f.releasing) > 0 || len(f.handbacks) > 0 || f.badVerdict != 0 || f.want.has(jobTellGap) || f.relation == doubted
}

// driveShared moves a lane on while Redis decides its order.
func (l *lane) driveShared(now time.Duration) {
	if v := l.link.pendingGrant; v != nil && l.holder == nil {
		l.link.pendingGrant = nil
		l.take(*v, now)
	}
	if l.link.checkTurnAt != 0 {
		if now >= l.link.checkTurnAt {
			l.link.checkTurnAt = 0
			l.link.want |= jobLook
		} else {
			l.arm(l.link.checkTurnAt, now)
		}
	}
	if h := l.head; h != nil && h.until != 0 && l.holder == nil && !l.passedOn(h) {
		if now >= h.until {
			l.link.windowEndSeen = h
			l.link.want |= jobLook
		} else {
			l.arm(h.until, now)
		}
	}
	if at := l.joinAt(); at > now {
		l.arm(at, now)
	}
	if !l.link.sending && l.jobs() != 0 {
		l.link.sending = l.svc.spawn(l.sendJobs)
	}
}

// passedOn tells whether the lane need not look when the window of its head ends. It has looked; or a turn ends
// after the window, and its release gives the lock to whoever may have it then.
func (l *lane) passedOn(h *Ticket) bool {
	f := &l.link
	ends := h.until + time.Duration(l.svc.remote.clockError.Load()) // by the clock of Redis
	return f.windowEndSeen == h || f.ownedAt > ends || len(f.releasing) > 0
}

// joinDelay bounds how long the first place of a sender is kept back.
const joinDelay = 100 * time.Millisecond

// joinAt is the latest time at which the places of a sender of whom nothing is known are sent. Until the next
// nonce is known nobody gets the turn within its window. So the places wait for what the mirror node shows, and
// one script sends both.
func (l *lane) joinAt() time.Duration {
	h := l.head
	if h == nil || h.until == 0 || h.place != placeNone || l.holder != nil || l.chain.known || l.chain.mode != flowing {
		return 0
	}
	return h.entered + min((h.until-h.entered)/2, joinDelay)
}

// waitsForNonce tells whether somebody here waits for a predecessor, or may have to.
func (l *lane) waitsForNonce() bool {
	return l.svc.cfg.Window > 0 || l.head != nil && l.head.until != 0
}

// sendJobs is the worker: it sends until there is nothing left to send.
func (l *lane) sendJobs(ctx context.Context) {
	r := l.svc.remote
	for {
		l.mu.Lock()
		if ctx.Err() != nil || !l.svc.governs(l) || l.jobs() == 0 {
			l.link.sending = false
			l.unlock()
			return
		}
		step := l.nextJob(r)
		l.unlock()
		step(ctx)
	}
}

// nextJob takes the most urgent job. Call it with l.mu held, and call what it returns without l.mu.
func (l *lane) nextJob(r *remote) func(context.Context) {
	f := &l.link
	epoch := r.epoch.Load()
	switch due := l.jobs(); {
	case due.has(jobRepair):
		f.want &^= jobRepair
		overdue := f.foreignSince != 0 && l.svc.now()-f.foreignSince > l.svc.cfg.MaxHold.Duration()
		return func(ctx context.Context) { l.repair(ctx, epoch, r.instance(), overdue) }
	case due.has(jobAdopt): // first, so that nothing gives its turn away
	case due.has(jobReclaim):
		dead := f.reclaim
		f.reclaim = ""
		return func(ctx context.Context) { l.reclaim(ctx, epoch, dead) }
	case due.has(jobHandback):
		d := f.handbacks[0]
		f.handbacks = f.handbacks[1:]
		f.releasing = append(f.releasing, d.session)
		return func(ctx context.Context) { l.sendHandback(ctx, epoch, d) }
	case due.has(jobForget), due.has(jobTellGap):
		v, told := verdict{fence: f.badVerdict}, f.verdictWaiters
		if f.want.has(jobTellGap) && l.chain.gap == certain {
			v.missing = strconv.FormatUint(l.chain.expected, 10)
		}
		f.badVerdict, f.verdictWaiters = 0, nil
		f.want &^= jobTellGap
		instance := r.instance()
		return func(ctx context.Context) { l.passVerdict(ctx, epoch, instance, v, told) }
	}
	call, instance := l.enterCall(r)
	return func(ctx context.Context) {
		sent := l.svc.now()
		v, err := l.svc.calls.enter(ctx, l.keys, instance, call)
		if err != nil {
			l.sendFailed(opAcquire, epoch, err)
		}
		l.entered(epoch, call, v, sent, err)
	}
}

// enterCall collects everything one run of the enter script can say.
func (l *lane) enterCall(r *remote) (enterCall, string) {
	f := &l.link
	now := l.svc.now()
	instance := r.instance()
	takes := r.takesFrom()
	if f.want.has(jobVerify) {
		for t := l.head; t != nil; t = t.next {
			t.place = placeNone
		}
		f.again, f.verified = true, now
	}
	call := enterCall{again: f.again, take: now >= takes}
	if !call.take && (f.checkTurnAt == 0 || f.checkTurnAt > takes) {
		f.checkTurnAt = takes
	}
	if f.want.has(jobShare) && (l.waitsForNonce() || f.again) {
		call.raiseTo = strconv.FormatUint(f.nonceToShare, 10)
		f.want &^= jobShare
	}
	call.held = f.ending()
	if t := l.holder; t != nil {
		call.held = t.lease.turn.session
	}
	if t := l.holder; t != nil && f.want.has(jobAdopt) {
		f.adopting = true
		call.adopt = &adoption{
			session: l.sessionOf(t), nonce: t.nonce, fence: t.lease.turn.fence, left: t.lease.turn.deadline - now,
			strict: t.lease.turn.session != "",
		}
		f.handbacks = slices.DeleteFunc(f.handbacks, func(d handback) bool { return d.session == t.session })
	}
	f.want &^= jobVerify | jobLook | jobAdopt
	f.joining = l.unplaced()
	for _, t := range f.joining {
		t.place = placeJoining
		call.places = append(call.places, joiner{session: l.sessionOf(t), nonce: t.nonce, until: t.until})
	}
	if l.tail == nil || l.tail.place != placeNone {
		f.again = false
	}
	return call, instance
}

// ending returns the session of the turn that is being given back, or nothing.
func (f *link) ending() string {
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

// entered applies the reply of the enter script.
func (l *lane) entered(epoch uint64, call enterCall, v view, sent time.Duration, err error) {
	l.svc.remote.noteStall(sent)
	l.mu.Lock()
	defer l.unlock()
	now := l.svc.now()
	current := err == nil && epoch == l.svc.remote.epoch.Load()
	batch := l.link.joining
	l.link.joining, l.link.adopting = nil, false
	for _, t := range batch {
		switch {
		case t.state == waiting && t.place == placeJoining && current:
			t.place = placeQueued
		case t.state == waiting && t.place == placeJoining:
			t.place = placeNone
			l.link.want |= jobVerify | jobAdopt
		case t.state == granted && t.lease.turn.session == "":
			l.link.want |= jobAdopt // it began its turn without Redis, which may have given it the lock
		case t.state == over && (t.lease == nil || t.lease.turn.session == ""):
			// The ticket left. If Redis gave it a turn before this reply came, the end of that turn gives the
			// place back, with what the holder knew: giving it back here first would lose that.
			l.queueHandback(handback{session: t.session, instance: l.svc.remote.instance()})
		case t.state == over && call.again && (v.rejoined > 0 || err != nil):
			l.handBackLatePlace(t.session)
		}
	}
	if err != nil && call.adopt != nil {
		l.link.want |= jobAdopt
	}
	if l.svc.tracing() && len(batch) > 0 && err == nil {
		l.notePlaced(batch, v)
	}
	if current {
		l.link.failures, l.link.foreignSince = 0, 0
		if t := l.holder; v.refused && t != nil && t.session == call.adopt.session && t.lease.turn.session != "" {
			l.lose(t, "another turn has been since")
		}
		l.svc.metrics.rejoins[redisStrategy].Add(float64(v.rejoined))
		l.applyView(v, sent, now)
		if call.take && v.owner.session == "" && v.wait < 0 && l.holder == nil && l.head != nil && l.head.place == placeQueued {
			// The queue in Redis is empty although our tickets wait: the server has lost our places, and perhaps
			// whose turn it is.
			l.link.want |= jobVerify
			l.svc.remote.pauseTaking(now)
			l.svc.remote.wake()
		}
	}
	l.dispatch(now)
}

// repair removes somebody else's values from the lane's keys, if nobody can own them.
func (l *lane) repair(ctx context.Context, epoch uint64, instance string, overdue bool) {
	removed, err := l.svc.calls.repair(ctx, l.keys, instance, overdue)
	if err != nil {
		l.sendFailed(opAcquire, epoch, err)
		return
	}
	if removed > 0 {
		l.svc.log.WarnContext(ctx, "removed values that no relay has written from the keys of a lane", "sender", l.sender, "count", removed)
	}
}

// reclaim removes a dead instance from the lane and moves it on.
func (l *lane) reclaim(ctx context.Context, epoch uint64, dead string) {
	r := l.svc.remote
	sent := l.svc.now()
	v, err := l.svc.calls.reclaim(ctx, l.keys, r.instance(), dead, "")
	if err != nil {
		if l.sendFailed(opAcquire, epoch, err) {
			l.mu.Lock()
			defer l.unlock()
			l.link.reclaim = dead
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
		l.link.checkTurnAt = r.takesFrom()
	}
	l.applyView(v, sent, now)
	l.dispatch(now)
}

// reseat gives from's place in Redis to another waiting ticket, and moves the places of those between by one. So
// the places stay in the order of the tickets, and tickets without a place stay the last.
func (l *lane) reseat(from, to *Ticket) {
	if from == to {
		return
	}
	forward := false
	for t := from.next; t != nil && !forward; t = t.next {
		forward = t == to
	}
	for t := from; t != to; {
		neighbour := t.prev
		if forward {
			neighbour = t.next
		}
		l.trade(t, neighbour)
		t = neighbour
	}
}

// replace lets the place that is being taken for a ticket go on without it, as the place of one that is over: the ticket was put back,
// and takes another.
func (l *lane) replace(t *Ticket) {
	if i := slices.Index(l.link.joining, t); i >= 0 && t.place == placeJoining {
		l.link.joining[i] = &Ticket{lane: l, nonce: t.nonce, state: over, session: t.session, place: t.place, lease: t.lease}
	}
}

// trade exchanges the places of two tickets.
func (l *lane) trade(a, b *Ticket) {
	if a.place == placeJoining || b.place == placeJoining {
		for i, t := range l.link.joining {
			switch t {
			case a:
				l.link.joining[i] = b
			case b:
				l.link.joining[i] = a
			}
		}
	}
	a.session, b.session = b.session, a.session
	a.place, b.place = b.place, a.place
}
