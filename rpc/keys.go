package rpc

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"lockstep/internal/eth"
	"lockstep/internal/relay/apikey"
)

// KeysConfig says who may call.
type KeysConfig struct {
	// File of API keys, with the SHA-256 of each; `lockstep keys new` makes a key and its line. A request brings its key as Authorization: Bearer, or as X-API-Key. Empty: keys mean nothing. docs/KEYS.md says more.
	APIKeys apikey.File `env:"API_KEYS_FILE" reload:"true"`
	// Refuse requests without a key. With false these have the limits per address.
	KeyRequired bool `env:"API_KEYS_REQUIRED" envDefault:"false"`
}

// keyWindow is the time that the limits of a key are for.
const keyWindow = time.Minute

const authenticateHeader = "Www-Authenticate"

// tokenIn returns the API key that a request brings. Of two, X-API-Key counts: the other may be for a proxy.
func tokenIn(h http.Header) (token string, given bool) {
	if token, ok := first(h, "X-Api-Key"); ok {
		return strings.TrimSpace(token), true
	}
	if text, ok := first(h, "Authorization"); ok {
		if scheme, token, _ := strings.Cut(text, " "); strings.EqualFold(scheme, "Bearer") {
			return strings.TrimSpace(token), true
		}
	}
	return "", false
}

// identify finds whose key a request brings: nobody's where none is needed. If it returns a fault, the request is refused.
func (d *Dispatcher) identify(h http.Header) (holder *apikey.Holder, f fault, ok bool) {
	if !d.keys.On() {
		return nil, fault{}, true
	}
	why, refusal := apikey.Unknown, eth.ErrKeyUnknown
	token, given := tokenIn(h)
	switch {
	case given:
		if holder, ok := d.keys.Find(token); ok {
			return holder, fault{}, true
		}
	case !d.config.Keys.KeyRequired:
		return nil, fault{}, true
	default:
		why, refusal = apikey.Missing, eth.ErrKeyMissing
	}
	d.keys.Refused(why)
	f = known(refusal)
	f.status = http.StatusUnauthorized
	return nil, f, false
}

// refuse answers a request of which nothing is run.
func (req *httpRequest) refuse(f fault) {
	var c call
	d := req.s.d
	req.answer(f.status, 0, [][]byte{d.faultAnswer(&req.request, &c, f)})
	d.metrics.methodResponse.WithLabelValues("undefined", strconv.Itoa(f.status)).Observe(0)
}

// admitHolder checks a call against the key that it came with: the methods of its holder, and what the holder may use.
func (d *Dispatcher) admitHolder(ctx context.Context, h *apikey.Holder, method string, weight int) (f fault, ok bool) {
	if !h.May(method) {
		h.Refused(apikey.ByMethod)
		f = known(eth.ErrKeyMethod(method))
		f.status = http.StatusForbidden
		return f, false
	}
	return d.spend(ctx, h, method, weight)
}

// spend takes a call from what the holder of a key may use.
func (d *Dispatcher) spend(ctx context.Context, h *apikey.Holder, method string, weight int) (f fault, ok bool) {
	weight = max(weight, 1)
	if !d.within(ctx, h, "weight", weight, h.Weight) || !d.within(ctx, h, "calls", 1, h.Calls) {
		h.Refused(apikey.ByLimit)
		return known(eth.ErrKeyLimited(method)), false
	}
	h.Used(weight)
	return fault{}, true
}

func (d *Dispatcher) within(ctx context.Context, h *apikey.Holder, what string, amount, limit int) bool {
	return limit == 0 || d.quota == nil || d.quota(ctx, h.Name, what, amount, limit)
}

// Idle returns the methods that keys name and that are not in the table, with a holder of each. The operator is told
// of them: they may be misspelt.
func (d *Dispatcher) Idle(f apikey.File) map[string]string {
	return withoutMethods(d, f.Patterns())
}

// refuseHandshake answers an upgrade request that brings no valid key.
func (s *WSServer) refuseHandshake(w http.ResponseWriter, r *http.Request, f fault) {
	request := Request{ID: requestID(r.Header), Transport: TransportWebSocket}
	var c call
	answer := s.d.faultAnswer(&request, &c, f)
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set(authenticateHeader, "Bearer")
	w.WriteHeader(f.status)
	_, _ = w.Write(answer) // if it fails the client is gone
}

// EndRevoked closes the connections whose key is not valid any more.
func (s *WSServer) EndRevoked() {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		_, _ = c.currentHolder()
	}
}

// currentHolder returns whose key the connection was opened with, as the file has it now; nil for a connection without a
// key. It ends a connection whose key is not valid any more.
func (c *wsConn) currentHolder() (h *apikey.Holder, ok bool) {
	if c.holder == nil {
		return nil, true
	}
	if h, ok = c.server.d.keys.Current(c.holder); !ok {
		c.end(ending{code: websocket.ClosePolicyViolation, reason: reasonRevoked, drop: true})
	}
	return h, ok
}
