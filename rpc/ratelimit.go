package rpc

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Limiter decides whether an address may call a method now. Of IPv6 it is asked for a whole /64, as capacity.ClientOf
// writes it. It must answer quickly, and allow the call rather than fail.
type Limiter interface {
	Allow(ctx context.Context, ip, method string) bool
}

// Unlimited returns a Limiter that allows every call.
func Unlimited() Limiter { return unlimited{} }

type unlimited struct{}

func (unlimited) Allow(context.Context, string, string) bool { return true }

// TierLimit returns how many calls of a method of the tier one address may make per window. Tier 0 has the
// methods that no other tier has.
func (c *RateLimitConfig) TierLimit(tier int) int {
	switch tier {
	case 1:
		return c.Tier1
	case 2:
		return c.Tier2
	case 3:
		return c.Tier3
	}
	return c.Default
}

// MethodLimit returns how many calls of a method of the tier one address may make per window: the limit that the
// method has for itself, or else that of its tier.
func (c *RateLimitConfig) MethodLimit(method string, tier int) int {
	if limit, ok := c.Methods.of(method); ok {
		return limit
	}
	return c.TierLimit(tier)
}

// maxWindows bounds the memory of a WindowLimiter to some tens of megabytes.
const maxWindows = 100_000

// WindowLimiter counts calls in memory, in fixed windows per address and method that begin with the first call.
// It holds a bounded number of windows: beyond that it forgets the one used least recently, which only favours
// that client.
type WindowLimiter struct {
	length time.Duration
	limit  func(method string) int

	mu      sync.Mutex
	windows *lru.Cache[windowKey, window] // guarded by mu
}

type windowKey struct{ ip, method string }

type window struct {
	ends  time.Time
	calls int
}

// NewWindowLimiter makes a limiter for one process. The function limit says how often one address
// may call a method in a window of that length.
func NewWindowLimiter(length time.Duration, limit func(method string) int) *WindowLimiter {
	windows, err := lru.New[windowKey, window](maxWindows)
	if err != nil {
		panic(err) // only a size below 1 fails
	}
	return &WindowLimiter{length: length, limit: limit, windows: windows}
}

// Allow counts a call and reports whether it is within the limit.
func (l *WindowLimiter) Allow(_ context.Context, ip, method string) bool {
	now := time.Now()
	key := windowKey{ip, method}
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.windows.Get(key)
	if !ok || !now.Before(w.ends) {
		w = window{ends: now.Add(l.length)}
	}
	w.calls++
	l.windows.Add(key, w)
	return w.calls <= l.limit(method)
}
