package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
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
	// Lease are the times of ownership; zero values stand for the usual ones.
	Lease lease.Options
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
	keeper   *lease.Keeper
	sources  map[uint64]*source.Pool
	sinks    map[string]Sink
	health   databaseHealth
	blind    troubles    // chains that cannot be read
	digest   string      // of the plan
	older    atomic.Bool // the fleet follows another
	speeds   speeds
	adopting sync.Mutex
	starts   sync.RWMutex // of the plan's watches, where they are settled
	pending  atomic.Bool  // it did so when this process started: this one's counts when nobody lives who has that
	deaf     troubles     // sinks that do not take messages
	lags     sync.Map     // by chain: *atomic.Uint64, blocks that this process is behind

	fleet      *fleet
	wakes      map[uint64]chan struct{} // by chain: there may be new blocks
	reload     map[uint64]chan struct{} // by chain: the units are others
	publishers []*publisher
	news       *news
	emitted    chan struct{} // there may be messages without a cursor
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
	if cfg.Lease.TTL <= 0 {
		cfg.Lease.TTL = lease.DefaultTTL
	}
	s := &Service{
		cfg: cfg, db: deps.DB, log: deps.Log, metrics: newMetrics(), sources: map[uint64]*source.Pool{}, sinks: map[string]Sink{},
		wakes: map[uint64]chan struct{}{}, reload: map[uint64]chan struct{}{},
		news: newNews(), emitted: make(chan struct{}, 1),
	}
	s.digest = cfg.Plan.Digest()
	s.keeper = lease.NewKeeper(deps.DB, "watch", cfg.Instance, cfg.Lease, deps.Log)
	var errs []error
	for _, chain := range cfg.Plan.Chains {
		pool, err := chain.Source(source.Deps{Log: deps.Log, Calls: func(n int) { s.metrics.calls.Add(float64(n)) }})
		if err != nil {
			errs = append(errs, fmt.Errorf("chain %d: %w", chain.ID, err))
			continue
		}
		s.sources[chain.ID] = pool
		s.metrics.doubts.WithLabelValues(chainLabel(chain.ID))
		s.wakes[chain.ID], s.reload[chain.ID] = make(chan struct{}, 1), make(chan struct{}, 1)
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
		for _, pool := range s.sources {
			pool.Close()
		}
		for _, sink := range s.sinks {
			sink.Close()
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.keeper.Run(ctx) })
	group.Go(func() error { return s.fleet.run(ctx) })
	group.Go(func() error { return s.watchDatabase(ctx) })
	group.Go(func() error { return s.sequence(ctx) })
	group.Go(func() error { return s.pruneOutbox(ctx) })
	for _, chain := range s.cfg.Plan.Chains {
		if chain.MaxSpan == 0 {
			chain.MaxSpan = defaultSpan
		}
		w := s.worker(chain)
		group.Go(func() error { return w.run(ctx, s.wakes[chain.ID], s.reload[chain.ID]) })
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
		chain: chain, watches: map[string]*Watch{}, source: s.sources[chain.ID], db: s.db, reign: s.fleet.owner, node: s.cfg.Instance, log: s.log, metrics: s.metrics,
		changed: s.wakePublishers, trouble: s.blind.note, perCommit: firstCommit, rules: map[*Watch]*rules{},
	}
	lag := &atomic.Uint64{}
	w.behind = lag.Store
	s.lags.Store(chain.ID, lag)
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
	if err := s.keeper.Register(ctx); err != nil {
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
			if _, err := s.sources[chain.ID].Head(ctx); errors.Is(err, source.ErrWrongChain) {
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
		var body string
		var known followed
		err := s.db.Read(ctx, func(tx *ledger.Tx) error {
			there, err := tx.One(ctx, "SELECT body FROM watches WHERE name = $1", []any{w.Name}, &body)
			if known = (followed{}); there {
				err = json.Unmarshal([]byte(body), &known)
			}
			return err
		})
		if err != nil {
			return err
		}
		if known.Since != w.Since {
			head, err := s.sources[w.Chain].Head(ctx)
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
		f := &headFollower{chain: chain, source: s.sources[chain.ID], db: s.db, owner: fmt.Sprintf("%s/%d", l.Owner(), l.Term()), log: s.log, pace: pace{least: chain.Poll}}
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
			nudge(s.wakes[f.chain.ID])
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

var errStands = errors.New("it stands")

// noteHead tells how old the highest head is, and says so when the chain should have made five blocks since.
func (s *Service) noteHead(ctx context.Context, f *headFollower, before bool) (standing bool) {
	age, standing := f.late()
	var still error
	if standing {
		still = errStands
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

// databaseHealth remembers since when the database has not answered.
type databaseHealth struct{ since time.Time }

// watchDatabase ends the process when the database stays away: it has published nothing that it could not record, and
// another one may be better off.
func (s *Service) watchDatabase(ctx context.Context) error {
	for ctx.Err() == nil {
		probe, cancel := context.WithTimeout(ctx, min(5*time.Second, s.cfg.Patience))
		err := s.db.Ping(probe)
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			s.health.since = time.Time{}
		case s.health.since.IsZero():
			s.health.since = time.Now()
		case time.Since(s.health.since) > s.cfg.Patience:
			return fmt.Errorf("%w for %v: %w", ErrDatabase, time.Since(s.health.since).Round(time.Second), err)
		}
		sleep.For(ctx, time.Second)
	}
	return ctx.Err()
}
