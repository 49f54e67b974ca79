package txmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
)

// worker is the owner of one lane for one term. Its goroutine alone touches the fields
// below the line. It holds no state that the ledger needs: a round reads all it works on.
type worker struct {
	m      *Manager
	c      Chain
	signer string
	lease  *lease.Lease
	log    *slog.Logger
	pace   *pace

	done    chan struct{}
	leaving atomic.Bool

	idleSince time.Time // since when nothing was on its way; of shareLanes alone

	// ---
	offered    map[string]bool // hashes that may have left and whose answer is not stored
	since      int64           // the first time of the database that this term has seen
	reconciled time.Time       // when the chain was last compared; zero: not in this term
	suspicious bool            // a nonce error was seen since
	followed   time.Time
	succeeded  time.Time         // when a success was last observed; zero after a failure
	kills      map[string]string // the kill switches of this round
	missing    missing
	spent      *big.Int // what proofs may have taken from the balance since it was read
	heads      heading
	back       time.Time // since when the chain seems to have gone back
	toldIdle   time.Time // when tellIdle last looked
	idleAt     int64     // where in the queue it goes on
	deep       int64     // where in the queue assign goes on in every other round; 0: nowhere
	wentDeep   bool      // the last round did
	failing    string    // what the last round failed with
	halted     bool      // the last round found it so
}

// start runs a worker until the context ends, the lease is lost, or it hands over.
func (m *Manager) start(ctx context.Context, c Chain, signer string, l *lease.Lease, group *sync.WaitGroup) *worker {
	w := &worker{
		m: m, c: c, signer: signer, lease: l, pace: m.paces[c.ID()], done: make(chan struct{}), offered: map[string]bool{}, spent: new(big.Int),
		log: m.log.With("chain", c.ID(), "signer", signer, "term", l.Term()),
	}
	group.Go(func() {
		defer close(w.done)
		w.run(ctx)
	})
	return w
}

func (w *worker) finished() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// handOver asks the worker to finish its round and to give the lease back.
func (w *worker) handOver() { w.leaving.Store(true) }

func (w *worker) run(ctx context.Context) {
	w.log.Info("owner of a signer")
	defer w.pace.fails(w.signer, false)
	for ctx.Err() == nil && !w.leaving.Load() {
		woken := w.m.owners[w.c.ID()].next()
		if pause := w.pace.turn(time.Now()); pause > 0 { // nobody's work helps a chain that does not answer
			if !w.rest(ctx, nil, pause) {
				return
			}
			continue
		}
		again, err := w.round(ctx)
		w.report(ctx, err)
		switch {
		case errors.Is(err, ErrDeposed):
			w.log.Warn("another owner has the signer", "error", err)
			return
		case err != nil && ctx.Err() == nil:
			w.suspicious = w.suspicious || isRestored(err) // the next round halts
		case again:
			continue
		}
		if !w.rest(ctx, woken, w.m.c.Poll.Duration()) {
			return
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.m.c.SendTimeout.Duration())
	defer cancel()
	if err := w.lease.Release(last); err != nil {
		w.log.Warn("the lease of a signer was not given back; it will expire", "error", err)
	}
}

// rest waits, and is false when the lease is lost.
func (w *worker) rest(ctx context.Context, woken <-chan struct{}, pause time.Duration) bool {
	select {
	case <-woken:
	case <-time.After(pause):
	case <-w.lease.Lost():
		w.log.Warn("the lease of a signer is lost")
		return false
	case <-ctx.Done():
	}
	return true
}

// report tells of a failure once: of one of the chain once for all of its owners, of another kind once for as long as it is the same.
func (w *worker) report(ctx context.Context, err error) {
	switch {
	case errors.Is(err, ErrDeposed) || ctx.Err() != nil:
		return
	case err == nil:
		if w.pace.well() {
			w.log.Info("the chain answers its owners again")
		} else if w.failing != "" {
			w.log.Info("the rounds of the owner succeed again")
		}
		w.failing = ""
		w.pace.fails(w.signer, w.halted)
		return
	}
	level, text := slog.LevelDebug, err.Error()
	if troubled, ok := w.c.(Troubled); ok && troubled.Trouble() != "" {
		if w.pace.failed(time.Now()) {
			level = slog.LevelWarn
		}
		w.log.Log(ctx, level, "the chain does not answer; one of its owners asks again, a second apart, and the others wait", "error", err)
	} else {
		if text != w.failing && !ledger.IsDown(err) {
			level = slog.LevelWarn
		}
		w.log.Log(ctx, level, "a round of the owner failed; it is tried again", "error", err)
	}
	w.failing = text
	w.pace.fails(w.signer, true)
}

// paceEvery is how far apart the owners of a chain ask while it does not answer.
const paceEvery = time.Second

// pace has the owners of a chain in trouble take turns: where a provider limits its callers, a question of each of them would keep the limit
// from ending.
type pace struct {
	mu    sync.Mutex
	next  time.Time       // of the next turn; zero: nothing is wrong
	stuck map[string]bool // signers whose last round failed, which readiness tells of
}

// fails notes whether the last round of a signer did.
func (p *pace) fails(signer string, now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.stuck, signer); now {
		if p.stuck == nil {
			p.stuck = map[string]bool{}
		}
		p.stuck[signer] = true
	}
}

