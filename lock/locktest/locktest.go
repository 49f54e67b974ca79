// Package locktest is the contract of package lock as a test: what every way of keeping
// the order must do, whether it is one process, several on one Redis server, or several
// on a Redis Cluster.
//
// # Words
//
//	harness    one way of keeping the order: how it is started and looked into
//	bench      the services and the sender of one test
//	leftovers  what is still in the store when nobody uses it
package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/envx"
	"lockstep/lock"
)

// Harness is one way of keeping the order.
type Harness struct {
	// Processes is how many services share the order: 1 without Redis.
	Processes int
	// Start makes a running service. It is stopped, and whatever it needs closed, by stop, which waits.
	Start func(t *testing.T, cfg lock.Config) (svc *lock.Service, stop func())
	// Queued returns how many places a sender's queue has, in all processes.
	Queued func(t *testing.T, sender common.Address) int
	// Check returns what is wrong inside a service, or nil. It is asked after each step.
	Check func(svc *lock.Service) error
	// Leftovers names what must not be left behind when nobody uses a lane any more.
	Leftovers func(t *testing.T) []string
}

// patience is for a machine that stands still at times; what passes, passes at once.
const patience = 2 * time.Minute

// Exercise runs the whole contract. That no goroutine is left behind is for the caller to
// check once all its tests are done, since tests may run side by side.
func Exercise(t *testing.T, h Harness) {
	for name, f := range map[string]func(*testing.T, *bench){
		"MutualExclusion":          testMutualExclusion,
		"OrderOfArrival":           testOrderOfArrival,
		"SendersAreIndependent":    testSendersAreIndependent,
		"FreshHold":                testFreshHold,
		"ReleaseByOthers":          testReleaseByOthers,
		"CancelWhileQueued":        testCancelWhileQueued,
		"LeaveAtAnyTime":           testLeaveAtAnyTime,
		"QueueFull":                testQueueFull,
		"Window":                   testGapHold,
		"GapHoldOnFreshLane":       testGapHoldOnFreshLane,
		"GapHoldWindowEnds":        testGapHoldWindowEnds,
		"GapHoldWindowsEndInOrder": testGapHoldWindowsEndInOrder,
		"GapHoldIsForThoseAhead":   testGapHoldIsForThoseAhead,
		"NextGoesFirst":            testNextGoesFirst,
		"NextGoesFirstOnce":        testNextGoesFirstOnce,
		"NextGoesFirstReverse":     testNextGoesFirstInReverse,
		"ExpectedIsCarried":        testExpectedIsCarried,
		"FailureStopsTheRest":      testFailureStopsTheRest,
		"MemoryEnds":               testMemoryEnds,
		"LostTurnForgets":          testLostTurnForgets,
		"UnknownOutcomeForgets":    testUnknownOutcomeForgets,
		"Invalidate":               testInvalidate,
		"ForceRelease":             testForceRelease,
		"StopEndsAll":              testStopEndsAll,
		"Panic":                    testPanic,
	} {
		t.Run(name, func(t *testing.T) { run(t, h, f) })
	}
}

// bench is one test's services and sender.
type bench struct {
	h      Harness
	t      *testing.T
	sender common.Address
	limit  time.Duration // of a turn
	svcs   []*lock.Service
	stops  []func()
}

var senders atomic.Uint64

func run(t *testing.T, h Harness, f func(*testing.T, *bench)) {
	b := &bench{h: h, t: t, sender: newSender()}
	t.Cleanup(b.stop)
	f(t, b)
	if t.Failed() {
		return
	}
	if h.Leftovers != nil {
		b.eventually("nothing is left behind", func() error {
			if left := h.Leftovers(t); len(left) > 0 {
				return fmt.Errorf("left behind: %v", left)
			}
			return nil
		})
	}
	b.stop()
}

func newSender() common.Address {
	n := senders.Add(1)
	return common.BytesToAddress([]byte{0xAB, byte(n >> 8), byte(n)})
}

