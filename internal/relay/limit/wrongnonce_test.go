package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

func wrongNonces(budget int, client redis.UniversalClient) *WrongNonces {
	return NewWrongNonces(Config{WrongNonces: budget, RedisTimeout: envx.Millis(patience)}, client)
}

// However many come at once, and through however many relays, no more than the budget have a
// risk; what is given back can be taken again, and other senders have their own.
func TestWrongNonces(t *testing.T) {
	const budget = 10
	server := redistest.Start(t)
	alone := wrongNonces(budget, nil)
	for name, relays := range map[string][]*WrongNonces{
		"alone": {alone, alone},
		"fleet": {wrongNonces(budget, server.Client()), wrongNonces(budget, server.Client())},
	} {
		t.Run(name, func(t *testing.T) {
			sender := common.Address{1}
			var wg sync.WaitGroup
			var given atomic.Int64
			risks := make([]*NonceRisk, 100)
			for i := range risks {
				wg.Go(func() {
					risk, ok := relays[i%2].Take(t.Context(), sender, 0)
					if ok != (risk != nil) {
						t.Errorf("%v, %v", risk, ok)
					}
					if risks[i] = risk; ok {
						given.Add(1)
					}
				})
			}
			wg.Wait()
			if given.Load() != budget {
				t.Errorf("%d risks are given, want %d", given.Load(), budget)
			}
			if _, ok := relays[0].Take(t.Context(), common.Address{2}, 0); !ok {
				t.Error("another sender has no risk")
			}
			for _, risk := range risks {
				risk.GiveBack()
				risk.GiveBack() // once is enough
			}
			must.Until(t, "what was given back can be taken", func() bool { _, ok := relays[1].Take(t.Context(), sender, 0); return ok })
		})
	}
}

// A risk that was not given back is free again after a minute.
func TestWrongNoncesAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wrongNonces(1, nil)
		for range 3 {
			if _, ok := w.Take(t.Context(), common.Address{}, 0); !ok {
				t.Error("a minute is over, and there is no risk")
			}
			if _, ok := w.Take(t.Context(), common.Address{}, 0); ok {
				t.Error("two risks of one")
			}
			time.Sleep(time.Minute) //nolint:forbidigo // fake time
		}
	})
}

// Without a bound nothing is asked, and while Redis is away each process counts for itself.
func TestWrongNoncesWithoutBound(t *testing.T) {
	for _, w := range []*WrongNonces{nil, wrongNonces(0, nil)} {
		for range 100 {
			if risk, ok := w.Take(t.Context(), common.Address{}, 0); !ok || risk != nil {
				t.Errorf("%v, %v", risk, ok)
			}
		}
	}
	server := redistest.Start(t)
	w := wrongNonces(3, server.Client())
	server.Kill()
	given := 0
	for range 20 {
		if _, ok := w.Take(t.Context(), common.Address{}, 0); ok {
			given++
		}
	}
	if given != 3 {
		t.Errorf("without Redis %d risks are given, want 3", given)
	}
}
