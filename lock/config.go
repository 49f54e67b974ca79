package lock

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/envx"
	"lockstep/internal/redisx"
)

// Release points: when submit gives the turn to the next in line.
const (
	ReleaseAccepted  = "accepted"  // at the consensus node's own OK
	ReleaseConsensus = "consensus" // when the receipt is known
)

// Config holds the settings of per-sender ordering. It is immutable once given to New.
type Config struct {
	// Order the raw transactions of each sender with a first-in-first-out lock. Off: no lock, no Redis command, no cost.
	Enabled bool `env:"ENABLE_NONCE_ORDERING" envDefault:"false"`
	// Longest time one transaction may hold its sender's lock, counted from its own acquisition. Then the lock is taken from it and the next goes.
	MaxHold envx.Millis `env:"LOCK_MAX_HOLD_MS" envDefault:"30000" min:"10ms" max:"24h"`
	// Number of idle senders remembered in this process. Senders with a transaction in progress are never counted and never evicted.
	LocalEntries int `env:"LOCAL_LOCK_MAX_ENTRIES" envDefault:"1000" min:"1"`
	// Pace at which waiting senders look at Redis while its Pub/Sub is down. Not used otherwise: a grant is pushed.
	PollInterval envx.Millis `env:"LOCK_QUEUE_POLL_INTERVAL_MS" envDefault:"50" min:"1ms" max:"24h"`
	// How often this process shows in Redis that it lives.
	HeartbeatInterval envx.Millis `env:"LOCK_HEARTBEAT_INTERVAL_MS" envDefault:"350" min:"10ms" max:"24h"`
	// Heartbeats a process may miss before others take over its locks and its claims in the queues.
	HeartbeatMissed int `env:"LOCK_HEARTBEAT_MISSED_COUNT" envDefault:"5" min:"2" max:"1000"`
	// Pace at which a sender's claim in Redis is stated again if nothing else was said meanwhile. After a restart of Redis or a lost connection that happens at once.
	MembershipInterval envx.Millis `env:"LOCK_QUEUE_MEMBERSHIP_CHECK_INTERVAL_MS" envDefault:"10000" min:"10ms" max:"24h"`
	// Deadline of every Redis call of the lock. When it passes, a heartbeat with the same deadline decides whether ordering goes on inside the process until Redis answers again.
	RedisTimeout envx.Millis `env:"LOCK_REDIS_TIMEOUT_MS" envDefault:"500" min:"1ms" max:"24h"`
	// How long a sender whose transactions came through several relays in the last minute waits for a Redis that went away, before this relay goes on alone. Senders that only this relay serves do not wait.
	RedisPatience envx.Millis `env:"LOCK_REDIS_PATIENCE_MS" envDefault:"3000" min:"0" max:"24h"`
	// Maximum number of transactions of one sender that may wait in this process. 0 = unbounded. Unset, it is at least BATCH_REQUESTS_MAX_SIZE.
	MaxQueue int `env:"LOCK_MAX_QUEUE_PER_SENDER" envDefault:"1024" min:"0"`
	// Give up the place of a queued transaction whose client has disconnected.
	CancelOnDisconnect bool `env:"LOCK_CANCEL_ON_DISCONNECT" envDefault:"false"`
	// How long a transaction that is ahead of the sender's expected nonce waits for its predecessor, counted anew, for up to LOCK_LANE_MEMORY_MS, whenever one comes below a nonce that waits: the burst is still arriving. One that follows others of its sender waits for four times as long once more before it is refused or sent: its predecessor may be late. One that is next never waits for this, and none does with DISABLE_MN_PRECHECKS_ON_TX_SENDING, because the relay then does not know which nonce is next. 0 = off: nobody waits. Among the transactions queued here the expected nonce goes first, else the order of arrival decides; one that is ahead of them all is refused at once where the gap is certain, and sent otherwise. A lane that recovers keeps what is ahead all the same (NONCE_RECOVERY_MS).
	Window envx.Millis `env:"NONCE_GAP_HOLD_MS" envDefault:"250" min:"0" max:"24h"`
	// How long, from its arrival, a transaction is kept while its sender's lane recovers: because one before it vanished, is unclear, or was held by a relay that died. It is sent when the transactions before it have been executed; otherwise its client is told that it was not executed. 0 = off: it is told at once. No client waits for longer for its transaction's turn either, whatever the reason: 50 s with 0, and NONCE_GAP_HOLD_MS if that is more.
	Recovery envx.Millis `env:"NONCE_RECOVERY_MS" envDefault:"50000" min:"0" max:"24h"`
	// How long a transaction whose hash its client has already got is kept for its predecessor.
	Promise envx.Millis `env:"NONCE_PROMISE_MS" envDefault:"300000" min:"0" max:"24h"`
	// How long the expected nonce of a sender is remembered after its last transaction, to cover the lag of the mirror node.
	Memory envx.Millis `env:"LOCK_LANE_MEMORY_MS" envDefault:"10000" min:"1ms" max:"24h"`
	// Addresses that ordering is limited to, separated by commas. Empty = see NONCE_ORDERING_PERCENT.
	Senders envx.Strings `env:"NONCE_ORDERING_SENDERS" reload:"true"`
	// Share of all senders, 0 to 100, that ordering applies to besides those listed, by a stable hash of the address. Ignored at 100 when a list is given.
	Percent float64 `env:"NONCE_ORDERING_PERCENT" envDefault:"100" reload:"true" min:"0" max:"100"`
	// When the lock goes to the next: "accepted" (the consensus node said OK) or "consensus" (the receipt is known).
	Release string `env:"NONCE_ORDERING_RELEASE" envDefault:"accepted"`
	// Maximum number of transactions of one sender that this relay hands to consensus nodes before the network has a verdict on the first of them; the next one waits. It bounds what a hole costs: with 2 one rejection, with N a maximum of N - 1, and a sender is as fast as N transactions for each time to consensus. 0 = no bound: as fast as the nodes accept.
	MaxOpen int `env:"NONCE_ORDERING_MAX_OPEN" envDefault:"0" min:"0"`
}

