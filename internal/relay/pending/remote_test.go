package pending_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/pending"
)

// metric adds up the series of a metric.
func metric(t *testing.T, of interface{ Collectors() []prometheus.Collector }, name string) float64 {
	t.Helper()
	return must.Measure(t, of.Collectors()...).Of(name)
}

// P8, P6: what a process that was killed left in Redis expires entry by entry, while
// others of the same sender are busy; what lives, however long, stays.
func TestP6P8DeadProcessLeavesNothing(t *testing.T) {
	cfg := settings()
	cfg.EntryTTL = envx.Millis(900 * time.Millisecond)
	server := redistest.Start(t)
	dead := pending.New(cfg, pending.Deps{Redis: redistest.Dial(t, server.URL()), Bodies: true})
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _ = dead.Run(ctx); close(ended) }()
	alive, _ := start(t, cfg, redistest.Dial(t, server.URL()))
	asked, _ := start(t, cfg, redistest.Dial(t, server.URL()))

	w := newWallet(t)
	waiting := w.tx(5)
	alive.Add(waiting)
	dead.Add(w.tx(6))
	dead.Add(w.tx(7))
	must.Until(t, "all are known", func() bool { return asked.Next(t.Context(), w.address, 5) == 8 })
	kill()
	<-ended
	must.Until(t, "those of the dead process are gone", func() bool { return asked.Next(t.Context(), w.address, 5) == 6 })
	must.Until(t, "and from the lists", func() bool {
		return len(asked.Pending(t.Context(), nil)) == 1 && asked.Count(t.Context()) == 1
	})
	// By now the one that waits has been renewed several times.
	alive.Done(waiting, true, false)
	must.Until(t, "the live one is proven", func() bool { return asked.Next(t.Context(), w.address, 5) == 6 })
}

// P5: a transaction is never neither pending nor proven for whoever asks while it
// changes from one to the other.
func TestP5NoNonceIsGivenTwice(t *testing.T) {
	url := redistest.Start(t).URL()
	told, _ := start(t, settings(), redistest.Dial(t, url))
	asked, _ := start(t, settings(), redistest.Dial(t, url))
	w := newWallet(t)
	const rounds = 300
	txs := make([]*eth.Tx, rounds)
	for nonce := range txs {
		txs[nonce] = w.tx(uint64(nonce))
	}
	told.Add(txs[0])
	must.Until(t, "the first is known", func() bool { return asked.Next(t.Context(), w.address, 0) == 1 })
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for last := uint64(0); ; {
			select {
			case <-stop:
				return
			default:
			}
			next := asked.Next(t.Context(), w.address, 0)
			if next < last {
				t.Errorf("the pending nonce went from %d to %d", last, next)
				return
			}
			last = next
		}
	}()
	for nonce := 1; nonce < rounds; nonce++ {
		told.Add(txs[nonce])
		told.Done(txs[nonce-1], true, false)
	}
	must.Until(t, "all are known", func() bool { return asked.Next(t.Context(), w.address, 0) == rounds })
	close(stop)
	<-ended
}

// A proof in Redis counts for its time, however long the sender's other transactions wait.
func TestProofsExpire(t *testing.T) {
	cfg := settings()
	cfg.ExecutedTTL = envx.Millis(time.Second)
	url := redistest.Start(t).URL()
	told, _ := start(t, cfg, redistest.Dial(t, url))
	asked, _ := start(t, cfg, redistest.Dial(t, url))
	w := newWallet(t)
	waiting, executed := w.tx(9), w.tx(5)
	told.Add(waiting)
	told.Add(executed)
	told.Done(executed, true, false)
	must.Until(t, "the proof is known", func() bool {
		told.Add(executed) // and a new one comes, in case nobody looked while the first one counted
		told.Done(executed, true, false)
		return asked.Latest(t.Context(), w.address, 5) == 6
	})
	must.Until(t, "it is forgotten", func() bool { return asked.Latest(t.Context(), w.address, 5) == 5 })
	if next, other := asked.Next(t.Context(), w.address, 5), asked.Next(t.Context(), w.address, 9); next != 5 || other != 10 {
		t.Errorf("next from 5 is %d, and from 9 %d", next, other)
	}
}

// After a restart of the whole fleet Redis still knows what was proven, and nothing of
// what was pending.
func TestRestart(t *testing.T) {
	cfg := settings()
	cfg.EntryTTL = envx.Millis(900 * time.Millisecond)
	url := redistest.Start(t).URL()
	before, stop := start(t, cfg, redistest.Dial(t, url))
	w := newWallet(t)
	executed := w.tx(5)
	before.Add(executed)
	before.Done(executed, true, false)
	before.Add(w.tx(6))
	stop()
	after, _ := start(t, cfg, redistest.Dial(t, url))
	if got := after.Latest(t.Context(), w.address, 5); got != 6 {
		t.Errorf("latest %d, want 6", got)
	}
	must.Until(t, "the old process's entry is gone", func() bool { return after.Next(t.Context(), w.address, 5) == 6 })
}

