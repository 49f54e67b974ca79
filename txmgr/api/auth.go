package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/internal/access"
	"lockstep/txmgr"
)

// caller returns who makes the request. The guard has put it there.
func caller(ctx context.Context) access.Caller { return access.Of(ctx) }

// needs is where an operation keeps the role that it wants.
const needs = "role"

// authorise refuses callers whose role is too low for the operation. What an administrator does is for all, so it's no tenant's.
func (s *Server) authorise(ctx huma.Context, next func(huma.Context)) {
	want, _ := ctx.Operation().Metadata[needs].(access.Role)
	err := access.Allowed(ctx.Context(), want)
	if want == access.RoleAdmin && caller(ctx.Context()).Tenant != "" {
		err = access.ErrForbidden
	}
	if err != nil {
		p := s.problem(ctx.Context(), err)
		_ = huma.WriteErr(s.api, ctx, p.Status, p.Detail)
		return
	}
	next(ctx)
}

// operation describes one call: who may make it, how large its body may be, what can go wrong.
func operation(role access.Role, method, path, id, summary string, errs ...int) huma.Operation {
	errs = append(errs, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable)
	if method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch { // of the body: not JSON, too slow, too long, of another type
		errs = append(errs, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{tagOf(path)},
		Errors:       errs,
		Metadata:     map[string]any{needs: role},
		MaxBodyBytes: 1 << 20,
		Security:     []map[string][]string{{"key": {}}, {"basic": {}}},
		Description:  "Needs the role `" + string(role) + "`.",
	}
}

func tagOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > 1 {
		return parts[1]
	}
	return parts[0]
}

// register adds an operation whose errors are turned into problems. What can wait and is accepted at first answers 200 when it has
// waited long enough.
func register[In, Out any](s *Server, op huma.Operation, handle func(context.Context, *In) (*Out, error)) {
	huma.Register(s.api, op, func(ctx context.Context, in *In) (*Out, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return out, nil
	})
	if _, waits := any(new(In)).(interface {
		until() (txmgr.Status, time.Duration, error)
	}); waits && op.DefaultStatus == http.StatusAccepted {
		s.twoAnswers(op.Path, "With `wait`: the transaction has come as far as that, or is final.", "Accepted. With `wait`: it did not come as far as that in time.")
	}
}

// out is an answer whose body is one value.
type out[T any] struct{ Body T }

func answered[T any](body T, err error) (*out[T], error) {
	if err != nil {
		return nil, err
	}
	return &out[T]{body}, nil
}

// twoAnswers documents the status 200 beside 202, which a call answers in the same form.
func (s *Server) twoAnswers(path, ok, accepted string) {
	responses := s.api.OpenAPI().Paths[path].Post.Responses
	done := *responses["202"]
	done.Description = ok
	responses["200"] = &done
	responses["202"].Description = accepted
}
