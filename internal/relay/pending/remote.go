package pending

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/eth"
	"lockstep/internal/redisx"
	"lockstep/internal/sleep"
)

// remote is the pool's part in Redis, which a fleet shares. Nothing here fails: what
// cannot be read is not known, and is counted.
type remote struct {
	cfg      Config
	bodies   bool
	metrics  *metrics
	asker    *redisx.Asker
	news     *news
	quota    *redisx.Quota // of the transactions that the fleet keeps whole
	instance [instanceSize]byte
	ahead    atomic.Int64 // by how many ms the clock of Redis is ahead of ours
}

// A member of a sorted set is a nonce (8 bytes, big endian), a hash and the process
// that it is of. In the index the sender comes first.
const (
	instanceSize = 8
	memberSize   = 8 + common.HashLength + instanceSize
	knownKey     = "txpool:known"
	indexKey     = "txpool:index"
)

// executedScore is how much higher the score of an executed transaction is than that of one
// that is on its way: far more than any time, and little enough for sums to be exact.
const executedScore = 1 << 50

// executedFrom is the least score that a proof can have.
var executedFrom = formatScore(executedScore)

func formatScore(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }

func senderKey(a common.Address) string { return "txpool:sender:{" + strings.ToLower(a.Hex()) + "}" }
func bodyKey(h common.Hash) string      { return "txpool:tx:" + h.Hex() }

func newRemote(cfg Config, deps Deps, m *metrics) *remote {
	r := &remote{
		cfg: cfg, bodies: deps.Bodies || cfg.API, metrics: m, news: newNews(2 * cfg.MaxEntries),
		quota: redisx.NewQuota("pool", cfg.RedisMaxBytes, cfg.life()),
		asker: redisx.NewAsker(deps.Redis, redisx.AskerOptions{Timeout: cfg.RedisTimeout.Duration()}),
	}
	_, _ = rand.Read(r.instance[:]) // never fails
	return r
}

func (r *remote) now() int64 { return time.Now().UnixMilli() + r.ahead.Load() }

// score is that of what expires after a while.
func (r *remote) score(after time.Duration) float64 { return float64(r.now() + after.Milliseconds()) }

// expired is the score of what has just expired.
func (r *remote) expired() string { return formatScore(r.score(0)) }

// expiredProof is the score of a proof that has just expired.
func (r *remote) expiredProof() string { return formatScore(executedScore + r.score(0)) }

func (r *remote) member(tx *eth.Tx) string {
	m := make([]byte, 0, memberSize)
	m = binary.BigEndian.AppendUint64(m, tx.Nonce())
	hash := tx.Hash()
	return string(append(append(m, hash[:]...), r.instance[:]...))
}

func indexMember(from common.Address, member string) string { return string(from[:]) + member }

// body is what is kept by hash, if anybody may ask for it.
func body(tx *eth.Tx) string {
	from := tx.From()
	return string(from[:]) + string(tx.Raw())
}

// add says, after a while, that a transaction is on its way.
func (r *remote) add(tx *eth.Tx, after time.Duration) { r.put(change{tx: tx, state: waiting}, after) }

// renew says that a transaction is still on its way.
func (r *remote) renew(tx *eth.Tx) { r.put(change{tx: tx, state: waiting, told: true}, 0) }

// end says what became of a transaction.
func (r *remote) end(tx *eth.Tx, e end) {
	c := change{tx: tx, state: gone, known: e.known, told: e.fitted}
	after := time.Duration(0)
	if e.spent {
		c.state = executed
		if e.others {
			after = lag
		}
	}
	r.put(c, after)
}

func (r *remote) put(c change, after time.Duration) {
	if !r.news.put(c, after) {
		r.metrics.failed(c.operation())
	}
}

// ask reads. What was there and could not be read is counted.
func (r *remote) ask(ctx context.Context, read func(context.Context, redis.UniversalClient) error) error {
	err := r.asker.Ask(ctx, read)
	if err != nil && !errors.Is(err, redis.Nil) {
		r.metrics.failed(opGet)
	}
	return err
}

// knowledge is what other relays know of a sender.
type knowledge struct {
	next    uint64                   // proven by any relay; 0: not known
	pending map[uint64][]common.Hash // of others, by nonce
}

