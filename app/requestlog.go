package app

import (
	"context"
	"log/slog"

	"lockstep/internal/relay/telemetry"
	"lockstep/rpc"
)

// requestHandler adds the id of the request, and of its trace if that is recorded, to each line that is written with the context of one.
// So the lock, the consensus client and the mirror client name it without knowing rpc.
type requestHandler struct{ slog.Handler }

const requestIDKey = "request_id"

func (h requestHandler) Handle(ctx context.Context, line slog.Record) error {
	if request, ok := rpc.FromContext(ctx); ok && request.ID != "" && !named(line) {
		line = line.Clone()
		line.AddAttrs(slog.String(requestIDKey, request.ID))
	}
	if id := telemetry.TraceID(ctx); id != "" {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, line)
}

// named tells whether the line has the id already.
func named(line slog.Record) (found bool) {
	line.Attrs(func(a slog.Attr) bool {
		found = a.Key == requestIDKey
		return !found
	})
	return found
}

func (h requestHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestHandler{h.Handler.WithAttrs(attrs)}
}

func (h requestHandler) WithGroup(name string) slog.Handler {
	return requestHandler{h.Handler.WithGroup(name)}
}
