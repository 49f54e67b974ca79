package lock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// Deps are what a Service works with.
type Deps struct {
	// Redis shares the order between processes; nil keeps it inside this one. It
	// should fail fast and not retry (internal/redisx makes such clients). Servers from version
	// 6.2 on will do. The caller closes it after Run has returned.
	Redis redis.UniversalClient
	// Log receives acquisitions and releases at debug, failing open at error. Nil discards.
	Log *slog.Logger
}

// Service hands out the turns of all senders. See the package comment.
type Service struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	rollout rollout
	reg     *registry
	remote  *remote // nil without Redis
	margin  time.Duration
	backlog *backlog
	epoch   time.Time     // times inside are durations since then, by the monotonic clock
	fences  atomic.Uint64 // last fence handed out by this process
	enabled atomic.Bool
	wasOn   atomic.Bool // it was switched at run time
	quiet   throttle
	tracing bool // log lines of level trace are wanted

	closed atomic.Bool

	workMu sync.Mutex // guards the three below
	work   context.Context
	ending bool
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
	s := &Service{
		cfg: cfg, log: deps.Log, metrics: newMetrics(), rollout: newRollout(cfg), reg: reg, epoch: time.Now(), backlog: newBacklog(),
		// Enough for a request to leave the process, and little against the limit.
		margin: min(cfg.MaxHold.Duration()/20, 100*time.Millisecond),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.tracing = s.log.Enabled(nobody(), levelTrace)
	// Fences of Redis are its time in microseconds; starting there keeps the numbers
	// of both kinds comparable as far as clocks agree.
	s.fences.Store(uint64(s.epoch.UnixMicro()))
	s.enabled.Store(cfg.Enabled)
	if deps.Redis != nil {
		if s.remote, err = newRemote(s, deps.Redis); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Enabled tells whether this sender's transactions are to be ordered. If not, do not
// call Enter: no lock, no Redis command, no allocation.
//
// After ordering was switched off it stays on for a sender with transactions in line, so
// that nothing overtakes them.
func (s *Service) Enabled(sender common.Address) bool {
	if !s.enabled.Load() {
		return s.wasOn.Load() && s.reg.inUse(sender)
	}
	return s.rollout.includes(sender)
}

// On tells whether ordering is switched on, for those senders it is limited to.
func (s *Service) On() bool { return s.enabled.Load() }

// SetEnabled switches ordering at run time. Turns and queues that exist come to their
// natural end.
func (s *Service) SetEnabled(on bool) {
	if s.enabled.Swap(on) == on {
		return
	}
	s.wasOn.Store(true)
	s.log.Warn("nonce ordering was switched", "enabled", on)
	if s.remote != nil {
		s.remote.wake()
	}
}

// Config returns the settings the service was made with.
func (s *Service) Config() Config { return s.cfg }

// Collectors returns the metrics for the caller to register.
func (s *Service) Collectors() []prometheus.Collector { return s.metrics.collectors }

// Enter draws the next ticket of the sender. The order is decided here; nothing waits for
// the network. The errors are a *QueueFullError and ErrClosed. Whoever gets a ticket must end it.
func (s *Service) Enter(sender common.Address, nonce uint64) (*Ticket, error) {
	l := s.reg.pin(s, sender)
	l.mu.Lock()
	defer l.unlock()
	if s.closed.Load() {
		s.reg.unpin(l)
		return nil, ErrClosed
	}
	if s.cfg.MaxQueue > 0 && l.length >= s.cfg.MaxQueue {
		length := l.length
		s.reg.unpin(l)
		return nil, &QueueFullError{Length: length}
	}
	now := s.now()
	l.expireKnowledge(now)
	t := &Ticket{lane: l, nonce: nonce, entered: now, follows: !l.empty()}
	if s.cfg.GapHold > 0 {
		t.until = now + s.cfg.GapHold.Duration()
	}
	if s.governs(l) {
		t.counted = redisStrategy
	}
	l.push(t)
	if s.tracing {
		l.noteDrawn(t)
	}
	l.dispatch(now)
	return t, nil
}

// Invalidate tells the sender's lane of a bad verdict on the submission made in the turn
// with the given fence: a wrong nonce, a receipt that is never found. The expected nonce is
// forgotten if that turn contributed to it, and comes from the mirror node again.
//
// It returns when Redis has forgotten it, too, so that whoever is told of the verdict can send
// the nonce again through any process. For that it waits for LOCK_REDIS_TIMEOUT_MS at most.
func (s *Service) Invalidate(ctx context.Context, sender common.Address, fence uint64) {
	told := s.invalidate(sender, fence)
	if told == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RedisTimeout.Duration())
	defer cancel()
	select {
	case <-told:
	case <-ctx.Done(): // it is passed on all the same
	}
}

// invalidate returns a channel that is closed when Redis knows, or nil if it need not.
func (s *Service) invalidate(sender common.Address, fence uint64) (told <-chan struct{}) {
	// Without a lane here there may still be one in Redis.
	l := s.reg.pinKnown(sender)
	if l == nil {
		if s.remote == nil || !s.remote.up.Load() {
			return nil // Redis will have forgotten by the time it is back
		}
		l = s.reg.pin(s, sender)
	}
	defer s.reg.unpin(l)
	l.mu.Lock()
	defer l.unlock()
	l.know.invalidate(fence)
	// While Redis is away only lanes that are in use anyway keep the verdict for it: the memory
	// of an idle one will have expired, and an outage must not fill ours.
	if s.remote != nil && (s.remote.up.Load() || !l.empty()) {
		l.far.forget = max(l.far.forget, fence)
		if s.governs(l) {
			waiter := make(chan struct{})
			l.far.told, told = append(l.far.told, waiter), waiter
		}
		l.dispatch(s.now())
	}
	return told
}

// Settle tells the sender's lane that the verdict on the submission made in the turn with
// the given fence is known, whatever it is: its node is no longer bound to the sender.
func (s *Service) Settle(sender common.Address, fence uint64) {
	l := s.reg.pinKnown(sender)
	if l == nil {
		return
	}
	defer s.reg.unpin(l)
	l.mu.Lock()
	defer l.unlock()
	if l.know.lastFence == fence {
		l.know.last.Open = false
	}
}

// Run keeps the service in touch with Redis until ctx ends. Then it hands held locks to
// whoever is next elsewhere, leaves all queues, and returns nil; who still waits gets
// ErrClosed. Call it once.
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
	s.workMu.Lock()
	s.ending = true
	s.workMu.Unlock()
	// Every call has a deadline and every lane is quick about the few it has left.
	drained := time.AfterFunc(4*s.cfg.RedisTimeout.Duration(), cancel)
	s.wg.Wait()
	drained.Stop()
	s.remote.farewell(work)
	return nil
}

