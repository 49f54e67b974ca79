package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"

	"lockstep/config"
	"lockstep/console"
	"lockstep/console/page"
	"lockstep/ethapi"
	"lockstep/internal/access"
	"lockstep/internal/httpserve"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/telemetry"
	"lockstep/rpc"
)

// pages are the paths that the RPC port answers besides JSON-RPC.
func (a *App) pages(api *ethapi.API) map[string]http.Handler {
	pages := a.statusPages()
	pages["/openrpc"] = http.HandlerFunc(api.ServeOpenRPC)
	pages["/config"] = http.HandlerFunc(a.showConfig)
	return pages
}

// httpOptions are what the HTTP port answers besides JSON-RPC.
func (a *App) httpOptions(api *ethapi.API) rpc.HTTPOptions {
	o := rpc.HTTPOptions{Handlers: a.pages(api)}
	if a.cfg.Server.WebSocket {
		o.Upgrade = a.ws
	}
	return o
}

// statusEndpoint is where a process without a HTTP port answers probes and Prometheus; nowhere
// if it has one, or serves no WebSocket either.
func (a *App) statusEndpoint(http Endpoint) Endpoint {
	s := a.cfg.Server
	if http.Address != "" || !s.WebSocket {
		return Endpoint{}
	}
	return Endpoint{net.JoinHostPort(s.Host, strconv.Itoa(s.StatusPort)), "WEB_SOCKET_HTTP_PORT"}
}

// StatusAddr returns the address of the port for probes and Prometheus after Listen, or "" if
// the HTTP port serves them.
func (a *App) StatusAddr() string { return address(a.statusListener) }

func (a *App) serveStatus(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	for path, handler := range a.statusPages() {
		mux.Handle(path, handler)
	}
	return serveBeside(ctx, "server of health and metrics", listener, mux)
}

// statusPages are for probes and for Prometheus.
func (a *App) statusPages() map[string]http.Handler {
	return map[string]http.Handler{
		"/health/liveness":  text("OK"),
		"/health/readiness": http.HandlerFunc(a.readiness),
		"/metrics":          a.metricsPage(),
	}
}

func (a *App) metricsPage() http.Handler {
	plain := a.atOwnPace(promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	if !a.tracer.Enabled() {
		return plain
	}
	// Only these forms have exemplars.
	further := a.atOwnPace(promhttp.HandlerFor(sameNames{a.registry}, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text") {
			further.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

// maxScrapes is how many pages of metrics are made at a time.
const maxScrapes = 4

// atOwnPace makes a page as a whole before its reader gets any of it. So readers that take their time keep no others
// from the page. What they have not read yet counts against their memory.
func (a *App) atOwnPace(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr) // empty: nobody's
		whole := &wholePage{ResponseWriter: w, holding: a.memory.Open(host), status: http.StatusOK}
		defer whole.holding.Close()
		page.ServeHTTP(whole, r)
		if whole.refused != nil {
			w.Header().Del("Content-Encoding")
			http.Error(w, whole.refused.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(whole.status)
		_, _ = w.Write(whole.text.Bytes()) // a client that went away needs no answer
	})
}

// wholePage collects a page.
type wholePage struct {
	http.ResponseWriter
	holding *capacity.Holding
	status  int
	text    bytes.Buffer
	refused error // the reader may have no more memory
}

// WriteHeader implements http.ResponseWriter.
func (p *wholePage) WriteHeader(status int) { p.status = status }

// Write implements http.ResponseWriter.
func (p *wholePage) Write(text []byte) (int, error) {
	if p.refused == nil {
		p.refused = p.holding.Take(len(text))
	}
	if p.refused != nil {
		return 0, p.refused
	}
	return p.text.Write(text)
}

// sameNames keeps the names of all metrics in the form OpenMetrics, in which the name of every counter would end in
// _total: dashboards rely on those names. Counters of other names are of unknown type there.
type sameNames struct{ prometheus.Gatherer }

// Gather implements prometheus.Gatherer.
func (g sameNames) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	for _, family := range families {
		if family.GetType() != dto.MetricType_COUNTER || strings.HasSuffix(family.GetName(), "_total") {
			continue
		}
		family.Type = dto.MetricType_UNTYPED.Enum()
		for _, m := range family.Metric {
			m.Untyped = &dto.Untyped{Value: m.Counter.Value}
			m.Counter = nil
		}
	}
	return families, err
}

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, s) // a client that went away needs no answer
	})
}

