package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/lock"
)

var alice = common.HexToAddress("0xA11CE00000000000000000000000000000000001")

// arrivalOrder are settings with which nobody waits for a predecessor. However slow the machine is, nothing ends
// by itself with them: no turn, no heartbeat, no memory and no call.
func arrivalOrder() lock.Config {
	cfg := lock.DefaultConfig()
	cfg.Window = 0
	cfg.MaxHold, cfg.Memory = envx.Millis(time.Hour), envx.Millis(time.Hour)
	cfg.HeartbeatMissed, cfg.RedisTimeout = 1000, envx.Millis(time.Minute)
	return cfg
}

// mortal are settings with which a process is soon taken for dead, but not because the machine is slow.
func mortal() lock.Config {
	cfg := arrivalOrder()
	cfg.HeartbeatInterval, cfg.HeartbeatMissed = envx.Millis(500*time.Millisecond), 30
	cfg.RedisTimeout = envx.Millis(14 * time.Second)
	return cfg
}

// advance reports that a node has the holder's transaction, which was next.
// shows is a fresh look at the mirror node, which shows that nonce.
func shows(nonce uint64) lock.Known {
	return lock.Known{Shown: nonce, Looked: true, Fresh: true, Fleet: true}
}

func advance(lease *lock.Lease, nonce uint64) {
	lease.Next(shows(nonce))
	lease.Report(lock.Report{Submission: lock.Submission{Node: "0.0.3", TxID: "0.0.2@1.1", Open: true}})
}

func newLocal(t testing.TB, change func(*lock.Config)) *lock.Service {
	t.Helper()
	cfg := arrivalOrder()
	if change != nil {
		change(&cfg)
	}
	svc := must.Get(lock.New(cfg, lock.Deps{}))(t)
	return svc
}

func enter(t testing.TB, svc *lock.Service, nonce uint64) *lock.Ticket {
	t.Helper()
	ticket := must.Get(svc.Enter(alice, nonce))(t)
	return ticket
}

func wait(t testing.TB, ticket *lock.Ticket) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	lease, err := ticket.Wait(ctx)
	if err != nil {
		t.Fatalf("nonce %d: %v", ticket.Nonce(), err)
	}
	return lease
}

// L1, L23: near its limit a turn does not permit to send any more, since the bytes might arrive after it.
func TestCheckKeepsAMargin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newLocal(t, func(c *lock.Config) { c.MaxHold = envx.Millis(time.Second) }) // and the margin is 50 ms
		lease := wait(t, enter(t, svc, 1))
		for _, step := range []struct {
			after time.Duration
			lost  bool
		}{{949 * time.Millisecond, false}, {time.Millisecond, true}, {49 * time.Millisecond, true}} {
			<-time.After(step.after)
			if err := lease.Check(); errors.Is(err, lock.ErrLost) != step.lost {
				t.Errorf("%v later the check says %v", step.after, err)
			}
		}
		if lease.Context().Err() != nil {
			t.Error("the turn is over before its limit")
		}
		lease.Release()
	})
}

func TestHoldLimitIsFreshForEveryHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newLocal(t, func(c *lock.Config) { c.MaxHold = envx.Millis(30 * time.Second) })
		start := time.Now()
		first, second, third := enter(t, svc, 1), enter(t, svc, 2), enter(t, svc, 3)
		a := must.Get(first.Wait(context.Background()))(t)
		b, err := second.Wait(context.Background())
		if err != nil || time.Since(start) != 30*time.Second {
			t.Fatalf("the second turn came after %v: %v", time.Since(start), err)
		}
		if cause := context.Cause(a.Context()); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("the first holder's context ended with %v", cause)
		}
		if err := a.Check(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("the first holder's check says %v", err)
		}
		a.Release() // must not touch the second's turn
		if err := b.Check(); err != nil {
			t.Errorf("the second holder's check says %v", err)
		}
		if _, err := third.Wait(context.Background()); err != nil || time.Since(start) != time.Minute {
			t.Fatalf("the third turn came after %v: %v", time.Since(start), err)
		}
		third.Leave()
	})
}

// patience is for a machine that stands still at times; what passes, passes at once. A hold limit is far beyond it.
const patience = 2 * time.Minute

// eventually waits for a condition, looking often.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); !ok(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func ready(t testing.TB, svc *lock.Service) {
	t.Helper()
	eventually(t, "Redis is used", func() bool { return svc.RedisUp() && svc.Pushed() })
}

