package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
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
	process   string // the name of this process in Redis; the channel is named after it
	clustered bool   // messages of several servers have no common order
	ttl       time.Duration
	takePause time.Duration
	lifetime  time.Duration // of a queue that nobody touches

	beatLimit time.Duration // see Config.beatLimit

	up          atomic.Bool
	epoch       atomic.Uint64 // number of changes of up, and of heartbeats that had lapsed
	lapsed      atomic.Uint64 // when the heartbeat was last found to have lapsed, in µs by the server's clock: turns that were given before are over
	downAt      atomic.Int64  // when Redis last went away; 0 = never
	ackedAt     atomic.Int64  // when the last confirmed heartbeat was sent
	pushed      atomic.Bool   // Pub/Sub delivers
	answered    atomic.Int64  // when the last call of a lane was answered
	takes       atomic.Int64  // from when on a free lock may be taken
	staleBefore atomic.Uint64 // what was learnt before the turn with this fence may be out of date
	stalledAt   atomic.Int64  // when Redis last answered after it had stood still; 0 = never
	slots       chan struct{} // connections that lanes may use at once
	outage      outage.Log

	nudge chan struct{} // heartbeat now
	look  chan struct{} // look at the lanes now
	hear  chan struct{} // subscribe now

	transit sync.Mutex // one change of epoch at a time

	born uint64 // used by the heartbeat alone: since when it has not lapsed, in µs by the server's clock; 0 = never sent

	missing map[string]time.Duration // used by the watch alone: when a heartbeat was first missing

	mu     sync.Mutex        // guards all below
	differ map[string]string // processes with different settings, and these, when that was looked at last
	beaten chan struct{}     // closed when the next heartbeat to begin has a result
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
		ttl: cfg.ttl(),
		// After a loss of data every live holder notices it within one heartbeat, even if its last
		// one has just succeeded.
		takePause: interval + cfg.RedisTimeout.Duration(),
		slots:     make(chan struct{}, connections(client)),
		outage:    newOutage(svc.log),
		beatLimit: cfg.beatLimit(),
		lifetime:  max(4*cfg.MembershipInterval.Duration(), 2*cfg.MaxHold.Duration()+time.Minute),
		beaten:    make(chan struct{}),
		nudge:     make(chan struct{}, 1), look: make(chan struct{}, 1), hear: make(chan struct{}, 1), missing: map[string]time.Duration{},
	}
	return r, nil
}

// mayTake tells whether a free lock may be taken. After Redis has lost data, or may have,
// its owner has to have time to adopt it first.
func (r *remote) mayTake() bool { return int64(r.svc.now()) >= r.takes.Load() }

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

// nextBeat has a heartbeat sent at once, and returns a channel that is closed when it has a result, good or bad, and that counts. One
// that has begun before does not do.
func (r *remote) nextBeat() <-chan struct{} {
	defer r.wake()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.beaten
}

// endBeats lets nobody wait for a heartbeat any more.
func (r *remote) endBeats() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.beaten)
}

// beginBeat returns the channel to close at the end of the heartbeat that begins now.
func (r *remote) beginBeat() (beaten chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	beaten, r.beaten = r.beaten, make(chan struct{})
	return beaten
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
	r.svc.each(false, func(l *lane) { l.dispatch(now) })
}

// disown ends all turns that Redis gave: this process stood still for so long that others
// may have taken them over.
func (r *remote) disown() {
	r.svc.each(false, func(l *lane) {
		if t := l.holder; t != nil && t.lease.turn.shared {
			l.lose(t, "this process sent no heartbeat for too long")
		}
	})
}

// redisBack puts Redis in charge again. lapsed is set if others may have taken this process for dead, or Redis lost its data.
func (r *remote) redisBack(lapsed bool) {
	r.transit.Lock()
	defer r.transit.Unlock()
	was := r.up.Swap(true)
	r.epoch.Add(1)
	now := r.svc.now()
	if !was && !r.outage.Up(nobody()) { // for the first time
		r.svc.log.Info("redis decides the order", "instance", r.process)
	}
	r.svc.each(false, func(l *lane) { l.redisBack(now, lapsed) })
	signal(r.hear)
	signal(r.look)
}

