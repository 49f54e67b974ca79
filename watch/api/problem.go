package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/internal/access"
	"lockstep/watch"
)

// Problem is an error as RFC 9457 describes it.
type Problem struct {
	huma.ErrorModel
	Code string `json:"code" doc:"What programs branch on."`
}

var (
	errBusy   = errors.New("too many streams are open already")
	errTenant = errors.New("watchers know no tenants: a key without one is needed")
)

// known lists the errors that callers can do something about.
var known = []struct {
	err    error
	status int
	code   string
}{
	{watch.ErrNotFound, http.StatusNotFound, "NOT_FOUND"},
	{watch.ErrCursor, http.StatusUnprocessableEntity, "INVALID"},
	{watch.ErrRange, http.StatusUnprocessableEntity, "RANGE"},
	{watch.ErrOlderPlan, http.StatusServiceUnavailable, "OLDER_PLAN"},
	{access.ErrUnauthorized, http.StatusUnauthorized, "UNAUTHORIZED"},
	{access.ErrAddress, http.StatusForbidden, "ADDRESS"},
	{access.ErrForbidden, http.StatusForbidden, "FORBIDDEN"},
	{errTenant, http.StatusForbidden, "FORBIDDEN"},
	{errBusy, http.StatusServiceUnavailable, "BUSY"},
}

// problem turns an error into what the caller gets. What the caller cannot mend is logged and told without details.
func (s *Server) problem(ctx context.Context, err error) *Problem {
	p := &Problem{Code: "UNAVAILABLE"}
	p.Status, p.Detail = http.StatusServiceUnavailable, "no answer of the database in time; the log tells more"
	found := false
	for _, k := range known {
		if errors.Is(err, k.err) {
			p.Status, p.Code, p.Detail, found = k.status, k.code, err.Error(), true
			break
		}
	}
	if !found && ctx.Err() == nil {
		s.Log.ErrorContext(ctx, "a request of the watchers' listener failed", "error", err)
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// Error returns the text for people.
func (p *Problem) Error() string { return p.Detail }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType names the form of the body.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// write sends the problem by itself, outside of an operation.
func (p *Problem) write(w http.ResponseWriter) {
	text, _ := json.Marshal(p) // plain fields
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // who is gone needs no answer
}
