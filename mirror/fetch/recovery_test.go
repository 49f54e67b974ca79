package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/secret"
)

// broken is a mirror node that fails in some way until it is well.
type broken struct {
	fail  func(*http.Request) (*http.Response, error)
	well  atomic.Bool
	asked atomic.Int64
}

func (b *broken) RoundTrip(r *http.Request) (*http.Response, error) {
	b.asked.Add(1)
	if !b.well.Load() {
		return b.fail(r)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

// A mirror node that is well again is noticed within a second, whatever was wrong with it, for however long, and
// whenever it ended: no request is refused from memory for longer than that.
func TestRecoveryIsNoticedWithinASecond(t *testing.T) {
	failures := map[string]func(*http.Request) (*http.Response, error){
		"refuses connections": func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		"answers 503": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
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
	node := &broken{fail: fail}
	f := newFetcher(t, config, Deps{Transport: node, Newest: ignored})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	defer running.Wait()
	defer cancel()

	ask := func() {
		running.Go(func() { _, _ = f.Do(ctx, Request{Label: "x", Path: "x"}, ignored) })
	}
	for slices.ContainsFunc(f.Upstreams(), func(u UpstreamStatus) bool { return u.Open }) { // until all are left alone
		ask()
		<-time.After(100 * time.Millisecond)
	}
	for end := time.Now().Add(outage); time.Now().Before(end); {
		ask()
		<-time.After(min(250*time.Millisecond, time.Until(end)))
	}
	node.well.Store(true)
	well := time.Now()
	<-time.After(time.Second)
	for range 200 {
		if _, err := f.Do(ctx, Request{Label: "x", Path: "x"}, ignored); err != nil {
			t.Fatalf("%v after it was well: %v", time.Since(well), err)
		}
		<-time.After(10 * time.Millisecond)
	}
}
