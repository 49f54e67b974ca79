package lock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// What a lane and Redis tell each other. A lane has one claim in Redis, however many of its tickets wait. Each call states
// everything that is to be true there, so it may be repeated, lost or late; a message says "look", or
// that the turn is this process's.

// claim is what a process says of its tickets that wait.
type claim struct {
	session string        // empty = nobody waits
	nonce   uint64        // the lowest
	since   time.Duration // when the oldest began to wait
	until   time.Duration // when the first window ends; 0 = one of them has none
}

// statement is all that a process wants to be true of a lane in Redis.
type statement struct {
	by       string // empty = this process
	claim    claim
	again    int // 1: the claim is there already, as far as this process knows; 2: and its oldest ticket is the same
	turn     uint64
	session  string        // of the turn
	left     time.Duration // of the turn
	ended    uint64        // every turn of this process up to this fence is over
	leaves   *chain        // … and the last one leaves this; nil: it says nothing
	observed string        // a nonce seen outside the lane, or empty
	bad      uint64        // newest turn with a bad verdict; 0 = none
	missing  string        // a nonce that is proven to be missing, or empty
	take     bool          // a free lock may be given to whoever waits
	ends     string        // instance whose turns end, by force; empty = none
	endsUpTo uint64        // … those up to this fence
	dead     bool          // … and it is dead: its claim goes, too

	at   time.Duration // when this was so
	told []chan struct{}
}

// view is the answer to a statement.
type view struct {
	owner   lockValue     // without a session while the lock is free
	left    time.Duration // of the turn, if it is ours and news; negative = not known
	wait    time.Duration // until somebody may go; negative = does not apply
	refused bool          // the turn is over: there was a later one, or another process has it
	lost    bool          // the claim was not there
	cleared int           // how many values of somebody else were in the lane's keys, and are removed
	removed int           // how many turns and claims were taken from the instance that the statement named
	before  uint64        // turns that are given later have higher fences
	claimed time.Duration // since when somebody waited here, by the claim that the turn was given to; 0 = not known
}

// link is a lane's side of Redis. One worker at a time sends for a lane. Guarded by lane.mu.
type link struct {
	sending   bool            // the worker runs
	dirty     bool            // something has changed in Redis, or may have: state everything
	stated    claim           // what Redis has of this process, as far as it knows
	ended     uint64          // every turn of this process up to this fence is over
	leaves    *chain          // what the last of them leaves, if Redis has not been told
	observed  *uint64         // a nonce from outside the lane that Redis has not been told
	bad       uint64          // newest turn with a bad verdict that Redis has not been told; 0 = none
	waiters   []chan struct{} // closed when Redis knows of the verdict
	dead      string          // instance known to be dead; empty = none
	deadFence uint64          // … and its last turn in this lane
	lookAt    time.Duration   // when to state everything again; 0 = not planned
	owner     lockValue       // whose turn it was when last heard
	statedAt  time.Duration   // when everything was stated, for that answer
	before    uint64          // turns that were given after it have higher fences

	here     bool          // Redis is there, as far as the lane has followed it
	failures int           // in a row, although heartbeats succeeded
	outUntil time.Duration // the lane is kept off Redis until then; 0 = it is not
	foreign  bool          // its keys have somebody else's values
}

// rest drops what makes no sense in an empty lane.
func (f *link) rest() {
	f.lookAt = 0
	if f.foreign {
		f.outUntil = 0 // the next burst tries again
	}
}

// busy tells whether the lane still has something to tell Redis, or a claim there that nobody here stands behind. So it is found when Redis returns.
func (f *link) busy() bool { return f.sending || f.dirty || f.bad != 0 || f.stated.session != "" }

// followRemote makes the lane follow Redis, whose coming and going reaches it through here alone, and ends the time during which the
// lane was kept off it. All of a change is one step under the lane's mutex, whoever is first to touch the lane: no window ends that
// stood still, and no turn is given by both orders.
func (l *lane) followRemote(now time.Duration) {
	f, up := &l.link, l.svc.remote.up.Load()
	switch {
	case up && !f.here:
		f.here, f.failures = true, 0
		if l.wasShared() {
			down := l.downAt()
			for _, t := range l.queue {
				if t.until != 0 {
					t.until += now - max(down, t.entered) // its window did not run meanwhile
				}
			}
			l.recoveredAt = now // transactions that others had under way may come late
		}
		l.goBy(redisStrategy)
	case !up && f.here:
		f.here, f.outUntil = false, 0
		l.goBy(local)
	case f.outUntil != 0 && now < f.outUntil:
		l.arm(f.outUntil, now)
	case f.outUntil != 0:
		f.outUntil = 0
		l.goBy(redisStrategy)
	}
}

