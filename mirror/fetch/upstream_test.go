package fetch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/secret"
)

// defaults are the settings as an empty environment gives them.
func defaults(t testing.TB) Config {
	t.Helper()
	return must.Get(env.ParseAsWithOptions[Config](env.Options{Environment: map[string]string{}}))(t)
}

func newFetcher(t *testing.T, config Config, deps Deps) *Fetcher {
	t.Helper()
	deps.Log = slog.New(slog.DiscardHandler)
	f := must.Get(New(config, deps))(t)
	t.Cleanup(f.CloseIdleConnections)
	return f
}

// patience is how long a test waits for what must happen; machines that test are busy.
const patience = 2 * time.Minute

// ignored is what an answer says that nobody wants to know.
func ignored([]byte) (value any, newest uint64, err error) { return nil, 0, nil }

func TestBreakerTries(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	failure := errors.New("down")
	b := breaker{limit: 2, pause: time.Second}
	if b.failed(now, now, failure) || b.enter(now) != nil || b.state(now) != stateClosed {
		t.Error("open after one failure")
	}
	if !b.failed(now, now, failure) || !errors.Is(b.enter(now), failure) || b.state(now) != stateOpen {
		t.Error("closed after two")
	}
	now = now.Add(1250 * time.Millisecond) // the pause with most jitter
	if b.state(now) != stateHalfOpen || b.healthy(now) {
		t.Error("no try after the pause")
	}
	if b.enter(now) != nil || !errors.Is(b.enter(now), failure) {
		t.Error("want exactly one try")
	}
	for range 10 {
		b.failed(now, now, failure)
	}
	if !errors.Is(b.enter(now.Add(11*time.Second)), failure) || b.enter(now.Add(20*time.Second)) != nil {
		t.Error("the pause does not grow to 16 times, and no further")
	}
	if b.succeeded(now); b.enter(now) != nil || b.state(now) != stateClosed {
		t.Error("a success does not close it")
	}
	for range 3 {
		b.failed(now.Add(-time.Millisecond), now.Add(time.Second), failure)
	}
	if b.state(now.Add(time.Second)) != stateClosed {
		t.Error("requests that began before it was well open it")
	}
	refusal := errors.New("throttled")
	b.throttled(now.Add(time.Second), refusal)
	b.throttled(now, errors.New("a shorter one"))
	if !errors.Is(b.enter(now), refusal) || b.healthy(now) || b.state(now) != stateOpen || b.enter(now.Add(time.Second)) != nil {
		t.Error("Retry-After is not kept")
	}
	off := breaker{}
	for range 3 {
		if off.failed(now, now, failure) || off.enter(now) != nil {
			t.Error("a breaker that is off opens")
		}
	}
}