// Without a window nobody waits for a predecessor. What is ahead is refused where the gap is certain, goes where only
// the mirror node shows it, which lags, and is kept by a lane that recovers.
func TestGapWithoutAWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before func(*lock.Lease) // what came of nonce 5, behind which 9 waits; nil: 9 came alone
		want   lock.Step
	}{
		{"nothing but the mirror node's word", nil, lock.Go},
		{"5 was accepted", func(l *lock.Lease) { advance(l, 5) }, lock.Refuse},
		{"5 is unclear", func(l *lock.Lease) {
			l.Next(shows(5))
			l.Report(lock.Report{Outcome: lock.Unclear, Submission: lock.Submission{Node: "0.0.3", TxID: "0.0.2@1.1", Open: true}})
		}, lock.PutBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			svc := newLocal(t, nil)
			var first *lock.Ticket
			if c.before != nil {
				first = enter(t, svc, 5)
			}
			ahead := enter(t, svc, 9)
			if c.before != nil {
				lease := must.Get(first.Wait(t.Context()))(t)
				c.before(lease)
				lease.Release()
			}
			lease := must.Get(ahead.Wait(t.Context()))(t)
			defer lease.Release()
			if n := lease.Next(shows(5)); n.Step != c.want {
				t.Errorf("step %d, want %d: %+v", n.Step, c.want, n)
			}
		})
	}
}

// TestNotify: a ticket tells that it does not wait any more, once, whether its turn came or
// its place was given up, and one that does not wait has nothing to tell.
func TestNotify(t *testing.T) {
	svc := newLocal(t, nil)
	stop := running(t, svc)
	holder := wait(t, enter(t, svc, 0))
	tickets := map[string]*lock.Ticket{"turn": enter(t, svc, 1), "left": enter(t, svc, 2), "closed": enter(t, svc, 3)}
	told := make(chan string, 10)
	for name, ticket := range tickets {
		if !ticket.Notify(time.Hour, func() { told <- name }) {
			t.Fatalf("%s: it does not wait", name)
		}
	}
	tickets["left"].Leave()
	if got := <-told; got != "left" {
		t.Errorf("after Leave: %s", got)
	}
	holder.Release()
	if got := <-told; got != "turn" {
		t.Errorf("after Release: %s", got)
	}
	lease := wait(t, tickets["turn"])
	if tickets["turn"].Notify(time.Hour, func() { told <- "again" }) {
		t.Error("the holder is taken for one that waits")
	}
	stop()
	if got := <-told; got != "closed" {
		t.Errorf("after the end of the service: %s", got)
	}
	if _, err := tickets["closed"].Wait(t.Context()); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("Wait says %v", err)
	}
	lease.Release()
	if len(told) > 0 {
		t.Errorf("told twice: %s", <-told)
	}
}

// The lease of a sender who is not ordered restricts nothing, and nothing ends it but its context.
func TestUnordered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	lease := lock.Unordered(ctx, 7)
	if lease.Context() != ctx {
		t.Error("its context is not the one that it was made with")
	}
	if got, want := lease.Turn(), (lock.Turn{Strategy: "none"}); got != want {
		t.Errorf("turn %+v, want %+v", got, want)
	}
	for _, c := range []struct {
		known lock.Known
		want  lock.Next
	}{
		{lock.Known{}, lock.Next{Gap: 7}},
		{lock.Known{Shown: 7}, lock.Next{Gap: 7}},
		{lock.Known{Proven: 8}, lock.Next{Gap: 7, Standing: lock.Reached}},
		{shows(5), lock.Next{Nonce: 5, Certainty: lock.Shown, Gap: 2}},
		{shows(7), lock.Next{Nonce: 7, Certainty: lock.Shown, Standing: lock.Reached}},
		{lock.Known{Shown: 5, Looked: true, Proven: 8}, lock.Next{Nonce: 8, Certainty: lock.Shown, Gap: -1, Standing: lock.Reached}},
	} {
		if diff := cmp.Diff(c.want, lease.Next(c.known), cmpopts.IgnoreUnexported(lock.Next{})); diff != "" {
			t.Errorf("Next(%+v):\n%s", c.known, diff)
		}
	}
	if lease.Room(1) != nil {
		t.Error("it has to wait for room")
	}
	if lease.PutBack(patience) {
		t.Error("it has been put back into a line in which it never was")
	}
	for _, outcome := range []lock.Outcome{lock.Accepted, lock.Unclear, lock.Failed, lock.Lost, lock.NotAwaited} {
		sent := lease.Report(lock.Report{Outcome: outcome, Submission: lock.Submission{Node: "0.0.3", TxID: "0.0.2@1.1", Open: true}})
		if sent == nil {
			t.Fatalf("no handle for the verdict after outcome %d", outcome)
		}
		if sent.Overtaken() != nil {
			t.Errorf("outcome %d: there is something that can overtake it", outcome)
		}
		sent.Conclude(ctx, lock.Verdict{Reached: true})
	}
	lease.Release()
	lease.Release()
	cancel()
	// Neither the end of the turn nor that of the context takes away the right to send.
	if err := lease.Check(); err != nil {
		t.Errorf("checked: %v", err)
	}
}

