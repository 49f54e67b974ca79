package lock

import (
	"context"
	"errors"
	"fmt"
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

// relation is how a lane stands to Redis.
//
//	relation  who decides the order                goes to
//	unlinked  this process: there is no Redis      -
//	linked    Redis                                doubted: a call failed; failing: for the third time in a row;
//	                                               foreign: somebody else's values are in its keys; patient: a heartbeat failed
//	doubted   Redis; nothing is sent               linked: a later heartbeat was answered; foreign; patient
//	failing   this process, for a second           linked: it tries again; foreign; patient
//	foreign   this process, for a second           linked: it tries again, or has emptied; patient
//	patient   nobody, if others shared the lane    alone: LOCK_REDIS_PATIENCE_MS are over, at once if nobody shared it; linked: Redis is back
//	alone     this process                         linked: Redis is back
//
// The values in the keys of a foreign lane are removed once nobody can own them: they have no time to live, which
// all of ours have, or they outlive the hold limit and name no living instance. A lane is shared if another process had turns
// in it in the last minute; one that goes on alone then recovers. While a shared lane is patient nobody gets a turn in it, and windows do not run.
type relation uint8

const (
	unlinked  relation = iota // there is no Redis
	linked                    // Redis decides
	doubted                   // a call failed: nothing is sent until a heartbeat tells whether Redis failed
	failing                   // Redis answers, but this lane's calls fail: this process decides, for a while
	foreign                   // somebody else's values are in the lane's keys: this process decides, for a while
	patient                   // Redis is away, or not asked yet; no transaction here has had a turn without it
	alone                     // Redis is away, and the lane has gone on
	relations                 // how many there are
)

// changes are the relations that may follow each. A lane that is in the relation already stays in it.
var changes = [relations][]relation{
	linked:  {doubted, failing, foreign, patient},
	doubted: {linked, foreign, patient},
	failing: {linked, foreign, patient},
	foreign: {linked, patient},
	patient: {linked, alone},
	alone:   {linked},
}

func (r relation) String() string {
	return [relations]string{"unlinked", "linked", "doubted", "failing", "foreign", "patient", "alone"}[r]
}

// away tells whether Redis is out for all lanes.
func (r relation) away() bool { return r == patient || r == alone }

// relate changes the relation.
func (f *link) relate(to relation) {
	from := f.relation
	if from == to {
		return
	}
	if f.strayed == nil {
		f.strayed = fmt.Errorf("lane went from %s to %s", from, to)
		for _, may := range changes[from] {
			if may == to {
				f.strayed = nil
			}
		}
	}
	f.relation, f.retryAt = to, 0
}

// followRemote makes the lane follow Redis, whose coming and going reaches it through here alone. All of a change is one step
// under the lane's mutex, whoever is first to touch the lane: no window ends that stood still, and no turn is given by both orders.
func (l *lane) followRemote(now time.Duration) {
	switch up := l.svc.remote.up.Load(); {
	case up && l.link.relation.away():
		down := time.Duration(l.svc.remote.downAt.Load())
		for t := l.head; t != nil; t = t.next {
			l.recount(t, redisStrategy)
			if t.until != 0 && l.wasShared() {
				t.until += now - max(down, t.entered) // its window did not run meanwhile
			}
		}
		if l.wasShared() {
			l.recoveredAt = now // transactions that others had under way may come late
		}
		l.link.relate(linked)
		if !l.empty() { // of whom Redis has been told nothing
			l.link.want |= jobVerify | jobAdopt
		}
		l.link.windowEndSeen, l.link.ownedAt, l.link.failures = nil, 0, 0
	case !up && !l.link.relation.away():
		l.link.relate(patient)
		l.leaveRedis()
	}
}

// sendFailed handles the error of a script of this lane, and returns whether it may be sent again later. It must
// be called without l.mu.
//
// A call that failed says little: the process may have stood still while its deadline passed, or one shard of a
// cluster be out. So the lane pauses until the next heartbeat, which is sent at once and speaks for all lanes. If
// the heartbeat succeeds, the lane tries again. A lane that fails for the third time in a row is kept off Redis
// for a while.
func (l *lane) sendFailed(op string, epoch uint64, err error) (again bool) {
	r := l.svc.remote
	if errors.Is(err, errNotSent) {
		return !l.svc.closed.Load()
	}
	r.svc.metrics.redisErrors.WithLabelValues(op).Inc()
	kind := failing
	if laneError(err) {
		kind = foreign
	}
	l.mu.Lock()
	defer l.unlock()
	if l.followRemote(l.svc.now()); l.link.relation.away() {
		return !l.svc.closed.Load()
	}
	if kind == failing {
		if epoch != r.epoch.Load() || l.link.relation != linked {
			return !l.svc.closed.Load()
		}
		if l.link.failures++; l.link.failures < 3 {
			l.link.relate(doubted)
			l.link.pausedAt = r.begunBeats.Load()
			r.doubts.Store(true)
			r.wake()
			return !l.svc.closed.Load()
		}
	}
	now := l.svc.now()
	l.link.relate(kind)
	l.link.retryAt = now + time.Second
	if kind == foreign {
		if l.link.foreignSince == 0 {
			l.link.foreignSince = now
		}
		l.link.badVerdict, l.link.verdictWaiters = 0, nil
	}
	l.note(func() { l.svc.logFailure("one sender's order is kept inside this process", op, err) })
	if l.sharedAt != 0 && now-l.sharedAt < recently {
		l.hole() // other processes may have gone on
	}
	l.leaveRedis()
	l.dispatch(now)
	if l.empty() {
		l.link.rest()
	}
	return kind != foreign && !l.svc.closed.Load()
}

// leaveRedis makes the lane forget what it has in Redis, which does not decide its order any more.
func (l *lane) leaveRedis() {
	for t := l.head; t != nil; t = t.next {
		t.place = placeNone
		l.recount(t, local)
	}
	l.link.want |= jobVerify | jobAdopt
	l.link.pendingGrant, l.link.windowEndSeen, l.link.ownedAt = nil, nil, 0
}

// resume has everything sent to Redis again. renewed: what went by this process's previous name may be gone.
func (l *lane) resume(now time.Duration, renewed bool, previous string) {
	l.followRemote(now)
	l.link.want |= jobVerify | jobAdopt
	if renewed {
		if l.wasShared() {
			l.recoveredAt = now // as after an outage
		}
		l.link.handbacks, l.link.pendingGrant, l.link.windowEndSeen = nil, nil, nil
		l.link.reclaim = previous
		l.link.fence, l.link.ownedAt = 0, 0
	}
	l.dispatch(now)
}

func (l *lane) recount(t *Ticket, s strategy) {
	l.svc.metrics.waiting[t.counted].Dec()
	l.svc.metrics.waiting[s].Inc()
	t.counted = s
}

// jobs is a set of what is to be sent to Redis for a lane.
type jobs uint16

const (
	jobVerify   jobs = 1 << iota // all places are to be sent again
	jobAdopt                     // the holder's turn may be missing there
	jobLook                      // check whether anybody can go
	jobShare                     // an observed nonce is news
	jobJoin                      // places are to be taken
	jobReclaim                   // a dead instance is to be removed
	jobHandback                  // sessions are to be given back
	jobRepair                    // somebody else's values may be removed
	jobForget                    // a verdict made the expected nonce void
	jobTellGap                   // a verdict proved that the expected nonce is missing
)

func (j jobs) has(one jobs) bool { return j&one != 0 }

// jobs returns the wanted jobs that can be sent now and that somebody waits for.
func (l *lane) jobs() (due jobs) {
	f := &l.link
	if f.relation == doubted {
		return 0
	}
	due = f.want & (jobLook | jobRepair)
	if l.head != nil {
		due |= f.want & jobVerify
	}
	if l.holder != nil {
		due |= f.want & jobAdopt
	}
	// Nobody waits for a nonce without a hold-back window, or while somebody has the turn: the holder knows more
	// at its end. So the nonce goes with what is sent anyway. In a lane that recovers somebody may wait at another relay.
	if l.waitsForNonce() && (l.head != nil && f.owner == "" || l.chain.mode == recovering && l.holder == nil) {
		due |= f.want & jobShare
	}
	if l.tail != nil && l.tail.place == placeNone && l.svc.now() >= l.joinAt() {
		due |= jobJoin
	}
	if f.reclaim != "" {
		due |= jobReclaim
	}
	if len(f.handbacks) > 0 {
		due |= jobHandback
	}
	if len(f.releasing) == 0 { // neither must overtake the release of the turn it is about
		due |= f.want & jobTellGap
		if f.badVerdict != 0 {
			due |= jobForget
		}
	}
	return due
}

// check returns what is wrong with the lane, or nil. Tests ask after each step.
func (l *lane) check() error {
	f := &l.link
	wrong := []error{f.strayed}
	must := func(holds bool, rule string) {
		if !holds {
			wrong = append(wrong, errors.New(rule+": "+f.relation.String()))
		}
	}
	must((l.svc.remote == nil) == (f.relation == unlinked), "a lane is linked where there is a Redis")
	must((f.retryAt != 0) == (f.relation == failing || f.relation == foreign), "who is kept off Redis tries again, and nobody else")
	must(l.holder == nil || l.holder.state == granted, "the holder holds")
	count, unplaced := 0, false
	for t := l.head; t != nil; t = t.next {
		count++
		must(t.state == waiting && (t.next == nil || t.next.prev == t) && (t.next != nil || l.tail == t), "who is in the queue waits")
		if t.place == placeNone {
			unplaced = true
		} else {
			must(!unplaced, "who has no place yet comes last")
			must(t.session != "" || f.want.has(jobVerify), "a place has a session, but for one that was refused and is sent again")
		}
	}
	must(count == l.length, "the length is right")
	must(l.holder != nil || l.head == nil || l.timer != nil || l.svc.remote != nil, "somebody will move the lane on")
	must(f.releasing == nil || l.svc.remote != nil, "nothing is given back without Redis")
	return errors.Join(wrong...)
}

// CheckLanes returns what is wrong with the lanes of this process, in use and idle, or nil. Tests and simulations
// ask after each step.
func (s *Service) CheckLanes() error {
	var wrong []error
	s.each(true, func(l *lane) { wrong = append(wrong, l.check()) })
	return errors.Join(wrong...)
}

// What Redis says about whose turn it is, and what a lane makes of it.

// applyView applies what a script said about whose turn it is.
func (l *lane) applyView(v view, sent, now time.Duration) {
	if v.owner.session != l.link.owner {
		// Only a change is news: an owner whose name is still there may be dead.
		l.link.owner, l.link.ownedBy, l.link.ownerChangedAt = v.owner.session, v.owner.instance, now
	}
	if v.wait >= 0 {
		l.planTurnCheck(v.wait, now)
	}
	if v.owner.session != "" {
		l.link.ownedAt = max(l.link.ownedAt, sent)
	}
	if v.owner.instance != l.svc.remote.instance() {
		l.applyForeignOwner(v.owner, sent)
		return
	}
	v.asked = sent
	if v.left >= 0 {
		v.left += sent // from here on a point in time: the server began to count after the call was sent
	}
	l.take(v, now)
}

// applyGrant applies a message that this process has the turn. v.left is when it ends.
func (l *lane) applyGrant(v view, now time.Duration) {
	l.link.ownerChangedAt = now
	l.take(v, now)
	l.dispatch(now)
}

// applyLoss applies a message that a turn was taken by force.
func (l *lane) applyLoss(o lockValue, now time.Duration) {
	l.link.ownerChangedAt = now
	if t := l.holder; t != nil && t.lease.turn.session == o.session {
		l.lose(t, "taken by force")
	}
}

// applyLook applies the owner of a lane, which was read after sent.
func (l *lane) applyLook(o lockValue, me string, dead bool, sent time.Duration) {
	now := l.svc.now()
	if dead {
		l.link.reclaim = o.instance // even if it was removed before: it has the turn again
	}
	t := l.holder
	// While it is known until when the first in line waits, nobody need ask before that time.
	planned := l.link.owner == "" && l.link.checkTurnAt != 0
	l.link.owner, l.link.ownedBy = o.session, o.instance
	switch {
	case o.session == "":
		if t != nil && t.lease.turn.session != "" && t.lease.granted < sent {
			l.link.want |= jobAdopt // expired by accident, evicted or lost
		} else if l.head != nil && !planned {
			l.link.want |= jobLook
		}
	case o.instance == me:
		l.take(view{owner: o, left: -1, asked: sent}, now)
	default:
		l.applyForeignOwner(o, sent)
	}
	l.dispatch(now)
}

// applyForeignOwner handles a lock that is free, or belongs to another process or to an earlier instance of this
// one. In the last case the holder of the turn here adopts it.
func (l *lane) applyForeignOwner(o lockValue, sent time.Duration) {
	if o.session != "" && !l.svc.remote.wasUs(o.instance) {
		l.sharedAt = l.svc.now()
	}
	t := l.holder
	if t != nil && t.lease.turn.session != "" {
		if l.svc.remote.wasUs(o.instance) {
			l.link.want |= jobAdopt
		} else if o.fence > t.lease.turn.fence {
			l.lose(t, "the lock belongs to another process")
		} else if o.session == "" && t.lease.granted < sent {
			l.link.want |= jobAdopt // the server has lost it; nobody else has it yet
		}
	}
	if l.holder == nil && o.chain.known {
		l.chain.observe(o.chain.expected)
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
			l.link.fence = max(l.link.fence, o.fence)
			return
		}
	}
	t := l.waitingFor(o.session)
	if t == nil {
		l.disclaim(v)
		return
	}
	if v.left < 0 {
		l.link.want |= jobLook // how long it lasts is not known: ask
		return
	}
	if !l.svc.remote.aliveAt(now) {
		// This process stood still, so others may have taken the turn. No news counts before the next heartbeat;
		// after it, all places are verified.
		l.svc.remote.wake()
		l.link.checkTurnAt = now + l.svc.cfg.PollInterval.Duration()
		return
	}
	if now+l.svc.margin >= v.left {
		l.refuse(t, o)
		return
	}
	if h := l.holder; h != nil && h.lease.turn.session != "" {
		if now >= h.lease.turn.deadline {
			l.lose(h, "its time was over")
		} else {
			// The server has lost this turn and given another one to this process, which can keep the order
			// between the two by itself.
			h.lease.turn.session, h.session = "", ""
		}
	}
	if l.holder != nil {
		l.link.pendingGrant = &v
		return
	}
	distrusted := l.inherit(o)
	t = l.inOrder(t)
	l.link.fence, l.link.owner, l.link.ownedBy, l.link.granted = o.fence, o.session, o.instance, now
	l.svc.raiseFence(o.fence)
	l.grant(t, now, turn{by: redisStrategy, fence: o.fence, deadline: v.left, session: o.session, instance: o.instance})
	t.lease.unsure = distrusted
}

