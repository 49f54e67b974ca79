package pending

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/eth"
	"lockstep/internal/metric"
	"lockstep/internal/redisx"
	"lockstep/internal/sleep"
)

//go:embed lua/promises.lua
var promisesLua string

//go:embed lua/takeover.lua
var takeoverLua string

// Promises keeps the transactions whose hashes clients have got before a node has them, where
// another relay can go on with them when this one dies. It is safe for concurrent use.
type Promises struct {
	off      bool // made by NoPromises
	cfg      Config
	life     time.Duration
	log      *slog.Logger
	asker    *redisx.Asker
	instance string
	write    *redis.Script
	take     *redis.Script
	metrics  *promiseMetrics

	mu     sync.Mutex // guards all below
	byHash map[common.Hash]*promise
	bytes  int
	come   []*promise    // to be written to Redis
	gone   []common.Hash // to be removed there
	wake   chan struct{}

	looked time.Time // when Run looked for dead processes; of its goroutine
}

// promise is a transaction whose hash was promised, here or by a process that is dead.
type promise struct {
	hash    common.Hash
	text    []byte        // until when, and the raw transaction
	holders int           // guarded by Promises.mu
	tried   chan struct{} // closed when Redis was told, or could not be
	stored  bool          // guarded by Promises.mu
}

// Promised is what was taken over.
type Promised struct {
	Tx    *eth.Tx
	Until time.Time // it is kept
}

const (
	aliveKey     = "promise:{fleet}:alive"
	promisesKey  = "promise:{fleet}:of:"
	promisePace  = 2 * time.Millisecond // least time between two round trips
	promiseBatch = 512                  // of one round trip
	untilSize    = 8
)

// NewPromises makes a store of promises that are kept for so long. It starts nothing.
func NewPromises(cfg Config, client redis.UniversalClient, life time.Duration, log *slog.Logger) *Promises {
	var id [instanceSize]byte
	_, _ = rand.Read(id[:]) // never fails
	return &Promises{
		cfg: cfg, life: life, log: log, instance: hex.EncodeToString(id[:]),
		asker: redisx.NewAsker(client, redisx.AskerOptions{Timeout: cfg.RedisTimeout.Duration(), Pause: cfg.PromisesDeadAfter.Duration() / promiseSigns}),
		write: redis.NewScript(redisx.SpareLua + promisesLua), take: redis.NewScript(takeoverLua),
		metrics: newPromiseMetrics(), byHash: map[common.Hash]*promise{}, wake: make(chan struct{}, 1),
	}
}

// NoPromises makes a store that keeps nothing: that of a process which is alone, or promises nothing.
func NoPromises() *Promises { return &Promises{off: true} }

// Keep notes a promise at once. The function that it returns waits until Redis has it, or cannot
// have it now. Release follows, once for each Keep.
func (p *Promises) Keep(tx *eth.Tx) (wait func(context.Context)) {
	if p.off {
		return func(context.Context) {}
	}
	text := binary.BigEndian.AppendUint64(make([]byte, 0, untilSize+len(tx.Raw())), uint64(time.Now().Add(p.life).UnixMilli()))
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.hold(tx.Hash(), append(text, tx.Raw()...))
	if one == nil {
		p.metrics.alone.Inc()
		return func(context.Context) {}
	}
	if one.holders == 1 && !one.stored {
		p.come = append(p.come, one)
		p.stir()
	}
	return func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, p.cfg.RedisTimeout.Duration())
		defer cancel()
		select {
		case <-one.tried:
		case <-ctx.Done():
		}
	}
}

// hold counts a holder of a promise, or returns nil if there is no room. p.mu must be held.
func (p *Promises) hold(hash common.Hash, text []byte) *promise {
	one := p.byHash[hash]
	if one == nil {
		if len(p.byHash) >= p.cfg.MaxEntries || p.bytes+len(text) > p.cfg.PromisesMaxBytes {
			return nil
		}
		one = &promise{hash: hash, text: text, tried: make(chan struct{})}
		p.byHash[hash] = one
		p.bytes += len(text)
	}
	one.holders++
	return one
}