// beatLoop shows others that this process lives, while it needs Redis. Its heartbeats decide whether Redis is up;
// while Redis is down, they find out when it is back.
func (r *remote) beatLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for beats, fails := 0, 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.nudge:
		}
		interval, beaten, needed := r.svc.cfg.HeartbeatInterval.Duration(), r.beginBeat(), r.needed()
		var err error
		if needed {
			epoch := r.epoch.Load()
			if err = r.beat(ctx); err != nil && ctx.Err() == nil {
				r.down(epoch)
			}
		} else {
			r.rest()
		}
		close(beaten)
		switch {
		case ctx.Err() != nil || !needed:
		case err != nil:
			r.svc.metrics.redisErrors.WithLabelValues(opHeartbeat).Inc()
			r.outage.Down(ctx, err)
			// The first try comes at once, since most outages are short. The next ones come often enough for all
			// processes to be back within one heartbeat.
			interval = min(50*time.Millisecond<<min(fails, 4), interval)
			fails++
		default:
			if fails = 0; beats%12 == 0 {
				r.advertise(ctx)
			}
			beats++
		}
		timer.Reset(interval)
	}
}

// needed tells whether heartbeats are sent: with ordering off, they end when the last lane is empty.
func (r *remote) needed() bool {
	if r.svc.enabled.Load() {
		return true
	}
	busy, _ := r.svc.reg.sizes()
	return busy > 0
}

// rest stops the use of Redis until ordering is switched on.
func (r *remote) rest() {
	r.transit.Lock()
	defer r.transit.Unlock()
	r.noteDifferent(nobody(), nil)
	if r.up.Swap(false) {
		r.epoch.Add(1)
		r.svc.each(false, func(l *lane) { l.dispatch(r.svc.now()) })
	}
}

// noteStall notes that a call that was sent then was answered, or given up, just now. If that took long, windows
// have ended meanwhile, here and in other processes.
func (r *remote) noteStall(sent time.Duration) {
	if now := r.svc.now(); now-sent >= r.stall() {
		r.stalledAt.Store(int64(now))
	}
}

// stall is the time after which a Redis without an answer stands still: so long that windows end meanwhile.
func (r *remote) stall() time.Duration {
	return max(r.svc.cfg.Window.Duration()/2, 50*time.Millisecond)
}

// stalledSince tells whether Redis has stood still after that time, or seems to do so now.
func (r *remote) stalledSince(at time.Duration) bool {
	stalled := time.Duration(r.stalledAt.Load())
	overdue := time.Duration(r.ackedAt.Load()) + r.svc.cfg.HeartbeatInterval.Duration() + r.stall()
	return stalled != 0 && stalled > at || r.up.Load() && r.svc.now() >= overdue
}

// beat sends one heartbeat and acts on its result.
func (r *remote) beat(ctx context.Context) error {
	sent := r.svc.now()
	born, micros, err := r.heartbeat(ctx)
	r.noteStall(sent)
	if err != nil {
		return err
	}
	switch {
	case r.born == 0:
		r.born = born
		r.ackedAt.Store(int64(sent))
		r.redisBack(false)
	case r.born != born:
		r.renew(sent, born, micros)
	default:
		r.ackedAt.Store(int64(sent))
		if !r.up.Load() {
			// Redis may have lost the last writes, although it still has the heartbeat.
			r.staleBefore.Store(micros)
			r.pauseTaking(sent)
			r.redisBack(false)
		}
	}
	return nil
}

// renew goes on after this process's heartbeat had expired or was lost, so that others may have taken what it owns.
func (r *remote) renew(sent time.Duration, born, micros uint64) {
	// If the last heartbeat was recent, Redis lost its data or did not answer for a while. Else this process
	// stood still while others went on.
	if !r.up.Load() || r.aliveAt(sent) {
		r.staleBefore.Store(micros)
		r.pauseTaking(sent)
	} else {
		r.disown() // before the heartbeat counts, so that no check passes in between
	}
	r.born = born
	r.lapsed.Store(micros)
	r.ackedAt.Store(int64(sent))
	r.redisBack(true)
}

// pauseTaking keeps free locks from being taken for a while.
func (r *remote) pauseTaking(now time.Duration) { r.takes.Store(int64(now + r.takePause)) }

// heartbeat runs the script. It returns since when this process's heartbeat has not lapsed, and
// what time it is, in µs by the server's clock.
func (r *remote) heartbeat(ctx context.Context) (born, now uint64, err error) {
	micros, err := r.sendBeat(ctx, []string{heartbeatPrefix + r.process}, r.svc.ordering(), r.ttl.Milliseconds(), grantsPrefix+r.process)
	if err != nil {
		return 0, 0, fmt.Errorf("heartbeat: %w", err)
	}
	if len(micros) != 2 || micros[0] <= 0 || micros[1] <= 0 {
		return 0, 0, errReply
	}
	return uint64(micros[0]), uint64(micros[1]), nil
}

