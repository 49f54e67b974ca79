package lock

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/relay/telemetry"
)

// lane is the queue of one sender in this process, and its turn. Tickets stand in it in
// the order in which they were drawn. Times are durations since the service was made,
// by the monotonic clock.
type lane struct {
	svc    *Service
	sender common.Address
	keys   []string // in Redis; nil without

	mu   sync.Mutex // guards all below
	busy bool       // it is in use, as the registry knows
	gone bool       // it was swept, and there may be another of the sender by now

	queue        []*Ticket // who waits, oldest first
	holder       *Ticket   // whose turn it is; not among those who wait
	lost         *Lease    // a turn that Redis took away, while its holder may still be at work; nobody here gets the next before it lets go
	chain        chain
	failure      failure       // why the transactions that are missing were not sent
	open         []*Submitted  // submissions of this process without a verdict, oldest first
	recoveredAt  time.Duration // when the lane last began to recover, or had recovered; 0 = never
	holeReported bool          // this process sent the missing transaction, and has told its client
	idleSince    time.Duration // when the last ticket went; meaningful while there is none
	sharedAt     time.Duration // when another process was last seen to have the turn; 0 = never
	advancedAt   time.Duration // when a node last accepted what was next; 0 = never
	gapAt        time.Duration // when chain.gap last changed

	// One timer serves every wait of the lane. It is armed lazily: a deadline that
	// is further away than the armed one is looked at when that one fires.
	timer   *time.Timer
	armedAt time.Duration // 0 = not armed

	link link // the lane's side of Redis

	notes []func() // log lines of what happened under mu
}

func newLane(svc *Service, sender common.Address) *lane {
	l := &lane{svc: svc, sender: sender, busy: true}
	if svc.remote != nil {
		l.keys = keys(sender)
	}
	return l
}

// unlock unlocks mu and then logs what happened under it. Writing a log may be slow, so it is not done
// under mu.
func (l *lane) unlock() {
	notes := l.notes
	l.notes = nil
	var old *lane
	if busy := !l.empty() || l.link.busy(); busy != l.busy && !l.gone {
		l.busy = busy
		old = l.svc.reg.note(l, busy)
	}
	l.mu.Unlock()
	if old != nil {
		l.svc.reg.sweep(old)
	}
	for _, write := range notes {
		write()
	}
}

// note keeps a log line until mu is unlocked.
func (l *lane) note(write func()) { l.notes = append(l.notes, write) }

// admit lets a ticket wait, for its predecessor for up to window.
func (l *lane) admit(t *Ticket, window time.Duration) {
	now := l.svc.now()
	t.entered, t.until = now, 0
	if window > 0 {
		t.until = now + window
	}
	l.queue = append(l.queue, t)
	if l.svc.tracing() {
		l.trace(nobody(), "ticket drawn", "nonce", t.nonce, "queue", len(l.queue))
	}
	if l.orphaned(t) {
		l.turnAway(t)
	}
	l.dispatch(now)
}

// renewWindows lets those that wait for a predecessor wait for a whole window again. A ticket has come below another one's nonce: so the
// sender's transactions are under way out of order, and the one that is missing may still come. A sender who keeps that up with one
// missing is told when the first has waited for as long as the lane remembers what it knows.
func (l *lane) renewWindows(come *Ticket, now time.Duration) {
	window, disorder := l.svc.cfg.Window.Duration(), false
	if window == 0 || l.chain.known && come.nonce < l.chain.expected {
		return
	}
	for t := range l.all { // the holder may still find that it is ahead
		if t.nonce == come.nonce {
			return
		}
		disorder = disorder || t.nonce > come.nonce
	}
	if !disorder {
		return
	}
	for t := range l.all {
		if t.until != 0 {
			t.until = max(t.until, min(now+window, t.came+l.svc.cfg.Memory.Duration()))
		}
	}
}

// highest returns the waiting ticket that gives way first: the one with the highest nonce that does not outlast a gap.
// Of several with this nonce it is the youngest. It returns nil if all are kept.
func (l *lane) highest() (highest *Ticket) {
	for _, t := range slices.Backward(l.queue) {
		if !t.outlastsGap && (highest == nil || t.nonce > highest.nonce) {
			highest = t
		}
	}
	return highest
}

