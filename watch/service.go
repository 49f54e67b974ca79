package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/metric"
	"lockstep/internal/outage"
	"lockstep/internal/sleep"
	"lockstep/watch/source"
)

// Config says how a process takes part in a fleet of watchers.
type Config struct {
	Plan     Plan
	Instance string // unique among living processes
	// Partition and Partitions pin shards: this process owns those whose number leaves Partition when divided by
	// Partitions. Partitions 0 means that the fleet divides the shards by itself.
	Partition, Partitions int
	// Patience is how long the database may be away before the process ends.
	Patience time.Duration
	// Retention is how long messages are kept that all sinks have taken.
	Retention time.Duration
	// ReadyLag is how many blocks a process that is ready may be behind; 0: any number.
	ReadyLag uint64
	Version  string
	// LeaseTTL is how long a process that does not renew its units keeps them; 0: lease.DefaultTTL.
	LeaseTTL time.Duration
}

// Deps are what a Service uses.
type Deps struct {
	DB  *ledger.DB
	Log *slog.Logger
	// Sinks makes the sinks that the plan names.
	Sinks func(spec string) (Sink, error)
}

// Service follows the contracts of a plan, together with other processes on the same database.
type Service struct {
	cfg      Config
	db       *ledger.DB
	log      *slog.Logger
	metrics  *metrics
	leases   *lease.Holder
	chains   map[uint64]*followedChain
	sinks    map[string]Sink
	blind    troubles    // chains that cannot be read
	digest   string      // of the plan
	older    atomic.Bool // the fleet follows another
	speeds   speeds
	adopting sync.Mutex
	starts   sync.RWMutex // of the plan's watches, where they are settled
	pending  atomic.Bool  // it did so when this process started: this one's counts when nobody lives who has that
	deaf     troubles     // sinks that do not take messages

	fleet      *fleet
	publishers []*publisher
	news       *news
	emitted    chan struct{} // there may be messages without a cursor
}

// followedChain is what a process has of a chain.
type followedChain struct {
	*source.Pool
	wake   chan struct{} // there may be new blocks
	reload chan struct{} // the units are others
	lag    atomic.Uint64 // blocks that this process is behind
}

// ErrDatabase means that the database was away for longer than the patience.
var ErrDatabase = errors.New("the database does not answer")

// New checks the plan and makes a Service, which starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Plan.Validate(); err != nil {
		return nil, err
	}
	if cfg.Patience <= 0 {
		cfg.Patience = DefaultPatience
	}
	if cfg.Retention <= 0 {
		cfg.Retention = defaultRetention
	}
	if cfg.LeaseTTL <= 0 {
		cfg.LeaseTTL = lease.DefaultTTL
	}
	s := &Service{
		cfg: cfg, db: deps.DB, log: deps.Log, metrics: newMetrics(), chains: map[uint64]*followedChain{}, sinks: map[string]Sink{},
		news: newNews(), emitted: make(chan struct{}, 1), digest: cfg.Plan.Digest(), leases: lease.NewHolder(deps.DB, "watch", cfg.Instance, cfg.LeaseTTL, deps.Log),
	}
	var errs []error
	for _, chain := range cfg.Plan.Chains {
		pool, err := chain.Source(source.Deps{Log: deps.Log, Calls: func(n int) { s.metrics.calls.Add(float64(n)) }})
		if err != nil {
			errs = append(errs, fmt.Errorf("chain %d: %w", chain.ID, err))
			continue
		}
		s.chains[chain.ID] = &followedChain{Pool: pool, wake: make(chan struct{}, 1), reload: make(chan struct{}, 1)}
		s.metrics.doubts.WithLabelValues(chainLabel(chain.ID))
	}
	for i := range cfg.Plan.Watches {
		if w := &cfg.Plan.Watches[i]; len(w.Sinks) == 0 {
			deps.Log.Warn("a watch has no sinks: its events are stored, and handed to nobody but readers of the stream", "watch", w.Name)
		}
		for _, spec := range cfg.Plan.Watches[i].Sinks {
			if s.sinks[spec] != nil {
				continue
			}
			sink, err := deps.Sinks(spec)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			s.sinks[spec] = sink
		}
	}
	for _, spec := range sortedKeys(s.sinks) {
		s.publishers = append(s.publishers, s.publisher(spec, s.sinks[spec]))
	}
	s.fleet = newFleet(s)
	return s, errors.Join(errs...)
}

