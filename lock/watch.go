package lock

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// listenLoop receives grants over Pub/Sub.
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
			r.wake() // an echo at once, so that grants count from now
			if *heard {
				r.verifyAll()
			}
			*heard = true
		case *redis.Message:
			r.received(m.Payload)
		}
	}
}

// verifyAll has all places sent again: a connection broke, so another server may be there now, without the last writes.
// Nothing else need show that, if all calls found one or the other.
func (r *remote) verifyAll() {
	r.svc.each(false, func(l *lane) {
		if l.head != nil && r.svc.governs(l) {
			l.link.want |= jobVerify
			l.dispatch(r.svc.now())
		}
	})
}

// received acts on one message. It drops a message that it cannot read: the watch asks for the lanes
// anyway.
func (r *remote) received(payload string) {
	m, err := parseMessage(payload)
	if err != nil {
		r.svc.logFailure("a message was dropped", opAcquire, err)
		return
	}
	if m.verb == "echo" {
		r.echoed(m.echo)
		return
	}
	if m.owner.instance != r.instance() {
		return // it is for an earlier generation of this process
	}
	l := r.svc.lane(m.lane)
	defer l.unlock()
	if !r.svc.governs(l) {
		return
	}
	now := r.svc.now()
	if m.verb == "lost" {
		l.applyLoss(m.owner, now)
		return
	}
	v := view{owner: m.owner, left: -1}
	// The turn began after the last echo was sent. If that was long ago, the message may have waited here
	// for as long: then the lane asks instead.
	floor := time.Duration(r.floor.Load())
	if r.pushed.Load() && !r.clustered && now-floor < m.hold/4 {
		v.left = floor + m.hold
	}
	l.applyGrant(v, now)
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
		l.verifyInTime(now)
		if r.svc.governs(l) && l.wantsLook(now, quiet) {
			lanes = append(lanes, l)
		}
	})
	dead := map[string]bool{}
	for len(lanes) > 0 {
		n := min(len(lanes), watchBatch)
		if ctx.Err() == nil && r.up.Load() {
			r.watchSome(ctx, lanes[:n], dead)
		}
		lanes = lanes[n:]
	}
}

func (r *remote) watchSome(ctx context.Context, lanes []*lane, dead map[string]bool) {
	epoch, sent := r.epoch.Load(), r.svc.now()
	texts, seen := r.owners(ctx, lanes)
	found := make([]lockValue, len(lanes))
	me := r.instance()
	for i := range lanes {
		var err error
		if found[i], err = parseLockValue(texts[i]); err != nil {
			seen[i] = false
		}
		if !seen[i] {
			continue
		}
		if other := found[i].instance; other != "" && other != me {
			if _, known := dead[other]; !known {
				dead[other] = false
			}
		}
	}
	if err := r.findDead(ctx, dead); err != nil {
		r.wake()
		return
	}
	for name, gone := range dead {
		if gone {
			r.removeDead(name)
		}
	}
	for i, l := range lanes {
		l.mu.Lock()
		if seen[i] && !l.gone && epoch == r.epoch.Load() {
			l.applyLook(found[i], me, dead[found[i].instance], sent)
		}
		l.unlock()
	}
}

// owners reads the lock keys of some lanes, and tells which of them could be read. It uses one command where one
// server has all keys, since many lanes may be quiet for long.
func (r *remote) owners(ctx context.Context, lanes []*lane) (texts []string, seen []bool) {
	texts, seen = make([]string, len(lanes)), make([]bool, len(lanes))
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	if !r.clustered {
		keys := make([]string, len(lanes))
		for i, l := range lanes {
			keys[i] = l.keys[0]
		}
		values, err := r.client.MGet(ctx, keys...).Result()
		if err != nil || len(values) != len(lanes) {
			r.wake() // a heartbeat tells whether Redis is out
			return texts, seen
		}
		for i, v := range values {
			texts[i], _ = v.(string) // else there is no key, or none of ours
			seen[i] = true
		}
		return texts, seen
	}
	cmds := make([]*redis.StringCmd, len(lanes))
	_, _ = r.client.Pipelined(ctx, func(p redis.Pipeliner) error { // each has its own error
		for i, l := range lanes {
			cmds[i] = p.Get(ctx, l.keys[0])
		}
		return nil
	})
	for i, c := range cmds {
		text, err := c.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			r.wake() // a heartbeat tells whether more than one shard is out
			continue
		}
		texts[i], seen[i] = text, true
	}
	return texts, seen
}

// removeDead removes a dead instance from all lanes in which somebody of ours waits, so that
// its places hold up nobody when they come to the front.
func (r *remote) removeDead(name string) {
	r.svc.each(false, func(l *lane) {
		if l.head != nil && r.svc.governs(l) && l.link.removedLast != name {
			l.link.removedLast, l.link.reclaim = name, name
			l.dispatch(r.svc.now())
		}
	})
}

// findDead marks the instances whose heartbeat has expired. If this process's own heartbeat is gone as
// well, Redis has lost its data, and findDead marks none.
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
		for name := range dead {
			signs[name] = p.Exists(ctx, heartbeatPrefix+name)
		}
		own = p.Exists(ctx, heartbeatPrefix+r.instance())
		return nil
	})
	if err != nil {
		return err
	}
	if r.late(now) || r.late(time.Duration(r.ackedAt.Load())+r.svc.cfg.HeartbeatInterval.Duration()) {
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
