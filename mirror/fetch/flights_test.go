package fetch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"lockstep/internal/relay/capacity"
)

// reads counts what is read and lets it end when it is told to.
type reads struct {
	begun   atomic.Int64
	release chan struct{}
}

func (r *reads) read(ctx context.Context) (any, error) {
	n := r.begun.Add(1)
	select {
	case <-r.release:
		return n, nil
	case <-ctx.Done():
		return nil, errors.New("ended by its caller") // whatever it says then
	}
}

type flown struct {
	value any
	err   error
}

func depart(ctx context.Context, f *Flights, r *reads) <-chan flown {
	out := make(chan flown, 1)
	go func() {
		value, err := f.Do(ctx, "key", r.read)
		out <- flown{value, err}
	}()
	synctest.Wait()
	return out
}

func TestIdenticalReadsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		r := reads{release: make(chan struct{})}
		var all []<-chan flown
		for range 10 {
			all = append(all, depart(t.Context(), &f, &r))
		}
		close(r.release)
		for _, out := range all {
			if got := <-out; got.value != int64(1) || got.err != nil {
				t.Errorf("%v, %v", got.value, got.err)
			}
		}
		if len(f.calls) != 0 {
			t.Errorf("%d reads are under way", len(f.calls))
		}
	})
}

// Callers that wait lose nothing when the one that reads gives up: one of them reads
// anew, for all.
func TestReaderGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		r := reads{release: make(chan struct{})}
		impatient, giveUp := context.WithCancel(t.Context())
		first := depart(impatient, &f, &r)
		second, third := depart(t.Context(), &f, &r), depart(t.Context(), &f, &r)
		giveUp()
		if got := <-first; got.err == nil {
			t.Errorf("the one that gave up: %v", got.value)
		}
		synctest.Wait()
		close(r.release)
		for _, out := range []<-chan flown{second, third} {
			if got := <-out; got.value != int64(2) || got.err != nil {
				t.Errorf("%v, %v; want what was read anew", got.value, got.err)
			}
		}
	})
}

// What the one that reads may not hold is no answer for the others: they read anew.
func TestReaderMayHoldNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		r := reads{release: make(chan struct{})}
		full := make(chan struct{})
		first := make(chan error, 1)
		go func() {
			_, err := f.Do(t.Context(), "key", func(context.Context) (any, error) {
				<-full
				return nil, &Error{Status: StatusNoAnswer, cause: &capacity.Exceeded{Scope: capacity.ScopeClient, Limit: 1}}
			})
			first <- err
		}()
		synctest.Wait()
		second := depart(t.Context(), &f, &r)
		close(full)
		var exceeded *capacity.Exceeded
		if err := <-first; !errors.As(err, &exceeded) {
			t.Errorf("the one that may hold no more: %v", err)
		}
		close(r.release)
		if got := <-second; got.value != int64(1) || got.err != nil {
			t.Errorf("%v, %v; want what was read anew", got.value, got.err)
		}
	})
}

// A caller that waits for another's read stops when its own context ends, and the read
// goes on.
func TestWaiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		r := reads{release: make(chan struct{})}
		first := depart(t.Context(), &f, &r)
		impatient, giveUp := context.WithCancel(t.Context())
		second := depart(impatient, &f, &r)
		giveUp()
		if got := <-second; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the one that gave up: %v, %v", got.value, got.err)
		}
		close(r.release)
		if got := <-first; got.value != int64(1) || got.err != nil {
			t.Errorf("%v, %v", got.value, got.err)
		}
	})
}
