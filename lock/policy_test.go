package lock

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// holder is a holder of the policy's tables, by the words of the table at decide.
type holder struct {
	chain chain
	facts facts
}

// rows are holders that stand as the rows of the table say, and the columns are how their lanes go on.
func holderOf(t *testing.T, row string, m mode) holder {
	t.Helper()
	no, none := func(uint64) bool { return false }, func(uint64) *Submitted { return nil }
	h := holder{facts: facts{nonce: 5, known: Known{Shown: 5, Looked: true, Fresh: true, Fleet: true}, recovery: true, waitsLate: time.Second, memory: time.Minute, waits: no, judge: no, sent: none}}
	h.chain.observe(5)
	h.chain.mode = m
	switch row {
	case "too low":
		h.facts.nonce = 4
	case "next":
	case "next, its predecessor is open":
		h.chain.last, h.chain.lastFence = Submission{Open: true}, 1
	case "ahead, predecessor is here":
		h.facts.nonce, h.facts.waits = 7, func(next uint64) bool { return next == 5 }
	case "ahead, in its window":
		h.facts.nonce, h.facts.inWindow = 7, true
	case "ahead, after others here":
		h.facts.nonce, h.facts.followed, h.facts.follows = 7, true, true
	case "ahead, chain is sure":
		h.facts.nonce, h.facts.followed, h.facts.late = 7, true, true
		h.chain.sure = m == flowing
	case "ahead, it came alone, and the missing one was answered":
		h.facts.nonce, h.facts.holeReported = 7, true
	case "ahead, the network refused one ahead":
		h.facts.nonce, h.facts.followed, h.facts.late, h.facts.gapFor = 7, true, true, time.Second
		if m == flowing {
			h.chain.gap = certain
		}
	case "ahead, while it judges one":
		h.facts.nonce, h.facts.judge = 7, func(next uint64) bool { return next == 5 }
	case "ahead, nothing is sure":
		h.facts.nonce = 7
	default:
		t.Fatalf("no such row: %q", row)
	}
	return h
}

// The table at decide is what the policy does.
func TestPolicyIsAsDocumented(t *testing.T) {
	t.Parallel()
	rows := table(t, "policy.go", "holder's nonce is")
	flows, recovers := strings.Index(rows[0], "flowing"), strings.Index(rows[0], "recovering")
	names := map[string]Step{"Go": Go, "Await": Await, "GiveWay": GiveWay, "Early": Early, "PutBack": PutBack, "Refuse": Refuse}
	for _, row := range rows[1:] {
		name := strings.TrimSpace(row[:flows])
		for m, text := range map[mode]string{flowing: row[flows:recovers], recovering: row[recovers:]} {
			word, _, _ := strings.Cut(strings.TrimSpace(text), " ")
			want, known := names[strings.TrimRight(word, ":;,")]
			if !known {
				t.Fatalf("no step %q", word)
			}
			h := holderOf(t, name, m)
			if got := decide(h.chain, h.facts); got.Step != want {
				t.Errorf("%q, mode %d: step %d, want %s", name, m, got.Step, word)
			}
		}
	}
}

// What is known counts until something newer is known of the same nonce.
func TestAGapIsOfOneNonce(t *testing.T) {
	t.Parallel()
	ahead := Next{ahead: true}
	k := chain{}
	if k.observe(0); k.accepted(3, 7, Submission{}, ahead) || k.gap != tried {
		t.Errorf("one went ahead: %+v", k)
	}
	for name, change := range map[string]func(*chain){
		"another is next":    func(k *chain) { k.observe(2) },
		"the lane recovers":  func(k *chain) { k.recover() },
		"what is next comes": func(k *chain) { k.accepted(0, 8, Submission{}, Next{isNext: true}) },
	} {
		k := k
		if !k.tooHigh(3, 0) || k.gap != certain {
			t.Errorf("it was refused: %+v", k)
		}
		if change(&k); k.gap != notTried || k.tooHigh(3, 0) {
			t.Errorf("%s: %+v", name, k)
		}
	}
	var other chain
	other.observe(0)
	k.tooHigh(3, 0)
	if other.inherit(k); other.gap != certain {
		t.Errorf("another turn forgets it: %+v", other)
	}
}

