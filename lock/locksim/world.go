package locksim

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/lock"
)

// world is one simulation: relays, their Redis, what is between them, and what happened.
type world struct {
	scenario Scenario
	server   *server
	start    time.Time
	relays   []*relay

	background sync.WaitGroup // what a relay's connections consist of
	clients    sync.WaitGroup

	mu       sync.Mutex // guards all below
	counts   map[string]int
	sinceBad map[string]int // calls of a lane since one of them was lost
	sent     []*Transaction // in the order in which their bytes left
	steps    int            // what happened so far, for what happens in the same instant
	out      reach          // of Redis for all
	waits    int            // clients that have no answer yet
	unsound  error          // the first lane that was not sound after a step

	// With a window only:

	turns  []*Turn           // in the order in which they came
	latest map[uint64]Moment // when the claim of its relay first spoke for a nonce that waits
	given  map[uint64]Moment // when Redis gave a turn, by its fence
	chains [2]ledger         // what the network has of each sender
}

// reach says what becomes of what a relay sends to Redis.
type reach int

const (
	reachable reach = iota
	refused         // its connections end at once
	silent          // nothing comes back
)

// relay is a process: the lock itself, and its ways to the world.
type relay struct {
	w      *world
	number int
	svc    *lock.Service
	cancel context.CancelFunc
	ended  chan struct{}
	checks atomic.Int32 // clients inside Check

	mu      sync.Mutex // guards all below
	dead    bool
	cutOff  reach
	stopped bool
	waiting []chan struct{} // goroutines that stand still
	timers  []chan struct{} // likewise: those that have a lane in hand
}

// stand holds up a goroutine of a process that is stopped: its network and its clients pass it.
func (r *relay) stand() { r.hold(&r.waiting, nil) }

// hold returns early when its caller is not wanted any more.
func (r *relay) hold(list *[]chan struct{}, unwanted <-chan struct{}) {
	for {
		r.mu.Lock()
		if !r.stopped {
			r.mu.Unlock()
			return
		}
		wake := make(chan struct{})
		*list = append(*list, wake)
		r.mu.Unlock()
		select {
		case <-wake:
		case <-unwanted:
			return
		}
	}
}

// now is the clock that the lock sees. Nobody gets past it while the process is stopped; the only one who asks
// with a lane in hand, when nothing reaches a process but its timers, is the timer of the lane.
func (r *relay) now() time.Duration {
	if r.isStopped() {
		if byTimer() {
			r.hold(&r.timers, nil)
		} else {
			r.hold(&r.waiting, nil)
		}
	}
	return time.Since(r.w.start)
}

func byTimer() bool {
	var callers [6]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, ".onTimer") {
			return true
		}
		if !more {
			return false
		}
	}
}

func (r *relay) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// resume lets a stopped process go on: the timers of its lanes, and then what else waited, one after the other, in
// an order that the seed decides.
func (r *relay) resume(random *rand.Rand) {
	r.mu.Lock()
	timers, waiting := r.timers, r.waiting
	r.stopped, r.timers, r.waiting = false, nil, nil
	r.mu.Unlock()
	for _, wake := range timers {
		close(wake)
	}
	random.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
	for _, wake := range waiting {
		<-time.After(1)
		close(wake)
	}
}

func (r *relay) isDead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead
}

func (r *relay) isStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

func (r *relay) kill() {
	r.mu.Lock()
	r.dead = true
	r.mu.Unlock()
	r.w.server.hangUp(r)
	r.cancel()
}

func (r *relay) reach() reach {
	r.mu.Lock()
	cutOff, dead := r.cutOff, r.dead
	r.mu.Unlock()
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	switch {
	case dead:
		return silent
	case cutOff != reachable:
		return cutOff
	}
	return r.w.out
}

func (w *world) startRelay(ctx context.Context) error {
	r := &relay{w: w, number: len(w.relays), ended: make(chan struct{})}
	client := r.client()
	svc, err := lock.New(w.scenario.config(), lock.Deps{Redis: client, Clock: r.now})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	r.svc, r.cancel = svc, cancel
	w.mu.Lock()
	w.relays = append(w.relays, r)
	w.mu.Unlock()
	go func() {
		defer close(r.ended)
		_ = svc.Run(ctx) // it has no error but nil
		_ = client.Close()
	}()
	return nil
}

