package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/bench/sim"
)

// constants are what runs on this machine showed, one value for each run.
type constants struct {
	relay, redis, beside, commands []float64    // seconds of processor time, and commands, per transaction
	single                         []float64    // relay, with GOMAXPROCS=1
	rates                          [2][]float64 // of the crowd over one relay, with GOMAXPROCS 1 and 2
	node, hop, bus                 []float64    // seconds
	resident                       []float64    // bytes of a relay's process after the load
	echo                           []float64    // seconds of processor time of a bare net/http handler, per request
}

// echoes is what a transaction costs a relay, in requests of the bare handler: it tells the relay's own cost from the pace of a
// machine, which differs from hour to hour.
func (c *constants) echoes() float64 {
	return spreadOf(c.relay).Median / spreadOf(c.echo).Median
}

// costs are what the simulation takes: the medians.
func (c *constants) costs() sim.Costs {
	usual := usual()
	// The node draws its delay evenly; what the way there and back adds to it is in the median that was measured.
	late := max(0, seconds(spreadOf(c.node).Median)-(usual.Submit[0]+usual.Submit[1])/2)
	return sim.Costs{
		Relay: seconds(spreadOf(c.relay).Median), Redis: seconds(spreadOf(c.redis).Median), Beside: seconds(spreadOf(c.beside).Median),
		Bus: seconds(spreadOf(c.bus).Median), Hop: seconds(spreadOf(c.hop).Median),
		Mirror:  usual.Mirror,
		Node:    [2]time.Duration{usual.Submit[0] + late, usual.Submit[1] + late},
		Verdict: usual.Mirror[1],
	}
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// used is processor time so far, in seconds.
type used struct{ relays, redis, beside float64 }

func (a used) less(b used) used {
	return used{a.relays - b.relays, a.redis - b.redis, a.beside - b.beside}
}

var cpuLine = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([\d.]+)`)

// cpuTime is what the server itself says of its processor time, finer than /proc does.
func (s *redisServer) cpuTime(ctx context.Context) (total float64, err error) {
	info, err := s.admin.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	found := cpuLine.FindAllStringSubmatch(info, -1)
	if len(found) != 2 {
		return 0, fmt.Errorf("no processor time in what Redis tells: %q", info)
	}
	for _, m := range found {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, err
		}
		total += v
	}
	return total, nil
}

func (b *bed) used(ctx context.Context, relays []*relay) (u used, err error) {
	if u.redis, err = b.redis.cpuTime(ctx); err != nil {
		return u, err
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return u, err
	}
	u.relays = cpuOf(relays)
	u.beside = float64(self.Utime.Nano()+self.Stime.Nano())/1e9 + b.net.cpu()
	return u, nil
}

// weigh fires a load and adds what it cost per transaction.
func (b *bed) weigh(ctx context.Context, q load) (o outcome, cost used, err error) {
	var before, after used
	q.begins = func(ctx context.Context) (err error) {
		before, err = b.used(ctx, q.relays)
		return err
	}
	q.ended = func(ctx context.Context) (err error) {
		after, err = b.used(ctx, q.relays)
		return err
	}
	if o, err = b.lab.fire(ctx, b.net, b.redis, q); err != nil {
		return o, cost, err
	}
	if !o.Clean() {
		return o, cost, fmt.Errorf("%s: %d wrong nonce, %d unanswered, %d executed of %d", q.name, o.Chain.WrongNonce, o.Unanswered, o.Chain.Executed, o.Planned)
	}
	cost = after.less(before)
	n := float64(o.Planned)
	return o, used{cost.relays / n, cost.redis / n, cost.beside / n}, nil
}

// publish is the processor time of Redis for one PUBLISH that nobody hears.
func (s *redisServer) publish(ctx context.Context) (float64, error) {
	const batches, each = 40, 500
	before, err := s.cpuTime(ctx)
	if err != nil {
		return 0, err
	}
	for range batches {
		_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range each {
				p.Publish(ctx, "suite:nobody", strings.Repeat("x", 120))
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	after, err := s.cpuTime(ctx)
	return (after - before) / (batches * each), err
}

const (
	crowdSenders, crowdCount = 200, 20
	pairCount                = 100
)

// agreement is how far the simulation may be from what was measured, in percent, if it is to say anything of other fleets.
const agreement = 15

func wantAgreement(t *table) {
	for _, load := range []string{"one sender", "crowd"} {
		t.want(load+", simulated against measured", "%", never(agreement, strconv.Itoa(agreement)), "")
	}
}

// scaling measures what a transaction costs, simulates the two loads over two relays with that, and compares. The
// runs take turns, so that what else the machine does falls on all alike.
func scaling(ctx context.Context, l *lab, t *table, runs int) error {
	wantAgreement(t)
	b, err := l.bed(ctx, true)
	if err != nil {
		return err
	}
	defer b.close()
	var relays []*relay
	for _, processors := range []string{"1", "2", "2"} {
		r, err := b.relay(ctx, b.redis, "NONCE_GAP_HOLD_MS=30000", "GOMAXPROCS="+processors)
		if err != nil {
			return err
		}
		relays = append(relays, r)
	}
	echo, err := l.echo(ctx)
	if err != nil {
		return err
	}
	defer echo.kill()
	plain := reading{relay: echo, name: "scaling, echo", duration: readTime, connections: readClients, body: func(int) string { return ask("eth_chainId") }}
	single, one, two := relays[:1], relays[1:2], relays[1:]
	crowd := func(name string, relays []*relay) load {
		return load{name: name, relays: relays, senders: crowdSenders, count: crowdCount, spacing: apart, conduct: usual(), connections: 1000}
	}
	alone := func(name string, relays []*relay) load {
		return load{name: name, relays: relays, senders: 1, count: pairCount, spacing: apart, conduct: usual()}
	}
	c := &constants{}
	var lanes, crowds []float64
	for i := range runs + 1 {
		warm := i == 0 // the first round is not counted
		slow, small, err := b.weigh(ctx, crowd("scaling, one processor", single))
		if err != nil {
			return err
		}
		fast, cost, err := b.weigh(ctx, crowd("scaling, one relay", one))
		if err != nil {
			return err
		}
		line, _, err := b.weigh(ctx, alone("scaling, one sender", one))
		if err != nil {
			return err
		}
		lane, _, err := b.weigh(ctx, alone("scaling, one sender, two relays", two))
		if err != nil {
			return err
		}
		both, _, err := b.weigh(ctx, crowd("scaling, two relays", two))
		if err != nil {
			return err
		}
		bus, err := b.redis.publish(ctx)
		if err != nil {
			return err
		}
		answered, err := l.read(ctx, plain)
		if err != nil {
			return err
		}
		if warm {
			continue
		}
		c.single, c.relay, c.redis, c.beside = append(c.single, small.relays), append(c.relay, cost.relays), append(c.redis, cost.redis), append(c.beside, cost.beside)
		c.rates[0], c.rates[1] = append(c.rates[0], slow.rate()), append(c.rates[1], fast.rate())
		c.bus = append(c.bus, bus)
		c.echo = append(c.echo, answered.cpu/answered.requests)
		c.commands = append(c.commands, line.perTransaction(line.commands))
		c.node = append(c.node, line.submit)
		for range 100 {
			rtt, err := b.redis.ping(ctx)
			if err != nil {
				return err
			}
			c.hop = append(c.hop, rtt/2)
		}
		for _, r := range relays {
			c.resident = append(c.resident, r.rss())
		}
		lanes, crowds = append(lanes, lane.rate()), append(crowds, both.rate())
	}
	return c.compare(l, t, lanes, crowds)
}

// compare says what was measured and what the simulation makes of it.
func (c *constants) compare(l *lab, t *table, lanes, crowds []float64) error {
	costs := c.costs()
	together := sim.Fleet{Relays: 2, Processors: 2, Shards: 1, Together: l.processors()}
	lane, err := sim.Burst(together, costs, 1, pairCount, apart, 1)
	if err != nil {
		return err
	}
	many, err := sim.Burst(together, costs, crowdSenders, crowdCount, apart, 1)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name, unit string
		values     []float64
		factor     float64
	}{
		{"CPU of the relay, GOMAXPROCS=2", "µs/tx", c.relay, 1e6},
		{"CPU of the relay, GOMAXPROCS=1", "µs/tx", c.single, 1e6},
		{"CPU of a bare net/http echo", "µs/request", c.echo, 1e6},
		{"crowd, one relay, GOMAXPROCS=1, measured", "tx/s", c.rates[0], 1},
		{"crowd, one relay, GOMAXPROCS=2, measured", "tx/s", c.rates[1], 1},
		{"CPU of Redis", "µs/tx", c.redis, 1e6},
		{"CPU of Redis, one PUBLISH", "µs", c.bus, 1e6},
		{"CPU of the load and the network", "µs/tx", c.beside, 1e6},
		{"Redis commands, those inside scripts included", "/tx", c.commands, 1},
		{"a submission, as the relay sees it", "ms", c.node, 1e3},
		{"half a PING", "µs", c.hop, 1e6},
		{"resident memory of a relay", "MB", c.resident, 1. / (1 << 20)},
	} {
		for _, v := range f.values {
			t.ours(f.name, f.unit, v*f.factor)
		}
	}
	t.ours("CPU of the relay, GOMAXPROCS=2, in echoes", "/tx", c.echoes())
	var differences []float64
	for _, f := range []struct {
		name     string
		measured []float64
		said     sim.Result
	}{{"one sender", lanes, lane}, {"crowd", crowds, many}} {
		difference := 100 * math.Abs(f.said.Rate/spreadOf(f.measured).Median-1)
		differences = append(differences, difference)
		for _, v := range f.measured {
			t.ours(f.name+", two relays, measured", "tx/s", v)
		}
		t.ours(f.name+", two relays, simulated", "tx/s", f.said.Rate)
		t.ours(f.name+", simulated against measured", "%", difference)
	}
	t.note(fmt.Sprintf("One sender sends %d, 1 ms apart, each to the other relay; the crowd is %d senders with %d each. The simulation has the constants of one relay, and the %d processors that all share.",
		pairCount, crowdSenders, crowdCount, l.processors()))
	if l.scaling == "" {
		return nil
	}
	if worst := slices.Max(differences); worst > agreement {
		return fmt.Errorf("%s is not written: the simulation differs by %.1f %% from what two relays did, and %d %% is the limit", l.scaling, worst, agreement)
	}
	text, err := c.extrapolate(t)
	if err != nil {
		return err
	}
	return replaceBetween(l.scaling, text)
}

// extrapolate is the part of the document that a run writes.
func (c *constants) extrapolate(t *table) (string, error) {
	costs := c.costs()
	var out strings.Builder
	fmt.Fprintf(&out, "Measured %s, %s.\n\n### Constants and comparison\n\n", time.Now().UTC().Format(time.DateOnly), machine())
	out.WriteString("| | median (min–max) | target |  |\n|---|---|---|---|\n")
	for _, f := range t.Figures {
		target, met := "", ""
		if f.bound != nil {
			target, met = f.bound.text, "MISSED"
			if f.bound.met(f.ours) {
				met = "met"
			}
		}
		fmt.Fprintf(&out, "| %s, %s | %s | %s | %s |\n", f.name, f.unit, show(f.ours), target, met)
	}
	out.WriteString("\n### For 1,000 transactions a second\n\n| | of machines like this one, at this hour |\n|---|---|\n")
	fmt.Fprintf(&out, "| processors of relays, all busy | %s |\n", number(1000*costs.Relay.Seconds()))
	fmt.Fprintf(&out, "| processors of relays, 60 %% busy | %s |\n", number(1000*costs.Relay.Seconds()/.6))
	fmt.Fprintf(&out, "| share of one Redis | %s %% |\n", number(100*1000*costs.Redis.Seconds()))
	fmt.Fprintf(&out, "| Redis commands a second, those inside scripts included | %s |\n", number(1000*spreadOf(c.commands).Median))
	fmt.Fprintf(&out, "| scripts a second that relays send to Redis | 2000 |\n")
	fmt.Fprintf(&out, "| memory of each relay, MB | %s |\n", number(spreadOf(c.resident).Median/(1<<20)))
	for _, window := range []int{1, 4} {
		fmt.Fprintf(&out, "\n### Simulated: %s\n\n", map[int]string{1: "each sender has one transaction under way", 4: "each sender has four under way, through any relays"}[window])
		out.WriteString("Transactions a second, and what is full.\n\n| relays of 2 processors")
		shards := []int{1, 3, 6, 12}
		for _, n := range shards {
			if n == 1 {
				out.WriteString(" | one Redis")
			} else {
				fmt.Fprintf(&out, " | Cluster of %d", n)
			}
		}
		out.WriteString(" |\n" + strings.Repeat("|---", len(shards)+1) + "|\n")
		for _, relays := range []int{1, 2, 5, 10, 20, 50, 100} {
			fmt.Fprintf(&out, "| %d", relays)
			for _, n := range shards {
				r, err := sim.Capacity(sim.Fleet{Relays: relays, Processors: 2, Shards: n}, costs, window, 1)
				if err != nil {
					return "", err
				}
				fmt.Fprintf(&out, " | %.0f, %s", math.Round(r.Rate/100)*100, r.Bottleneck)
			}
			out.WriteString(" |\n")
		}
	}
	return out.String(), nil
}

const markBegin, markEnd = "<!-- begin: make bench-scaling -->\n", "<!-- end: make bench-scaling -->\n"

// replaceBetween replaces what stands between the markers of a document.
func replaceBetween(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, begun := strings.Cut(string(old), markBegin)
	_, tail, ended := strings.Cut(rest, markEnd)
	if !begun || !ended {
		return fmt.Errorf("%s has no markers %q and %q", path, markBegin, markEnd)
	}
	return os.WriteFile(path, []byte(head+markBegin+"\n"+text+"\n"+markEnd+tail), 0o644) //nolint:gosec // a document of the project
}
