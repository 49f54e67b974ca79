package lock_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"lockstep/internal/envx"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	"lockstep/lock"
)

const childURL = "LOCKSTEP_LOCK_TEST_CHILD"

// TestMain lets the test binary be a process of its own that takes orders.
func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := child(url, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Most tests wait for processes and deadlines: more of them fit side by side than
	// there are processors.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ignored := []goleak.Option{
		// The client's own, which looks once a second whether a server is back, or its client closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		// The proxy's own: it stays behind where a connection ends while a fault is put on it.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
	}
	code := m.Run()
	leak := goleak.Find(ignored...)
	for end := time.Now().Add(patience); leak != nil && time.Now().Before(end); leak = goleak.Find(ignored...) { // machines are slow
	}
	if code == 0 && leak != nil {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

// childLives is set for a child that nothing takes for dead before the hold limit.
const childLives = "LOCKSTEP_LOCK_TEST_CHILD_LIVES"

func childSettings() lock.Config {
	if os.Getenv(childLives) == "" {
		return mortal()
	}
	cfg := arrivalOrder()
	cfg.HeartbeatInterval, cfg.RedisTimeout = envx.Millis(100*time.Millisecond), envx.Millis(time.Minute)
	return cfg
}

// child runs a service. Orders: "enter n", "wait", "check", "release", each answered by one line.
func child(url string, in io.Reader, out io.Writer) error {
	client, err := redisx.Open(url, redisx.Options{Timeout: childSettings().RedisTimeout.Duration()})
	if err != nil {
		return err
	}
	svc, err := lock.New(childSettings(), lock.Deps{Redis: client, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = svc.Run(ctx) }()
	for !svc.RedisUp() || !svc.Pushed() {
		<-time.After(time.Millisecond)
	}
	fmt.Fprintln(out, "ready")
	var ticket *lock.Ticket
	var lease *lock.Lease
	for scan := bufio.NewScanner(in); scan.Scan(); {
		order, _, _ := strings.Cut(scan.Text(), " ")
		var err error
		switch order {
		case "enter":
			ticket, err = svc.Enter(alice, 1)
		case "wait":
			lease, err = ticket.Wait(ctx)
		case "check":
			err = lease.Check()
		case "release":
			lease.Release()
		}
		strategy := "-"
		if lease != nil {
			strategy = lease.Turn().Strategy
		}
		fmt.Fprintf(out, "%s %s %v\n", order, strategy, err)
	}
	return nil
}

// other is a child process.
type other struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func newOther(t *testing.T, url string, environ ...string) *other {
	t.Helper()
	o := &other{t: t, cmd: exec.Command(os.Args[0])}
	o.cmd.Env = append(append(os.Environ(), childURL+"="+url), environ...)
	o.cmd.Stderr = os.Stderr
	in, err := o.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	o.in, o.out = in, bufio.NewScanner(out)
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = o.cmd.Process.Kill()
		_ = o.cmd.Wait()
	})
	if got := o.read(); got != "ready" {
		t.Fatalf("the child says %q", got)
	}
	return o
}

func (o *other) read() string {
	o.t.Helper()
	if !o.out.Scan() {
		o.t.Fatalf("the child ended: %v", o.out.Err())
	}
	return o.out.Text()
}

func (o *other) send(order string) {
	o.t.Helper()
	if _, err := fmt.Fprintln(o.in, order); err != nil {
		o.t.Fatal(err)
	}
}

func (o *other) do(order string) string {
	o.t.Helper()
	o.send(order)
	return o.read()
}

func (o *other) freeze() { o.t.Helper(); o.must(proctest.Freeze(o.cmd.Process)) }

func (o *other) thaw() { o.t.Helper(); o.must(proctest.Thaw(o.cmd.Process)) }

func (o *other) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// observer are settings of a process that judges others, and is not too late to judge them on a slow machine.
func observer() lock.Config {
	cfg := arrivalOrder()
	cfg.HeartbeatInterval = envx.Millis(time.Second)
	return cfg
}

// L10: kill -9 of the holder. The next one does not wait for its hold limit.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := newOther(t, server.URL())
	o.do("enter")
	if got := o.do("wait"); got != "wait redis <nil>" {
		t.Fatal(got)
	}
	svc, _ := onRedis(t, server.URL(), observer(), lock.Deps{})
	next := enter(t, svc, 2)
	o.must(o.cmd.Process.Kill())
	start := time.Now()
	lease := wait(t, next)
	t.Logf("the next one waited %v", time.Since(start))
	if lease.Turn().Strategy != "redis" {
		t.Error("not by Redis")
	}
	lease.Release()
}

// stopping is a holder and one that waits, both processes of their own, and one that waits here.
type stopping struct {
	holder, waiter *other
	mine           *lock.Ticket
	look           *redis.Client
}