func (l *lane) unlink(t *Ticket) {
	i := slices.Index(l.queue, t)
	l.queue = slices.Delete(l.queue, i, i+1)
}

// oldest returns the ticket that has waited longest, or nil.
func (l *lane) oldest() *Ticket {
	if len(l.queue) == 0 {
		return nil
	}
	return l.queue[0]
}

// waits tells whether a ticket waits for its turn.
func (l *lane) waits(t *Ticket) bool { return t.err == nil && l.holder != t }

// waiting returns the oldest of those with a nonce, or nil.
func (l *lane) waiting(nonce uint64) *Ticket {
	for _, t := range l.queue {
		if t.nonce == nonce {
			return t
		}
	}
	return nil
}

// all yields the holder and those who wait.
func (l *lane) all(yield func(*Ticket) bool) {
	if l.holder != nil && !yield(l.holder) {
		return
	}
	slices.Values(l.queue)(yield)
}

// empty tells whether nobody waits, holds, or has still to let go.
func (l *lane) empty() bool { return l.holder == nil && len(l.queue) == 0 && l.lost == nil }

// claims tells whether anybody here may get a turn.
func (l *lane) claims() bool { return len(l.queue) > 0 && l.lost == nil }

// letGo notes that the holder of a turn that was lost does no more, so that the next may go.
func (l *lane) letGo(lease *Lease) {
	if l.lost != lease || lease == nil {
		return
	}
	l.lost = nil
	now := l.svc.now()
	l.noteIdle(now)
	l.link.dirty = l.link.dirty || l.svc.governs(l) && l.claims()
	l.dispatch(now)
}

// noteIdle notes the moment at which the lane became empty.
func (l *lane) noteIdle(now time.Duration) {
	if l.empty() {
		l.idleSince = now
		if cap(l.queue) > 64 {
			l.queue = nil // there may be many idle lanes
		}
		l.link.rest()
	}
}

// expireKnowledge drops what an idle lane has known for so long that it may be wrong.
func (l *lane) expireKnowledge(now time.Duration) {
	if l.empty() && now-l.idleSince > l.svc.cfg.Memory.Duration() {
		l.chain, l.recoveredAt, l.failure = chain{}, 0, failure{}
	}
}

// dispatch moves the lane on: it gives the turn to the next ticket, or makes sure that this happens later. Call
// it after every change.
func (l *lane) dispatch(now time.Duration) {
	if l.svc.remote != nil {
		l.followRemote(now)
	}
	if l.lost != nil {
		l.arm(l.lost.turn.deadline, now)
	}
	if l.svc.governs(l) {
		l.driveShared(now)
		return
	}
	if l.holder != nil || !l.claims() {
		return
	}
	if until := l.patientUntil(); until > now {
		l.arm(until, now)
		return
	}
	if !l.link.here && l.wasShared() && l.recoveredAt <= l.downAt() {
		l.hole() // others may have gone on
	}
	t, until := l.pick(l.chain, now)
	if t == nil {
		l.arm(until, now)
		return
	}
	if l.svc.remote != nil {
		l.svc.metrics.fail[redisStrategy].Inc()
		l.svc.metrics.failedOpen.Inc()
	}
	fence := l.svc.fences.Add(1)
	l.grant(t, now, turn{by: local, fence: fence, number: fence, deadline: now + l.svc.cfg.MaxHold.Duration()})
}

// recently is how long a lane counts as shared after another process had a turn in it.
const recently = time.Minute

// wasShared tells whether another process had turns of the sender shortly before Redis went away.
func (l *lane) wasShared() bool {
	if l.svc.remote == nil || l.sharedAt == 0 {
		return false
	}
	down := l.downAt()
	return down != 0 && down-l.sharedAt < recently
}

// downAt is when Redis last went away; 0 = never.
func (l *lane) downAt() time.Duration { return time.Duration(l.svc.remote.downAt.Load()) }

