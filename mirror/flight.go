package mirror

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// flights lets identical reads that are under way at the same time be one.
type flights struct {
	log   *slog.Logger
	mu    sync.Mutex
	calls map[string]*flight // guarded by mu
	epoch uint64             // guarded by mu; part of a flight's identity
}

var errPanic = errors.New("internal error while reading from the mirror node")

type flight struct {
	epoch   uint64
	done    chan struct{} // closed when what follows is set
	value   any
	err     error
	givenUp bool // the caller that read gave up: others have to read themselves
}

// do returns what read returns, for all callers of the same key at once. The first
// caller reads, in its own goroutine and under its own context; the others wait for it.
// If it gives up before there is an answer, one of them reads in its place. Each caller
// stops waiting when its own context ends.
//
// The value is shared: nobody may change it.
func (f *flights) do(ctx context.Context, key string, read func(context.Context) (any, error)) (any, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		call, first := f.join(key)
		if first {
			f.lead(ctx, key, call, read)
			return call.value, call.err
		}
		select {
		case <-call.done:
			if !call.givenUp {
				return call.value, call.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join returns the read under way for a key, or a new one, which is the caller's.
func (f *flights) join(key string) (call *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if call = f.calls[key]; call != nil && call.epoch == f.epoch {
		return call, false
	}
	call = &flight{epoch: f.epoch, done: make(chan struct{})}
	if f.calls == nil {
		f.calls = make(map[string]*flight)
	}
	f.calls[key] = call
	return call, true
}

// lead reads for everybody who waits. A mistake in a decoder fails the requests that
// wait for it, and nothing else.
func (f *flights) lead(ctx context.Context, key string, call *flight, read func(context.Context) (any, error)) {
	defer func() {
		if p := recover(); p != nil {
			f.log.Error("panic while reading from the mirror node", "panic", p, "stack", string(debug.Stack()))
			call.err = errPanic
		}
		f.mu.Lock()
		f.forget(key, call) // who comes from now on must not get what is being given up
		f.mu.Unlock()
		close(call.done)
	}()
	call.value, call.err = read(ctx)
	call.givenUp = call.err != nil && ctx.Err() != nil
}

// forget is called with mu held.
func (f *flights) forget(key string, call *flight) {
	if f.calls[key] == call {
		delete(f.calls, key)
	}
}

// invalidate keeps callers that come from now on out of everything under way.
func (f *flights) invalidate() {
	f.mu.Lock()
	f.epoch++
	f.mu.Unlock()
}

// fresh is a value that is asked for at most once per interval.
type fresh[T any] struct {
	interval time.Duration
	flights  *flights
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
	shared, err := f.flights.do(ctx, key, func(ctx context.Context) (any, error) {
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

// now returns the shared value while it may be given without asking.
func (f *fresh[T]) now() (value T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, time.Now().Before(f.until)
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
