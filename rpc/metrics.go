package rpc

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/metric"
	"lockstep/internal/relay/telemetry"
)

// Metrics are the numbers of the JSON-RPC servers, not registered anywhere. Labels are bounded: methods that do
// not exist count as "unknown". No label has a client's address: who may read metrics is not to learn who the clients are.
type Metrics struct {
	set            metric.Set
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
	m, buckets := &Metrics{}, millisecondBuckets[:]
	s := &m.set
	m.methodResponse = s.Histograms("rpc_relay_method_response", "Milliseconds to answer a HTTP request.", buckets, "method", "statusCode")
	m.methodResult = s.Histograms("rpc_relay_method_result", "Milliseconds to answer one call of a batch.", buckets, "method", "statusCode", "isPartOfBatch")
	m.rateLimited = s.Counters("rpc_relay_ip_rate_limit", "Calls refused because one address called the method too often.", "methodName", "storeType")
	m.panics = s.Counters("rpc_relay_method_panics_total", "Calls whose handler panicked.", "method")
	m.errors = s.Counters("lockstep_rpc_errors_total", "Calls answered with an error, by method, JSON-RPC code and transport (http, ws).", "method", "code", "transport")
	m.abandoned = s.Counters("rpc_relay_method_abandoned_total", "Calls answered with a time-out while their handler still ran.", "method")
	m.inFlight = s.Gauges("rpc_relay_requests_in_flight", "Requests and WebSocket messages in progress.", "transport")
	m.connections = s.Gauge("rpc_relay_connections", "Open connections of the ports of HTTP and WebSocket.")
	m.refusedConnections = s.Counters("rpc_relay_connections_refused_total", "Connections that were refused, by the limit that was reached: in all (total), or of one address.", "limit")
	m.ws = newWSMetrics(s, buckets)
	return m
}