// model is the contract in its plainest form: one list, whose first element has the turn.
type model struct {
	line []*modelTicket
	now  time.Duration
}

type modelTicket struct {
	ticket *lock.Ticket
	lease  *lock.Lease
	id     uint64
	since  time.Duration // when its turn began
}

func (m *model) drop(i int) *modelTicket {
	t := m.line[i]
	m.line = slices.Delete(m.line, i, i+1)
	if i == 0 && len(m.line) > 0 {
		m.line[0].since = m.now
	}
	return t
}

// timeless hides the deadline of a test, which has no meaning in fake time.
type timeless struct{ testing.TB }

// TestLocalModel drives random sequences in fake time and compares every step with the model.
func TestLocalModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(timeless{t}, func(rt *rapid.T) {
			const hold = 10 * time.Second
			cfg := arrivalOrder()
			cfg.MaxHold = envx.Millis(hold)
			cfg.MaxQueue = 6
			svc, err := lock.New(cfg, lock.Deps{})
			if err != nil {
				rt.Fatal(err)
			}
			start := time.Now()
			m := &model{}
			var ended []*modelTicket
			id := uint64(0)
			check := func() {
				lanes := svc.Lanes()
				if len(m.line) == 0 {
					if len(lanes) != 0 {
						rt.Fatalf("lanes %+v, model empty", lanes)
					}
					return
				}
				if len(lanes) != 1 || !lanes[0].Held || lanes[0].Nonce != m.line[0].id || lanes[0].Waiting != len(m.line)-1 {
					rt.Fatalf("lanes %+v, model: %d first of %d", lanes, m.line[0].id, len(m.line))
				}
				first := m.line[0]
				if first.lease == nil {
					if first.lease, err = first.ticket.Wait(context.Background()); err != nil {
						rt.Fatalf("first in line: %v", err)
					}
				}
				if err := first.lease.Check(); (err == nil) != (m.now+100*time.Millisecond < first.since+hold) {
					rt.Fatalf("held for %v: check says %v", m.now-first.since, err)
				}
				for _, e := range ended {
					if e.lease != nil && e.lease.Check() == nil {
						rt.Fatalf("%d ended, but its check passes", e.id)
					}
				}
			}
			rt.Repeat(map[string]func(*rapid.T){
				"enter": func(rt *rapid.T) {
					id++
					ticket, err := svc.Enter(alice, id)
					if waiting := max(len(m.line)-1, 0); waiting >= cfg.MaxQueue {
						if !errors.Is(err, lock.ErrQueueFull) {
							rt.Fatalf("entered a full queue: %v", err)
						}
						return
					}
					if err != nil {
						rt.Fatal(err)
					}
					m.line = append(m.line, &modelTicket{ticket: ticket, id: id, since: m.now})
				},
				"leave": func(rt *rapid.T) {
					if len(m.line) == 0 {
						rt.Skip()
					}
					e := m.drop(rapid.IntRange(0, len(m.line)-1).Draw(rt, "who"))
					e.ticket.Leave()
					ended = append(ended, e)
				},
				"release": func(rt *rapid.T) {
					if len(m.line) == 0 {
						rt.Skip()
					}
					e := m.drop(0)
					e.lease.Release()
					ended = append(ended, e)
				},
				"release again": func(rt *rapid.T) {
					if len(ended) == 0 {
						rt.Skip()
					}
					e := rapid.SampledFrom(ended).Draw(rt, "who")
					e.ticket.Leave()
					if e.lease != nil {
						e.lease.Release()
					}
				},
				"force": func(rt *rapid.T) {
					ok, err := svc.ForceRelease(context.Background(), alice)
					if err != nil || ok != (len(m.line) > 0) {
						rt.Fatal(ok, err)
					}
					if ok {
						ended = append(ended, m.drop(0))
					}
				},
				"time": func(rt *rapid.T) {
					to := m.now + time.Duration(rapid.Int64Range(1, 25_000).Draw(rt, "ms"))*time.Millisecond
					for len(m.line) > 0 && m.line[0].since+hold <= to {
						m.now = m.line[0].since + hold
						ended = append(ended, m.drop(0))
					}
					m.now = to
					<-time.After(to - time.Since(start))
					synctest.Wait()
				},
				"": func(rt *rapid.T) {
					check()
					if err := svc.CheckLanes(); err != nil {
						rt.Fatal(err)
					}
				},
			})
			for len(m.line) > 0 {
				m.drop(len(m.line) - 1).ticket.Leave()
			}
			if busy, _ := svc.Sizes(); busy != 0 {
				rt.Fatalf("%d lanes are in use although nobody uses them", busy)
			}
		})
	})
}
