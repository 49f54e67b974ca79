package telemetry

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Span is one piece of work. The zero Span records nothing. Its methods may be called from any
// goroutine.
type Span struct {
	span trace.Span // nil: not recorded
}

// recorded returns a Span for a span of OpenTelemetry.
func recorded(span trace.Span) Span {
	if !span.IsRecording() {
		return Span{}
	}
	return Span{span}
}

// Start begins a span below the one of ctx. End must follow. Without a span in ctx that is
// recorded, it returns ctx and the zero Span.
func Start(ctx context.Context, name string) (context.Context, Span) {
	return StartAt(ctx, name, time.Time{})
}

// StartAt is Start for work that began before; the zero time stands for now.
func StartAt(ctx context.Context, name string, began time.Time) (context.Context, Span) {
	return start(ctx, name, began, trace.SpanKindInternal)
}

// StartCall is Start for a call of another service.
func StartCall(ctx context.Context, name string) (context.Context, Span) {
	return start(ctx, name, time.Time{}, trace.SpanKindClient)
}

func start(ctx context.Context, name string, began time.Time, kind trace.SpanKind) (context.Context, Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(kind)}
	if !began.IsZero() {
		options = append(options, trace.WithTimestamp(began))
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
	return ctx, recorded(span)
}

// Recorded tells whether the span is recorded. It spares the work of making texts that nobody
// reads.
func (s Span) Recorded() bool { return s.span != nil }

// Rename gives the span the name that was not known at its beginning.
func (s Span) Rename(name string) {
	if s.span != nil {
		s.span.SetName(name)
	}
}

// Text adds an attribute. The names are those of OpenTelemetry's conventions where there is one.
func (s Span) Text(name, value string) {
	if s.span != nil {
		s.span.SetAttributes(attribute.String(name, strings.ToValidUTF8(value, "?")))
	}
}

// Number adds an attribute.
func (s Span) Number(name string, value int64) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int64(name, value))
	}
}

// End ends the span. An error is what the work failed with; nil says nothing of success.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		text := err.Error()
		s.Fail(text[:min(len(text), maxText)])
	}
	s.span.End()
}

// Fail notes that the work failed. The span goes on.
func (s Span) Fail(why string) {
	if s.span != nil {
		s.span.SetStatus(codes.Error, strings.ToValidUTF8(why, "?"))
	}
}

// Inject adds the header by which the next service takes part in the trace of ctx, if there is
// one.
func Inject(ctx context.Context, h http.Header) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

// TraceID returns the id of the trace of ctx, as 32 hexadecimal digits, if it is recorded; else "".
func TraceID(ctx context.Context) string {
	if at := trace.SpanContextFromContext(ctx); at.IsSampled() {
		return at.TraceID().String()
	}
	return ""
}

// Observe adds a value to a histogram. If the trace of ctx is recorded, its id goes with it as an
// exemplar.
func Observe(ctx context.Context, o prometheus.Observer, value float64) {
	ObserveIn(TraceID(ctx), o, value)
}

// ObserveIn is Observe for a trace that is known by its id; "" stands for none.
func ObserveIn(traceID string, o prometheus.Observer, value float64) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && traceID != "" {
		e.ObserveWithExemplar(value, prometheus.Labels{"trace_id": traceID})
		return
	}
	o.Observe(value)
}
