package api

import (
	"context"
	"encoding/json"
	"net/http"

	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/internal/ledger"
)

const streamPage = 200

// stream serves the events of the ledger as they become visible.
func (s *Server) stream() {
	op := s.Operation(access.RoleRead, http.MethodGet, "/v1/transactions/stream", "stream", "Everything that happens, as server-sent events")
	rest.Stream(s.Server, op, "event the kind, data JSON with the members subject, at and body.", s.Newest, func(ctx context.Context, _ *rest.Place, after int64) (text string, last int64, err error) {
		events, err := s.Manager.Stream(ctx, after, streamPage)
		last = after
		for _, e := range events {
			last = e.Cursor
			if sees(caller(ctx), e) {
				text += formatEvent(e)
			}
		}
		return text, last, err
	})
}

func formatEvent(e ledger.Event) string {
	body := json.RawMessage(e.Body)
	if !json.Valid(body) {
		body = []byte("null")
	}
	return rest.Event(e.Cursor, e.Kind, struct {
		Subject string          `json:"subject"`
		At      Moment          `json:"at"`
		Body    json.RawMessage `json:"body"`
	}{e.Subject, Moment(e.At), body})
}

// sees reports whether an event is the caller's: one of its tenant.
func sees(who access.Caller, e ledger.Event) bool {
	var body struct {
		Tenant string `json:"tenant"`
	}
	return who.Tenant == "" || json.Unmarshal([]byte(e.Body), &body) == nil && body.Tenant == who.Tenant
}
