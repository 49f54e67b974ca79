package lock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/outage"
)

// remote is the service's side of Redis: whether Redis answers, the name of this process there, and
// how long other processes take this one for alive.
type remote struct {
	svc       *Service
	client    redis.UniversalClient
	scripts   scripts
	process   string // constant; the channel is named after it
	clustered bool   // messages of several servers have no common order
	ttl       time.Duration
	takePause time.Duration
	lifetime  time.Duration // of a queue that nobody touches

	maxBeatLimit time.Duration // with a heartbeat that is late

	up         atomic.Bool
	epoch      atomic.Uint64 // number of changes of up and of the generation
	downAt     atomic.Int64  // when Redis last went away; 0 = never
	ackedAt    atomic.Int64  // when the last confirmed heartbeat was sent
	pushed     atomic.Bool   // Pub/Sub delivers
	clock      atomic.Int64  // by how much the clock of Redis is ahead of svc.now; too high by a maximum of clockError
	clockError atomic.Int64  // the round trip after which clock was known
	floor      atomic.Int64  // whatever arrives over Pub/Sub from now on was published after this
	begunBeats atomic.Uint64 // heartbeats that have begun
	answered   atomic.Int64  // when the last call of a lane was answered
	beatAt     atomic.Int64  // when the heartbeat that is under way was sent; 0 = none is
	stalledAt  atomic.Int64  // when Redis last answered after it had stood still; 0 = never
	doubts     atomic.Bool   // some lane waits for the verdict of a heartbeat
	slots      chan struct{} // connections that lanes may use at once
	outage     outage.Log

	nudge chan struct{} // heartbeat now
	look  chan struct{} // look at the lanes now
	hear  chan struct{} // subscribe now

	transit sync.Mutex // one change of up or of the generation at a time

	beatConn   *redis.Conn    // used by the heartbeat alone; nil until it is needed
	lingering  sync.WaitGroup // heartbeats that nobody waits for any more
	generation int            // used by the heartbeat alone

	missing map[string]time.Duration // used by the watch alone: when a heartbeat was first missing

	mu     sync.Mutex    // guards all below
	name   string        // instance: process and generation
	born   uint64        // since when its heartbeat has not lapsed, in µs by the server's clock; 0 = never sent
	takes  time.Duration // from when on a free lock may be taken
	trust  uint64        // what was learnt before the turn with this fence may be out of date
	echoes [64]time.Duration
	echo   uint64
	warned map[string]string // settings of others that were warned of
	differ int               // processes with different settings, when that was looked at last
	beaten chan struct{}     // closed when the next heartbeat has a result; nil: nobody waits for that
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
		// After a loss of data every live holder notices it within one heartbeat, even if its last
		// one has just succeeded.
		takePause:    interval + cfg.RedisTimeout.Duration(),
		slots:        make(chan struct{}, connections(client)),
		outage:       newOutage(svc.log),
		maxBeatLimit: maxBeatLimit,
		lifetime:     max(4*cfg.MembershipInterval.Duration(), 2*cfg.MaxHold.Duration()+time.Minute),
		nudge:        make(chan struct{}, 1), look: make(chan struct{}, 1), hear: make(chan struct{}, 1), warned: map[string]string{}, missing: map[string]time.Duration{},
	}
	r.name = r.nextName()
	return r, nil
}

// nextName returns the name of the next generation. Only the heartbeat uses it.
func (r *remote) nextName() string {
	r.generation++
	return r.process + "." + strconv.Itoa(r.generation)
}

func (r *remote) rename(name string, born uint64) (previous string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	previous, r.name, r.born = r.name, name, born
	return previous
}

// instance returns the name under which this process owns locks and places. It changes
// when others may have taken it for dead.
func (r *remote) instance() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.name
}

// wasUs tells whether an instance is one of this process, whatever its generation.
func (r *remote) wasUs(instance string) bool {
	process, _, _ := strings.Cut(instance, ".")
	return process == r.process
}

func (r *remote) takesFrom() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.takes
}

