package watch

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// behind is how many blocks a process is behind the head when it is catching up and not just reading.
	behind = 64
	// progressEvery is how often it tells then how far it is, and progressLines of how many watches: those that are furthest behind.
	progressEvery = 5 * time.Second
	progressLines = 8
)

// stand is how far a watch was at a time.
type stand struct {
	at     time.Time
	next   uint64 // first block that was not read for all its contracts
	events int64  // found so far
}

// speed is how fast a watch went from one stand to another, and how long it takes at that for a number of blocks.
func (s stand) speed(from stand, lag uint64) (blocks, events float64, left time.Duration) {
	took := s.at.Sub(from.at).Seconds()
	if took <= 0 || s.events < from.events { // what was found is counted anew
		return 0, 0, 0
	}
	blocks, events = float64(s.next-from.next)/took, float64(s.events-from.events)/took
	if blocks > 0 {
		left = time.Duration(float64(lag) / blocks * float64(time.Second))
	}
	return blocks, events, left
}

// progress tells people how far a process is while it catches up.
type progress struct {
	at     time.Time // when it looked last
	told   bool
	found  map[string]int64 // events by watch
	speeds speeds
}

// count notes events that were found of a watch.
func (p *progress) count(watch string, n int) {
	if p.found == nil {
		p.found = map[string]int64{}
	}
	p.found[watch] += int64(n)
}

// logNow is called with the next block to read and the head. It asks for the next block of each watch now and then.
func (p *progress) logNow(ctx context.Context, log *slog.Logger, chain, next, head uint64, watches func() map[string]uint64) {
	lagOf := func(next uint64) uint64 { return head + 1 - min(next, head+1) }
	now := time.Now()
	switch {
	case lagOf(next) < behind && p.told:
		log.InfoContext(ctx, "caught up", "chain", chain, "block", head)
		*p = progress{}
		return
	case lagOf(next) < behind:
		*p = progress{}
		return
	case now.Sub(p.at) < progressEvery:
		return
	}
	begins := p.at.IsZero()
	p.at, p.told = now, p.told || !begins
	is := watches()
	names := sortedKeys(is)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(is[a], is[b]) })
	for i, name := range names {
		stand, lag := stand{now, is[name], p.found[name]}, lagOf(is[name])
		blocks, events, left := stand.speed(p.speeds.of(name, stand), lag)
		if begins || i >= progressLines || lag < behind {
			continue
		}
		fields := []any{"chain", chain, "watch", name, "block", is[name], "lag", lag, "blocksPerSecond", int64(blocks), "eventsPerSecond", int64(events)}
		if left > 0 {
			fields = append(fields, "eta", left.Round(time.Second))
		}
		log.InfoContext(ctx, "catching up", fields...)
	}
}

// positions are the next blocks of the watches.
func (w *worker) positions() map[string]uint64 {
	list := map[string]uint64{}
	for _, c := range w.contracts {
		at, known := list[c.watch.Name]
		if next := w.position(c); !c.watch.over(next) && (!known || next < at) {
			list[c.watch.Name] = next
		}
	}
	return list
}

// speeds remembers how far the watches of the fleet were when somebody asked, to say how fast they are.
type speeds struct {
	mu  sync.Mutex
	all map[string][]stand
}

const (
	speedBack  = time.Minute // how far a speed looks back
	speedEvery = time.Second
)

// of notes where a watch is, and returns where it was: the longest ago that is not too long.
func (s *speeds) of(watch string, is stand) (was stand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string][]stand{}
	}
	list := slices.DeleteFunc(s.all[watch], func(x stand) bool { return is.at.Sub(x.at) > speedBack || x.next > is.next })
	if n := len(list); n == 0 || is.at.Sub(list[n-1].at) >= speedEvery {
		list = append(list, is)
	}
	s.all[watch] = list
	return list[0]
}
