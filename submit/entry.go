package submit

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/limit"
	"lockstep/lock"
)

// Entry is a transaction that has its place in line. One goroutine at a time works on it.
type Entry struct {
	s       *Submitter
	tx      *eth.Tx
	arrived time.Time
	// inLineSince is when its client's wait for the turn begins: at its arrival, or when its call data is in its
	// file.
	inLineSince time.Time

	stage  atomic.Uint32 // how far it is; changed by become
	answer atomic.Uint32 // what its client has been told

	way       way
	gate      *gate        // where it waits for its ticket, if it is gated
	ticket    *lock.Ticket // its place in line: from the beginning, or once its gate has let it pass
	takenOver bool         // from another relay, which had let it into the line
	returned  bool         // it waits in its line once more
	returns   int          // how often it came back: after it was sent, or because it lost its turn

	facts  *facts // from begun on
	upload *upload

	fence      uint64 // of the sender's turn; 0: not ordered, or not reached
	cost       cost
	asker      Asker
	traceID    string               // of its request; empty: not recorded
	risk       *limit.NonceRisk     // that the network refuses it for its nonce
	submission consensus.Submission // as it was offered last
	standing   lock.Standing        // of its nonce, when it was sent
	ahead      *ahead               // the network refused it so, and it waits once more; nil: it did not
	doubtful   []Pending            // its former submissions that vanished, as far as their nodes know
}

// stage is how far a transaction is on its way. The package comment has the table of its changes.
type stage uint32

const (
	entered   stage = iota // it has its place, or waits for it at its gate
	begun                  // its look-ups are under way
	waiting                // it waits for its turn
	granted                // it has the turn
	following              // a node has it, or may have it
	over                   // it has its Result
	left                   // its place was given up before anything began
	stages
)

// changes are the stages that may follow each.
var changes = [stages][]stage{
	entered:   {begun, left},
	begun:     {waiting, over, left},
	waiting:   {granted, waiting, over},
	granted:   {waiting, following, over},
	following: {waiting, over},
}

func (s stage) String() string {
	return [stages]string{"entered", "begun", "waiting", "granted", "following", "over", "left"}[s]
}

// become changes the stage. It returns false, and changes nothing, if the table forbids that.
func (e *Entry) become(to stage) bool {
	for {
		from := stage(e.stage.Load())
		if from == over || from == left {
			return false
		}
		if wrong := e.check(from, to); wrong != nil {
			e.s.noteWrongStage(wrong)
			return false
		}
		if e.stage.CompareAndSwap(uint32(from), uint32(to)) {
			return true
		}
	}
}

// check returns what is wrong with an entry that changes its stage, or nil.
func (e *Entry) check(from, to stage) error {
	var wrong []error
	must := func(holds bool, rule string) {
		if !holds {
			wrong = append(wrong, fmt.Errorf("%s: from %s to %s", rule, from, to))
		}
	}
	must(slices.Contains(changes[from], to), "a transaction goes on as the table says")
	must(e.facts != nil || to == begun || to == left || to == over, "what goes on has its look-ups")
	must((e.gate != nil) == (e.way == gated), "who is gated has a gate, and nobody else")
	must(e.way != direct || e.ticket != nil, "who is in line has a ticket")
	must(e.way != unordered || e.ticket == nil, "who is not ordered is in no line")
	must(to != following || e.submission.Ethereum != nil, "what a node may have was offered")
	must(e.returns == 0 || e.returned, "who came back waits once more")
	return errors.Join(wrong...)
}

// noteWrongStage notes an entry that went where it must not, which is a bug of this package. Tests look for it.
func (s *Submitter) noteWrongStage(wrong error) {
	if s.wrongStage.CompareAndSwap(nil, &wrong) {
		s.log.Error("a transaction has come into a state that the table does not allow", "error", wrong)
	}
}

// way is how a transaction comes to its ticket. It is fixed when the transaction enters.
type way uint8

const (
	unordered way = iota // its sender's transactions are not ordered: it needs none
	direct               // it got its ticket when it entered
	gated                // it gets its ticket when its gate opens
)

// What the client has been told while the transaction goes on. The answer is given once.
const (
	answerNone    uint32 = iota
	answerHash           // the hash: a node has the transaction
	answerPromise        // the hash, before a node has the transaction; other relays know of it
	answerDoubt          // that the outcome is not known: the client may send the transaction again
)

// promised tells whether the client has got the hash, and was not told of any doubt.
func (e *Entry) promised() bool {
	answer := e.answer.Load()
	return answer == answerHash || answer == answerPromise
}

// noteAnswer notes what the client is told, and returns whether it has been told nothing before.
func (e *Entry) noteAnswer(answer uint32) bool { return e.answer.CompareAndSwap(answerNone, answer) }

// ahead is a transaction that was sent before the ones that it follows had come, and that the network refused.
type ahead struct {
	until time.Time // when it waits no longer
	then  Result    // what it ends with then
}

// patience is how much longer the transaction may wait for its predecessor.
func (e *Entry) patience() time.Duration {
	left := e.remaining()
	if e.ahead != nil {
		left = min(left, time.Until(e.ahead.until))
	}
	return left
}

// remaining is how much longer the transaction may be kept for its predecessor.
func (e *Entry) remaining() time.Duration {
	limit := e.s.ordering.Recovery.Duration()
	if e.promised() {
		limit = max(limit, e.s.ordering.Promise.Duration())
	}
	return limit - time.Since(e.arrived)
}