// mayTake tells whether a free lock may be taken. After Redis has lost data, or may have,
// its owner has to have time to adopt it first.
func (r *remote) mayTake() bool { return r.svc.now() >= r.takesFrom() }

func (r *remote) trustFrom() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trust
}

func (r *remote) aliveAt(at time.Duration) bool {
	return at < time.Duration(r.ackedAt.Load())+r.ttl
}

// answeredSince tells whether Redis has answered some lane since then. In a cluster that may have been
// another server.
func (r *remote) answeredSince(then time.Duration) bool {
	return !r.clustered && time.Duration(r.answered.Load()) > then
}

// connections returns how many calls of lanes may be under way at once: all that the
// client allows, but for a few that the heartbeat and the watch keep for themselves.
func connections(client redis.UniversalClient) int {
	size := 0
	switch c := client.(type) {
	case *redis.Client:
		size = c.Options().PoolSize
	case *redis.ClusterClient:
		size = c.Options().PoolSize
	}
	return max(size-4, 4)
}

func (r *remote) wake() { signal(r.nudge) }

// nextBeat returns a channel that is closed when a heartbeat has a result, good or bad, and it counts.
func (r *remote) nextBeat() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beaten == nil {
		r.beaten = make(chan struct{})
	}
	return r.beaten
}

// endBeat wakes those who wait for a heartbeat.
func (r *remote) endBeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beaten != nil {
		close(r.beaten)
		r.beaten = nil
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// attend runs the loops of the background until ctx ends: heartbeats, Pub/Sub, the watch.
func (r *remote) attend(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { r.beatLoop(ctx) })
	group.Go(func() { r.listenLoop(ctx) })
	group.Go(func() { r.watchLoop(ctx) })
	group.Wait()
}

// down gives all lanes to the order of this process, because a heartbeat has failed.
func (r *remote) down(epoch uint64) {
	r.transit.Lock()
	defer r.transit.Unlock()
	if epoch != r.epoch.Load() || !r.up.Load() || r.svc.closed.Load() {
		return
	}
	now := r.svc.now()
	if !r.aliveAt(now) {
		r.disown() // first, since nothing else is checked once Redis is known to be down
	}
	r.downAt.Store(int64(max(now, 1)))
	r.up.Store(false)
	r.epoch.Add(1)
	r.svc.metrics.redisUp.Set(0)
	r.svc.each(false, func(l *lane) { l.failOpen(now) })
}

// goOn lets the lanes go on that have waited for the verdict of a heartbeat that began
// after their call had failed.
func (r *remote) goOn(begun uint64) {
	if !r.doubts.Swap(false) {
		return
	}
	r.svc.each(false, func(l *lane) {
		switch {
		case l.link.relation != doubted:
		case l.link.pausedAt < begun:
			l.link.relate(linked)
			l.link.want |= jobVerify | jobAdopt
			l.dispatch(r.svc.now())
		default:
			r.doubts.Store(true)
			r.wake()
		}
	})
}

// disown ends all turns that Redis gave: this process stood still for so long that others
// may have taken them over.
func (r *remote) disown() {
	r.svc.each(false, func(l *lane) {
		if t := l.holder; t != nil && t.lease.turn.session != "" {
			l.lose(t, "this process sent no heartbeat for too long")
		}
	})
}

// recovered puts Redis in charge again. renewed is set if Redis took us for dead, or lost its data: then previous
// is our former name.
func (r *remote) recovered(renewed bool, previous string) {
	r.transit.Lock()
	defer r.transit.Unlock()
	was := r.up.Swap(true)
	r.epoch.Add(1)
	now := r.svc.now()
	r.svc.metrics.redisUp.Set(1)
	if !was && !r.outage.Up(nobody()) { // for the first time
		r.svc.log.Info("redis decides the order", "instance", r.instance())
	}
	r.svc.each(false, func(l *lane) { l.resume(now, renewed, previous) })
	signal(r.hear)
	signal(r.look)
}
