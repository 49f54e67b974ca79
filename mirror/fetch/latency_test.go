package fetch

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

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
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
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
