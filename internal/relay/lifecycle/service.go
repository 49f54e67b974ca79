package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/redisx"
)

// Service keeps records. It is safe for concurrent use.
type Service struct {
	cfg    Config
	off    bool          // made by Disabled
	steps  *Journal      // nil: nobody watches
	redis  *redisx.Asker // nil: this process is alone
	quota  *redisx.Quota // of the fleet in Redis
	writes chan write    // that wait for Redis
	errors *prometheus.CounterVec

	mu    sync.Mutex
	known *simplelru.LRU[common.Hash, *item] // guarded by mu
	bytes int                                // guarded by mu; of known
}

// write adds commands to a pipeline. It must not wait.
type write func(context.Context, redis.Pipeliner)

// item is a record of this process.
type item struct {
	state   *state // immutable
	until   time.Time
	unsaved bool // Redis has not been told
	saved   int  // bytes that Redis has of it
}

// weight is what a record costs this process, about.
func (i *item) weight() int {
	const empty, step = 512, 192
	bytes := empty + len(i.state.TransactionID) + len(i.state.Error)
	for _, e := range i.state.Steps {
		bytes += step + len(e.TransactionID) + len(e.Error)
	}
	return bytes
}

// New makes a Service; without Redis the client is nil. It starts nothing.
func New(cfg Config, client redis.UniversalClient) (*Service, error) {
	s := &Service{cfg: cfg, quota: redisx.NewQuota("records", cfg.RedisMaxBytes, cfg.TTL.Duration()), errors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lockstep_tx_tracing_redis_errors_total", Help: "Lifecycle records that could not be written to or read from Redis; full: the fleet has written all that it may.",
	}, []string{"operation"})}
	known, err := simplelru.NewLRU(cfg.MaxEntries, func(_ common.Hash, gone *item) { s.bytes -= gone.weight() })
	if err != nil {
		return nil, err
	}
	s.known = known
	s.redis, s.writes = redisx.NewAsker(client, redisx.AskerOptions{Timeout: cfg.RedisTimeout.Duration()}), make(chan write, cfg.MaxEntries)
	return s, nil
}

// Disabled makes a Service that keeps no records.
func Disabled() *Service { return &Service{off: true} }

// Enabled reports whether the service keeps records.
func (s *Service) Enabled() bool { return !s.off }

// Run writes to Redis until ctx ends, and then what is left. Its error is nil.
func (s *Service) Run(ctx context.Context) error {
	if s.redis == nil {
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			for len(s.writes) > 0 {
				s.flush(context.WithoutCancel(ctx), <-s.writes)
			}
			return nil
		case first := <-s.writes:
			s.flush(context.WithoutCancel(ctx), first)
		}
	}
}

// flush makes a write, and others that wait, in one round trip. What cannot be written is lost.
func (s *Service) flush(ctx context.Context, first write) {
	const most = 512
	writes := []write{first}
	for len(writes) < most && len(s.writes) > 0 { // nobody else takes any
		writes = append(writes, <-s.writes)
	}
	err := s.redis.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, w := range writes {
				w(ctx, p)
			}
			return nil
		})
		if err == nil {
			err = s.quota.Settle(ctx, c)
		}
		return err
	})
	if err != nil {
		s.errors.WithLabelValues("write").Add(float64(len(writes)))
	}
}

// put has a write made. It never blocks.
func (s *Service) put(w write) {
	select {
	case s.writes <- w:
	default:
		s.errors.WithLabelValues("write").Inc()
	}
}

// Collectors returns the metrics for registration; none if the service is off.
func (s *Service) Collectors() []prometheus.Collector {
	if s.off {
		return nil
	}
	return []prometheus.Collector{s.errors}
}

// Follow lets a journal hear of every step that names its sender from now on, of a service that keeps no records, too. Call it before Record.
func (s *Service) Follow(j *Journal) { s.steps = j }

// Record adds a step. It never blocks.
func (s *Service) Record(hash common.Hash, step Step) {
	if s.steps != nil && step.Sender != (common.Address{}) {
		s.steps.add(hash, step)
	}
	if s.off {
		return
	}
	if step.At.IsZero() {
		step.At = time.Now()
	}
	s.mu.Lock()
	old := s.get(hash)
	next, changed := old.after(step)
	if changed {
		s.keep(hash, &item{state: next, until: s.until(), unsaved: true})
	}
	s.mu.Unlock()
	if changed && s.redis != nil {
		s.put(func(ctx context.Context, p redis.Pipeliner) { s.save(ctx, p, hash) })
	}
}

// Validated says that the mirror node shows the transaction in a block. It says nothing
// of one that there is no record of.
func (s *Service) Validated(hash common.Hash) {
	if s.off {
		return
	}
	s.mu.Lock()
	old := s.get(hash)
	s.mu.Unlock()
	switch {
	case old != nil && old.Rank < rankValidated:
		s.Record(hash, Step{Name: Mirrored})
	case old == nil && s.redis != nil:
		s.put(func(ctx context.Context, p redis.Pipeliner) {
			p.Eval(ctx, validate, []string{key(hash)}, time.Now().UnixMilli(), s.millis())
		})
	}
}