// Those who follow what no node took hear why, until a node takes something again.
func TestFailureExplains(t *testing.T) {
	t.Parallel()
	f := failure{first: 3, last: 3, cause: errors.New("no node"), at: 1}
	for _, c := range []struct {
		entered time.Duration
		missing uint64
		over    time.Duration
		told    bool
	}{{1, 3, 0, true}, {1, 2, 0, false}, {1, 4, 0, true}, {9, 3, 5, false}, {1, 3, 5, true}} {
		if f.over = c.over; (f.explain(4, c.entered, c.missing) != nil) != c.told {
			t.Errorf("%+v", c)
		}
	}
}

// While Redis does not answer another process may have gone on. What this one concludes alone orders those who wait here, even before
// anything was looked up, and refuses none.
func TestPolicyWithoutRedis(t *testing.T) {
	t.Parallel()
	h := holderOf(t, "ahead, chain is sure", flowing)
	if n := decide(h.chain, h.facts); n.Step != Refuse {
		t.Fatalf("with Redis: %+v", n)
	}
	h.facts.open = true
	if n := decide(h.chain, h.facts); n.Step == Refuse || n.Certainty != Shown {
		t.Errorf("refused by what this process concluded alone: %+v", n)
	}
	h = holderOf(t, "ahead, predecessor is here", flowing)
	h.facts.known, h.facts.open = Known{}, true
	if n := decide(h.chain, h.facts); n.Step != GiveWay || n.first != 5 {
		t.Errorf("it does not give way to the one that is next: %+v", n)
	}
}

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

// table returns the lines of a table in a file's comments, from the line that begins with first, without comment signs.
func table(t *testing.T, file, first string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	_, rest, found := strings.Cut(string(text), "//\t"+first)
	if !found {
		t.Fatalf("%s has no table that begins with %q", file, first)
	}
	rows, _, _ := strings.Cut(first+rest, "\n//\n")
	return strings.Split(strings.ReplaceAll(rows, "\n//\t", "\n"), "\n")
}

// Nothing but what doc.go lists locks lane.mu.
func TestWhoLocksALaneIsDocumented(t *testing.T) {
	t.Parallel()
	got := map[string][]string{} // functions by the type that they are methods of
	files := must.Get(filepath.Glob("*.go"))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !locksLane(f) {
				continue
			}
			_, of := receiver(f)
			got[of] = append(got[of], f.Name.Name)
		}
	}
	want := table(t, "doc.go", "lane Ticket Lease Submitted  their methods")
	for _, whole := range strings.Fields(strings.TrimSuffix(want[0], "their methods")) {
		if len(got[whole]) == 0 {
			t.Errorf("doc.go says that methods of %s lock lane.mu, and none does", whole)
		}
		delete(got, whole)
	}
	for _, row := range want[1:] {
		row, _, _ = strings.Cut(row, ", ") // what follows explains
		words := strings.Fields(strings.ReplaceAll(row, ";", ""))
		listed := words[1:]
		slices.Sort(listed)
		slices.Sort(got[words[0]])
		if !slices.Equal(listed, got[words[0]]) {
			t.Errorf("methods of %s that lock lane.mu: %v; doc.go lists %v", words[0], got[words[0]], listed)
		}
		delete(got, words[0])
	}
	for of, functions := range got {
		t.Errorf("doc.go does not say that %v of %q lock lane.mu", functions, of)
	}
}

// receiver returns the name of a method's receiver and of its type.
func receiver(f *ast.FuncDecl) (name, of string) {
	if f.Recv == nil {
		return "", ""
	}
	field := f.Recv.List[0]
	if len(field.Names) > 0 {
		name = field.Names[0].Name
	}
	typ := field.Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		of = id.Name
	}
	return name, of
}

// locksLane tells whether a function locks the mu of a lane: any mu that is not that of its own receiver, since
// nobody but its owner locks another mutex of this package.
func locksLane(f *ast.FuncDecl) (locks bool) {
	self, of := receiver(f)
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.SelectorExpr)
		if !ok || call.Sel.Name != "Lock" {
			return true
		}
		mu, ok := call.X.(*ast.SelectorExpr)
		if !ok || mu.Sel.Name != "mu" {
			return true
		}
		owner, ok := mu.X.(*ast.Ident)
		locks = locks || of == "lane" || !ok || owner.Name != self
		return true
	})
	return locks
}
