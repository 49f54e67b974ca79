package lock

import (
	"context"
	"errors"
	"net"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

// A heartbeat without an answer means that Redis is down. This must not be concluded while only this
// process, or the network, is busy. So the heartbeat has a connection of its own where there is one
// server: no burst of calls can hold it up. And a late answer is waited for while there are signs
// that Redis is well: a new connection would take several round trips just when each is slow.

// errSilent means that Redis answers neither a heartbeat nor anything else.
var errSilent = errors.New("no answer in time")

// maxBeatLimit bounds beatLimit, but in tests. A heartbeat lasts for a maximum of twice this, and so does the end of a service.
const maxBeatLimit = 5 * time.Second

// beatLimit is how long a late heartbeat is waited for: after it, another one still comes in time to keep this
// process alive. Time for which this process stands still does not count, up to the same length.
func (r *remote) beatLimit() time.Duration {
	return max(min(r.ttl*3/4, r.maxBeatLimit), r.svc.cfg.RedisTimeout.Duration())
}

type beatReply struct {
	values []any
	err    error
}

// sendBeat runs the heartbeat's script. A cut connection says nothing about the server, so sendBeat then tries
// again at once.
func (r *remote) sendBeat(ctx context.Context, keys []string, args ...any) ([]any, error) {
	for {
		reused := r.beatConn != nil
		values, err := r.sendBeatOnce(ctx, keys, args)
		if err == nil {
			return values, nil
		}
		r.hangUp()
		if !reused || !cut(err) || ctx.Err() != nil {
			return nil, err
		}
	}
}

func (r *remote) sendBeatOnce(ctx context.Context, keys []string, args []any) ([]any, error) {
	var by redis.Scripter = r.client
	if single, ok := r.client.(*redis.Client); ok {
		if r.beatConn == nil {
			r.beatConn = single.Conn()
		}
		by = r.beatConn
	}
	answer := make(chan beatReply, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*r.beatLimit())
		defer cancel()
		values, err := r.scripts.heartbeat.Run(ctx, by, keys, args...).Slice()
		answer <- beatReply{values, err}
	}()
	limit := r.svc.cfg.RedisTimeout.Duration()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	waited := time.Duration(0)
	for since := r.svc.now(); ; {
		select {
		case got := <-answer:
			return got.values, got.err
		case <-ctx.Done():
			r.leave(answer)
			return nil, ctx.Err()
		case <-timer.C:
		}
		if got, here := catchUp(ctx, answer); here {
			return got.values, got.err
		}
		now := r.svc.now()
		stoodStill := now-since > limit+limit/4
		waited += min(now-since, limit)
		if waited >= r.beatLimit() || !stoodStill && !r.answeredSince(since) {
			r.leave(answer)
			return nil, errSilent
		}
		since = now
		timer.Reset(limit)
	}
}

// catchUp waits for an answer that has come already, until the goroutines that are ready now have run. A timer
// overtakes thousands of them, and one of them may be about to read the answer.
func catchUp(ctx context.Context, answer <-chan beatReply) (got beatReply, here bool) {
	const poll = 20 * time.Millisecond // within which the network is looked at, however busy the process
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case got = <-answer:
		return got, true
	case <-ctx.Done():
		return got, false
	case <-timer.C:
	}
	runtime.Gosched() // lets all goroutines that are ready run first
	select {
	case got = <-answer:
		return got, true
	default:
		return got, false
	}
}

// leave stops waiting for an answer. The connection is closed when nobody uses it any more.
func (r *remote) leave(answer <-chan beatReply) {
	conn := r.beatConn
	r.beatConn = nil
	r.lingering.Go(func() {
		<-answer
		if conn != nil {
			_ = conn.Close() // nobody uses it any more, so an error does not matter
		}
	})
}

// hangUp closes the heartbeat's connection.
func (r *remote) hangUp() {
	if r.beatConn != nil {
		_ = r.beatConn.Close() // as above
		r.beatConn = nil
	}
}

// cut tells whether a connection ended, and neither a deadline nor an answer of the server was the cause.
func cut(err error) bool {
	var late net.Error
	var word redis.Error
	return !errors.Is(err, errSilent) && !errors.As(err, &word) && (!errors.As(err, &late) || !late.Timeout())
}