// A Redis that is away, or hangs, holds nobody up and loses nothing of what this
// process knows; what could not be told is counted. When it is back it is used again.
func TestRedisTrouble(t *testing.T) {
	cfg := settings()
	cfg.RedisTimeout = envx.Millis(time.Second)
	cfg.EntryTTL = envx.Millis(6 * time.Second)
	server := redistest.Start(t)
	told, _ := start(t, cfg, redistest.Dial(t, server.URL()))
	asked, _ := start(t, cfg, redistest.Dial(t, server.URL()))
	w := newWallet(t)
	server.Pause()
	for nonce := range uint64(100) {
		told.Add(w.tx(nonce))
	}
	if got := told.Next(t.Context(), w.address, 0); got != 100 {
		t.Errorf("its own: %d, want 100", got)
	}
	if got := asked.Next(t.Context(), w.address, 0); got != 0 {
		t.Errorf("of others: %d, want 0", got)
	}
	must.Until(t, "the loss is counted", func() bool { return metric(t, told, "rpc_relay_txpool_storage_errors_total") > 0 })
	server.Resume()
	must.Until(t, "others know again", func() bool { return asked.Next(t.Context(), w.address, 0) == 100 })
}

// ages is a life of keys so long that no window of the quota ends while a test runs.
const ages = envx.Millis(50 * 365 * 24 * time.Hour)

// Transactions are kept whole within the fleet's quota; those that do not fit are counted, and are known by their nonces. They are not kept
// either when Redis is told that they are still on their way.
func TestRedisBytes(t *testing.T) {
	cfg := settings()
	cfg.RedisMaxBytes, cfg.ExecutedTTL, cfg.EntryTTL = 20_000, ages, envx.Millis(900*time.Millisecond)
	server := redistest.Start(t)
	told, _ := start(t, cfg, redistest.Dial(t, server.URL()))
	w, look := newWallet(t), server.Client()
	const transactions = 200
	for nonce := range uint64(transactions) {
		told.Add(w.tx(nonce))
	}
	ends := func() (first, last float64) {
		all := look.ZRangeWithScores(t.Context(), "txpool:sender:{"+strings.ToLower(w.address.Hex())+"}", 0, -1).Val()
		if len(all) < transactions {
			return 0, 0
		}
		return all[0].Score, all[len(all)-1].Score
	}
	var once float64
	must.Until(t, "all are told of", func() bool { _, once = ends(); return once > 0 })
	must.Until(t, "all are told of again", func() bool { first, _ := ends(); return first > once })
	bytes := 0
	for _, key := range look.Keys(t.Context(), "txpool:tx:*").Val() {
		bytes += int(look.StrLen(t.Context(), key).Val())
	}
	if bytes > 10_000 || bytes < 5000 {
		t.Errorf("%d bytes of transactions are in Redis; want the half of 20,000 that belongs to one window", bytes)
	}
	asked, _ := start(t, cfg, redistest.Dial(t, server.URL()))
	if next := asked.Next(t.Context(), w.address, 0); next != transactions {
		t.Errorf("others know %d nonces", next)
	}
	if metric(t, told, "rpc_relay_txpool_storage_errors_total") == 0 {
		t.Error("those that did not fit are not counted")
	}
}