// disclaim gives back a turn for which nobody here waits: its ticket may have left, or Redis may have lost the end of
// the turn. The news of a turn that ended meanwhile is old, and means nothing.
func (l *lane) disclaim(v view) {
	o, t := v.owner, l.holder
	switch {
	case o.fence > l.link.fence:
		// Also when its release is under way: places that were sent again may reach Redis after the release, and begin the
		// turn once more.
		l.noteHandback(handback{session: o.session, instance: o.instance})
	case slices.Contains(l.link.releasing, o.session):
	case v.asked <= l.link.handedBack: // this process has had this turn, or a later one, which may have ended since
	case t == nil:
		l.queueHandback(handback{session: o.session, instance: o.instance})
	case t.lease.turn.session != "" && t.lease.granted < v.asked:
		l.link.want |= jobAdopt // what Redis takes for a turn of this process belongs to the one that it is in
	}
}

// inherit joins what Redis says of the sender's nonces with what the lane knows. It returns whether the state in
// Redis was too old to rely on.
func (l *lane) inherit(o lockValue) (distrusted bool) {
	chain := o.chain
	if chain.known && chain.base < l.svc.remote.trustFrom() {
		chain.recover()
		distrusted = true
	}
	if verdict := l.link.badVerdict; verdict != 0 {
		chain.invalidate(verdict) // Redis has not been told yet
	}
	if l.link.want.has(jobShare) {
		chain.observe(l.link.nonceToShare)
	}
	chain.inherit(l.chain)
	if chain.gap != l.chain.gap || chain.expected != l.chain.expected {
		l.gapAt = l.svc.now()
	}
	if chain.mode == recovering && l.chain.mode != recovering {
		l.recoveredAt, l.holeTold = l.svc.now(), false
	}
	l.chain = chain
	return distrusted
}

