package locksim

import (
	"slices"
	"time"
)

// With a window the order of arrival decides nothing, so neither the FIFO lock of the porcupine nor the order of places is
// asked for. docs/internals/LANES.md promises other things, and these are judged here:
//
//   - Whoever sends has the turn alone, and the fences rise, as without a window.
//   - A transaction that is ahead of the next nonce does not leave before its window is over: always, whatever fails.
//   - The turn goes to the transaction with the next nonce, at whichever relay that is queued, while Redis decides.
//   - In a lane that flows that one never waits for a window, in the scenes calm and death.
//   - A sender whose nonces come in any order that the window covers, and to whom nothing else happens, has each of them
//     sent once, in their order, and none refused: while Redis decides, and always if one relay serves the sender, whatever becomes of Redis.

// windowed judges one sender of a scenario with a window.
func (j *judgement) windowed(sender int, turns []*Turn) {
	turns = slices.DeleteFunc(slices.Clone(turns), func(t *Turn) bool { return t.Sender != sender })
	var all []*Transaction
	for _, t := range j.scenario.Transactions {
		if t.Sender == sender && t.Entered.ever() {
			all = append(all, t)
		}
	}
	var sent []*Turn
	for _, t := range turns {
		if t.Sent.ever() {
			sent = append(sent, t)
		}
	}
	slices.SortFunc(sent, func(a, b *Turn) int { return a.Sent.Step - b.Sent.Step })
	j.fences(sent)
	var shared []*Transaction
	for _, t := range sent {
		if j.strictTurn(t, healTurns) {
			shared = append(shared, &t.Transaction)
		}
	}
	j.exclusion(shared)

	next := firstNonce(sender)
	for _, t := range sent {
		if t.Nonce > next {
			j.ahead(t, next, all, turns)
		} else if t.Nonce == next {
			next++
		}
	}
	j.promptness(sender, turns, sent)
	j.honest(sender, all, sent)
}

// strictTurn tells whether Redis decided for all from a transaction's arrival to the end of one of its turns.
func (j *judgement) strictTurn(t *Turn, heal time.Duration) bool {
	life := t.Transaction
	life.Over = t.Released
	return j.strict(&life, heal)
}

// remembered tells whether Redis decided from the sender's first transaction on. What a fault took away of the next nonce does
// not come back when the fault is over (healPlaces), but when the mirror node shows it, which is late: seed 3022.
func (j *judgement) remembered(all []*Transaction, until Moment) bool {
	life := Transaction{Entered: ever, Over: until}
	for _, t := range all {
		if t.Entered.At < life.Entered.At {
			life.Entered = t.Entered
		}
	}
	return j.strict(&life, healPlaces)
}

// fences: inside a relay the turns that send follow each other, always.
func (j *judgement) fences(sent []*Turn) {
	for i, t := range sent {
		for _, later := range sent[i+1:] {
			if later.Relay != t.Relay {
				continue
			}
			if later.Fence <= t.Fence {
				j.fail("fences inside relay %d: %d has %d and the later %d has %d", t.Relay, t.Nonce, t.Fence, later.Nonce, later.Fence)
			}
			if later.Granted.before(t.Sent) {
				j.fail("order inside relay %d: %d had the turn before %d was sent, and was sent after it", t.Relay, later.Nonce, t.Nonce)
			}
		}
	}
}

// ahead judges a turn that sent a nonce above the next one.
func (j *judgement) ahead(t *Turn, next uint64, all []*Transaction, turns []*Turn) {
	if waited := t.Sent.At - t.Entered.At; waited < j.scenario.Window {
		j.fail("window: %d was sent ahead of %d after %v", t.Nonce, next, waited)
	}
	if !j.remembered(all, t.Released) || j.anyFaulted(all, t.Sent) {
		return
	}
	for _, x := range all {
		if x.Nonce != next || x.Over.before(t.Sent) || x.Left.ever() {
			continue
		}
		place := j.lastPlace(x, turns, t)
		if x.Looked.before(t.Granted) && place.ever() && place.before(t.given) {
			j.fail("nonces: %d was sent while %d was in line, which was next", t.Nonce, x.Nonce)
		}
	}
}

