package lock

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/redis/go-redis/v9"
)

//go:embed lua/sync.lua
var syncLua string

//go:embed lua/beat.lua
var beatLua string

// scripts runs the Lua scripts. Each call is one EVALSHA; EVAL follows only where the
// server has lost its script cache.
type scripts struct{ sync, beat *redis.Script }

func newScripts() scripts {
	return scripts{sync: redis.NewScript(syncLua), beat: redis.NewScript(beatLua)}
}

// errReply means that no script of this package returns such an answer.
var errReply = errors.New("unexpected reply of a lock script")

func (r *remote) sync(ctx context.Context, keys []string, s statement) (view, error) {
	select { // or the calls of a burst would wait for connections until their deadlines, which looks like a Redis that is down
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return view{}, errNotSent
	}
	if !r.up.Load() {
		return view{}, errNotSent
	}
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	cfg := r.svc.cfg
	args := append(make([]any, 0, 24), cmp.Or(s.by, r.process), cfg.MaxHold.Duration().Milliseconds(), cfg.Memory.Duration().Milliseconds(), r.lifetime.Milliseconds(),
		s.claim.session, s.claim.nonce, (r.svc.now() - s.claim.since).Microseconds()) // how long ago: the clocks of relays and of Redis need not agree
	if s.claim.until == 0 {
		args = append(args, "")
	} else { // rounded up, so that no window ends early
		args = append(args, (max(s.claim.until-s.at, 0) + time.Microsecond - 1).Microseconds())
	}
	args = append(args, s.again)
	if s.turn != 0 {
		args = append(args, s.turn, s.session, max(s.left.Milliseconds(), 1), s.ended)
	} else {
		args = append(args, "", "", "", s.ended)
	}
	if s.leaves != nil {
		expected, base, sure, last := s.leaves.fields()
		args = append(args, expected, base, sure, last)
	} else {
		args = append(args, "", "", "", "")
	}
	args = append(args, s.observed, s.bad, s.missing, flag(s.take), s.ends, s.endsUpTo, flag(s.dead))
	reply, err := r.scripts.sync.Run(ctx, r.client, keys, args...).Slice()
	if err != nil {
		return view{}, err
	}
	r.answered.Store(int64(r.svc.now()))
	return parseView(reply)
}

// errNotSent means that Redis went away while the call waited for its connection.
var errNotSent = errors.New("not sent")

func (r *remote) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.svc.cfg.RedisTimeout.Duration())
}

