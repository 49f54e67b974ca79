package cache

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockstep/internal/outage"
)

const (
	maxFailures = 3 // in a row; then Redis is left alone
	pause       = 2 * time.Second
)

// breaker leaves Redis alone when it fails. Reading and writing have one each: a Redis
// that is full, or a replica, refuses what is written and can be read all the same.
type breaker struct {
	outage outage.Log // of reading or of writing

	mu       sync.Mutex
	failures int       // guarded by mu; in a row
	until    time.Time // guarded by mu; Redis is left alone before that
}

// enter asks whether Redis may be asked. After a pause one caller may try.
func (b *breaker) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < maxFailures {
		return true
	}
	now := time.Now()
	if now.Before(b.until) {
		return false
	}
	b.until = now.Add(pause)
	return true
}

// settle notes how an operation went. That the caller gave up says nothing.
func (b *breaker) settle(ctx context.Context, err error) {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return
	}
	b.mu.Lock()
	before := b.failures
	if err == nil {
		b.failures = 0
	} else {
		b.failures++
		b.until = time.Now().Add(pause)
	}
	b.mu.Unlock()
	switch {
	case err != nil && before+1 >= maxFailures:
		b.outage.Down(ctx, err)
	case err == nil:
		b.outage.Up(ctx)
	}
}
