package pending

import (
	"context"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/eth"
	"lockstep/internal/redisx"
	"lockstep/internal/sleep"
)

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
