package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"lockstep/internal/access"
	"lockstep/watch"
)

const streamPage = 200

type streamIn struct {
	Last    string `header:"Last-Event-ID" maxLength:"20" doc:"The id of the last message that was received; the stream goes on behind it."`
	Cursor  string `query:"cursor" maxLength:"20" doc:"Like Last-Event-ID, for clients that cannot set it; 0 is the oldest message that is kept."`
	Watch   string `query:"watch" maxLength:"64"`
	Address string `query:"address" maxLength:"42"`
}

// stream serves messages as they become visible.
func (s *Server) stream() {
	op := operation(access.RoleRead, http.MethodGet, "/v1/events/stream", "stream", "What is handed on, as server-sent events")
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Events: id is the cursor, event the watch, data an event as JSON.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *streamIn) (*huma.StreamResponse, error) {
		text := in.Last
		if text == "" {
			text = in.Cursor
		}
		after, err := place(text)
		if err == nil && text == "" {
			after, err = s.Watchers.Newest(ctx)
		}
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		giveBack := s.streams.Take(access.Of(ctx).Name)
		if giveBack == nil {
			return nil, s.problem(ctx, errBusy)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			defer giveBack()
			_, w := humago.Unwrap(ctx)
			open, cancel := s.stopping(ctx.Context())
			defer cancel()
			err := access.Stream(open, w, after, func(ctx context.Context, after int64) (string, int64, error) {
				list, next, err := s.Watchers.Stream(ctx, after, in.Watch, in.Address, streamPage)
				var text strings.Builder
				for _, m := range list {
					text.WriteString(format(m))
				}
				return text.String(), next, err
			})
			if err != nil {
				s.Log.ErrorContext(ctx.Context(), "a stream of events ended with an error", "error", err)
			}
		}}, nil
	})
}

// stopping is a context that ends with the process, too.
func (s *Server) stopping(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func format(m watch.Told) string {
	data, _ := json.Marshal(m.Event) // of plain fields and valid JSON
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", m.Cursor, m.Watch, data)
}