func (p *pace) failing() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.stuck)
}

// turn returns how long an owner waits for its turn, 0 if it has it.
func (p *pace) turn(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.IsZero() {
		return 0
	}
	if left := p.next.Sub(now); left > 0 {
		return left
	}
	p.next = now.Add(paceEvery)
	return 0
}

// failed notes that the chain does not answer, and reports whether that is new.
func (p *pace) failed(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := p.next.IsZero()
	if fresh {
		p.next = now.Add(paceEvery)
	}
	return fresh
}

// well ends the trouble, and reports whether there was any.
func (p *pace) well() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := !p.next.IsZero()
	p.next = time.Time{}
	return was
}

// round does one step of everything that a lane needs, and reports whether there may be
// more to do at once.
func (w *worker) round(ctx context.Context) (again bool, err error) {
	line, err := w.m.store.Line(ctx, w.c.ID(), w.signer)
	if err != nil {
		return false, err
	}
	w.since = cmp.Or(w.since, line.Now)
	changed, trouble := false, w.reconcile(ctx, line)
	if trouble != nil && w.reconciled.IsZero() { // nothing leaves before the chain is known to be the same
		return false, trouble
	}
	if trouble == nil {
		changed, trouble = w.follow(ctx, line)
	}
	if errors.Is(trouble, ErrDeposed) {
		return false, trouble
	}
	if changed {
		if line, err = w.m.store.Line(ctx, w.c.ID(), w.signer); err != nil {
			return false, err
		}
		if err := w.paid(ctx, line); err != nil {
			return false, err
		}
	}
	// Bytes that have left may leave again whatever is not known beside them.
	if err := errors.Join(trouble, w.resend(ctx, line)); err != nil {
		return false, err
	}
	if err := w.tellStuck(ctx, line); err != nil {
		return false, err
	}
	w.halted = line.Lane.Halted != ""
	if !w.maySign(ctx, line) {
		return changed, w.tellIdle(ctx, line)
	}
	if err := w.unstick(ctx, line); err != nil {
		return false, err
	}
	assigned, err := w.assign(ctx, line)
	if err != nil {
		return false, err
	}
	line.take(assigned)
	if err := w.fill(ctx, line); err != nil {
		return false, err
	}
	sent, err := w.signNew(ctx, line)
	return changed || sent, err
}

// take puts assigned intents into the line, as the ledger now has them.
func (l *Line) take(list []Assignment) {
	for _, a := range list {
		at, found := slices.BinarySearchFunc(l.Slots, a.Slot.Nonce, func(s *LineSlot, nonce uint64) int { return cmp.Compare(s.Nonce, nonce) })
		if !found {
			l.Slots = slices.Insert(l.Slots, at, &LineSlot{})
		}
		l.Slots[at].Slot, l.Slots[at].Intents = a.Slot, []*Intent{a.Intent}
		l.Lane.NextNonce = max(l.Lane.NextNonce, a.Slot.Nonce+1)
	}
}

