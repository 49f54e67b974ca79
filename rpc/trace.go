package rpc

import (
	"context"
	"net/http"
	"net/netip"

	"lockstep/internal/relay/telemetry"
)

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
