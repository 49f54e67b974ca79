package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/metric"
	"lockstep/internal/relay/telemetry"
)

// Fetcher sends requests to one mirror node or several. It is safe for concurrent use. Apart from Run it owns no
// goroutine that outlives a request.
type Fetcher struct {
	config      Config
	deps        Deps
	http        *http.Client
	upstreams   []*upstream // at least one; in the order of preference
	floor       headFloor
	retryBudget retryBudget
	retryCodes  map[int]bool
	catchingUp  Flights
	waiting     atomic.Int32 // requests that wait for mirror nodes that throttle
	metrics     metrics
	answers     answerBytes

	generationMu sync.Mutex
	generation   uint64 // guarded by generationMu; 0: the mirror node names none
}

// Deps are what a Fetcher needs besides its settings.
type Deps struct {
	Log *slog.Logger
	// Origin tells on whose behalf a request is made; nil for nobody's.
	Origin func(context.Context) Origin
	// Newest reads a list of the newest block alone.
	Newest Read
	// Forget is called when the known chain does not exist any more.
	Forget func()
	// WentBack is called after Forget when a development network has gone back to an earlier state. It must not
	// make requests. Nil: nothing is called.
	WentBack func(block uint64)
	// Transport replaces the pooled transport that New makes; for tests.
	Transport http.RoundTripper
}

// Origin is what the mirror node is told of the request behind a read.
type Origin struct {
	RequestID string // sent as requestId
	ClientIP  string // sent as Forwarded
}

// Read decodes the body of an answer, which it must not keep: newest is the highest block that
// the answer told of, 0 for none. It is called once for each attempt, perhaps at the same time.
type Read func(body []byte) (value any, newest uint64, err error)

// New makes a fetcher. It opens no connection.
func New(config Config, deps Deps) (*Fetcher, error) {
	upstreams, err := config.upstreams()
	if err != nil {
		return nil, err
	}
	logOutages(upstreams, deps.Log)
	codes, err := config.retryCodes()
	if err != nil {
		return nil, fmt.Errorf("retry codes: %w", err)
	}
	return &Fetcher{
		config: config, deps: deps, http: httpClient(&config, deps.Transport),
		upstreams: upstreams, retryBudget: retryBudget{share: config.RetryBudget}, answers: answerBytes{most: config.MaxBodies},
		retryCodes: codes, metrics: newMetrics(), catchingUp: Flights{Log: deps.Log},
	}, nil
}

// CloseIdleConnections closes the connections that nobody uses.
func (f *Fetcher) CloseIdleConnections() { f.http.CloseIdleConnections() }

type metrics struct {
	metric.Set
	response *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	repeated *prometheus.CounterVec
	waited   *prometheus.CounterVec
}

func newMetrics() (m metrics) {
	m.response = m.Histograms("rpc_relay_mirror_response", "Time of mirror node requests in milliseconds, by path and HTTP status.",
		[]float64{5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 20000, 30000}, "method", "statusCode")
	m.errors = m.Counters("rpc_relay_mirror_node_http_error_code_count",
		"Mirror node requests that failed, by path and status; the answer that something does not exist is no failure.", "method", "statusCode")
	m.repeated = m.Counters("rpc_relay_mirror_repeated_requests_total",
		"Mirror node requests that were made again: after a failure of the same mirror node (retry) or of another one (failover), or because no answer came in time (hedge); and those that the budget forbade (denied).", "kind")
	m.waited = m.Counters("rpc_relay_mirror_waiting_requests_total",
		"Mirror node requests that waited because MIRROR_NODE_HTTP_MAX_SOCKETS were under way, by class: read, or send for the submission of transactions and probes.", "class")
	return m
}

func (m *metrics) observe(ctx context.Context, label string, status int, err error, took time.Duration) {
	text := statusLabel(status, err)
	telemetry.Observe(ctx, m.response.WithLabelValues(label, text), float64(took.Microseconds())/1000)
	if err != nil && err != ErrNotFound { //nolint:errorlint // made in this package, never wrapped
		m.errors.WithLabelValues(label, text).Inc()
	}
}

// Collectors returns the metrics, for registration.
func (f *Fetcher) Collectors() []prometheus.Collector {
	return append(f.metrics.Collectors(), upstreamMetrics{f})
}

