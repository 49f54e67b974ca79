package rpc

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the numbers of the JSON-RPC servers, not registered anywhere. Labels are bounded: methods that do
// not exist count as "unknown". No label has a client's address: who may read metrics is not to learn who the clients are.
type Metrics struct {
	methodResponse *prometheus.HistogramVec // ms, by method and HTTP status
	methodResult   *prometheus.HistogramVec // ms, by method and code, for batch items
	rateLimited    *prometheus.CounterVec
	panics         *prometheus.CounterVec
	abandoned      *prometheus.CounterVec
	inFlight       *prometheus.GaugeVec
	errors         *prometheus.CounterVec

	connections        prometheus.Gauge
	refusedConnections *prometheus.CounterVec

	ws wsMetrics
}

type wsMetrics struct {
	methods         *prometheus.CounterVec
	messages        prometheus.Counter
	opened          prometheus.Counter
	closed          prometheus.Counter
	duration        prometheus.Histogram
	messageDuration *prometheus.HistogramVec
	active          prometheus.Gauge
	limited         prometheus.Counter
	limitedByTTL    prometheus.Counter
	limitedByIP     prometheus.Counter
	slow            prometheus.Counter
	busiest         prometheus.Collector
	most            *atomic.Pointer[func() float64] // what busiest tells
}

var millisecondBuckets = [...]float64{5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 20000, 30000, 40000, 50000, 60000}

// NewMetrics makes the metrics, all zero.
func NewMetrics() *Metrics {
	buckets := millisecondBuckets[:]
	return &Metrics{
		methodResponse: histogram("rpc_relay_method_response", "Milliseconds to answer a HTTP request.", buckets, "method", "statusCode"),
		methodResult:   histogram("rpc_relay_method_result", "Milliseconds to answer one call of a batch.", buckets, "method", "statusCode", "isPartOfBatch"),
		rateLimited:    counters("rpc_relay_ip_rate_limit", "Calls refused because one address called the method too often.", "methodName", "storeType"),
		panics:         counters("rpc_relay_method_panics_total", "Calls whose handler panicked.", "method"),
		errors:         counters("lockstep_rpc_errors_total", "Calls answered with an error, by method, JSON-RPC code and transport (http, ws).", "method", "code", "transport"),
		abandoned:      counters("rpc_relay_method_abandoned_total", "Calls answered with a time-out while their handler still ran.", "method"),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rpc_relay_requests_in_flight", Help: "Requests and WebSocket messages in progress.",
		}, []string{"transport"}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rpc_relay_connections", Help: "Open connections of the ports of HTTP and WebSocket.",
		}),
		refusedConnections: counters("rpc_relay_connections_refused_total", "Connections that were refused, by the limit that was reached: in all (total), or of one address.", "limit"),
		ws:                 newWSMetrics(buckets),
	}
}

func newWSMetrics(buckets []float64) wsMetrics {
	most := new(atomic.Pointer[func() float64])
	return wsMetrics{
		most:     most,
		methods:  counters("rpc_websocket_method_counter", "Calls over WebSocket.", "method"),
		messages: counter("rpc_websocket_messages_received_total", "WebSocket messages received."),
		opened:   counter("rpc_websocket_connections_established_total", "WebSocket connections opened."),
		closed:   counter("rpc_websocket_connections_closed_total", "WebSocket connections closed."),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rpc_websocket_connection_duration_seconds", Help: "Seconds a WebSocket connection lasted.",
			Buckets: []float64{1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 18000, 43200, 86400},
		}),
		messageDuration: histogram("rpc_websocket_message_duration_miliseconds", "Milliseconds to answer a WebSocket message.", buckets, "method"),
		active: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rpc_websocket_active_connections", Help: "Open WebSocket connections.",
		}),
		limited:      counter("rpc_websocket_total_connection_limit_enforced", "WebSocket connections refused because there were too many."),
		limitedByTTL: counter("rpc_websocket_total_connection_limit_by_ttl_enforced", "WebSocket connections closed because nothing went over them."),
		limitedByIP:  counter("rpc_websocket_total_connection_limit_by_ip_enforced", "WebSocket connections refused because their address had too many."),
		busiest: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "rpc_websocket_active_connections_per_ip", Help: "Open WebSocket connections of the client address (of IPv6: of the /64) that has the maximum.",
		}, func() float64 {
			if count := most.Load(); count != nil {
				return (*count)()
			}
			return 0
		}),
		slow: counter("rpc_websocket_slow_clients_total", "WebSocket connections closed because the client read too slowly."),
	}
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.methodResponse, m.methodResult, m.rateLimited, m.panics, m.abandoned, m.inFlight, m.errors,
		m.connections, m.refusedConnections,
		m.ws.methods, m.ws.messages, m.ws.opened, m.ws.closed, m.ws.duration,
		m.ws.messageDuration, m.ws.active, m.ws.limited, m.ws.limitedByTTL,
		m.ws.limitedByIP, m.ws.slow, m.ws.busiest,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// errorLabel is the code label of an error. Unknown codes share one.
func errorLabel(code int) string {
	if code < -32768 || code > 9999 || code > -32000 && code < 0 {
		return "other"
	}
	return strconv.Itoa(code)
}

// codeLabel is the statusCode label of a call's answer: 200 for a result.
func codeLabel(code int) string {
	if code == 0 {
		return "200"
	}
	return strconv.Itoa(code)
}
