package console

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/console/page"
	"lockstep/internal/lifecycle"
	"lockstep/internal/secret"
	"lockstep/lock"
)

// Locks are the lanes of the relay.
type Locks interface {
	Lanes() []lock.LaneInfo
	ForceRelease(context.Context, common.Address) (bool, error)
	On() bool
	Ordered() string
	SetEnabled(bool)
}

// Deps are what the console shows, and works on.
type Deps struct {
	Token     secret.String // "": who reaches loopback gets in
	Version   string
	ChainID   uint64
	Locks     Locks
	Window    time.Duration                                               // how long the order waits for a missing nonce
	Budget    int64                                                       // tinybars of a window; 0: there is no budget
	Reload    func(context.Context) (any, error)                          // nil: there is nothing to read again
	Upstreams func(context.Context) []Upstream                            // in the order in which they are shown
	Metrics   prometheus.Gatherer                                         // of the relay
	Record    func(context.Context, common.Hash) (lifecycle.Record, bool) // nil: no records are kept
	Calls     http.Handler                                                // JSON-RPC
	Mirror    *url.URL                                                    // of a network for development; nil on others
	Beside    []page.Link                                                 // pages of processes that belong to this one
	Log       *slog.Logger
}

// Console is the handler of the operator's listener.
type Console struct {
	deps    Deps
	streams *streams
	mux     *http.ServeMux
}

// maxBody bounds a request's body in bytes.
const maxBody = 1 << 20

// New makes the console.
func New(deps Deps) *Console {
	c := &Console{deps: deps, mux: http.NewServeMux()}
	c.streams = newStreams(c.state)
	c.mux.HandleFunc("GET /locks", c.listLocks)
	c.mux.HandleFunc("POST /locks/{sender}/release", c.releaseLock)
	c.mux.HandleFunc("GET /ordering", c.showOrdering)
	c.mux.HandleFunc("PUT /ordering", c.switchOrdering)
	c.mux.HandleFunc("POST /reload", c.reload)
	c.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	c.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	c.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	c.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	c.mux.HandleFunc("GET "+page.AboutPath, c.about)
	c.mux.Handle("GET /ui/events", c.streams)
	c.mux.Handle("POST /ui/rpc", c.rpc())
	c.mux.HandleFunc("GET /ui/records/{hash}", c.record)
	c.mux.HandleFunc("POST /ui/decode", c.decode)
	if deps.Mirror != nil {
		c.mux.Handle("GET /ui/mirror/", mirrorOf(deps.Mirror))
	}
	return c
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if reason, status := c.refuse(r); status != 0 {
		http.Error(w, reason, status)
		return
	}
	if page.Serve(w, r) {
		return
	}
	c.mux.ServeHTTP(w, r)
}

// rpc forwards calls to the relay in this process.
func (c *Console) rpc() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := r.Clone(r.Context())
		call.URL.Path = "/"
		call.Header.Del("Authorization") // it is the console's, and no business of the relay
		call.Header.Del("Origin")
		c.deps.Calls.ServeHTTP(w, call)
	})
}

func (c *Console) record(w http.ResponseWriter, r *http.Request) {
	if c.deps.Record == nil {
		http.Error(w, "no records are kept: set TX_STATUS_TRACING=true", http.StatusNotFound)
		return
	}
	text := r.PathValue("hash")
	var hash common.Hash
	if err := hash.UnmarshalText([]byte(text)); err != nil {
		http.Error(w, "not the hash of a transaction", http.StatusBadRequest)
		return
	}
	record, ok := c.deps.Record(r.Context(), hash)
	if !ok {
		http.Error(w, "nothing is known of this transaction", http.StatusNotFound)
		return
	}
	respond(w, record)
}

func respond(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that went away needs no answer
}
