package fetch

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
)

// Fetcher sends requests to one mirror node or several. It is safe for concurrent use. Apart from Run it owns no
// goroutine that outlives a request.
type Fetcher struct {
	config      Config
	log         *slog.Logger
	origin      func(context.Context) Origin
	newest      Read
	forget      func()
	http        *http.Client
	upstreams   []*upstream // at least one; in the order of preference
	floor       headFloor
	retryBudget retryBudget
	retryCodes  map[int]bool
	catchingUp  Flights
	waiting     atomic.Int32 // requests that wait for mirror nodes that throttle
	metrics     metrics
	answers     answerBytes

	wentBack     func(block uint64) // nil: nobody is told
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
		config: config, log: deps.Log, origin: deps.Origin, newest: deps.Newest, forget: deps.Forget, wentBack: deps.WentBack,
		http:      httpClient(&config, deps.Transport),
		upstreams: upstreams, retryBudget: retryBudget{share: config.RetryBudget}, answers: answerBytes{most: config.MaxBodies},
		retryCodes: codes, metrics: newMetrics(), catchingUp: Flights{Log: deps.Log},
	}, nil
}

// CloseIdleConnections closes the connections that nobody uses.
func (f *Fetcher) CloseIdleConnections() { f.http.CloseIdleConnections() }
