package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lockstep/internal/envx"
	"lockstep/lock"
)

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