// patientUntil is until when the lane waits for a Redis that went away; 0 = not at all.
func (l *lane) patientUntil() time.Duration {
	if !l.wasShared() || l.link.here {
		return 0
	}
	return l.downAt() + l.svc.cfg.RedisPatience.Duration()
}

// turn is what a grant consists of.
type turn struct {
	by       strategy
	fence    uint64
	deadline time.Duration // the hold limit
	number   uint64        // its fence in Redis: higher than the former if it went on after others may have taken this process for dead
	session  string        // its key in Redis; empty = Redis was not told of it
	shared   bool          // Redis has it
}

// alone tells whether Redis should have decided whose turn it is, but did not answer.
func (l *lane) alone(g turn) bool { return g.by == local && l.svc.remote != nil }

// grant gives the turn to a waiting ticket. Nobody may hold it.
func (l *lane) grant(t *Ticket, now time.Duration, g turn) {
	l.unlink(t)
	l.holder = t
	t.lease = &Lease{ticket: t, turn: g, granted: now, parent: t.parent}
	l.chain.begin(g.fence)
	l.svc.metrics.success[g.by].Inc()
	l.arm(g.deadline, now)
	t.wake()
}

// end takes the turn from its holder, for the reason given, and moves the lane on. It returns false if the ticket has no turn.
func (l *lane) end(t *Ticket, cause error) bool {
	if l.holder != t {
		return false
	}
	t.err = cause
	l.vacate(t.lease, cause)
	now := l.svc.now()
	l.noteIdle(now)
	l.dispatch(now)
	return true
}

// vacate ends a lease, and leaves the turn to nobody.
func (l *lane) vacate(lease *Lease, cause error) {
	t := lease.ticket
	l.holder = nil
	lease.err = cause
	lease.held = l.svc.now() - lease.granted
	if lease.cancel != nil {
		lease.cancel(cause) // before the next one starts
	}
	if lease.parent == nil { // nobody took the turn
		lease.countWait(nobody())
	}
	telemetry.Observe(t.request(), l.svc.metrics.hold[lease.turn.by], lease.held.Seconds())
	lost := !errors.Is(cause, ErrReleased)
	if lost {
		l.svc.metrics.lost.Inc()
		if !lease.advanced {
			// Its bytes may have left: nobody knows what nonce comes next.
			l.hole()
		}
	}
	l.turnEnded(lease)
}

// drop takes a waiting ticket out of the queue. It returns false if the ticket does not wait.
func (l *lane) drop(t *Ticket, cause error) bool {
	if !l.waits(t) {
		return false
	}
	l.unlink(t)
	t.err = cause
	t.wake()
	if l.svc.tracing() {
		l.trace(t.request(), "place left", "nonce", t.nonce, "reason", cause)
	}
	now := l.svc.now()
	l.noteIdle(now)
	l.dispatch(now) // the ticket behind may be first now, with its window over
	return true
}

// arm makes the timer fire at the given time or earlier.
func (l *lane) arm(at, now time.Duration) {
	if l.armedAt != 0 && l.armedAt <= at {
		return
	}
	l.armedAt = at
	if l.timer == nil {
		l.timer = time.AfterFunc(at-now, l.onTimer)
		return
	}
	l.timer.Reset(at - now)
}

// onTimer does what has become due and arms the timer for what has not.
func (l *lane) onTimer() {
	l.mu.Lock()
	defer l.unlock()
	if l.gone {
		return
	}
	l.armedAt = 0
	now := l.svc.now()
	if t := l.holder; t != nil {
		if now >= t.lease.turn.deadline {
			l.end(t, ErrLost)
			l.svc.metrics.timeouts[t.lease.turn.by].Inc()
			l.noteLost(t, "hold limit reached")
		} else {
			l.arm(t.lease.turn.deadline, now)
		}
	}
	if l.lost != nil && now >= l.lost.turn.deadline {
		l.letGo(l.lost)
	}
	l.dispatch(now)
}

