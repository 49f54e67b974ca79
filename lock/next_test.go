package lock

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// A bad verdict makes the lane forget what it concluded, not what verdicts proved.
func TestProofsOutliveABadVerdict(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) (*Service, error){
		"local": func(*testing.T) (*Service, error) { return New(arrivalOrder(), Deps{}) },
		"redis": func(t *testing.T) (*Service, error) {
			return startedOn(t, redistest.Start(t).URL(), arrivalOrder()), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := must.Get(start(t))(t)
			lease := mustWait(t, mustEnter(t, svc, bob, 5))
			before := lease.Report(Report{Submission: Submission{Node: "0.0.3", TxID: "0.0.2@1.0", Open: true}})
			before.nonce = 4
			sent := advance(lease)
			before.Conclude(t.Context(), Verdict{Reached: true, Executed: true})
			lease.Release()
			sent.Conclude(t.Context(), Verdict{Reached: true})
			lease = mustWait(t, mustEnter(t, svc, bob, 5))
			defer lease.Release()
			if n := lease.Next(Known{}); n.Nonce != 5 || n.Certainty != Proven || !n.Recovering {
				t.Errorf("next %+v", n)
			}
		})
	}
}

// A verdict shows, while a transaction is being handed over, that what it follows was not executed.
// That a node then takes it does not make the chain whole again: those behind the hole would be
// told that their nonces are spent.
func TestAcceptanceDoesNotMendAHole(t *testing.T) {
	t.Parallel()
	svc := must.Get(New(arrivalOrder(), Deps{}))(t)
	first := mustWait(t, mustEnter(t, svc, bob, 5))
	first.Next(shows(5))
	missing := first.Report(Report{Submission: Submission{Node: "0.0.3", TxID: "0.0.2@1.0", Open: true}})
	first.Release()
	second := mustWait(t, mustEnter(t, svc, bob, 6))
	if n := second.Next(shows(5)); n.Step != Go || n.Nonce != 6 {
		t.Fatalf("next %+v", n)
	}
	missing.Conclude(t.Context(), Verdict{Reached: true})
	second.Report(Report{Submission: Submission{Node: "0.0.3", TxID: "0.0.2@2.0", Open: true}})
	second.Release()
	again := mustWait(t, mustEnter(t, svc, bob, 5))
	defer again.Release()
	if n := again.Next(shows(5)); n.Nonce != 5 || n.Certainty != Shown || !n.Recovering {
		t.Errorf("next %+v", n)
	}
}

// A transaction that is ahead asks what to do while the network judges another one, and is to wait for that. The verdict comes before it has
// gone back to its place: it has its turn at once, and doesn't wait for what has come.
func TestAVerdictWhileATransactionIsPutBack(t *testing.T) {
	t.Parallel()
	svc := must.Get(New(arrivalOrder(), Deps{}))(t)
	first := mustWait(t, mustEnter(t, svc, bob, 3))
	if n := first.Next(shows(0)); n.Step != Go {
		t.Fatalf("next %+v", n)
	}
	sent := first.Report(Report{Submission: Submission{Node: "0.0.3", TxID: "0.0.2@1.0", Open: true}})
	first.Release()
	second := mustWait(t, mustEnter(t, svc, bob, 4))
	if n := second.Next(shows(0)); n.Step != PutBack {
		t.Fatalf("next %+v", n)
	}
	sent.Conclude(t.Context(), Verdict{Reached: true, TooHigh: true})
	second.PutBack(hour * time.Millisecond)
	again := mustWait(t, second.ticket)
	defer again.Release()
	if n := again.Next(shows(0)); n.Step != Refuse {
		t.Errorf("next %+v", n)
	}
}