// A burst shares its commands; one that comes by itself is told of once if its
// verdict comes soon, and twice if others are to know of it before; and one that came and
// went before Redis heard of it never. No key but the sender's and the common one is left.
func TestCost(t *testing.T) {
	const transactions = 200
	proven := func(t *testing.T, look *redis.Client, tx *eth.Tx) {
		key := "txpool:sender:{" + strings.ToLower(tx.From().Hex()) + "}"
		must.Until(t, "Redis has the proof", func() bool {
			last := look.ZRangeWithScores(t.Context(), key, -1, -1).Val()
			return len(last) == 1 && last[0].Score > 1<<50 && strings.HasPrefix(last[0].Member.(string), string(binary.BigEndian.AppendUint64(nil, tx.Nonce())))
		})
	}
	for name, c := range map[string]struct {
		most  float64 // commands per transaction
		keys  int
		early bool
		drive func(*testing.T, *pending.Pool, *redis.Client, []*eth.Tx)
	}{
		"burst": {0.4, 2, false, func(_ *testing.T, p *pending.Pool, _ *redis.Client, txs []*eth.Tx) {
			for _, tx := range txs {
				p.Add(tx)
			}
			for _, tx := range txs {
				p.Done(tx, true, false)
			}
		}},
		"one by one": {2.3, 2, false, func(t *testing.T, p *pending.Pool, look *redis.Client, txs []*eth.Tx) {
			for _, tx := range txs {
				p.Add(tx)
				p.Done(tx, true, false)
				proven(t, look, tx)
			}
		}},
		"one by one, answered early": {3.3, 2, true, func(t *testing.T, p *pending.Pool, look *redis.Client, txs []*eth.Tx) {
			for i, tx := range txs {
				p.Add(tx)
				must.Until(t, "Redis knows it", func() bool { return look.ZCard(t.Context(), "txpool:known").Val() == int64(i+1) })
				p.Done(tx, true, false)
				proven(t, look, tx)
			}
		}},
		"came and went": {0.02, 0, false, func(_ *testing.T, p *pending.Pool, _ *redis.Client, txs []*eth.Tx) {
			for _, tx := range txs {
				p.Add(tx)
				p.Done(tx, false, false)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := settings()
			cfg.API, cfg.EntryTTL, cfg.ExecutedTTL = false, ages, ages // nothing is renewed, and nothing expires
			server := redistest.Start(t)
			look := server.Client()
			p := pending.New(cfg, pending.Deps{Redis: server.Client(), AnsweredEarly: c.early})
			w := newWallet(t)
			var txs []*eth.Tx
			for nonce := range uint64(transactions) {
				txs = append(txs, w.tx(nonce))
			}
			if c.keys == 0 { // Redis is not to hear of it
				c.drive(t, p, look, txs)
			}
			stop := must.Run(t, p.Run)
			must.Until(t, "the pool has begun", func() bool { return commands(t, look) > 0 })
			if c.keys > 0 {
				c.drive(t, p, look, txs)
			}
			stop()
			if each := float64(commands(t, look)) / transactions; each > c.most {
				t.Errorf("%.2f commands per transaction, want %.2f at most", each, c.most)
			} else {
				t.Logf("%.2f commands per transaction", each)
			}
			if keys := look.Keys(t.Context(), "*").Val(); len(keys) != c.keys {
				t.Errorf("keys are left: %v", keys)
			}
		})
	}
}

// commands counts what the server was asked to do, scripts' own commands included,
// besides being looked at.
func commands(t *testing.T, c *redis.Client) (n int) {
	t.Helper()
	stats := must.Get(c.InfoMap(t.Context(), "commandstats").Result())(t)
	for name, values := range stats["Commandstats"] {
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "info", "ping", "hello", "client|setinfo", "keys", "config|get", "zcard", "zrange":
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(values, "calls="), ",")
		n += atoi(t, calls)
	}
	return n
}

// A transaction follows when all before it is on its way, in the fleet, and nothing else has its
// nonce.
func TestFollows(t *testing.T) {
	server := redistest.Start(t)
	here, _ := start(t, settings(), redistest.Dial(t, server.URL()))
	there, _ := start(t, settings(), redistest.Dial(t, server.URL()))
	w := newWallet(t)
	txs := make([]*eth.Tx, 8)
	for nonce := range txs {
		txs[nonce] = w.tx(uint64(nonce))
	}
	here.Add(txs[2])
	there.Add(txs[3])
	here.Add(txs[5])
	must.Until(t, "here knows of 3", func() bool { return here.Next(t.Context(), w.address, 2) == 4 })
	for nonce, want := range map[uint64]bool{1: false, 2: true, 4: true, 5: false, 6: false} {
		if got := here.Follows(t.Context(), txs[nonce], 2); got != want {
			t.Errorf("nonce %d: %v, want %v", nonce, got, want)
		}
	}
	if here.Follows(t.Context(), txs[4], 1) {
		t.Error("it follows although 1 is missing")
	}
	here.Done(txs[2], true, false)
	there.Done(txs[3], false, false)
	must.Until(t, "3 is gone", func() bool { return !here.Follows(t.Context(), txs[4], 2) })
	if !here.Follows(t.Context(), txs[3], 2) {
		t.Error("3 does not follow 2, which was executed")
	}
	other := newWallet(t)
	for range 2 {
		here.Add(other.tx(0))
	}
	if tx := other.tx(1); !here.Follows(t.Context(), tx, 0) {
		t.Error("1 does not follow 0")
	}
	if here.Follows(t.Context(), other.pay(0, 2), 0) {
		t.Error("another 0 is on its way, and this one follows all the same")
	}
}
