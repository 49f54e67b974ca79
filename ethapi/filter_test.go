package ethapi

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestFilterLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFilters(10, time.Minute)
		used, idle := s.add(&filter{}), s.add(&filter{})
		<-time.After(40 * time.Second)
		if _, _, ok := s.use(used); !ok {
			t.Error("gone before its time")
		}
		<-time.After(40 * time.Second)
		if _, _, ok := s.use(used); !ok {
			t.Error("use does not let it live on")
		}
		if s.delete(idle) {
			t.Error("lives beyond its time")
		}
		<-time.After(time.Minute)
		if _, _, ok := s.use(used); ok || len(s.byID) != 0 || s.order.Len() != 0 {
			t.Error("lives beyond its time")
		}
	})
}

func TestFilterBound(t *testing.T) {
	s := newFilters(3, time.Minute)
	first := s.add(&filter{})
	second := s.add(&filter{})
	s.add(&filter{})
	s.use(first)
	s.add(&filter{}) // the second was not used for longest
	if _, _, ok := s.use(second); ok || len(s.byID) != 3 || s.order.Len() != 3 {
		t.Errorf("%d filters", len(s.byID))
	}
	if _, _, ok := s.use(first); !ok {
		t.Error("a used filter made room")
	}
}

func TestConcurrentPollsReturnABlockOnce(t *testing.T) {
	s := newFilters(3, time.Minute)
	f := &filter{next: 5}
	s.add(f)
	var wg sync.WaitGroup
	won := make(chan bool, 10)
	for range 10 {
		wg.Go(func() { won <- s.advance(f, 5, 9) })
	}
	wg.Wait()
	close(won)
	wins := 0
	for ok := range won {
		if ok {
			wins++
		}
	}
	if wins != 1 || f.next != 9 {
		t.Errorf("%d polls won, cursor %d", wins, f.next)
	}
}

func TestFilterIDs(t *testing.T) {
	for text, want := range map[string]string{"0x1": "0x1", "0x0001": "0x1", "0xAB": "0xab", "0x": "0x0", "0x00": "0x0"} {
		if got := filterID(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}