// close ends all tickets and turns.
func (s *Service) close() {
	s.closed.Store(true)
	s.eachBusy(func(l *lane) {
		for l.head != nil || l.holder != nil {
			t := l.head
			if t == nil {
				t = l.holder
			}
			if l.drop(t, ErrClosed) || l.end(t, ErrClosed) {
				s.reg.unpin(l)
			}
		}
	})
}

// spawn runs work for a lane, unless the service is not running.
func (s *Service) spawn(f func(context.Context)) bool {
	s.workMu.Lock()
	defer s.workMu.Unlock()
	if s.work == nil || s.ending {
		return false
	}
	ctx := s.work
	s.wg.Go(func() { f(ctx) })
	return true
}

// eachBusy calls f for each lane in use, with its mutex held.
func (s *Service) eachBusy(f func(*lane)) {
	for _, l := range s.reg.pinBusy() {
		l.mu.Lock()
		f(l)
		l.unlock()
		s.reg.unpin(l)
	}
}

// governs tells whether Redis decides the order of the lane at the moment.
func (s *Service) governs(l *lane) bool {
	return s.remote != nil && s.remote.up.Load() && !l.far.broken
}

// trusted tells whether other processes take this one for alive at the given time, so
// that what it owns in Redis is its own. While Redis does not answer there is no
// telling, and the policy is to go on.
func (s *Service) trusted(at time.Duration) bool {
	return !s.remote.up.Load() || s.remote.aliveAt(at)
}

func (s *Service) now() time.Duration { return time.Since(s.epoch) }

// raiseFence makes the fences of this process continue after those of Redis.
func (s *Service) raiseFence(seen uint64) {
	for {
		last := s.fences.Load()
		if last >= seen || s.fences.CompareAndSwap(last, seen) {
			return
		}
	}
}
