package ethapi

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// tasks runs functions at the same time. The first error ends the others' context. A panic is raised again where
// the tasks are waited for, so that it affects only one request.
type tasks struct {
	group *errgroup.Group
	panic atomic.Pointer[string]
}

func parallel(ctx context.Context, limit int) (*tasks, context.Context) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	return &tasks{group: group}, ctx
}

func (t *tasks) run(f func() error) {
	t.group.Go(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				text := fmt.Sprintf("%v\n%s", p, debug.Stack())
				t.panic.CompareAndSwap(nil, &text)
				err = errPanicked
			}
		}()
		return f()
	})
}

var errPanicked = fmt.Errorf("a parallel task panicked")

func (t *tasks) wait() error {
	err := t.group.Wait()
	if text := t.panic.Load(); text != nil {
		panic(*text)
	}
	return err
}

// each runs f for every item at the same time.
func each[T any](ctx context.Context, limit int, items []T, f func(context.Context, int, T) error) error {
	if len(items) == 1 {
		return f(ctx, 0, items[0])
	}
	t, ctx := parallel(ctx, limit)
	for i, item := range items {
		t.run(func() error { return f(ctx, i, item) })
	}
	return t.wait()
}
