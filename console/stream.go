package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// MaxStreams is how many pages can listen at the same time.
const MaxStreams = 16

const (
	streamEvery    = time.Second
	streamPatience = 10 * time.Second // for a client that does not read
	streamQuiet    = 15 * time.Second // after so long a comment shows that the stream lives
)

// streams tell every page that listens of each new state. The state is made for all of them
// at once, by the first that finds it old.
type streams struct {
	make func(context.Context) State

	mu    sync.Mutex
	open  int
	text  []byte // the newest state as JSON
	since time.Time
}

func newStreams(make func(context.Context) State) *streams { return &streams{make: make} }

// newest returns the state, at most streamEvery old.
func (s *streams) newest(ctx context.Context) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil || time.Since(s.since) >= streamEvery {
		text, err := json.Marshal(s.make(ctx))
		if err == nil {
			s.text, s.since = text, time.Now()
		}
	}
	return s.text
}

func (s *streams) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == MaxStreams {
		return false
	}
	s.open++
	return true
}

func (s *streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// ServeHTTP sends states until the client goes, or the server ends.
func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many pages listen already", http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	send := func(text ...[]byte) error {
		// A server that sets no deadlines has none to move.
		_ = out.SetWriteDeadline(time.Now().Add(streamPatience))
		for _, t := range text {
			if _, err := w.Write(t); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	var last []byte
	var sent time.Time
	for {
		var err error
		switch text := s.newest(r.Context()); {
		case !bytes.Equal(text, last):
			err = send([]byte("data: "), text, []byte("\n\n"))
			last, sent = text, time.Now()
		case time.Since(sent) > streamQuiet:
			err = send([]byte(": nothing new\n\n"))
			sent = time.Now()
		}
		if err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
