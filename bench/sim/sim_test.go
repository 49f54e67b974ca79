package sim

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > within*math.Abs(want) {
		t.Errorf("%s is %.6g, want %.6g within %.0f %%", what, got, want, within*100)
	}
}

// arrivals come at random times to one processor that takes the same time for each: M/D/1.
func queue(seed uint64, load float64) *station {
	const work = time.Millisecond
	w := &world{}
	s := w.station(1)
	rng := rand.New(rand.NewPCG(seed, 1))
	left := 200_000
	var come func()
	come = func() {
		s.do(work, func() {})
		if left--; left > 0 {
			w.after(time.Duration(rng.ExpFloat64()*float64(work)/load), come)
		}
	}
	w.after(0, come)
	w.run(1<<63 - 1)
	return s
}

func TestQueueWithConstantWork(t *testing.T) {
	for _, load := range []float64{.3, .5, .8} {
		s := queue(1, load)
		near(t, "utilisation", s.utilisation(), load, .02)
		// Pollaczek and Khinchine: the mean wait is load/(2(1-load)) of the work.
		near(t, "mean time inside, ms", float64(s.stayed)/float64(s.left)/1e6, 1+load/(2*(1-load)), .04)
	}
}

func TestLittlesLaw(t *testing.T) {
	s := queue(2, .7)
	span := s.world.now - s.since
	inside := float64(s.area) / float64(span)
	arrivals := float64(s.left) / span.Seconds()
	near(t, "mean number inside", inside, arrivals*(float64(s.stayed)/float64(s.left)/1e9), 1e-9)
}

func TestProcessorsWorkBesideEachOther(t *testing.T) {
	w := &world{}
	s := w.station(3)
	for range 7 {
		s.do(time.Second, func() {})
	}
	w.run(1<<63 - 1)
	if w.now != 3*time.Second {
		t.Errorf("7 jobs of 1 s on 3 processors take %v, want 3s", w.now)
	}
	near(t, "utilisation", s.utilisation(), 7./9, 1e-9)
}

func costs() Costs {
	return Costs{
		Relay: 400 * time.Microsecond, Redis: 40 * time.Microsecond, Beside: 200 * time.Microsecond, Hop: 100 * time.Microsecond,
		Mirror: [2]time.Duration{2 * time.Millisecond, 4 * time.Millisecond}, Node: [2]time.Duration{5 * time.Millisecond, 10 * time.Millisecond},
		Verdict: 2 * time.Millisecond,
	}
}

func TestOneBottleneckIsReached(t *testing.T) {
	for _, c := range []struct {
		fleet Fleet
		want  float64
		which string
		much  float64
	}{
		{Fleet{Relays: 1, Processors: 1, Shards: 1}, 2500, "relay", .02},
		{Fleet{Relays: 2, Processors: 2, Shards: 1}, 10_000, "relay", .05},
		{Fleet{Relays: 20, Processors: 2, Shards: 1}, 25_000, "Redis", .02},
		{Fleet{Relays: 1, Processors: 1, Shards: 1, Together: 2}, 3125, "machine", .02},
	} {
		near(t, "the limit", Limit(c.fleet, costs(), false), c.want, 1e-9)
		for _, window := range []int{1, 4} {
			got, err := Capacity(c.fleet, costs(), window, 1)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "the rate", got.Rate, c.want, c.much)
			if got.Bottleneck != c.which {
				t.Errorf("the bottleneck of %+v is %s, want %s: %+v", c.fleet, got.Bottleneck, c.which, got)
			}
		}
	}
}

// TestClusterPassesNewsToAll has shards that each hear of each turn of the others, and relays that are never full.
func TestClusterPassesNewsToAll(t *testing.T) {
	c := costs()
	c.Redis, c.Bus = 100*time.Microsecond, 20*time.Microsecond
	f := Fleet{Relays: 40, Processors: 2, Shards: 6}
	near(t, "the limit of senders whose transactions wait", Limit(f, c, true), 30_000, 1e-9)
	waiting, err := Capacity(f, c, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the rate of senders whose transactions wait", waiting.Rate, 30_000, .1)
	alone, err := Capacity(f, c, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "the rate of senders with one transaction each", alone.Rate, 60_000, .1)
	if waiting.Bottleneck != "Redis" || alone.Bottleneck != "Redis" {
		t.Errorf("the bottlenecks are %s and %s, want Redis", waiting.Bottleneck, alone.Bottleneck)
	}
}

// TestOneSenderIsBoundByItsTurns has no processor time, so that a turn is two hops and the node.
func TestOneSenderIsBoundByItsTurns(t *testing.T) {
	c := costs()
	c.Relay, c.Redis, c.Beside, c.Mirror = 0, 0, 0, [2]time.Duration{}
	c.Node = [2]time.Duration{7 * time.Millisecond, 7 * time.Millisecond}
	const count = 100
	got, err := Burst(Fleet{Relays: 2, Processors: 1, Shards: 1}, c, 1, count, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	// The first joins by one hop; each turn is given on by two, but for the last, which only has its verdict.
	span := c.Hop + count*(c.Hop+c.Node[0]) + (count-1)*c.Hop + c.Verdict
	near(t, "the rate", got.Rate, count/span.Seconds(), 1e-9)
	if got.Answered != count || got.Bottleneck != "lane" {
		t.Errorf("%+v", got)
	}
}

func TestSeedDecides(t *testing.T) {
	f := Fleet{Relays: 3, Processors: 2, Shards: 3}
	one := func(seed uint64) Result {
		r, err := Burst(f, costs(), 50, 20, time.Millisecond, seed)
		if err != nil {
			t.Fatal(err)
		}
		if r.Answered != 1000 {
			t.Fatalf("%d of 1000 are answered", r.Answered)
		}
		return r
	}
	if a, b := one(7), one(7); !reflect.DeepEqual(a, b) {
		t.Errorf("one seed, two results: %+v and %+v", a, b)
	}
	if a, b := one(7), one(8); reflect.DeepEqual(a, b) {
		t.Errorf("two seeds, one result: %+v", a)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	if _, err := Burst(Fleet{}, costs(), 1, 1, 0, 1); err == nil {
		t.Error("a fleet without relays is taken")
	}
	if _, err := Constant(Fleet{Relays: 1, Processors: 1, Shards: 1}, costs(), 0, 1, time.Second, 1); err == nil {
		t.Error("a load without senders is taken")
	}
	if _, err := Capacity(Fleet{Relays: 1, Processors: 1, Shards: 1}, Costs{}, 1, 1); err == nil {
		t.Error("a fleet that costs nothing is taken")
	}
}
