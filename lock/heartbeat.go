package lock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// beatLoop shows others that this process lives, while it needs Redis. Its heartbeats decide whether Redis is up;
// while Redis is down, they find out when it is back.
func (r *remote) beatLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer r.lingering.Wait()
	defer r.hangUp()
	for beats, fails := 0, 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.nudge:
		}
		interval := r.svc.cfg.HeartbeatInterval.Duration()
		if !r.needed() {
			r.rest()
			r.endBeat()
			r.hangUp()
			timer.Reset(interval)
			continue
		}
		epoch := r.epoch.Load()
		if err := r.beat(ctx); err != nil {
			if ctx.Err() != nil {
				return
			}
			r.svc.metrics.redisErrors.WithLabelValues(opHeartbeat).Inc()
			r.down(epoch)
			r.endBeat()
			r.outage.Down(ctx, err)
			// The first try comes at once, since most outages are short. The next ones come often enough for all
			// processes to be back within one heartbeat.
			timer.Reset(min(50*time.Millisecond<<min(fails, 4), interval))
			fails++
			continue
		}
		r.endBeat()
		fails = 0
		if beats%12 == 0 {
			r.advertise(ctx)
		}
		beats++
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
	r.noteDifferent(nobody(), 0)
	if r.up.Swap(false) {
		r.epoch.Add(1)
		r.svc.metrics.redisUp.Set(0)
		r.svc.each(false, func(l *lane) { l.failOpen(r.svc.now()) })
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
	stalled, sent := time.Duration(r.stalledAt.Load()), time.Duration(r.beatAt.Load())
	return stalled != 0 && stalled > at || sent != 0 && r.svc.now()-sent >= r.stall()
}

// beat sends one heartbeat and acts on its result.
func (r *remote) beat(ctx context.Context) error {
	sent, begun := r.svc.now(), r.begunBeats.Add(1)
	r.beatAt.Store(int64(max(sent, 1)))
	born, micros, err := r.heartbeat(ctx, r.instance(), sent)
	r.beatAt.Store(0)
	r.noteStall(sent)
	if err != nil {
		return err
	}
	r.mu.Lock()
	first := r.born == 0
	if first {
		r.born = born
	}
	lapsed := born != r.born
	r.mu.Unlock()
	switch {
	case first:
		r.ackedAt.Store(int64(sent))
		r.recovered(false, "")
	case lapsed:
		return r.renew(ctx, sent)
	default:
		r.ackedAt.Store(int64(sent))
		if !r.up.Load() {
			// Redis may have lost the last writes, although it still has the heartbeat.
			r.distrust(micros)
			r.pauseTaking(sent)
			r.recovered(false, "")
		}
		r.goOn(begun)
	}
	return nil
}

// renew starts a new generation: our heartbeat had expired or was lost, so that others
// may have taken what we own.
func (r *remote) renew(ctx context.Context, late time.Duration) error {
	// If the last heartbeat was recent, Redis lost its data or did not answer for a while. Else this process
	// stood still while others went on.
	alive := !r.up.Load() || r.aliveAt(late)
	name, sent := r.nextName(), r.svc.now()
	born, micros, err := r.heartbeat(ctx, name, sent)
	if err != nil {
		return err
	}
	if !alive {
		r.disown() // before the heartbeat counts, so that no check passes in between
	}
	previous := r.rename(name, born)
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	if err := r.client.Del(ctx, heartbeatPrefix+previous).Err(); err != nil {
		return err
	}
	if alive {
		r.distrust(micros)
		r.pauseTaking(sent)
	}
	r.ackedAt.Store(int64(sent))
	r.recovered(true, previous)
	return nil
}

// pauseTaking keeps free locks from being taken for a while.
func (r *remote) pauseTaking(now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takes = now + r.takePause
}

func (r *remote) distrust(micros uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trust = micros
}

// heartbeat runs the script. It returns since when this process's heartbeat has not lapsed, and
// what time it is, in µs by the server's clock.
func (r *remote) heartbeat(ctx context.Context, name string, sent time.Duration) (born, now uint64, err error) {
	r.mu.Lock()
	r.echo++
	echo := r.echo
	r.echoes[echo%uint64(len(r.echoes))] = sent
	r.mu.Unlock()
	settings := r.svc.ordering()
	reply, err := r.sendBeat(ctx, []string{heartbeatPrefix + name}, settings, r.ttl.Milliseconds(), grantsPrefix+r.process, echo)
	if err != nil {
		return 0, 0, fmt.Errorf("heartbeat: %w", err)
	}
	if len(reply) != 2 {
		return 0, 0, errReply
	}
	var micros [2]int64
	for i := range micros {
		if micros[i], err = replyInt(reply[i]); err != nil || micros[i] <= 0 {
			return 0, 0, errReply
		}
	}
	r.clockError.Store(int64(r.svc.now() - sent))
	r.clock.Store(int64(time.Duration(micros[1])*time.Microsecond - sent))
	return uint64(micros[0]), uint64(micros[1]), nil
}

// echoed notes that a heartbeat's message has arrived over Pub/Sub.
func (r *remote) echoed(n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.echo || r.echo-n >= uint64(len(r.echoes)) {
		return
	}
	r.floor.Store(int64(r.echoes[n%uint64(len(r.echoes))]))
	r.pushed.Store(true)
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
	differ := 0
	for process, text := range all.Val() {
		at, theirs, ok := parseAdvert(text)
		if !ok || now-at > freshness.Milliseconds() {
			stale = append(stale, process)
			continue
		}
		if process == r.process || theirs == mine {
			continue
		}
		differ++
		if r.newWarning(process, theirs) {
			r.svc.log.WarnContext(ctx, "another process orders transactions by other settings: the order does not hold between the two",
				"process", process, "theirs", theirs, "ours", mine)
		}
	}
	r.noteDifferent(ctx, differ)
	if len(stale) > 0 {
		_ = r.client.HDel(ctx, instancesKey, stale...).Err() // another process removes them later
	}
}

// noteDifferent shows how many processes have different settings, and logs when it is none any more.
func (r *remote) noteDifferent(ctx context.Context, n int) {
	if !r.svc.enabled.Load() {
		n = 0 // this process orders nothing
	}
	r.mu.Lock()
	ended := n == 0 && r.differ > 0 && r.svc.enabled.Load()
	r.differ = n
	r.svc.metrics.differ.Set(float64(n))
	if ended {
		clear(r.warned) // what differs again is told again
	}
	r.mu.Unlock()
	if ended {
		r.svc.log.InfoContext(ctx, "all processes that order transactions on this Redis have the same settings for it again")
	}
}

func (r *remote) newWarning(process, theirs string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warned[process] == theirs || !r.svc.enabled.Load() {
		return false
	}
	if len(r.warned) > 1000 {
		clear(r.warned)
	}
	r.warned[process] = theirs
	return true
}

// farewell removes this process's heartbeat, so that others need not wait until it lapses.
func (r *remote) farewell(ctx context.Context) {
	r.mu.Lock()
	begun := r.born != 0
	r.mu.Unlock()
	if !begun {
		return
	}
	ctx, cancel := r.deadline(context.WithoutCancel(ctx))
	defer cancel()
	_, _ = r.client.Pipelined(ctx, func(p redis.Pipeliner) error { // it lapses by itself if this fails
		p.Del(ctx, heartbeatPrefix+r.instance())
		p.HDel(ctx, instancesKey, r.process)
		return nil
	})
}