func (b *bench) stop() {
	for _, stop := range b.stops {
		stop()
	}
	b.svcs, b.stops = nil, nil
}

// inTime tries what a slow machine may miss, until it is fast enough for a limit that doubles. Each try has
// services and a sender of its own, and returns whether it was in time.
func (b *bench) inTime(limit time.Duration, try func(limit time.Duration) bool) {
	b.t.Helper()
	for ; !try(limit) && !b.t.Failed(); limit *= 2 {
		if limit > patience {
			b.t.Fatalf("the machine is too slow for a limit of %v", limit)
		}
		b.stop()
		b.sender = newSender()
	}
}

// start makes the services with some settings changed.
func (b *bench) start(change func(*lock.Config)) {
	b.t.Helper()
	cfg := lock.DefaultConfig()
	cfg.HeartbeatInterval = ms(200)
	cfg.Window = 0 // the order of arrival
	// However slow the machine is, nothing ends by itself: death and the loss of Redis have tests of their own.
	cfg.HeartbeatMissed, cfg.RedisTimeout = 1000, ms(60_000)
	cfg.MaxHold, cfg.Memory = ms(hour), ms(hour)
	if change != nil {
		change(&cfg)
	}
	b.limit = cfg.MaxHold.Duration()
	for range b.h.Processes {
		svc, stop := b.h.Start(b.t, cfg)
		b.svcs = append(b.svcs, svc)
		b.stops = append(b.stops, stop)
	}
}

// hour is a limit that no test reaches, in milliseconds.
const hour = 3_600_000

func ms(n int) envx.Millis { return envx.Millis(time.Duration(n) * time.Millisecond) }

// on returns the service that is to take the i-th ticket.
func (b *bench) on(i int) *lock.Service { return b.svcs[i%len(b.svcs)] }

// enter draws a ticket of the i-th service and waits until its place is known to all, or
// its turn has come: the holder's time may be up meanwhile, and its own as well.
func (b *bench) enter(i int, nonce uint64) *lock.Ticket {
	b.t.Helper()
	queued, before, begun := b.queued(), b.holder(), time.Now()
	ticket, err := b.on(i).Enter(b.sender, nonce)
	if err != nil {
		b.t.Fatal(err)
	}
	b.eventually("a place is taken", func() error {
		holder := b.holder()
		its := holder.Fence > before.Fence && holder.Nonce == nonce
		if n := b.queued(); n <= queued && !its && time.Since(begun) < b.limit {
			return fmt.Errorf("%d places, before it were %d; the turn is %d's", n, queued, holder.Nonce)
		}
		return nil
	})
	b.check()
	return ticket
}

// check demands that all services are sound.
func (b *bench) check() {
	b.t.Helper()
	for _, svc := range b.svcs {
		if err := b.h.Check(svc); err != nil {
			b.t.Error(err)
		}
	}
}

// places waits until so many places are taken, without that of the holder.
func (b *bench) places(want int) {
	b.t.Helper()
	b.eventually("places are taken", func() error {
		if n := b.queued(); n != want {
			return fmt.Errorf("%d places, want %d", n, want)
		}
		return nil
	})
}

func (b *bench) queued() int { return b.h.Queued(b.t, b.sender) }

// holder returns the sender's lane in the service that has the turn.
func (b *bench) holder() (holder lock.LaneInfo) {
	for _, svc := range b.svcs {
		for _, l := range svc.Lanes() {
			if l.Sender == b.sender && l.Held && l.Fence > holder.Fence {
				holder = l
			}
		}
	}
	return holder
}

func (b *bench) wait(ticket *lock.Ticket) *lock.Lease {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	lease, err := ticket.Wait(ctx)
	if err != nil {
		b.t.Fatalf("nonce %d: %v", ticket.Nonce(), err)
	}
	b.check()
	return lease
}