func TestBaseURL(t *testing.T) {
	for text, want := range map[string]string{
		"mirror.example": "https://mirror.example", "http://127.0.0.1:5551": "http://127.0.0.1:5551", "http://h:1/": "http://h:1",
		"https://h/api/v1/": "https://h", "https://h/proxy": "https://h/proxy", "localhost:5551": "https://localhost:5551",
	} {
		if u, err := baseURL(text); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
	for _, text := range []string{"ftp://h", "http://", "http://h?x=1", "http://h#x", "http://[::1", "://"} {
		if u, err := baseURL(text); err == nil {
			t.Errorf("%s is accepted as %s", text, u)
		}
	}
}

func TestAddresses(t *testing.T) {
	config := defaults(t)
	config.URL, config.Web3URL = "http://a:1/key, b ,http://a:1/other", "http://w"
	all := must.Get(config.upstreams())(t)
	var got []string
	for _, u := range all {
		got = append(got, u.name+" "+u.rest.base+" "+u.web3.base)
	}
	want := "a:1 http://a:1/key/api/v1/ http://w/api/v1/, b https://b/api/v1/ http://w/api/v1/, a:1#2 http://a:1/other/api/v1/ http://w/api/v1/"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
	config.Web3URL = "http://w,http://x"
	if err := config.Check(); err == nil || !strings.Contains(err.Error(), "MIRROR_NODE_URL_WEB3") {
		t.Errorf("two web3 addresses for three mirror nodes: %v", err)
	}
	config.URL = secret.URL(strings.Repeat("http://a,", maxUpstreams+1))
	if err := config.Check(); err == nil {
		t.Error("too many addresses are accepted")
	}
}

func TestErrorOf(t *testing.T) {
	tests := map[string]struct {
		body string
		want Error
	}{
		"rest":       {`{"_status":{"messages":[{"message":"Invalid parameter: limit"}]}}`, Error{Status: 400, Message: "Invalid parameter: limit", Told: true}},
		"web3":       {`{"_status":{"messages":[{"message":"Bad Request","detail":"gas field must be","data":""}]}}`, Error{Status: 400, Message: "Bad Request", Detail: "gas field must be", Told: true}},
		"revert":     {`{"_status":{"messages":[{"message":"CONTRACT_REVERT_EXECUTED","detail":"no","data":"0x08"},{"message":"INSUFFICIENT_GAS","detail":"","data":"0x"}]}}`, Error{Status: 400, Message: "CONTRACT_REVERT_EXECUTED", Detail: "no", Data: "0x08", Children: []Message{{"INSUFFICIENT_GAS", "", "0x"}}, Told: true}},
		"html":       {`<html>`, Error{Status: 400, Message: "Request failed with status code 400"}},
		"empty":      {``, Error{Status: 400, Message: "Request failed with status code 400"}},
		"other JSON": {`{"error":"x"}`, Error{Status: 400, Message: "Request failed with status code 400"}},
	}
	for name, test := range tests {
		if diff := cmp.Diff(&test.want, errorOf(400, []byte(test.body)), cmpopts.IgnoreUnexported(Error{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// What cannot wait is refused at once.
func TestThrottledReadsThatCannotWait(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		wait   string // seconds
		crowd  int32  // that waits already
		met    bool   // the one that met it is refused
		came   bool   // one that came meanwhile is
	}{
		"no time":   {func(c *Config) { c.Timeout = envx.Millis(10 * time.Second) }, "11", 0, true, true},
		"no room":   {nil, "1", maxWaiting, true, true},
		"no budget": {func(c *Config) { c.RetryBudget = 0 }, "1", 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				throttling := transport(func(r *http.Request) (*http.Response, error) {
					if asked.Add(1) > 1 {
						return saying(r, http.StatusOK), nil
					}
					answer := saying(r, http.StatusTooManyRequests)
					answer.Header.Set("Retry-After", test.wait)
					return answer, nil
				})
				config := defaults(t)
				config.URL, config.HedgeDelay = "http://mirror.example", 0
				if test.change != nil {
					test.change(&config)
				}
				f := newFetcher(t, config, Deps{Transport: throttling})
				f.waiting.Store(test.crowd)
				do := func() error {
					_, err := f.Do(t.Context(), Request{Label: "x", Path: "x"}, ignored)
					return err
				}
				first := make(chan error, 1)
				go func() { first <- do() }()
				synctest.Wait()
				if f.Upstreams()[0].Err == nil {
					t.Fatal("the mirror node does not throttle")
				}
				err := do()
				if got := throttled(err); got != test.came || !got && err != nil {
					t.Errorf("one that came meanwhile: %v", err)
				}
				if err := <-first; throttled(err) != test.met {
					t.Errorf("the one that met it: %v", err)
				}
				if f.waiting.Load() != test.crowd {
					t.Errorf("%d are still counted", f.waiting.Load())
				}
			})
		})
	}
}

// transport is a mirror node in the process.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// saying is an answer with a status.
func saying(r *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}
}

// slow is a mirror node that answers after a time.
type slow struct {
	mu       sync.Mutex
	takes    time.Duration // guarded by mu
	arrivals []time.Time   // guarded by mu
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.arrivals = append(s.arrivals, time.Now())
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return saying(r, http.StatusOK), nil
}

// hedge makes a request that is answered after a time, and returns when it was made
// again; 0 if it was not.
func (s *slow) hedge(t *testing.T, f *Fetcher, takes time.Duration) time.Duration {
	t.Helper()
	s.mu.Lock()
	s.takes, s.arrivals = takes, nil
	s.mu.Unlock()
	must.Get(f.Do(t.Context(), Request{Label: "x", Path: "x"}, ignored))(t)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch len(s.arrivals) {
	case 1:
		return 0
	case 2:
		return s.arrivals[1].Sub(s.arrivals[0])
	}
	t.Fatalf("%d requests", len(s.arrivals))
	return 0
}

// A request is made again when it takes longer than others of its kind have taken.
func TestHedgeFollowsLatency(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		node := new(slow)
		config := defaults(t)
		config.URL, config.RetryBudget = "http://mirror.example", 10
		config.HedgeDelay, config.HedgeDelayMax = envx.Millis(5*ms), envx.Millis(500*ms)
		f := newFetcher(t, config, Deps{Transport: node})
		expect := func(takes, want time.Duration) {
			t.Helper()
			if got := node.hedge(t, f, takes); got != want {
				t.Errorf("an answer after %v: made again after %v, want %v", takes, got, want)
			}
		}
		usually := func(takes time.Duration) {
			for range keptTimes + refreshed {
				node.hedge(t, f, takes)
			}
		}
		expect(100*ms, 5*ms) // nothing is known yet
		usually(101 * ms)
		expect(60*ms, 0)
		expect(300*ms, 101*ms)
		usually(3 * time.Second)
		expect(3*time.Second, 500*ms) // not longer than the longest
		usually(1 * ms)
		expect(50*ms, 5*ms) // nor shorter than the shortest
		if other := f.upstreams[0].usual("another kind"); other != 0 {
			t.Errorf("of another kind: %v", other)
		}
		f.config.HedgeDelayMax = 0
		usually(101 * ms)
		expect(50*ms, 5*ms) // always the same
	})
}

