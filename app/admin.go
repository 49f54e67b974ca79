package app

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/secret"
	"lockstep/lock"
)

// listenAdmin opens the admin port, if there is to be one. Without a token it
// must be on loopback: whoever can reach it can end a sender's turn.
func (a *App) listenAdmin(ctx context.Context) (net.Listener, error) {
	s := a.cfg.Server
	listener, err := listen(ctx, Endpoint{s.AdminAddress, "ADMIN_ADDRESS"})
	if err != nil || listener == nil {
		return nil, err
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); s.AdminToken == "" && (!ok || !tcp.IP.IsLoopback()) {
		return nil, errors.Join(errors.New("ADMIN_ADDRESS is not on loopback: that needs ADMIN_TOKEN"), listener.Close())
	}
	return listener, nil
}

// AdminAddr returns the address of the admin port after Listen, or "" without one.
func (a *App) AdminAddr() string { return address(a.adminListener) }

func (a *App) serveAdmin(ctx context.Context, listener net.Listener) error {
	return serveBeside(ctx, "admin server", listener, a.adminHandler())
}

// serveBeside serves a small server beside those of JSON-RPC until ctx ends.
func serveBeside(ctx context.Context, what string, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /locks", a.listLocks)
	mux.HandleFunc("POST /locks/{sender}/release", a.releaseLock)
	mux.HandleFunc("GET /ordering", a.showOrdering)
	mux.HandleFunc("PUT /ordering", a.switchOrdering)
	mux.HandleFunc("POST /reload", a.reloadSettings)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return guard(a.cfg.Server.AdminToken, mux)
}

// guard lets requests with the right bearer token through. It also refuses
// requests that a web page made, since a browser on the same machine reaches
// loopback: those that say so, and without a token those for a host name, which
// somebody's name server may have pointed here.
func guard(token secret.String, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + token.Reveal()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Hashing first makes the comparison take the same time whatever the length.
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		switch {
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			http.Error(w, "not for browsers", http.StatusForbidden)
		case token != "" && subtle.ConstantTimeCompare(got[:], want[:]) != 1:
			http.Error(w, "wrong or missing bearer token", http.StatusUnauthorized)
		case token == "" && !loopback(r.Host):
			http.Error(w, "ask by a loopback address", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (a *App) listLocks(w http.ResponseWriter, _ *http.Request) {
	lanes := a.locks.Lanes()
	if lanes == nil {
		lanes = []lock.LaneInfo{}
	}
	respond(w, map[string]any{"lanes": lanes})
}

func (a *App) releaseLock(w http.ResponseWriter, r *http.Request) {
	sender := r.PathValue("sender")
	if !common.IsHexAddress(sender) {
		http.Error(w, "not an address", http.StatusBadRequest)
		return
	}
	released, err := a.locks.ForceRelease(r.Context(), common.HexToAddress(sender))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	a.log.Warn("lock released by hand", "sender", strings.ToLower(sender), "released", released)
	respond(w, map[string]any{"released": released})
}

// ordering is the run-time switch.
type ordering struct {
	Enabled bool `json:"enabled"`
}

func (a *App) showOrdering(w http.ResponseWriter, _ *http.Request) {
	respond(w, ordering{Enabled: a.locks.On()})
}

func (a *App) switchOrdering(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Enabled *bool `json:"enabled"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
	if err := decoder.Decode(&body); err != nil || body.Enabled == nil {
		http.Error(w, `want {"enabled":true} or {"enabled":false}`, http.StatusBadRequest)
		return
	}
	a.locks.SetEnabled(*body.Enabled)
	a.log.Warn("nonce ordering switched by hand", "enabled", *body.Enabled)
	respond(w, ordering{Enabled: *body.Enabled})
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}