// DefaultPatience is Config.Patience where that is 0.
const DefaultPatience = 5 * time.Minute

// Run follows until the context ends, or something happens that only a person can mend. Then it gives its units back.
func (s *Service) Run(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it had begun
		}
		return err
	}
	defer func() {
		for _, c := range s.chains {
			c.Close()
		}
		for _, sink := range s.sinks {
			sink.Close()
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.leases.Run(ctx) })
	group.Go(func() error { return s.fleet.run(ctx) })
	group.Go(func() error { return s.watchDatabase(ctx) })
	group.Go(func() error { return s.sequence(ctx) })
	group.Go(func() error { return s.pruneOutbox(ctx) })
	for _, chain := range s.cfg.Plan.Chains {
		chain.MaxSpan = cmp.Or(chain.MaxSpan, defaultSpan)
		w := s.worker(chain)
		group.Go(func() error { return w.run(ctx, s.chains[chain.ID]) })
		group.Go(func() error { return s.followHead(ctx, chain) })
	}
	for _, p := range s.publishers {
		group.Go(func() error { return p.run(ctx) })
	}
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

const defaultSpan = 2000

func (s *Service) worker(chain Chain) *worker {
	w := &worker{
		chain: chain, watches: map[string]*Watch{}, source: s.chains[chain.ID], db: s.db, reign: s.fleet.owner, node: s.cfg.Instance, log: s.log, metrics: s.metrics,
		changed: s.wakePublishers, trouble: s.blind.note, behind: s.chains[chain.ID].lag.Store, perCommit: firstCommit, rules: map[*Watch]*rules{},
	}
	for i := range s.cfg.Plan.Watches {
		if watch := &s.cfg.Plan.Watches[i]; watch.Chain == chain.ID {
			w.watches[watch.Name], w.rules[watch] = watch, watch.rules()
		}
	}
	return w
}

// wakePublishers says that there may be messages of some units.
func (s *Service) wakePublishers(units []string) {
	nudge(s.emitted)
	for _, p := range s.publishers {
		p.markDirty(units)
	}
}

// nudge wakes who waits on a channel that holds one wake-up.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// prepare makes the tables and the rows of what the plan names.
func (s *Service) prepare(ctx context.Context) error {
	if err := s.db.Migrate(ctx, Schema); err != nil {
		return err
	}
	if err := s.leases.Register(ctx); err != nil {
		return err
	}
	if err := s.sameChains(ctx); err != nil {
		return err
	}
	return s.adoptPlan(ctx)
}

// sameChains fails if the endpoints of a chain serve another one. One that does not answer now is asked later.
func (s *Service) sameChains(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstLook)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for _, chain := range s.cfg.Plan.Chains {
		group.Go(func() error {
			if _, err := s.chains[chain.ID].Head(ctx); errors.Is(err, source.ErrWrongChain) {
				return chain.wrong(err)
			}
			return nil
		})
	}
	return group.Wait()
}

// firstLook bounds the first question to the endpoints, so that one that hangs delays no start.
const firstLook = 3 * time.Second

// adoptPlan makes the plan the fleet's, if it is newer.
func (s *Service) adoptPlan(ctx context.Context) error {
	for { // another process may do the same
		err := s.adopt(ctx)
		switch {
		case errors.Is(err, errNoHead) && ctx.Err() == nil:
			s.log.WarnContext(ctx, "a watch begins at the newest block, and nobody says which that is; asked again", "error", err)
			sleep.For(ctx, failurePause)
		case !errors.Is(err, errStale):
			return err
		}
	}
}

// errNoHead means that a start cannot be settled yet.
var errNoHead = errors.New("the newest block is not known")

// latest is a start at the newest block.
const latest = "latest"

// settle works out where a watch begins that begins at the newest block, or before it.
func (w *Watch) settle(head uint64) uint64 {
	back, _ := strconv.ParseUint(strings.TrimPrefix(w.Since, "-"), 10, 63) // 0 for latest
	return head - min(back, head)
}

