package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"lockstep/console/page"
	"lockstep/internal/access"
	"lockstep/internal/httpserve"
)

const (
	maxBody   = 1 << 20
	readyWait = 5 * time.Second
)

// Options say whose listener it is.
type Options struct {
	Of          string // the transaction manager or the watchers
	Description string // of the document
	Keys        *access.Keys
	MadeBy      string // what makes keys
	Basic       string // realm of callers with a password, "" for none
	NoTenants   string // why a key with a tenant may not use the listener at all; "": it may
	About       page.About
	Known       []Known                                               // the first that matches counts
	Judge       func(ctx context.Context, err error, p *Problem) bool // tells what errors with more than a text mean; nil: there are none
	Ready       func(context.Context) (state any, ready bool)
	Metrics     http.Handler  // nil: no /metrics
	Patience    time.Duration // bounds one request that is no stream; 0: requests bound themselves
	Streams     int           // that are open at once
	Drain       time.Duration // how long requests have that are on their way when it stops
	Log         *slog.Logger
}

// Server is a listener. New starts nothing.
type Server struct {
	Options
	API     huma.API
	mux     *http.ServeMux
	streams *access.Places
	closing chan struct{} // closed when the process stops, so that streams end
	port    net.Listener  // nil before Open
}

// plain is JSON without a line's end behind it.
var plain = huma.Format{Unmarshal: json.Unmarshal, Marshal: func(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}}

// New makes a listener without operations.
func New(o Options) *Server {
	s := &Server{Options: o, mux: http.NewServeMux(), streams: access.NewPlaces(o.Streams), closing: make(chan struct{})}
	config := huma.DefaultConfig("Lockstep "+o.Of, o.About.Version)
	config.Info.Description = o.Description
	config.Formats = map[string]huma.Format{"application/json": plain, "json": plain}
	config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", nil
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"key": {Type: "http", Scheme: "bearer", Description: "A key that " + o.MadeBy + " made."}}
	if o.Basic != "" {
		config.Components.SecuritySchemes["basic"] = &huma.SecurityScheme{Type: "http", Scheme: "basic", Description: "Internal callers."}
	}
	s.API = humago.New(s.mux, config)
	s.API.UseMiddleware(s.authorise)
	s.probes()
	return s
}

// needs is where an operation keeps the role that it wants.
const needs = "role"

// authorise refuses callers whose role is too low for the operation. What an administrator does is for all, so it's no tenant's.
func (s *Server) authorise(ctx huma.Context, next func(huma.Context)) {
	want, _ := ctx.Operation().Metadata[needs].(access.Role)
	err := access.Allowed(ctx.Context(), want)
	if want == access.RoleAdmin && access.Of(ctx.Context()).Tenant != "" {
		err = access.ErrForbidden
	}
	if err != nil {
		_ = huma.WriteErr(s.API, ctx, http.StatusForbidden, err.Error())
		return
	}
	next(ctx)
}

// Operation describes one call: who may make it, how large its body may be, what can go wrong.
func (s *Server) Operation(role access.Role, method, path, id, summary string, errs ...int) huma.Operation {
	errs = append(errs, http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusServiceUnavailable)
	if method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch { // of the body: not JSON, too slow, too long, of another type
		errs = append(errs, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	security := []map[string][]string{{"key": {}}}
	if s.Basic != "" {
		security = append(security, map[string][]string{"basic": {}})
	}
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{strings.Split(path, "/")[2]},
		Errors:       errs,
		Metadata:     map[string]any{needs: role},
		MaxBodyBytes: maxBody,
		Description:  "Needs the role `" + string(role) + "`.",
		Security:     security,
	}
}

// Register adds an operation whose errors are turned into problems.
func Register[In, Out any](s *Server, op huma.Operation, handle func(context.Context, *In) (*Out, error)) {
	huma.Register(s.API, op, func(ctx context.Context, in *In) (*Out, error) {
		if s.Patience > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.Patience)
			defer cancel()
		}
		out, err := handle(ctx, in)
		if err != nil {
			return nil, spelled(&op, s.Problem(ctx, err))
		}
		return out, nil
	})
}

// Out is an answer whose body is one value.
type Out[T any] struct{ Body T }

// Answered is a value as an answer, or the error.
func Answered[T any](body T, err error) (*Out[T], error) {
	if err != nil {
		return nil, err
	}
	return &Out[T]{body}, nil
}

// Place is where a stream goes on.
type Place struct {
	Last   string `header:"Last-Event-ID" maxLength:"20" doc:"The id of the last event that was received; the stream goes on behind it."`
	Cursor string `query:"cursor" maxLength:"20" doc:"Like Last-Event-ID, for clients that cannot set it; 0 is the oldest event that is kept."`
}

func (p Place) text() string {
	if p.Last != "" {
		return p.Last
	}
	return p.Cursor
}

