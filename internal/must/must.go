// Package must ends a test where something fails that the test is not about, runs what a test needs for as long as it lasts, waits
// for what others bring about, and reads metrics.
//
//	db := must.Get(ledger.Open(t.Context(), url))(t)
//	stop := must.Run(t, service.Run)
//	must.Until(t, "the service is ready", service.Ready)
//	must.Do(t, db.Close())
//
// What a test is about it compares itself, and says what it wanted.
package must

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Patience is how long anything may take that does happen, on a machine that is busy.
const Patience = 5 * time.Minute

// Do ends the test if there is an error.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a value, or ends the test if there is an error instead.
func Get[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Get2 is Get for two values.
func Get2[A, B any](a A, b B, err error) func(t testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		t.Helper()
		Do(t, err)
		return a, b
	}
}

// Until waits for a condition that others bring about.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// Run runs something until the test ends, or stop is called, which waits for its end. It fails the test if that is an error other than
// that it was told to stop.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("what ran ended with an error: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
