package lock

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Deps are what a Service works with.
type Deps struct {
	// Redis shares the order between processes; nil keeps it inside this one. Config.RedisOptions says
	// how internal/redisx makes the client. Servers from version 6.2 on will do. The caller closes it after Run has returned.
	Redis redis.UniversalClient
	// Log receives acquisitions and releases at debug, failing open at error. Nil discards.
	Log *slog.Logger
	// Clock returns the time by a monotonic clock. Nil is that of the system. A simulation has one that
	// stands still with its process.
	Clock func() time.Duration
}

// Service hands out the turns of all senders. See the package comment.
type Service struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	rollout atomic.Pointer[rollout]
	reg     *registry
	remote  *remote                                                             // nil without Redis
	sync    func(ctx context.Context, keys []string, s statement) (view, error) // likewise; remote.sync, which may be repeated without harm
	margin  time.Duration
	now     func() time.Duration // what time it is, by the monotonic clock, since the service was made
	fences  atomic.Uint64        // last fence handed out by this process
	enabled atomic.Bool
	changed atomic.Bool  // who is ordered was changed at run time
	toldAt  atomic.Int64 // when the log was last told of trouble; 0 = never

	closed atomic.Bool

	workMu sync.Mutex      // guards the two below
	work   context.Context // nil: it takes no work, since Run has not begun, or is about to end
	wg     sync.WaitGroup
}

// New makes a Service. It starts nothing and sends nothing: until Run has reached Redis,
// the order is that of this process.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("lock settings: %w", err)
	}
	reg, err := newRegistry(cfg.LocalEntries)
	if err != nil {
		return nil, fmt.Errorf("lock registry: %w", err)
	}
	epoch := time.Now()
	if deps.Clock == nil {
		deps.Clock = func() time.Duration { return time.Since(epoch) }
	}
	s := &Service{
		cfg: cfg, log: deps.Log, reg: reg, now: deps.Clock,
		// The margin is enough for a request to leave the process, and small beside the limit.
		margin: min(cfg.MaxHold.Duration()/20, 100*time.Millisecond),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.metrics = newMetrics(s)
	// Fences of Redis are its time in microseconds; starting there keeps the numbers
	// of both kinds comparable as far as clocks agree.
	s.fences.Store(uint64(epoch.UnixMicro()))
	s.enabled.Store(cfg.Enabled)
	s.rollout.Store(newRollout(cfg))
	if deps.Redis != nil {
		if s.remote, err = newRemote(s, deps.Redis); err != nil {
			return nil, err
		}
		s.sync = s.remote.sync
	}
	return s, nil
}

// Enabled tells whether this sender's transactions are to be ordered. If not, do not
// call Enter: no lock, no Redis command, no allocation.
//
// After ordering was switched off, for all or for this sender, it stays on for a sender with
// transactions in line, so that nothing overtakes them.
func (s *Service) Enabled(sender common.Address) bool {
	if s.enabled.Load() && s.rollout.Load().includes(sender) {
		return true
	}
	return s.changed.Load() && s.reg.inUse(sender)
}

// On tells whether ordering is switched on, for those senders it is limited to.
func (s *Service) On() bool { return s.enabled.Load() }

// Ordered says in words which senders are ordered while ordering is on, such as "10 % of senders".
func (s *Service) Ordered() string { return s.rollout.Load().String() }

// SetEnabled switches ordering at run time. Turns and queues that exist are finished in order.
func (s *Service) SetEnabled(on bool) {
	if s.enabled.Swap(on) == on {
		return
	}
	s.changed.Store(true)
	s.log.Warn("nonce ordering was switched", "enabled", on)
	if s.remote != nil {
		s.remote.wake()
	}
}

// SetRollout changes at run time which senders are ordered: it uses only Percent and Senders of cfg. Queues that
// exist are finished in order. Relays of a fleet should change together: a sender who is ordered in one and not
// in another has no order between them.
func (s *Service) SetRollout(cfg Config) {
	next := newRollout(cfg)
	if s.rollout.Load().equal(next) {
		return
	}
	s.changed.Store(true)
	s.rollout.Store(next)
	if s.enabled.Load() { // else nobody is ordered, before and after
		s.log.Warn("the senders that are ordered were changed", "ordered", next.String())
	}
}