// advertise publishes this process's settings, and warns of processes with different settings and counts them: the
// order does not hold between them.
func (r *remote) advertise(ctx context.Context) {
	const freshness = time.Minute
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	mine := r.svc.ordering()
	now := time.Now().UnixMilli()
	var all *redis.MapStringStringCmd
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, instancesKey, r.process, strconv.FormatInt(now, 10)+" "+mine)
		p.PExpire(ctx, instancesKey, 10*freshness)
		all = p.HGetAll(ctx, instancesKey)
		return nil
	})
	if err != nil {
		return // if the trouble lasts, the next heartbeat shows it
	}
	var stale []string
	differ := map[string]string{}
	for process, text := range all.Val() {
		at, theirs, ok := parseAdvert(text)
		if !ok || now-at > freshness.Milliseconds() {
			stale = append(stale, process)
			continue
		}
		if process != r.process && theirs != mine {
			differ[process] = theirs
		}
	}
	r.noteDifferent(ctx, differ)
	if len(stale) > 0 {
		_ = r.client.HDel(ctx, instancesKey, stale...).Err() // another process removes them later
	}
}

// noteDifferent notes which processes have different settings. It warns of those that are new, and logs when there is none any more.
func (r *remote) noteDifferent(ctx context.Context, differ map[string]string) {
	enabled := r.svc.enabled.Load()
	if !enabled {
		differ = nil // this process orders nothing
	}
	r.mu.Lock()
	was := r.differ
	r.differ = differ
	r.mu.Unlock()
	for process, theirs := range differ {
		if was[process] == theirs {
			continue
		}
		log := r.svc.log.With("process", process, "theirs", theirs, "ours", r.svc.ordering())
		if spoken, _, _ := strings.Cut(theirs, " "); spoken != protocol {
			log.WarnContext(ctx, "another process speaks of lanes in Redis in another way: no order is shared with it; see the upgrade of a fleet in docs/MIGRATION.md")
		} else {
			log.WarnContext(ctx, "another process orders transactions by other settings: the order does not hold between the two")
		}
	}
	if enabled && len(differ) == 0 && len(was) > 0 {
		r.svc.log.InfoContext(ctx, "all processes that order transactions on this Redis have the same settings for it again")
	}
}

// differing returns how many processes have different settings.
func (r *remote) differing() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.differ)
}

// farewell removes this process's heartbeat, so that others need not wait until it lapses.
func (r *remote) farewell(ctx context.Context) {
	if r.born == 0 {
		return
	}
	ctx, cancel := r.deadline(context.WithoutCancel(ctx))
	defer cancel()
	_, _ = r.client.Pipelined(ctx, func(p redis.Pipeliner) error { // it lapses by itself if this fails
		p.Del(ctx, heartbeatPrefix+r.process)
		p.HDel(ctx, instancesKey, r.process)
		return nil
	})
}

// A heartbeat without an answer means that Redis is down. This must not be concluded while only this process, or the network, is
// busy. So lanes leave it a connection, and a late answer is waited for while there are signs that Redis is well: a new connection
// would take several round trips just when each is slow.

// errSilent means that Redis answers neither a heartbeat nor anything else.
var errSilent = errors.New("no answer in time")

type beatReply struct {
	micros []int64
	err    error
}

// sendBeat runs the heartbeat's script. A cut connection says nothing about the server, so sendBeat then tries once more at once.
func (r *remote) sendBeat(ctx context.Context, keys []string, args ...any) ([]int64, error) {
	micros, err := r.sendBeatOnce(ctx, keys, args)
	if err != nil && cut(err) && ctx.Err() == nil {
		return r.sendBeatOnce(ctx, keys, args)
	}
	return micros, err
}

func (r *remote) sendBeatOnce(ctx context.Context, keys []string, args []any) ([]int64, error) {
	answer := make(chan beatReply, 1)
	r.svc.wg.Go(func() { // nothing but its deadline interrupts a read
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*r.beatLimit)
		defer cancel()
		micros, err := r.scripts.beat.Run(ctx, r.client, keys, args...).Int64Slice()
		answer <- beatReply{micros, err}
	})
	limit := r.svc.cfg.RedisTimeout.Duration()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	waited := time.Duration(0)
	for since := r.svc.now(); ; {
		select {
		case got := <-answer:
			return got.micros, got.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
		}
		now := r.svc.now()
		stoodStill := now-since > limit+limit/16 // the timer came late, and so does all else in this process
		waited += min(now-since, limit)
		if waited >= r.beatLimit || !stoodStill && !r.answeredSince(since) {
			return nil, errSilent
		}
		since = now
		timer.Reset(limit)
	}
}

