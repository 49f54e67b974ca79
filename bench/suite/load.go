package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/bench"
)

// load is one burst of transactions.
type load struct {
	name        string // of the senders; each load has its own
	relays      []*relay
	state       *relay // answers what is not load; the first of relays if nil
	count       int    // of each sender
	senders     int
	spacing     time.Duration
	sticky      bool
	webSocket   bool
	connections int           // of each URL; 0 = one for each transaction, with a maximum of 1,024
	timeout     time.Duration // of a request; 0 = that of package bench
	conduct     conduct
	// during runs beside the load. Its error ends the run.
	during func(ctx context.Context) error
	// begins runs directly before the first request.
	begins func(ctx context.Context) error
	// ended runs when the last answer is there, before anything else is asked.
	ended func(ctx context.Context) error
}

// outcome is what one load showed.
type outcome struct {
	bench.RunReport
	total    time.Duration // from the first request to the last answer
	cpu      float64       // seconds, of all relays
	commands float64       // of Redis
	submit   float64       // mean seconds of a submission as the relays saw it
	alone    float64       // transactions that failing Redis left to the order of one process
	arrivals []arrival
}

// fire sends a load and reads from the chain what became of it.
func (l *lab) fire(ctx context.Context, n *network, r *redisServer, q load) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var o outcome
	var beside chan error
	var before, after snapshot
	var began time.Time
	state := q.state
	if state == nil {
		state = q.relays[0]
	}
	funder, err := bench.ParseKey(n.Accounts[funderAccount].PrivateKey)
	if err != nil {
		return o, err
	}
	cfg := bench.Config{
		Target:  bench.Target{StateURL: state.url, ConsensusLog: n.URL},
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
	cfg.Before = func(ctx context.Context, _, _ int) error {
		var err error
		if before, err = l.before(ctx, n, r, q); err != nil {
			return err
		}
		if q.begins != nil {
			if err := q.begins(ctx); err != nil {
				return err
			}
		}
		began = time.Now()
		if q.during != nil {
			beside = make(chan error, 1)
			go func() { beside <- q.during(ctx) }()
		}
		return nil
	}
	cfg.After = func(ctx context.Context, _, _ int) error {
		o.total = time.Since(began)
		if q.ended != nil {
			if err := q.ended(ctx); err != nil {
				return err
			}
		}
		if beside != nil {
			if err := <-beside; err != nil {
				return err
			}
		}
		var err error
		after, err = l.after(ctx, n, r, q)
		return err
	}
	report, err := bench.Run(ctx, cfg, io.Discard)
	l.profiling.Wait() // the relays may be ended next
	if err != nil {
		return o, fmt.Errorf("%s: %w", q.name, err)
	}
	if len(report.Targets) != 1 || len(report.Targets[0].Runs) != 1 {
		return o, fmt.Errorf("%s: the load was cut short", q.name)
	}
	o.RunReport = report.Targets[0].Runs[0]
	if o.Chain == nil {
		return o, fmt.Errorf("%s: the chain could not be asked: %s", q.name, o.ChainError)
	}
	o.cpu, o.commands, o.arrivals = after.cpu-before.cpu, after.commands-before.commands, after.arrivals
	o.alone = after.alone - before.alone
	if calls := after.submits - before.submits; calls > 0 {
		o.submit = (after.submitting - before.submitting) / calls
	}
	return o, nil
}

// snapshot is what is counted around a load.
type snapshot struct {
	cpu, commands       float64
	submits, submitting float64 // submissions and the seconds they took
	alone               float64
	arrivals            []arrival
}

func (l *lab) before(ctx context.Context, n *network, r *redisServer, q load) (snapshot, error) {
	if err := n.mark(ctx); err != nil {
		return snapshot{}, err
	}
	s, err := l.snapshot(ctx, r, q)
	if err != nil {
		return s, err
	}
	l.profile(ctx, q)
	err = n.behave(ctx, q.conduct)
	s.cpu = cpuOf(q.relays) // last, so that what is done before the load does not count
	return s, err
}

func (l *lab) after(ctx context.Context, n *network, r *redisServer, q load) (snapshot, error) {
	cpu := cpuOf(q.relays)
	s, err := l.snapshot(ctx, r, q)
	if err != nil {
		return s, err
	}
	s.cpu = cpu
	if s.arrivals, err = n.arrivals(ctx); err != nil {
		return s, err
	}
	return s, n.behave(ctx, conduct{})
}