// Config returns the settings the service was made with.
func (s *Service) Config() Config { return s.cfg }

// Collectors returns the metrics for the caller to register.
func (s *Service) Collectors() []prometheus.Collector {
	return append(s.metrics.Collectors(), laneGauges{s})
}

// Enter draws the next ticket of the sender. The order is decided here; nothing waits for
// the network. The errors are a *QueueFullError and ErrClosed. Whoever gets a ticket must end it.
//
// A full queue keeps what can be executed first: a lower nonce takes the place of the highest
// that waits, whose Wait returns a *QueueFullError.
func (s *Service) Enter(sender common.Address, nonce uint64) (*Ticket, error) {
	return s.EnterFor(sender, nonce, Stay{Window: s.cfg.Window.Duration()})
}

// Stay says how a ticket waits.
type Stay struct {
	// Window is how long it waits for its predecessor, without holding the turn, if it is ahead.
	Window time.Duration
	// OutlastsGap says that a gap is no reason to refuse the transaction within Window: its hash was promised, or it
	// was sent and came back unexecuted. It never gives way in a full queue.
	OutlastsGap bool
	// Promised says that nobody waits for its answer: it stays in the queue if no node takes what it follows.
	Promised bool
	// Admitted says that it was in the queue before: the queue is not too full for it.
	Admitted bool
}

// EnterFor is Enter for a caller that says how the ticket waits.
func (s *Service) EnterFor(sender common.Address, nonce uint64, stay Stay) (*Ticket, error) {
	l := s.lane(sender)
	defer l.unlock()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if s.cfg.MaxQueue > 0 && len(l.queue) >= s.cfg.MaxQueue && !stay.Admitted {
		full := &QueueFullError{Length: len(l.queue)}
		highest := l.highest()
		if highest == nil || highest.nonce <= nonce {
			return nil, full
		}
		s.metrics.evicted.Inc()
		l.drop(highest, full)
	}
	now := s.now()
	l.expireKnowledge(now)
	came := now
	if l.failure.at >= now && l.failure.at != 0 {
		came = l.failure.at + 1 // later than what failed, even in the same instant
	}
	t := &Ticket{lane: l, nonce: nonce, came: came, follows: !l.empty() || stay.Admitted, outlastsGap: stay.OutlastsGap, promised: stay.Promised}
	l.renewWindows(t, now)
	l.admit(t, stay.Window)
	return t, nil
}

// Run keeps the service in touch with Redis until ctx ends. Then it hands held locks to the next ones elsewhere,
// leaves all queues, and returns nil; tickets that still wait get ErrClosed. Call it once.
func (s *Service) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.workMu.Lock()
	s.work = work
	s.workMu.Unlock()
	if s.remote == nil {
		<-ctx.Done()
		s.close()
		return nil
	}
	s.remote.attend(ctx)
	s.close()
	s.remote.endBeats()
	s.workMu.Lock()
	s.work = nil
	s.workMu.Unlock()
	// This ends soon: every call has a deadline, and a lane has few calls left.
	drained := time.AfterFunc(4*s.cfg.RedisTimeout.Duration(), cancel)
	s.wg.Wait()
	drained.Stop()
	s.remote.farewell(work)
	return nil
}

// close ends all tickets and turns.
func (s *Service) close() {
	s.closed.Store(true)
	s.each(false, func(l *lane) {
		for len(l.queue) > 0 {
			l.drop(l.queue[0], ErrClosed)
		}
		if l.holder != nil {
			l.end(l.holder, ErrClosed)
		}
	})
}

// spawn runs work for a lane, unless the service is not running.
func (s *Service) spawn(f func(context.Context)) bool {
	s.workMu.Lock()
	defer s.workMu.Unlock()
	if s.work == nil {
		return false
	}
	ctx := s.work
	s.wg.Go(func() { f(ctx) })
	return true
}

// governs tells whether Redis decides the order of the lane at the moment, as the lane knows.
func (s *Service) governs(l *lane) bool { return l.link.here && l.link.outUntil == 0 }

// strategy is what decides the order of the lane at the moment.
func (l *lane) strategy() strategy {
	if l.svc.governs(l) {
		return redisStrategy
	}
	return local
}

