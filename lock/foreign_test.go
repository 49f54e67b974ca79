package lock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/lock"
)

// Somebody else's value in the keys of a sender's queue stops no script halfway: no lock stays without a turn, not
// for the hold limit, and when the value is gone, or has been removed, the sender is shared again.
func TestForeignQueueLeavesNoLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	cfg := swift()
	cfg.MaxHold = envx.Millis(10 * time.Minute)
	cfg.RedisTimeout = envx.Millis(2 * time.Second) // whoever finds that its claim is gone waits for so long
	a, _ := process(t, server.Addr(), cfg, nil)
	b, _ := process(t, server.Addr(), cfg, nil)
	c, tag := server.Client(), "{"+strings.ToLower(alice.Hex())+"}"
	owner, queue := "lock:"+tag, "lock:queue:"+tag
	for name, write := range map[string]func(context.Context, redis.Pipeliner){
		"text for the queue":              func(ctx context.Context, c redis.Pipeliner) { c.Set(ctx, queue, "x", 0) },
		"a set for the queue":             func(ctx context.Context, c redis.Pipeliner) { c.SAdd(ctx, queue, "x") },
		"a list of something else":        func(ctx context.Context, c redis.Pipeliner) { c.RPush(ctx, queue, "x") },
		"text for the queue, with an end": func(ctx context.Context, c redis.Pipeliner) { c.Set(ctx, queue, "x", time.Second) },
	} {
		replace := func() {
			if _, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				p.Del(t.Context(), queue)
				write(t.Context(), p)
				return nil
			}); err != nil {
				t.Fatal(name, err)
			}
		}
		for when, meet := range map[string]func(){
			"before the first": func() { replace() },
			"in a turn": func() {
				lease := wait(t, enter(t, a, 1))
				replace()
				lease.Release()
			},
			"in a turn, with others in line": func() {
				lease := wait(t, enter(t, a, 1))
				behind, elsewhere := enter(t, a, 2), enter(t, b, 3)
				replace()
				lease.Release()
				inAnyOrder(t, behind, elsewhere)
			},
			"in a turn that is adopted": func() {
				lease := wait(t, enter(t, a, 1))
				replace()
				must.Do(t, c.Del(t.Context(), owner).Err())
				elsewhere := enter(t, b, 2)
				lease.Release()
				wait(t, elsewhere).Release()
			},
		} {
			drained(t, a)
			drained(t, b)
			meet()
			for nonce := range uint64(3) {
				wait(t, enter(t, a, nonce)).Release()
				wait(t, enter(t, b, nonce)).Release()
			}
			eventually(t, name+", "+when+": nobody owns the lock", func() bool {
				return c.Exists(t.Context(), owner).Val() == 0
			})
			eventually(t, name+", "+when+": the sender is shared again", func() bool {
				lease := wait(t, enter(t, b, 1))
				defer lease.Release()
				return lease.Turn().Strategy == "redis"
			})
		}
	}
}

// inAnyOrder gives each of the tickets its turn, whichever comes first.
func inAnyOrder(t *testing.T, tickets ...*lock.Ticket) {
	t.Helper()
	var wg sync.WaitGroup
	for _, ticket := range tickets {
		wg.Go(func() {
			lease, err := ticket.WaitWithin(t.Context(), patience)
			if err != nil {
				t.Error(err)
				return
			}
			lease.Release()
		})
	}
	wg.Wait()
}