// anyFaulted tells whether a relay that had transactions of the sender may have been taken for dead by then.
func (j *judgement) anyFaulted(all []*Transaction, until Moment) bool {
	return slices.ContainsFunc(all, func(t *Transaction) bool { return j.faulted(t.Relay, t.Entered, until) })
}

// lastPlace is when a transaction took the place in which it waited when another one's turn began; never, if it was not in line.
func (j *judgement) lastPlace(x *Transaction, turns []*Turn, other *Turn) Moment {
	for _, t := range turns {
		if t.of == x && other.given.before(t.Granted) {
			return t.place
		}
	}
	return Moment{} // it had no turn after that, and its place is not known
}

// promptness: in a lane that flows the one that is next waits for nobody's window.
func (j *judgement) promptness(sender int, turns, sent []*Turn) {
	if j.scenario.Scene != "calm" && j.scenario.Scene != "death" {
		return
	}
	limit := 5 * time.Second
	if j.scenario.Scene == "calm" && j.scenario.Network.Loss == 0 {
		limit = time.Second // which is less than the longer of the windows
	}
	for _, t := range turns {
		if t.Strategy != "redis" {
			j.fail("decided: %d had its turn by the order %s although Redis was well", t.Nonce, t.Strategy)
		}
		next, free := firstNonce(sender), max(t.Entered.At, t.Looked.At)
		flows := true // else what proves the next nonce is a verdict or the mirror node, and both take their time
		for _, s := range sent {
			if s.Sent.before(t.Granted) {
				if flows = flows && s.Nonce == next; s.Nonce == next {
					next++
				}
			}
		}
		for _, o := range turns {
			if o != t && o.Granted.before(t.Granted) {
				free = max(free, o.Released.At, o.Granted.At)
			}
		}
		if idle := t.Granted.At - free; flows && t.Nonce == next && idle > limit {
			j.fail("decided: nobody had the turn for %v before %d, which was next", idle, t.Nonce)
		}
	}
}

// place is when the transaction was in line for all that decide: its own relay, where that alone serves the sender, else Redis, too.
func (t *Transaction) place(alone bool) Moment {
	if alone {
		return t.Entered
	}
	return t.Joined
}

// honest: what the window covers is sent in the order of nonces, each once, and nothing of it is refused.
func (j *judgement) honest(sender int, all []*Transaction, sent []*Turn) {
	slices.SortFunc(all, func(a, b *Transaction) int { return int(a.Nonce) - int(b.Nonce) })
	known := ever // when the lane knows the next nonce
	last := Moment{}
	for _, t := range all {
		if !t.Over.ever() {
			return
		}
		if t.Over.At > last.At {
			last = t.Over
		}
	}
	alone := !slices.ContainsFunc(all, func(t *Transaction) bool { return t.Relay != all[0].Relay })
	if !alone && !j.remembered(all, last) {
		return
	}
	for i, t := range all {
		if t.Nonce != firstNonce(sender)+uint64(i) || t.Left.ever() || j.faulted(t.Relay, t.Entered, ever) {
			return
		}
		if known.At > t.Looked.At {
			known = t.Looked
		}
	}
	// The news of a nonce, and the release that names the next one, need a call that may be repeated.
	slack := 2*(j.scenario.Network.Usual+j.scenario.Network.Long) + 5*time.Millisecond
	if j.scenario.Network.Spike == 0 {
		slack = 2*j.scenario.Network.Usual + 5*time.Millisecond
	}
	for i, t := range all {
		over := t.Entered.At + j.scenario.Window - slack
		if known.At > over {
			return
		}
		for _, before := range all[:i] {
			if place := before.place(alone); !place.ever() || place.At > over {
				return
			}
		}
	}
	j.honestBursts++
	for i, t := range all {
		if t.Err != nil || t.Refused > 0 {
			j.fail("honest: %d ended with %v, and the network refused it %d times", t.Nonce, t.Err, t.Refused)
		}
		if i < len(sent) && sent[i].Nonce != t.Nonce {
			j.fail("honest: %d was sent in the place of %d", sent[i].Nonce, t.Nonce)
		}
	}
	if len(sent) != len(all) {
		j.fail("honest: %d transactions were sent %d times", len(all), len(sent))
	}
}
