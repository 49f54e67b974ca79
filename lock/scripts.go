package lock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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
