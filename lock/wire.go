package lock

import (
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

//go:embed lua/lane.lua
var laneLua string

//go:embed lua/enter.lua
var enterLua string

//go:embed lua/release.lua
var releaseLua string

//go:embed lua/reclaim.lua
var reclaimLua string

//go:embed lua/judge.lua
var judgeLua string

//go:embed lua/repair.lua
var repairLua string

//go:embed lua/heartbeat.lua
var heartbeatLua string

// scripts runs the Lua scripts. Each call is one EVALSHA; EVAL follows only where the
// server has lost its script cache.
type scripts struct {
	enter, release, reclaim, judge, repair, heartbeat *redis.Script
}

func newScripts() scripts {
	onLane := func(body string) *redis.Script { return redis.NewScript(laneLua + "\n" + body) }
	return scripts{
		enter: onLane(enterLua), release: onLane(releaseLua), reclaim: onLane(reclaimLua), judge: onLane(judgeLua),
		repair:    onLane(repairLua),
		heartbeat: redis.NewScript(heartbeatLua),
	}
}

// errReply means that no script of this package returns such an answer.
var errReply = errors.New("unexpected reply of a lock script")

// view is what a script says about a lane.
type view struct {
	owner    lockValue     // without a session while the lock is free
	left     time.Duration // of the owner's hold if it is ours; negative = not known
	asked    time.Duration // when the call was sent that this answers; 0 = nobody asked
	wait     time.Duration // until the first in the queue may go; negative = does not apply
	rejoined int
	removed  int
	refused  bool // the turn to adopt is over
}

// joiner is one place to join with.
type joiner struct {
	session string
	nonce   uint64
	until   time.Duration // end of its window; 0 = it does not wait for a predecessor
}

// enterCall is one run of the enter script.
type enterCall struct {
	again, take bool
	raiseTo     string
	adopt       *adoption
	held        string // session of the turn that this process believes to have
	places      []joiner
}

type adoption struct {
	session string
	nonce   uint64
	fence   uint64
	left    time.Duration
	strict  bool // it came from Redis, so a later turn ends it
}

func (r *remote) enter(ctx context.Context, keys []string, instance string, c enterCall) (view, error) {
	args := append(r.args(instance, 14+3*len(c.places)), flag(c.again), flag(c.take), c.raiseTo)
	if a := c.adopt; a != nil {
		args = append(args, a.session, a.nonce, a.fence, max(a.left.Milliseconds(), 1), flag(a.strict))
	} else {
		args = append(args, "", "", "", "", "")
	}
	first := time.Duration(0)
	if len(c.places) > 0 {
		first = max(c.places[0].until-r.svc.now(), 0)
	}
	args = append(args, c.held, first.Milliseconds())
	for _, p := range c.places {
		args = append(args, p.session, p.nonce, r.windowEnd(p.until))
	}
	reply, err := r.run(ctx, r.scripts.enter, keys, args)
	if err != nil {
		return view{}, err
	}
	if len(reply) != 5 {
		return view{}, errReply
	}
	refused, err := replyInt(reply[4])
	if err != nil {
		return view{}, err
	}
	v, err := parseView(reply[:4], 0)
	v.refused = refused == 1
	return v, err
}

// windowEnd is when a window ends, in ms by the clock of Redis, or 0 without a window. It is rounded up, so that no window ends early.
func (r *remote) windowEnd(until time.Duration) int64 {
	if until == 0 {
		return 0
	}
	return max((time.Duration(r.clock.Load()) + until + time.Millisecond - 1).Milliseconds(), 1)
}

// handback is a session to take back: a turn that ended or a place that was left.
type handback struct {
	session  string
	instance string
	chain    *chain // what the holder knew; nil = it says nothing
	turn     bool   // it had the turn, by Redis
}

// release ends a turn, or gives up a place, and returns whose turn it is then.
func (r *remote) release(ctx context.Context, keys []string, d handback) (was bool, v view, err error) {
	args := append(r.args(d.instance, 11), d.session, flag(d.chain != nil), flag(r.mayTake()))
	if d.chain != nil {
		expected, base, sure, last := d.chain.fields()
		args = append(args, expected, base, sure, last)
	}
	reply, err := r.run(ctx, r.scripts.release, keys, args)
	if err != nil {
		return false, view{}, err
	}
	if len(reply) != 3 {
		return false, view{}, errReply
	}
	n, err := replyInt(reply[0])
	if err != nil {
		return false, view{}, err
	}
	if v, err = parseView([]any{reply[1], int64(-1), reply[2], int64(0)}, 0); err != nil {
		return false, view{}, err
	}
	if v.owner.instance == d.instance && n == 1 {
		v.left = r.svc.cfg.MaxHold.Duration() // it was given just now
	}
	return n == 1, v, nil
}

// reclaim removes a dead instance, or one session by force; either may be empty.
func (r *remote) reclaim(ctx context.Context, keys []string, instance, dead, session string) (view, error) {
	reply, err := r.run(ctx, r.scripts.reclaim, keys, append(r.args(instance, 7), dead, session, flag(r.mayTake())))
	if err != nil {
		return view{}, err
	}
	if len(reply) != 4 {
		return view{}, errReply
	}
	removed, err := replyInt(reply[0])
	if err != nil {
		return view{}, err
	}
	return parseView([]any{reply[1], reply[2], reply[3], int64(0)}, int(removed))
}

// verdict is what other processes have to know of a verdict.
type verdict struct {
	fence   uint64 // if the turn with it contributed to what is expected, that is void; 0: none did
	missing string // the nonce that is proven to be missing, or empty
}

// judge passes a verdict on.
func (r *remote) judge(ctx context.Context, keys []string, instance string, v verdict) error {
	leave, err := r.enterSlot(ctx)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	return r.scripts.judge.Run(ctx, r.client, keys, append(r.args(instance, 6), v.fence, v.missing)...).Err()
}

func (r *remote) repair(ctx context.Context, keys []string, instance string, overdue bool) (removed int, err error) {
	leave, err := r.enterSlot(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	return r.scripts.repair.Run(ctx, r.client, keys, append(r.args(instance, 5), flag(overdue))...).Int()
}

// args starts the arguments that every script of a lane takes.
func (r *remote) args(instance string, n int) []any {
	cfg := r.svc.cfg
	return append(make([]any, 0, n), instance, cfg.MaxHold.Duration().Milliseconds(), cfg.Memory.Duration().Milliseconds(),
		r.lifetime.Milliseconds())
}

// run runs a script on a lane.
func (r *remote) run(ctx context.Context, s *redis.Script, keys []string, args []any) ([]any, error) {
	leave, err := r.enterSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := r.deadline(ctx)
	defer cancel()
	reply, err := s.Run(ctx, r.client, keys, args...).Slice()
	if err == nil {
		r.answered.Store(int64(r.svc.now()))
	}
	return reply, err
}

// errNotSent means that Redis went away while the call waited for its connection.
var errNotSent = errors.New("not sent")

// enterSlot waits for a free connection. Otherwise the calls of a burst of senders would wait for
// connections until their deadlines, which looks like a Redis that is down.
func (r *remote) enterSlot(ctx context.Context) (leave func(), err error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, errNotSent
	}
	leave = func() { <-r.slots }
	if !r.up.Load() {
		leave()
		return nil, errNotSent
	}
	return leave, nil
}

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

// parseView reads owner, ms left, ms to wait, rejoined.
func parseView(reply []any, removed int) (view, error) {
	if len(reply) != 4 {
		return view{}, errReply
	}
	text, ok := reply[0].(string)
	if !ok {
		return view{}, errReply
	}
	v := view{removed: removed}
	var err error
	if v.owner, err = parseLockValue(text); err != nil {
		return view{}, fmt.Errorf("%w: %w", errReply, err)
	}
	var n [3]int64
	for i := range n {
		if n[i], err = replyInt(reply[i+1]); err != nil {
			return view{}, err
		}
	}
	v.left, v.wait, v.rejoined = milliseconds(n[0]), milliseconds(n[1]), int(n[2])
	return v, nil
}

// milliseconds limits the time that a server claims to one day.
func milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, -1), 86_400_000)) * time.Millisecond
}