// settleStarts finds out the first block of the watches that begin at the newest one: once, and from then on from the ledger.
func (s *Service) settleStarts(ctx context.Context) error {
	for i := range s.cfg.Plan.Watches {
		w := &s.cfg.Plan.Watches[i]
		if w.Since == "" {
			continue
		}
		known, err := ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) (known followed, err error) {
			var body string
			there, err := tx.One(ctx, "SELECT body FROM watches WHERE name = $1", []any{w.Name}, &body)
			if there {
				err = json.Unmarshal([]byte(body), &known)
			}
			return known, err
		})
		if err != nil {
			return err
		}
		if known.Since != w.Since {
			head, err := s.chains[w.Chain].Head(ctx)
			if err != nil {
				return fmt.Errorf("watch %s: %w: %w", w.Name, errNoHead, err)
			}
			known.Start = w.settle(head.Number)
		}
		s.starts.Lock()
		w.Start, w.begun = known.Start, true
		s.starts.Unlock()
	}
	return nil
}

// startOf is the first block of a watch.
func (s *Service) startOf(w *Watch) uint64 {
	s.starts.RLock()
	defer s.starts.RUnlock()
	return w.Start
}

// followHead reads new blocks for the fleet while this process owns the head of a chain.
func (s *Service) followHead(ctx context.Context, chain Chain) error {
	for ctx.Err() == nil {
		l := s.fleet.lease(headUnit(chain.ID))
		if l == nil || !l.Trusted(0) {
			sleep.For(ctx, idlePoll)
			continue
		}
		s.metrics.headOf(chain.ID, 0, 0)
		f := &headFollower{chain: chain, source: s.chains[chain.ID], db: s.db, owner: fmt.Sprintf("%s/%d", l.Owner(), l.Term()), log: s.log, pace: pace{least: chain.Poll}}
		if err := s.followTerm(ctx, f, l); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// followTerm follows for as long as a lease is held.
func (s *Service) followTerm(ctx context.Context, f *headFollower, l *lease.Lease) error {
	ctx, cancel := context.WithCancel(ctx)
	announced := make(chan struct{}, 1)
	var announcer sync.WaitGroup
	announcer.Go(func() { f.source.Announce(ctx, func() { nudge(announced) }) })
	defer announcer.Wait()
	defer cancel()
	defer s.metrics.headOf(f.chain.ID, 0, 0)
	loaded, hurry, standing := false, 0, false
	for ctx.Err() == nil && l.Trusted(0) {
		var fresh bool
		var err error
		looked := loaded
		if loaded {
			fresh, err = f.advance(ctx)
		} else if err = f.load(ctx); err == nil {
			loaded = true
		}
		anew := errors.Is(err, ErrDeepFork) || errors.Is(err, ErrReset)
		if !anew && (looked || err != nil) {
			f.anewSince = time.Time{}
		}
		pause := f.pace.wait()
		switch hurry--; {
		case fresh, hurry < 0:
			hurry = 0
			if f.source.Announced() {
				pause = f.pace.idle() // it is told
			}
		default: // a block was announced, and the endpoint that was asked has not got it yet
			pause = shortestPoll
		}
		unread := err
		if errors.Is(err, errDeposed) || ctx.Err() != nil {
			unread = nil
		}
		tell := s.blind.note(fmt.Sprintf("the head of chain %d is not read", f.chain.ID), unread)
		if loaded {
			standing = s.noteHead(ctx, f, standing)
		}
		switch {
		case anew && f.chain.dev():
			pause, loaded = failurePause, false
			if f.anewSince.IsZero() {
				f.anewSince = time.Now()
				s.log.WarnContext(ctx, "the chain seems to begin anew; if it still does in a while, what was read of it is forgotten", "chain", f.chain.ID, "while", anewAfter, "reason", err)
			}
			if time.Since(f.anewSince) < anewAfter {
				break
			}
			s.log.WarnContext(ctx, "the chain begins anew: what was read of it is forgotten, and it is read from the start", "chain", f.chain.ID, "reason", err)
			f.anewSince = time.Time{}
			if err = s.startOver(ctx, f.chain.ID); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "what was read of the chain cannot be forgotten; it will be later", "chain", f.chain.ID, "error", err)
			}
		case anew:
			return err
		case errors.Is(err, source.ErrWrongChain) && f.blocks == nil: // it never was the right one
			return f.chain.wrong(err)
		case errors.Is(err, errDeposed):
			return nil
		case err != nil && ctx.Err() == nil:
			if tell && !ledger.IsDown(err) {
				s.log.WarnContext(ctx, "the head of the chain cannot be read", "chain", f.chain.ID, "error", err)
			}
			pause = failurePause
			loaded = false // a commit without an answer may have happened
		case fresh:
			nudge(s.chains[f.chain.ID].wake)
		}
		select {
		case <-l.Lost():
			return nil
		case <-ctx.Done():
		case <-announced:
			hurry = announcedLooks
		case <-time.After(pause):
		}
	}
	return ctx.Err()
}

