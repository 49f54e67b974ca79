package lock_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/lock"
)

func stranger(n uint64) common.Address {
	var a common.Address
	binary.BigEndian.PutUint64(a[12:], n+1)
	return a
}

// L12, L13: a flood of throw-away senders evicts nobody who holds or waits, strands nobody,
// and leaves nothing but the bounded memory of idle lanes.
func TestFlood(t *testing.T) {
	svc := newLocal(t, func(c *lock.Config) { c.LocalEntries = 10 })
	holder := wait(t, enter(t, svc, 1))
	next := enter(t, svc, 2)
	var more []*lock.Ticket // in use at once, and more than may be idle
	for i := range uint64(5000) {
		ticket := must.Get(svc.Enter(stranger(i), 0))(t)
		switch {
		case i%100 == 0:
			more = append(more, ticket)
		case i%2 == 0:
			ticket.Leave()
		default:
			wait(t, ticket).Release()
		}
	}
	defer func() {
		for _, ticket := range more {
			ticket.Leave()
		}
	}()
	if busy, idle := svc.Sizes(); busy != 1+len(more) || idle > 10 {
		t.Errorf("%d lanes in use, %d idle", busy, idle)
	}
	if err := holder.Check(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	third := enter(t, svc, 3)
	if _, err := third.Wait(ctx); !errors.Is(err, lock.ErrLeft) {
		t.Errorf("a third got its turn beside the holder: %v", err)
	}
	holder.Release()
	wait(t, next).Release()
}

// A transaction that waits costs less than 8 KB, its goroutine included.
func TestMemoryOfWaiting(t *testing.T) {
	svc := newLocal(t, func(c *lock.Config) { c.MaxQueue = 0 })
	holder := wait(t, enter(t, svc, 0))
	const n = 5000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for i := range uint64(n) {
		ticket := enter(t, svc, i)
		wg.Go(func() {
			lease, err := ticket.Wait(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			lease.Release()
		})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	per := float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse) / n
	t.Logf("%.0f bytes per waiting transaction", per)
	if per > 8192 {
		t.Errorf("%.0f bytes per waiting transaction", per)
	}
	holder.Release()
	wg.Wait()
}

func TestRollout(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*lock.Config)
		alice  bool
		least  int // of 10,000 strangers
		most   int
	}{
		"all":               {func(*lock.Config) {}, true, 10000, 10000},
		"off":               {func(c *lock.Config) { c.Enabled = false }, false, 0, 0},
		"none":              {func(c *lock.Config) { c.Percent = 0 }, false, 0, 0},
		"only those listed": {func(c *lock.Config) { c.Senders = envx.Strings{alice.Hex()} }, true, 0, 0},
		"a quarter":         {func(c *lock.Config) { c.Percent = 25 }, false, 2300, 2700},
		"listed and some":   {func(c *lock.Config) { c.Percent, c.Senders = 10, envx.Strings{strings.ToLower(alice.Hex())} }, true, 850, 1150},
	} {
		t.Run(name, func(t *testing.T) {
			svc, again := newLocal(t, tc.change), newLocal(t, tc.change)
			n := 0
			for i := range uint64(10_000) {
				in := svc.Enabled(stranger(i))
				if in != again.Enabled(stranger(i)) {
					t.Fatal("two instances disagree")
				}
				if in {
					n++
				}
			}
			if n < tc.least || n > tc.most {
				t.Errorf("%d of 10,000", n)
			}
			if tc.least != 2300 && svc.Enabled(alice) != tc.alice {
				t.Errorf("alice: %v", !tc.alice)
			}
		})
	}
}

func TestSwitchAtRunTime(t *testing.T) {
	svc := newLocal(t, func(c *lock.Config) { c.Enabled = false })
	svc.SetEnabled(true)
	if !svc.Enabled(alice) {
		t.Error("not on")
	}
	lease := wait(t, enter(t, svc, 1))
	svc.SetEnabled(false)
	if lease.Check() != nil {
		t.Error("switching off ended a turn")
	}
	if !svc.Enabled(alice) || svc.Enabled(stranger(1)) {
		t.Error("off is off, but for senders with transactions in line")
	}
	lease.Release()
	if svc.Enabled(alice) {
		t.Error("on although the line has ended")
	}
}