// Get returns the record of a transaction, or false if there is none.
func (s *Service) Get(ctx context.Context, hash common.Hash) (Record, bool) {
	if s.off {
		return Record{}, false
	}
	s.mu.Lock()
	own := s.get(hash)
	s.mu.Unlock()
	if s.redis != nil {
		if shared := s.read(ctx, hash); shared != nil && (own == nil || shared.Rank > own.Rank || shared.Rank == own.Rank && shared.Timestamp > own.Timestamp) {
			own = shared
		}
	}
	if own == nil {
		return Record{}, false
	}
	return own.Record, true
}

// keep needs mu. The oldest records make room.
func (s *Service) keep(hash common.Hash, it *item) {
	if earlier, ok := s.known.Peek(hash); ok {
		it.saved = earlier.saved
		s.known.Remove(hash)
	}
	s.bytes += it.weight()
	s.known.Add(hash, it)
	for s.bytes > s.cfg.MaxBytes && s.known.Len() > 1 {
		s.known.RemoveOldest()
	}
}

// get needs mu.
func (s *Service) get(hash common.Hash) *state {
	it, ok := s.known.Get(hash)
	if !ok {
		return nil
	}
	if !it.until.IsZero() && time.Now().After(it.until) {
		s.known.Remove(hash)
		return nil
	}
	return it.state
}

func (s *Service) until() time.Time {
	if s.cfg.TTL <= 0 {
		return time.Time{}
	}
	return time.Now().Add(s.cfg.TTL.Duration())
}

// millis is how long Redis keeps a record; 0: for ever.
func (s *Service) millis() int64 { return max(0, s.cfg.TTL.Duration().Milliseconds()) }

func key(hash common.Hash) string { return "txtrace:hash:" + hash.Hex() }

// store writes a record unless what is there is more certain; state.after has the same
// rule for one process. What the TypeScript relay wrote has no rank.
const store = redisx.SpareLua + `
if short() then return short_of_memory end
local known = redis.call('GET', KEYS[1])
if known then
  local ok, old = pcall(cjson.decode, known)
  if ok and type(old) == 'table' then
    local rank = old.rank or ({pending = 1, rejected = 1, sent = 2, timedout = 2, validated = 4})[old.status] or 0
    if tonumber(ARGV[3]) < rank and not (rank == 2 and ARGV[4] ~= '' and old.transactionId == ARGV[4]) then
      return 0
    end
  end
end
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], ARGV[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1`

// validate upgrades a record that another process wrote.
const validate = redisx.SpareLua + `
if short() then return short_of_memory end
local known = redis.call('GET', KEYS[1])
if not known then return 0 end
local ok, old = pcall(cjson.decode, known)
if not ok or type(old) ~= 'table' or old.status == 'validated' then return 0 end
old.status, old.timestamp, old.rank, old.error, old.nonceSpent = 'validated', tonumber(ARGV[1]), 4, nil, nil
if type(old.steps) == 'table' then
  table.insert(old.steps, {step = 'mirror', timestamp = tonumber(ARGV[1])})
end
local text = cjson.encode(old)
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], text)
else
  redis.call('SET', KEYS[1], text, 'PX', ARGV[2])
end
return 1`

// save writes what is known by now, which may be several steps at once.
func (s *Service) save(ctx context.Context, p redis.Pipeliner, hash common.Hash) {
	s.mu.Lock()
	it, ok := s.known.Peek(hash)
	unsaved := ok && it.unsaved
	if unsaved {
		it.unsaved = false
	}
	s.mu.Unlock()
	if !unsaved {
		return
	}
	text, err := json.Marshal(it.state)
	if err != nil {
		return // it has nothing that could fail
	}
	s.mu.Lock()
	more := len(text) - it.saved
	it.saved = len(text)
	s.mu.Unlock()
	if !s.quota.Take(max(0, more)) {
		s.errors.WithLabelValues("full").Inc()
		return
	}
	p.Eval(ctx, store, []string{key(hash)}, text, s.millis(), it.state.Rank, it.state.TransactionID)
}

// read asks Redis. What cannot be read is not known.
func (s *Service) read(ctx context.Context, hash common.Hash) *state {
	var text []byte
	err := s.redis.Ask(ctx, func(ctx context.Context, c redis.UniversalClient) (err error) {
		text, err = c.Get(ctx, key(hash)).Bytes()
		return err
	})
	if errors.Is(err, redis.Nil) {
		return nil
	}
	var found state
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		s.errors.WithLabelValues("read").Inc()
		return nil
	}
	return &found
}
