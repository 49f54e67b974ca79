package console

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/semaphore"

	"lockstep/console/page"
	"lockstep/internal/access"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/lifecycle"
	"lockstep/lock"
)

// Locks are the lanes of the relay.
type Locks interface {
	Lanes() []lock.LaneInfo
	ForceRelease(context.Context, common.Address) (bool, error)
	On() bool
	Ordered() string
	SetEnabled(bool)
}

// Deps are what the console shows, and works on.
type Deps struct {
	Door      access.Door // who gets in
	Version   string
	ChainID   uint64
	Locks     Locks
	Window    time.Duration                                               // how long the order waits for a missing nonce
	Budget    int64                                                       // tinybars of a window; 0: there is no budget
	Reload    func(context.Context) (any, error)                          // nil: there is nothing to read again
	Upstreams func(context.Context) []Upstream                            // in the order in which they are shown
	Metrics   prometheus.Gatherer                                         // of the relay
	Record    func(context.Context, common.Hash) (lifecycle.Record, bool) // nil: no records are kept
	Steps     *lifecycle.Journal                                          // of all transactions
	Calls     http.Handler                                                // JSON-RPC
	Mirror    *url.URL                                                    // of a network for development; nil on others
	Memory    *capacity.Memory                                            // of all requests; nil: without a limit
	Beside    []page.Link                                                 // pages of processes that belong to this one
	Log       *slog.Logger
}

// Console is the handler of the operator's listener.
type Console struct {
	deps    Deps
	streams *streams
	history history
	mux     *http.ServeMux
}

// maxBody bounds a request's body in bytes.
const maxBody = 1 << 20

// New makes the console. Run goes with it.
func New(deps Deps) *Console {
	c := &Console{deps: deps, mux: http.NewServeMux()}
	c.streams = newStreams(c.state)
	for pattern, handler := range map[string]http.Handler{ // besides the files of its page
		"GET /locks":                   http.HandlerFunc(c.listLocks),
		"POST /locks/{sender}/release": http.HandlerFunc(c.releaseLock),
		"GET /ordering":                http.HandlerFunc(c.showOrdering),
		"PUT /ordering":                http.HandlerFunc(c.switchOrdering),
		"POST /reload":                 http.HandlerFunc(c.reload),
		"GET /debug/pprof/":            http.HandlerFunc(pprof.Index),
		"GET /debug/pprof/profile":     http.HandlerFunc(pprof.Profile),
		"GET /debug/pprof/symbol":      http.HandlerFunc(pprof.Symbol),
		"GET /debug/pprof/trace":       http.HandlerFunc(pprof.Trace),
		"GET " + page.AboutPath:        http.HandlerFunc(c.about),
		"GET /ui/events":               c.streams,
		"GET /ui/steps":                http.HandlerFunc(c.steps),
		"GET /ui/history":              http.HandlerFunc(c.showHistory),
		"POST /ui/rpc":                 c.rpc(),
		"GET /ui/records/{hash}":       http.HandlerFunc(c.record),
		"POST /ui/decode":              http.HandlerFunc(c.decode),
	} {
		c.mux.Handle(pattern, handler)
	}
	if c.deps.Mirror != nil {
		c.mux.Handle("GET /ui/mirror/", mirrorOf(c.deps.Mirror))
	}
	return c
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if reason, status := c.refuse(r); status != 0 {
		http.Error(w, reason, status)
		return
	}
	if page.Serve(w, r) {
		return
	}
	c.mux.ServeHTTP(w, r)
}

// rpc forwards calls to the relay in this process.
func (c *Console) rpc() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Clone(r.Context())
		call.URL.Path = "/"
		call.Header.Del("Authorization") // it is the console's, and no business of the relay
		call.Header.Del("Origin")
		c.deps.Calls.ServeHTTP(w, call)
	})
}

func (c *Console) record(w http.ResponseWriter, r *http.Request) {
	if c.deps.Record == nil {
		http.Error(w, "no records are kept: set TX_STATUS_TRACING=true", http.StatusNotFound)
		return
	}
	text := r.PathValue("hash")
	var hash common.Hash
	if err := hash.UnmarshalText([]byte(text)); err != nil {
		http.Error(w, "not the hash of a transaction", http.StatusBadRequest)
		return
	}
	record, ok := c.deps.Record(r.Context(), hash)
	if !ok {
		http.Error(w, "nothing is known of this transaction", http.StatusNotFound)
		return
	}
	respond(w, record)
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}

// refuse says why a request does not get in, or 0. A browser on the same machine reaches
// loopback for any page that it shows, so requests of other origins are refused first.
func (c *Console) refuse(r *http.Request) (reason string, status int) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if c.deps.Door.Shows(r) != nil {
		return "ask from this machine, by a loopback address, and not through a proxy", http.StatusForbidden
	}
	switch {
	case reads && page.Has(r.URL.Path): // it holds no secret, and a link may lead to it
		return "", 0
	case access.Foreign(r):
		return "not for pages of other origins", http.StatusForbidden
	case reads && r.URL.Path == page.AboutPath: // it tells strangers nothing but what the page asks them for
		return "", 0
	case c.deps.Door.Admits(r) != nil:
		return "wrong or missing bearer token: it is the relay's ADMIN_TOKEN, or what it printed at its start", http.StatusUnauthorized
	default:
		return "", 0
	}
}

