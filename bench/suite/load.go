package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/bench"
)

// apart is the time between two transactions of one sender, the same as in the figures of the TypeScript relay.
const apart = time.Millisecond

// load is one burst of transactions.
type load struct {
	name           string // of the senders; each load has its own
	relays         []*relay
	state          *relay // answers what is not load; the first of relays if nil
	redis          bool   // whose work is counted, too
	senders, count int    // count is of each sender
	spacing        time.Duration
	sticky         bool
	webSocket      bool
	connections    int                             // of each URL; 0 = one for each transaction, with a maximum of 1,024
	timeout        time.Duration                   // of a request; 0 = that of package bench
	hold           bool                            // the network takes nothing until something else says so
	during         func(ctx context.Context) error // beside the load; its error ends the run
}

// outcome is what one load showed.
type outcome struct {
	bench.Report
	total    time.Duration // from the first request to the last answer
	ended    time.Time     // the last answer
	spent    spent
	arrivals []arrival
}

// spent is what is counted around a load.
type spent [6]float64

const (
	cpuSpent   = iota // of all relays in seconds
	commands          // of Redis
	redisSpent        // seconds
	submits           // as the relays saw it
	submitting        // the seconds that they took
	alone             // transactions that failing Redis left to the order of one process
)

// fire sends a load and reads from the chain what became of it.
func (b *fleet) fire(q load) (o outcome) {
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	beside := make(chan error, 1)
	var before spent
	var began time.Time
	funder, err := bench.ParseKey(b.net.Accounts[funderAccount].PrivateKey)
	b.must(err)
	cfg := bench.Config{
		StateURL: cmp.Or(q.state, q.relays[0]).url, ConsensusLog: b.net.URL,
		Senders: q.senders, Count: q.count, Spacing: q.spacing, Sticky: q.sticky, Connections: q.connections, Timeout: q.timeout,
		Funder: funder, Seed: q.name, Settle: 10 * time.Second,
	}
	for _, relay := range q.relays {
		url := relay.url
		if q.webSocket {
			url = relay.ws
		}
		cfg.URLs = append(cfg.URLs, url)
	}
	cfg.Before = func(ctx context.Context) (err error) {
		b.net.mark()
		if before, err = b.spent(ctx, q); err != nil {
			return err
		}
		c := usual()
		if q.hold {
			c = conduct{Hold: true}
		}
		b.net.behave(c)
		before[cpuSpent], began = cpuOf(q.relays), time.Now()
		go func() {
			if q.during != nil {
				beside <- q.during(ctx)
			}
			close(beside)
		}()
		return nil
	}
	cfg.After = func(ctx context.Context) (err error) {
		cpu := cpuOf(q.relays)
		o.ended = time.Now()
		o.total = o.ended.Sub(began)
		if err := <-beside; err != nil {
			return err
		}
		if o.spent, err = b.spent(ctx, q); err != nil {
			return err
		}
		o.spent[cpuSpent] = cpu
		o.arrivals = b.net.arrived()
		b.net.behave(conduct{})
		return nil
	}
	o.Report, err = bench.Run(ctx, cfg)
	if err == nil && o.Chain == nil {
		err = fmt.Errorf("the chain could not be asked: %s", o.ChainError)
	}
	if err != nil {
		b.must(fmt.Errorf("%s: %w", q.name, err))
	}
	for i, v := range before {
		o.spent[i] -= v
	}
	return o
}

func (b *fleet) spent(ctx context.Context, q load) (s spent, err error) {
	s[commands], s[redisSpent] = math.NaN(), math.NaN()
	if q.redis {
		if calls, cpu, err := b.redis.spent(ctx); err == nil { // it may have been killed on purpose
			s[commands], s[redisSpent] = calls, cpu
		}
	}
	for _, relay := range q.relays {
		for i, name := range map[int]string{
			submits: "rpc_relay_consensus_submit_seconds_count", submitting: "rpc_relay_consensus_submit_seconds_sum", alone: "lockstep_lock_fail_open_total",
		} {
			n, failed := relay.metric(ctx, name)
			s[i], err = s[i]+n, errors.Join(err, failed)
		}
	}
	return s, err
}

