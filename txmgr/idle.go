package txmgr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/internal/sleep"
)

// idlePrefixes begin the words of Intent.Waiting that say why no signer takes an intent.
var idlePrefixes = []string{"halted: ", "paused: ", "draining: ", "killed: ", "locked: ", "low_balance: ", "absent: ", FundsPrefix}

// maxIdle bounds these words, so that the ledger stores them as they are.
const maxIdle = 300

// lasting says why a lane gets no new intents until somebody changes that: an operator, a caller, or who sends it money. "" means that it
// gets some, or that its trouble may end by itself: that comes and goes, and would change all waiting intents each time.
func lasting(lane *Lane, kills map[string]string) string {
	switch {
	case lane.Absent:
		return "absent: no process that runs has its key"
	case lane.Halted != "":
		return "halted: " + lane.Halted
	case LaneKilled(kills, lane.Chain, lane.Signer):
		return "killed: the kill switch is on"
	case !lane.Enabled:
		return "paused: " + lane.PausedReason
	case lane.Draining:
		return "draining: its signer gets no new intents"
	case lane.Locked:
		return "locked: a caller has its signer alone"
	case lane.MinBalance != nil && lane.MinBalance.Sign() > 0 && (lane.Balance == nil || lane.Balance.Cmp(lane.MinBalance) < 0):
		return "low_balance: its signer holds less than " + lane.MinBalance.String()
	default:
		return ""
	}
}

// idle says why no lane takes an intent, if none does for a lasting reason; else it is "".
func idle(q *Queued, lanes []*Lane, kills map[string]string, unit Unit) string {
	if kills[PoolScope(q.Chain, q.Pool)] != "" {
		return "killed: the kill switch of its pool is on"
	}
	var reasons []string
	var serving []*Lane
	for _, lane := range lanes {
		if !lane.Ours || !eligiblePool(lane, q.Intent) {
			continue
		}
		why := lasting(lane, kills)
		if why == "" {
			serving = append(serving, lane)
		} else if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
	}
	if len(serving) > 0 {
		return poor(q, serving, unit)
	}
	slices.Sort(reasons)
	return short(strings.Join(reasons, "; "))
}

func short(text string) string {
	if len(text) > maxIdle {
		text = text[:maxIdle]
	}
	return strings.ToValidUTF8(text, "")
}

// explain adds to waiting what is new about why no lane takes the intents of a queue: a reason, or that there is none any more.
// An intent whose words are right already is not added, so that nothing is written in a round that changes nothing.
func explain(waiting map[string]string, queue []*Queued, lanes []*Lane, kills map[string]string, unit Unit) {
	for _, q := range queue {
		if _, told := waiting[q.ID]; told || q.Behind == blocked {
			continue
		}
		why := idle(q, lanes, kills, unit)
		own := slices.ContainsFunc(idlePrefixes, func(prefix string) bool { return strings.HasPrefix(q.Waiting, prefix) })
		if why != q.Waiting && (why != "" || own) {
			waiting[q.ID] = why
		}
	}
}

// idleEvery is how often a lane that may sign nothing looks at the intents that wait: there may be thousands.
const idleEvery = time.Second

// tellIdle does for a lane that may sign nothing what assign does otherwise: it ends intents that may not be executed any more, and
// notes why the others wait, its own ones that are not signed, and those of the queue. Where another lane of the chain works, the
// owner of that one sees to the queue; among lanes that do not, one does it for all.
func (w *worker) tellIdle(ctx context.Context, line *Line) error {
	if !line.Lane.Ours || !w.lease.Trusted(w.m.c.SendTimeout.Duration()) || time.Since(w.toldIdle) < idleEvery {
		return nil
	}
	w.toldIdle = time.Now()
	kills, err := w.m.store.Kills(ctx)
	if err != nil {
		return err
	}
	lanes, err := w.m.store.Lanes(ctx, w.c.ID())
	if err != nil {
		return err
	}
	if err := w.tellOwn(ctx, line, short(lasting(line.Lane, kills))); err != nil {
		return err
	}
	first := ""
	for _, lane := range lanes {
		switch {
		case !lane.Ours || lane.Owner == "":
		case lane.Halted == "" && !lane.Absent && !LaneKilled(kills, lane.Chain, lane.Signer):
			return nil // its owner comes to assign
		case first == "" || lane.Signer < first:
			first = lane.Signer
		}
	}
	if first != w.signer {
		return nil
	}
	for range queuePages {
		queue, err := w.m.store.Queue(ctx, w.c.ID(), w.idleAt, queuePage, w.m.c.OrderByConfirmed)
		if err != nil {
			return err
		}
		var left []*Queued
		for _, q := range queue {
			ended, err := w.endQueued(ctx, q, line.Now)
			if err != nil {
				return err
			}
			if !ended {
				left = append(left, q)
			}
		}
		waiting := map[string]string{}
		explain(waiting, left, lanes, kills, w.c.Traits().Unit)
		if err := w.note(ctx, waiting); err != nil {
			return err
		}
		if len(queue) < queuePage {
			w.idleAt = 0
			return nil
		}
		w.idleAt = queue[len(queue)-1].Seq
	}
	return nil
}

