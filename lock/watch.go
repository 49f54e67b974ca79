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
	told := false // that nothing is heard, although Redis is well
	for ctx.Err() == nil {
		if r.up.Load() {
			err := r.listen(ctx)
			heard := r.pushed.Swap(false)
			signal(r.look) // from now on somebody has to look
			if !heard && !told && r.up.Load() && ctx.Err() == nil {
				r.svc.log.WarnContext(ctx, "redis delivers no messages: whoever waits looks for its turn", "pace", r.svc.cfg.PollInterval, "error", err)
				told = true
			}
			told = told && !heard
		}
		select {
		case <-ctx.Done():
		case <-r.hear:
		case <-time.After(pause):
		}
	}
}

// listen subscribes and receives until the subscription fails, and returns why.
func (r *remote) listen(ctx context.Context) error {
	sub := r.client.Subscribe(ctx, grantsPrefix+r.process)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() }) // nothing else interrupts a read
	defer func() {
		stop()
		_ = sub.Close()
	}()
	// Each heartbeat echoes here: silence means that the connection is dead, even
	// if nobody has said so.
	silence := 3*r.svc.cfg.HeartbeatInterval.Duration() + r.svc.cfg.RedisTimeout.Duration()
	for {
		got, err := sub.ReceiveTimeout(ctx, silence)
		if err != nil {
			return err
		}
		switch m := got.(type) {
		case *redis.Subscription:
			r.wake() // an echo at once, so that grants count from now
		case *redis.Message:
			r.received(m.Payload)
		}
	}
}

// received acts on one message. Nonsense is dropped: the lanes are looked at anyway.
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
		return // meant for what we were before
	}
	l := r.svc.reg.pin(r.svc, m.lane)
	defer r.svc.reg.unpin(l)
	l.mu.Lock()
	defer l.unlock()
	if !r.svc.governs(l) {
		return
	}
	now := r.svc.now()
	l.far.heardAt = now
	if m.verb == "lost" {
		if t := l.holder; t != nil && t.lease.turn.session == m.owner.session {
			l.lose(t, "taken by force")
		}
		return
	}
	v := view{owner: m.owner, left: -1}
	// The turn began after the last echo was sent. If that is long ago, the message may
	// have been lying here for as long: then ask instead.
	floor := time.Duration(r.floor.Load())
	if r.pushed.Load() && !r.clustered && now-floor < m.hold/4 {
		v.left = floor + m.hold
	}
	l.take(v, now)
	l.dispatch(now)
}

// watchLoop looks at lanes in which nothing was heard for a while: their owner may have
// died, or a message may have been lost. It is the fallback of Pub/Sub, too.
func (r *remote) watchLoop(ctx context.Context) {
	cfg := r.svc.cfg
	timer := time.NewTimer(cfg.HeartbeatInterval.Duration())
	defer timer.Stop()
	for {
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
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
	}
}

const watchBatch = 256 // lanes per pipeline

// watch looks at the lanes that have been quiet for the given time.
func (r *remote) watch(ctx context.Context, quiet time.Duration) {
	now := r.svc.now()
	var lanes []*lane
	for _, l := range r.svc.reg.pinBusy() {
		l.mu.Lock()
		l.verifyInTime(now)
		wanted := r.svc.governs(l) && l.wantsLook(now, quiet)
		l.unlock()
		if wanted {
			lanes = append(lanes, l)
		} else {
			r.svc.reg.unpin(l)
		}
	}
	dead := map[string]bool{}
	for len(lanes) > 0 {
		n := min(len(lanes), watchBatch)
		if ctx.Err() == nil && r.up.Load() {
			r.watchSome(ctx, lanes[:n], dead)
		}
		for _, l := range lanes[:n] {
			r.svc.reg.unpin(l)
		}
		lanes = lanes[n:]
	}
}