// maySign reports whether anything may be signed in this round. What is signed already is
// followed in any case.
func (w *worker) maySign(ctx context.Context, line *Line) bool {
	if !w.m.c.Enabled || !line.Lane.Ours || line.Lane.Halted != "" || !line.Lane.Known || w.m.key(w.signer) == nil {
		return false
	}
	if !w.lease.Trusted(w.m.c.SendTimeout.Duration()) {
		return false
	}
	return !w.killed(ctx)
}

// killed reports whether a kill switch covers the lane, also when that cannot be known.
func (w *worker) killed(ctx context.Context) bool {
	kills, err := w.m.store.Kills(ctx)
	w.kills = kills
	return err != nil || LaneKilled(kills, w.c.ID(), w.signer)
}

// An owner looks this far into the queue in one round. Thousands that nobody can serve may stand there, and must not keep those behind
// them: when a round has found nothing the next goes on where it ended, and the one after it begins at the beginning again.
const queuePage, queuePages = 500, 4

// assign gives this lane its part of the queue, and returns it.
func (w *worker) assign(ctx context.Context, line *Line) ([]Assignment, error) {
	if w.mustWait(line) {
		return nil, nil
	}
	after := w.deep
	if w.wentDeep {
		after = 0
	}
	fromTop, ended := after == 0, false
	w.wentDeep = !fromTop
	var mine []Placing
	for range queuePages {
		queue, err := w.m.store.Queue(ctx, w.c.ID(), after, queuePage, w.m.c.OrderByConfirmed)
		if after == 0 && err == nil {
			w.m.metrics.queueDepth.WithLabelValues(w.c.ID()).Set(float64(len(queue)))
		}
		if err != nil {
			return nil, err
		}
		if ended = len(queue) < queuePage; len(queue) == 0 {
			break
		}
		open, waiting, err := w.open(ctx, queue, line.Now)
		if err != nil {
			return nil, err
		}
		lanes, err := w.m.store.Lanes(ctx, w.c.ID())
		if err != nil {
			return nil, err
		}
		explain(waiting, open, lanes, w.kills, w.c.Traits().Unit)
		if err := w.endPoor(ctx, open, waiting, line.Now); err != nil {
			return nil, err
		}
		if err := w.note(ctx, waiting); err != nil {
			return nil, err
		}
		if mine, err = w.deal(ctx, open, lanes); err != nil {
			return nil, err
		}
		if len(mine) > 0 || ended {
			break
		}
		after = queue[len(queue)-1].Seq
	}
	switch {
	case ended:
		w.deep = 0
	case !fromTop || len(mine) == 0 && w.deep == 0:
		w.deep = after
	}
	if len(mine) == 0 {
		return nil, nil
	}
	if w.c.Traits().InLine() {
		mine = mine[:1]
	}
	if w.c.Traits().Dev && time.Since(w.reconciled) > w.m.c.Poll.Duration() { // it may have been set back since
		w.suspicious = true
		if err := w.reconcile(ctx, line); err != nil || line.Lane.Halted != "" {
			return nil, err
		}
	}
	w.m.at(ctx, PointAccepted, w.c.ID(), w.signer)
	done, err := w.m.store.Assign(ctx, w.lease.Fence(), w.c.ID(), w.signer, mine)
	w.m.at(ctx, PointReserved, w.c.ID(), w.signer)
	return done, err
}

// end gives an intent its fate without a transaction in the chain.
func (w *worker) end(ctx context.Context, intent *Intent, status Status, why Failure) error {
	return w.m.store.End(ctx, w.lease.Fence(), intent.ID, status, why)
}

// tooLate ends an intent whose time passed before anything was signed for it.
func (w *worker) tooLate(ctx context.Context, intent *Intent) error {
	why := "validUntil passed before anything was signed"
	if intent.Waiting != "" {
		why += ": " + intent.Waiting
	}
	return w.end(ctx, intent, StatusExpired, Failure{Class: "expired", Message: why})
}