// pick chooses who is next by the order of this process, or tells when to ask again. Of the waiting tickets, one whose nonce is next goes
// before one that is known to be ahead. The latter loses nothing, since the network would have refused it.
func (l *lane) pick(by chain, now time.Duration) (*Ticket, time.Duration) {
	if l.queue[0].until == 0 {
		return l.next(by), 0
	}
	if by.known {
		for _, t := range l.queue {
			if t.nonce <= by.expected {
				return t, 0
			}
		}
	}
	first := l.queue[0].until
	for _, t := range l.queue {
		if t.until <= now {
			return t, 0
		}
		first = min(first, t.until)
	}
	return nil, first
}

// next returns the ticket that is to go when none is held back: the oldest, unless it is known to be ahead and
// another carries the expected nonce. Call it only while a ticket waits.
func (l *lane) next(chain chain) *Ticket {
	oldest := l.queue[0]
	if !chain.known {
		return oldest
	}
	if t := l.before(oldest, chain.expected); t != nil {
		oldest.letPass(chain.expected)
		return t
	}
	return oldest
}

// before returns the waiting ticket that is to go before t because it carries the expected
// nonce and t a higher one, or nil. Only one of each nonce goes before t, so that predecessors
// that fail again and again do not keep it from its turn.
func (l *lane) before(t *Ticket, expected uint64) *Ticket {
	if t.nonce <= expected || t.passedBy == expected+1 {
		return nil
	}
	return l.waiting(expected)
}

// recoveredLately tells whether the lane recovered a short time ago. Transactions that go back to their
// line may then still be on their way, here or in another process. The same holds after Redis stood
// still, even if this process did not notice.
func (l *lane) recoveredLately() bool {
	now, memory := l.svc.now(), l.svc.cfg.Memory.Duration()
	return l.recoveredAt != 0 && now-l.recoveredAt < memory || l.svc.remote != nil && l.sharedAt != 0 && l.svc.remote.stalledSince(now-memory)
}

// learn notes a nonce that comes from outside the lane. With insist, Redis is told even if it is no news here.
func (l *lane) learn(nonce uint64, insist bool) {
	if l.observe(nonce, insist) {
		l.dispatch(l.svc.now())
	}
}

// observe is learn without moving the lane on. It tells whether that is needed.
func (l *lane) observe(nonce uint64, insist bool) bool {
	news := l.chain.observe(nonce)
	if news && l.holder != nil {
		l.chain.begin(l.holder.lease.turn.fence)
	}
	if !news && !insist {
		return false
	}
	if f := &l.link; l.svc.remote != nil && (f.observed == nil || nonce > *f.observed) {
		f.observed = &nonce
	}
	return true
}

// hole makes the lane recover, because a transaction is missing in its chain.
func (l *lane) hole() {
	l.chain.recover()
	l.recoveredAt, l.holeReported = l.svc.now(), false
	l.svc.metrics.holes.Inc()
}

// block tells the waiting tickets with a higher nonce than a failed transaction that it will not come. Tickets
// that enter later are not told, since the failed nonce may have been sent again before them. But if the lane
// refuses them, they hear the cause, too. Those that were held back for it wait without success, if there is a cause.
func (l *lane) block(failed uint64, cause error) {
	now, first := l.svc.now(), failed
	if l.failure.lasts(now) {
		first = min(first, l.failure.first)
	}
	l.failure = failure{first: first, last: failed, cause: cause, at: max(now, 1)}
	for _, t := range slices.Clone(l.queue) {
		if t.nonce > failed && t.heldBack() && !t.promised && cause != nil {
			l.turnAway(t)
		}
	}
}

// turnAway takes a waiting ticket out of the queue because of the lane's failure.
func (l *lane) turnAway(t *Ticket) {
	l.failure.last = max(l.failure.last, t.nonce)
	l.drop(t, fmt.Errorf("%w: %w", ErrLeft, l.failure.cause))
}

// orphaned tells whether a ticket that comes back to the queue would wait for a transaction that no node took a
// short time ago, and that has not come again.
func (l *lane) orphaned(t *Ticket) bool {
	missing := l.failure.first
	if !t.heldBack() || t.promised || t.nonce <= missing || l.failure.cause == nil || !l.failure.lasts(l.svc.now()) {
		return false
	}
	return l.waiting(missing) == nil && (l.holder == nil || l.holder.nonce != missing)
}
