package locksim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/internal/envx"
	"lockstep/lock"
)

// Scenario is everything that a seed decides.
type Scenario struct {
	Seed         uint64
	Scene        string
	Relays       int
	MaxHold      time.Duration
	Window       time.Duration // how long a transaction that is ahead waits; 0: the order of arrival decides
	Consensus    time.Duration // with a window: from a transaction's bytes to its verdict
	MirrorLag    time.Duration // with a window: how old is what the mirror node shows
	Network      Network
	Transactions []*Transaction
	Faults       []*Fault
}

// Network says how calls travel.
type Network struct {
	Usual time.Duration // most delays are below it
	Spike float64       // share of the delays that are long
	Long  time.Duration
	Loss  float64 // share of the calls of lanes that are lost, or whose answers are
	Twice float64 // share of them that are executed twice
}

func (n Network) delay(random *rand.Rand) time.Duration {
	// Nanoseconds are drawn too, so that hardly anything happens in the same instant.
	d := 20*time.Microsecond + time.Duration(random.Int64N(int64(n.Usual)))
	if random.Float64() < n.Spike {
		d += time.Duration(random.Int64N(int64(n.Long)))
	}
	return d
}

// Moment is when something happened, and which of all it was. The zero value is never.
type Moment struct {
	At   time.Duration
	Step int
}

func (m Moment) ever() bool           { return m.Step != 0 }
func (m Moment) before(o Moment) bool { return m.ever() && o.ever() && m.Step < o.Step }
func (m Moment) orEver(o Moment) Moment {
	if m.ever() {
		return m
	}
	return o
}

// Transaction is one that a client sends, and what became of it.
type Transaction struct {
	At     time.Duration
	Relay  int
	Sender int
	Nonce  uint64        // no two of a simulation have the same: without a window its number, with one see drawWindow
	Leaves time.Duration // after that its client gives up, unless it has the turn; 0 = never
	Thinks time.Duration // from the turn to the check
	Holds  time.Duration // from the check to the release
	Looks  time.Duration // with a window: how long the mirror node takes to answer

	Entered, Joined, Left, Granted, Sent, Released, Over Moment
	Waits                                                Moment // since when it waits for its turn; never, if it does not
	Looked                                               Moment // with a window: when the mirror node had answered first
	Refused                                              int    // likewise: how often the network refused it for its nonce
	Fence                                                uint64
	Strategy                                             string
	Err                                                  error
}

// FaultKind names a fault.
type FaultKind string

// The faults.
const (
	Crash    FaultKind = "crash"
	Stop     FaultKind = "stop"
	Resume   FaultKind = "resume"
	HangUp   FaultKind = "hang-up"  // a relay's subscription ends
	CutOff   FaultKind = "cut-off"  // one relay does not reach Redis, or does again
	Outage   FaultKind = "outage"   // nobody does, or everybody again
	Failover FaultKind = "failover" // another server takes over, without the last changes
	Memory   FaultKind = "memory"   // there is none left, or there is again
	Join     FaultKind = "join"     // one more relay
	Jump     FaultKind = "jump"     // the clock of Redis jumps ahead, by less than what makes heartbeats expire
)

// Fault is one, and when it comes.
type Fault struct {
	At    time.Duration
	Kind  FaultKind
	Relay int
	Reach reach
	Lost  int // changes; negative = all
	Skew  time.Duration
	Full  bool
	Came  Moment
}

// End is when the last transaction arrives, and the last fault.
func (p Scenario) End() (end time.Duration) {
	for _, t := range p.Transactions {
		end = max(end, t.At)
	}
	for _, f := range p.Faults {
		end = max(end, f.At)
	}
	return end
}

// litters tells whether places may stay in Redis until somebody waits, or for their lifetime: those of
// the dead, and those that a failover brought back.
func (p Scenario) litters() bool {
	return slices.ContainsFunc(p.Faults, func(f *Fault) bool { return f.Kind == Crash || f.Kind == Failover })
}

