package limit

import (
	"context"
	_ "embed" // the script
	"math"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/redisx"
)

//go:embed lua/wrongnonce.lua
var wrongNonceLua string

// wrongNonceWindow is the time that WRONG_NONCE_BUDGET is for.
const wrongNonceWindow = time.Minute

// WrongNonces bounds how many transactions of one sender the network can refuse in a minute for their
// nonce, or because the sender cannot pay, since the operator pays for each. A transaction that is not known to be
// next takes a risk before it is sent, and gives it back unless it is refused: so there are
// never more on their way than may still be refused. One that was next when it was sent, and was
// refused all the same, is charged a risk afterwards. The risks of a fleet are in Redis; while
// that is away, or short of memory, each process has its own.
//
//	wrongnonce:{<sender>}   sorted set: risks by the time they were taken, ms; expires
type WrongNonces struct {
	budget  int
	redis   *redisx.Asker // nil: this process is alone
	take    *redis.Script
	refused prometheus.Counter

	mu      sync.Mutex
	senders *simplelru.LRU[common.Address, risks]     // guarded by mu
	charged *simplelru.LRU[common.Address, time.Time] // until when a charge of this process counts; guarded by mu
	excused *simplelru.LRU[common.Address, time.Time] // until when nothing is charged; guarded by mu
}

// risks are those of one sender that this process keeps: by name, when they were taken.
type risks map[string]time.Time

// excuse is for how long nothing is charged after Excuse: what was at its node by then has its verdict.
const excuse = 10 * time.Second

// wrongNonceSenders bounds the memory for senders. Who is forgotten has all risks again.
const wrongNonceSenders = 16_384

// NewWrongNonces makes the bound of a configuration; the client is nil without Redis.
func NewWrongNonces(cfg Config, client redis.UniversalClient) *WrongNonces {
	w := &WrongNonces{
		budget: cfg.WrongNonces, take: redis.NewScript(redisx.SpareLua + wrongNonceLua),
		senders: ofSenders[risks](), charged: ofSenders[time.Time](), excused: ofSenders[time.Time](),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_wrong_nonce_budget_refusals_total", Help: "Transactions that were not sent because the network had refused too many of their sender's for their nonce or for want of funds.",
		}),
	}
	w.redis = redisx.NewAsker(client, redisx.AskerOptions{Timeout: cfg.RedisTimeout.Duration()})
	return w
}

// send tells Redis something, which nobody waits for. What cannot be told counts in this process, and is free again in a minute.
func (w *WrongNonces) send(what func(context.Context, redis.UniversalClient) error) {
	if w.redis != nil {
		//nolint:forbidigo // the transaction's own context may be over by now
		go func() { _ = w.redis.Ask(context.Background(), what) }()
	}
}

func ofSenders[V any]() *simplelru.LRU[common.Address, V] {
	senders, err := simplelru.NewLRU[common.Address, V](wrongNonceSenders, nil)
	if err != nil {
		panic(err) // only a size below 1 fails
	}
	return senders
}

// Collectors returns the metrics for registration.
func (w *WrongNonces) Collectors() []prometheus.Collector { return []prometheus.Collector{w.refused} }

// NonceRisk is a risk of a transaction that may be refused. A nil one is none.
type NonceRisk struct {
	of     *WrongNonces
	sender common.Address
	name   string
	once   sync.Once
}

// Take takes a risk for a transaction that is not known to be next. It is false if the sender
// has none left, or no more than spare. The risk is nil if there is no bound.
func (w *WrongNonces) Take(ctx context.Context, sender common.Address, spare int) (risk *NonceRisk, ok bool) {
	if w == nil || w.budget == 0 {
		return nil, true
	}
	risk = &NonceRisk{of: w, sender: sender, name: uuid.NewString()}
	if !w.enter(ctx, risk, w.budget-spare) {
		return nil, false
	}
	return risk, true
}

// Refused counts a transaction that is not sent for want of a risk.
func (w *WrongNonces) Refused() { w.refused.Inc() }

// Budget is how many risks a sender has; 0: there is no bound.
func (w *WrongNonces) Budget() int {
	if w == nil {
		return 0
	}
	return w.budget
}

// Shared tells whether the risks are those of a fleet.
func (w *WrongNonces) Shared() bool { return w.Budget() != 0 && w.redis != nil }