// What waits for a predecessor that comes late gives way in a full queue, above all to that predecessor. It waits once: after that it is
// refused.
func TestWhatComesLateFindsRoom(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Window, cfg.MaxQueue, cfg.MaxHold = ms(20), 1, ms(hour)
	svc := must.Get(New(cfg, Deps{}))(t)
	// turn returns the turn of a transaction that follows nonce 0 and is ahead.
	turn := func(nonce uint64) *Lease {
		first := mustEnter(t, svc, bob, 0)
		first.Observe(0)
		lease := mustWait(t, first)
		ahead := mustEnter(t, svc, bob, nonce)
		advance(lease)
		lease.Release()
		return mustWait(t, ahead)
	}
	lease := turn(2)
	next := lease.Next(shows(0))
	if next.Step != PutBack || next.Within != cfg.Late() {
		t.Fatalf("%+v", next)
	}
	again := lease.ticket
	lease.PutBack(hour * time.Millisecond)
	predecessor, err := svc.Enter(bob, 1)
	if err != nil {
		t.Fatalf("no room for the predecessor: %v", err)
	}
	full := (*QueueFullError)(nil)
	if _, err := again.Wait(t.Context()); !errors.As(err, &full) {
		t.Errorf("what is ahead of it: %v", err)
	}
	lease = mustWait(t, predecessor)
	advance(lease)
	lease.Release()

	second := mustEnter(t, svc, bob, 4)
	lease = mustWait(t, second)
	lease.Next(shows(0))
	lease.PutBack(cfg.Late())
	lease = mustWait(t, second)
	if next := lease.Next(shows(0)); next.Step != Refuse {
		t.Errorf("after its second wait: %+v", next)
	}
	lease.Release()
}

// A holder whose turn was lost still hears how its nonce stands.
func TestLostTurnHasAGap(t *testing.T) {
	t.Parallel()
	svc := must.Get(New(arrivalOrder(), Deps{}))(t)
	lease := mustWait(t, mustEnter(t, svc, bob, 7))
	if was, err := svc.ForceRelease(t.Context(), bob); !was || err != nil {
		t.Fatal(was, err)
	}
	if next := lease.Next(shows(5)); next.Gap != 2 || next.Standing != Uncertain {
		t.Errorf("%+v", next)
	}
	if next := lease.Next(shows(8)); next.Gap != -1 || next.Standing != Reached {
		t.Errorf("%+v", next)
	}
}

// A hole makes the lane recover in all processes, even if a lower nonce is proven than the transactions in flight would lead to.
func TestARecoveryReachesOtherProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := arrivalOrder()
	cfg.HeartbeatInterval, cfg.Window = ms(hour), ms(20)
	one, two := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	lease := mustWait(t, mustEnter(t, one, bob, 4))
	proven := advance(lease)
	lease.Release()
	for nonce := range uint64(2) { // 5 and 6, whose verdicts are not there yet
		lease = mustWait(t, mustEnter(t, one, bob, 5+nonce))
		advance(lease)
		lease.Release()
	}
	proven.Conclude(t.Context(), Verdict{Reached: true, Executed: true})
	lease = mustWait(t, mustEnter(t, one, bob, 7))
	lease.Next(shows(5))
	unclear := lease.Report(Report{Outcome: Unclear, Submission: Submission{Node: "0.0.3", TxID: "0.0.2@1.9", Open: true}})
	lease.Release()

	lease = mustWait(t, mustEnter(t, two, bob, 8))
	if next := lease.Next(shows(5)); !next.Recovering || next.Nonce != 5 {
		t.Errorf("the other process: %+v", next)
	}
	lease.Release()

	waiting := must.Get(two.EnterFor(bob, 8, Stay{Window: time.Hour, OutlastsGap: true}))(t)
	until(t, "its place is taken", func() bool { return server.Client().LLen(t.Context(), keys(bob)[1]).Val() == 1 })
	unclear.Conclude(t.Context(), Verdict{Reached: true, Executed: true}) // at a process that has nothing of the sender any more
	mustWait(t, waiting).Release()
}

// What another process has seen since the turn began outlives the holder's hole.
func TestAHoleKeepsWhatOthersSawMeanwhile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := DefaultConfig()
	cfg.HeartbeatInterval, cfg.Window, cfg.MaxHold, cfg.RedisTimeout = ms(hour), ms(hour), ms(hour), ms(60_000)
	one, two := startedOn(t, server.URL(), cfg), startedOn(t, server.URL(), cfg)
	first := mustEnter(t, one, bob, 4)
	first.Observe(4)
	lease := mustWait(t, first)
	other := mustEnter(t, two, bob, 9)
	other.Observe(9)
	until(t, "Redis knows", func() bool {
		return strings.Contains(server.Client().Get(t.Context(), keys(bob)[0]).Val(), "|9|")
	})
	lease.Report(Report{Outcome: Unclear, Submission: Submission{Node: "0.0.3", TxID: "0.0.2@1.9", Open: true}})
	lease.Release()
	lease = mustWait(t, other) // its window is not over
	if next := lease.Next(Known{}); !next.Recovering || next.Nonce != 9 {
		t.Errorf("%+v", next)
	}
	lease.Release()
}

