package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"
)

// Costs are what a transaction costs. The suite measures them.
type Costs struct {
	Relay  time.Duration // processor time of the relay
	Redis  time.Duration // processor time of Redis, for place and turn
	Bus    time.Duration // processor time of each other shard, for each turn that goes to one that waits
	Beside time.Duration // processor time of the load and the network, which counts if all are together

	Hop     time.Duration    // from a relay to Redis, or back
	Mirror  [2]time.Duration // the look-ups that run while a transaction waits; drawn evenly between two
	Node    [2]time.Duration // a submission, as the relay sees it; drawn evenly between two
	Verdict time.Duration    // from there to the verdict, outside the turn
}

// Fleet is what serves.
type Fleet struct {
	Relays     int
	Processors int // of each relay
	Shards     int // of Redis
	Together   int // processors that all share; 0: each has its own
}

// Result is what a simulation shows.
type Result struct {
	Rate       float64 // transactions accepted a second
	Relay      float64 // utilisation of the busiest relay
	Redis      float64 // utilisation of the busiest shard
	Machine    float64 // utilisation of what all share, if they are together
	Bottleneck string  // what is busy for 90 % of its time or more: "relay", "Redis", "machine"; else "lane"
	P50, P99   time.Duration
	Answered   int
}

var errFleet = errors.New("sim: a fleet has one relay, one processor and one shard at least, and a load one sender")

func (f Fleet) valid() bool {
	return f.Relays > 0 && f.Processors > 0 && f.Shards > 0 && f.Together >= 0
}

type run struct {
	world
	costs   Costs
	rng     *rand.Rand
	relays  []*station
	shards  []*station
	beside  *station // nil unless all are together
	took    []time.Duration
	counted int // answers since the count began
	last    time.Duration
	done    func(t *transaction)
}

// sender is a lane: its places in Redis, and whose turn it is.
type sender struct {
	shard  *station
	next   int // nonce
	sent   int // nonce of the next one that leaves
	held   bool
	places map[int]*transaction
}

type transaction struct {
	from  *sender
	relay *station
	nonce int
	began time.Duration
	facts time.Duration // when they are there
}