func (l *lab) snapshot(ctx context.Context, r *redisServer, q load) (s snapshot, err error) {
	s.commands = math.NaN()
	if r != nil {
		if n, err := r.commands(ctx); err == nil { // it may have been killed on purpose
			s.commands = n
		}
	}
	for _, relay := range q.relays {
		m, err := relay.metrics(ctx)
		if err != nil {
			return s, err
		}
		s.submits += m.sum("rpc_relay_consensus_submit_seconds_count")
		s.submitting += m.sum("rpc_relay_consensus_submit_seconds_sum")
		s.alone += m.sum("lockstep_lock_fail_open_total")
	}
	return s, nil
}

func cpuOf(relays []*relay) (total float64) {
	for _, r := range relays {
		total += r.cpu()
	}
	return total
}

// profile takes profiles of our relays in the background, if that is wanted: CPU and allocations.
func (l *lab) profile(ctx context.Context, q load) {
	if q.conduct.Hold {
		return
	}
	for i, relay := range q.relays {
		l.take(ctx, relay, fmt.Sprintf("%s-%d", q.name, i))
	}
}

// take takes the profiles of one relay in the background, if that is wanted.
func (l *lab) take(ctx context.Context, r *relay, name string) {
	if l.profiles == "" || r.naive {
		return
	}
	ctx = context.WithoutCancel(ctx) // the profile may be longer than the load
	p := &bench.Profiler{Dir: l.profiles, Lasts: 2 * time.Second}
	l.profiling.Go(func() {
		if err := p.Take(ctx, r.admin, name); err != nil {
			l.say("no profile of %s: %v\n", name, err)
		}
	})
}

// handoffs are the times from the end of a sender's submission at the node to the arrival
// of its next, in milliseconds.
func (o outcome) handoffs() []float64 {
	last := map[common.Address]arrival{}
	var out []float64
	for _, a := range o.inOrder() {
		if before, ok := last[a.Sender]; ok && before.Done != 0 {
			out = append(out, float64(a.At-before.Done)/1e6)
		}
		last[a.Sender] = a
	}
	return out
}

func (o outcome) inOrder() []arrival {
	return slices.SortedFunc(slices.Values(o.arrivals), func(a, b arrival) int { return cmp.Compare(a.At, b.At) })
}

// span is from the first arrival at the node to the end of the last submission, in
// seconds, and busy how much of it one submission or more was at the node.
func (o outcome) span() (span, busy float64) {
	list := o.inOrder()
	if len(list) == 0 {
		return math.NaN(), math.NaN()
	}
	end := list[0].At
	total := int64(0)
	for _, a := range list {
		if a.Done > end {
			total += a.Done - max(a.At, end)
			end = a.Done
		}
	}
	return float64(end-list[0].At) / 1e9, float64(total) / 1e9
}

// rate is accepted answers per second, as a client sees it.
func (o outcome) rate() float64 { return o.AcceptedTPS }

// perTransaction divides by the transactions sent.
func (o outcome) perTransaction(v float64) float64 { return v / float64(o.Planned) }

// failures are the counts that should be zero.
func (o outcome) failures(t *table, naive bool, label string) {
	t.add(naive, label+"wrong nonce", "tx", float64(o.Chain.WrongNonce))
	t.add(naive, label+"out of order", "tx", float64(o.Chain.OutOfOrder))
	t.add(naive, label+"lost or duplicated", "tx", float64(o.Chain.Lost+o.Chain.Duplicated))
	t.add(naive, label+"unanswered", "tx", float64(o.Unanswered))
	t.add(naive, label+"executed", "tx", float64(o.Chain.Executed))
	if naive {
		return
	}
	if o.alone > 0 {
		t.count(label+"ordered inside the process because Redis did not answer in time", int(o.alone))
	}
	for _, e := range o.Errors {
		t.count(label+"answered: "+e.Message, e.Count)
	}
}

// wantCounts declares the targets of failures.
func wantCounts(t *table, label string, total int, wrong string) {
	t.want(label+"wrong nonce", "tx", always(0, "0 in every run"), wrong)
	t.want(label+"out of order", "tx", always(0, "0 in every run"), "")
	t.want(label+"lost or duplicated", "tx", always(0, "0 in every run"), "")
	t.want(label+"unanswered", "tx", always(0, "0 in every run"), "")
	t.want(label+"executed", "tx", always(float64(total), fmt.Sprintf("%d in every run", total)), "")
}

// quantile of values, which it sorts.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}