// upstreamMetrics shows the mirror nodes as they are when somebody looks.
type upstreamMetrics struct{ f *Fetcher }

var (
	stateDesc = prometheus.NewDesc("rpc_relay_mirror_upstream_state",
		"Whether a mirror node's interface (rest, web3) is asked: 0 yes, 1 it is being tried again, 2 not for now.", []string{"upstream", "service"}, nil)
	headDesc = prometheus.NewDesc("rpc_relay_mirror_upstream_head",
		"The highest block that a mirror node is known to have.", []string{"upstream"}, nil)
	lagDesc = prometheus.NewDesc("rpc_relay_mirror_upstream_lag_blocks",
		"How many blocks a mirror node is behind the mirror node with the newest block.", []string{"upstream"}, nil)
)

// Describe implements prometheus.Collector.
func (upstreamMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- stateDesc
	out <- headDesc
	out <- lagDesc
}

// Collect implements prometheus.Collector.
func (m upstreamMetrics) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	var best uint64
	for _, u := range m.f.upstreams {
		best = max(best, u.head.Load())
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, u := range m.f.upstreams {
		head := u.head.Load()
		gauge(stateDesc, float64(u.rest.state(now)), u.name, REST.String())
		gauge(stateDesc, float64(u.web3.state(now)), u.name, Web3.String())
		gauge(headDesc, float64(head), u.name)
		gauge(lagDesc, float64(max(best, head)-head), u.name)
	}
}

// Flights makes one read of identical reads that are under way at the same time.
type Flights struct {
	Log   *slog.Logger
	mu    sync.Mutex
	calls map[string]*flight // guarded by mu
	epoch uint64             // guarded by mu; part of a flight's identity
}

// ErrPanic says that a decoder panicked.
var ErrPanic = errors.New("internal error while reading from the mirror node")

type flight struct {
	epoch   uint64
	done    chan struct{} // closed when what follows is set
	value   any
	err     error
	givenUp bool // the caller that read gave up, or may not: others have to read themselves
}

// Do returns what read returns, for all callers of the same key at once. The first
// caller reads, in its own goroutine and under its own context; the others wait for it.
// If it gives up before there is an answer, or has no memory left for one, one of them reads in its place. Each caller
// stops waiting when its own context ends.
//
// Callers of another class (ForSend) have a read of their own.
//
// The value is shared: nobody may change it.
func (f *Flights) Do(ctx context.Context, key string, read func(context.Context) (any, error)) (any, error) {
	if c := classOf(ctx); c != classRead {
		key = c.String() + " " + key // a read may be waiting for a slot
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		call, first := f.join(key)
		if first {
			f.lead(ctx, key, call, read)
			return call.value, call.err
		}
		select {
		case <-call.done:
			if !call.givenUp {
				return call.value, call.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join returns the read under way for a key, or a new one, which is the caller's.
func (f *Flights) join(key string) (call *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if call = f.calls[key]; call != nil && call.epoch == f.epoch {
		return call, false
	}
	call = &flight{epoch: f.epoch, done: make(chan struct{})}
	if f.calls == nil {
		f.calls = make(map[string]*flight)
	}
	f.calls[key] = call
	return call, true
}

// lead reads for all callers that wait. A panic in a decoder fails the requests that wait for it, and nothing
// else.
func (f *Flights) lead(ctx context.Context, key string, call *flight, read func(context.Context) (any, error)) {
	defer func() {
		if p := recover(); p != nil {
			f.Log.Error("panic while reading from the mirror node", "panic", p, "stack", string(debug.Stack()))
			call.err = ErrPanic
		}
		f.mu.Lock()
		f.forget(key, call) // later callers must not get a read that is given up
		f.mu.Unlock()
		close(call.done)
	}()
	call.value, call.err = read(ctx)
	call.givenUp = call.err != nil && (ctx.Err() != nil || ofRequest(call.err))
}

// forget is called with mu held.
func (f *Flights) forget(key string, call *flight) {
	if f.calls[key] == call {
		delete(f.calls, key)
	}
}

// Invalidate makes later callers read again instead of joining reads under way.
func (f *Flights) Invalidate() {
	f.mu.Lock()
	f.epoch++
	f.mu.Unlock()
}
