package pending_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/pending"
)

// heir is a process that keeps promises and takes those of dead ones over.
type heir struct {
	*pending.Promises

	stop func()

	mu   sync.Mutex
	took []uint64 // nonces
}

func newHeir(t *testing.T, client redis.UniversalClient, change func(*pending.Config)) *heir {
	t.Helper()
	cfg := settings()
	if change != nil {
		change(&cfg)
	}
	return &heir{Promises: pending.NewPromises(cfg, client, time.Hour, slog.New(slog.DiscardHandler))}
}

// live runs it until the test ends or stop is called, which leaves what it kept.
func (h *heir) live(t *testing.T) {
	t.Helper()
	h.stop = must.Run(t, func(ctx context.Context) error { return h.Run(ctx, h.takeOver) })
}

func (h *heir) takeOver(p pending.Promised) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.took = append(h.took, p.Tx.Nonce())
	return true
}

func (h *heir) nonces() []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.took)
}

func (h *heir) keep(t *testing.T, txs ...*eth.Tx) {
	t.Helper()
	for _, tx := range txs {
		h.Keep(tx)(t.Context())
	}
}

// What a relay promised and did not end is taken over when it is gone: by one of the others alone, and
// in the order of nonces. What it ended is not.
func TestPromisesOfTheDeadAreTakenOverOnce(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	dead := newHeir(t, redistest.Dial(t, url), nil)
	dead.live(t)
	w := newWallet(t)
	txs := []*eth.Tx{w.tx(3), w.tx(1), w.tx(0), w.tx(2)}
	dead.keep(t, txs...)
	dead.Release(txs[2])
	one, other := newHeir(t, redistest.Dial(t, url), nil), newHeir(t, redistest.Dial(t, url), nil)
	one.live(t)
	other.live(t)
	dead.stop()
	must.Until(t, "the promises are taken over", func() bool { return len(one.nonces())+len(other.nonces()) == 3 })
	if got := slices.Concat(one.nonces(), other.nonces()); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("taken over: %v", got)
	}
	if len(one.nonces()) > 0 && len(other.nonces()) > 0 {
		t.Errorf("%v and %v were taken over by two", one.nonces(), other.nonces())
	}
	for _, tx := range []*eth.Tx{txs[0], txs[1], txs[3]} {
		one.Release(tx)
		other.Release(tx)
	}
	client := redistest.Dial(t, url)
	must.Until(t, "nothing is left in Redis", func() bool {
		keys, err := client.Keys(t.Context(), "promise:*").Result()
		return err == nil && len(keys) == 0
	})
}

// What an heir leaves goes to the next one.
func TestPromisesAreInheritedAgain(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	tx := newWallet(t).tx(7)
	first := newHeir(t, redistest.Dial(t, url), nil)
	first.live(t)
	first.keep(t, tx)
	first.stop()
	second := newHeir(t, redistest.Dial(t, url), nil)
	second.live(t)
	must.Until(t, "the second has it", func() bool { return len(second.nonces()) == 1 })
	second.stop()
	third := newHeir(t, redistest.Dial(t, url), nil)
	third.live(t)
	must.Until(t, "the third has it", func() bool { return len(third.nonces()) == 1 })
}

// A relay that lives keeps its promises, however long they take.
func TestPromisesOfTheLivingAreTheirOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	alive, other := newHeir(t, redistest.Dial(t, server.URL()), nil), newHeir(t, redistest.Dial(t, server.URL()), nil)
	alive.live(t)
	w := newWallet(t)
	alive.keep(t, w.tx(0))
	other.live(t)
	gone := newHeir(t, redistest.Dial(t, server.URL()), nil)
	gone.live(t)
	gone.keep(t, w.tx(1))
	gone.stop() // who looks finds this one
	must.Until(t, "the dead one's is taken over", func() bool { return len(other.nonces())+len(alive.nonces()) > 0 })
	if got := slices.Concat(other.nonces(), alive.nonces()); !slices.Equal(got, []uint64{1}) {
		t.Errorf("taken over: %v", got)
	}
}

// What does not fit is kept by its relay alone, and nobody waits for it.
func TestPromisesAreBounded(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	h := newHeir(t, redistest.Dial(t, url), func(c *pending.Config) { c.MaxEntries = 2 })
	h.live(t)
	w := newWallet(t)
	h.keep(t, w.tx(0), w.tx(1), w.tx(2))
	keys, err := redistest.Dial(t, url).Keys(t.Context(), "promise:{fleet}:of:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	if n := redistest.Dial(t, url).HLen(t.Context(), keys[0]).Val(); n != 2 {
		t.Errorf("Redis has %d promises, want 2", n)
	}
	if n := metric(t, h, "lockstep_promises_alone_total"); n != 1 {
		t.Errorf("%v are counted as kept by their relay alone", n)
	}
}