func newRun(f Fleet, c Costs, seed uint64) *run {
	r := &run{costs: c, rng: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // a simulation repeats by its seed
	if f.Together > 0 {
		r.beside = r.station(f.Together)
	}
	add := func(n, processors int) (list []*station) {
		for range n {
			if r.beside != nil {
				list = append(list, r.beside)
			} else {
				list = append(list, r.station(processors))
			}
		}
		return list
	}
	r.relays, r.shards = add(f.Relays, f.Processors), add(f.Shards, 1)
	return r
}

// newSender is one whose hash chooses a shard.
func (r *run) newSender() *sender {
	return &sender{shard: r.shards[r.rng.IntN(len(r.shards))], places: map[int]*transaction{}}
}

func (r *run) draw(between [2]time.Duration) time.Duration {
	if between[1] <= between[0] {
		return between[0]
	}
	return between[0] + time.Duration(r.rng.Int64N(int64(between[1]-between[0])))
}

// aside does the work of the load and of the network, if it counts.
func (r *run) aside(then func()) {
	if r.beside == nil {
		then()
		return
	}
	r.beside.do(r.costs.Beside/2, then)
}

// send is the first half of a transaction's way, up to its place in Redis.
func (r *run) send(t *transaction) {
	t.began = r.now
	r.aside(func() {
		t.relay.do(r.costs.Relay/2, func() {
			t.facts = r.now + r.draw(r.costs.Mirror)
			r.after(r.costs.Hop, func() {
				t.from.shard.do(r.costs.Redis/2, func() {
					t.from.places[t.nonce] = t
					r.grant(t.from)
				})
			})
		})
	})
}

// grant gives the turn to the next nonce, if it is there and nobody has the turn.
func (r *run) grant(s *sender) (granted bool) {
	t, ok := s.places[s.next]
	if !ok || s.held {
		return false
	}
	delete(s.places, s.next)
	s.held = true
	r.after(r.costs.Hop, func() {
		r.after(max(0, t.facts-r.now), func() {
			t.relay.do(r.costs.Relay/4, func() {
				r.aside(func() { r.after(r.draw(r.costs.Node), func() { r.accepted(t) }) })
			})
		})
	})
	return true
}

// tell takes the news of a turn to all other shards: a Cluster passes what is published to each of its servers.
func (r *run) tell(from *station) {
	if r.costs.Bus <= 0 || len(r.shards) < 2 {
		return
	}
	for _, s := range r.shards {
		if s != from {
			s.do(r.costs.Bus, func() {})
		}
	}
}

func (r *run) accepted(t *transaction) {
	t.relay.do(r.costs.Relay/8, func() {
		s := t.from
		r.after(r.costs.Hop, func() {
			s.shard.do(r.costs.Redis/2, func() {
				s.held = false
				s.next++
				if r.grant(s) {
					r.tell(s.shard)
				}
			})
		})
		r.after(r.costs.Verdict, func() {
			t.relay.do(r.costs.Relay/8, func() {
				r.counted++
				r.last = r.now
				r.took = append(r.took, r.now-t.began)
				r.done(t)
			})
		})
	})
}

func (r *run) result(span time.Duration) Result {
	out := Result{Answered: r.counted}
	if span > 0 {
		out.Rate = float64(r.counted) / span.Seconds()
	}
	if r.beside != nil {
		out.Machine = r.beside.utilisation()
	} else {
		for _, s := range r.relays {
			out.Relay = max(out.Relay, s.utilisation())
		}
		for _, s := range r.shards {
			out.Redis = max(out.Redis, s.utilisation())
		}
	}
	const full = .9
	out.Bottleneck = "lane"
	switch top := max(out.Machine, out.Relay, out.Redis); {
	case top < full:
	case top == out.Machine:
		out.Bottleneck = "machine"
	case top == out.Relay:
		out.Bottleneck = "relay"
	default:
		out.Bottleneck = "Redis"
	}
	slices.Sort(r.took)
	if n := len(r.took); n > 0 {
		out.P50, out.P99 = r.took[n/2], r.took[n*99/100]
	}
	return out
}

// Burst lets senders send count transactions each, spacing apart, through the relays in turn,
// and ends when all are answered.
func Burst(f Fleet, c Costs, senders, count int, spacing time.Duration, seed uint64) (Result, error) {
	if !f.valid() || senders < 1 || count < 1 {
		return Result{}, errFleet
	}
	r := newRun(f, c, seed)
	r.done = func(*transaction) {}
	for i := range senders {
		s := r.newSender()
		for n := range count {
			t := &transaction{from: s, relay: r.relays[(i+n)%f.Relays], nonce: n}
			r.after(time.Duration(n)*spacing+spacing*time.Duration(i)/time.Duration(senders), func() { r.send(t) })
		}
	}
	r.run(1<<63 - 1)
	return r.result(r.last), nil
}

// Constant keeps as many transactions of each sender under way as window says: whenever one is
// answered the next one leaves, through any relay. It counts from half of the time given on.
func Constant(f Fleet, c Costs, senders, window int, lasts time.Duration, seed uint64) (Result, error) {
	if !f.valid() || senders < 1 || window < 1 || lasts <= 0 {
		return Result{}, errFleet
	}
	r := newRun(f, c, seed)
	next := func(s *sender) {
		s.sent++
		r.send(&transaction{from: s, relay: r.relays[r.rng.IntN(f.Relays)], nonce: s.sent - 1})
	}
	r.done = func(t *transaction) { next(t.from) }
	for i := range senders {
		s := r.newSender()
		for range window {
			r.after(lasts/8*time.Duration(i)/time.Duration(senders), func() { next(s) })
		}
	}
	r.run(lasts / 2)
	r.counted, r.took = 0, nil
	r.now = lasts / 2
	for _, s := range slices.Concat(r.relays, r.shards) {
		s.count()
		s.reset()
	}
	r.run(lasts)
	r.now = lasts
	return r.result(lasts - lasts/2), nil
}

// Limit is the greatest rate by division alone: what the busiest station can do if all others
// are idle and all shares are even. Waiting says whether turns go to those that wait.
func Limit(f Fleet, c Costs, waiting bool) float64 {
	if f.Together > 0 {
		return float64(f.Together) / (c.Relay + c.Redis + c.Beside).Seconds()
	}
	shard := c.Redis
	if waiting {
		shard += time.Duration(f.Shards-1) * c.Bus
	}
	return min(float64(f.Relays*f.Processors)/c.Relay.Seconds(), float64(f.Shards)/shard.Seconds())
}

// Capacity is Constant with so many senders that the fleet is full.
func Capacity(f Fleet, c Costs, window int, seed uint64) (Result, error) {
	if !f.valid() || window < 1 || c.Relay <= 0 || c.Redis <= 0 {
		return Result{}, errFleet
	}
	// Each round of all transactions takes over × trip, so that several rounds have gone before the count begins.
	const over, lasts = 3, time.Second
	trip := c.Relay + c.Redis + 4*c.Hop + c.Mirror[1] + c.Node[1] + c.Verdict
	under := over * Limit(f, c, window > 1) * trip.Seconds()
	return Constant(f, c, max(100, int(under)/window), window, lasts, seed)
}
