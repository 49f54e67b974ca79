package watch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// deadAfter is how old a heartbeat is when a process that has not said so is taken for dead.
	deadAfter = 15 * time.Second
	// longTrouble is how long a chain may be out of reach before this process is of no use.
	longTrouble = time.Minute
	pingWait    = 3 * time.Second
	// farBehind is how many blocks behind are worth a word.
	farBehind = 100
)

// Condition says whether this process does its work. The reasons name no address or error, which could hold a secret: the
// log has them.
type Condition struct {
	Ready bool `json:"ready"`
	// Reasons say why it is not ready.
	Reasons []string `json:"reasons"`
	// Degraded says what does not work, although this process is as good as any other would be.
	Degraded []string `json:"degraded"`
	// Done names the watches that have read all up to their last block.
	Done []string `json:"done,omitempty"`
}

// troubles remembers what does not work, and since when.
type troubles struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// note remembers that something does not work, or forgets it. It reports whether it did not know that: for a line in the log.
func (t *troubles) note(what string, broken bool) (fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch _, known := t.since[what]; {
	case !broken:
		delete(t.since, what)
	case !known:
		if t.since == nil {
			t.since = map[string]time.Time{}
		}
		t.since[what] = time.Now()
		return true
	}
	return false
}

// list names what has not worked for a while, sorted.
func (t *troubles) list(atLeast time.Duration) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []string{}
	for what, since := range t.since {
		if age := time.Since(since); age >= atLeast {
			list = append(list, fmt.Sprintf("%s for %v", what, age.Round(time.Second)))
		}
	}
	slices.Sort(list)
	return list
}

// Condition checks whether this process does its work.
func (s *Service) Condition(ctx context.Context) Condition {
	c := Condition{Reasons: s.blind.list(longTrouble), Degraded: s.deaf.list(0)}
	ctx, cancel := context.WithTimeout(ctx, pingWait)
	defer cancel()
	if err := s.db.Ping(ctx); err != nil {
		c.Reasons = append(c.Reasons, "the database does not answer")
	}
	if s.older.Load() {
		c.Reasons = append(c.Reasons, "the fleet follows another plan than this process has; lockstep watch plan shows the differences")
	}
	switch at := s.metrics.beat.Load(); {
	case at == 0:
		c.Reasons = append(c.Reasons, "the fleet does not know this process yet")
	case time.Since(time.Unix(0, at)) > deadAfter:
		c.Reasons = append(c.Reasons, fmt.Sprintf("the fleet has not heard of this process for %v", time.Since(time.Unix(0, at)).Round(time.Second)))
	}
	ends := false
	for i := range s.cfg.Plan.Watches {
		ends = ends || s.cfg.Plan.Watches[i].End != nil
	}
	if ends {
		list, _ := s.States(ctx) // without the database there is a reason above
		for _, st := range list {
			if st.Done {
				c.Done = append(c.Done, fmt.Sprintf("watch %s is done: it has read up to block %d, its end", st.Name, *st.End))
			}
		}
	}
	for _, chain := range s.cfg.Plan.Chains {
		lag, ok := s.lags.Load(chain.ID)
		if !ok {
			continue
		}
		switch n := lag.(*atomic.Uint64).Load(); {
		case s.cfg.ReadyLag > 0 && n > s.cfg.ReadyLag:
			c.Reasons = append(c.Reasons, fmt.Sprintf("%d blocks behind chain %d", n, chain.ID))
		case n > farBehind:
			c.Degraded = append(c.Degraded, fmt.Sprintf("%d blocks behind chain %d", n, chain.ID))
		}
	}
	for _, what := range s.blind.list(0) {
		if !slices.Contains(c.Reasons, what) {
			c.Degraded = append(c.Degraded, what)
		}
	}
	c.Ready = len(c.Reasons) == 0
	return c
}