// goBy notes who decides the order from now on. Redis is told everything when it does.
func (l *lane) goBy(s strategy) {
	f := &l.link
	f.lookAt = 0
	f.dirty = f.dirty || s == redisStrategy && !l.empty()
}

// driveShared moves a lane on while Redis decides its order.
func (l *lane) driveShared(now time.Duration) {
	f := &l.link
	if f.lookAt != 0 {
		if now < f.lookAt {
			l.arm(f.lookAt, now)
		} else {
			f.lookAt, f.dirty = 0, true
		}
	}
	if at := l.joinAt(); at > now {
		l.arm(at, now)
	}
	if !f.sending && l.due(now) {
		f.sending = l.svc.spawn(l.send)
	}
}

// claim returns what the tickets that wait amount to.
func (l *lane) claim() (c claim) {
	if !l.claims() {
		return c
	}
	for i, t := range l.queue {
		if i == 0 {
			c = claim{session: l.link.stated.session, nonce: t.nonce, since: t.entered, until: t.until}
			continue
		}
		c.nonce, c.since, c.until = min(c.nonce, t.nonce), min(c.since, t.entered), min(c.until, t.until)
	}
	return c
}

// joinDelay bounds how long the first claim of a sender is kept back.
const joinDelay = 100 * time.Millisecond

// joinAt is the latest time at which the claim of a sender of whom nothing is known is stated. Until the next nonce is known nobody gets
// the turn within its window. So the claim waits for what the mirror node shows, and one call states both.
func (l *lane) joinAt() time.Duration {
	h := l.oldest()
	if h == nil || h.until == 0 || l.link.stated.session != "" || l.holder != nil || l.chain.known || l.chain.mode != flowing {
		return 0
	}
	return h.entered + min((h.until-h.entered)/2, joinDelay)
}

// due tells whether Redis is to be told something now.
func (l *lane) due(now time.Duration) bool {
	f := &l.link
	switch {
	case f.dirty || f.dead != "" || f.bad != 0:
		return true
	case l.holder != nil || l.lost != nil: // its end says everything
		return false
	case l.empty():
		return f.stated.session != "" || f.observed != nil && l.chain.mode == recovering && l.svc.cfg.Window > 0
	}
	// A claim that is not stated yet, or says less than is true. One that says more costs a turn, which is given back.
	if s, c := f.stated, l.claim(); now >= l.joinAt() && (s.session == "" || c.nonce < s.nonce || s.until > c.until) {
		return true
	}
	return f.observed != nil && f.owner.session == "" && (l.svc.cfg.Window > 0 || l.queue[0].until != 0)
}

// send is the worker: it sends until there is nothing left to send.
func (l *lane) send(ctx context.Context) {
	r := l.svc.remote
	for {
		l.mu.Lock()
		f, now := &l.link, l.svc.now()
		if ctx.Err() != nil || !l.svc.governs(l) || !l.due(now) {
			f.sending = false
			l.unlock()
			return
		}
		epoch, s := r.epoch.Load(), l.statement(now)
		l.unlock()
		v, err := l.svc.sync(ctx, l.keys, s)
		r.noteStall(s.at)
		if l.answered(epoch, s, v, err) { // a call failed: nothing is sent before a heartbeat has told whether Redis is out
			select {
			case <-r.nextBeat():
			case <-ctx.Done():
			}
		}
	}
}

// statement collects all that is to be said.
func (l *lane) statement(now time.Duration) statement {
	f, r := &l.link, l.svc.remote
	takes := time.Duration(r.takes.Load())
	s := statement{claim: l.claim(), ended: l.endedUpTo(), leaves: f.leaves, bad: f.bad, take: now >= takes, at: now, told: f.waiters}
	if f.stated.session != "" {
		if s.again = 1; f.stated.since == s.claim.since {
			s.again = 2
		}
	}
	if l.claims() && s.claim.session == "" {
		s.claim.session = newSession()
	}
	if t := l.holder; t != nil && now < t.lease.turn.deadline {
		g := &t.lease.turn
		if g.session == "" {
			g.session = newSession()
		}
		s.turn, s.session, s.left = g.number, g.session, g.deadline-now
	}
	if f.observed != nil {
		s.observed = strconv.FormatUint(*f.observed, 10)
	}
	if l.chain.gap == certain {
		s.missing = strconv.FormatUint(l.chain.expected, 10)
	}
	if !s.take {
		l.planLook(takes)
	}
	if f.dead != "" {
		s.ends, s.endsUpTo, s.dead = f.dead, f.deadFence, true
	}
	f.dirty, f.waiters, f.dead, f.deadFence = false, nil, "", 0
	return s
}

