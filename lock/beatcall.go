package lock

import (
	"context"
	"errors"
	"net"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
)

// A heartbeat is the one call whose silence is a verdict, and it must not be passed on Redis
// when it is this process, or the network, that is busy. So it has a connection of its own where
// there is one server, which no burst of calls can hold up; and a late answer is waited for while
// there are signs that Redis is well. To hang up and to connect again would take
// several round trips just when each is slow.

// errSilent: no answer to a heartbeat, nor to anything else.
var errSilent = errors.New("no answer in time")

// mostPatience bounds patience. A heartbeat lasts at most twice as long, and so does the end of a service.
const mostPatience = 5 * time.Second

// patience is how long a late heartbeat is waited for: so that another is in time to keep this process
// alive. The time for which this process stands still does not count, as long as it is no longer than that.
func (r *remote) patience() time.Duration {
	return max(min(r.ttl*3/4, mostPatience), r.svc.cfg.RedisTimeout.Duration())
}

type beatReply struct {
	values []any
	err    error
}

// sendBeat runs the heartbeat's script. That its connection has been cut says nothing of the
// server: then there is another try at once.
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*r.patience())
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
		catchUp()
		select {
		case got := <-answer:
			return got.values, got.err
		default:
		}
		now := r.svc.now()
		stoodStill := now-since > limit+limit/4
		waited += min(now-since, limit)
		if waited >= r.patience() || !stoodStill && !r.answeredSince(since) {
			r.leave(answer)
			return nil, errSilent
		}
		since = now
		timer.Reset(limit)
	}
}

// catchUp returns when this process has done what it had to do by now: a timer overtakes thousands
// of goroutines that are ready to run, and among them may be one that reads an answer.
func catchUp() {
	const poll = 20 * time.Millisecond // within which the network is looked at, however busy the process
	<-time.After(poll)
	runtime.Gosched() // goes behind all that are ready
}

// leave stops waiting for an answer. The connection is closed when nobody uses it any more.
func (r *remote) leave(answer <-chan beatReply) {
	conn := r.beatConn
	r.beatConn = nil
	r.lingering.Go(func() {
		<-answer
		if conn != nil {
			_ = conn.Close() // of no use any more, whatever it says
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

// cut tells whether a connection ended, other than by a deadline or a word of the server.
func cut(err error) bool {
	var late net.Error
	var word redis.Error
	return !errors.Is(err, errSilent) && !errors.As(err, &word) && (!errors.As(err, &late) || !late.Timeout())
}