// Release ends a promise: the transaction has its verdict. It never blocks.
func (p *Promises) Release(tx *eth.Tx) {
	if p.off {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.byHash[tx.Hash()]
	if one == nil {
		return // there was no room for it
	}
	if one.holders--; one.holders > 0 {
		return
	}
	delete(p.byHash, one.hash)
	p.bytes -= len(one.text)
	if len(p.gone) < p.cfg.MaxEntries { // what stays too long is refused for its nonce, if anybody takes it over
		p.gone = append(p.gone, one.hash)
	}
	p.stir()
}

func (p *Promises) stir() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// promiseSigns is how many heartbeats a process may miss before it is taken for dead.
const promiseSigns = 5

// Run tells Redis what was promised, and hands what dead processes have promised to takeOver, until ctx
// ends. What takeOver does not take is offered again. What is still kept then is left to other relays.
func (p *Promises) Run(ctx context.Context, takeOver func(Promised) bool) error {
	if p.off {
		return nil
	}
	var waiting []Promised
	signs := time.NewTicker(p.cfg.PromisesDeadAfter.Duration() / promiseSigns)
	defer signs.Stop()
	for {
		select {
		case <-ctx.Done():
			p.bequeath(context.WithoutCancel(ctx))
			return nil
		case <-p.wake:
			p.flush(ctx, false)
			sleep.For(ctx, promisePace) // what comes meanwhile shares the next round trip
			continue
		case <-signs.C:
		}
		p.flush(ctx, true)
		if len(waiting) == 0 {
			waiting = p.inherit(ctx)
		}
		for len(waiting) > 0 && takeOver(waiting[0]) {
			waiting = waiting[1:]
		}
	}
}

// flush writes what came and went, and sends a heartbeat if there is something to live for.
func (p *Promises) flush(ctx context.Context, sign bool) {
	for {
		come, gone, words := p.batch()
		p.mu.Lock()
		living := sign && len(p.byHash) > 0
		p.mu.Unlock()
		if len(come)+len(gone) == 0 && !living {
			return
		}
		sign = false
		err := p.ask(ctx, p.write, words)
		p.told(come, gone, err)
		if err != nil {
			return
		}
	}
}

// batch takes what one round trip can tell. What came and went meanwhile is not told of as coming.
func (p *Promises) batch() (come []*promise, gone []common.Hash, words []any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var bodies, ended []any
	for len(p.come) > 0 && len(come) < promiseBatch/2 {
		one := p.come[0]
		p.come[0], p.come = nil, p.come[1:]
		if p.byHash[one.hash] == one {
			come = append(come, one)
			bodies = append(bodies, string(one.hash[:]), string(one.text))
		} else {
			one.giveUp()
		}
	}
	gone = p.gone[:min(len(p.gone), promiseBatch/2)]
	p.gone = p.gone[len(gone):]
	for _, hash := range gone {
		if p.byHash[hash] == nil { // else it was promised again
			ended = append(ended, string(hash[:]))
		}
	}
	words = append(append([]any{p.instance, p.keyLife(), len(come)}, bodies...), ended...)
	return come, gone, words
}

// told notes what became of a round trip. What Redis did not take is told again with the next heartbeat.
func (p *Promises) told(come []*promise, gone []common.Hash, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range come {
		one.stored = err == nil
		if err == nil {
			one.giveUp()
		}
	}
	if err == nil {
		return
	}
	p.metrics.late.Add(float64(len(come)))
	p.metrics.failed.Inc()
	p.gone = append(gone, p.gone...)
	p.come = slices.DeleteFunc(append(come, p.come...), func(one *promise) bool {
		one.giveUp()
		return p.byHash[one.hash] != one // it has its verdict
	})
}

// giveUp lets nobody wait any longer until Redis has it.
func (one *promise) giveUp() {
	select {
	case <-one.tried:
	default:
		close(one.tried)
	}
}

// keyLife is how long what a dead process promised can be taken over: for as long as it counts.
func (p *Promises) keyLife() int64 { return (p.life + time.Minute).Milliseconds() }

func (p *Promises) ask(ctx context.Context, script *redis.Script, words []any) error {
	return p.asker.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		return script.Run(ctx, c, []string{aliveKey, promisesKey + p.instance}, words...).Err()
	})
}

