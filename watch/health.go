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

// troubles remembers what does not work, since when, and why.
type troubles struct {
	mu  sync.Mutex
	all map[string]trouble
}

type trouble struct {
	since time.Time
	why   string
	told  time.Time // when the log had a line of it, and of what
	said  string
}

// toldAgain is how long after its line in the log a trouble has another, if its cause is another by then.
const toldAgain = 30 * time.Second

// note remembers why something does not work, or forgets it. It reports whether the log should have a line: when that is new, and when the cause is another
// after a while.
func (t *troubles) note(what string, err error) (tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.all, what)
		return false
	}
	now := time.Now()
	one, known := t.all[what]
	if !known {
		one.since = now
	}
	one.why = err.Error()
	if tell = !known || one.said != one.why && now.Sub(one.told) >= toldAgain; tell {
		one.told, one.said = now, one.why
	}
	if t.all == nil {
		t.all = map[string]trouble{}
	}
	t.all[what] = one
	return tell
}

// of returns since when something does not work, in microseconds since 1970, and why; 0 if it does.
func (t *troubles) of(what string) (since int64, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, known := t.all[what]
	if !known {
		return 0, ""
	}
	return one.since.UnixMicro(), one.why
}

// list names what has not worked for a while, sorted.
func (t *troubles) list(atLeast time.Duration) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []string{}
	for what, one := range t.all {
		if age := time.Since(one.since); age >= atLeast {
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