type loss int

const (
	delivered loss = iota
	lostRequest
	lostReply
	cutReply
)

// fate is what becomes of one call or message.
type fate struct {
	there, back time.Duration
	loss        loss
	twice       bool
}

// fate draws it.
func (w *world) fate(r *relay, words []string) fate {
	kind, lane := words[0], ""
	if strings.HasPrefix(kind, "eval") {
		if kind = "beat"; strings.Contains(words[3], "{") {
			lane = fmt.Sprint(r.number, words[3])
			kind = fmt.Sprint(words[3], len(words))
		}
	}
	name := fmt.Sprint(r.number, " ", kind)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[name]++
	random := w.scenario.random(name, w.counts[name])
	net := w.scenario.Network
	f := fate{there: net.delay(random), back: net.delay(random)}
	if lane == "" {
		return f
	}
	f.twice = random.Float64() < net.Twice
	// Lost now and then, not again and again: then the lane would be right to go on alone.
	const spared = 4
	if w.sinceBad[lane]++; w.sinceBad[lane] > spared && random.Float64() < net.Loss {
		f.loss = []loss{lostRequest, lostReply, cutReply}[random.IntN(3)]
		w.sinceBad[lane] = 0
	}
	return f
}

// random is the source of chance for the n-th event of a name.
func (p Scenario) random(name string, n int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, name, " ", n)
	return rand.New(rand.NewPCG(p.Seed, h.Sum64())) //nolint:gosec // it has to repeat
}

func (w *world) now() time.Duration { return time.Since(w.start) }

// step numbers what happens, so that what happens in one instant has an order.
func (w *world) step() int {
	w.steps++
	return w.steps
}

// claimed notes the transactions that a relay's claim of that time speaks for: those that waited there then.
func (w *world) claimed(r *relay, at time.Duration, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.scenario.Transactions {
		if t.Relay != r.number || !t.Waits.ever() || t.Waits.At > at || !strings.Contains(key, strings.ToLower(address(t.Sender).Hex())) {
			continue
		}
		now := w.moment()
		t.Joined = t.Joined.orEver(now)
		if _, known := w.latest[t.Nonce]; !known {
			w.latest[t.Nonce] = now
		}
	}
}

// moment is now; w.mu is held.
func (w *world) moment() Moment { return Moment{w.now(), w.step()} }

func (w *world) note(m *Moment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*m = w.moment()
}

func address(sender int) common.Address { return common.BytesToAddress([]byte{0xaa, byte(sender)}) }

// run is a transaction's whole life at its relay.
func (w *world) run(ctx context.Context, t *Transaction) {
	<-time.After(t.At)
	w.mu.Lock()
	r := w.relays[t.Relay]
	w.mu.Unlock()
	r.stand()
	if r.isDead() {
		return
	}
	w.mu.Lock()
	w.waits++
	t.Entered = w.moment()
	t.Waits = t.Entered
	w.mu.Unlock()
	ticket, err := r.svc.Enter(address(t.Sender), t.Nonce)
	if err != nil {
		w.finish(t, err)
		return
	}
	w.inspect(r)
	if w.scenario.Window > 0 {
		w.follow(ctx, r, t, ticket)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.Leaves > 0 {
		quit := time.AfterFunc(t.Leaves, func() {
			r.stand()
			w.note(&t.Left)
			cancel()
		})
		defer quit.Stop()
	}
	lease, err := ticket.Wait(ctx)
	if err != nil {
		w.finish(t, err)
		return
	}
	w.mu.Lock()
	t.Granted, t.Fence, t.Strategy, t.Waits = w.moment(), lease.Turn().Fence, lease.Turn().Strategy, Moment{}
	w.mu.Unlock()
	w.inspect(r)
	<-time.After(t.Thinks)
	r.stand()
	r.checks.Add(1)
	err = lease.Check()
	r.checks.Add(-1)
	if err == nil && !r.isDead() { // the bytes leave with the check
		w.mu.Lock()
		t.Sent = w.moment()
		w.sent = append(w.sent, t)
		w.mu.Unlock()
		<-time.After(t.Holds)
		r.stand()
	}
	w.note(&t.Released)
	lease.Release()
	w.inspect(r)
	w.finish(t, err)
}

// inspect checks whether the lanes of a relay are sound. While the relay stands still, the timer of a lane may have it
// in hand.
func (w *world) inspect(r *relay) {
	if r.isStopped() {
		return
	}
	if err := r.svc.CheckLanes(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.unsound == nil {
			w.unsound = fmt.Errorf("%v: relay %d: %w", w.now(), r.number, err)
		}
	}
}

func (w *world) finish(t *Transaction, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Err, t.Over, t.Waits = err, w.moment(), Moment{}
	w.waits--
}

func (w *world) waitsAny() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waits > 0
}