func (p Scenario) config() lock.Config {
	c := lock.DefaultConfig()
	c.Window = envx.Millis(p.Window)
	c.MaxHold = envx.Millis(p.MaxHold)
	if p.Window > 0 {
		c.Recovery = envx.Millis(recovery)
	}
	return c
}

// Scenes are the kinds of scenarios. In the first three Redis decides all the time, so that nothing is given up.
var Scenes = []string{"calm", "death", "stop", "outage", "failover", "all"}

const (
	traffic = time.Second     // when it begins: all relays have met Redis by then
	span    = 6 * time.Second // in which everything begins
)

// recovery is NONCE_RECOVERY_MS with a window: shorter than the default, so that a simulation ends sooner.
const recovery = 20 * time.Second

// windows are drawn by the number of the seed alone, so that what a seed without one shows stays what it was.
var windows = []time.Duration{0, 250 * time.Millisecond, 0, 2 * time.Second, 0}

// NewScenario draws the scenario of a seed.
func NewScenario(seed uint64) Scenario {
	p := Scenario{Seed: seed, Scene: Scenes[seed%uint64(len(Scenes))], MaxHold: 8 * time.Second}
	random := p.random("scenario", 0)
	between := func(low, high time.Duration) time.Duration {
		return low + time.Duration(random.Int64N(int64(high-low)))
	}
	p.Relays = 2 + random.IntN(2)
	p.Network = Network{
		Usual: []time.Duration{time.Millisecond, 5 * time.Millisecond, 40 * time.Millisecond}[random.IntN(3)],
		Spike: []float64{0, 0.02, 0.2}[random.IntN(3)], Long: 170 * time.Millisecond,
		Loss: []float64{0, 0.03, 0.2}[random.IntN(3)], Twice: []float64{0, 0.05}[random.IntN(2)],
	}
	senders, count := 1+random.IntN(2), 6+random.IntN(20)
	longest := []time.Duration{5 * time.Millisecond, 60 * time.Millisecond, 400 * time.Millisecond}[random.IntN(3)]
	at := traffic
	pace := int64(span) / int64(count) / int64(1+random.IntN(4)) * 2
	for n := range count {
		at += time.Duration(random.Int64N(pace))
		t := &Transaction{
			At: at, Relay: random.IntN(p.Relays), Sender: random.IntN(senders), Nonce: uint64(n + 1),
			Thinks: between(1, longest), Holds: between(1, longest),
		}
		if random.Float64() < 0.08 {
			t.Leaves = between(1, 500*time.Millisecond)
		}
		p.Transactions = append(p.Transactions, t)
	}
	p.drawFaults(random, between)
	if p.Window = windows[seed/uint64(len(Scenes))%uint64(len(windows))]; p.Window > 0 {
		p.drawWindow(p.random("window", 0))
		if round := seed / uint64(len(Scenes)*len(windows)); round%4 == 2 {
			for _, t := range p.Transactions {
				t.Relay = t.Sender // one relay serves all of a sender
			}
		}
	}
	slices.SortStableFunc(p.Faults, func(a, b *Fault) int { return cmp.Compare(a.At, b.At) })
	return p
}

// firstNonce is the nonce of a sender's first transaction. The senders have different nonces, so that a nonce names a
// transaction.
func firstNonce(sender int) uint64 { return 1 + 1000*uint64(sender) }