// about tells the page what this process is. Who has the token may do everything.
func (c *Console) about(w http.ResponseWriter, r *http.Request) {
	var who access.Caller
	if c.deps.Door.Admits(r) == nil {
		who.Role = access.RoleAdmin
	}
	page.About{
		Parts: []string{page.PartRelay}, Needs: "the relay’s token: its setting ADMIN_TOKEN, or what it printed at its start", Beside: c.deps.Beside, Version: c.deps.Version,
	}.To(w, who)
}

// State is what the page shows of the relay.
type State struct {
	Version   string          `json:"version"`
	ChainID   uint64          `json:"chainId"`
	Dev       bool            `json:"dev"`     // the network is one for development, and /ui/mirror/ is served
	Records   bool            `json:"records"` // lifecycle records are kept
	Ordering  bool            `json:"ordering"`
	Ordered   string          `json:"ordered"` // which senders, while Ordering is on: "10 % of senders"
	Window    int64           `json:"window"`  // ms
	Lanes     []lock.LaneInfo `json:"lanes"`   // maxLanes of them at most
	AllLanes  int             `json:"allLanes"`
	Upstreams []Upstream      `json:"upstreams"`
	Methods   []Method        `json:"methods"`
	Costs     Costs           `json:"costs"`
}

// Upstream is one thing that the relay depends on.
type Upstream struct {
	Kind  string     `json:"kind"` // mirror, nodes, redis, lock_redis, chain
	Name  string     `json:"name"`
	Up    bool       `json:"up"`
	Since *time.Time `json:"since,omitempty"` // of a failure, if known
	Cause string     `json:"cause,omitempty"`
	Note  string     `json:"note,omitempty"` // what else there is to say: the head of a mirror node
}

// Method is what became of a method's calls since the relay started. The page makes rates of
// the differences between two states.
type Method struct {
	Name    string    `json:"name"`
	Calls   uint64    `json:"calls"`
	Failed  uint64    `json:"failed"`  // answered with an error
	Millis  float64   `json:"millis"`  // of all calls together
	Buckets []uint64  `json:"buckets"` // calls that took as long as Bounds says, or less
	Bounds  []float64 `json:"bounds"`  // ms
}

// Costs are in tinybars; what is not known is nil.
type Costs struct {
	Balance   *float64 `json:"balance,omitempty"`   // of the operator
	Remaining *float64 `json:"remaining,omitempty"` // of the budget of this window
	Limit     int64    `json:"limit"`               // of the budget; 0: there is none
}

// maxLanes bounds the lanes in a state, for a relay may have 100,000 senders.
const maxLanes = 500

// busiest are the lanes in which most transactions wait, in order of address.
func busiest(lanes []lock.LaneInfo) []lock.LaneInfo {
	if len(lanes) <= maxLanes {
		return lanes
	}
	slices.SortStableFunc(lanes, func(a, b lock.LaneInfo) int { return b.Waiting - a.Waiting })
	lanes = lanes[:maxLanes]
	slices.SortFunc(lanes, func(a, b lock.LaneInfo) int { return a.Sender.Cmp(b.Sender) })
	return lanes
}