// cut tells whether a connection ended, and neither a deadline nor an answer of the server was the cause.
func cut(err error) bool {
	var late net.Error
	var word redis.Error
	return !errors.Is(err, errSilent) && !errors.As(err, &word) && (!errors.As(err, &late) || !late.Timeout())
}

// listenLoop receives messages over Pub/Sub.
func (r *remote) listenLoop(ctx context.Context) {
	const pause = 100 * time.Millisecond
	heard := false  // there was a subscription
	warned := false // the log has been told that Pub/Sub delivers nothing although Redis is well
	for ctx.Err() == nil {
		if r.up.Load() {
			err := r.listen(ctx, &heard)
			delivered := r.pushed.Swap(false)
			signal(r.look) // from now on the watch has to ask
			if !delivered && !warned && r.up.Load() && ctx.Err() == nil {
				r.svc.log.WarnContext(ctx, "redis delivers no messages: transactions that wait ask for their turn at intervals", "pace", r.svc.cfg.PollInterval, "error", err)
				warned = true
			}
			warned = warned && !delivered
		}
		select {
		case <-ctx.Done():
		case <-r.hear:
		case <-time.After(pause):
		}
	}
}

// listen subscribes and receives until the subscription fails, and returns why. heard: it is not the first one.
func (r *remote) listen(ctx context.Context, heard *bool) error {
	sub := r.client.Subscribe(ctx, grantsPrefix+r.process)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() }) // nothing else interrupts a read
	defer func() {
		stop()
		_ = sub.Close()
	}()
	// Each heartbeat is echoed over this connection. Without an echo the connection is dead, even if
	// it reports no error.
	silence := 3*r.svc.cfg.HeartbeatInterval.Duration() + r.svc.cfg.RedisTimeout.Duration()
	for {
		got, err := sub.ReceiveTimeout(ctx, silence)
		if err != nil {
			return err
		}
		switch m := got.(type) {
		case *redis.Subscription:
			r.wake() // an echo at once
			if *heard {
				r.verifyAll()
			}
			*heard = true
		case *redis.Message:
			r.received(m.Payload)
		}
	}
}

// verifyAll has everything stated again: a connection broke, so another server may be there now, without the last writes.
// Nothing else need show that, if all calls found one or the other.
func (r *remote) verifyAll() {
	r.svc.each(false, func(l *lane) {
		l.link.dirty = true
		l.dispatch(r.svc.now())
	})
}

// received acts on one message: an echo, or the key of a lane to look at, perhaps with its owner. It drops what it cannot read: the watch
// asks for the lanes anyway.
func (r *remote) received(payload string) {
	if payload == "echo" {
		r.pushed.Store(true)
		return
	}
	key, text, _ := strings.Cut(payload, " ")
	sender, err := parseKey(key)
	owner, unreadable := parseLockValue(text)
	if err = cmp.Or(err, unreadable); err != nil {
		r.svc.logFailure("a message was dropped", opAcquire, err)
		return
	}
	l := r.svc.lane(sender)
	defer l.unlock()
	if r.svc.governs(l) {
		l.heard(owner)
	}
}

// watchLoop looks at lanes in which nothing was heard for a while: their owner may have
// died, or a message may have been lost. It is the fallback of Pub/Sub, too.
func (r *remote) watchLoop(ctx context.Context) {
	cfg := r.svc.cfg
	timer := time.NewTimer(cfg.HeartbeatInterval.Duration())
	defer timer.Stop()
	due := r.svc.now() + cfg.HeartbeatInterval.Duration()
	for {
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			if r.late(due) {
				clear(r.missing) // on a machine where this process is starved, others may be, too
			}
		case <-r.look:
			forced = true
		}
		pace := cfg.HeartbeatInterval.Duration()
		if !r.pushed.Load() {
			pace = min(pace, cfg.PollInterval.Duration())
		}
		if r.up.Load() {
			quiet := cfg.HeartbeatInterval.Duration()
			if forced || !r.pushed.Load() {
				quiet = 0
			}
			r.watch(ctx, quiet)
		}
		timer.Reset(pace)
		due = r.svc.now() + pace
	}
}

// late tells whether this process is so late with its own work that it must not judge the heartbeats
// of others: they may be as late.
func (r *remote) late(due time.Duration) bool {
	return r.svc.now()-due > r.svc.cfg.HeartbeatInterval.Duration()
}

const watchBatch = 256 // lanes per pipeline