func newStopping(t *testing.T, environ ...string) stopping {
	t.Helper()
	server := redistest.Start(t)
	s := stopping{holder: newOther(t, server.URL(), environ...), waiter: newOther(t, server.URL(), environ...), look: server.Client()}
	s.holder.do("enter")
	if got := s.holder.do("wait"); got != "wait redis <nil>" {
		t.Fatal(got)
	}
	s.waiter.do("enter")
	eventually(t, "the other is queued", func() bool { return s.places(t) == 1 })
	svc, _ := onRedis(t, server.URL(), observer(), lock.Deps{})
	s.mine = enter(t, svc, 3)
	eventually(t, "ours is queued", func() bool { return s.places(t) == 2 })
	return s
}

func (s stopping) places(t *testing.T) int64 { return s.look.LLen(t.Context(), queueKey(alice)).Val() }

// A pause shorter than the heartbeat's life costs nobody anything, however many heartbeats are missed.
func TestPausedProcess(t *testing.T) {
	t.Parallel()
	s := newStopping(t, childLives+"=1")
	for _, o := range []*other{s.holder, s.waiter} {
		o.freeze()
	}
	<-time.After(3 * time.Second) // 30 heartbeats, and time for looks at them
	for _, o := range []*other{s.holder, s.waiter} {
		o.thaw()
	}
	if got := s.holder.do("check"); got != "check redis <nil>" {
		t.Fatalf("after a pause: %s", got)
	}
	if n := s.places(t); n != 2 {
		t.Fatalf("after a pause %d places are left", n)
	}
}

// L3, L5, L23: a process that is stopped for longer than its heartbeat lasts is taken for dead.
// When it goes on, its turn is lost and it knows. The third does not wait for the hold limit, although two processes
// died, one behind the other.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	s := newStopping(t)
	holder, waiter, c := s.holder, s.waiter, s.look
	holder.freeze()
	waiter.freeze()
	lease := wait(t, s.mine)
	holder.thaw()
	if got := holder.do("check"); !strings.Contains(got, "lost") {
		t.Errorf("the holder that was stopped: %s", got)
	}
	holder.do("release")
	waiter.thaw()
	waiter.send("wait")
	eventually(t, "the one that was stopped queues again", func() bool { return c.LLen(t.Context(), queueKey(alice)).Val() == 1 })
	if err := lease.Check(); err != nil {
		t.Errorf("our turn: %v", err)
	}
	lease.Release()
	if got := waiter.read(); got != "wait redis <nil>" {
		t.Error(got)
	}
	if got := waiter.do("check"); got != "check redis <nil>" {
		t.Error(got)
	}
}

// proxy puts toxiproxy between a service and a server.
func proxy(t *testing.T, server *redistest.Server) *toxiproxy.Proxy {
	t.Helper()
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop()), "redis", "127.0.0.1:0", server.Addr())
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func toxic(t *testing.T, p *toxiproxy.Proxy, json string) {
	t.Helper()
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(json)); err != nil {
		t.Fatal(err)
	}
}

// L3, L7, L8: slow, half-open and dropped connections.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		toxic  string
		shared bool // the order between processes must hold all the same
	}{
		"latency":   {`{"name":"x","type":"latency","stream":"downstream","attributes":{"latency":40,"jitter":30}}`, true},
		"half-open": {`{"name":"x","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`, false},
		"reset":     {`{"name":"x","type":"reset_peer","stream":"downstream","attributes":{"timeout":5}}`, false},
		"slicer":    {`{"name":"x","type":"slicer","stream":"downstream","attributes":{"average_size":3,"size_variation":2,"delay":10}}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			p := proxy(t, server)
			cfg := steady()
			if name == "half-open" {
				cfg.RedisTimeout = envx.Millis(400 * time.Millisecond)
			}
			a, _ := process(t, p.Listen, cfg, nil)
			b, _ := process(t, server.Addr(), cfg, nil)
			tr := &traffic{}
			tr.send(t, a, "a", 20, 2*time.Millisecond)
			tr.send(t, b, "b", 20, 2*time.Millisecond)
			toxic(t, p, tc.toxic)
			tr.done(t, 10*time.Second)
			if tc.shared && tr.overlaps.Load() > 0 {
				t.Errorf("%d overlaps", tr.overlaps.Load())
			}
			wait(t, enter(t, a, 1)).Release()
			if err := p.Toxics.RemoveToxic(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			sharedAgain(t, server, a, b)
		})
	}
}

// A failover that loses the lock: the next master is used without a restart.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	group := redistest.StartSentinel(t)
	a, _ := onRedis(t, group.URL(), swift(), lock.Deps{})
	b, _ := onRedis(t, group.URL(), swift(), lock.Deps{})
	tr := &traffic{}
	tr.send(t, a, "a", 40, 5*time.Millisecond)
	tr.send(t, b, "b", 40, 5*time.Millisecond)
	eventually(t, "the burst is under way", func() bool { return tr.count() >= 10 })
	group.Failover()
	tr.done(t, 10*time.Second)
	eventually(t, "the new master is used", func() bool { return a.RedisUp() && b.RedisUp() })
	sharedAgain(t, group.Replica, a, b)
}
