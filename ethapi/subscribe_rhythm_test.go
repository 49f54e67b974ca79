package ethapi

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// play has a follower look at a chain whose blocks come at the given times, and returns how long after it each was
// found and how many looks that took.
func play(blocks []time.Duration, answer time.Duration) (late []time.Duration, looks int, widest time.Duration) {
	begin := time.Unix(1_700_000_000, 0)
	r := rhythm{interval: 500 * time.Millisecond}
	for now := begin; len(blocks) > 0; looks++ {
		found := 0
		for ; len(blocks) > 0 && !begin.Add(blocks[0]).After(now); blocks = blocks[1:] {
			late = append(late, now.Sub(begin.Add(blocks[0])))
			found++
		}
		r.saw(now, found)
		next := r.next(now)
		if earliest := now.Add(answer); next.Before(earliest) {
			next = earliest
		}
		widest = max(widest, next.Sub(now))
		now = next
	}
	return late, looks, widest
}

// TestBlocksOfAnEvenPaceAreFoundSoon: whatever the pace and wherever the looks began, a block is found within a step once
// the pace is known, and there are at most twice as many looks as intervals.
func TestBlocksOfAnEvenPaceAreFoundSoon(t *testing.T) {
	for _, period := range []time.Duration{2 * time.Second, 2345 * time.Millisecond, 12 * time.Second} {
		for phase := time.Duration(0); phase < 500*time.Millisecond; phase += 37 * time.Millisecond {
			var blocks []time.Duration
			for i := range 100 {
				blocks = append(blocks, phase+time.Duration(i)*period)
			}
			late, looks, widest := play(blocks, 5*time.Millisecond)
			if worst := slices.Max(late[20:]); worst > 70*time.Millisecond {
				t.Errorf("a block every %v, phase %v: found %v after it came", period, phase, worst)
			}
			if intervals := int(blocks[99]/(500*time.Millisecond)) + 1; looks > 2*intervals+20 {
				t.Errorf("a block every %v, phase %v: %d looks in %d intervals", period, phase, looks, intervals)
			}
			if widest > 500*time.Millisecond {
				t.Errorf("a block every %v, phase %v: two looks were %v apart", period, phase, widest)
			}
		}
	}
}

// TestBlocksOfAnUnevenPace: without a pace, with one that changes, and with one that stops, no block waits longer than an
// interval, and what is looked for in vain costs no more than a few looks.
func TestBlocksOfAnUnevenPace(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, gap := range map[string]func(i int) time.Duration{
		"at random": func(int) time.Duration { return time.Duration(random.Int64N(int64(6 * time.Second))) },
		"a little uneven": func(int) time.Duration {
			return 1800*time.Millisecond + time.Duration(random.Int64N(int64(400*time.Millisecond)))
		},
		"another pace": func(i int) time.Duration { return time.Duration(2+i/50) * time.Second },
		"stops for a while": func(i int) time.Duration {
			return 2*time.Second + time.Duration(i/50%2)*time.Duration(i%50/49)*time.Minute
		},
	} {
		var blocks []time.Duration
		at := time.Duration(0)
		for i := range 200 {
			at += gap(i)
			blocks = append(blocks, at)
		}
		late, looks, widest := play(blocks, 5*time.Millisecond)
		if worst := slices.Max(late); worst > 500*time.Millisecond || widest > 500*time.Millisecond {
			t.Errorf("%s: found %v after it came, looks %v apart", name, worst, widest)
		}
		if intervals := int(at/(500*time.Millisecond)) + 1; looks > 2*intervals+20 {
			t.Errorf("%s: %d looks in %d intervals", name, looks, intervals)
		}
	}
}

// A failure and a backlog end what is known of the pace.
func TestThePaceIsLost(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	known := func() *rhythm {
		r := &rhythm{interval: 500 * time.Millisecond}
		for i := range 10 {
			r.saw(begin.Add(time.Duration(i)*2*time.Second), 1)
		}
		return r
	}
	look := begin.Add(19700 * time.Millisecond)
	if next := known().next(look); !next.Before(look.Add(400 * time.Millisecond)) {
		t.Fatalf("looked for %v after the look, though a block is due 300 ms after it", next.Sub(look))
	}
	for name, lose := range map[string]func(r *rhythm){
		"a failure": (*rhythm).lose,
		"a backlog": func(r *rhythm) { r.saw(look, 3) },
	} {
		r := known()
		lose(r)
		if next := r.next(look); !next.Equal(look.Add(500 * time.Millisecond)) {
			t.Errorf("%s: the next look is %v later", name, next.Sub(look))
		}
	}
}