// newSession returns the key of an acquisition.
func newSession() string {
	id, err := uuid.NewV7()
	if err != nil {
		id = uuid.New() // panics only if the system has no randomness at all
	}
	return id.String()
}

// endedUpTo returns up to which fence every turn of this process is over. A heartbeat that lapsed ends what came before it.
func (l *lane) endedUpTo() uint64 { return max(l.link.ended, l.svc.remote.lapsed.Load()) }

// answered applies the answer to a statement, or its error: then it tells whether the worker is to wait for a heartbeat.
func (l *lane) answered(epoch uint64, s statement, v view, err error) (wait bool) {
	l.mu.Lock()
	defer l.unlock()
	f, now := &l.link, l.svc.now()
	defer l.dispatch(now)
	if err != nil {
		again, wait := l.callFailed(epoch, err)
		if f.dirty = f.dirty || again; again {
			f.waiters = append(f.waiters, s.told...)
			if s.dead {
				f.dead, f.deadFence = s.ends, s.endsUpTo
			}
		} else {
			wake(s.told)
		}
		return wait
	}
	wake(s.told)
	if f.failures, f.foreign = 0, false; epoch != l.svc.remote.epoch.Load() {
		f.dirty = true
		return false
	}
	if f.ended <= s.ended {
		f.leaves = nil
	}
	if f.bad == s.bad {
		f.bad = 0
	}
	if f.observed != nil && s.observed == strconv.FormatUint(*f.observed, 10) {
		f.observed = nil
	}
	switch v.owner.session {
	case f.stated.session: // the turn may be what the claim before this one got
		v.claimed = min(s.claim.since, f.stated.since)
	case s.claim.session:
		v.claimed = s.claim.since
	} // else it is for a claim whose answer was lost: nobody knows how old that was
	f.stated = s.claim
	if v.cleared > 0 {
		l.note(func() {
			l.svc.log.Warn("removed values that no relay has written from the keys of a lane", "sender", l.sender, "count", v.cleared)
		})
	}
	if v.removed > 0 && s.dead {
		l.svc.metrics.zombies.Add(float64(v.removed))
		l.note(func() {
			l.svc.log.Warn("removed the turn or the claim of a dead process", "sender", l.sender, "instance", s.ends, "count", v.removed)
		})
	}
	if l.svc.tracing() {
		l.trace(nobody(), "told redis", "claim", s.claim.session, "lowest", s.claim.nonce, "turn", s.turn, "ended", s.ended,
			"owner", v.owner.session, "process", v.owner.instance, "fence", v.owner.fence)
	}
	l.applyView(v, s, now)
	return false
}

func wake(waiters []chan struct{}) {
	for _, w := range waiters {
		close(w)
	}
}

// applyView applies what Redis said about whose turn it is.
func (l *lane) applyView(v view, s statement, now time.Duration) {
	f, o, t := &l.link, v.owner, l.holder
	f.owner, f.statedAt, f.before = o, s.at, v.before
	if v.wait >= 0 {
		l.planLook(now + max(v.wait, time.Millisecond))
	}
	ours := o.instance == l.svc.remote.process
	if v.lost && !ours {
		l.svc.metrics.rejoins[redisStrategy].Inc()
		if o.session == "" { // and perhaps a turn was lost, too: a heartbeat shows whether Redis has lost its data
			r := l.svc.remote
			r.pauseTaking(now)
			r.wake()
			l.planLook(time.Duration(r.takes.Load()))
		}
	}
	switch {
	case ours:
		f.stated, f.lookAt = claim{}, 0 // the end of the turn states it anew
	case s.claim.until > s.at: // whoever frees the lock before has nobody to give it to
		l.planLook(s.claim.until)
	}
	switch {
	case ours && t == nil:
		l.take(v, s.at, now)
	case ours && o.fence >= t.lease.turn.number:
		t.lease.turn.number, t.lease.turn.session, t.lease.turn.shared = o.fence, o.session, true
		l.svc.raiseFence(o.fence)
	case ours:
		f.dirty = true
	case o.session != "":
		l.sharedAt = now
	}
	if !ours && t != nil && t.lease.turn.shared && v.refused && t.lease.turn.number == s.turn {
		l.lose(t, "the lock belongs to another process")
	}
	if !ours && l.holder == nil && o.chain.known {
		l.chain.observe(o.chain.expected)
	}
}

