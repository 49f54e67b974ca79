package watch_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/lease"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

// silenced is an endpoint that names no logs while it is told not to.
func silenced(t *testing.T, node string, silent *atomic.Bool) string {
	return watchtest.Proxy(t, node, func(c *watchtest.Call) {
		if c.Ask(); c.Method == "eth_getLogs" && silent.Load() {
			c.Say([]int{})
		}
	})
}

// TestADoubtIsSeenWhileItLasts has the only endpoint lie again and again: first about a range, then about a new block. As long as the filter of a block names what
// is followed and nobody explains it, readiness, the metric and the log say so, and no cursor moves; then the event is there, once.
func TestADoubtIsSeenWhileItLasts(t *testing.T) {
	c := watchtest.New(t, 2)
	var silent atomic.Bool
	silent.Store(true)
	db, b, log := ledgertest.Open(t), &book{t: t}, new(proctest.Tail)
	plan := escrows(t, silenced(t, c.URL, &silent))
	plan.Watches = []watch.Watch{given(t, "w", 1)}
	var first []string // some of them are final and read as a range, whichever of them is its end
	for n := 1; n <= 33; n++ {
		approve(c, 1)
		c.Commit()
		first = append(first, fmt.Sprintf("+%s Approved@%d", short(1), n))
	}
	s := must.Get(watch.New(watch.Config{Plan: plan, Instance: "a", Lease: lease.Options{TTL: 2 * time.Minute}}, watch.Deps{
		DB: db, Log: slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)), Sinks: func(string) (watch.Sink, error) { return b, nil },
	}))(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Collectors()...)
	doubts := func() (n float64) {
		families := must.Get(registry.Gather())(t)
		for _, f := range families {
			if f.GetName() == "watch_doubts_total" {
				n = f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return n
	}
	must.Run(t, s.Run)
	const says = "an endpoint of chain 1337 leaves out events that the filter of their block names"
	degraded := func() bool {
		return slices.ContainsFunc(s.Condition(t.Context()).Degraded, func(what string) bool { return strings.HasPrefix(what, says) })
	}
	var told []string
	for i, news := range [][]string{first, {"+" + short(1) + " Approved@34"}} {
		before := doubts()
		watchtest.Until(t, "the doubt is seen", func() (bool, error) {
			return degraded() && doubts() > before+1 && log.Has("bloom filter names what is followed"), fmt.Errorf("%+v, %v doubts", s.Condition(t.Context()), doubts())
		})
		if list, err := s.States(t.Context()); err != nil || list[0].Block >= []uint64{1, 34}[i] || len(b.all()) != len(told) {
			t.Errorf("%+v, %v, and %v was handed on", list, err, b.lines())
		}
		silent.Store(false)
		told = append(told, news...)
		want(t, b, told...)
		watchtest.Until(t, "the doubt is over", func() (bool, error) { return !degraded(), fmt.Errorf("%+v", s.Condition(t.Context())) })
		silent.Store(true)
		approve(c, 1)
		c.Commit() // 34
	}
}

// TestTwoProcessesOfOneName: the second one gives the first the time of a lease to end, and then ends itself; the first works on.
func TestTwoProcessesOfOneName(t *testing.T) {
	c := watchtest.New(t, 2)
	db, b := ledgertest.Open(t), &book{t: t}
	plan := escrows(t, c.URL)
	plan.Watches = []watch.Watch{given(t, "w", 1)}
	start(t, db, plan, "a", b)
	approve(c, 1)
	c.Commit() // 1
	want(t, b, "+"+short(1)+" Approved@1")
	second := must.Get(watch.New(watch.Config{Plan: plan, Instance: "a", Lease: lease.Options{TTL: time.Second}}, watch.Deps{
		DB: db, Log: slog.New(slog.DiscardHandler), Sinks: func(string) (watch.Sink, error) { return &book{t: t}, nil },
	}))(t)
	if err := second.Run(t.Context()); err == nil || errors.Is(err, t.Context().Err()) || !strings.Contains(err.Error(), `another living process has the INSTANCE_ID "a"`) {
		t.Errorf("the second one ends with %v", err)
	}
	approve(c, 1)
	c.Commit() // 2
	want(t, b, "+"+short(1)+" Approved@1", "+"+short(1)+" Approved@2")
}
