package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"lockstep/internal/outage"
)

const (
	// scope names the code that spans come from.
	scope = "lockstep"

	queueSize     = 2048 // spans that wait to be sent
	batchSize     = 512  // spans in one request to the collector
	maxAttributes = 16   // of a span
	maxText       = 256  // bytes of an attribute, or of an error
	sendTimeout   = 10 * time.Second
	sendInterval  = 2 * time.Second // a batch that is not full waits no longer
)

// Tracer begins the spans of requests, and sends what is recorded to the collector.
type Tracer struct {
	tracer   trace.Tracer // nil: off
	provider *sdk.TracerProvider
	sender   *sender
}

// Disabled returns a Tracer that is off.
func Disabled() *Tracer { return &Tracer{sender: &sender{}} }

// New returns a Tracer. It connects to nothing: a collector that does not answer is told to the
// log, and costs only the traces. Close ends it.
func New(cfg Config, version string, log *slog.Logger) (*Tracer, error) {
	if !cfg.Enabled() {
		return Disabled(), nil
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	target, _ := cfg.url() // Validate has read these
	sampler, _ := cfg.sampler()
	headers, _ := pairs(cfg.Headers.Reveal())
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(target), otlptracehttp.WithHeaders(headers), otlptracehttp.WithTimeout(sendTimeout)) //nolint:forbidigo // it connects to nothing yet
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	send := &sender{SpanExporter: exporter, outage: outage.Log{
		Logger: log, Upstream: "collector", Name: "traces", Level: slog.LevelWarn, Consequence: "traces are lost; nothing else",
	}}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(send, sdk.WithMaxQueueSize(queueSize), sdk.WithMaxExportBatchSize(batchSize), sdk.WithBatchTimeout(sendInterval)),
		sdk.WithResource(cfg.resource(version)),
		sdk.WithSampler(sampler),
		sdk.WithRawSpanLimits(sdk.SpanLimits{AttributeValueLengthLimit: maxText, AttributeCountLimit: maxAttributes, EventCountLimit: 1, LinkCountLimit: 1, AttributePerEventCountLimit: 1, AttributePerLinkCountLimit: 1}),
	)
	return &Tracer{tracer: provider.Tracer(scope), provider: provider, sender: send}, nil
}

// resource says what process the spans are of.
func (c Config) resource(version string) *resource.Resource {
	said, _ := pairs(c.Attributes) // Validate has read them
	attributes := make([]attribute.KeyValue, 0, len(said)+2)
	for name, value := range said {
		attributes = append(attributes, attribute.String(name, value))
	}
	return resource.NewSchemaless(append(attributes, attribute.String("service.name", c.Service), attribute.String("service.version", version))...)
}

// Enabled tells whether the Tracer is on.
func (t *Tracer) Enabled() bool { return t.tracer != nil }

// Begin begins the span of a request. parent is the traceparent header of a caller that is
// believed, state its tracestate; both may be empty, and a parent that cannot be read counts as
// none.
func (t *Tracer) Begin(ctx context.Context, name, parent, state string) (context.Context, Span) {
	if t.tracer == nil {
		return ctx, Span{}
	}
	if parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": state})
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, recorded(span)
}

// Close sends what waits to be sent, for as long as ctx lasts, and stops.
func (t *Tracer) Close(ctx context.Context) error {
	if t.provider == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: the last traces were not sent: %w", err)
	}
	return nil
}

// Collectors returns the metrics, registered nowhere.
func (t *Tracer) Collectors() []prometheus.Collector {
	count := func(result string, n *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "lockstep_trace_spans_total", Help: "Spans of traces, by result: sent to the collector, or lost because it did not take them.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(n.Load()) })
	}
	return []prometheus.Collector{count("sent", &t.sender.sent), count("lost", &t.sender.lost)}
}

// sender is the exporter, which also tells the log and the metrics what became of the spans.
type sender struct {
	sdk.SpanExporter
	outage     outage.Log
	sent, lost atomic.Int64
}

// ExportSpans implements sdk.SpanExporter. What failed is told here, so that the library does not
// write to the log by itself.
func (s *sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	switch err := s.SpanExporter.ExportSpans(ctx, spans); {
	case err == nil:
		s.sent.Add(int64(len(spans)))
		s.outage.Up(ctx)
	case errors.Is(ctx.Err(), context.Canceled): // the process ends
		s.lost.Add(int64(len(spans)))
	default:
		s.lost.Add(int64(len(spans)))
		s.outage.Down(ctx, err)
	}
	return nil
}
