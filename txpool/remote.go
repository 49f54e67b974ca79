package txpool

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
	"golang.org/x/sync/errgroup"

	"lockstep/eth"
	"lockstep/internal/redisx"
)

// remote is the pool's part in Redis, which a fleet shares. Nothing here fails: what
// cannot be read is not known, and is counted.
type remote struct {
	cfg      Config
	bodies   bool
	metrics  *metrics
	behind   *redisx.Behind
	instance [instanceSize]byte
	ahead    atomic.Int64 // by how many ms the clock of Redis is ahead of ours
}

// A member of a sorted set is a nonce (8 bytes, big endian), a hash and the process
// that it is of. In the index the sender comes first.
const (
	instanceSize = 8
	memberSize   = 8 + common.HashLength + instanceSize
	indexKey     = "txpool:index"
)

func senderKey(a common.Address) string { return "txpool:sender:{" + strings.ToLower(a.Hex()) + "}" }
func nextKey(a common.Address) string   { return "txpool:next:{" + strings.ToLower(a.Hex()) + "}" }
func bodyKey(h common.Hash) string      { return "txpool:tx:" + h.Hex() }

// rest is how long Redis is left alone after a failure.
const rest = time.Second

func newRemote(cfg Config, deps Deps, m *metrics) *remote {
	r := &remote{cfg: cfg, bodies: deps.Bodies || cfg.API, metrics: m}
	_, _ = rand.Read(r.instance[:]) // never fails
	r.behind = redisx.NewBehind(deps.Redis, redisx.BehindOptions{
		Timeout: cfg.RedisTimeout.Duration(), Rest: rest, Queue: 2 * cfg.MaxEntries,
		Lost: func(w redisx.Write, _ error) { m.failed(w.Name) },
	})
	return r
}

// run writes behind the callers' backs, and says from time to time what is still on
// its way.
func (r *remote) run(ctx context.Context, renew func(time.Duration) []*eth.Tx) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.behind.Run(ctx) })
	group.Go(func() error {
		interval := r.cfg.EntryTTL.Duration() / 3
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			r.readClock(ctx)
			r.tidy(ctx)
			for _, tx := range renew(interval) {
				r.add(tx)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
	return group.Wait()
}

// readClock learns the time of Redis: scores are times, and the clocks of relays differ.
func (r *remote) readClock(ctx context.Context) {
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		now, err := c.Time(ctx).Result()
		if err == nil {
			r.ahead.Store(time.Until(now).Milliseconds())
		}
		return err
	})
}

// tidy removes what dead relays left in the index, which as a whole never expires while
// any relay is busy.
func (r *remote) tidy(ctx context.Context) {
	if r.cfg.API {
		_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
			return c.ZRemRangeByScore(ctx, indexKey, "-inf", strconv.FormatInt(r.now(), 10)).Err()
		})
	}
}

func (r *remote) now() int64 { return time.Now().UnixMilli() + r.ahead.Load() }

func (r *remote) put(name string, do func(context.Context, redis.Pipeliner)) {
	r.behind.Put(redisx.Write{Name: name, Do: do})
}

func (r *remote) member(tx *eth.Tx) []byte {
	m := make([]byte, 0, memberSize)
	m = binary.BigEndian.AppendUint64(m, tx.Nonce())
	hash := tx.Hash()
	return append(append(m, hash[:]...), r.instance[:]...)
}

func indexMember(from common.Address, member []byte) string { return string(from[:]) + string(member) }

// add says that a transaction is on its way, for the first time or again.
func (r *remote) add(tx *eth.Tx) {
	r.put(opAdd, func(ctx context.Context, p redis.Pipeliner) {
		ttl := r.cfg.EntryTTL.Duration()
		member, from := r.member(tx), tx.From()
		score := float64(r.now() + ttl.Milliseconds())
		p.ZAdd(ctx, senderKey(from), redis.Z{Score: score, Member: member})
		p.PExpire(ctx, senderKey(from), ttl)
		p.Set(ctx, bodyKey(tx.Hash()), r.body(tx), max(ttl, r.cfg.ExecutedTTL.Duration()))
		if r.cfg.API {
			p.ZAdd(ctx, indexKey, redis.Z{Score: score, Member: indexMember(from, member)})
			p.PExpire(ctx, indexKey, ttl)
		}
	})
}