func replyInt(v any) (int64, error) {
	switch n := v.(type) {
	case int64:
		return n, nil
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errReply, err)
		}
		return i, nil
	}
	return 0, errReply
}

// What follows reads everything that comes from Redis. An older version or another program may have
// written it, so it is checked here.

const maxField = 256 // bytes of any one field that is accepted

// lockValue is the value of a lock key: the owner and the state of the lane.
type lockValue struct {
	session  string
	instance string
	nonce    uint64
	fence    uint64
	chain    chain
}

// parseLockValue reads "session|instance|nonce|fence|expected|base|sure|lastfence|node|txid".
// The empty string is a free lock: a value without a session.
func parseLockValue(s string) (lockValue, error) {
	if s == "" {
		return lockValue{}, nil
	}
	f := strings.Split(s, "|")
	if len(f) != 10 {
		return lockValue{}, fmt.Errorf("lock value has %d fields, want 10", len(f))
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
	r.nonce, r.fence = number(f[2]), number(f[3])
	r.chain.expected, r.chain.known, r.chain.base = number(f[4]), f[4] != "", number(f[5])
	r.chain.sure = f[4] != "" && f[6] == "1"
	if f[6] == "r" || f[6] == "R" {
		r.chain.mode = recovering
	}
	if f[4] != "" {
		r.chain.gap = map[string]missing{"a": tried, "g": certain}[f[6]]
	}
	r.chain.lastFence = number(f[7])
	if err != nil {
		return lockValue{}, fmt.Errorf("lock value: %w", err)
	}
	if r.chain.lastFence != 0 {
		r.chain.last = Submission{Node: f[8], TxID: f[9], Open: true}
	}
	return r, nil
}

// fields returns the knowledge as the release script takes it. last is "lastfence|node|txid".
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

// message is what arrives on the channel of this process.
type message struct {
	verb  string // "grant", "lost" or "echo"
	echo  uint64 // echo only: its number
	lane  common.Address
	hold  time.Duration // grant only: the hold limit the owner was given
	owner lockValue
}

// parseMessage reads "verb\nlock key\nhold ms\nrecord" or "echo\nnumber".
func parseMessage(s string) (message, error) {
	verb, rest, _ := strings.Cut(s, "\n")
	switch verb {
	case "echo":
		n, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			return message{}, fmt.Errorf("echo: %w", err)
		}
		return message{verb: verb, echo: n}, nil
	case "grant", "lost":
	default:
		return message{}, fmt.Errorf("message of unknown kind")
	}
	f := strings.Split(rest, "\n")
	if len(f) != 3 {
		return message{}, fmt.Errorf("%s message has %d lines, want 3", verb, len(f))
	}
	m := message{verb: verb}
	var err error
	if m.lane, err = parseKey(f[0]); err != nil {
		return message{}, err
	}
	ms, err := strconv.ParseUint(f[1], 10, 31)
	if err != nil {
		return message{}, fmt.Errorf("hold limit: %w", err)
	}
	m.hold = time.Duration(ms) * time.Millisecond
	if m.owner, err = parseLockValue(f[2]); err != nil {
		return message{}, err
	}
	if m.owner.session == "" {
		return message{}, fmt.Errorf("%s message without an owner", verb)
	}
	return m, nil
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
	return []string{lockPrefix + tag, "lock:queue:" + tag, "lock:memory:" + tag, "lock:waiting:" + tag}
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
