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
	"lockstep/internal/access"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/lifecycle"
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
	Door      access.Door // who gets in
	Version   string
	ChainID   uint64
	Locks     Locks
	Window    time.Duration                                               // how long the order waits for a missing nonce
	Budget    int64                                                       // tinybars of a window; 0: there is no budget
	Reload    func(context.Context) (any, error)                          // nil: there is nothing to read again
	Upstreams func(context.Context) []Upstream                            // in the order in which they are shown
	Metrics   prometheus.Gatherer                                         // of the relay
	Record    func(context.Context, common.Hash) (lifecycle.Record, bool) // nil: no records are kept
	Steps     *lifecycle.Journal                                          // of all transactions
	Calls     http.Handler                                                // JSON-RPC
	Mirror    *url.URL                                                    // of a network for development; nil on others
	Memory    *capacity.Memory                                            // of all requests; nil: without a limit
	Beside    []page.Link                                                 // pages of processes that belong to this one
	Log       *slog.Logger
}

// Console is the handler of the operator's listener.
type Console struct {
	deps    Deps
	streams *streams
	history history
	mux     *http.ServeMux
}

// maxBody bounds a request's body in bytes.
const maxBody = 1 << 20

// New makes the console. Run goes with it.
func New(deps Deps) *Console {
	c := &Console{deps: deps, mux: http.NewServeMux()}
	c.streams = newStreams(c.state)
	for pattern, handler := range map[string]http.Handler{ // besides the files of its page
		"GET /locks":                   http.HandlerFunc(c.listLocks),
		"POST /locks/{sender}/release": http.HandlerFunc(c.releaseLock),
		"GET /ordering":                http.HandlerFunc(c.showOrdering),
		"PUT /ordering":                http.HandlerFunc(c.switchOrdering),
		"POST /reload":                 http.HandlerFunc(c.reload),
		"GET /debug/pprof/":            http.HandlerFunc(pprof.Index),
		"GET /debug/pprof/profile":     http.HandlerFunc(pprof.Profile),
		"GET /debug/pprof/symbol":      http.HandlerFunc(pprof.Symbol),
		"GET /debug/pprof/trace":       http.HandlerFunc(pprof.Trace),
		"GET " + page.AboutPath:        http.HandlerFunc(c.about),
		"GET /ui/events":               c.streams,
		"GET /ui/steps":                http.HandlerFunc(c.steps),
		"GET /ui/history":              http.HandlerFunc(c.showHistory),
		"POST /ui/rpc":                 c.rpc(),
		"GET /ui/records/{hash}":       http.HandlerFunc(c.record),
		"POST /ui/decode":              http.HandlerFunc(c.decode),
	} {
		c.mux.Handle(pattern, handler)
	}
	if c.deps.Mirror != nil {
		c.mux.Handle("GET /ui/mirror/", mirrorOf(c.deps.Mirror))
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

// refuse says why a request does not get in, or 0. A browser on the same machine reaches
// loopback for any page that it shows, so requests of other origins are refused first.
func (c *Console) refuse(r *http.Request) (reason string, status int) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if c.deps.Door.Shows(r) != nil {
		return "ask from this machine, by a loopback address, and not through a proxy", http.StatusForbidden
	}
	switch {
	case reads && page.Has(r.URL.Path): // it holds no secret, and a link may lead to it
		return "", 0
	case access.Foreign(r):
		return "not for pages of other origins", http.StatusForbidden
	case reads && r.URL.Path == page.AboutPath: // it tells strangers nothing but what the page asks them for
		return "", 0
	case c.deps.Door.Admits(r) != nil:
		return "wrong or missing bearer token: it is the relay's ADMIN_TOKEN, or what it printed at its start", http.StatusUnauthorized
	default:
		return "", 0
	}
}

// about tells the page what this process is. Who has the token may do everything.
func (c *Console) about(w http.ResponseWriter, r *http.Request) {
	var who access.Caller
	if c.deps.Door.Admits(r) == nil {
		who.Role = access.RoleAdmin
	}
	page.About{
		Parts: []string{page.PartRelay}, Needs: "the relay’s token: its setting ADMIN_TOKEN, or what it printed at its start", Beside: c.deps.Beside, Version: c.deps.Version,
	}.To(w, who)
}