// showConfig prints the settings, or says that they are not to be had.
func (a *App) showConfig(w http.ResponseWriter, r *http.Request) {
	if a.cfg.Server.DisableAdmin {
		w.WriteHeader(http.StatusNotFound)
		text("Not Found").ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(a.settings(r.Context())) // see text
}

// register adds the metrics of every part to the registry, with those of the
// process itself.
func (a *App) register(parts ...[]prometheus.Collector) error {
	wrapped := prometheus.WrapRegistererWithPrefix("rpc_relay_", a.registry)
	errs := []error{
		wrapped.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
		a.registry.Register(collectors.NewGoCollector()),
	}
	for _, part := range parts {
		for _, collector := range part {
			if err := a.registry.Register(collector); err != nil {
				errs = append(errs, fmt.Errorf("metric: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// listenAdmin opens the port of the console, if there is to be one. Without a token it
// must be on loopback: whoever can reach it can end a sender's turn.
func (a *App) listenAdmin(ctx context.Context) (net.Listener, error) {
	s, listener := a.cfg.Server, a.adminListener
	if listener == nil {
		var err error
		if listener, err = listen(ctx, Endpoint{s.AdminAddress, "ADMIN_ADDRESS"}); err != nil || listener == nil {
			return nil, err
		}
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); s.AdminToken == "" && (!ok || !tcp.IP.IsLoopback()) {
		return nil, errors.Join(config.ErrNoAdminToken, listener.Close())
	}
	a.trace.Follow(&a.steps)
	a.door = access.NewDoor(s.AdminToken)
	if a.door.Open() && s.AdminLoopbackToken && a.develops == nil {
		a.door = access.Locked()
		a.door.Tell(os.Stderr, "the console", "http://"+address(listener)+page.Prefix)
	}
	return listener, nil
}

// AdminAddr returns the address of the console after Listen, or "" without one.
func (a *App) AdminAddr() string { return address(a.adminListener) }

// Develops says that the network is one for development, and where its mirror node is, so that
// the console shows what a developer wants to see. The listener, if there is one, is the console's
// in place of ADMIN_ADDRESS. Call it before Listen.
func (a *App) Develops(mirror *url.URL, ui net.Listener) { a.develops, a.adminListener = mirror, ui }

// Beside says that another process, or another part of this one, has a page of its own, so that the console's leads there.
// Call it before Run.
func (a *App) Beside(text, url string) { a.beside = append(a.beside, page.Link{Text: text, URL: url}) }

func (a *App) serveAdmin(ctx context.Context, listener net.Listener) error {
	c := console.New(a.consoleDeps())
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return c.Run(ctx) })
	parts.Go(func() error { return serveBeside(ctx, "console", listener, c) })
	return parts.Wait()
}

// serveBeside serves a small server beside those of JSON-RPC until ctx ends, and with it what
// is being answered.
func serveBeside(ctx context.Context, what string, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10}
	if err := httpserve.Until(ctx, server, listener, 0); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (a *App) consoleDeps() console.Deps {
	deps := console.Deps{
		Door: a.door, Version: a.version, ChainID: uint64(a.cfg.Server.ChainID),
		Mirror: a.develops, Locks: a.locks, Window: a.cfg.Lock.Window.Duration(), Budget: int64(a.cfg.Limit.Total),
		Upstreams: a.shownUpstreams, Metrics: a.registry, Calls: a.http, Log: a.log, Beside: a.beside, Memory: a.memory, Steps: &a.steps,
	}
	if a.reloading.load != nil {
		deps.Reload = func(ctx context.Context) (any, error) { return a.Reload(ctx) }
	}
	if a.trace.Enabled() {
		deps.Record = func(ctx context.Context, hash common.Hash) (lifecycle.Record, bool) { return a.trace.Get(ctx, hash) }
	}
	return deps
}

// shownUpstreams are the upstreams one by one, as the console shows them.
func (a *App) shownUpstreams(context.Context) []console.Upstream {
	out := map[string]trouble{}
	for _, t := range a.ready().Reasons {
		out[t.Upstream] = t
	}
	var all []console.Upstream
	add := func(kind, name, note string, err error) {
		u := console.Upstream{Kind: kind, Name: name, Note: note, Up: err == nil}
		if t, known := out[kind]; known {
			u.Up, u.Since, u.Cause = false, &t.Since, t.Cause
		}
		if err != nil {
			u.Cause = err.Error()
		}
		all = append(all, u)
	}
	for _, m := range a.mirror.Upstreams() {
		note := ""
		if m.Head > 0 {
			note = "head " + strconv.FormatUint(m.Head, 10)
		}
		add(upstreamMirror, m.Name, note, m.Err)
	}
	for _, n := range a.consensus.Nodes() {
		var err error
		if !n.Healthy {
			err = errors.Join(n.Err, fmt.Errorf("failures in a row: %d", n.Failures))
		}
		add(upstreamNodes, n.ID.String(), strings.Join(n.Endpoints, " "), err)
	}
	if a.redis != nil {
		add(upstreamRedis, upstreamRedis, "", nil)
	}
	if a.usesLockRedis() {
		add(upstreamLockRedis, upstreamLockRedis, "", nil)
	}
	if _, wrong := out[upstreamChain]; wrong {
		add(upstreamChain, "CHAIN_ID", "", nil)
	}
	return all
}

// requestHandler adds the id of the request, and of its trace if that is recorded, to each line that is written with the context of one.
// So the lock, the consensus client and the mirror client name it without knowing rpc.
type requestHandler struct{ slog.Handler }

const requestIDKey = "request_id"

func (h requestHandler) Handle(ctx context.Context, line slog.Record) error {
	if request, ok := rpc.FromContext(ctx); ok && request.ID != "" && !named(line) {
		line = line.Clone()
		line.AddAttrs(slog.String(requestIDKey, request.ID))
	}
	if id := telemetry.TraceID(ctx); id != "" {
		line = line.Clone()
		line.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, line)
}

// named tells whether the line has the id already.
func named(line slog.Record) (found bool) {
	line.Attrs(func(a slog.Attr) bool {
		found = a.Key == requestIDKey
		return !found
	})
	return found
}

func (h requestHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return requestHandler{h.Handler.WithAttrs(attrs)}
}

func (h requestHandler) WithGroup(name string) slog.Handler {
	return requestHandler{h.Handler.WithGroup(name)}
}
