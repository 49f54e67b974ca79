package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"lockstep/console/page"
	"lockstep/console/rest"
	"lockstep/internal/access"
	"lockstep/internal/clientip"
	"lockstep/internal/envx"
	"lockstep/internal/ledger"
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
	*rest.Server
	Deps
	cfg     Config
	log     *slog.Logger
	waits   *access.Places // of requests that wait
	unready outage.Log     // of readiness, as probes are told it
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
	s := &Server{Deps: deps, cfg: cfg, log: deps.Log, waits: access.NewPlaces(cfg.Waits)}
	s.unready = outage.Log{Logger: s.log, Upstream: "manager", Name: "readiness", Level: slog.LevelWarn, Consequence: "probes are told that this process is not ready"}
	s.Server = rest.New(rest.Options{
		Of: "transaction manager", Description: "Sends transactions that the server signs, each exactly once, with a definite outcome.",
		Keys: deps.Keys, MadeBy: "POST /v1/api-keys", Basic: "txm", Known: known, Judge: s.judge, Ready: s.ready, Metrics: deps.Metrics, Streams: cfg.Streams, Drain: cfg.Drain.Duration(), Log: deps.Log,
		About: page.About{
			Parts: []string{page.PartManager}, Needs: "an access key of the transaction manager, which `lockstep txm key` makes", Beside: deps.Beside, Version: deps.Version,
		},
	})
	s.transactions()
	s.stream()
	s.nonces()
	s.operators()
	s.accessRoutes()
	s.hooks()
	s.execute()
	s.older()
	return s
}

// caller returns who makes the request. The listener has put it there.
func caller(ctx context.Context) access.Caller { return access.Of(ctx) }

// twoAnswers documents the status 200 beside 202, which a call answers in the same form.
func (s *Server) twoAnswers(path, ok, accepted string) {
	responses := s.API.OpenAPI().Paths[path].Post.Responses
	done := *responses["202"]
	done.Description = ok
	responses["200"] = &done
	responses["202"].Description = accepted
}

// readiness is what a probe is told. Who asks needs no key, so reasons have no secrets.
type readiness struct {
	Status  string         `json:"status"`
	Reasons []txmgr.Reason `json:"reasons,omitempty"`
}

func (s *Server) ready(ctx context.Context) (any, bool) {
	reasons, err := s.Manager.Ready(ctx)
	if err != nil {
		s.unready.Down(ctx, err)
		return readiness{"not ready", reasons}, false
	}
	s.unready.Up(ctx)
	return readiness{"ready", reasons}, true
}

// ErrLoopback means that the address is not on loopback and nobody would need a key.
var ErrLoopback = errors.New("without a key the transaction manager listens on loopback only; make one with `lockstep txm key`, or set TXM_BASIC_USER and TXM_BASIC_PASSWORD")

// Listen opens the port.
func (s *Server) Listen(ctx context.Context) error {
	return s.Open(ctx, "TXM_ADDRESS", s.cfg.Address, s.cfg.LoopbackToken, ErrLoopback)
}

// Config holds the settings of the manager's listener.
type Config struct {
	// Address (host:port) on which the transaction manager listens. Without a key or a password it must be on loopback.
	Address string `env:"TXM_ADDRESS" envDefault:"127.0.0.1:7550"`
	// While there is no key and no password, draw a token at each start and print it with the page's address. With false whoever reaches the address is an administrator, and so is a stranger behind a proxy in front of it.
	LoopbackToken bool `env:"TXM_LOOPBACK_TOKEN" envDefault:"true"`
	// User name of internal callers, who use Basic instead of a key.
	BasicUser string `env:"TXM_BASIC_USER"`
	// Password of internal callers.
	BasicPassword secret.String `env:"TXM_BASIC_PASSWORD"`
	// File with that password.
	BasicPasswordFile secret.String `env:"TXM_BASIC_PASSWORD_FILE,file"`
	// Maximum of streams of events that are open at once. Tenants share them: one alone gets half.
	Streams int `env:"TXM_STREAMS" envDefault:"400" min:"1"`
	// Maximum of transactions in one batch.
	Batch int `env:"TXM_BATCH" envDefault:"100" min:"1"`
	// Maximum of requests that wait for a transaction or a nonce at once. Tenants share them: one alone gets half.
	Waits int `env:"TXM_WAITS" envDefault:"4000" min:"1"`
	clientip.Config

	// How long a stopping process waits for requests that are on their way.
	Drain envx.Millis `env:"TXM_SHUTDOWN_DRAIN_TIMEOUT_MS" envDefault:"10000"`
}

// Validate checks the settings.
func (c Config) Validate() error {
	errs := []error{envx.Check(c), c.Config.Validate()}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		errs = append(errs, fmt.Errorf("TXM_ADDRESS: want host:port: %w", err))
	}
	if (c.BasicUser == "") != (c.BasicPassword == "" && c.BasicPasswordFile == "") {
		errs = append(errs, errors.New("TXM_BASIC_USER and TXM_BASIC_PASSWORD: want both or neither"))
	}
	return errors.Join(errs...)
}

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