// sender reads what other relays know. What was proven and what is pending are read in
// one command: what moves from one to the other in between would be missed.
func (r *remote) sender(ctx context.Context, address common.Address) (k knowledge) {
	var members []redis.Z
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) (err error) {
		members, err = c.ZRangeByScoreWithScores(ctx, senderKey(address), r.unexpired()).Result()
		return err
	})
	expiredProof := executedScore + r.score(0)
	for _, z := range members {
		member, _ := z.Member.(string)
		nonce, hash, mine, ok := r.parse(member)
		switch {
		case !ok:
		case z.Score > expiredProof:
			k.next = max(k.next, nonce+1)
		case z.Score >= executedScore: // a proof that has expired
		case !mine: // what is this process's own is known better here
			if k.pending == nil {
				k.pending = map[uint64][]common.Hash{}
			}
			k.pending[nonce] = append(k.pending[nonce], hash)
		}
	}
	return k
}

// proven reads what any relay has proven, and nothing else: the nonce, or 0. There are few
// proofs, and there may be many that wait.
func (r *remote) proven(ctx context.Context, address common.Address) (next uint64) {
	var members []string
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) (err error) {
		members, err = c.ZRangeByScore(ctx, senderKey(address), &redis.ZRangeBy{Min: "(" + r.expiredProof(), Max: "+inf"}).Result()
		return err
	})
	for _, member := range members {
		if nonce, _, _, ok := r.parse(member); ok {
			next = max(next, nonce+1)
		}
	}
	return next
}

func (r *remote) unexpired() *redis.ZRangeBy {
	return &redis.ZRangeBy{Min: "(" + r.expired(), Max: "+inf"}
}

// parse reads a member.
func (r *remote) parse(member string) (nonce uint64, hash common.Hash, mine, ok bool) {
	if len(member) != memberSize {
		return 0, hash, false, false
	}
	copy(hash[:], member[8:])
	mine = member[memberSize-instanceSize:] == string(r.instance[:])
	return binary.BigEndian.Uint64([]byte(member)), hash, mine, true
}

// find looks a hash up.
func (r *remote) find(ctx context.Context, hash common.Hash) (t Transaction, known bool) {
	var body string
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		var there *redis.FloatCmd
		var content *redis.StringCmd
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			there = p.ZScore(ctx, knownKey, string(hash[:]))
			if r.bodies {
				content = p.Get(ctx, bodyKey(hash))
			}
			return nil
		})
		known = there.Err() == nil && there.Val() > float64(r.now())
		if content != nil {
			body = content.Val()
		}
		return err
	})
	if known {
		t, _ = readBody(body)
	}
	return t, known
}

func readBody(body string) (t Transaction, ok bool) {
	if len(body) < common.AddressLength {
		return t, false
	}
	fields := new(types.Transaction)
	if fields.UnmarshalBinary([]byte(body[common.AddressLength:])) != nil {
		return t, false
	}
	copy(t.From[:], body)
	t.Fields = fields
	return t, true
}

// readTogether is how many transactions are read in one round trip.
const readTogether = 128

// list reads transactions of other relays, of one sender or of all, as far as they
// fit into what a pool may hold.
func (r *remote) list(ctx context.Context, of *common.Address, limit int) (found []Transaction) {
	bytes := 0
	for hashes := range slices.Chunk(r.hashes(ctx, of, limit), readTogether) {
		for _, body := range r.readBodies(ctx, hashes) {
			if t, ok := readBody(body); ok {
				found = append(found, t)
				bytes += len(body)
			}
		}
		if bytes > r.cfg.MaxBytes {
			break
		}
	}
	return found
}

func (r *remote) hashes(ctx context.Context, of *common.Address, limit int) (hashes []common.Hash) {
	if of != nil {
		k := r.sender(ctx, *of)
		for nonce, some := range k.pending {
			if nonce >= k.next {
				hashes = append(hashes, some...)
			}
		}
		return hashes[:min(len(hashes), limit)]
	}
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		by := r.unexpired()
		by.Count = int64(limit)
		members, err := c.ZRangeByScore(ctx, indexKey, by).Result()
		for _, m := range members {
			if _, hash, mine, ok := r.parse(m[min(common.AddressLength, len(m)):]); ok && !mine {
				hashes = append(hashes, hash)
			}
		}
		return err
	})
	return hashes
}