// Charge takes a risk for a transaction that was refused without having one, even if there is none
// left. It does not wait.
func (w *WrongNonces) Charge(sender common.Address) {
	if w.Budget() == 0 {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if until, ok := w.excused.Get(sender); ok && now.Before(until) {
		return
	}
	w.charged.Add(sender, now.Add(wrongNonceWindow))
	name := uuid.NewString()
	w.of(sender, now)[name] = now
	w.send(func(ctx context.Context, c redis.UniversalClient) error {
		const any = 1 << 30
		return w.take.Run(ctx, c, []string{wrongNonceKey(sender)}, wrongNonceWindow.Milliseconds(), any, name).Err()
	})
}

// Watched tells whether a sender has had risks or charges in this process in the last minute.
func (w *WrongNonces) Watched(sender common.Address) bool {
	if w.Budget() == 0 {
		return false
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.senders.Contains(sender) && len(w.of(sender, now)) > 0
}

// Left returns how many risks a sender has left whom this process charged in the last minute. It is
// false, without a question, for any other.
func (w *WrongNonces) Left(ctx context.Context, sender common.Address) (left int, charged bool) {
	if w.Budget() == 0 {
		return 0, false
	}
	now := time.Now()
	w.mu.Lock()
	until, ok := w.charged.Get(sender)
	here := 0
	if ok = ok && now.Before(until); ok {
		here = len(w.of(sender, now))
	}
	w.mu.Unlock()
	if !ok {
		return 0, false
	}
	used := redisx.Else(ctx, w.redis, func(ctx context.Context, c redis.UniversalClient) (int, error) {
		fleet, err := c.ZCard(ctx, wrongNonceKey(sender)).Result() // another process may have excused the sender
		return int(fleet), err
	}, func() int { return here })
	return w.budget - used, true
}

// Excuse gives a sender back all that was charged, here and in Redis, because the network lost a
// transaction, for which no sender can be blamed. It does not wait.
func (w *WrongNonces) Excuse(sender common.Address) {
	if w.Budget() == 0 {
		return
	}
	w.mu.Lock()
	w.senders.Remove(sender)
	w.charged.Remove(sender)
	w.excused.Add(sender, time.Now().Add(excuse))
	w.mu.Unlock()
	w.send(func(ctx context.Context, c redis.UniversalClient) error {
		return c.Del(ctx, wrongNonceKey(sender)).Err()
	})
}

// of returns the risks of a sender that count still. mu must be held.
func (w *WrongNonces) of(sender common.Address, now time.Time) risks {
	p, ok := w.senders.Get(sender)
	if !ok {
		p = risks{}
		w.senders.Add(sender, p)
	}
	for name, taken := range p {
		if now.Sub(taken) >= wrongNonceWindow {
			delete(p, name)
		}
	}
	return p
}

// GiveBack frees the risk: the network did not refuse the transaction. It does not wait.
func (r *NonceRisk) GiveBack() {
	if r == nil {
		return
	}
	r.once.Do(func() {
		w := r.of
		w.mu.Lock()
		if p, ok := w.senders.Peek(r.sender); ok {
			delete(p, r.name)
		}
		w.mu.Unlock()
		w.send(func(ctx context.Context, c redis.UniversalClient) error {
			return c.ZRem(ctx, wrongNonceKey(r.sender), r.name).Err()
		})
	})
}

func wrongNonceKey(sender common.Address) string {
	return "wrongnonce:{" + strings.ToLower(sender.Hex()) + "}"
}

// enter takes a risk if there is one.
func (w *WrongNonces) enter(ctx context.Context, r *NonceRisk, most int) bool {
	return redisx.Else(ctx, w.redis, func(ctx context.Context, c redis.UniversalClient) (bool, error) {
		taken, err := w.take.Run(ctx, c, []string{wrongNonceKey(r.sender)}, wrongNonceWindow.Milliseconds(), most, r.name).Bool()
		return taken && w.enterHere(r, math.MaxInt), err
	}, func() bool { return w.enterHere(r, most) })
}

func (w *WrongNonces) enterHere(r *NonceRisk, most int) bool {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.of(r.sender, now)
	if len(p) >= most {
		return false
	}
	p[r.name] = now
	return true
}
