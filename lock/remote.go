package lock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// remote is the service's side of Redis: whether it answers, who we are there, and how
// long others take us for alive.
type remote struct {
	svc       *Service
	client    redis.UniversalClient
	scripts   scripts
	process   string // constant; the channel is named after it
	clustered bool   // messages of several servers have no common order
	ttl       time.Duration
	settle    time.Duration
	lifetime  time.Duration // of a queue that nobody touches

	up      atomic.Bool
	epoch   atomic.Uint64 // number of changes of up, of suspect and of the generation
	ackedAt atomic.Int64  // when the last confirmed heartbeat was sent
	pushed  atomic.Bool   // Pub/Sub delivers
	floor   atomic.Int64  // whatever arrives over Pub/Sub from now on was published after this
	nudge   chan struct{} // heartbeat now
	look    chan struct{} // look at the lanes now

	transit sync.Mutex // one change of up or of the generation at a time
	suspect bool       // guarded by transit: an overdue call may have been our own doing

	generation int // used by the heartbeat alone

	mu      sync.Mutex // guards all below
	name    string     // instance: process and generation
	settled time.Duration
	trust   uint64 // knowledge that began before this turn may have missed something
	echoes  [64]time.Duration
	echo    uint64
	begun   bool
	warned  map[string]string // settings of others that were warned of
}

func newRemote(svc *Service, client redis.UniversalClient) (*remote, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("lock instance id: %w", err)
	}
	cfg := svc.cfg
	interval := cfg.HeartbeatInterval.Duration()
	_, clustered := client.(*redis.ClusterClient)
	r := &remote{
		svc: svc, client: client, scripts: newScripts(), process: id.String(), clustered: clustered,
		ttl: interval * time.Duration(cfg.HeartbeatMissed),
		// After a loss of data every live holder has noticed within one heartbeat.
		settle:   interval + min(interval, 100*time.Millisecond),
		lifetime: max(4*cfg.MembershipInterval.Duration(), 2*cfg.MaxHold.Duration()+time.Minute),
		nudge:    make(chan struct{}, 1), look: make(chan struct{}, 1), warned: map[string]string{},
	}
	r.name = r.nextName()
	return r, nil
}

// nextName returns the name of the next generation. Only the heartbeat uses it.
func (r *remote) nextName() string {
	r.generation++
	return r.process + "." + strconv.Itoa(r.generation)
}

func (r *remote) rename(name string) (previous string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	previous, r.name = r.name, name
	return previous
}

// instance returns the name under which this process owns locks and places. It changes
// when others may have taken it for dead.
func (r *remote) instance() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.name
}

func (r *remote) settleUntil() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled
}

func (r *remote) trustFrom() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trust
}

func (r *remote) aliveAt(at time.Duration) bool {
	return at < time.Duration(r.ackedAt.Load())+r.ttl
}

func (r *remote) wake() { signal(r.nudge) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// attend does everything that goes on in the background, until ctx ends.
func (r *remote) attend(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { r.beatLoop(ctx) })
	group.Go(func() { r.listenLoop(ctx) })
	group.Go(func() { r.watchLoop(ctx) })
	group.Wait()
}

// failed takes in an error of Redis. From the first one on the order is kept inside the
// process, until a heartbeat succeeds. The epoch tells errors of before a recovery.
func (r *remote) failed(op string, epoch uint64, err error) {
	r.svc.metrics.redisErrors.WithLabelValues(op).Inc()
	r.transit.Lock()
	defer r.transit.Unlock()
	if epoch != r.epoch.Load() || !r.up.Load() || r.svc.closed.Load() {
		return
	}
	now := r.svc.now()
	if !r.aliveAt(now) && !r.suspect {
		// A process that was stopped finds its calls overdue, although Redis is well. Its
		// turns are not to be relied on, and its places may be gone: but those who
		// wait join again, instead of overtaking others. The next heartbeat decides.
		r.suspect = true
		r.epoch.Add(1) // what else is overdue says nothing new
		r.disown()
		r.wake()
		return
	}
	r.up.Store(false)
	r.epoch.Add(1)
	r.svc.metrics.redisUp.Set(0)
	r.svc.logFailure("the order is kept inside this process", op, err)
	r.svc.eachBusy(func(l *lane) { l.failOpen(now) })
	r.wake()
}

// disown ends all turns that Redis gave: this process stood still for so long that others
// may have taken them over.
func (r *remote) disown() {
	r.svc.eachBusy(func(l *lane) {
		if t := l.holder; t != nil && t.lease.turn.session != "" {
			l.lose(t, "this process gave no sign of life for too long")
		}
	})
}

// recovered puts Redis in charge again. renewed is set if it took us for dead, or lost
// its data: then previous is our name of before.
func (r *remote) recovered(renewed bool, previous string) {
	r.transit.Lock()
	defer r.transit.Unlock()
	r.suspect = false
	was := r.up.Swap(true)
	r.epoch.Add(1)
	now := r.svc.now()
	r.svc.metrics.redisUp.Set(1)
	if !was {
		r.svc.log.Info("redis decides the order", "instance", r.instance())
	}
	r.svc.eachBusy(func(l *lane) { l.resume(now, renewed, previous) })
	signal(r.look)
}

// failOpen gives a lane to the order of this process.
func (l *lane) failOpen(now time.Duration) {
	for t := l.head; t != nil; t = t.next {
		t.place = placeNone
		l.recount(t, local)
	}
	l.far.verify, l.far.adopt, l.far.early = true, true, nil
	l.far.tried = nil
	l.dispatch(now)
}

// resume gives a lane back to Redis.
func (l *lane) resume(now time.Duration, renewed bool, previous string) {
	for t := l.head; t != nil; t = t.next {
		l.recount(t, redisStrategy)
	}
	l.far.verify, l.far.adopt, l.far.tried = true, true, nil
	l.far.hint = l.know.known
	if renewed {
		l.far.debts, l.far.early = nil, nil
		l.far.reclaim = previous
		l.far.fence = 0
	}
	l.dispatch(now)
}

func (l *lane) recount(t *Ticket, s strategy) {
	l.svc.metrics.waiting[t.counted].Dec()
	l.svc.metrics.waiting[s].Inc()
	t.counted = s
}

// sendFailed takes in the error of a script of this lane, and returns whether it may be sent
// again later. It must be called without l.mu.
func (l *lane) sendFailed(op string, epoch uint64, err error) (again bool) {
	if !laneError(err) {
		l.svc.remote.failed(op, epoch, err)
		return !l.svc.closed.Load()
	}
	// The server is well, but not these keys: only this sender is kept off it.
	l.svc.metrics.redisErrors.WithLabelValues(op).Inc()
	l.svc.logFailure("one sender's order is kept inside this process", op, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.far.broken = true
	l.far.debts, l.far.forget = nil, 0
	l.failOpen(l.svc.now())
	if l.empty() {
		l.far.broken = false // the next burst tries again
	}
	return false
}

// laneError tells errors of one lane's keys from those of the server.
func laneError(err error) bool {
	if errors.Is(err, errReply) {
		return true
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	for _, word := range []string{"READONLY", "LOADING", "OOM", "MISCONF", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY"} {
		if strings.Contains(text, word) {
			return false
		}
	}
	return strings.HasPrefix(text, "ERR") || strings.Contains(text, "WRONGTYPE")
}