// Without NONCE_RECOVERY_MS nothing is put back to wait for what may come late: the network judges a gap that is not certain.
func TestWithoutRecoveryNothingWaitsForWhatComesLate(t *testing.T) {
	t.Parallel()
	for recovery, want := range map[int]Step{0: Go, hour: PutBack} {
		cfg := DefaultConfig()
		cfg.Window, cfg.Recovery, cfg.MaxHold = ms(20), ms(recovery), ms(hour)
		svc := must.Get(New(cfg, Deps{}))(t)
		first := mustEnter(t, svc, bob, 1)
		first.Observe(0)
		lease := mustWait(t, first)
		second := mustEnter(t, svc, bob, 2)
		lease.Release()
		lease = mustWait(t, second)
		if next := lease.Next(shows(0)); next.Step != want {
			t.Errorf("recovery %d: %+v", recovery, next)
		}
		lease.Release()
	}
}

// What arrives below a nonce that waits shows that its sender's transactions are under way out of order, so those that wait for a
// predecessor wait for a whole window again. What comes in the order of nonces shows nothing of the kind, nor does what is spent or is
// here already, and a stream of them keeps nobody for longer than the lane remembers.
func TestWindowsBeginAnewWhileABurstComesOutOfOrder(t *testing.T) {
	t.Parallel()
	const pace, window, memory = 100 * time.Millisecond, 150 * time.Millisecond, 10 * time.Second
	for name, c := range map[string]struct {
		arrive []uint64      // one at each pace, behind nonce 2, which is missing
		end    time.Duration // of the first one's window, after the first has come
	}{
		"alone":                     {[]uint64{5}, window},
		"in the order of nonces":    {[]uint64{5, 6, 8, 9}, window},
		"shuffled":                  {[]uint64{5, 4, 7, 3, 9}, 3*pace + window},
		"one that is next":          {[]uint64{5, 2}, pace + window},
		"below another that waits":  {[]uint64{5, 9, 7}, 2*pace + window},
		"spent":                     {[]uint64{5, 1, 0}, window},
		"the same again":            {[]uint64{5, 5, 5}, window},
		"as long as it is believed": {downFrom(200), memory},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := arrivalOrder()
			cfg.Window, cfg.Memory = envx.Millis(window), envx.Millis(memory)
			var now atomic.Int64
			svc := must.Get(New(cfg, Deps{Clock: func() time.Duration { return time.Duration(now.Load()) }}))(t)
			first := mustEnter(t, svc, bob, c.arrive[0])
			first.Observe(2)
			for _, nonce := range c.arrive[1:] {
				now.Add(int64(pace))
				mustEnter(t, svc, bob, nonce)
			}
			if got := first.until; got != c.end {
				t.Errorf("its window ends after %v, want %v", got, c.end)
			}
		})
	}
}

func downFrom(nonce uint64) (all []uint64) {
	for ; nonce > 2; nonce-- {
		all = append(all, nonce)
	}
	return all
}

// A transaction gives way to the one with the next nonce, and before it has gone back to its place somebody shows that a later one is next. It
// has let the former go first, not the latter: it gives way to that, too.
func TestGivesWayToTheNonceThatItWasTold(t *testing.T) {
	t.Parallel()
	svc := must.Get(New(arrivalOrder(), Deps{}))(t)
	ahead := mustEnter(t, svc, bob, 5)
	lease := mustWait(t, ahead)
	former := mustEnter(t, svc, bob, 3)
	if n := lease.Next(shows(3)); n.Step != GiveWay {
		t.Fatalf("next %+v", n)
	}
	former.Observe(4)
	if !lease.PutBack(0) {
		t.Fatal("not put back")
	}
	first := mustWait(t, former)
	later := mustEnter(t, svc, bob, 4)
	if first.Release(); !holds(later) {
		t.Error("nonce 5 goes before nonce 4")
	}
	ahead.Leave()
	later.Leave()
}