// heard acts on a message: if it shows that Redis gave this process the turn, for the claim that was stated last and after the answer to
// that, nothing need be asked. Otherwise everything is stated again: the message may be old, or of a server that has been replaced.
func (l *lane) heard(o lockValue) {
	f, now, limit := &l.link, l.svc.now(), l.svc.cfg.MaxHold.Duration()
	given := o.session != "" && o.session == f.stated.session && o.fence > f.before
	// The turn began some time after the statement. It must not lose much of its time to that.
	if given && !f.sending && !f.dirty && now-f.statedAt < limit/16 {
		l.applyView(view{owner: o, left: limit, wait: -1, before: o.fence, claimed: f.stated.since}, statement{claim: f.stated, at: f.statedAt}, now)
	} else {
		f.dirty = true
	}
	l.dispatch(now)
}

// take gives the turn that Redis gave to this process to one of its tickets: the order in this process decides which.
func (l *lane) take(v view, asked, now time.Duration) {
	f, o, r := &l.link, v.owner, l.svc.remote
	deadline := asked + v.left // the server began to count after the call was sent
	switch {
	case o.fence <= l.endedUpTo():
		f.dirty = true
	case !l.claims() || v.left >= 0 && now+l.svc.margin >= deadline:
		l.giveBack(o)
	case l.claim().since > v.claimed: // for a ticket that has left: somebody elsewhere may have come before those that are still here
		l.giveBack(o)
	case v.left < 0 || !r.aliveAt(now):
		// This process stood still, so others may have taken the turn. No news counts before the next heartbeat.
		r.wake()
		l.planLook(now + l.svc.cfg.PollInterval.Duration())
	default:
		distrusted := l.inherit(o)
		t, _ := l.pick(l.chain, now)
		if t == nil { // by what is not relied on any more: given back, the turn would be given again
			t, _ = l.pick(o.chain, now)
		}
		if t == nil {
			l.giveBack(o)
			return
		}
		l.svc.raiseFence(o.fence)
		l.grant(t, now, turn{by: redisStrategy, fence: o.fence, number: o.fence, deadline: deadline, session: o.session, shared: true})
		t.lease.unsure = distrusted
	}
}

// giveBack ends a turn that nobody here can use.
func (l *lane) giveBack(o lockValue) { l.link.ended, l.link.dirty = max(l.link.ended, o.fence), true }

// turnEnded notes that a turn is over, for Redis.
func (l *lane) turnEnded(lease *Lease) {
	f := &l.link
	if lease.turn.session == "" {
		return // Redis never heard of it
	}
	chain := l.chain
	if l.alone(lease.turn) {
		chain.sure = false // another process may have gone on meanwhile
	}
	if l.chain.known || lease.unsure || lease.advanced || !errors.Is(lease.err, ErrReleased) {
		f.leaves, f.observed = &chain, nil
	}
	f.ended, f.dirty = max(f.ended, lease.turn.number), true
}

// inherit joins what Redis says of the sender's nonces with what the lane knows. It returns whether the state in
// Redis was too old to rely on.
func (l *lane) inherit(o lockValue) (distrusted bool) {
	chain := o.chain
	if chain.known && chain.base < l.svc.remote.staleBefore.Load() {
		chain.recover()
		distrusted = true
	}
	if l.link.bad != 0 {
		chain.invalidate(l.link.bad) // Redis has not been told yet
	}
	if l.link.observed != nil {
		chain.observe(*l.link.observed)
	}
	chain.inherit(l.chain)
	news := chain.gap != l.chain.gap || chain.expected != l.chain.expected
	if chain.mode == recovering && l.chain.mode != recovering {
		l.recoveredAt, l.holeReported = l.svc.now(), false
	}
	if l.chain = chain; news {
		l.noteGap(l.svc.now())
	}
	return distrusted
}

// lose ends the holder's turn because Redis gave it to another, or may have. What the holder has sent may still be on its way.
func (l *lane) lose(t *Ticket, why string) {
	l.lost = t.lease
	l.end(t, ErrLost)
	l.noteLost(t, why)
}