// DefaultConfig returns the defaults that the tags declare, with ordering on.
func DefaultConfig() Config {
	cfg := env.Must(env.ParseAsWithOptions[Config](env.Options{Environment: map[string]string{}}))
	cfg.Enabled = true
	return cfg
}

// Late is how much longer than Window a transaction waits for a predecessor that is missing and may have come a moment too
// late: on a busy machine, or at another relay.
func (c Config) Late() time.Duration {
	const windows = 4
	return windows * c.Window.Duration()
}

// RedisOptions are those of a client for Deps.Redis. Every call has a deadline of its own; the client's may not be nearer, or it would end
// the wait for a heartbeat that is late.
func (c Config) RedisOptions() redisx.Options {
	return redisx.Options{Timeout: c.RedisTimeout.Duration(), ReadTimeout: 2 * c.beatLimit()}
}

// beatLimit is how long a late heartbeat is waited for: after it, another one still comes in time to keep this process alive. Time for which
// this process stands still does not count, up to the same length: so a heartbeat takes twice this at most, and so does the end of a service.
func (c Config) beatLimit() time.Duration {
	const most = 5 * time.Second
	return max(min(c.ttl()*3/4, most), c.RedisTimeout.Duration())
}

// ttl is how long a heartbeat lasts.
func (c Config) ttl() time.Duration {
	return c.HeartbeatInterval.Duration() * time.Duration(c.HeartbeatMissed)
}

// Check reports every setting that cannot work, joined into one error. The longest durations keep every sum of settings far from
// overflow, here and in Redis.
func (c Config) Check() error {
	errs := []error{envx.Check(c)}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if lapse := c.HeartbeatInterval.Duration() * time.Duration(max(c.HeartbeatMissed-1, 0)); lapse <= c.RedisTimeout.Duration() {
		// Else a process could be taken for dead before it knows that Redis does not answer.
		bad("LOCK_REDIS_TIMEOUT_MS is %v: want less than %v, by which a heartbeat may be late", c.RedisTimeout, lapse)
	}
	if c.Release != ReleaseAccepted && c.Release != ReleaseConsensus {
		bad("NONCE_ORDERING_RELEASE is %q: want %s or %s", c.Release, ReleaseAccepted, ReleaseConsensus)
	}
	for _, s := range c.Senders {
		if !common.IsHexAddress(s) {
			bad("NONCE_ORDERING_SENDERS: %q is not an address", s)
		}
	}
	return errors.Join(errs...)
}

// protocol is how processes speak of lanes in Redis. Those of before it had a number speak of single transactions.
const protocol = "protocol=2"

