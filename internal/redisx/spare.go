package redisx

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// SpareLua goes at the head of a script that keeps what clients choose. Its function
// short() tells whether less than a quarter of the memory that Redis may use is left: that
// quarter belongs to the locks, which must still be able to write when clients have filled
// the rest. A Redis without maxmemory, or one that does not tell, is never short.
//
// A script that keeps nothing for that reason returns short_of_memory; see IsShort.
const SpareLua = `
local function short()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return false end
  local used = tonumber(string.match(info, 'used_memory:(%d+)'))
  local limit = tonumber(string.match(info, 'maxmemory:(%d+)'))
  return used ~= nil and limit ~= nil and limit > 0 and used > limit * 3 / 4
end
local short_of_memory = {err = '` + shortReply + ` less than a quarter of the memory is left'}
`

const shortReply = "SHORT"

// SetForAWhile keeps a value under a key for a time, unless Redis is short of memory.
//
//	KEYS[1] the key   ARGV[1] value   ARGV[2] time to live, ms
var SetForAWhile = redis.NewScript(SpareLua + `
if short() then return short_of_memory end
return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])`)

// IsShort tells whether a script kept nothing because Redis is short of memory.
func IsShort(err error) bool {
	reply, is := errors.AsType[redis.Error](err)
	return is && strings.HasPrefix(reply.Error(), shortReply+" ")
}

// Quota bounds the bytes that a fleet keeps in Redis under keys that expire. It counts
// what is written in windows as long as a key lives. Half of the bytes belong to each
// window, since what one window wrote may outlive the next one's beginning. Relays tell
// each other their sums through a key for each window:
//
//	lockstep:bytes:<name>:<window>   the sum of bytes; expires with what it counts
//
// Each relay tells its sum now and then, so that together they may write a little more.
// It is safe for concurrent use.
type Quota struct {
	key  string
	most int64         // bytes of a window
	life time.Duration // of a key; 0: for ever, and there is one window

	mu     sync.Mutex
	window int64     // guarded by mu; the current one
	fleet  int64     // guarded by mu; bytes of all relays in it, as last heard
	own    int64     // guarded by mu; bytes of this relay that Redis was not told of
	heard  time.Time // guarded by mu; when fleet was heard
}

const (
	tellEvery = time.Second // how old the fleet's sum may be
	tellBytes = 256 << 10   // how many bytes a relay keeps to itself
)

// NewQuota makes a quota of so many bytes in keys with this maximum life; 0: for ever.
func NewQuota(name string, bytes int64, life time.Duration) *Quota {
	q := &Quota{key: "lockstep:bytes:" + name + ":", most: bytes, life: max(life, 0)}
	if q.life > 0 {
		q.most /= 2
	}
	return q
}

// Take counts bytes that are to be written. It is false if there is no room for them.
func (q *Quota) Take(bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn(time.Now())
	if q.fleet+q.own+int64(bytes) > q.most {
		return false
	}
	q.own += int64(bytes)
	return true
}

// Window returns the current window. What lives on when the next one has begun is to be counted
// in that, too.
func (q *Quota) Window() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turn(time.Now())
	return q.window
}

// turn begins a new window when it is time. It is called with mu held.
func (q *Quota) turn(now time.Time) {
	if q.life == 0 {
		return
	}
	if window := now.UnixMilli() / max(1, q.life.Milliseconds()); window != q.window {
		q.window, q.fleet, q.own, q.heard = window, 0, 0, time.Time{}
	}
}

// Settle tells Redis what this relay wrote and hears what all did, if it is time to. What
// cannot be told is told later.
func (q *Quota) Settle(ctx context.Context, client redis.UniversalClient) error {
	now := time.Now()
	q.mu.Lock()
	q.turn(now)
	window, own := q.window, q.own
	due := own >= tellBytes || own > 0 && now.Sub(q.heard) >= tellEvery
	q.mu.Unlock()
	if !due {
		return nil
	}
	key := q.key + strconv.FormatInt(window, 10)
	var sum *redis.IntCmd
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		sum = p.IncrBy(ctx, key, own)
		if q.life > 0 {
			p.PExpire(ctx, key, 2*q.life)
		}
		return nil
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.window == window {
		q.fleet, q.own, q.heard = sum.Val(), q.own-own, now
	}
	return nil
}
