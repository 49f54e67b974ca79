package lock

import (
	"errors"
	"fmt"
	"time"
)

// relation is how a lane stands to Redis. The package comment has the table of its changes.
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

// followRemote brings the relation up to date with whether Redis is up, since nobody tells an idle lane.
func (l *lane) followRemote() {
	switch up := l.svc.remote.up.Load(); {
	case up && l.link.relation.away():
		l.link.relate(linked)
	case !up && !l.link.relation.away():
		l.link.relate(patient)
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
	if l.followRemote(); l.link.relation.away() {
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
	l.failOpen(now)
	if l.empty() {
		l.link.rest()
	}
	return kind != foreign && !l.svc.closed.Load()
}

// failOpen gives a lane to the order of this process.
func (l *lane) failOpen(now time.Duration) {
	for t := l.head; t != nil; t = t.next {
		t.place = placeNone
		l.recount(t, local)
	}
	l.link.want |= jobVerify | jobAdopt
	l.link.pendingGrant, l.link.windowEndSeen, l.link.ownedAt = nil, nil, 0
	l.dispatch(now)
}

// resume gives a lane back to Redis.
func (l *lane) resume(now time.Duration, renewed bool, previous string) {
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
	l.link.want |= jobVerify | jobAdopt
	l.link.windowEndSeen, l.link.ownedAt, l.link.failures = nil, 0, 0
	if renewed {
		l.link.handbacks, l.link.pendingGrant = nil, nil
		l.link.reclaim = previous
		l.link.fence = 0
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