// bequeath says, at the end, that this process is dead, so that others need not wait for what it leaves.
func (p *Promises) bequeath(ctx context.Context) {
	p.flush(ctx, false)
	_ = p.asker.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) error { // else they wait
		return c.ZAddXX(ctx, aliveKey, redis.Z{Score: 1, Member: p.instance}).Err()
	})
}

// Collectors returns the metrics for registration; none of a store that keeps nothing.
func (p *Promises) Collectors() []prometheus.Collector {
	if p.off {
		return nil
	}
	return p.metrics.Collectors()
}

// inheritedAtOnce is how many promises of a dead process are taken over together, about.
const inheritedAtOnce = 256

// inherit takes promises of a dead process over, each sender's in the order of their nonces. Nobody is
// taken for dead by a process that stood still itself: the heartbeats of others may have come late for the
// same reason.
func (p *Promises) inherit(ctx context.Context) []Promised {
	last := p.looked
	p.looked = time.Now()
	if last.IsZero() || p.looked.Sub(last) > p.cfg.PromisesDeadAfter.Duration()/2 || !p.hasRoom() {
		return nil
	}
	var words []string
	err := p.asker.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) (err error) {
		words, err = p.take.Run(ctx, c, []string{aliveKey, promisesKey + p.instance},
			p.instance, p.keyLife(), p.cfg.PromisesDeadAfter.Duration().Milliseconds(), inheritedAtOnce, promisesKey).StringSlice()
		return err
	})
	switch {
	case err != nil:
		p.metrics.failed.Inc()
		return nil
	case len(words) == 0:
		return nil
	}
	found := p.adopt(words[1:])
	p.log.LogAttrs(ctx, slog.LevelWarn, "another relay has died; this one goes on with the transactions that it has promised",
		slog.String("instance", words[0]), slog.Int("transactions", len(found)))
	return found
}

func (p *Promises) hasRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byHash)+inheritedAtOnce <= p.cfg.MaxEntries && p.bytes <= p.cfg.PromisesMaxBytes/2
}

// adopt reads what was taken over: pairs of a hash and what was promised. They are kept here from
// now on, beyond the bounds if need be.
func (p *Promises) adopt(words []string) (found []Promised) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i+1 < len(words); i += 2 {
		text := []byte(words[i+1])
		if len(text) <= untilSize {
			continue // not ours
		}
		tx, err := eth.DecodeTx(text[untilSize:])
		if err != nil {
			continue
		}
		one := p.byHash[tx.Hash()]
		if one == nil {
			one = &promise{hash: tx.Hash(), text: text, stored: true, tried: closed}
			p.byHash[one.hash] = one
			p.bytes += len(text)
		}
		one.holders++
		p.metrics.inherited.Inc()
		found = append(found, Promised{Tx: tx, Until: time.UnixMilli(int64(binary.BigEndian.Uint64(text)))})
	}
	slices.SortFunc(found, func(a, b Promised) int {
		from, other := a.Tx.From(), b.Tx.From()
		return cmp.Or(bytes.Compare(from[:], other[:]), cmp.Compare(a.Tx.Nonce(), b.Tx.Nonce()))
	})
	return found
}

// closed is closed.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// promiseMetrics belongs to one Promises.
type promiseMetrics struct {
	metric.Set
	alone, late, failed, inherited prometheus.Counter
}

func newPromiseMetrics() *promiseMetrics {
	m := &promiseMetrics{}
	counter := func(name, help string) prometheus.Counter {
		return m.Counter("lockstep_promises_"+name+"_total", help)
	}
	m.alone = counter("alone", "Hashes that clients got whose transactions this relay alone keeps, since there was no room.")
	m.late = counter("late", "Hashes that clients got before Redis had their transactions, since it did not answer.")
	m.failed = counter("errors", "Calls of Redis about promised transactions that failed.")
	m.inherited = counter("taken_over", "Promised transactions of relays that died, which this relay took over.")
	return m
}
