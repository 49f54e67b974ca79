package fetch

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/relay/capacity"
	"lockstep/internal/secret"
)

// crowd is a mirror node that answers blocks at once, and anything else only when it is told to.
type crowd struct {
	mu      sync.Mutex
	now     int // guarded by mu; requests that it has
	highest int // guarded by mu
	release chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (c *crowd) RoundTrip(r *http.Request) (*http.Response, error) {
	c.count(1)
	defer c.count(-1)
	if !strings.Contains(r.URL.Path, "/blocks") {
		select {
		case <-c.release:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

func (c *crowd) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.highest = max(c.highest, c.now)
}

func crowded(t *testing.T, number int) (*Fetcher, *crowd) {
	config := defaults(t)
	config.URL, config.MaxSockets, config.BreakerFailures = secret.URL("http://mirror:80"), number, 1
	c := &crowd{release: make(chan struct{})}
	return newFetcher(t, config, Deps{Transport: c}), c
}

func TestRequestsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := crowded(t, 20)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := f.Do(t.Context(), Request{Label: "slow", Path: "slow"}, ignored); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if _, err := f.Do(ForSend(t.Context()), Request{Label: "slow", Service: Web3, Path: "slow"}, ignored); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		c.mu.Lock()
		highest := c.highest
		c.mu.Unlock()
		if highest != 20 {
			t.Errorf("%d requests at once, want 20", highest)
		}
		close(c.release)
		all.Wait()
	})
}

// asClient is the context of a request of the client with that address.
func asClient(t *testing.T, ip string) context.Context {
	return context.WithValue(t.Context(), capacity.Key{}, capacity.NewMemory(capacity.Config{}).Open(ip))
}

// Reads take all slots but those of sends; when these end, the reads that waited go on.
func TestReadsLeaveSendsTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := crowded(t, 20)
		slow, cancel := context.WithCancel(t.Context())
		other, cancelOther := context.WithCancel(asClient(t, "192.0.2.1"))
		defer cancelOther()
		var all sync.WaitGroup
		for range 9 {
			all.Go(func() { _, _ = f.Do(slow, Request{Label: "slow", Path: "slow"}, ignored) })
			all.Go(func() { _, _ = f.Do(other, Request{Label: "slow", Path: "slow"}, ignored) })
		}
		if synctest.Wait(); c.now != 18 {
			t.Fatalf("the reads have %d slots", c.now)
		}
		var waiting sync.WaitGroup
		for range 30 {
			waiting.Go(func() {
				if _, err := f.Do(t.Context(), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil {
					t.Errorf("a read: %v", err)
				}
			})
		}
		synctest.Wait()
		for range 10 {
			began := time.Now()
			if _, err := f.Do(ForSend(t.Context()), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil || time.Since(began) != 0 {
				t.Errorf("a send: %v after %v", err, time.Since(began))
			}
			if _, err := f.Do(t.Context(), Request{Label: "blocks", Path: "blocks", probe: true}, ignored); err != nil || time.Since(began) != 0 {
				t.Errorf("a probe: %v after %v", err, time.Since(began))
			}
		}
		cancel()
		cancelOther()
		all.Wait()
		waiting.Wait()
		if d := f.upstreams[0].rest; d.state(time.Now()) != stateClosed || len(d.slots.open)+len(d.slots.reserved) != 0 {
			t.Errorf("breaker %v, %d and %d slots taken", d.state(time.Now()), len(d.slots.open), len(d.slots.reserved))
		}
	})
}

func TestAReadWithoutASlotFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := crowded(t, 2)
		hold, err := f.slot(t.Context(), f.upstreams[0].rest, Request{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = f.Do(t.Context(), Request{Label: "blocks", Path: "blocks"}, ignored)
		var e *Error
		if !errors.As(err, &e) || e.Status != http.StatusServiceUnavailable || e.Message != errNoSlot.Error() {
			t.Errorf("%v", err)
		}
		if waited := time.Since(began); waited != f.config.Timeout.Duration() {
			t.Errorf("it waited %v", waited)
		}
		if state := f.upstreams[0].rest.state(time.Now()); state != stateClosed {
			t.Errorf("the mirror node is blamed: breaker %v", state)
		}
		hold.free()
		if _, err := f.Do(t.Context(), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil {
			t.Error(err)
		}
	})
}

// A client whose reads take long does not keep others waiting: it has three slots of four, and of those that wait its
// reads go after theirs.
func TestAClientLeavesSlotsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := crowded(t, 20)
		var all sync.WaitGroup
		greedy, cancel := context.WithCancel(asClient(t, "192.0.2.1"))
		for range 100 {
			all.Go(func() { _, _ = f.Do(greedy, Request{Label: "slow", Path: "slow"}, ignored) })
		}
		synctest.Wait()
		if c.now != 14 {
			t.Errorf("one client has %d slots of 18", c.now)
		}
		for range 5 {
			began := time.Now()
			if _, err := f.Do(asClient(t, "192.0.2.2"), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil || time.Since(began) != 0 {
				t.Errorf("another client: %v after %v", err, time.Since(began))
			}
		}
		cancel()
		all.Wait()
		if _, err := f.Do(asClient(t, "192.0.2.1"), Request{Label: "blocks", Path: "blocks"}, ignored); err != nil {
			t.Errorf("the client itself, later: %v", err)
		}
	})
}

func TestThereIsASlotForEverybody(t *testing.T) {
	for number, reserved := range map[int]int{1: 0, 2: 1, 10: 1, 11: 2, 300: 30} {
		if p := newSlots(number); cap(p.reserved) != reserved || cap(p.open) != number-reserved {
			t.Errorf("%d slots: %d for everybody, %d for sends", number, cap(p.open), cap(p.reserved))
		}
	}
}

// A send does not wait for the same read of a client, which may be waiting for a slot.
func TestSendsDoNotJoinReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Flights
		slow := reads{release: make(chan struct{})}
		first := depart(t.Context(), &f, &slow)
		quick := reads{release: make(chan struct{})}
		close(quick.release)
		if got := <-depart(ForSend(t.Context()), &f, &quick); got.value != int64(1) || got.err != nil {
			t.Errorf("the send: %v, %v", got.value, got.err)
		}
		close(slow.release)
		if got := <-first; got.err != nil {
			t.Error(got.err)
		}
		if slow.begun.Load() != 1 || quick.begun.Load() != 1 {
			t.Errorf("%d and %d reads", slow.begun.Load(), quick.begun.Load())
		}
	})
}