func newWSMetrics(s *metric.Set, buckets []float64) wsMetrics {
	most := new(atomic.Pointer[func() float64])
	return wsMetrics{
		most:     most,
		methods:  s.Counters("rpc_websocket_method_counter", "Calls over WebSocket.", "method"),
		messages: s.Counter("rpc_websocket_messages_received_total", "WebSocket messages received."),
		opened:   s.Counter("rpc_websocket_connections_established_total", "WebSocket connections opened."),
		closed:   s.Counter("rpc_websocket_connections_closed_total", "WebSocket connections closed."),
		duration: s.Histogram("rpc_websocket_connection_duration_seconds", "Seconds a WebSocket connection lasted.",
			[]float64{1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 18000, 43200, 86400}),
		messageDuration: s.Histograms("rpc_websocket_message_duration_miliseconds", "Milliseconds to answer a WebSocket message.", buckets, "method"),
		active:          s.Gauge("rpc_websocket_active_connections", "Open WebSocket connections."),
		limited:         s.Counter("rpc_websocket_total_connection_limit_enforced", "WebSocket connections refused because there were too many."),
		limitedByTTL:    s.Counter("rpc_websocket_total_connection_limit_by_ttl_enforced", "WebSocket connections closed because nothing went over them."),
		limitedByIP:     s.Counter("rpc_websocket_total_connection_limit_by_ip_enforced", "WebSocket connections refused because their address had too many."),
		slow:            s.Counter("rpc_websocket_slow_clients_total", "WebSocket connections closed because the client read too slowly."),
		busiest: s.Asked("rpc_websocket_active_connections_per_ip", "Open WebSocket connections of the client address (of IPv6: of the /64) that has the maximum.", func() float64 {
			if count := most.Load(); count != nil {
				return (*count)()
			}
			return 0
		}),
	}
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector { return m.set.Collectors() }

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

// observeHTTP counts a finished HTTP request and writes its log line.
func (ex *exchange) observeHTTP(ctx context.Context, status int) {
	m := ex.d.metrics
	elapsed := time.Since(ex.started)
	label := ex.label()
	telemetry.Observe(ctx, m.methodResponse.WithLabelValues(label, strconv.Itoa(status)), milliseconds(elapsed))
	ex.observeItems(ctx)
	ex.describe(label)
	ex.logLine(ctx, label, elapsed)
}

// label names what the request asked for: a method, a batch, or unknown.
func (ex *exchange) label() string {
	switch {
	case ex.batch:
		return "batch_request"
	case ex.failed || len(ex.calls) != 1 || !ex.calls[0].hasMethod:
		return "undefined"
	}
	return ex.calls[0].name()
}

func (ex *exchange) observeItems(ctx context.Context) {
	if !ex.batch {
		return
	}
	m := ex.d.metrics
	for i := range ex.calls {
		c := &ex.calls[i]
		telemetry.Observe(ctx, m.methodResult.WithLabelValues(c.name(), codeLabel(c.failure.code), "true"), milliseconds(c.elapsed))
	}
}

// logLine logs the request's label and its end, but none of its content.
func (ex *exchange) logLine(ctx context.Context, label string, elapsed time.Duration) {
	log, level := ex.d.log, slog.LevelDebug
	if ex.d.config.LogRequests {
		level = slog.LevelInfo
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", ex.request.ID),
		slog.String("transport", ex.request.Transport.String()),
		slog.String("method", label),
		slog.Duration("elapsed", elapsed),
	}
	if client := ex.d.config.ClientForLog(ex.request.IP); client != "" {
		attrs = append(attrs, slog.String("client", client))
	}
	if ex.batch {
		attrs = append(attrs, slog.Int("calls", len(ex.calls)))
	} else if f, failed := ex.outcome(); failed {
		attrs = append(attrs, slog.Int("code", f.code))
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}

// outcome is the error of a single call or of the body as a whole.
func (ex *exchange) outcome() (fault, bool) {
	switch {
	case ex.failed:
		return ex.failure, true
	case !ex.batch && len(ex.calls) == 1 && ex.calls[0].failed:
		return ex.calls[0].failure, true
	}
	return fault{}, false
}

// observeWS counts an answered WebSocket message and writes its log line.
func (ex *exchange) observeWS(ctx context.Context) {
	m := ex.d.metrics
	elapsed := time.Since(ex.started)
	label := ex.label()
	telemetry.Observe(ctx, m.ws.messageDuration.WithLabelValues(label), milliseconds(elapsed))
	ex.observeItems(ctx)
	ex.describe(label)
	ex.logLine(ctx, label, elapsed)
}

// beginSpan begins the span of a request, which goes on the trace of a trusted proxy if that names one. A stranger's
// traceparent is not taken, since it would decide what is recorded. h is nil for a WebSocket message, which has no
// header of its own.
func (c *requestContext) beginSpan(d *Dispatcher, h http.Header, remote string) {
	parent, state := "", ""
	if client, err := netip.ParseAddrPort(remote); h != nil && err == nil && d.proxies.Have(client.Addr()) {
		parent, _ = first(h, "Traceparent")
		state, _ = first(h, "Tracestate")
	}
	c.Context, c.request.span = d.tracer.Begin(c.Context, c.request.Transport.String(), parent, state)
	if !c.request.span.Recorded() {
		return
	}
	c.request.span.Text("rpc.system", "jsonrpc")
	c.request.span.Text("lockstep.transport", c.request.Transport.String())
	c.request.span.Text("lockstep.request_id", c.request.ID)
	if client := d.config.ClientForLog(c.request.IP); client != "" {
		c.request.span.Text("client.address", client)
	}
}

// describe names the span of a request after what it asked for, and says how it ended.
func (ex *exchange) describe(label string) {
	span := ex.request.span
	if !span.Recorded() {
		return
	}
	span.Rename(label)
	if ex.batch {
		span.Number("lockstep.calls", int64(len(ex.calls)))
	} else {
		span.Text("rpc.method", label)
	}
	if f, failed := ex.outcome(); failed {
		span.Number("rpc.jsonrpc.error_code", int64(f.code))
		span.Fail(f.message)
	}
}

// itemSpan begins the span of one call of a batch. A call that is alone has that of its request.
func (ex *exchange) itemSpan(ctx context.Context, c *call) (context.Context, itemSpan) {
	if !ex.batch {
		return ctx, itemSpan{}
	}
	ctx, span := telemetry.Start(ctx, c.name())
	span.Text("rpc.method", c.name())
	return ctx, itemSpan{span}
}

type itemSpan struct{ telemetry.Span }

func (s itemSpan) endItem(c *call) {
	if c.failed {
		s.Number("rpc.jsonrpc.error_code", int64(c.failure.code))
		s.Fail(c.failure.message)
	}
	s.End(nil)
}
