package fetch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	response *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	repeated *prometheus.CounterVec
	waited   *prometheus.CounterVec
}

func newMetrics() metrics {
	return metrics{
		response: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rpc_relay_mirror_response",
			Help:    "Time of mirror node requests in milliseconds, by path and HTTP status.",
			Buckets: []float64{5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 20000, 30000},
		}, []string{"method", "statusCode"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_mirror_node_http_error_code_count",
			Help: "Mirror node requests that failed, by path and status; the answer that something does not exist is no failure.",
		}, []string{"method", "statusCode"}),
		repeated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_mirror_repeated_requests_total",
			Help: "Mirror node requests that were made again: after a failure of the same mirror node (retry) or of another one (failover), or because no answer came in time (hedge); and those that the budget forbade (denied).",
		}, []string{"kind"}),
		waited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_mirror_waiting_requests_total",
			Help: "Mirror node requests that waited because MIRROR_NODE_HTTP_MAX_SOCKETS were under way, by class: read, or send for the submission of transactions and probes.",
		}, []string{"class"}),
	}
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
	return []prometheus.Collector{f.metrics.response, f.metrics.errors, f.metrics.repeated, f.metrics.waited, upstreamMetrics{f}}
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
