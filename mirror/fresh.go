package mirror

import (
	"context"
	"strconv"
	"sync"
	"time"

	"lockstep/mirror/fetch"
)

// fresh is a value that is asked for once per interval, not more often.
type fresh[T any] struct {
	interval time.Duration
	flights  *fetch.Flights
	key      string

	mu    sync.Mutex
	value T         // guarded by mu
	until time.Time // guarded by mu; the zero time: nothing is known
	epoch uint64    // guarded by mu; raised by forget
}

// get returns the shared value, or what read returns if there is none. Errors are
// not kept.
func (f *fresh[T]) get(ctx context.Context, read func(context.Context) (T, error)) (T, error) {
	f.mu.Lock()
	value, until, epoch := f.value, f.until, f.epoch
	f.mu.Unlock()
	if time.Now().Before(until) {
		return value, nil
	}
	// The epoch in the key keeps this caller out of a read that began before forget.
	key := f.key + "#" + strconv.FormatUint(epoch, 10)
	shared, err := f.flights.Do(ctx, key, func(ctx context.Context) (any, error) {
		asked := time.Now()
		value, err := read(ctx)
		if err == nil {
			f.keep(value, asked.Add(f.interval), epoch)
		}
		return value, err
	})
	if err != nil {
		return value, err
	}
	return shared.(T), nil
}

// keep stores a value unless it was asked for before the last forget.
func (f *fresh[T]) keep(value T, until time.Time, epoch uint64) {
	f.mu.Lock()
	if f.epoch == epoch {
		f.value, f.until = value, until
	}
	f.mu.Unlock()
}

func (f *fresh[T]) forget() {
	f.mu.Lock()
	var none T
	f.value, f.until = none, time.Time{}
	f.epoch++
	f.mu.Unlock()
}

// peek returns the shared value while there is one.
func (f *fresh[T]) peek() (value T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, !f.until.IsZero()
}
