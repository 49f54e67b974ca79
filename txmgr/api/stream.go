package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"lockstep/internal/access"
	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

const streamPage = 200

type streamInput struct {
	Last   string `header:"Last-Event-ID" maxLength:"20" doc:"The id of the last event that was received; the stream goes on behind it."`
	Cursor string `query:"cursor" maxLength:"20" doc:"Like Last-Event-ID, for clients that cannot set it; 0 is the oldest event that is kept."`
}

// stream serves the events of the ledger as they become visible.
func (s *Server) stream() {
	op := operation(access.RoleRead, http.MethodGet, "/v1/transactions/stream", "stream", "Everything that happens, as server-sent events", 429)
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Events: id is the cursor, event the kind, data JSON with the members subject, at and body.",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *streamInput) (*huma.StreamResponse, error) {
		after, err := s.startOf(ctx, in)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		giveBack := s.streams.Take(caller(ctx).Tenant)
		if giveBack == nil {
			return nil, s.problem(ctx, errBusy)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			defer giveBack()
			_, w := humago.Unwrap(ctx)
			who := caller(ctx.Context())
			err := access.Stream(s.stopping(ctx.Context()), w, after, func(ctx context.Context, after int64) (text string, last int64, err error) {
				events, err := s.Manager.Stream(ctx, after, streamPage)
				last = after
				for _, e := range events {
					last = e.Cursor
					if sees(who, e) {
						text += formatEvent(e)
					}
				}
				return text, last, err
			})
			if err != nil && !ledger.IsDown(err) {
				s.log.ErrorContext(ctx.Context(), "the stream of events ended with an error", "err", err)
			}
		}}, nil
	})
}

// startOf is the cursor to go on behind: the caller's, or the newest event there is.
func (s *Server) startOf(ctx context.Context, in *streamInput) (int64, error) {
	text := in.Last
	if text == "" {
		text = in.Cursor
	}
	if text == "" {
		return s.Newest(ctx)
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, &txmgr.InvalidError{Field: "Last-Event-ID", Problem: "want the id of an event"}
	}
	return after, nil
}

func formatEvent(e ledger.Event) string {
	body := json.RawMessage(e.Body)
	if !json.Valid(body) {
		body = []byte("null")
	}
	data, _ := json.Marshal(struct { // of plain fields and valid JSON
		Subject string          `json:"subject"`
		At      Moment          `json:"at"`
		Body    json.RawMessage `json:"body"`
	}{e.Subject, Moment(e.At), body})
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", e.Cursor, e.Kind, data)
}

// sees reports whether an event is the caller's: one of its tenant.
func sees(who access.Caller, e ledger.Event) bool {
	var body struct {
		Tenant string `json:"tenant"`
	}
	return who.Tenant == "" || json.Unmarshal([]byte(e.Body), &body) == nil && body.Tenant == who.Tenant
}