func TestConfigCheck(t *testing.T) {
	if err := arrivalOrder().Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := lock.Config{Percent: 101, Release: "never", MaxQueue: -1, Senders: envx.Strings{"bob"}}
	err := bad.Check()
	for _, name := range []string{
		"LOCK_MAX_HOLD_MS", "LOCAL_LOCK_MAX_ENTRIES", "LOCK_QUEUE_POLL_INTERVAL_MS", "LOCK_HEARTBEAT_INTERVAL_MS",
		"LOCK_HEARTBEAT_MISSED_COUNT", "LOCK_REDIS_TIMEOUT_MS", "LOCK_MAX_QUEUE_PER_SENDER", "NONCE_ORDERING_PERCENT",
		"NONCE_ORDERING_RELEASE", "NONCE_ORDERING_SENDERS", "LOCK_LANE_MEMORY_MS", "LOCK_QUEUE_MEMBERSHIP_CHECK_INTERVAL_MS",
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("nothing is said of %s", name)
		}
	}
}

// series renders what was collected: name{labels} and, for what is not a histogram, the value.
func series(t testing.TB, svc *lock.Service) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(svc.Collectors()...)
	families := must.Get(reg.Gather())(t)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			out[name] = value(m)
		}
	}
	return out
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	default:
		return float64(m.GetHistogram().GetSampleCount())
	}
}

// L26: names and labels are fixed, and every count comes back to where it belongs.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := newLocal(t, nil)
		for i := range uint64(3) {
			lease := must.Get(enter(t, svc, i).Wait(context.Background()))(t)
			lease.Release()
			lease.Release()
		}
		lost := enter(t, svc, 3)
		left := enter(t, svc, 4)
		left.Leave()
		left.Leave()
		last := enter(t, svc, 5)
		must.Get(last.Wait(context.Background()))(t)
		lost.Leave()
		got := series(t, svc)
		want := map[string]float64{
			"rpc_relay_lock_wait_time_seconds strategy=local":                 5,
			"rpc_relay_lock_wait_time_seconds strategy=redis":                 0,
			"rpc_relay_lock_hold_duration_seconds strategy=local":             4,
			"rpc_relay_lock_hold_duration_seconds strategy=redis":             0,
			"rpc_relay_lock_waiting_txns strategy=local":                      0,
			"rpc_relay_lock_waiting_txns strategy=redis":                      0,
			"rpc_relay_lock_acquisitions_total status=success strategy=local": 5,
			"rpc_relay_lock_acquisitions_total status=success strategy=redis": 0,
			"rpc_relay_lock_acquisitions_total status=fail strategy=local":    0,
			"rpc_relay_lock_acquisitions_total status=fail strategy=redis":    0,
			"rpc_relay_lock_timeout_releases_total strategy=local":            1,
			"rpc_relay_lock_timeout_releases_total strategy=redis":            0,
			"rpc_relay_lock_zombie_cleanups_total":                            0,
			"rpc_relay_lock_active_count strategy=local":                      1,
			"rpc_relay_lock_active_count strategy=redis":                      0,
			"rpc_relay_lock_redis_errors_total operation=acquire":             0,
			"rpc_relay_lock_redis_errors_total operation=release":             0,
			"rpc_relay_lock_redis_errors_total operation=heartbeat":           0,
			"rpc_relay_lock_queue_rejoins_total strategy=local":               0,
			"rpc_relay_lock_queue_rejoins_total strategy=redis":               0,
			"lockstep_lock_redis_up":                                          0,
			"lockstep_lock_fail_open_total":                                   0,
			"lockstep_lane_evicted_total":                                     0,
			"lockstep_lane_holes_total":                                       1,
			"lockstep_lock_lost_total":                                        1,
			"lockstep_lanes state=busy":                                       1,
			"lockstep_lanes state=idle":                                       0,
			"lockstep_ordering_settings_differ":                               0,
			"lockstep_ordering_enabled":                                       1,
			"lockstep_ordering_window_seconds":                                0,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		last.Leave()
		if n := series(t, svc)["rpc_relay_lock_active_count strategy=local"]; n != 0 {
			t.Errorf("%v active", n)
		}
	})
}

