package lock_test

import (
	"errors"
	"testing"
	"time"

	"lockstep/lock"
)

// TestNotify: a ticket tells that it does not wait any more, once, whether its turn came or
// its place was given up, and one that does not wait has nothing to tell.
func TestNotify(t *testing.T) {
	svc := newLocal(t, nil)
	stop := running(t, svc)
	holder := wait(t, enter(t, svc, 0))
	tickets := map[string]*lock.Ticket{"turn": enter(t, svc, 1), "left": enter(t, svc, 2), "closed": enter(t, svc, 3)}
	told := make(chan string, 10)
	for name, ticket := range tickets {
		if !ticket.Notify(time.Hour, func() { told <- name }) {
			t.Fatalf("%s: it does not wait", name)
		}
	}
	tickets["left"].Leave()
	if got := <-told; got != "left" {
		t.Errorf("after Leave: %s", got)
	}
	holder.Release()
	if got := <-told; got != "turn" {
		t.Errorf("after Release: %s", got)
	}
	lease := wait(t, tickets["turn"])
	if tickets["turn"].Notify(time.Hour, func() { told <- "again" }) {
		t.Error("the holder is taken for one that waits")
	}
	stop()
	if got := <-told; got != "closed" {
		t.Errorf("after the end of the service: %s", got)
	}
	if _, err := tickets["closed"].Wait(t.Context()); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("Wait says %v", err)
	}
	lease.Release()
	if len(told) > 0 {
		t.Errorf("told twice: %s", <-told)
	}
}
