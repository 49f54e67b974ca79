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
		"rest":       {`{"_status":{"messages":[{"message":"Invalid parameter: limit"}]}}`, Error{Status: 400, Message: "Invalid parameter: limit"}},
		"web3":       {`{"_status":{"messages":[{"message":"Bad Request","detail":"gas field must be","data":""}]}}`, Error{Status: 400, Message: "Bad Request", Detail: "gas field must be"}},
		"revert":     {`{"_status":{"messages":[{"message":"CONTRACT_REVERT_EXECUTED","detail":"no","data":"0x08"},{"message":"INSUFFICIENT_GAS","detail":"","data":"0x"}]}}`, Error{Status: 400, Message: "CONTRACT_REVERT_EXECUTED", Detail: "no", Data: "0x08", Children: []Message{{"INSUFFICIENT_GAS", "", "0x"}}}},
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