// trusted tells whether other processes take this one for alive at the given time, so that what it owns in Redis
// is its own. While Redis does not answer nobody can know, and the policy is to go on.
func (s *Service) trusted(at time.Duration) bool {
	return !s.remote.up.Load() || s.remote.aliveAt(at)
}

// raiseFence makes the fences of this process continue after those of Redis.
func (s *Service) raiseFence(seen uint64) {
	for {
		last := s.fences.Load()
		if last >= seen || s.fences.CompareAndSwap(last, seen) {
			return
		}
	}
}

// registry finds the lane of a sender. A lane in use is out of the cache's reach, so that a flood of other senders
// can never sweep it away; the cache bounds the idle ones only. Its mutex may be locked under a lane's, never the other way.
type registry struct {
	mu   sync.Mutex
	busy map[common.Address]*lane
	idle *simplelru.LRU[common.Address, *lane] // one larger than most
	most int                                   // idle lanes
}

func newRegistry(most int) (*registry, error) {
	cache, err := simplelru.NewLRU[common.Address, *lane](most+1, nil)
	if err != nil {
		return nil, err
	}
	return &registry{busy: make(map[common.Address]*lane), idle: cache, most: most}, nil
}

// lane returns the sender's lane, with its mu locked.
func (s *Service) lane(sender common.Address) *lane {
	for {
		l := s.reg.find(s, sender)
		if l.mu.Lock(); !l.gone {
			if s.remote != nil {
				l.followRemote(s.now()) // nobody has told an idle lane
			}
			return l
		}
		l.mu.Unlock()
	}
}

func (r *registry) find(svc *Service, sender common.Address) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.busy[sender]; ok {
		return l
	}
	if l, ok := r.idle.Peek(sender); ok {
		return l
	}
	l := newLane(svc, sender)
	r.busy[sender] = l
	return l
}

// note notes whether a lane is in use. It returns a lane to sweep, if too many are idle.
func (r *registry) note(l *lane, busy bool) (old *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if busy {
		r.idle.Remove(l.sender)
		r.busy[l.sender] = l
		return nil
	}
	delete(r.busy, l.sender)
	r.idle.Add(l.sender, l)
	if r.idle.Len() > r.most {
		_, old, _ = r.idle.GetOldest()
	}
	return old
}

// sweep forgets a lane that is idle. Whoever has found it before, and locks it, sees that it is gone.
func (r *registry) sweep(l *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy || l.gone {
		return
	}
	l.gone = true
	if l.timer != nil {
		l.timer.Stop() // else it would keep the lane in memory until it fires
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle.Remove(l.sender)
}

// inUse tells whether anybody uses the sender's lane.
func (r *registry) inUse(sender common.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.busy[sender]
	return ok
}

// lanes returns the lanes in use, and the idle ones if all is set, each kind in an order that only depends on who sends
// what: the map's own order would make every simulation of the same seed another one.
func (r *registry) lanes(all bool) []*lane {
	r.mu.Lock()
	busy, idle := slices.Collect(maps.Values(r.busy)), []*lane(nil)
	if all {
		idle = r.idle.Values()
	}
	r.mu.Unlock()
	slices.SortFunc(busy, func(a, b *lane) int { return a.sender.Cmp(b.sender) })
	return append(busy, idle...)
}

// each calls f for lanes, with their mu locked.
func (s *Service) each(all bool, f func(*lane)) {
	for _, l := range s.reg.lanes(all) {
		if l.mu.Lock(); l.gone {
			l.mu.Unlock()
			continue
		}
		f(l)
		l.unlock()
	}
}

// sizes returns the numbers of lanes in use and idle.
func (r *registry) sizes() (busy, idle int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.busy), r.idle.Len()
}

// Forget drops what this process knows of all senders' nonces: a development network can go back to an earlier
// state, in which they are lower. Waiting tickets and present turns stay. What lanes have in Redis stays, too,
// until its time to live ends.
func (s *Service) Forget() {
	s.each(true, func(l *lane) {
		l.chain, l.recoveredAt, l.holeReported = chain{}, 0, false
		l.dispatch(s.now())
	})
}
