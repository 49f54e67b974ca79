package locksim

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// interval is a time in which something is given up.
type interval struct{ from, to time.Duration }

// After a fault of Redis, or of the way to it, has ended: how long two may still have the turn, which is until their next
// look at Redis, a heartbeat later as a maximum, and what a look takes; and how long places may be out of order, since all
// relays have to be back, and what Redis lost is joined again.
const (
	healTurns  = 500 * time.Millisecond
	healPlaces = 3 * time.Second
)

// givenUp returns when the order between relays need not hold: docs/internals/LANES.md.
func (j *judgement) givenUp(heal time.Duration) (all []interval) {
	p := j.scenario
	for _, f := range p.Faults {
		switch f.Kind {
		case CutOff, Outage, Memory, Failover:
			if !f.Came.ever() {
				continue
			}
			if n := len(all); n > 0 && (f.Kind != Failover && f.Reach == reachable && !f.Full || f.Came.At < all[n-1].to) {
				all[n-1].to = max(all[n-1].to, f.Came.At+heal) // the fault that began has ended
				continue
			}
			to := f.Came.At + heal
			if f.Kind != Failover {
				to = math.MaxInt64 / 2 // until another says that it is over
			}
			all = append(all, interval{f.Came.At, to})
		case Crash, Stop, Resume, HangUp, Join, Jump: // Redis decides all the same
		}
	}
	// The timer of a heartbeat runs out in a process that stands still, as it does not in reality, so that it may take
	// Redis for away when it goes on: what it did alone then is not held against it.
	for _, t := range slices.Concat(p.Transactions, j.turns) {
		for _, f := range p.Faults {
			if t.Strategy == "local" && f.Kind == Stop && f.Relay == t.Relay && f.Came.before(t.Granted) {
				all = append(all, interval{f.Came.At, t.Granted.At + heal})
			}
		}
	}
	return all
}

// judge returns what the history breaks.
func judge(p Scenario, sent []*Transaction, turns []*Turn, unanswered error) *judgement {
	j := &judgement{scenario: p}
	for _, t := range turns {
		j.turns = append(j.turns, &t.Transaction)
	}
	if unanswered != nil {
		j.fail("answered: %v", unanswered)
	}
	for sender := range 2 {
		if p.Window > 0 {
			j.windowed(sender, turns)
		} else {
			j.sender(sender, sent)
		}
	}
	return j
}

type judgement struct {
	scenario  Scenario
	wrong     []string
	undecided bool           // the porcupine took too long
	turns     []*Transaction // with a window: as they were in each turn

	honestBursts int // with a window: how many the judge found
}