// A mirror node that is well again is noticed within a second, whatever was wrong with it, for however long, and
// whenever it ended: no request is refused from memory for longer than that.
func TestRecoveryIsNoticedWithinASecond(t *testing.T) {
	failures := map[string]func(*http.Request) (*http.Response, error){
		"refuses connections": func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		"answers 503": func(r *http.Request) (*http.Response, error) {
			return saying(r, http.StatusServiceUnavailable), nil
		},
		"hangs": func(r *http.Request) (*http.Response, error) { // also what it was asked before it is well
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
	}
	for name, fail := range failures {
		for _, urls := range []string{"http://one.example", "http://one.example,http://other.example"} {
			t.Run(name+" at "+urls, func(t *testing.T) {
				for _, outage := range []time.Duration{0, 30 * time.Second} {
					for phase := range 8 {
						synctest.Test(t, func(t *testing.T) { recovery(t, urls, fail, outage+time.Duration(173*phase)*time.Millisecond) })
					}
				}
			})
		}
	}
}

func recovery(t *testing.T, urls string, fail func(*http.Request) (*http.Response, error), outage time.Duration) {
	config := defaults(t)
	config.URL = secret.URL(urls)
	var isWell atomic.Bool
	node := transport(func(r *http.Request) (*http.Response, error) {
		if isWell.Load() {
			return saying(r, http.StatusOK), nil
		}
		return fail(r)
	})
	f := newFetcher(t, config, Deps{Transport: node, Newest: ignored})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	defer running.Wait()
	defer cancel()

	ask := func() {
		running.Go(func() { _, _ = f.Do(ctx, Request{Label: "x", Path: "x"}, ignored) })
	}
	for slices.ContainsFunc(f.Upstreams(), func(u UpstreamStatus) bool { return u.Err == nil }) { // until all are left alone
		ask()
		<-time.After(100 * time.Millisecond)
	}
	for end := time.Now().Add(outage); time.Now().Before(end); {
		ask()
		<-time.After(min(250*time.Millisecond, time.Until(end)))
	}
	isWell.Store(true)
	well := time.Now()
	<-time.After(time.Second)
	for range 200 {
		if _, err := f.Do(ctx, Request{Label: "x", Path: "x"}, ignored); err != nil {
			t.Fatalf("%v after it was well: %v", time.Since(well), err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// crowd is a mirror node that answers blocks at once, and anything else only when it is told to.
type crowd struct {
	mu      sync.Mutex
	now     int // guarded by mu; requests that it has
	highest int // guarded by mu
	release chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (c *crowd) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count(1)
	defer c.count(-1)
	if !strings.Contains(r.URL.Path, "/blocks") {
		select {
		case <-c.release:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func (c *crowd) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.highest = max(c.highest, c.now)
}

func crowded(t *testing.T, number int) (*Fetcher, *crowd) {
	config := defaults(t)
	config.URL, config.MaxSockets, config.BreakerFailures = secret.URL("http://mirror:80"), number, 1
	c := &crowd{release: make(chan struct{})}
	return newFetcher(t, config, Deps{Transport: c}), c
}

func TestRequestsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := crowded(t, 20)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := f.Do(t.Context(), Request{Label: "slow", Path: "slow"}, ignored); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if _, err := f.Do(ForSend(t.Context()), Request{Label: "slow", Service: Web3, Path: "slow"}, ignored); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		c.mu.Lock()
		highest := c.highest
		c.mu.Unlock()
		if highest != 20 {
			t.Errorf("%d requests at once, want 20", highest)
		}
		close(c.release)
		all.Wait()
	})
}

// asClient is the context of a request of the client with that address.
func asClient(t *testing.T, ip string) context.Context {
	return context.WithValue(t.Context(), capacity.Key{}, capacity.NewMemory(capacity.Config{}).Open(ip))
}

// Reads take all slots but those of sends; when these end, the reads that waited go on.
func TestReadsLeaveSendsTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := crowded(t, 20)
		slow, cancel := context.WithCancel(t.Context())
		other, cancelOther := context.WithCancel(asClient(t, "192.0.2.1"))
		defer cancelOther()
		var all sync.WaitGroup
		for range 9 {
			all.Go(func() { _, _ = f.Do(slow, Request{Label: "slow", Path: "slow"}, ignored) })
			all.Go(func() { _, _ = f.Do(other, Request{Label: "slow", Path: "slow"}, ignored) })
		}
		if synctest.Wait(); c.now != 18 {
			t.Fatalf("the reads have %d slots", c.now)
		}
		var waiting sync.WaitGroup
		for range 30 {
			waiting.Go(func() {
				if _, err := f.Do(t.Context(), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil {
					t.Errorf("a read: %v", err)
				}
			})
		}
		synctest.Wait()
		for range 10 {
			began := time.Now()
			if _, err := f.Do(ForSend(t.Context()), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil || time.Since(began) != 0 {
				t.Errorf("a send: %v after %v", err, time.Since(began))
			}
			if _, err := f.Do(t.Context(), Request{Label: "blocks", Path: "blocks", probe: true}, ignored); err != nil || time.Since(began) != 0 {
				t.Errorf("a probe: %v after %v", err, time.Since(began))
			}
		}
		cancel()
		cancelOther()
		all.Wait()
		waiting.Wait()
		if d := f.upstreams[0].rest; d.state(time.Now()) != stateClosed || len(d.slots.open)+len(d.slots.reserved) != 0 {
			t.Errorf("breaker %v, %d and %d slots taken", d.state(time.Now()), len(d.slots.open), len(d.slots.reserved))
		}
	})
}

func TestAReadWithoutASlotFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := crowded(t, 2)
		hold, err := f.slot(t.Context(), f.upstreams[0].rest, Request{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = f.Do(t.Context(), Request{Label: "blocks", Path: "blocks"}, ignored)
		var e *Error
		if !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable || e.Message != errNoSlot.Error() {
			t.Errorf("%v", err)
		}
		if waited := time.Since(began); waited != f.config.Timeout.Duration() {
			t.Errorf("it waited %v", waited)
		}
		if state := f.upstreams[0].rest.state(time.Now()); state != stateClosed {
			t.Errorf("the mirror node is blamed: breaker %v", state)
		}
		hold.free()
		if _, err := f.Do(t.Context(), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil {
			t.Error(err)
		}
	})
}

// A client whose reads take long does not keep others waiting: it has three slots of four, and of those that wait its
// reads go after theirs.
func TestAClientLeavesSlotsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := crowded(t, 20)
		var all sync.WaitGroup
		greedy, cancel := context.WithCancel(asClient(t, "192.0.2.1"))
		for range 100 {
			all.Go(func() { _, _ = f.Do(greedy, Request{Label: "slow", Path: "slow"}, ignored) })
		}
		synctest.Wait()
		if c.now != 14 {
			t.Errorf("one client has %d slots of 18", c.now)
		}
		for range 5 {
			began := time.Now()
			if _, err := f.Do(asClient(t, "192.0.2.2"), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil || time.Since(began) != 0 {
				t.Errorf("another client: %v after %v", err, time.Since(began))
			}
		}
		cancel()
		all.Wait()
		if _, err := f.Do(asClient(t, "192.0.2.1"), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil {
			t.Errorf("the client itself, later: %v", err)
		}
	})
}

func TestThereIsASlotForEverybody(t *testing.T) {
	for number, reserved := range map[int]int{1: 0, 2: 1, 10: 1, 11: 2, 300: 30} {
		if p := newSlots(number); cap(p.reserved) != reserved || cap(p.open) != number-reserved {
			t.Errorf("%d slots: %d for everybody, %d for sends", number, cap(p.open), cap(p.reserved))
		}
	}
}

// A send does not wait for the same read of a client, which may be waiting for a slot.
func TestSendsDoNotJoinReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		slow := reads{release: make(chan struct{})}
		first := depart(t.Context(), &f, &slow)
		quick := reads{release: make(chan struct{})}
		close(quick.release)
		if got := <-depart(ForSend(t.Context()), &f, &quick); got.value != int64(1) || got.err != nil {
			t.Errorf("the send: %v, %v", got.value, got.err)
		}
		close(slow.release)
		if got := <-first; got.err != nil {
			t.Error(got.err)
		}
		if slow.begun.Load() != 1 || quick.begun.Load() != 1 {
			t.Errorf("%d and %d reads", slow.begun.Load(), quick.begun.Load())
		}
	})
}

