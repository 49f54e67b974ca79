package capacity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/must"
)

// enter is Enter for a client, in tests that give it a permit.
func enter(t *testing.T, permits *Permits, client string, weight int) *Permit {
	t.Helper()
	return must.Get(permits.Enter(t.Context(), NewMemory(small()).Open(client), weight, false))(t)
}

// TestASmallCallDoesNotWaitBehindAnothersHundred is the point of the permits.
func TestASmallCallDoesNotWaitBehindAnothersHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permits := NewPermits(1, 1)
		var heavy sync.WaitGroup
		defer heavy.Wait()
		for range 100 {
			heavy.Go(func() {
				defer enter(t, permits, "heavy", 1).Leave()
				time.Sleep(time.Second) //nolint:forbidigo // fake time
			})
		}
		synctest.Wait()
		start := time.Now()
		enter(t, permits, "light", 1).Leave()
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("the light client waited %v, which is more than one piece of the other's work", waited)
		}
	})
}

// TestPermitsGoToWhoUsedLeast has clients whose work takes different times share equally.
func TestPermitsGoToWhoUsedLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permits := NewPermits(2, 2)
		used := make(map[string]time.Duration)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for client, takes := range map[string]time.Duration{"short": 100 * time.Millisecond, "middle": 300 * time.Millisecond, "long": 700 * time.Millisecond} {
			for range 10 {
				work.Go(func() {
					for {
						u, err := permits.Enter(ctx, NewMemory(small()).Open(client), 1, false)
						if err != nil {
							return
						}
						time.Sleep(takes) //nolint:forbidigo // fake time
						permits.mu.Lock()
						used[client] += takes
						permits.mu.Unlock()
						u.Leave()
					}
				})
			}
		}
		time.Sleep(10 * time.Minute) //nolint:forbidigo // fake time
		cancel()
		work.Wait()
		permits.mu.Lock()
		defer permits.mu.Unlock()
		for client, ran := range used {
			if ran < 350*time.Second || ran > 450*time.Second {
				t.Errorf("%s ran %v of twenty minutes", client, ran)
			}
		}
	})
}

func TestOneClientDoesNotHaveAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permits := NewPermits(8, 4)
		var heavy sync.WaitGroup
		defer heavy.Wait()
		for range 20 {
			heavy.Go(func() {
				defer enter(t, permits, "heavy", 2).Leave()
				time.Sleep(time.Hour) //nolint:forbidigo // fake time
			})
		}
		synctest.Wait()
		start := time.Now()
		u := enter(t, permits, "light", MostWeight)
		if time.Since(start) != 0 || u.weight != 4 {
			t.Errorf("waited %v with weight %d", time.Since(start), u.weight)
		}
		u.Leave()
	})
}

func TestWorkThatYieldsLetsOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permits := NewPermits(1, 1)
		u := enter(t, permits, "long", 1)
		var order []string
		go func() {
			defer enter(t, permits, "short", 1).Leave()
			order = append(order, "short")
		}()
		synctest.Wait()
		if err := u.Yield(t.Context()); err != nil || len(order) != 0 {
			t.Fatalf("it yielded at once: %v %v", err, order)
		}
		time.Sleep(2 * slice) //nolint:forbidigo // fake time
		must.Do(t, u.Yield(t.Context()))
		order = append(order, "long")
		u.Leave()
		if !slices.Equal(order, []string{"short", "long"}) {
			t.Errorf("the order was %v", order)
		}
	})
}

func TestARequestHasSoMuchTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permits, holding := NewPermits(1, 1), NewMemory(small()).Open("a")
		for i := range 4 {
			u, err := permits.Enter(t.Context(), holding, 1, true)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond) //nolint:forbidigo // fake time
			err = u.Pause()
			if i < 3 && err != nil {
				t.Fatal(err)
			}
			if i == 3 {
				exceeded(t, err, ScopeTime)
			}
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permits := NewPermits(1, 1)
		defer enter(t, permits, "a", 1).Leave()
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error, maxWaiting)
		for range maxWaiting/2 + 1 {
			go func() {
				_, err := permits.Enter(ctx, NewMemory(small()).Open("b"), 1, false)
				refused <- err
			}()
		}
		synctest.Wait()
		if len(refused) != 1 {
			t.Fatalf("%d were refused", len(refused))
		}
		exceeded(t, <-refused, ScopeQueue)
		cancel()
		synctest.Wait()
		for range maxWaiting / 2 {
			if err := <-refused; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if permits.waiting != 0 || len(permits.lines) != 1 {
			t.Errorf("%d wait in %d lines after all have gone", permits.waiting, len(permits.lines))
		}
	})
}

// TestPermitsAddUp has random work come, wait, give up and go, and counts places at each step.
func TestPermitsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		permits := NewPermits(8, 6)
		for i := range 200 {
			go func() {
				random := rand.New(rand.NewPCG(7, uint64(i)))
				for range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(50))*time.Millisecond)
					u, err := permits.Enter(ctx, NewMemory(small()).Open(fmt.Sprint(i%7)), 1+random.IntN(6), false)
					permits.mu.Lock()
					if permits.running > permits.places || permits.running < 0 || permits.waiting < 0 {
						t.Errorf("%d run in %d places, %d wait", permits.running, permits.places, permits.waiting)
					}
					permits.mu.Unlock()
					if err == nil {
						time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond) //nolint:forbidigo // fake time
						u.Leave()
						u.Leave() // is nothing
					}
					cancel()
				}
			}()
		}
		time.Sleep(time.Hour) //nolint:forbidigo // fake time
		permits.mu.Lock()
		defer permits.mu.Unlock()
		if permits.running != 0 || permits.waiting != 0 {
			t.Errorf("%d run and %d wait at the end", permits.running, permits.waiting)
		}
	})
}

func TestNobodysPermit(t *testing.T) {
	var u *Permit
	if u.Yield(t.Context()) != nil || u.Pause() != nil || u.Resume(t.Context()) != nil {
		t.Error("a permit that nobody waits for failed")
	}
	u.Leave()
}
