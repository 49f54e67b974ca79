package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"lockstep/txmgr"
)

const (
	groupSize = 250              // calls that share one transaction
	groupLine = 10_000           // calls of one name that may wait
	groupTime = 10 * time.Second // longest time of one transaction
)

// group lets calls of one name share transactions: while one is running, those that come
// wait, and the next takes them all. The zero value is ready.
type group[T any] struct {
	mu    sync.Mutex
	lines map[string][]*turn[T] // by name; a name is there while its transactions run
}

type turn[T any] struct {
	call *T
	done chan error
}

// do runs a call with others of the same name and returns the shared transaction's error. A
// caller whose context ends before its transaction has begun leaves the line; later it
// waits for the truth, which comes within groupTime.
func (g *group[T]) do(ctx context.Context, name string, call *T, run func(context.Context, []*T) error) error {
	mine := &turn[T]{call: call, done: make(chan error, 1)}
	g.mu.Lock()
	line, running := g.lines[name]
	if len(line) >= groupLine {
		g.mu.Unlock()
		return fmt.Errorf("%w: %d calls wait already", txmgr.ErrUnavailable, groupLine)
	}
	if g.lines == nil {
		g.lines = map[string][]*turn[T]{}
	}
	g.lines[name] = append(line, mine)
	g.mu.Unlock()
	if !running {
		go g.lead(context.WithoutCancel(ctx), name, run)
	}
	select {
	case err := <-mine.done:
		return err
	case <-ctx.Done():
		if g.leave(name, mine) {
			return fmt.Errorf("%w: %w before its turn came", txmgr.ErrUnavailable, ctx.Err())
		}
		return <-mine.done
	}
}

// leave takes a turn out of its line and reports whether it was still there.
func (g *group[T]) leave(name string, mine *turn[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.lines[name], mine)
	if at >= 0 {
		g.lines[name] = slices.Delete(g.lines[name], at, at+1)
	}
	return at >= 0
}

// lead runs transactions until nobody waits.
func (g *group[T]) lead(ctx context.Context, name string, run func(context.Context, []*T) error) {
	for {
		g.mu.Lock()
		line := g.lines[name]
		if len(line) == 0 {
			delete(g.lines, name)
			g.mu.Unlock()
			return
		}
		turns := slices.Clone(line[:min(len(line), groupSize)])
		g.lines[name] = slices.Clone(line[len(turns):])
		g.mu.Unlock()
		calls := make([]*T, len(turns))
		for i, t := range turns {
			calls[i] = t.call
		}
		bounded, cancel := context.WithTimeout(ctx, groupTime)
		err := run(bounded, calls)
		cancel()
		for _, t := range turns {
			t.done <- err
		}
	}
}