// verifyInTime has the places of a lane sent again once in a while: when it has waited for a
// turn for long, and in any case to renew the life of its queue.
func (l *lane) verifyInTime(now time.Duration) {
	f := &l.far
	pace := l.svc.cfg.MembershipInterval.Duration()
	if f.granted != 0 && now-f.granted < pace { // the places of this process are there
		pace = max(pace, l.svc.remote.lifetime/4)
	}
	switch {
	case l.head == nil || !l.svc.governs(l):
		f.verified = 0
	case f.verified == 0:
		f.verified = now
	case now-f.verified > pace && !f.verify:
		f.verify = true
		l.dispatch(now)
	}
}

// wantsLook: a lane with waiting tickets of ours, or a turn of ours that should be ours
// still, whose owner has not changed for a while.
func (l *lane) wantsLook(now, quiet time.Duration) bool {
	if now-l.far.heardAt < quiet {
		return false
	}
	h := l.holder
	held := h != nil && h.lease.turn.session != "" && now-h.lease.granted >= quiet
	return held || l.head != nil && (h == nil || h.lease.turn.session == "")
}

func (r *remote) watchSome(ctx context.Context, lanes []*lane, dead map[string]bool) {
	epoch, sent := r.epoch.Load(), r.svc.now()
	texts, seen := r.owners(ctx, lanes)
	records := make([]record, len(lanes))
	me := r.instance()
	for i := range lanes {
		var err error
		if records[i], err = parseRecord(texts[i]); err != nil {
			seen[i] = false
		}
		if !seen[i] {
			continue
		}
		if other := records[i].instance; other != "" && other != me {
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
			r.mourn(name)
		}
	}
	for i, l := range lanes {
		l.mu.Lock()
		if seen[i] && epoch == r.epoch.Load() {
			l.looked(records[i], me, dead[records[i].instance], sent)
		}
		l.unlock()
	}
}

// owners reads the lock keys of some lanes, and tells which of them could be read: in one
// command where one server has all keys, since a crowd of lanes may be quiet for long.
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
			r.wake() // which tells whether Redis is out
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
			r.wake() // whether it is more than one shard
			continue
		}
		texts[i], seen[i] = text, true
	}
	return texts, seen
}

// mourn removes a dead instance from all lanes in which somebody of ours waits, so that
// its places hold up nobody when they come to the front.
func (r *remote) mourn(name string) {
	r.svc.eachBusy(func(l *lane) {
		if l.head != nil && r.svc.governs(l) && l.far.mourned != name {
			l.far.mourned, l.far.reclaim = name, name
			l.dispatch(r.svc.now())
		}
	})
}

// findDead marks the instances whose heartbeat has expired. If our own is gone as well,
// it is Redis that has lost its data: then nothing is said about anybody.
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
	for name, sign := range signs {
		dead[name] = r.stillMissing(name, sign.Val() == 0 && own.Val() == 1, now)
	}
	return nil
}

// stillMissing tells whether an instance has been without a heartbeat in two looks that are a
// heartbeat apart: a key may be lost without its owner.
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

// looked takes in the owner of a lane as it was read after sent.
func (l *lane) looked(o record, me string, dead bool, sent time.Duration) {
	now := l.svc.now()
	if dead {
		l.far.reclaim = o.instance // again, if it was mourned before: it has the turn
	}
	t := l.holder
	// Whoever was told until when the first in line waits need not ask again before, while nothing happens.
	told := l.far.owner == "" && l.far.kickAt != 0
	l.far.owner, l.far.ownedBy = o.session, o.instance
	switch {
	case o.session == "":
		if t != nil && t.lease.turn.session != "" && t.lease.granted < sent {
			l.far.adopt = true // expired by accident, evicted or lost
		} else if l.head != nil && !told {
			l.far.kick = true
		}
	case o.instance == me:
		l.take(view{owner: o, left: -1}, now)
	default:
		l.heardOfAnother(o, sent)
	}
	l.dispatch(now)
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