// waitInTime returns nil if the turn was over before anybody could see it.
func (b *bench) waitInTime(ticket *lock.Ticket) *lock.Lease {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	lease, err := ticket.Wait(ctx)
	if err != nil && !isLost(err) {
		b.t.Fatalf("nonce %d: %v", ticket.Nonce(), err)
	}
	return lease
}

// ended waits until the context of a turn has ended.
func (b *bench) ended(ctx context.Context) {
	b.t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(patience):
		b.t.Fatal("the holder never learned that it had lost its turn")
	}
}

func (b *bench) eventually(what string, f func() error) {
	b.t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); ; <-ticker.C {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: %v", what, err)
		}
	}
}

// order waits for all tickets at once and returns their nonces in order of their turns.
// Each turn is checked to be the only one, and its fence to be higher than the last.
func (b *bench) order(tickets []*lock.Ticket, during func(*lock.Lease, uint64)) []uint64 {
	b.t.Helper()
	var (
		mu    sync.Mutex
		order []uint64
		fence uint64
		alone atomic.Int32
		wg    sync.WaitGroup
	)
	for _, ticket := range tickets {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(b.t.Context(), patience)
			defer cancel()
			lease, err := ticket.Wait(ctx)
			if err != nil {
				b.t.Errorf("nonce %d: %v", ticket.Nonce(), err)
				return
			}
			defer lease.Release()
			if alone.Add(1) != 1 {
				b.t.Errorf("nonce %d: two turns at once", ticket.Nonce())
			}
			defer alone.Add(-1)
			if err := lease.Check(); err != nil {
				b.t.Errorf("nonce %d: %v", ticket.Nonce(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, ticket.Nonce())
			if lease.Turn().Fence <= fence {
				b.t.Errorf("nonce %d: fence %d after %d", ticket.Nonce(), lease.Turn().Fence, fence)
			}
			fence = lease.Turn().Fence
			b.check()
			if during != nil {
				during(lease, ticket.Nonce())
			}
		})
	}
	wg.Wait()
	return order
}

func count(from, n uint64) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = from + uint64(i)
	}
	return out
}

func (b *bench) wantOrder(got, want []uint64) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Fatalf("order %v, want %v", got, want)
	}
}

// wantArrivals is wantOrder for tickets that enter drew in turn in all processes: between those, arrival decides only up to what a call
// to Redis takes.
func (b *bench) wantArrivals(got, want []uint64) {
	b.t.Helper()
	for p := range b.svcs {
		other := func(nonce uint64) bool { return nonce%uint64(len(b.svcs)) != uint64(p) }
		b.wantOrder(slices.DeleteFunc(slices.Clone(got), other), slices.DeleteFunc(slices.Clone(want), other))
	}
}

// shows is a fresh look at the mirror node, which shows that nonce.
func shows(nonce uint64) lock.Known {
	return lock.Known{Shown: nonce, Looked: true, Fresh: true, Fleet: true}
}

// advance reports that a node has the holder's transaction, which was next.
func advance(lease *lock.Lease, nonce uint64) { _ = accept(lease, nonce) }

func accept(lease *lock.Lease, nonce uint64) *lock.Submitted {
	lease.Next(shows(nonce))
	return lease.Report(lock.Report{Submission: lock.Submission{Node: "0.0.3", TxID: fmt.Sprintf("0.0.2@1.%d", nonce), Open: true}})
}

// expected is what the lane itself knows of the next nonce.
func expected(lease *lock.Lease) (nonce uint64, known bool) {
	n := lease.Next(lock.Known{})
	return n.Nonce, n.Certainty != lock.Unknown
}

func certain(lease *lock.Lease) bool { return lease.Next(lock.Known{}).Certainty == lock.Chained }

func last(lease *lock.Lease) (lock.Submission, bool) {
	n := lease.Next(lock.Known{})
	return n.Predecessor, n.Predecessor != lock.Submission{}
}

func isLost(err error) bool { return errors.Is(err, lock.ErrLost) }