// reads counts what is read and lets it end when it is told to.
type reads struct {
	begun   atomic.Int64
	release chan struct{}
}

func (r *reads) read(ctx context.Context) (any, error) {
	n := r.begun.Add(1)
	select {
	case <-r.release:
		return n, nil
	case <-ctx.Done():
		return nil, errors.New("ended by its caller") // whatever it says then
	}
}

type flown struct {
	value any
	err   error
}

func depart(ctx context.Context, f *Flights, r *reads) <-chan flown {
	out := make(chan flown, 1)
	go func() {
		value, err := f.Do(ctx, "key", r.read)
		out <- flown{value, err}
	}()
	synctest.Wait()
	return out
}

func TestIdenticalReadsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		r := reads{release: make(chan struct{})}
		var all []<-chan flown
		for range 10 {
			all = append(all, depart(t.Context(), &f, &r))
		}
		close(r.release)
		for _, out := range all {
			if got := <-out; got.value != int64(1) || got.err != nil {
				t.Errorf("%v, %v", got.value, got.err)
			}
		}
		if len(f.calls) != 0 {
			t.Errorf("%d reads are under way", len(f.calls))
		}
	})
}

// Callers that wait lose nothing when the one that reads gives up: one of them reads
// anew, for all.
func TestReaderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		r := reads{release: make(chan struct{})}
		impatient, giveUp := context.WithCancel(t.Context())
		first := depart(impatient, &f, &r)
		second, third := depart(t.Context(), &f, &r), depart(t.Context(), &f, &r)
		giveUp()
		if got := <-first; got.err == nil {
			t.Errorf("the one that gave up: %v", got.value)
		}
		synctest.Wait()
		close(r.release)
		for _, out := range []<-chan flown{second, third} {
			if got := <-out; got.value != int64(2) || got.err != nil {
				t.Errorf("%v, %v; want what was read anew", got.value, got.err)
			}
		}
	})
}

