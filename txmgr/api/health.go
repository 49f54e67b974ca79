package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"lockstep/internal/access"
	"lockstep/internal/outage"
	"lockstep/txmgr"
)

const readyWait = 5 * time.Second

// write sends the problem by itself, outside of an operation.
func (p *Problem) write(w http.ResponseWriter) {
	text, _ := json.Marshal(p) // plain fields
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // who is gone needs no answer
}

// readiness is what a probe is told. Who asks needs no key, so reasons have no secrets.
type readiness struct {
	Status  string         `json:"status"`
	Reasons []txmgr.Reason `json:"reasons,omitempty"`
}

func (s *Server) health(mux *http.ServeMux) {
	s.unready = outage.Log{Logger: s.log, Upstream: "manager", Name: "readiness", Level: slog.LevelWarn, Consequence: "probes are told that this process is not ready"}
	mux.HandleFunc("GET /health/liveness", func(w http.ResponseWriter, _ *http.Request) {
		writeOlder(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyWait)
		defer cancel()
		reasons, err := s.Manager.Ready(ctx)
		if err == nil {
			s.unready.Up(ctx)
		} else {
			s.unready.Down(ctx, err)
			writeOlder(w, http.StatusServiceUnavailable, readiness{"not ready", reasons})
			return
		}
		writeOlder(w, http.StatusOK, readiness{"ready", reasons})
	})
	if s.Metrics != nil {
		mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			if err := access.Allowed(r.Context(), access.RoleRead); err != nil {
				s.problem(r.Context(), err).write(w)
				return
			}
			s.Metrics.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		p := &Problem{Code: "NOT_FOUND"}
		p.Status, p.Title, p.Detail = http.StatusNotFound, http.StatusText(http.StatusNotFound), "there is no "+r.Method+" of this path"
		p.write(w)
	})
}
