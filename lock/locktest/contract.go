package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/lock"
)

func testMutualExclusion(t *testing.T, b *bench) {
	b.start(nil)
	const workers, rounds = 8, 25
	var inside, turns atomic.Int32
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				ticket, err := b.on(w).Enter(b.sender, uint64(i))
				if err != nil {
					t.Error(err)
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				lease, err := ticket.Wait(ctx)
				if err != nil {
					cancel()
					t.Error(err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two turns at once")
				}
				turns.Add(1)
				inside.Add(-1)
				lease.Release()
				cancel()
			}
		})
	}
	wg.Wait()
	if turns.Load() != workers*rounds {
		t.Errorf("%d turns, want %d", turns.Load(), workers*rounds)
	}
}

// L2, L4, L21: the order is that in which tickets were drawn and places taken, whoever is
// slow to wait, and no place is there twice.
func testOrderOfArrival(t *testing.T, b *bench) {
	b.start(nil)
	const n = 40
	first := b.enter(0, 100)
	lease := b.wait(first)
	var tickets []*lock.Ticket
	for i := range n {
		tickets = append(tickets, b.enter(i, uint64(i)))
	}
	if got := b.queued(); got != n {
		t.Errorf("%d places for %d tickets", got, n)
	}
	lease.Release()
	b.wantArrivals(b.order(tickets, nil), count(0, n))
	// Joins in one go keep ticket order inside each process, too.
	lease = b.wait(b.enter(0, 100))
	tickets = nil
	for i := range n {
		ticket, err := b.on(0).Enter(b.sender, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	lease.Release()
	b.wantOrder(b.order(tickets, nil), count(0, n))
}

func testSendersAreIndependent(t *testing.T, b *bench) {
	b.start(nil)
	b.wait(b.enter(0, 1))
	for range 3 {
		other, err := b.on(1).Enter(newSender(), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer b.wait(other).Release()
	}
	for _, svc := range b.svcs {
		for _, l := range svc.Lanes() {
			if l.Sender == b.sender && l.Held {
				if _, err := svc.ForceRelease(t.Context(), b.sender); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func testReleaseByOthers(t *testing.T, b *bench) {
	b.start(nil)
	first, second, third := b.enter(0, 1), b.enter(1, 2), b.enter(0, 3)
	a := b.wait(first)
	a.Release()
	c := b.wait(second)
	a.Release()
	first.Leave()
	if err := c.Check(); err != nil {
		t.Errorf("a second release of the first turn ended the second: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := third.Wait(ctx); !errors.Is(err, lock.ErrLeft) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the third got its turn beside the second: %v", err)
	}
	c.Release()
}

// L17: a place that is given up is skipped, and costs nobody a turn.
func testCancelWhileQueued(t *testing.T, b *bench) {
	b.start(nil)
	a := b.wait(b.enter(0, 0))
	var tickets []*lock.Ticket
	for i := range 10 {
		tickets = append(tickets, b.enter(i, uint64(i+1)))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := make(chan error)
	for _, i := range []int{0, 4, 9} {
		go func() {
			_, err := tickets[i].Wait(ctx)
			gone <- err
		}()
	}
	reason := errors.New("the client went away")
	cancel(reason)
	for range 3 {
		if err := <-gone; !errors.Is(err, lock.ErrLeft) || !errors.Is(err, reason) {
			t.Errorf("a cancelled wait says %v", err)
		}
	}
	tickets[2].Leave()
	tickets[2].Leave()
	if _, err := tickets[2].Wait(t.Context()); !errors.Is(err, lock.ErrLeft) {
		t.Errorf("a wait after leaving says %v", err)
	}
	a.Release()
	b.wantArrivals(b.order([]*lock.Ticket{
		tickets[1], tickets[3], tickets[5], tickets[6], tickets[7], tickets[8],
	}, nil), []uint64{2, 4, 6, 7, 8, 9})
}

// Tickets that are left at once, while their places are still on their way, leave nothing.
func testLeaveAtAnyTime(t *testing.T, b *bench) {
	b.start(nil)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				ticket, err := b.on(w).Enter(b.sender, uint64(i))
				if err != nil {
					t.Error(err)
					return
				}
				if i%3 == 0 {
					ctx, cancel := context.WithCancel(t.Context())
					go cancel()
					_, _ = ticket.Wait(ctx) // either end is fine
				}
				ticket.Leave()
			}
		})
	}
	wg.Wait()
	b.wait(b.enter(0, 1)).Release()
}

func testQueueFull(t *testing.T, b *bench) {
	b.start(func(c *lock.Config) { c.MaxQueue = 3 })
	a := b.wait(b.enter(0, 0))
	var tickets []*lock.Ticket
	for i := range 3 {
		tickets = append(tickets, b.enter(0, uint64(i+1)))
	}
	_, err := b.on(0).Enter(b.sender, 4)
	var full *lock.QueueFullError
	if !errors.Is(err, lock.ErrQueueFull) || !errors.As(err, &full) || full.Length != 3 {
		t.Errorf("the fourth place: %v", err)
	}
	a.Release()
	b.wantOrder(b.order(tickets, nil), count(1, 3))
	b.wait(b.enter(0, 5)).Release()
}

// L18: transactions that the network reordered still go in nonce order.
func testGapHold(t *testing.T, b *bench) {
	b.start(func(c *lock.Config) { c.Window = ms(hour) })
	first := b.enter(0, 5)
	first.Observe(5)
	lease := b.wait(first)
	var tickets []*lock.Ticket
	for i, nonce := range []uint64{9, 8, 6, 7, 10} {
		tickets = append(tickets, b.enter(i, nonce))
	}
	advance(lease, 5)
	lease.Release()
	b.wantOrder(b.order(tickets, advance), count(6, 5))
}

// L18 on a lane that knows nothing: the head waits for the knowledge.
func testGapHoldOnFreshLane(t *testing.T, b *bench) {
	b.start(func(c *lock.Config) { c.Window = ms(hour) })
	var tickets []*lock.Ticket
	for i, nonce := range []uint64{7, 5, 6} {
		tickets = append(tickets, b.enter(i, nonce))
	}
	if b.holder().Held {
		t.Error("somebody got the turn although nothing is known")
	}
	for _, ticket := range tickets {
		ticket.Observe(5)
	}
	b.wantOrder(b.order(tickets, advance), count(5, 3))
}

// L18: nobody waits for a predecessor that does not come for longer than the window.
func testGapHoldWindowEnds(t *testing.T, b *bench) {
	const window = 300
	b.start(func(c *lock.Config) { c.Window = ms(window) })
	start := time.Now()
	ticket := b.enter(0, 9)
	ticket.Observe(5)
	lease := b.wait(ticket)
	if waited := time.Since(start); waited < (window-2)*time.Millisecond {
		t.Errorf("waited %v for a window of %d ms", waited, window)
	}
	if nonce, known := expected(lease); !known || nonce != 5 {
		t.Errorf("expected nonce %d, %v; want 5", nonce, known)
	}
	lease.Release()
}

// L2, L4: when windows end together, those who came in one go still go in the order in which they came.
func testGapHoldWindowsEndInOrder(t *testing.T, b *bench) {
	b.start(func(c *lock.Config) { c.Window = ms(300) })
	var tickets []*lock.Ticket
	nonces := []uint64{9, 7, 8, 6, 11, 10}
	for _, nonce := range nonces {
		ticket, err := b.on(0).Enter(b.sender, nonce)
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	b.wantOrder(b.order(tickets, nil), nonces)
}

// What is not ahead does not wait.
func testGapHoldIsForThoseAhead(t *testing.T, b *bench) {
	b.start(func(c *lock.Config) { c.Window = ms(hour) })
	for i, nonce := range []uint64{3, 5, 4} {
		ticket := b.enter(i, nonce)
		ticket.Observe(5)
		b.wait(ticket).Release()
	}
}

// L15, L19: what a lane knows goes with the turn, to other processes too.
func testExpectedIsCarried(t *testing.T, b *bench) {
	b.start(nil)
	for i := range 4 {
		lease := b.wait(b.enter(i, uint64(i+5)))
		nonce, known := expected(lease)
		if i == 0 {
			if known {
				t.Errorf("a fresh lane expects %d", nonce)
			}
			if _, ok := last(lease); ok {
				t.Error("a fresh lane remembers a submission")
			}
		} else {
			if !known || nonce != uint64(i+5) || !certain(lease) {
				t.Errorf("turn %d: expected %d, known %v, certain %v", i, nonce, known, certain(lease))
			}
			last, ok := last(lease)
			if !ok || last.Node != "0.0.3" || last.TxID == "" || !last.Open {
				t.Errorf("turn %d: last %+v, %v", i, last, ok)
			}
		}
		advance(lease, uint64(i+5))
		lease.Release()
	}
}

// The memory of an idle lane ends.
func testMemoryEnds(_ *testing.T, b *bench) {
	b.start(func(c *lock.Config) { c.Memory = ms(800) })
	lease := b.wait(b.enter(0, 5))
	advance(lease, 5)
	lease.Release()
	b.eventually("the lane forgets", func() error {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		<-timer.C
		lease := b.wait(b.enter(0, 20))
		defer lease.Release()
		if nonce, known := expected(lease); known {
			return errors.New("still knows " + time.Duration(nonce).String())
		}
		return nil
	})
}

// L19, L20: when n fails before it is executed, those behind it find n expected still,
// and so does n when it comes again.
func testFailureStopsTheRest(t *testing.T, b *bench) {
	b.start(nil)
	lease := b.wait(b.enter(0, 4))
	advance(lease, 4)
	lease.Release()
	lease = b.wait(b.enter(0, 5))
	var tickets []*lock.Ticket
	for i := range 3 {
		tickets = append(tickets, b.enter(i, uint64(i+6)))
	}
	lease.Release() // 5 failed before anything was sent
	see := func(lease *lock.Lease, nonce uint64) {
		if expected, known := expected(lease); !known || expected != 5 || !certain(lease) {
			t.Errorf("nonce %d: expected %d, known %v, certain %v; want 5", nonce, expected, known, certain(lease))
		}
	}
	b.wantArrivals(b.order(tickets, see), count(6, 3))
	again := b.wait(b.enter(1, 5))
	see(again, 5)
	advance(again, 5)
	again.Release()
}

// Not to know what one did does the same as to lose the turn.
func testUnknownOutcomeForgets(t *testing.T, b *bench) {
	b.start(nil)
	lease := b.wait(b.enter(0, 8))
	advance(lease, 8)
	lease.Report(lock.Report{Outcome: lock.Lost})
	lease.Release()
	lease = b.wait(b.enter(1, 9))
	if nonce, known := expected(lease); known {
		t.Errorf("after a holder that knows nothing %d is expected", nonce)
	}
	lease.Release()
}

func testInvalidate(t *testing.T, b *bench) {
	b.start(nil)
	lease := b.wait(b.enter(0, 5))
	old := accept(lease, 5)
	lease.Release()
	bad := lock.Verdict{Reached: true}
	old.Conclude(t.Context(), bad)
	lease = b.wait(b.enter(1, 5)) // at once, and through another process
	if nonce, known := expected(lease); known {
		t.Errorf("after a bad verdict %d is expected", nonce)
	}
	lease.Release()
	// A verdict on an old turn says nothing about what was learned since.
	ticket := b.enter(0, 5)
	ticket.Observe(5)
	lease = b.wait(ticket)
	advance(lease, 5)
	lease.Release()
	old.Conclude(t.Context(), bad)
	lease = b.wait(b.enter(0, 6))
	if nonce, known := expected(lease); !known || nonce != 6 {
		t.Errorf("expected %d, %v; want 6", nonce, known)
	}
	if last, ok := last(lease); !ok || !last.Open {
		t.Errorf("last %+v, %v; want an open one", last, ok)
	}
	lease.Release()
}

func testForceRelease(t *testing.T, b *bench) {
	b.start(nil)
	a := b.wait(b.enter(0, 1))
	ctx := a.Context()
	next := b.enter(1, 2)
	if ok, err := b.on(1).ForceRelease(t.Context(), b.sender); !ok || err != nil {
		t.Fatalf("force: %v, %v", ok, err)
	}
	lease := b.wait(next)
	b.ended(ctx)
	if !isLost(context.Cause(ctx)) || !isLost(a.Check()) {
		t.Errorf("cause %v, check %v", context.Cause(ctx), a.Check())
	}
	if err := lease.Check(); err != nil {
		t.Error(err)
	}
	lease.Release()
	b.eventually("nobody holds", func() error {
		if ok, err := b.on(0).ForceRelease(t.Context(), b.sender); ok || err != nil {
			return errors.New("somebody holds still")
		}
		return nil
	})
}

// SIGTERM: held turns go to whoever is next elsewhere, and nobody is left waiting.
func testStopEndsAll(t *testing.T, b *bench) {
	b.start(nil)
	a := b.wait(b.enter(0, 1))
	own := b.enter(0, 2)
	ctx := a.Context()
	var elsewhere *lock.Ticket
	if len(b.svcs) > 1 {
		elsewhere = b.enter(1, 3)
	}
	b.stops[0]()
	if !errors.Is(context.Cause(ctx), lock.ErrClosed) || !errors.Is(a.Check(), lock.ErrClosed) {
		t.Errorf("the holder: cause %v, check %v", context.Cause(ctx), a.Check())
	}
	if _, err := own.Wait(t.Context()); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("the waiting one: %v", err)
	}
	if _, err := b.on(0).Enter(b.sender, 4); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("a new one: %v", err)
	}
	if elsewhere != nil {
		b.wait(elsewhere).Release()
	}
}

func testPanic(t *testing.T, b *bench) {
	b.start(nil)
	func() {
		defer func() { _ = recover() }()
		lease := b.wait(b.enter(0, 1))
		defer lease.Release()
		panic("on purpose")
	}()
	b.wait(b.enter(1, 2)).Release()
}