// ordering is what every instance must agree on for the order to hold across them.
// It is published with the heartbeat and compared as text. Processes of another protocol, which share no order with this one, are told by its number.
func (s *Service) ordering() string {
	c, r := s.cfg, s.rollout.Load()
	return fmt.Sprintf(protocol+" enabled=%t percent=%g senders=%s gap=%v release=%s hold=%v",
		s.enabled.Load(), r.percent, strings.ToLower(r.senders.String()), c.Window, c.Release, c.MaxHold)
}

// rollout decides which senders are ordered. It depends on settings and the address
// alone, so that all instances agree.
type rollout struct {
	listed map[common.Address]struct{}
	limit  uint32 // senders whose hash is below it are in, of rolloutSlots

	percent float64 // the settings that it was made from
	senders envx.Strings
}

const rolloutSlots = 1 << 20

// AllSenders is what Ordered says while ordering is limited to no senders.
const AllSenders = "all senders"

func newRollout(cfg Config) *rollout {
	r := &rollout{limit: uint32(cfg.Percent / 100 * rolloutSlots), percent: cfg.Percent, senders: cfg.Senders}
	if len(cfg.Senders) == 0 {
		return r
	}
	r.listed = make(map[common.Address]struct{}, len(cfg.Senders))
	for _, s := range cfg.Senders {
		r.listed[common.HexToAddress(s)] = struct{}{}
	}
	if cfg.Percent == 100 {
		r.limit = 0 // a list with the percentage left alone means "only these"
	}
	return r
}

func (r *rollout) equal(other *rollout) bool {
	return r.limit == other.limit && maps.Equal(r.listed, other.listed)
}

// String says in words which senders are ordered.
func (r *rollout) String() string {
	share := strconv.FormatFloat(r.percent, 'g', -1, 64) + " %"
	if r.limit == 0 {
		share = "0 %" // also of a share too small for a single slot
	}
	switch listed := len(r.listed); {
	case r.limit == rolloutSlots:
		return AllSenders
	case listed == 0:
		return share + " of senders"
	case r.limit == 0 && listed == 1:
		return "1 listed sender"
	case r.limit == 0:
		return fmt.Sprintf("%d listed senders", listed)
	default:
		return fmt.Sprintf("%d listed and %s of the others", listed, share)
	}
}

func (r *rollout) includes(sender common.Address) bool {
	if r.limit == rolloutSlots {
		return true
	}
	if _, ok := r.listed[sender]; ok {
		return true
	}
	if r.limit == 0 {
		return false
	}
	h := fnv.New32a()
	_, _ = h.Write(sender[:])
	// The top bits of this hash mix better than its low ones.
	return h.Sum32()>>12 < r.limit
}

// Sentinels. ErrLost, ErrReleased and ErrClosed can be the cause of a lease's context.
var (
	// ErrLost means the turn is over although the holder did not end it: the hold limit passed, or the lock went
	// to another. The holder must not send anything more.
	ErrLost = errors.New("the sender's lock was lost")
	// ErrReleased means the holder itself ended the turn.
	ErrReleased = errors.New("the sender's lock was released")
	// ErrLeft means the ticket gave up its place, by Leave or through its context.
	ErrLeft = errors.New("the place in the sender's queue was given up")
	// ErrInVain is the cause of ErrLeft when the limit given to WaitWithin or Notify has passed.
	ErrInVain = errors.New("the turn did not come in time")
	// ErrClosed means the service has stopped.
	ErrClosed = errors.New("the lock service has stopped")
	// ErrQueueFull means that too many transactions of the sender wait already. See QueueFullError.
	ErrQueueFull = errors.New("the sender's queue is full")
	// ErrUnavailable means that a call needs Redis, which does not answer. Taking a turn never returns it: the
	// order inside the process decides then.
	ErrUnavailable = errors.New("redis is unavailable")
)

// QueueFullError is an ErrQueueFull that tells how many were waiting.
type QueueFullError struct {
	Length int // transactions of the sender waiting in this process
}

// Error says that the queue is full, and its length.
func (e *QueueFullError) Error() string {
	return ErrQueueFull.Error() + ": " + strconv.Itoa(e.Length) + " waiting"
}

// Is makes errors.Is(err, ErrQueueFull) true.
func (e *QueueFullError) Is(target error) bool { return target == ErrQueueFull }
