package fetch

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
)

// Flights makes one read of identical reads that are under way at the same time.
type Flights struct {
	Log   *slog.Logger
	mu    sync.Mutex
	calls map[string]*flight // guarded by mu
	epoch uint64             // guarded by mu; part of a flight's identity
}

// ErrPanic says that a decoder panicked.
var ErrPanic = errors.New("internal error while reading from the mirror node")

type flight struct {
	epoch   uint64
	done    chan struct{} // closed when what follows is set
	value   any
	err     error
	givenUp bool // the caller that read gave up, or may not: others have to read themselves
}

// Do returns what read returns, for all callers of the same key at once. The first
// caller reads, in its own goroutine and under its own context; the others wait for it.
// If it gives up before there is an answer, or has no memory left for one, one of them reads in its place. Each caller
// stops waiting when its own context ends.
//
// Callers of another class (ForSend) have a read of their own.
//
// The value is shared: nobody may change it.
func (f *Flights) Do(ctx context.Context, key string, read func(context.Context) (any, error)) (any, error) {
	if c := classOf(ctx); c != classRead {
		key = c.String() + " " + key // a read may be waiting for a slot
	}
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
func (f *Flights) join(key string) (call *flight, first bool) {
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

// lead reads for all callers that wait. A panic in a decoder fails the requests that wait for it, and nothing
// else.
func (f *Flights) lead(ctx context.Context, key string, call *flight, read func(context.Context) (any, error)) {
	defer func() {
		if p := recover(); p != nil {
			f.Log.Error("panic while reading from the mirror node", "panic", p, "stack", string(debug.Stack()))
			call.err = ErrPanic
		}
		f.mu.Lock()
		f.forget(key, call) // later callers must not get a read that is given up
		f.mu.Unlock()
		close(call.done)
	}()
	call.value, call.err = read(ctx)
	call.givenUp = call.err != nil && (ctx.Err() != nil || ofRequest(call.err))
}

// forget is called with mu held.
func (f *Flights) forget(key string, call *flight) {
	if f.calls[key] == call {
		delete(f.calls, key)
	}
}

// Invalidate makes later callers read again instead of joining reads under way.
func (f *Flights) Invalidate() {
	f.mu.Lock()
	f.epoch++
	f.mu.Unlock()
}
