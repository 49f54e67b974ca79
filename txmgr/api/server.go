package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"lockstep/console/page"
	"lockstep/internal/access"
	"lockstep/internal/outage"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/policy"
	"lockstep/txmgr/webhooks"
)

// TopUp fills a signer up from the treasury and returns the intent, nil if there is
// nothing to do.
type TopUp func(ctx context.Context, chain, signer string) (*txmgr.Intent, error)

// Deps are what the surface stands on.
type Deps struct {
	Manager  *txmgr.Manager
	Keys     *access.Keys
	Policies *policy.Guard
	Webhooks *webhooks.Service
	Newest   func(context.Context) (int64, error) // cursor of the newest event
	Reload   func(context.Context) error          // reads keys and pools of the settings again; nil: not possible
	TopUp    TopUp                                // nil: there is no treasury
	Metrics  http.Handler                         // nil: no /metrics
	Beside   []page.Link                          // pages of processes that belong to this one
	Version  string
	Log      *slog.Logger
}

// Server is the surface. New starts nothing.
type Server struct {
	Deps
	cfg     Config
	log     *slog.Logger
	api     huma.API
	handler http.Handler
	page    page.Keyed
	streams *access.Places // of open streams
	waits   *access.Places // of requests that wait
	closing chan struct{}  // closed when the process stops, so that streams end
	unready outage.Log     // of readiness, as probes are told it

	listener *access.Listener
}

// Password returns the password of internal callers, "" for none.
func (c Config) Password() secret.String {
	if c.BasicPassword != "" {
		return c.BasicPassword
	}
	return secret.String(strings.TrimSpace(c.BasicPasswordFile.Reveal()))
}

// New makes the surface.
func New(cfg Config, deps Deps) *Server {
	s := &Server{
		Deps: deps, cfg: cfg, log: deps.Log, streams: access.NewPlaces(cfg.Streams), waits: access.NewPlaces(cfg.Waits), closing: make(chan struct{}),
	}
	s.page = page.Keyed{Keys: deps.Keys, About: page.About{
		Parts: []string{page.PartManager}, Needs: "an access key of the transaction manager, which `lockstep txm key` makes", Beside: deps.Beside, Version: deps.Version,
	}}
	mux := http.NewServeMux()
	config := huma.DefaultConfig("Lockstep transaction manager", deps.Version)
	config.Info.Description = "Sends transactions that the server signs, each exactly once, with a definite outcome."
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	config.Transformers = append(config.Transformers, formProblem)
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key":   {Type: "http", Scheme: "bearer", Description: "A key that POST /v1/api-keys made."},
		"basic": {Type: "http", Scheme: "basic", Description: "Internal callers."},
	}
	s.api = humago.New(mux, config)
	s.api.UseMiddleware(s.authorise)
	s.transactions()
	s.stream()
	s.nonces()
	s.operators()
	s.accessRoutes()
	s.hooks()
	s.execute()
	s.older(mux)
	s.health(mux)
	// Problems carry more members than the model that other errors use.
	for _, schema := range s.api.OpenAPI().Components.Schemas.Map() {
		if schema.Properties["detail"] != nil && schema.Properties["title"] != nil {
			schema.AdditionalProperties = true
		}
	}
	s.handler = s.page.Guard(mux, `Bearer, Basic realm="txm"`, func(w http.ResponseWriter, r *http.Request, err error) { s.problem(r.Context(), err).write(w) })
	return s
}

// ErrLoopback means that the address is not on loopback and nobody would need a key.
var ErrLoopback = errors.New("without a key the transaction manager listens on loopback only; make one with `lockstep txm key`, or set TXM_BASIC_USER and TXM_BASIC_PASSWORD")

// Listen opens the port.
func (s *Server) Listen(ctx context.Context) error {
	var err error
	s.listener, err = s.Keys.Listen(ctx, "TXM_ADDRESS", s.cfg.Address, s.cfg.LoopbackToken, ErrLoopback)
	return err
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.listener.Addr() }

// Close closes the port of a server that is not going to run.
func (s *Server) Close() { s.listener.Close() }

// Run serves until ctx ends, and then lets requests end that are on their way.
func (s *Server) Run(ctx context.Context) error {
	if err := s.listener.Serve(ctx, s.handler, s.log, s.closing, s.cfg.Drain.Duration()); err != nil {
		return fmt.Errorf("the transaction manager's listener: %w", err)
	}
	return nil
}