// refuse gives back a turn that is over, or nearly, and lets its ticket wait for another.
func (l *lane) refuse(t *Ticket, o lockValue) {
	l.queueHandback(handback{session: o.session, instance: o.instance})
	t.session = ""
	l.link.want |= jobVerify
}

// inOrder returns the ticket that is to have the turn which Redis gave to t, and gives it t's place. The order of
// this process decides between its own tickets, even if Redis has lost some places. With a window, nonces decide
// in Redis.
func (l *lane) inOrder(t *Ticket) *Ticket {
	if t.until != 0 {
		return t
	}
	next := l.next(l.chain)
	l.reseat(t, next)
	return next
}

func (l *lane) waitingFor(session string) *Ticket {
	for t := l.head; t != nil; t = t.next {
		if t.session == session {
			return t
		}
	}
	return nil
}

// verifyInTime sends the places of a lane again from time to time: when the lane has waited long for a turn, and
// to renew the time to live of its queue.
func (l *lane) verifyInTime(now time.Duration) {
	f := &l.link
	pace := l.svc.cfg.MembershipInterval.Duration()
	if f.granted != 0 && now-f.granted < pace { // the places of this process are there
		pace = max(pace, l.svc.remote.lifetime/4)
	}
	switch {
	case l.head == nil || !l.svc.governs(l):
		f.verified = 0
	case f.verified == 0:
		f.verified = now
	case now-f.verified > pace && !f.want.has(jobVerify):
		f.want |= jobVerify
		l.dispatch(now)
	}
}

// wantsLook tells whether the watch is to look at the lane: its owner has not changed for a while, and
// tickets of this process wait in it, or this process should still have the turn.
func (l *lane) wantsLook(now, quiet time.Duration) bool {
	if now-l.link.ownerChangedAt < quiet {
		return false
	}
	h := l.holder
	held := h != nil && h.lease.turn.session != "" && now-h.lease.granted >= quiet
	return held || l.head != nil && (h == nil || h.lease.turn.session == "")
}

// lose ends the holder's turn because Redis gave it to another.
func (l *lane) lose(t *Ticket, why string) {
	t.lease.turn.session, t.session = "", "" // nothing to give back
	if l.end(t, ErrLost) {
		l.noteLost(t, why)
	}
}

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