// callFailed handles the error of a script of this lane, and returns whether it is to be sent again, and whether only after a heartbeat.
//
// A call that failed says little: the process may have stood still while its deadline passed, or one shard of a
// cluster be out. So the lane waits for a heartbeat that begins afterwards, which is sent at once and speaks for all lanes. If
// the heartbeat succeeds, the lane tries again. A lane that fails for the third time in a row is kept off Redis
// for a while, and so is one whose keys have somebody else's values.
func (l *lane) callFailed(epoch uint64, err error) (again, wait bool) {
	r := l.svc.remote
	again = !l.svc.closed.Load()
	if errors.Is(err, errNotSent) {
		return again, false
	}
	r.svc.metrics.redisErrors.WithLabelValues(opAcquire).Inc()
	f, now, foreign := &l.link, l.svc.now(), laneError(err)
	if l.followRemote(now); !f.here || !foreign && epoch != r.epoch.Load() {
		return again, false
	}
	if f.failures++; !foreign && f.failures < 3 {
		return again, again
	}
	f.outUntil = now + time.Second
	if f.foreign = foreign; foreign {
		f.bad, f.stated, again = 0, claim{}, false // nobody knows what of this process is there
	}
	l.note(func() { l.svc.logFailure("one sender's order is kept inside this process", opAcquire, err) })
	if l.sharedAt != 0 && now-l.sharedAt < recently {
		l.hole() // other processes may have gone on
	}
	l.goBy(local)
	if l.empty() {
		f.rest()
	}
	return again, false
}

// redisBack has everything stated again. lapsed: others may have taken this process for dead, so a turn that goes on goes on as a later one.
func (l *lane) redisBack(now time.Duration, lapsed bool) {
	l.followRemote(now)
	f := &l.link
	if t := l.holder; t != nil && lapsed {
		if g := &t.lease.turn; g.shared {
			g.number, g.shared = g.number+1, false // unless another process has had that
		} else {
			g.number = max(g.number, l.endedUpTo()) + 1
		}
		l.svc.raiseFence(t.lease.turn.number)
	}
	f.outUntil, f.failures = 0, 0
	f.dirty = f.dirty || !l.empty()
	l.dispatch(now)
}

// planLook has everything stated again at a time, if somebody waits or holds then.
func (l *lane) planLook(at time.Duration) {
	if f := &l.link; !l.empty() && (f.lookAt == 0 || at < f.lookAt) {
		f.lookAt = at
	}
}

// verifyInTime states everything again from time to time: when the lane has waited long for a turn, and to renew the time to
// live of its queue.
func (l *lane) verifyInTime(now time.Duration) {
	if len(l.queue) > 0 && now-l.link.statedAt > l.svc.cfg.MembershipInterval.Duration() {
		l.link.dirty = true
		l.dispatch(now)
	}
}

// wantsLook tells whether the watch is to look at the lane: nothing was heard of it for a while, and tickets of this process wait
// in it, or this process should still have the turn.
func (l *lane) wantsLook(now, quiet time.Duration) bool {
	if now-l.link.statedAt < quiet {
		return false
	}
	h := l.holder
	held := h != nil && h.lease.turn.shared && now-h.lease.granted >= quiet
	return held || len(l.queue) > 0 && h == nil
}

// applyLook applies whose turn it is by a look. Anything but what the last answer said has everything stated again.
func (l *lane) applyLook(o lockValue, dead bool) {
	switch f := &l.link; {
	case dead:
		f.dead, f.deadFence = o.instance, o.fence
	case o.session != f.owner.session || o.fence != f.owner.fence:
		f.dirty = true
	case o.instance != "" && o.instance != l.svc.remote.process:
		l.sharedAt = l.svc.now()
	}
	l.dispatch(l.svc.now())
}

// check returns what is wrong with the lane, or nil. Tests ask after each step.
func (l *lane) check() error {
	var wrong []error
	must := func(holds bool, rule string) {
		if !holds {
			wrong = append(wrong, errors.New(rule))
		}
	}
	must(l.holder == nil || l.holder.err == nil, "the holder holds")
	for _, t := range l.queue {
		must(l.waits(t), "who is in the queue waits")
	}
	must(l.holder != nil || len(l.queue) == 0 || l.timer != nil || l.svc.remote != nil, "somebody will move the lane on")
	must(l.svc.remote != nil || !l.link.busy(), "nothing is to be told without Redis")
	return errors.Join(wrong...)
}

// CheckLanes returns what is wrong with the lanes of this process, in use and idle, or nil. Tests and simulations
// ask after each step.
func (s *Service) CheckLanes() error {
	var wrong []error
	s.each(true, func(l *lane) { wrong = append(wrong, l.check()) })
	return errors.Join(wrong...)
}