// tellOwn is tellIdle for the intents that have a nonce of the lane and no signature.
func (w *worker) tellOwn(ctx context.Context, line *Line, why string) error {
	waiting := map[string]string{}
	for _, slot := range line.Slots {
		for _, i := range slot.Intents {
			switch {
			case i.Status != StatusAssigned:
			case over(i, line.Now):
				if err := w.tooLate(ctx, i); err != nil && !errors.Is(err, ErrStale) {
					return err
				}
			case line.Lane.Absent: // nobody signs it; another signer may
				if err := w.m.store.Release(ctx, w.lease.Fence(), i.ID, why); err != nil && !errors.Is(err, ErrStale) {
					return err
				}
			case why != "" && i.Waiting != why: // its signature takes the words back
				waiting[i.ID] = why
			}
		}
	}
	return w.note(ctx, waiting)
}

// waker tells any number of waiters that something changed. It carries nothing: who is
// woken reads the ledger.
type waker struct {
	mu   sync.Mutex
	done chan struct{}
}

func newWaker() *waker { return &waker{done: make(chan struct{})} }

// next returns a channel that is closed at the next wake. A caller takes it before it reads.
func (w *waker) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.done)
	w.done = make(chan struct{})
}

// Waker carries hints between processes: something was accepted on a chain. A hint may be
// lost; the poll finds what nobody was told of.
type Waker interface {
	Tell(ctx context.Context, word string) error
	// Listen calls heard for every word until ctx ends. "" says that words may have been lost.
	Listen(ctx context.Context, heard func(word string))
}

// tellPause is the time in which hints become one.
const tellPause = 10 * time.Millisecond

// owners is how those of one chain are told that there may be something to do.
type owners struct {
	*waker               // here
	others chan struct{} // in other processes: there is a hint to send
}

func newOwners() *owners { return &owners{newWaker(), make(chan struct{}, 1)} }

// wakeHere wakes the owners of a chain in this process. The ledger may know chains that have left the settings.
func (m *Manager) wakeHere(chain string) {
	if o := m.owners[chain]; o != nil {
		o.wake()
	}
}

// wakeAll wakes those of every chain.
func (m *Manager) wakeAll() {
	for _, o := range m.owners {
		o.wake()
	}
}

// rouse wakes the owners of a chain in every process.
func (m *Manager) rouse(chain string) {
	m.wakeHere(chain)
	if o := m.owners[chain]; o != nil {
		select {
		case o.others <- struct{}{}:
		default: // a hint is on its way
		}
	}
}

// wakeOthers hands the hints of a chain to the other processes until ctx ends.
func (m *Manager) wakeOthers(ctx context.Context, chain string) error {
	for m.waker != nil {
		select {
		case <-m.owners[chain].others:
		case <-ctx.Done():
			return nil
		}
		// A hint that is lost costs a poll's time; whoever is down finds out elsewhere.
		_ = m.waker.Tell(ctx, chain+" "+m.leases.Owner())
		if !sleep.For(ctx, tellPause) {
			return nil
		}
	}
	return nil
}

// listen wakes the owners here when another process says so.
func (m *Manager) listen(ctx context.Context) error {
	if m.waker == nil {
		return nil
	}
	m.waker.Listen(ctx, func(word string) {
		chain, teller, _ := strings.Cut(word, " ")
		switch {
		case word == "":
			m.wakeAll()
			m.news.wake()
		case teller != m.leases.Owner():
			m.wakeHere(chain)
			m.news.wake()
		}
	})
	return nil
}