// handoffs are the times from the end of a sender's submission at the node to the arrival
// of its next, in milliseconds, in order of length.
func (o outcome) handoffs() (gaps []float64) {
	last := map[common.Address]arrival{}
	for _, a := range o.inOrder() {
		if before, ok := last[a.Sender]; ok && !before.Done.IsZero() {
			gaps = append(gaps, a.At.Sub(before.Done).Seconds()*1e3)
		}
		last[a.Sender] = a
	}
	slices.Sort(gaps)
	return gaps
}

func (o outcome) inOrder() []arrival {
	return slices.SortedFunc(slices.Values(o.arrivals), func(a, b arrival) int { return a.At.Compare(b.At) })
}

// span is from the first arrival at the node to the end of the last submission, in
// seconds, and busy how much of it one submission or more was at the node.
func (o outcome) span() (span, busy float64) {
	list := o.inOrder()
	if len(list) == 0 {
		return math.NaN(), math.NaN()
	}
	end, total := list[0].At, time.Duration(0)
	for _, a := range list {
		if a.Done.After(end) {
			total += min(a.Done.Sub(end), a.Done.Sub(a.At))
			end = a.Done
		}
	}
	return end.Sub(list[0].At).Seconds(), total.Seconds()
}

// pace adds what the order costs in time.
func (o outcome) pace(t *table, naive bool, label string) {
	span, busy := o.span()
	if o.Planned == len(o.arrivals) && o.spent[submits] > 0 {
		t.add(naive, label+"share of 1/(submit latency)", "%", 100*o.spent[submitting]/o.spent[submits]*float64(o.Planned)/span)
	}
	t.add(naive, label+"share of time at the node", "%", 100*busy/span)
	if gaps := o.handoffs(); len(gaps) > 0 {
		t.add(naive, label+"hand-off p50, at the node", "ms", gaps[len(gaps)/2])
		t.add(naive, label+"hand-off p99, at the node", "ms", gaps[min(len(gaps)*99/100, len(gaps)-1)])
	}
}

// costs adds how fast it was and what a transaction costs in other things.
func (o outcome) costs(t *table, naive bool, label string) {
	n := float64(o.Planned)
	t.add(naive, label+"accepted", "tx/s", o.AcceptedTPS)
	t.add(naive, label+"CPU of the relay", "µs/tx", o.spent[cpuSpent]/n*1e6)
	if !math.IsNaN(o.spent[commands]) {
		t.add(naive, label+"Redis commands", "/tx", o.spent[commands]/n)
		t.add(naive, label+"CPU of Redis", "µs/tx", o.spent[redisSpent]/n*1e6)
	}
}

// counts adds what should be zero, and what was executed.
func (o outcome) counts(t *table, naive bool, label string) {
	t.add(naive, label+"wrong nonce", "tx", float64(o.Chain.WrongNonce))
	t.add(naive, label+"out of order", "tx", float64(o.Chain.OutOfOrder))
	t.add(naive, label+"lost or duplicated", "tx", float64(o.Chain.Lost+o.Chain.Duplicated))
	t.add(naive, label+"unanswered", "tx", float64(o.Unanswered))
	t.add(naive, label+"executed", "tx", float64(o.Chain.Executed))
	if naive {
		return
	}
	if o.spent[alone] > 0 {
		t.count(label+"ordered inside the process because Redis did not answer in time", int(o.spent[alone]))
	}
	for _, e := range o.Errors {
		t.count(label+"answered: "+e.Message, e.Count)
	}
}

// wantCounts declares the targets of counts.
func wantCounts(t *table, label string, total int, wrong string) {
	t.want(label+"wrong nonce", "tx", always(0), wrong)
	for _, name := range []string{"out of order", "lost or duplicated", "unanswered"} {
		t.want(label+name, "tx", always(0), "")
	}
	t.want(label+"executed", "tx", always(float64(total)), "")
}
