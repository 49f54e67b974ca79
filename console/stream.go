package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"lockstep/internal/access"
)

// MaxStreams is how many pages can listen at the same time.
const MaxStreams = 16

// streamEvery is how long a state is good for.
const streamEvery = time.Second

// streams tell every page that listens of each new state. The state is made for all of them
// at once, by the first that finds it old.
type streams struct {
	state func(context.Context) State

	open  *semaphore.Weighted
	mu    sync.Mutex
	text  []byte // the newest state as JSON
	since time.Time
}

func newStreams(state func(context.Context) State) *streams {
	return &streams{state: state, open: semaphore.NewWeighted(MaxStreams)}
}

// newest returns the state, which is not older than streamEvery.
func (s *streams) newest(ctx context.Context) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil || time.Since(s.since) >= streamEvery {
		text, err := json.Marshal(s.state(ctx))
		if err == nil {
			s.text, s.since = text, time.Now()
		}
	}
	return s.text
}

// ServeHTTP sends states until the client goes, or the server ends.
func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.open.TryAcquire(1) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many pages listen already", http.StatusServiceUnavailable)
		return
	}
	defer s.open.Release(1)
	w.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	var told []byte
	// No error comes of it: the client has gone, or the server ends.
	_ = access.Stream(r.Context(), w, 0, func(ctx context.Context, after int64) (string, int64, error) {
		for {
			if text := s.newest(ctx); !bytes.Equal(text, told) {
				told = text
				return "data: " + string(text) + "\n\n", after + 1, nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return "", after, nil
			}
		}
	})
}