func (j *judgement) fail(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// strict tells whether a transaction lived while Redis decided for all.
func (j *judgement) strict(t *Transaction, heal time.Duration) bool {
	end := t.Over.At
	if !t.Over.ever() {
		end = math.MaxInt64
	}
	return !slices.ContainsFunc(j.givenUp(heal), func(i interval) bool { return t.Entered.At < i.to && end > i.from })
}

// brief is for how long a process may stand still without being taken for dead: its heartbeat lasts for five
// heartbeats, of which the last may be one old, and both may be late.
const brief = 900 * time.Millisecond

// learns is how long a process may take to learn that it was taken for dead. Until then it takes places as what it was.
const learns = time.Second

// ever is later than everything.
var ever = Moment{math.MaxInt64, math.MaxInt}

// absence is a time in which a relay may be taken for dead.
type absence struct{ from, to Moment }

// absences returns those of a relay.
func (p Scenario) absences(relay int) (all []absence) {
	for _, f := range p.Faults {
		switch n := len(all); {
		case f.Relay != relay || !f.Came.ever():
		case f.Kind == Stop, f.Kind == Crash:
			if n == 0 || all[n-1].to != ever {
				all = append(all, absence{f.Came, ever})
			}
			if f.Kind == Crash { // whatever stops and resumes after that, it stays away
				return all
			}
		case f.Kind == Resume && n > 0 && all[n-1].to == ever:
			if all[n-1].to = f.Came; f.Came.At-all[n-1].from.At < brief {
				all = all[:n-1]
			}
		}
	}
	return all
}

// faulted tells whether a relay may have been taken for dead between two moments.
func (j *judgement) faulted(relay int, from, to Moment) bool {
	return slices.ContainsFunc(j.scenario.absences(relay), func(l absence) bool {
		return l.from.before(to) && (l.to == ever || from.At < l.to.At+learns)
	})
}

func (j *judgement) sender(sender int, sent []*Transaction) {
	var all, lived []*Transaction
	for _, t := range j.scenario.Transactions {
		if t.Sender != sender || !t.Entered.ever() {
			continue
		}
		if all = append(all, t); j.strict(t, healPlaces) {
			lived = append(lived, t)
		}
	}
	sent = slices.DeleteFunc(slices.Clone(sent), func(t *Transaction) bool { return t.Sender != sender })
	j.inProcess(all, sent)
	j.exclusion(slices.DeleteFunc(slices.Clone(sent), func(t *Transaction) bool { return !j.strict(t, healTurns) }))
	j.places(lived, sent)
	if (j.scenario.Scene == "calm" || j.scenario.Scene == "death") && len(j.wrong) == 0 {
		j.decided(lived)
	}
	if len(j.wrong) == 0 {
		j.history(lived)
	}
}

// inProcess: the order inside a relay holds always, and one has the turn.
func (j *judgement) inProcess(all, sent []*Transaction) {
	for _, later := range sent {
		for _, t := range all {
			if t == later || t.Relay != later.Relay {
				continue
			}
			if t.Entered.before(later.Entered) && !t.Over.before(later.Sent) && (t.Sent.ever() || t.Err == nil && !j.faulted(t.Relay, t.Entered, ever)) {
				j.fail("order inside relay %d: %d was sent while the older %d was in line", t.Relay, later.Nonce, t.Nonce)
			}
			if t.Sent.before(later.Sent) && t.Fence >= later.Fence {
				j.fail("fences inside relay %d: %d has %d and the later %d has %d", t.Relay, t.Nonce, t.Fence, later.Nonce, later.Fence)
			}
		}
	}
}

// exclusion: whoever sends has the turn alone, and a turn that was taken never sends later.
func (j *judgement) exclusion(sent []*Transaction) {
	for i, t := range sent {
		for _, later := range sent[i+1:] {
			if later.Fence <= t.Fence {
				j.fail("fence: %d was sent with %d after %d with %d", later.Nonce, later.Fence, t.Nonce, t.Fence)
			}
			end := t.Released.orEver(ever)
			if later.Sent.before(end) && !j.faulted(t.Relay, t.Granted, later.Sent) && later.Sent.At-t.Granted.At < j.scenario.MaxHold {
				j.fail("exclusion: %d was sent while %d had the turn", later.Nonce, t.Nonce)
			}
			if later.Granted.before(t.Sent) {
				j.fail("exclusion: %d had the turn before %d was sent, and was sent after it", later.Nonce, t.Nonce)
			}
		}
	}
}

// places: the turn goes to the relay whose oldest transaction came first, as far as the ways to Redis tell: so who was in line
// before another one entered, by more than a call takes, goes before it.
func (j *judgement) places(lived, sent []*Transaction) {
	slack := 2 * (j.scenario.Network.Usual + j.scenario.Network.Long)
	for _, later := range sent {
		if !slices.Contains(lived, later) {
			continue
		}
		for _, t := range lived {
			waited := t.Joined.ever() && t.Joined.At+slack < later.Entered.At && !t.Granted.before(later.Granted) && !t.Over.before(later.Granted)
			if waited && !t.Left.ever() && !j.faulted(t.Relay, t.Entered, later.Sent) {
				j.fail("places: %d was sent while %d waited, which had its place before", later.Nonce, t.Nonce)
			}
		}
	}
}

// decided: while Redis is well nobody goes on without it, and no turn is left lying.
func (j *judgement) decided(lived []*Transaction) {
	for _, t := range lived {
		if t.Granted.ever() && t.Strategy != "redis" {
			j.fail("decided: %d had its turn by the order %s although Redis was well", t.Nonce, t.Strategy)
		}
		if !t.Granted.ever() {
			continue
		}
		before := t.Entered.At
		for _, o := range lived {
			if o.Granted.before(t.Granted) {
				before = max(before, o.Over.At, o.Sent.At)
			}
		}
		if idle := t.Granted.At - before; idle > 5*time.Second {
			j.fail("decided: nobody had the turn for %v before %d", idle, t.Nonce)
		}
	}
}