// wrong says which setting names a chain that the endpoints do not serve.
func (c Chain) wrong(err error) error {
	return fmt.Errorf("%s is %d: %w", c.Setting, c.ID, err)
}

// noteHead tells how old the highest head is, and says so when the chain should have made five blocks since.
func (s *Service) noteHead(ctx context.Context, f *headFollower, before bool) (standing bool) {
	age, standing := f.late()
	var still error
	if standing {
		still = errors.New("it stands")
	}
	s.metrics.headOf(f.chain.ID, age, f.blockTime())
	s.deaf.note(fmt.Sprintf("no endpoint of chain %d has a new block", f.chain.ID), still)
	switch {
	case standing && !before:
		s.log.WarnContext(ctx, "no endpoint has a new block, and several are due", "chain", f.chain.ID, "head", f.best, "age", age.Round(time.Second), "blockTime", f.blockTime())
	case before && !standing:
		s.log.InfoContext(ctx, "there are new blocks again", "chain", f.chain.ID, "head", f.best)
	}
	return standing
}

// startOver forgets what was read of a chain that begins anew, and follows it from the start.
func (s *Service) startOver(ctx context.Context, chain uint64) error {
	if err := s.db.Write(ctx, func(tx *ledger.Tx) error { return forget(ctx, tx, chain) }); err != nil {
		return err
	}
	return s.adoptPlan(ctx)
}

// anewAfter is for how long every look must say that a developer's chain begins anew before anybody believes it: an endpoint that is behind,
// or that answers with another block once, says the same.
const anewAfter = 5 * time.Second

// announcedLooks is how often a block that was announced is looked for in a hurry.
const announcedLooks = 25

// watchDatabase ends the process when the database stays away: it has published nothing that it could not record, and
// another one may be better off.
func (s *Service) watchDatabase(ctx context.Context) error {
	var since time.Time // when it stopped to answer
	for ctx.Err() == nil {
		probe, cancel := context.WithTimeout(ctx, min(5*time.Second, s.cfg.Patience))
		err := s.db.Ping(probe)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > s.cfg.Patience:
			return fmt.Errorf("%w for %v: %w", ErrDatabase, time.Since(since).Round(time.Second), err)
		}
		sleep.For(ctx, time.Second)
	}
	return ctx.Err()
}

// metrics keep the names that dashboards of older services know, and add some.
type metrics struct {
	metric.Set
	contracts    prometheus.Gauge
	blocks       prometheus.Counter
	published    prometheus.Counter
	leader       prometheus.Gauge
	instances    prometheus.Gauge
	registered   prometheus.Gauge
	elections    prometheus.Counter
	deduplicated prometheus.Counter
	lag          *prometheus.GaugeVec
	headAge      *prometheus.GaugeVec
	blockTime    *prometheus.GaugeVec
	doubts       *prometheus.CounterVec
	calls        prometheus.Counter
	reorgs       prometheus.Counter
	sinks        *prometheus.HistogramVec
	failures     *prometheus.CounterVec
	undecoded    prometheus.Counter
	repaired     prometheus.Counter
	settled      *prometheus.CounterVec
	current      prometheus.Gauge
	beat         atomic.Int64 // unix nanoseconds of the last heartbeat
}

