package lock

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep/internal/redistest"
)

// nextModel is the rule in its plainest form: the oldest goes, unless it is known to be ahead
// and another carries the expected nonce, once for each such nonce.
type nextModel struct {
	holder   *nextTicket
	line     []*nextTicket
	known    bool
	expected uint64
}

type nextTicket struct {
	ticket   *Ticket
	nonce    uint64
	passedBy map[uint64]bool
}

func (m *nextModel) before(t *nextTicket) int {
	if !m.known || t.nonce <= m.expected || t.passedBy[m.expected] {
		return -1
	}
	return slices.IndexFunc(m.line, func(o *nextTicket) bool { return o.nonce == m.expected })
}

func (m *nextModel) next() {
	m.holder = nil
	if len(m.line) == 0 {
		return
	}
	i := m.before(m.line[0])
	if i < 0 {
		i = 0
	} else {
		m.line[0].passedBy = map[uint64]bool{m.expected: true} // only the last one counts
	}
	m.holder = m.line[i]
	m.line = slices.Delete(m.line, i, i+1)
}

func (m *nextModel) observe(nonce uint64) {
	if !m.known || nonce > m.expected {
		m.known, m.expected = true, nonce
	}
}

func (m *nextModel) String() string {
	s := fmt.Sprintf("expected %d (%v), holder ", m.expected, m.known)
	if m.holder != nil {
		s += fmt.Sprint(m.holder.nonce)
	}
	for _, t := range m.line {
		s += fmt.Sprintf(" %d", t.nonce)
	}
	return s
}

// TestNextModel drives random sequences inside one process and compares every step.
func TestNextModel(t *testing.T) {
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		svc, err := New(arrivalOrder(), Deps{})
		if err != nil {
			t.Fatal(err)
		}
		checkNext(t, svc)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		checkNext(t, startedOn(t, redistest.Start(t).URL(), arrivalOrder()))
	})
}

func checkNext(t *testing.T, svc *Service) {
	sender := uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		sender++
		m := &nextModel{}
		rt.Repeat(map[string]func(*rapid.T){
			"enter": func(rt *rapid.T) {
				e := &nextTicket{nonce: rapid.Uint64Range(0, 6).Draw(rt, "nonce")}
				e.ticket = mustEnter(t, svc, strangerNo(sender), e.nonce)
				if m.line = append(m.line, e); m.holder == nil {
					m.next()
				}
			},
			"observe": func(rt *rapid.T) {
				if m.holder == nil {
					rt.Skip()
				}
				nonce := rapid.Uint64Range(0, 4).Draw(rt, "nonce")
				m.holder.ticket.Observe(nonce)
				m.observe(nonce)
			},
			"accepted": func(rt *rapid.T) {
				if m.holder == nil {
					rt.Skip()
				}
				lease := mustWait(t, m.holder.ticket)
				shown := m.holder.nonce
				if m.known {
					shown = m.expected
				}
				lease.Next(shows(shown))
				if m.observe(shown); m.holder.nonce == m.expected {
					m.expected++
				}
				_ = lease.Report(Report{})
				lease.Release()
				m.next()
			},
			"failed": func(rt *rapid.T) {
				if m.holder == nil {
					rt.Skip()
				}
				mustWait(t, m.holder.ticket).Release()
				m.next()
			},
			"leave": func(rt *rapid.T) {
				if len(m.line) == 0 {
					rt.Skip()
				}
				i := rapid.IntRange(0, len(m.line)-1).Draw(rt, "who")
				m.line[i].ticket.Leave()
				m.line = slices.Delete(m.line, i, i+1)
			},
			"hold back": func(rt *rapid.T) {
				if m.holder == nil || !m.known {
					rt.Skip()
				}
				i := m.before(m.holder)
				lease := mustWait(t, m.holder.ticket)
				if got := lease.Next(shows(m.expected)).Step == GiveWay; got != (i >= 0) {
					rt.Fatalf("to be held back: %v; model: %s", got, m)
				}
				if i >= 0 {
					lease.PutBack(0)
					back := &nextTicket{nonce: m.holder.nonce, ticket: m.holder.ticket, passedBy: map[uint64]bool{m.expected: true}}
					m.line = append(m.line, back)
					m.next()
				}
			},
			"": func(rt *rapid.T) {
				if err := svc.CheckLanes(); err != nil {
					rt.Fatal(err)
				}
				if m.holder == nil {
					return
				}
				lease := mustWait(t, m.holder.ticket)
				if n := lease.Next(Known{}); n.Certainty != Unknown != m.known || m.known && n.Nonce != m.expected {
					rt.Fatalf("next %+v; model: %s", n, m)
				}
				for _, e := range m.line {
					if holds(e.ticket) {
						rt.Fatalf("%d has the turn, too; model: %s", e.nonce, m)
					}
				}
			},
		})
		for m.holder != nil {
			m.holder.ticket.Leave()
			m.next()
		}
		until(t, "the lane is idle", func() bool { n, _ := svc.reg.sizes(); return n == 0 })
	})
}
