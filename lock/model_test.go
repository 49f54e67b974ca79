package lock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"lockstep/internal/envx"
	"lockstep/internal/redistest"
	"lockstep/lock"
)

// model is the contract in its plainest form: one list, whose first element has the turn.
type model struct {
	line []*modelTicket
	now  time.Duration
}

type modelTicket struct {
	ticket  *lock.Ticket
	lease   *lock.Lease
	id      uint64
	process int
	since   time.Duration // when its turn began
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

// TestRedisModel does the same with three processes on one server, one of which may vanish.
func TestRedisModel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.Client()
	rapid.Check(t, fewer(8, func(rt *rapid.T) { // each is a conversation of seconds
		cfg := swift()
		cfg.RedisTimeout = steady().RedisTimeout // the model has no process that misses Redis
		cfg.HeartbeatInterval = envx.Millis(400 * time.Millisecond)
		var svcs []*lock.Service
		var wires []*wire
		gone := map[int]bool{}
		for range 3 {
			svc, w, stop := manualProcess(t, server.Addr(), cfg)
			defer stop()
			svcs, wires = append(svcs, svc), append(wires, w)
		}
		agree := lock.AgreeOnTime(svcs) // or arrival would not be decided between them
		m := &model{}
		id := uint64(0)
		until := func(what string, ok func() bool) {
			end := time.Now().Add(patience)
			for !ok() {
				agree()
				for p := range gone { // its heartbeat has lapsed
					c.Del(context.Background(), "lock:heartbeat:"+svcs[p].Instance())
				}
				if time.Now().After(end) {
					rt.Fatalf("not in time: %s; line %s", what, m)
				}
				<-time.After(time.Millisecond)
			}
		}
		check := func() {
			for i, e := range m.line {
				if i == 0 {
					until("the first has the turn", func() bool { return svcHolds(svcs[e.process], e.id) })
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					lease, err := e.ticket.Wait(ctx)
					cancel()
					if err != nil || lease.Check() != nil {
						rt.Fatalf("first in line: %v", err)
					}
				} else if svcHolds(svcs[e.process], e.id) {
					rt.Fatalf("%d has the turn, model: %s", e.id, m)
				}
			}
			until("Redis has a claim for all who wait", func() bool {
				claims := strings.Join(c.LRange(context.Background(), queueKey(alice), 0, -1).Val(), "\n")
				for i, e := range m.line {
					if i > 0 && e.process != m.line[0].process && !strings.Contains(claims, svcs[e.process].Instance()) {
						return false
					}
				}
				return true
			})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"enter": func(rt *rapid.T) {
				p := rapid.IntRange(0, 2).Draw(rt, "process")
				if gone[p] {
					rt.Skip()
				}
				id++
				agree()
				ticket, err := svcs[p].Enter(alice, id)
				if err != nil {
					rt.Fatal(err)
				}
				m.line = append(m.line, &modelTicket{ticket: ticket, id: id, process: p})
			},
			"end": func(rt *rapid.T) {
				if len(m.line) == 0 {
					rt.Skip()
				}
				m.drop(rapid.IntRange(0, len(m.line)-1).Draw(rt, "who")).ticket.Leave()
			},
			"release": func(rt *rapid.T) {
				if len(m.line) == 0 {
					rt.Skip()
				}
				m.drop(0).ticket.Leave()
			},
			"vanish": func(rt *rapid.T) {
				if len(gone) > 0 || rapid.IntRange(0, 9).Draw(rt, "dice") > 0 {
					rt.Skip()
				}
				p := rapid.IntRange(0, 2).Draw(rt, "process")
				gone[p] = true
				wires[p].sever()
				removedLast := slices.ContainsFunc(m.line, func(e *modelTicket) bool { return e.process != p })
				m.line = slices.DeleteFunc(m.line, func(e *modelTicket) bool { return e.process == p })
				if !removedLast {
					// Nobody is there to notice, until somebody comes.
					p := slices.IndexFunc([]int{0, 1, 2}, func(p int) bool { return !gone[p] })
					id++
					ticket, err := svcs[p].Enter(alice, id)
					if err != nil {
						rt.Fatal(err)
					}
					m.line = append(m.line, &modelTicket{ticket: ticket, id: id, process: p})
				}
			},
			"": func(rt *rapid.T) {
				check()
				for _, svc := range svcs {
					if err := svc.CheckLanes(); err != nil {
						rt.Fatal(err)
					}
				}
			},
		})
		for len(m.line) > 0 {
			m.drop(0).ticket.Leave()
		}
	}))
}

// fewer lets only the first checks count, unless the command line says how many: the rest pass
// at once. When one has failed all are made, so that it can be made smaller.
func fewer(checks int, check func(*rapid.T)) func(*rapid.T) {
	f := flag.Lookup("rapid.checks")
	begun, failed := 0, f.Value.String() != f.DefValue
	return func(rt *rapid.T) {
		if begun++; begun > checks && !failed {
			return
		}
		passed := false
		defer func() { failed = failed || !passed }()
		check(rt)
		passed = true
	}
}

func (m *model) String() string {
	s := ""
	for _, e := range m.line {
		s += fmt.Sprintf("%d@%d ", e.id, e.process)
	}
	return s
}

// manualProcess is process for a caller that stops it itself.
func manualProcess(t *testing.T, addr string, cfg lock.Config) (*lock.Service, *wire, func()) {
	t.Helper()
	svc, w, client := wired(t, addr, cfg, nil)
	stop := running(t, svc)
	ready(t, svc)
	return svc, w, func() {
		stop()
		_ = client.Close()
	}
}