func (c *Console) state(ctx context.Context) State {
	d := c.deps
	upstreams := d.Upstreams(ctx)
	families, _ := d.Metrics.Gather() // what was gathered beside an error is good
	lanes := c.lanes()                // last: an upstream that is out takes seconds to say so, and lanes move meanwhile
	s := State{
		Version: d.Version, ChainID: d.ChainID, Dev: d.Mirror != nil, Records: d.Record != nil,
		Ordering: d.Locks.On(), Ordered: d.Locks.Ordered(), Window: d.Window.Milliseconds(), AllLanes: len(lanes), Lanes: busiest(lanes), Upstreams: upstreams, Methods: []Method{},
	}
	byName := map[string]*Method{}
	for _, family := range families {
		switch family.GetName() {
		case "rpc_relay_method_result", "rpc_relay_method_response", "rpc_websocket_message_duration_miliseconds":
			durations(byName, family)
		case "lockstep_rpc_errors_total":
			failures(byName, family)
		case "rpc_relay_operator_balance":
			s.Costs.Balance = amount(family)
		case "rpc_relay_hbar_rate_remaining":
			s.Costs.Remaining = amount(family)
		}
	}
	s.Costs.Limit = d.Budget
	delete(byName, "batch_request") // its calls are counted one by one
	for _, m := range byName {
		s.Methods = append(s.Methods, *m)
	}
	slices.SortFunc(s.Methods, func(a, b Method) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func method(byName map[string]*Method, m *dto.Metric) *Method {
	name := label(m, "method")
	if byName[name] == nil {
		byName[name] = &Method{Name: name, Buckets: []uint64{}, Bounds: []float64{}}
	}
	return byName[name]
}

// durations adds the histograms of a family, which all have the same bounds.
func durations(byName map[string]*Method, family *dto.MetricFamily) {
	for _, metric := range family.GetMetric() {
		m, h := method(byName, metric), metric.GetHistogram()
		m.Calls += h.GetSampleCount()
		m.Millis += h.GetSampleSum()
		for i, bucket := range h.GetBucket() {
			if i == len(m.Buckets) {
				m.Buckets, m.Bounds = append(m.Buckets, 0), append(m.Bounds, bucket.GetUpperBound())
			}
			m.Buckets[i] += bucket.GetCumulativeCount()
		}
	}
}

func failures(byName map[string]*Method, family *dto.MetricFamily) {
	for _, metric := range family.GetMetric() {
		method(byName, metric).Failed += uint64(metric.GetCounter().GetValue())
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// amount is the value of a gauge's only series.
func amount(family *dto.MetricFamily) *float64 {
	for _, m := range family.GetMetric() {
		v := m.GetGauge().GetValue()
		return &v
	}
	return nil
}

// MaxStreams is how many pages can listen at the same time.
const MaxStreams = 16

// streamEvery is how long a state is good for.
const streamEvery = time.Second

// streams tell every page that listens of each new state. The state is made for all of them
// at once, by the first that finds it old.
type streams struct {
	state func(context.Context) State

	open  *semaphore.Weighted
	mu    sync.Mutex
	text  []byte // the newest state as JSON
	since time.Time
}

func newStreams(state func(context.Context) State) *streams {
	return &streams{state: state, open: semaphore.NewWeighted(MaxStreams)}
}

// newest returns the state, which is not older than streamEvery.
func (s *streams) newest(ctx context.Context) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil || time.Since(s.since) >= streamEvery {
		text, err := json.Marshal(s.state(ctx))
		if err == nil {
			s.text, s.since = text, time.Now()
		}
	}
	return s.text
}

// ServeHTTP sends states until the client goes, or the server ends.
func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.open.TryAcquire(1) {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many pages listen already", http.StatusServiceUnavailable)
		return
	}
	defer s.open.Release(1)
	w.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	var told []byte
	// No error comes of it: the client has gone, or the server ends.
	_ = access.Stream(r.Context(), w, 0, func(ctx context.Context, after int64) (string, int64, error) {
		for {
			if text := s.newest(ctx); !bytes.Equal(text, told) {
				told = text
				return "data: " + string(text) + "\n\n", after + 1, nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return "", after, nil
			}
		}
	})
}

func (c *Console) lanes() []lock.LaneInfo {
	if lanes := c.deps.Locks.Lanes(); lanes != nil {
		return lanes
	}
	return []lock.LaneInfo{} // a list without anything, for JSON
}

func (c *Console) listLocks(w http.ResponseWriter, _ *http.Request) {
	respond(w, map[string]any{"lanes": c.lanes()})
}

func (c *Console) releaseLock(w http.ResponseWriter, r *http.Request) {
	sender := r.PathValue("sender")
	if !common.IsHexAddress(sender) {
		http.Error(w, "not an address", http.StatusBadRequest)
		return
	}
	released, err := c.deps.Locks.ForceRelease(r.Context(), common.HexToAddress(sender))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	c.deps.Log.Warn("lock released by hand", "sender", strings.ToLower(sender), "released", released)
	respond(w, map[string]any{"released": released})
}

// ordering is the run-time switch, and which senders are ordered while it is on.
type ordering struct {
	Enabled bool   `json:"enabled"`
	Ordered string `json:"ordered"`
}

func (c *Console) showOrdering(w http.ResponseWriter, _ *http.Request) {
	respond(w, ordering{Enabled: c.deps.Locks.On(), Ordered: c.deps.Locks.Ordered()})
}

func (c *Console) switchOrdering(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Enabled *bool `json:"enabled"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
	if err := decoder.Decode(&body); err != nil || body.Enabled == nil {
		http.Error(w, `want {"enabled":true} or {"enabled":false}`, http.StatusBadRequest)
		return
	}
	c.deps.Locks.SetEnabled(*body.Enabled)
	c.deps.Log.Warn("nonce ordering switched by hand", "enabled", *body.Enabled)
	respond(w, ordering{Enabled: *body.Enabled, Ordered: c.deps.Locks.Ordered()})
}

// reload reads the settings again for whoever may reach the console.
func (c *Console) reload(w http.ResponseWriter, r *http.Request) {
	if c.deps.Reload == nil {
		http.Error(w, "this relay has no settings to read again", http.StatusNotFound)
		return
	}
	done, err := c.deps.Reload(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	respond(w, done)
}
