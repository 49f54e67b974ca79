package naive

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"
)

// The time limits of the published design.
const (
	PollInterval = 50 * time.Millisecond
	TimeToLive   = 30 * time.Second // of a lock whose holder does not release it
	waiterSign   = 5 * PollInterval // life of the key that says a waiter is there
	giveUpAfter  = 2 * time.Second  // for the clean-up of a holder or a waiter
)

// Lock gives one caller at a time the right to send for a sender.
type Lock interface {
	// Acquire waits for the lock. The error is ctx's. release may be called once.
	Acquire(ctx context.Context, sender common.Address) (release func(), err error)
}

// Local is the lock inside one process: first in, first out. The zero value is ready for use.
type Local struct{ senders sync.Map }

// Acquire implements Lock.
func (l *Local) Acquire(ctx context.Context, sender common.Address) (func(), error) {
	lock, _ := l.senders.LoadOrStore(sender, semaphore.NewWeighted(1))
	err := lock.(*semaphore.Weighted).Acquire(ctx, 1)
	return func() { lock.(*semaphore.Weighted).Release(1) }, err
}

// Redis is the lock over Redis.
type Redis struct{ client redis.UniversalClient }

// NewRedis makes the lock on a client of the caller's. The client should fail fast, as
// those of internal/redisx do.
func NewRedis(client redis.UniversalClient) *Redis { return &Redis{client: client} }

func keysOf(sender common.Address) (lock, queue string) {
	tag := "{" + strings.ToLower(sender.Hex()) + "}"
	return "naive:" + tag, "naive:queue:" + tag
}

func signKey(session string) string { return "naive:sign:" + session }

// Acquire implements Lock. When Redis fails, there is no lock and the caller goes ahead.
func (r *Redis) Acquire(ctx context.Context, sender common.Address) (func(), error) {
	session := uuid.NewString()
	lock, queue := keysOf(sender)
	free := func() {}
	if r.client.Set(ctx, signKey(session), "1", waiterSign).Err() != nil ||
		r.client.RPush(ctx, queue, session).Err() != nil {
		return free, over(ctx)
	}
	poll := time.NewTicker(PollInterval)
	defer poll.Stop()
	for {
		got, err := r.try(ctx, lock, queue, session)
		switch {
		case got:
			return func() { r.release(ctx, lock, session) }, nil
		case over(ctx) != nil:
			r.leave(ctx, queue, session)
			return nil, over(ctx)
		case err != nil:
			r.leave(ctx, queue, session)
			return free, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
}

// over is ctx.Err, and does not wait for the context's timer: a command that runs into the
// deadline can come back a little before it.
func over(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// try is one look of a waiter.
func (r *Redis) try(ctx context.Context, lock, queue, session string) (bool, error) {
	if err := r.client.Set(ctx, signKey(session), "1", waiterSign).Err(); err != nil {
		return false, err
	}
	head, err := r.client.LRange(ctx, queue, 0, 0).Result()
	switch {
	case err != nil:
		return false, err
	case len(head) == 0: // thrown out: back to the end
		return false, r.client.RPush(ctx, queue, session).Err()
	case head[0] != session:
		return false, r.throwOut(ctx, queue, head[0])
	}
	got, err := r.client.SetNX(ctx, lock, session, TimeToLive).Result() //nolint:staticcheck // the command the design is known by
	if err != nil || !got {
		return false, err
	}
	return true, errors.Join(r.client.LRem(ctx, queue, 1, session).Err(), r.client.Del(ctx, signKey(session)).Err())
}

// throwOut removes the first in the queue if it sent no heartbeat.
func (r *Redis) throwOut(ctx context.Context, queue, head string) error {
	alive, err := r.client.Exists(ctx, signKey(head)).Result()
	if err != nil || alive > 0 {
		return err
	}
	return r.client.LRem(ctx, queue, 1, head).Err()
}

const releaseScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// release frees the lock if it is still the session's. If that fails, it is free when
// its time to live is over.
func (r *Redis) release(ctx context.Context, lock, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpAfter)
	defer cancel()
	_ = r.client.Eval(ctx, releaseScript, []string{lock}, session).Err()
}

// leave gives up a place. If that fails, the place is thrown out for want of a sign.
func (r *Redis) leave(ctx context.Context, queue, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpAfter)
	defer cancel()
	_ = r.client.LRem(ctx, queue, 1, session).Err()
}
