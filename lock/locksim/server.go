package locksim

import (
	"strings"
	"sync"
	"time"
)

// server is the Redis of a simulation. What it executes, it executes at once and one after the other; how long
// words travel is for the network to say.
type server struct {
	w *world

	mu    sync.Mutex // guards all below
	store *store
	lua   *interpreter
	skew  time.Duration // of its clock
	subs  []*subscription
}

func newServer(w *world) *server {
	s := &server{w: w}
	s.store = newStore(func() time.Time { return time.Now().Add(s.skew) }, s.published)
	s.lua = newInterpreter(s.store)
	return s
}

// execute runs one command that a relay sent then.
func (s *server) execute(from *relay, at time.Duration, words []string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply, err := s.lua.execute(words)
	if err == nil {
		s.noteJoins(from, at, words)
		s.noteTurn(words)
	}
	return reply, err
}

// What a sync script has: three keys and 24 arguments.
const syncWords = 3 + 3 + 24

// noteJoins notes whom a claim speaks for.
func (s *server) noteJoins(from *relay, at time.Duration, words []string) {
	if strings.HasPrefix(words[0], "eval") && words[2] == "3" && len(words) == syncWords && words[10] != "" {
		s.w.claimed(from, at, words[3])
	}
}

// noteTurn notes when a turn of Redis began: its fence is new then.
func (s *server) noteTurn(words []string) {
	if s.w.scenario.Window == 0 || !strings.HasPrefix(words[0], "eval") || words[2] != "3" {
		return
	}
	// The value of the lock key begins with session|instance|fence: lua/sync.lua.
	if v := s.store.data[words[3]]; v != nil {
		if fields := strings.SplitN(v.text, "|", 4); len(fields) == 4 {
			s.w.gave(fields[2])
		}
	}
}

// published passes a message to whoever listens. It is called with mu held.
func (s *server) published(channel, payload string) {
	for _, sub := range s.subs {
		if sub.channel == channel {
			sub.queue(payload)
		}
	}
}

// lose makes the server one that has not got the last n changes, or nothing if n is negative. Its
// connections are cut.
func (s *server) lose(n int, skew time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < 0 {
		s.store.clear()
		clear(s.lua.known)
	}
	s.store.takeBack(n)
	s.skew += skew
	s.cut(nil)
}

// jump sets the clock ahead.
func (s *server) jump(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew += by
}

func (s *server) setFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.full = full
}

// hangUp cuts the subscriptions of a relay, or of all.
func (s *server) hangUp(of *relay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut(of)
}

func (s *server) cut(of *relay) {
	rest := s.subs[:0]
	for _, sub := range s.subs {
		if of == nil || sub.relay == of {
			sub.end()
		} else {
			rest = append(rest, sub)
		}
	}
	s.subs = rest
}

// left returns the keys of lanes that still have an owner or places.
func (s *server) left() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.begin()
	defer s.store.end()
	for key := range s.store.data {
		if strings.Contains(key, "{") && !strings.HasPrefix(key, "lock:memory:") && s.store.get(key) != nil {
			keys = append(keys, key)
		}
	}
	return keys
}