func (r *remote) readBodies(ctx context.Context, hashes []common.Hash) (bodies []string) {
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		answers, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, hash := range hashes {
				p.Get(ctx, bodyKey(hash))
			}
			return nil
		})
		for _, a := range answers {
			bodies = append(bodies, a.(*redis.StringCmd).Val())
		}
		return err
	})
	return bodies
}

// count counts the transactions of all relays that are in the index.
func (r *remote) count(ctx context.Context) (n int) {
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		count, err := c.ZCount(ctx, indexKey, r.unexpired().Min, "+inf").Result()
		n = int(count)
		return err
	})
	return n
}

// flusher writes the news to Redis. One goroutine uses it.
type flusher struct {
	*remote
	marks  map[common.Address]*mark
	shared mark                  // of the keys that all senders share
	whole  map[common.Hash]int64 // what waits and is kept whole: the window of the quota that counted it last
}

// mark is what this process has in a sender's key, besides what waits. It is kept for as
// long as the key lives.
type mark struct {
	executed []string  // members
	renewAt  time.Time // when the life of the key is to be prolonged
	until    time.Time // when it ends if it is not
}

const (
	// mostExecuted is how many executed transactions a process leaves in a sender's key. One of them
	// is the proof of the nonce; the others are removed together.
	mostExecuted = 32
	// sendersAtOnce is how many share a round trip.
	sendersAtOnce = 512
)

func newFlusher(r *remote) *flusher {
	return &flusher{remote: r, marks: map[common.Address]*mark{}, whole: map[common.Hash]int64{}}
}

// run tells the news until ctx ends, and then what is left, once. From time to time it says
// what is still on its way.
func (t *flusher) run(ctx context.Context, renew func() []*eth.Tx) {
	writing := context.WithoutCancel(ctx) // every round trip has a deadline of its own
	ticker := time.NewTicker(t.cfg.renewal())
	defer ticker.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	t.tidy(ctx)
	for {
		select {
		case <-ctx.Done():
			t.flush(writing, time.Now().Add(lag))
			return
		case <-ticker.C:
			t.tidy(ctx)
			for _, tx := range renew() {
				t.renew(tx)
			}
			continue
		case <-t.news.wake:
		case <-due.C:
		}
		due.Reset(t.flush(writing, time.Now()))
		sleep.For(ctx, pace) // what comes meanwhile shares the next round trip
	}
}

// tidy learns the time of Redis, since scores are times and the clocks of relays differ; and
// removes what expired from the keys that all senders share, which as a whole do not while
// any relay is busy.
func (t *flusher) tidy(ctx context.Context) {
	_ = t.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		now, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		t.ahead.Store(time.Until(now).Milliseconds())
		_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.ZRemRangeByScore(ctx, knownKey, "-inf", t.expired())
			if t.cfg.API {
				p.ZRemRangeByScore(ctx, indexKey, "-inf", t.expired())
			}
			return nil
		})
		return err
	})
	for sender, m := range t.marks {
		if time.Now().After(m.until) {
			delete(t.marks, sender)
		}
	}
	last := t.quota.Window() - 1
	for hash, window := range t.whole { // its end was lost
		if window < last {
			delete(t.whole, hash)
		}
	}
}

// flush writes what is due at the given time, and returns for how long nothing else is.
func (t *flusher) flush(ctx context.Context, at time.Time) (calm time.Duration) {
	due, calm := t.news.take(at)
	for some := range slices.Chunk(due, sendersAtOnce) {
		err := t.asker.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
			_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
				t.write(ctx, p, some)
				return nil
			})
			if err == nil {
				err = t.quota.Settle(ctx, c)
			}
			return err
		})
		if err != nil {
			t.lost(some)
		}
	}
	return calm
}

// lost counts what could not be written. What still waits is told again in time.
func (t *flusher) lost(some []*changes) {
	t.shared = mark{}
	for _, s := range some {
		delete(t.marks, s.sender)
		for _, c := range s.byHash {
			t.metrics.failed(c.operation())
		}
	}
}