// L26 across an outage: gauges change their label with the strategy and end at nothing.
func TestMetricsAcrossAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := swift()
	cfg.RedisTimeout = envx.Millis(5 * time.Second)
	svc, cable := process(t, server.Addr(), cfg, nil)
	holder := wait(t, enter(t, svc, 0))
	var tickets []*lock.Ticket
	for i := range uint64(5) {
		tickets = append(tickets, enter(t, svc, i+1))
	}
	waiting := func(strategy string) float64 {
		return series(t, svc)["rpc_relay_lock_waiting_txns strategy="+strategy]
	}
	if n := waiting("redis"); n != 5 {
		t.Errorf("%v wait by Redis", n)
	}
	cable.sever()
	eventually(t, "local", func() bool { return waiting("local") == 5 && waiting("redis") == 0 })
	holder.Release()
	wait(t, tickets[0]).Release()
	cable.mend()
	eventually(t, "redis", func() bool { return waiting("redis") == 3 && waiting("local") == 0 || waiting("redis") == 4 })
	drain(t, tickets[1:], nil)
	drained(t, svc)
	got := series(t, svc)
	for _, name := range []string{
		"rpc_relay_lock_waiting_txns strategy=local", "rpc_relay_lock_waiting_txns strategy=redis",
		"rpc_relay_lock_active_count strategy=local", "rpc_relay_lock_active_count strategy=redis",
	} {
		if got[name] != 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	for _, name := range []string{
		"lockstep_lock_fail_open_total", "rpc_relay_lock_acquisitions_total status=fail strategy=redis",
	} {
		if got[name] == 0 {
			t.Errorf("%s is 0 although Redis was away", name)
		}
	}
}

// A log line tells sender, nonce and fence; nothing at all is logged below the level.
func TestLogs(t *testing.T) {
	var out lines
	svc := must.Get(lock.New(arrivalOrder(), lock.Deps{Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}))(t)
	wait(t, enter(t, svc, 7)).Release()
	for _, word := range []string{"lock acquired", "lock released", "nonce=7", "fence=", "held=", "waited=", "queue=0", alice.Hex()} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("no %q in %s", word, out.String())
		}
	}
}

// curious looks at all lanes whenever a line is written, as nobody could who is called under
// a lane's mutex.
type curious struct {
	slog.Handler
	svc *lock.Service
}

func (c *curious) Handle(ctx context.Context, r slog.Record) error {
	c.svc.Lanes()
	return c.Handler.Handle(ctx, r)
}

// At level trace every step of a ticket is told. However slow the log is, it holds up no lane.
func TestTraceLogs(t *testing.T) {
	server := redistest.Start(t)
	var out lines
	log := &curious{Handler: slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug - 4})}
	svc := must.Get(lock.New(arrivalOrder(), lock.Deps{Redis: server.Client(), Log: slog.New(log)}))(t)
	log.svc = svc
	defer running(t, svc)()
	ready(t, svc)
	first, second, third := enter(t, svc, 7), enter(t, svc, 9), enter(t, svc, 8)
	lease := wait(t, first)
	advance(lease, 7)
	lease.Release()
	wait(t, third) // it carries the expected nonce
	second.Leave()
	if taken, err := svc.ForceRelease(t.Context(), alice); !taken || err != nil {
		t.Errorf("release by force: %t, %v", taken, err)
	}
	for _, line := range []string{"ticket drawn", "told redis", "place left", "lock lost"} {
		eventually(t, line, func() bool { return strings.Contains(out.String(), line) })
	}
}

// requestKey is where a test puts the name of a request.
type requestKey struct{}

// naming is a logger of a program that finds the name of the request in the context.
type naming struct{ slog.Handler }

func (h naming) Handle(ctx context.Context, r slog.Record) error {
	if name, ok := ctx.Value(requestKey{}).(string); ok {
		r.AddAttrs(slog.String("request", name))
	}
	return h.Handler.Handle(ctx, r)
}