// body is what is kept by hash.
func (r *remote) body(tx *eth.Tx) string {
	if !r.bodies {
		return ""
	}
	from := tx.From()
	return string(from[:]) + string(tx.Raw())
}

// remove says that a transaction is not on its way any more. Its hash stays known if it
// was executed, or may have been.
func (r *remote) remove(tx *eth.Tx, known bool) {
	r.put(opRemove, func(ctx context.Context, p redis.Pipeliner) {
		member, from := r.member(tx), tx.From()
		p.ZRem(ctx, senderKey(from), member)
		if r.cfg.API {
			p.ZRem(ctx, indexKey, indexMember(from, member))
		}
		if !known {
			p.Del(ctx, bodyKey(tx.Hash()))
		}
	})
}

// raise makes a number at least as large as another. Nonces go up only, so that the
// order in which relays report does not matter.
const raise = `
local known = redis.call('GET', KEYS[1])
if not known or #known < #ARGV[1] or (#known == #ARGV[1] and known < ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 0`

// prove says that a transaction was executed. It comes before remove: at no moment is
// a nonce neither spent nor pending.
func (r *remote) prove(tx *eth.Tx) {
	r.put(opRemove, func(ctx context.Context, p redis.Pipeliner) {
		p.Eval(ctx, raise, []string{nextKey(tx.From())}, strconv.FormatUint(tx.Nonce()+1, 10), r.cfg.ExecutedTTL.Duration().Milliseconds())
	})
}

// ask reads. What was there and could not be read is counted.
func (r *remote) ask(ctx context.Context, read func(context.Context, redis.UniversalClient) error) error {
	err := r.behind.Ask(ctx, read)
	if err != nil && !errors.Is(err, redis.Nil) {
		r.metrics.failed(opGet)
	}
	return err
}

// knowledge is what other relays know of a sender.
type knowledge struct {
	next    uint64          // proven; 0: not known
	pending map[uint64]bool // by nonce
}

// next reads the proven nonce; 0 if none is known.
func (r *remote) next(ctx context.Context, address common.Address) (next uint64) {
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) (err error) {
		next, err = c.Get(ctx, nextKey(address)).Uint64()
		return err
	})
	return next
}

// sender reads what other relays know. Both parts are read at once: what moves from one
// to the other in between would be missed.
func (r *remote) sender(ctx context.Context, address common.Address) (k knowledge) {
	var next *redis.StringCmd
	var members *redis.StringSliceCmd
	err := r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			next = p.Get(ctx, nextKey(address))
			members = p.ZRangeByScore(ctx, senderKey(address), r.unexpired())
			return nil
		})
		return err
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return k
	}
	k.next, _ = next.Uint64() // none: 0
	for _, m := range members.Val() {
		if nonce, _, ok := r.ofAnother(m); ok {
			if k.pending == nil {
				k.pending = map[uint64]bool{}
			}
			k.pending[nonce] = true
		}
	}
	return k
}

func (r *remote) unexpired() *redis.ZRangeBy {
	return &redis.ZRangeBy{Min: "(" + strconv.FormatInt(r.now(), 10), Max: "+inf"}
}

// ofAnother reads a member. What is this process's own is known better here.
func (r *remote) ofAnother(member string) (nonce uint64, hash common.Hash, ok bool) {
	if len(member) != memberSize || member[memberSize-instanceSize:] == string(r.instance[:]) {
		return 0, hash, false
	}
	copy(hash[:], member[8:])
	return binary.BigEndian.Uint64([]byte(member)), hash, true
}

// find looks a hash up.
func (r *remote) find(ctx context.Context, hash common.Hash) (t Transaction, ok bool) {
	var body []byte
	err := r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) (err error) {
		body, err = c.Get(ctx, bodyKey(hash)).Bytes()
		return err
	})
	if err != nil {
		return t, false
	}
	t, _ = readBody(string(body))
	return t, true
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
	key, skip := indexKey, common.AddressLength
	if of != nil {
		key, skip = senderKey(*of), 0
	}
	_ = r.ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		by := r.unexpired()
		by.Count = int64(limit)
		members, err := c.ZRangeByScore(ctx, key, by).Result()
		for _, m := range members {
			if _, hash, ok := r.ofAnother(m[min(skip, len(m)):]); ok {
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
