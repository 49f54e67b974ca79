package rpc

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"lockstep/internal/relay/telemetry"
)

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
