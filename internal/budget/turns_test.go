package budget

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
)

// enter is Enter for a client, in tests that give it a turn.
func enter(t *testing.T, turns *Turns, client string, weight int) *Turn {
	t.Helper()
	u, err := turns.Enter(t.Context(), NewMemory(small()).Open(client), weight, false)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestASmallCallDoesNotWaitBehindAnothersHundred is the point of the turns.
func TestASmallCallDoesNotWaitBehindAnothersHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1, 1)
		var heavy sync.WaitGroup
		defer heavy.Wait()
		for range 100 {
			heavy.Go(func() {
				defer enter(t, turns, "heavy", 1).Leave()
				time.Sleep(time.Second) //nolint:forbidigo // fake time
			})
		}
		synctest.Wait()
		start := time.Now()
		enter(t, turns, "light", 1).Leave()
		if waited := time.Since(start); waited > time.Second {
			t.Errorf("the light client waited %v, which is more than one piece of the other's work", waited)
		}
	})
}

// TestTurnsGoToWhoUsedLeast has clients whose work takes different times share equally.
func TestTurnsGoToWhoUsedLeast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(2, 2)
		used := make(map[string]time.Duration)
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for client, takes := range map[string]time.Duration{"short": 100 * time.Millisecond, "middle": 300 * time.Millisecond, "long": 700 * time.Millisecond} {
			for range 10 {
				work.Go(func() {
					for {
						u, err := turns.Enter(ctx, NewMemory(small()).Open(client), 1, false)
						if err != nil {
							return
						}
						time.Sleep(takes) //nolint:forbidigo // fake time
						turns.mu.Lock()
						used[client] += takes
						turns.mu.Unlock()
						u.Leave()
					}
				})
			}
		}
		time.Sleep(10 * time.Minute) //nolint:forbidigo // fake time
		cancel()
		work.Wait()
		turns.mu.Lock()
		defer turns.mu.Unlock()
		for client, ran := range used {
			if ran < 350*time.Second || ran > 450*time.Second {
				t.Errorf("%s ran %v of twenty minutes", client, ran)
			}
		}
	})
}

func TestOneClientDoesNotHaveAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(8, 4)
		var heavy sync.WaitGroup
		defer heavy.Wait()
		for range 20 {
			heavy.Go(func() {
				defer enter(t, turns, "heavy", 2).Leave()
				time.Sleep(time.Hour) //nolint:forbidigo // fake time
			})
		}
		synctest.Wait()
		start := time.Now()
		u := enter(t, turns, "light", MostWeight)
		if time.Since(start) != 0 || u.weight != 4 {
			t.Errorf("waited %v with weight %d", time.Since(start), u.weight)
		}
		u.Leave()
	})
}

func TestWorkThatYieldsLetsOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1, 1)
		u := enter(t, turns, "long", 1)
		var order []string
		go func() {
			defer enter(t, turns, "short", 1).Leave()
			order = append(order, "short")
		}()
		synctest.Wait()
		if err := u.Yield(t.Context()); err != nil || len(order) != 0 {
			t.Fatalf("it yielded at once: %v %v", err, order)
		}
		time.Sleep(2 * slice) //nolint:forbidigo // fake time
		if err := u.Yield(t.Context()); err != nil {
			t.Fatal(err)
		}
		order = append(order, "long")
		u.Leave()
		if !slices.Equal(order, []string{"short", "long"}) {
			t.Errorf("the order was %v", order)
		}
	})
}

func TestARequestHasSoMuchTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, account := NewTurns(1, 1), NewMemory(small()).Open("a")
		for i := range 4 {
			u, err := turns.Enter(t.Context(), account, 1, true)
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
		turns := NewTurns(1, 1)
		defer enter(t, turns, "a", 1).Leave()
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error, maxWaiting)
		for range maxWaiting/2 + 1 {
			go func() {
				_, err := turns.Enter(ctx, NewMemory(small()).Open("b"), 1, false)
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
		if turns.waiting != 0 || len(turns.lines) != 1 {
			t.Errorf("%d wait in %d lines after all have gone", turns.waiting, len(turns.lines))
		}
	})
}

// TestTurnsAddUp has random work come, wait, give up and go, and counts places at each step.
func TestTurnsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(8, 6)
		for i := range 200 {
			go func() {
				random := rand.New(rand.NewPCG(7, uint64(i)))
				for range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(50))*time.Millisecond)
					u, err := turns.Enter(ctx, NewMemory(small()).Open(fmt.Sprint(i%7)), 1+random.IntN(6), false)
					turns.mu.Lock()
					if turns.running > turns.places || turns.running < 0 || turns.waiting < 0 {
						t.Errorf("%d run in %d places, %d wait", turns.running, turns.places, turns.waiting)
					}
					turns.mu.Unlock()
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
		turns.mu.Lock()
		defer turns.mu.Unlock()
		if turns.running != 0 || turns.waiting != 0 {
			t.Errorf("%d run and %d wait at the end", turns.running, turns.waiting)
		}
	})
}

func TestNobodysTurn(t *testing.T) {
	var u *Turn
	if u.Yield(t.Context()) != nil || u.Pause() != nil || u.Resume(t.Context()) != nil {
		t.Error("a turn that nobody waits for failed")
	}
	u.Leave()
}