func newMetrics() *metrics {
	m := &metrics{}
	m.contracts = m.Gauge("relayer_escrows_monitored", "Contracts whose events this process reads, factories not included.")
	m.blocks = m.Counter("relayer_blocks_processed", "Blocks that this process has read; a block counts once for each step that reads it.")
	m.published = m.Counter("relayer_events_published", "Messages that a sink has acknowledged.")
	m.leader = m.Gauge("relayer_is_leader", "1 if this process owns a factory, else 0.")
	m.instances = m.Gauge("total_active_instances", "Processes of the fleet that are alive.")
	m.registered = m.Gauge("total_escrows_registered", "Contracts that the fleet follows, factories not included.")
	m.elections = m.Counter("leader_election_count", "How often this process became the owner of a factory.")
	m.deduplicated = m.Counter("event_deduplication_hits", "Events that were read again and stood in the ledger already.")
	m.lag = m.Gauges("watch_lag_blocks", "Blocks between the highest head of all endpoints and the unit of this process that is furthest behind, and those that are due where the head stands.", "chain")
	m.headAge = m.Gauges("watch_head_age_seconds", "Seconds since an endpoint has first shown the highest head; told by the process that reads it.", "chain")
	m.blockTime = m.Gauges("watch_block_seconds", "Seconds from one block to the next; absent where nobody knows, and for developers' chains.", "chain")
	m.doubts = m.Counters("watch_doubts_total", "Answers without an event that the filter of their block names, which nothing explained: the blocks are asked for again.", "chain")
	m.calls = m.Counter("watch_rpc_calls_total", "JSON-RPC calls sent to endpoints; each item of a batch counts.")
	m.reorgs = m.Counter("watch_reorgs_total", "Reorganisations that units of this process took into account.")
	m.sinks = m.Histograms("watch_sink_seconds", "Time until a sink acknowledged a batch or refused it, in seconds.", prometheus.ExponentialBuckets(0.001, 4, 8), "sink")
	m.failures = m.Counters("watch_sink_failures_total", "Batches that a sink did not acknowledge; they are sent again.", "sink")
	m.undecoded = m.Counter("watch_undecoded_total", "Events that are handed on undecoded: logs that carry an event's selector and cannot be read by its signature.")
	m.settled = m.Counters("watch_settled_total", "Messages that a sink can never take: they are noted and passed over.", "sink")
	m.repaired = m.Counter("watch_repaired_total", "Events that an endpoint had not told of when their block was new, and that were found when it could not be replaced any more.")
	m.current = m.Gauge("watch_plan_current", "1 if the fleet follows this process's plan, 0 if it follows another: then this process owns nothing.")
	m.Asked("relayer_last_heartbeat_age", "Seconds since this process last told the fleet that it lives.", func() float64 {
		at := m.beat.Load()
		if at == 0 {
			return 0
		}
		return time.Since(time.Unix(0, at)).Seconds()
	})
	return m
}

// headOf tells how old the head of a chain is; age 0: this process does not read it.
func (m *metrics) headOf(chain uint64, age, blockTime time.Duration) {
	label := chainLabel(chain)
	if age == 0 {
		m.headAge.DeleteLabelValues(label)
	} else {
		m.headAge.WithLabelValues(label).Set(age.Seconds())
	}
	if blockTime == 0 {
		m.blockTime.DeleteLabelValues(label)
	} else {
		m.blockTime.WithLabelValues(label).Set(blockTime.Seconds())
	}
}

// Collectors returns the metrics for a registry.
func (s *Service) Collectors() []prometheus.Collector {
	several := map[string]outage.Several{}
	for id, c := range s.chains {
		several[chainLabel(id)] = c
	}
	return append(s.metrics.Collectors(), outage.Up("watch_endpoint_up", several))
}

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
	if s.db.Refuses() {
		c.Reasons = append(c.Reasons, "the database takes no writes")
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
	if slices.ContainsFunc(s.cfg.Plan.Watches, func(w Watch) bool { return w.End != nil }) {
		list, _ := s.States(ctx) // without the database there is a reason above
		for _, st := range list {
			if st.Done {
				c.Done = append(c.Done, fmt.Sprintf("watch %s is done: it has read up to block %d, its end", st.Name, *st.End))
			}
		}
	}
	for _, chain := range s.cfg.Plan.Chains {
		switch n := s.chains[chain.ID].lag.Load(); {
		case s.cfg.ReadyLag > 0 && n > s.cfg.ReadyLag:
			c.Reasons = append(c.Reasons, fmt.Sprintf("%d blocks behind chain %d", n, chain.ID))
		case n > farBehind:
			c.Degraded = append(c.Degraded, fmt.Sprintf("%d blocks behind chain %d", n, chain.ID))
		}
		_, failing := s.chains[chain.ID].Endpoints()
		for _, f := range failing {
			c.Degraded = append(c.Degraded, fmt.Sprintf("chain %d: %v", chain.ID, f))
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