// mustWait reports whether the next nonce of a chain whose transactions leave in line is not to be
// given away yet: an endpoint has not taken all transactions before it.
func (w *worker) mustWait(line *Line) bool {
	if !w.c.Traits().InLine() {
		return false
	}
	for _, slot := range line.Slots {
		switch {
		case slot.Consumed != "" || slot.Final:
		case slot.Holder == HolderFree:
			return false // the lowest free nonce is the next
		case !taken(slot):
			return true
		}
	}
	return false
}

func (w *worker) note(ctx context.Context, waiting map[string]string) error {
	if len(waiting) == 0 {
		return nil
	}
	return w.m.store.Wait(ctx, w.lease.Fence(), waiting)
}

// open returns the intents that may be assigned now. Those that never will be are ended.
func (w *worker) open(ctx context.Context, queue []*Queued, now int64) ([]*Queued, map[string]string, error) {
	market, err := w.m.Fees(ctx, w.c.ID())
	if err != nil {
		return nil, nil, err
	}
	waiting := map[string]string{}
	list := make([]*Queued, 0, len(queue))
	for _, q := range queue {
		ended, err := w.endQueued(ctx, q, now)
		if err != nil {
			return nil, nil, err
		}
		fees, affordable := firstFees(q.Intent, market, w.m.feeCap(w.c.ID()))
		q.cost = MostOf(q.Value, q.Gas, fees.Max)
		switch {
		case ended:
		case !affordable:
			if why := w.m.capped(q.Intent, market.Tips[q.Speed].Max, false); q.Waiting != why {
				waiting[q.ID] = why
			}
			if q.OrderKey != "" {
				q.Behind = blocked
				list = append(list, q)
			}
		default:
			list = append(list, q)
		}
	}
	return list, waiting, nil
}

// endQueued ends an intent of the queue that may not be executed any more, and reports whether it is such a one.
func (w *worker) endQueued(ctx context.Context, q *Queued, now int64) (ended bool, err error) {
	switch {
	case over(q.Intent, now):
		err = w.tooLate(ctx, q.Intent)
	case q.Stop != "":
		err = w.end(ctx, q.Intent, StatusCancelled, Failure{Class: "predecessor", Message: "its predecessor failed: " + q.Stop})
	default:
		return false, nil
	}
	if errors.Is(err, ErrStale) {
		err = nil
	}
	return true, err
}

// deal deals the queue to all usable lanes of the chain and returns this lane's part.
func (w *worker) deal(ctx context.Context, queue []*Queued, lanes []*Lane) ([]Placing, error) {
	var fit []*candidate
	for _, lane := range lanes {
		// A lane without a living owner gets nothing: it would wait for the next owner.
		if w.m.c.usable(lane, w.kills) != "" || lane.Owner == "" {
			continue
		}
		fit = append(fit, &candidate{Lane: lane, room: window(lane, w.c.Traits(), w.m.c.InFlight) - lane.Pending, money: lane.spare()})
	}
	if err := w.restrict(ctx, fit, queue); err != nil {
		return nil, err
	}
	var list []Placing
	for _, q := range plan(queue, fit, w.kills)[w.signer] {
		list = append(list, Placing{Intent: q.ID, Cost: q.cost})
	}
	return list, nil
}

// restrict notes what the keys of lanes may not sign.
func (w *worker) restrict(ctx context.Context, lanes []*candidate, queue []*Queued) error {
	chain, ok := w.c.(Restricted)
	if !ok {
		return nil
	}
	for _, lane := range lanes {
		lane.refused = map[string]bool{}
		for _, q := range queue {
			why, err := chain.MaySign(ctx, lane.Signer, q.call())
			if err != nil {
				return fmt.Errorf("what %s may sign: %w", lane.Signer, err)
			}
			lane.refused[q.ID] = why != ""
		}
	}
	return nil
}