// What the one that reads may not hold is no answer for the others: they read anew.
func TestReaderMayHoldNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		r := reads{release: make(chan struct{})}
		full := make(chan struct{})
		first := make(chan error, 1)
		go func() {
			_, err := f.Do(t.Context(), "key", func(context.Context) (any, error) {
				<-full
				return nil, &Error{Status: StatusNoAnswer, cause: &capacity.Exceeded{Scope: capacity.ScopeClient, Limit: 1}}
			})
			first <- err
		}()
		synctest.Wait()
		second := depart(t.Context(), &f, &r)
		close(full)
		var exceeded *capacity.Exceeded
		if err := <-first; !errors.As(err, &exceeded) {
			t.Errorf("the one that may hold no more: %v", err)
		}
		close(r.release)
		if got := <-second; got.value != int64(1) || got.err != nil {
			t.Errorf("%v, %v; want what was read anew", got.value, got.err)
		}
	})
}

// A caller that waits for another's read stops when its own context ends, and the read
// goes on.
func TestWaiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		r := reads{release: make(chan struct{})}
		first := depart(t.Context(), &f, &r)
		impatient, giveUp := context.WithCancel(t.Context())
		second := depart(impatient, &f, &r)
		giveUp()
		if got := <-second; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the one that gave up: %v, %v", got.value, got.err)
		}
		close(r.release)
		if got := <-first; got.value != int64(1) || got.err != nil {
			t.Errorf("%v, %v", got.value, got.err)
		}
	})
}
