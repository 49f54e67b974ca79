package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lockstep/ethapi"
)

// pages are the paths that the RPC port answers besides JSON-RPC.
func (a *App) pages(api *ethapi.API) map[string]http.Handler {
	return map[string]http.Handler{
		"/health/liveness":  text("OK"),
		"/health/readiness": http.HandlerFunc(a.readiness),
		"/openrpc":          http.HandlerFunc(api.ServeOpenRPC),
		"/metrics":          promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}),
		"/config":           http.HandlerFunc(a.showConfig),
	}
}

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, s) // a client that went away needs no answer
	})
}

// readiness says DOWN as soon as the process is asked to stop, so that a load
// balancer sends no more. It does not depend on the mirror node or Redis: without
// them the relay still answers what it can, and no sibling could do better.
func (a *App) readiness(w http.ResponseWriter, r *http.Request) {
	if a.stopping.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		text("DOWN").ServeHTTP(w, r)
		return
	}
	text("OK").ServeHTTP(w, r)
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
