package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"lockstep/ethapi"
	"lockstep/internal/relay/capacity"
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