// Lines about a ticket that somebody waits for, or about its turn, are written with the context of that wait.
func TestLogsWithTheContextOfTheRequest(t *testing.T) {
	var out lines
	svc := must.Get(lock.New(arrivalOrder(), lock.Deps{Log: slog.New(naming{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug - 4})})}))(t)
	holder := must.Get(enter(t, svc, 7).Wait(context.WithValue(t.Context(), requestKey{}, "first")))(t)
	gone, leave := context.WithCancel(context.WithValue(t.Context(), requestKey{}, "second"))
	leave()
	if _, err := enter(t, svc, 8).Wait(gone); err == nil {
		t.Fatal("a turn that is taken was given")
	}
	if found, err := svc.ForceRelease(t.Context(), alice); !found || err != nil {
		t.Fatal(found, err)
	}
	holder.Release()
	for what, who := range map[string]string{"lock acquired": "first", "lock lost": "first", "place left": "second"} {
		if !slices.ContainsFunc(strings.Split(out.String(), "\n"), func(line string) bool {
			return strings.Contains(line, what) && strings.Contains(line, "request="+who)
		}) {
			t.Errorf("no line %q of request %s in %s", what, who, out.String())
		}
	}
}

// What is logged of a change of those who are ordered says who they are, and nothing where nobody is, before or after.
func TestChangesOfTheRolloutAreTold(t *testing.T) {
	var out bytes.Buffer
	cfg := lock.DefaultConfig()
	svc := must.Get(lock.New(cfg, lock.Deps{Log: slog.New(slog.NewTextHandler(&out, nil))}))(t)
	for _, step := range []struct {
		on      bool
		percent float64
		senders envx.Strings
		ordered string
		told    bool
	}{
		{true, 100, nil, "all senders", false},
		{true, 0, nil, "0 % of senders", true},
		{true, 0, nil, "0 % of senders", false},
		{true, 12.5, nil, "12.5 % of senders", true},
		{true, 12.5, envx.Strings{alice.Hex()}, "1 listed and 12.5 % of the others", true},
		{true, 100, envx.Strings{alice.Hex()}, "1 listed sender", true},
		{false, 0, envx.Strings{alice.Hex(), stranger(1).Hex()}, "2 listed senders", false},
		{false, 100, nil, "all senders", false},
	} {
		svc.SetEnabled(step.on)
		out.Reset()
		cfg.Percent, cfg.Senders = step.percent, step.senders
		svc.SetRollout(cfg)
		if got := svc.Ordered(); got != step.ordered {
			t.Errorf("%+v: %s", step, got)
		}
		if told := strings.Contains(out.String(), "the senders that are ordered were changed") && strings.Contains(out.String(), "ordered=\""+step.ordered+"\""); told != step.told || !told && out.Len() > 0 {
			t.Errorf("%+v: %s", step, out.String())
		}
	}
}

// Who is ordered is changed while a service runs: newcomers go by the new settings, and a sender with
// transactions in line stays ordered until they are gone.
func TestRolloutChangesAtRunTime(t *testing.T) {
	svc := newLocal(t, func(c *lock.Config) { c.Senders = envx.Strings{alice.Hex()} })
	inLine := enter(t, svc, 7)
	next := arrivalOrder()
	next.Percent, next.Senders = 50, envx.Strings{}
	svc.SetRollout(next)
	n := 0
	for i := range uint64(1000) {
		if svc.Enabled(stranger(i)) {
			n++
		}
	}
	if n < 400 || n > 600 {
		t.Errorf("%d of 1,000 are ordered", n)
	}
	next.Percent = 0
	svc.SetRollout(next)
	if !svc.Enabled(alice) {
		t.Error("alice is not ordered, and a transaction of hers is in line: a new one would overtake it")
	}
	inLine.Leave()
	if svc.Enabled(alice) || svc.Enabled(stranger(1)) {
		t.Error("somebody is ordered at zero percent")
	}
	next.Percent = 100
	svc.SetRollout(next)
	if !svc.Enabled(alice) || !svc.Enabled(stranger(1)) {
		t.Error("somebody is not ordered at a hundred percent")
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg := lock.DefaultConfig()
	if window := cfg.Window.Duration(); window != 250*time.Millisecond {
		t.Errorf("without NONCE_GAP_HOLD_MS a transaction waits for its predecessor for %v; docs/ORDERING.md says 250 ms", window)
	}
	if err := cfg.Check(); err != nil {
		t.Errorf("the defaults cannot work: %v", err)
	}
}