// Stream adds a stream of server-sent events, which goes on where the caller says, or else behind the newest event there is. page is that of
// access.Stream, of a caller's wishes.
func Stream[In interface{ text() string }](s *Server, op huma.Operation, description string, newest func(context.Context) (int64, error),
	page func(ctx context.Context, in *In, after int64) (events string, last int64, err error),
) {
	op.Errors = append(op.Errors, http.StatusTooManyRequests)
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Events: id is the cursor, " + description,
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	huma.Register(s.API, op, func(ctx context.Context, in *In) (*huma.StreamResponse, error) {
		after, err := Cursor((*in).text())
		if err == nil && (*in).text() == "" {
			after, err = newest(ctx)
		}
		if err != nil {
			return nil, s.Problem(ctx, err)
		}
		who := access.Of(ctx)
		giveBack := s.streams.Take(cmp.Or(who.Tenant, who.Name))
		if giveBack == nil {
			return nil, s.Problem(ctx, ErrBusy)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			defer giveBack()
			_, w := humago.Unwrap(ctx)
			open := s.Stopping(ctx.Context())
			if err := access.Stream(open, w, after, func(ctx context.Context, after int64) (string, int64, error) { return page(ctx, in, after) }); err != nil {
				_ = s.Problem(open, err) // for the log: the reader comes back
			}
		}}, nil
	})
}

// Cursor reads where a list or a stream goes on, 0 for "".
func Cursor(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, ErrCursor
	}
	return n, nil
}

// Event is the text of one event of a stream; data is plain fields and valid JSON.
func Event(cursor int64, kind string, data any) string {
	text, _ := json.Marshal(data)
	return fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", cursor, kind, text)
}

// Stopping is a context that ends when the process stops, or the given one does.
func (s *Server) Stopping(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-s.closing:
		case <-ctx.Done():
		}
	}()
	return ctx
}

// probes serves what is no operation.
func (s *Server) probes() {
	s.mux.HandleFunc("GET /health/liveness", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "application/json", http.StatusOK, map[string]string{"status": "alive"})
	})
	s.mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyWait)
		defer cancel()
		state, ready := s.Ready(ctx)
		answer(w, "application/json", map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[ready], state)
	})
	if s.Metrics != nil {
		s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if err := access.Allowed(r.Context(), access.RoleRead); err != nil {
				s.Problem(r.Context(), err).write(w)
				return
			}
			s.Metrics.ServeHTTP(w, r)
		})
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p := &Problem{}
		p.Tell(http.StatusNotFound, "NOT_FOUND", "there is no "+r.Method+" of this path")
		p.write(w)
	})
}

// ServeHTTP finds out who calls before anything else happens. Probes need nobody, and nor do the files of the page.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if strings.HasPrefix(r.URL.Path, "/health/") {
		s.mux.ServeHTTP(w, r)
		return
	}
	if s.page(w, r) {
		return
	}
	who, err := s.who(r)
	if errors.Is(err, access.ErrUnauthorized) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		if s.Basic != "" {
			w.Header().Set("WWW-Authenticate", `Bearer, Basic realm="`+s.Basic+`"`)
		}
	}
	if err != nil {
		s.Problem(r.Context(), err).write(w)
		return
	}
	s.mux.ServeHTTP(w, r.WithContext(s.Keys.With(r, who)))
}

func (s *Server) who(r *http.Request) (access.Caller, error) {
	who, err := s.Keys.Who(r)
	if err == nil && who.Tenant != "" && s.NoTenants != "" {
		p := &Problem{}
		p.Tell(http.StatusForbidden, "FORBIDDEN", s.NoTenants)
		return who, p
	}
	return who, err
}

// page answers a request for the page itself, and says whether it was one. What the page shows it asks of the listener. Who may not use that
// is a stranger to it.
func (s *Server) page(w http.ResponseWriter, r *http.Request) bool {
	about := r.URL.Path == page.AboutPath
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !about && !page.Has(r.URL.Path) {
		return false
	}
	err := s.Keys.Public(r)
	if err == nil && about && access.Foreign(r) {
		err = access.ErrForbidden
	}
	var who access.Caller
	if err == nil && about {
		if who, err = s.who(r); err != nil && s.Problem(r.Context(), err).Status < http.StatusInternalServerError {
			who, err = access.Caller{}, nil
		}
	}
	switch {
	case errors.Is(err, access.ErrForbidden):
		http.Error(w, "ask from this machine, by a loopback address, and from no page of another origin", http.StatusForbidden)
	case err != nil:
		http.Error(w, "the database does not answer; the log tells more", http.StatusServiceUnavailable)
	case about:
		s.About.To(w, who)
	default:
		page.Serve(w, r)
	}
	return true
}

// Open opens the port at the address that a setting names. While nobody has a key it opens on loopback alone, and returns refused for any
// other address; lock then draws a token for the door and prints it.
func (s *Server) Open(ctx context.Context, setting, address string, lock bool, refused error) error {
	open, err := s.Keys.Open(ctx)
	if err != nil {
		return err
	}
	if open && !access.Loopback(address) {
		return fmt.Errorf("%s=%s: %w", setting, address, refused)
	}
	if s.port, err = new(net.ListenConfig).Listen(ctx, "tcp", address); err != nil {
		return fmt.Errorf("%s: %w", setting, err)
	}
	if open && lock {
		s.Keys.Door = access.Locked()
		s.Keys.Door.Tell(os.Stderr, setting, "http://"+s.Addr()+"/ui/")
	}
	return nil
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.port.Addr().String() }

// Close closes the port of a listener that is not going to run.
func (s *Server) Close() {
	if s.port != nil {
		_ = s.port.Close() // nothing was served on it
	}
}

// Run serves until ctx ends. Then streams end, and the requests that are on their way have as long as Drain.
func (s *Server) Run(ctx context.Context) error {
	if err := httpserve.Until(ctx, s.server(s), s.port, s.Drain); err != nil {
		return fmt.Errorf("the listener of the %s: %w", s.Of, err)
	}
	return nil
}

func (s *Server) server(handler http.Handler) *http.Server {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(func() { close(s.closing) })
	return server
}