// watch looks at the lanes that have been quiet for the given time.
func (r *remote) watch(ctx context.Context, quiet time.Duration) {
	now := r.svc.now()
	var lanes []*lane
	r.svc.each(false, func(l *lane) {
		if !r.svc.governs(l) {
			return
		}
		if l.verifyInTime(now); l.wantsLook(now, quiet) {
			lanes = append(lanes, l)
		}
	})
	dead := map[string]bool{}
	for some := range slices.Chunk(lanes, watchBatch) {
		if ctx.Err() == nil && r.up.Load() {
			r.watchSome(ctx, some, dead)
		}
	}
}

// watchSome has those of the lanes stated again whose owner is not the one that was heard of, and removes the dead ones.
func (r *remote) watchSome(ctx context.Context, lanes []*lane, dead map[string]bool) {
	epoch := r.epoch.Load()
	found := r.owners(ctx, lanes)
	for _, o := range found {
		if _, known := dead[o.instance]; !known && o.instance != "" && o.instance != r.process {
			dead[o.instance] = false
		}
	}
	if err := r.findDead(ctx, dead); err != nil {
		r.wake()
		return
	}
	for _, name := range slices.Sorted(maps.Keys(dead)) {
		if dead[name] {
			r.removeDead(name)
		}
	}
	for _, l := range lanes {
		l.mu.Lock()
		if o, seen := found[l]; seen && !l.gone && epoch == r.epoch.Load() {
			l.applyLook(o, dead[o.instance])
		}
		l.unlock()
	}
}

// owners reads whose turn it is in some lanes: with one command each, which a cluster can answer, too, and far cheaper than a statement,
// since many lanes may be quiet for long. What cannot be read is left out.
func (r *remote) owners(ctx context.Context, lanes []*lane) map[*lane]lockValue {
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	cmds, found := make([]*redis.StringCmd, len(lanes)), make(map[*lane]lockValue, len(lanes))
	_, _ = r.client.Pipelined(ctx, func(p redis.Pipeliner) error { // each has its own error
		for i, l := range lanes {
			cmds[i] = p.Get(ctx, l.keys[0])
		}
		return nil
	})
	for i, c := range cmds {
		text, err := c.Result()
		if err != nil && !errors.Is(err, redis.Nil) && !laneError(err) {
			r.wake() // a heartbeat tells whether Redis is out
			continue
		}
		if o, err := parseLockValue(text); err == nil {
			found[lanes[i]] = o
		}
	}
	return found
}

// removeDead removes a dead instance from all lanes in which somebody of ours waits, so that
// its claims hold up nobody when they come to the front.
func (r *remote) removeDead(name string) {
	r.svc.each(false, func(l *lane) {
		if len(l.queue) > 0 && r.svc.governs(l) && l.link.dead == "" {
			l.link.dead, l.link.deadFence = name, 0
			l.dispatch(r.svc.now())
		}
	})
}

// findDead marks the instances whose heartbeat has expired. If this process's own heartbeat is gone as
// well, Redis has lost its data, and findDead marks none; nor in the time after that, which others need to show that they live.
func (r *remote) findDead(ctx context.Context, dead map[string]bool) error {
	if len(dead) == 0 {
		return nil
	}
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	now := r.svc.now()
	signs := make(map[string]*redis.IntCmd, len(dead))
	var own *redis.IntCmd
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range slices.Sorted(maps.Keys(dead)) {
			signs[name] = p.Exists(ctx, heartbeatPrefix+name)
		}
		own = p.Exists(ctx, heartbeatPrefix+r.process)
		return nil
	})
	if err != nil {
		return err
	}
	if !r.mayTake() || r.late(now) || r.late(time.Duration(r.ackedAt.Load())+r.svc.cfg.HeartbeatInterval.Duration()) {
		clear(r.missing)
		return nil
	}
	for name, sign := range signs {
		dead[name] = r.stillMissing(name, sign.Val() == 0 && own.Val() == 1, now)
	}
	return nil
}

// stillMissing tells whether an instance has been without a heartbeat in two looks that are a heartbeat apart: a
// key may be lost although its owner lives.
func (r *remote) stillMissing(name string, missing bool, now time.Duration) bool {
	if !missing {
		delete(r.missing, name)
		return false
	}
	since, known := r.missing[name]
	if !known {
		if len(r.missing) > 1000 {
			clear(r.missing)
		}
		r.missing[name] = now
		return false
	}
	return now-since >= r.svc.cfg.HeartbeatInterval.Duration()*3/4
}

// parseAdvert reads "unix-milliseconds settings".
func parseAdvert(text string) (at int64, settings string, ok bool) {
	first, settings, found := strings.Cut(text, " ")
	if !found || len(settings) > 4096 {
		return 0, "", false
	}
	at, err := strconv.ParseInt(first, 10, 64)
	return at, settings, err == nil && at > 0
}