// write adds the commands for some senders to a pipeline.
func (t *flusher) write(ctx context.Context, p redis.Pipeliner, some []*changes) {
	var known, index edit
	for _, s := range some {
		t.writeSender(ctx, p, s)
		for hash, c := range s.byHash {
			switch {
			case c.state == waiting || c.known && !c.told:
				known.put(t.score(t.cfg.life()), string(hash[:]))
				t.writeBody(ctx, p, hash, c)
			case !c.known && c.told:
				known.drop(string(hash[:]))
				if t.bodies {
					p.Del(ctx, bodyKey(hash))
				}
			}
			if c.state != waiting {
				delete(t.whole, hash)
			}
			if !t.cfg.API {
				continue
			}
			if member := indexMember(c.tx.From(), t.member(c.tx)); c.state == waiting {
				index.put(t.score(t.cfg.EntryTTL.Duration()), member)
			} else {
				index.drop(member)
			}
		}
	}
	known.write(ctx, p, knownKey)
	index.write(ctx, p, indexKey)
	if t.prolong(&t.shared) {
		p.PExpire(ctx, knownKey, t.keyLife())
		if t.cfg.API {
			p.PExpire(ctx, indexKey, t.keyLife())
		}
	}
}

// writeBody adds the command that keeps a transaction whole, if somebody may ask for it and
// the fleet has room for it.
func (t *flusher) writeBody(ctx context.Context, p redis.Pipeliner, hash common.Hash, c change) {
	if !t.bodies {
		return
	}
	content := body(c.tx)
	window := t.quota.Window()
	if counted, there := t.whole[hash]; !there || counted != window {
		if !t.quota.Take(len(content)) {
			delete(t.whole, hash) // it expires
			if !c.told {
				t.metrics.failed(opAdd)
			}
			return
		}
		t.whole[hash] = window
	}
	redisx.SetForAWhile.Eval(ctx, p, []string{bodyKey(hash)}, content, t.cfg.life().Milliseconds())
}

// writeSender adds the commands for the key of one sender.
func (t *flusher) writeSender(ctx context.Context, p redis.Pipeliner, s *changes) {
	m := t.marks[s.sender]
	fresh := m == nil
	if fresh {
		m = &mark{}
		t.marks[s.sender] = m
	}
	var e edit
	for _, c := range s.byHash {
		member := t.member(c.tx)
		switch c.state {
		case waiting:
			e.put(t.score(t.cfg.EntryTTL.Duration()), member)
		case executed:
			e.put(executedScore+t.score(t.cfg.ExecutedTTL.Duration()), member)
			m.executed = append(m.executed, member)
		default:
			e.drop(member)
		}
	}
	if len(m.executed) > mostExecuted || len(m.executed) > 1 && len(e.gone) > 0 {
		slices.Sort(m.executed) // by nonce
		last := len(m.executed) - 1
		for _, member := range m.executed[:last] {
			if member != m.executed[last] { // else it was executed and refused when it came again
				e.drop(member)
			}
		}
		m.executed = []string{m.executed[last]}
	}
	key := senderKey(s.sender)
	e.write(ctx, p, key)
	if len(e.there) > 0 && t.prolong(m) {
		p.PExpire(ctx, key, t.keyLife())
		if !fresh { // what dead processes left
			p.ZRemRangeByScore(ctx, key, "-inf", t.expired())
			p.ZRemRangeByScore(ctx, key, executedFrom, t.expiredProof())
		}
	}
}

// edit is what changes in a sorted set: one command for all that comes, one for all that goes.
type edit struct {
	there []redis.Z
	gone  []any
}

func (e *edit) put(score float64, member string) {
	e.there = append(e.there, redis.Z{Score: score, Member: member})
}

func (e *edit) drop(member string) { e.gone = append(e.gone, member) }

func (e *edit) write(ctx context.Context, p redis.Pipeliner, key string) {
	if len(e.there) > 0 {
		p.ZAdd(ctx, key, e.there...)
	}
	if len(e.gone) > 0 {
		p.ZRem(ctx, key, e.gone...)
	}
}

// prolong tells whether the life of a key is to be prolonged, and takes it for done.
func (t *flusher) prolong(m *mark) bool {
	now := time.Now()
	if now.Before(m.renewAt) {
		return false
	}
	m.renewAt, m.until = now.Add(t.cfg.life()/4), now.Add(t.keyLife())
	return true
}

// keyLife is how long a key lives: whatever is added before its life is prolonged fits in.
func (t *flusher) keyLife() time.Duration { return t.cfg.life() * 5 / 4 }
