package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"lockstep/console/page"
	"lockstep/internal/access"
	"lockstep/watch"
)

const (
	maxStreams = 200
	drain      = 5 * time.Second
	askLimit   = 20 * time.Second // one request that is no stream
)

// Deps are what the surface stands on.
type Deps struct {
	Watchers *watch.Service
	Keys     *access.Keys
	Metrics  http.Handler
	Version  string
	Log      *slog.Logger
}

// Server is the surface. New starts nothing.
type Server struct {
	Deps
	api      huma.API
	handler  http.Handler
	page     page.Keyed
	streams  *access.Places // of open streams, by key
	closing  chan struct{}  // closed when the process stops, so that streams end
	listener *access.Listener
}

// New makes the surface.
func New(deps Deps) *Server {
	s := &Server{Deps: deps, streams: access.NewPlaces(maxStreams), closing: make(chan struct{})}
	s.page = page.Keyed{
		Keys: deps.Keys,
		Refuses: func(who access.Caller) error {
			if who.Tenant != "" {
				return errTenant
			}
			return nil
		},
		About: page.About{Parts: []string{page.PartWatchers}, Needs: "an access key without a tenant, which `lockstep watch key` makes", Version: deps.Version},
	}
	mux := http.NewServeMux()
	config := huma.DefaultConfig("Lockstep watchers", deps.Version)
	config.Info.Description = "Follows contracts and hands every event on: at least once, in order per contract."
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", Description: "A key that `lockstep watch key` or the transaction manager made."}}
	s.api = humago.New(mux, config)
	s.api.UseMiddleware(s.authorise)
	s.routes()
	s.stream()
	s.health(mux)
	for _, schema := range s.api.OpenAPI().Components.Schemas.Map() {
		if schema.Properties["detail"] != nil && schema.Properties["title"] != nil {
			schema.AdditionalProperties = true // problems carry a code besides
		}
	}
	s.handler = s.page.Guard(mux, "Bearer", func(w http.ResponseWriter, r *http.Request, err error) { s.problem(r.Context(), err).write(w) })
	return s
}

// needs is where an operation keeps the role that it wants.
const needs = "role"

// authorise refuses callers whose role is too low for the operation.
func (s *Server) authorise(ctx huma.Context, next func(huma.Context)) {
	want, _ := ctx.Operation().Metadata[needs].(access.Role)
	if err := access.Allowed(ctx.Context(), want); err != nil {
		_, w := humago.Unwrap(ctx)
		s.problem(ctx.Context(), err).write(w)
		return
	}
	next(ctx)
}

func operation(role access.Role, method, path, id, summary string, errs ...int) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{strings.Split(path, "/")[2]},
		Errors:       append([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusServiceUnavailable}, errs...),
		Metadata:     map[string]any{needs: role},
		MaxBodyBytes: 64 << 10,
		Security:     []map[string][]string{{"key": {}}},
		Description:  "Needs the role `" + string(role) + "`.",
	}
}

// register adds an operation whose errors are turned into problems.
func register[In, Out any](s *Server, op huma.Operation, handle func(context.Context, *In) (*Out, error)) {
	huma.Register(s.api, op, func(ctx context.Context, in *In) (*Out, error) {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return out, nil
	})
}

// ErrLoopback means that the address is not on loopback and nobody would need a key.
var ErrLoopback = errors.New("without a key the watchers listen on loopback only; make one with `lockstep watch key`")

// Listen opens the port.
// While nobody has a key, lock draws a token and prints it.
func (s *Server) Listen(ctx context.Context, address string, lock bool) error {
	var err error
	s.listener, err = s.Keys.Listen(ctx, "WATCH_ADDRESS", address, lock, ErrLoopback)
	return err
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr() }

// Run serves until the context ends, and then lets requests end that are on their way.
func (s *Server) Run(ctx context.Context) error {
	if err := s.listener.Serve(ctx, s.handler, s.Log, s.closing, drain); err != nil {
		return fmt.Errorf("the watchers' listener: %w", err)
	}
	return nil
}
