package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"lockstep/console/page"
	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/watch"
)

const (
	maxStreams = 200
	drain      = 5 * time.Second
	askLimit   = 20 * time.Second // one request that is no stream
	streamPage = 200
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
	*rest.Server
	Deps
}

// known lists the errors that callers can do something about.
var known = []rest.Known{
	{Err: watch.ErrNotFound, Status: http.StatusNotFound, Code: "NOT_FOUND"},
	{Err: watch.ErrCursor, Status: http.StatusUnprocessableEntity, Code: "INVALID"},
	{Err: watch.ErrRange, Status: http.StatusUnprocessableEntity, Code: "RANGE"},
	{Err: watch.ErrOlderPlan, Status: http.StatusServiceUnavailable, Code: "OLDER_PLAN"},
}

// New makes the surface.
func New(deps Deps) *Server {
	s := &Server{Deps: deps, Server: rest.New(rest.Options{
		Of: "watchers", Description: "Follows contracts and hands every event on: at least once, in order per contract.",
		Keys: deps.Keys, MadeBy: "`lockstep watch key` or the transaction manager", NoTenants: "watchers know no tenants: a key without one is needed", Known: known, Metrics: deps.Metrics, Patience: askLimit, Streams: maxStreams, Drain: drain, Log: deps.Log,
		Ready: func(ctx context.Context) (any, bool) {
			c := deps.Watchers.Condition(ctx)
			return c, c.Ready
		},
		About: page.About{Parts: []string{page.PartWatchers}, Needs: "an access key without a tenant, which `lockstep watch key` makes", Version: deps.Version},
	})}
	s.routes()
	return s
}

// ErrLoopback means that the address is not on loopback and nobody would need a key.
var ErrLoopback = errors.New("without a key the watchers listen on loopback only; make one with `lockstep watch key`")

// Listen opens the port.
// While nobody has a key, lock draws a token and prints it.
func (s *Server) Listen(ctx context.Context, address string, lock bool) error {
	return s.Open(ctx, "WATCH_ADDRESS", address, lock, ErrLoopback)
}