// drawWindow gives each sender consecutive nonces, and lets them come out of order. In some scenarios one never comes.
func (p *Scenario) drawWindow(random *rand.Rand) {
	p.Consensus = []time.Duration{60 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second}[random.IntN(3)]
	p.MirrorLag = []time.Duration{0, 500 * time.Millisecond, 3 * time.Second}[random.IntN(3)]
	late := int64([]time.Duration{p.Window / 10, p.Window / 2, 2 * p.Window}[random.IntN(3)])
	next := []uint64{firstNonce(0), firstNonce(1)}
	for _, t := range p.Transactions {
		t.Nonce = next[t.Sender]
		next[t.Sender]++
		t.At += time.Duration(random.Int64N(late))
		t.Looks = time.Duration(1 + random.Int64N(int64(60*time.Millisecond)))
	}
	if random.IntN(4) == 0 {
		n := random.IntN(len(p.Transactions))
		p.Transactions = slices.Delete(p.Transactions, n, n+1)
	}
	if random.IntN(3) == 0 {
		jump := time.Duration(random.Int64N(int64(time.Second)))
		p.Faults = append(p.Faults, &Fault{At: traffic + time.Duration(random.Int64N(int64(span))), Kind: Jump, Skew: jump})
	}
}

func (p *Scenario) drawFaults(random *rand.Rand, between func(low, high time.Duration) time.Duration) {
	add := func(f Fault) { p.Faults = append(p.Faults, &f) }
	when := func() time.Duration { return between(traffic, traffic+span) }
	for range random.IntN(3) {
		add(Fault{At: when(), Kind: HangUp, Relay: random.IntN(p.Relays)})
	}
	is := func(scene string) bool { return p.Scene == scene || p.Scene == "all" && random.IntN(2) == 0 }
	if is("death") {
		for victim := range 1 + random.IntN(p.Relays-1) {
			add(Fault{At: when(), Kind: Crash, Relay: victim})
		}
		if random.IntN(2) == 0 {
			add(Fault{At: when(), Kind: Join})
		}
	}
	if is("stop") {
		for victim := range p.Relays {
			if random.IntN(3) == 0 && victim > 0 {
				continue
			}
			from := when()
			add(Fault{At: from, Kind: Stop, Relay: victim})
			add(Fault{At: from + between(100*time.Millisecond, []time.Duration{500 * time.Millisecond, 6 * time.Second}[random.IntN(2)]), Kind: Resume, Relay: victim})
		}
	}
	length := func() time.Duration {
		return between(5*time.Millisecond, []time.Duration{100 * time.Millisecond, 2 * time.Second, 6 * time.Second}[random.IntN(3)])
	}
	if is("outage") {
		from, way := when(), []reach{refused, silent}[random.IntN(2)]
		switch random.IntN(3) {
		case 0:
			add(Fault{At: from, Kind: Outage, Reach: way})
			add(Fault{At: from + length(), Kind: Outage, Reach: reachable})
		case 1:
			add(Fault{At: from, Kind: CutOff, Reach: way, Relay: random.IntN(p.Relays)})
			add(Fault{At: from + length(), Kind: CutOff, Reach: reachable, Relay: p.Faults[len(p.Faults)-1].Relay})
		default:
			add(Fault{At: from, Kind: Memory, Full: true})
			add(Fault{At: from + length(), Kind: Memory})
		}
	}
	if is("failover") {
		from, lost := when(), random.IntN(9)
		if random.IntN(3) == 0 {
			lost = -1
		}
		skew := between(-20*time.Millisecond, 20*time.Millisecond)
		if random.IntN(2) == 0 {
			add(Fault{At: from, Kind: Failover, Lost: lost, Skew: skew})
			return
		}
		add(Fault{At: from, Kind: Outage, Reach: refused})
		add(Fault{At: from + 1, Kind: Failover, Lost: lost, Skew: skew})
		add(Fault{At: from + 1 + length(), Kind: Outage, Reach: reachable})
	}
}

// String tells what the seed has drawn.
func (p Scenario) String() string {
	return fmt.Sprintf("%s, window %v, consensus %v, mirror node %v behind, %d relays, %d transactions, %d faults, network %+v", p.Scene, p.Window, p.Consensus, p.MirrorLag, p.Relays, len(p.Transactions), len(p.Faults), p.Network)
}