// happen makes one fault come true.
func (w *world) happen(ctx context.Context, f *Fault) {
	random := w.scenario.random("fault", int(f.At))
	switch r := w.relays[min(f.Relay, len(w.relays)-1)]; f.Kind {
	case Crash:
		r.kill()
		r.resume(random)
	case Stop:
		r.stop()
	case Resume:
		if r.isStopped() {
			r.resume(random)
		}
	case HangUp:
		w.server.hangUp(r)
	case CutOff:
		r.mu.Lock()
		r.cutOff = f.Reach
		r.mu.Unlock()
		if f.Reach == refused {
			w.server.hangUp(r)
		}
	case Outage:
		w.mu.Lock()
		w.out = f.Reach
		w.mu.Unlock()
		if f.Reach == refused {
			w.server.hangUp(nil)
		}
	case Failover:
		w.server.lose(f.Lost, f.Skew)
	case Jump:
		w.server.jump(f.Skew)
	case Memory:
		w.server.setFull(f.Full)
	case Join:
		if err := w.startRelay(ctx); err != nil {
			panic(err) // the settings were good for the others
		}
	}
	w.note(&f.Came)
	for _, r := range w.relays {
		w.inspect(r)
	}
}

// patience is for how long after the last fault everybody must have an answer, and Redis be clean.
const patience = 60 * time.Second

// live runs the simulation. It must be called in a bubble of synctest.
func (w *world) live(ctx context.Context) error {
	w.start = time.Now()
	w.server = newServer(w)
	defer w.server.lua.close()
	for range w.scenario.Relays {
		if err := w.startRelay(ctx); err != nil {
			return err
		}
	}
	for _, t := range w.scenario.Transactions {
		w.clients.Go(func() { w.run(ctx, t) })
	}
	for _, f := range w.scenario.Faults {
		<-time.After(f.At - w.now())
		synctest.Wait()
		// Nobody stands still within a check: it would hold what others need to stand still.
		for f.Kind == Stop && w.relays[f.Relay].checks.Load() > 0 {
			<-time.After(time.Millisecond + time.Nanosecond)
			synctest.Wait()
		}
		w.happen(ctx, f)
	}
	end := max(w.scenario.End(), w.now()) + patience
	var left []string
	for w.now() < end {
		<-time.After(250 * time.Millisecond)
		synctest.Wait()
		if left = w.server.left(); !w.waitsAny() && (len(left) == 0 || w.scenario.litters()) && w.now() > w.scenario.End() {
			break
		}
	}
	var err error
	if w.waitsAny() {
		err = fmt.Errorf("%d transactions have no answer %v after the last fault", w.waits, patience)
	} else if len(left) > 0 && !w.scenario.litters() {
		err = fmt.Errorf("nobody waits, and Redis still has %v", left)
	}
	for _, r := range w.relays {
		r.cancel()
	}
	for _, r := range w.relays {
		<-r.ended
	}
	w.clients.Wait()
	w.server.hangUp(nil)
	w.background.Wait()
	return err
}