// laneError tells errors of one lane's keys from those of the server.
func laneError(err error) bool {
	if errors.Is(err, errReply) {
		return true
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	for _, word := range []string{"READONLY", "LOADING", "OOM", "MISCONF", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY"} {
		if strings.Contains(text, word) {
			return false
		}
	}
	return strings.HasPrefix(text, "ERR") || strings.Contains(text, "WRONGTYPE")
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// parseView reads owner, ms left, ms to wait, refused, lost, cleared, removed, what later fences exceed.
func parseView(reply []any) (v view, err error) {
	if len(reply) != 8 {
		return view{}, errReply
	}
	text, ok := reply[0].(string)
	if !ok {
		return view{}, errReply
	}
	if v.owner, err = parseLockValue(text); err != nil {
		return view{}, fmt.Errorf("%w: %w", errReply, err)
	}
	var n [7]int64
	for i := range n {
		if n[i], ok = reply[i+1].(int64); !ok {
			return view{}, errReply
		}
	}
	v.left, v.wait, v.refused, v.lost = milliseconds(n[0]), milliseconds(n[1]), n[2] == 1, n[3] == 1
	v.cleared, v.removed, v.before = int(n[4]), int(n[5]), uint64(max(n[6], 0))
	return v, nil
}

// milliseconds limits the time that a server claims to one day.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, -1), 86_400_000)) * time.Millisecond
}

// What follows reads everything that comes from Redis. An older version or another program may have
// written it, so it is checked here.

const maxField = 256 // bytes of any one field that is accepted

// lockValue is the value of a lock key: the owner and the state of the lane.
type lockValue struct {
	session  string
	instance string
	fence    uint64
	chain    chain
}

// parseLockValue reads "session|instance|fence|expected|base|sure|lastfence|node|txid".
// The empty string is a free lock: a value without a session.
func parseLockValue(s string) (lockValue, error) {
	if s == "" {
		return lockValue{}, nil
	}
	f := strings.Split(s, "|")
	if len(f) != 9 {
		return lockValue{}, fmt.Errorf("lock value has %d fields, want 9", len(f))
	}
	for _, field := range f {
		if len(field) > maxField {
			return lockValue{}, fmt.Errorf("lock value has a field of %d bytes", len(field))
		}
	}
	if f[0] == "" || f[1] == "" {
		return lockValue{}, fmt.Errorf("lock value names no owner")
	}
	r := lockValue{session: f[0], instance: f[1]}
	var err error
	number := func(field string) uint64 {
		if field == "" || err != nil {
			return 0
		}
		var n uint64
		n, err = strconv.ParseUint(field, 10, 64)
		return n
	}
	r.fence = number(f[2])
	r.chain.expected, r.chain.known, r.chain.base = number(f[3]), f[3] != "", number(f[4])
	r.chain.sure = f[3] != "" && f[5] == "1"
	if f[5] == "r" || f[5] == "R" {
		r.chain.mode = recovering
	}
	if f[3] != "" {
		r.chain.gap = map[string]missing{"a": tried, "g": certain}[f[5]]
	}
	r.chain.lastFence = number(f[6])
	if err != nil {
		return lockValue{}, fmt.Errorf("lock value: %w", err)
	}
	if r.chain.lastFence != 0 {
		r.chain.last = Submission{Node: f[7], TxID: f[8], Open: true}
	}
	return r, nil
}

// fields returns the knowledge as sync takes it. last is "lastfence|node|txid".
func (k chain) fields() (expected, base, sure, last string) {
	if k.known {
		expected = strconv.FormatUint(k.expected, 10)
		if k.base != 0 {
			base = strconv.FormatUint(k.base, 10)
		}
		sure = map[missing]string{tried: "a", certain: "g"}[k.gap] // versions without gaps take it for "not sure"
		if k.sure {
			sure = "1"
		}
	}
	if k.mode == recovering {
		sure = "r" // versions without modes take it for "not sure"
	}
	// A name that would break the format is dropped with its submission.
	if k.lastFence != 0 && plain(k.last.Node) && plain(k.last.TxID) {
		return expected, base, sure, strconv.FormatUint(k.lastFence, 10) + "|" + k.last.Node + "|" + k.last.TxID
	}
	return expected, base, sure, "||"
}

func plain(s string) bool {
	return len(s) <= maxField && !strings.ContainsAny(s, "|\n\r")
}

const (
	lockPrefix      = "lock:"
	heartbeatPrefix = "lock:heartbeat:"
	grantsPrefix    = "lock:grants:"
	instancesKey    = "lock:instances"
)

// keys returns the keys of a lane. The braces are a hash tag: in a cluster they keep
// all keys of one sender in one slot.
func keys(sender common.Address) []string {
	tag := "{0x" + hex.EncodeToString(sender[:]) + "}"
	return []string{lockPrefix + tag, "lock:queue:" + tag, "lock:memory:" + tag}
}

func parseKey(key string) (common.Address, error) {
	inner, ok := strings.CutPrefix(key, lockPrefix+"{")
	if !ok || len(inner) != 2+2*common.AddressLength+1 || !strings.HasSuffix(inner, "}") {
		return common.Address{}, fmt.Errorf("not the lock key of a sender")
	}
	inner = inner[:len(inner)-1]
	if !strings.HasPrefix(inner, "0x") || !common.IsHexAddress(inner) {
		return common.Address{}, fmt.Errorf("not the lock key of a sender")
	}
	return common.HexToAddress(inner), nil
}
