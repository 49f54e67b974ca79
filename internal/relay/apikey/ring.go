package apikey

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/metric"
	"lockstep/internal/secret"
)

const (
	tokenPrefix = "lrk_"
	maxToken    = 128
)

// Ring is the keys in effect. A nil Ring is off. It is safe for concurrent use.
type Ring struct {
	table   atomic.Pointer[table]
	metrics *metrics
	replace sync.Mutex // one at a time
}

// table is the keys of one file. It does not change.
type table struct {
	given   bool
	holders map[secret.Hash]*Holder // by their keys
	names   map[string]bool
}

// Holder is whose a key is, in one file.
type Holder struct {
	// Name is the holder's, for metrics and log lines.
	Name string
	// Calls and Weight are what all keys of the holder together may use per minute; 0: any amount.
	Calls, Weight int

	hash     secret.Hash // of the key that was found
	anything bool        // all methods
	methods  map[string]bool
	stems    []string
	metrics  *metrics
}

// Reason is why a call with a key, or a request, was refused.
type Reason string

// The reasons.
const (
	ByLimit  Reason = "limit"   // the holder's limit is used up
	ByMethod Reason = "method"  // the holder may not call the method
	Unknown  Reason = "unknown" // there is no such key
	Missing  Reason = "missing" // a key is needed
)

// NewRing makes a ring of a file's keys.
func NewRing(f File) *Ring {
	r := &Ring{metrics: newMetrics()}
	r.Replace(f)
	return r
}

// On tells whether there is a file of keys.
func (r *Ring) On() bool { return r != nil && r.table.Load().given }

// Replace puts the keys of a file into effect in place of those before.
func (r *Ring) Replace(f File) {
	r.replace.Lock()
	defer r.replace.Unlock()
	next := &table{given: f.Given(), holders: map[secret.Hash]*Holder{}, names: map[string]bool{}}
	for _, l := range f.lines {
		next.names[l.Name] = true
		for _, hash := range l.Hashes {
			next.holders[hash] = newHolder(l, hash, r.metrics)
		}
	}
	before := r.table.Swap(next)
	if before == nil {
		return
	}
	for name := range before.names {
		if !next.names[name] {
			r.metrics.forget(name)
		}
	}
}

func newHolder(l line, hash secret.Hash, m *metrics) *Holder {
	h := &Holder{Name: l.Name, Calls: l.Calls, Weight: l.Weight, hash: hash, anything: len(l.Methods) == 0, methods: map[string]bool{}, metrics: m}
	for _, method := range l.Methods {
		if stem, many := strings.CutSuffix(method, "*"); many {
			h.stems = append(h.stems, stem)
		} else {
			h.methods[method] = true
		}
	}
	return h
}

// Find returns the holder of a token.
func (r *Ring) Find(token string) (*Holder, bool) {
	if len(token) > maxToken || !strings.HasPrefix(token, tokenPrefix) {
		return nil, false
	}
	return r.find(secret.HashOf(token))
}

// Current returns the holder that a key has now; false if the key is not valid any more.
func (r *Ring) Current(h *Holder) (*Holder, bool) { return r.find(h.hash) }

// find looks a hash up. How long that takes tells something of the hash of what the caller sent, and from a hash nobody finds a token.
func (r *Ring) find(hash secret.Hash) (*Holder, bool) {
	h, ok := r.table.Load().holders[hash]
	return h, ok
}

// May tells whether the holder may call a method.
func (h *Holder) May(method string) bool {
	return h.anything || h.methods[method] || slices.ContainsFunc(h.stems, func(stem string) bool { return strings.HasPrefix(method, stem) })
}

// Used counts a call that was let through.
func (h *Holder) Used(weight int) {
	h.metrics.calls.WithLabelValues(h.Name).Inc()
	h.metrics.weight.WithLabelValues(h.Name).Add(float64(weight))
}

// Refused counts a call that was not.
func (h *Holder) Refused(why Reason) {
	h.metrics.refusedCalls.WithLabelValues(h.Name, string(why)).Inc()
}

// Refused counts a request without a valid key.
func (r *Ring) Refused(why Reason) { r.metrics.refused.WithLabelValues(string(why)).Inc() }

// metrics have the names of holders, never a key.
type metrics struct {
	metric.Set
	calls, weight, refusedCalls, refused *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{}
	m.calls = m.Counters("lockstep_api_key_calls_total", "Calls with an API key that were let through, by the name of the key.", "key")
	m.weight = m.Counters("lockstep_api_key_weight_total", "Weight of the calls with an API key that were let through, by the name of the key.", "key")
	m.refusedCalls = m.Counters("lockstep_api_key_refused_calls_total", "Calls with an API key that were refused, by the name of the key and the reason (limit, method).", "key", "reason")
	m.refused = m.Counters("lockstep_api_key_refused_requests_total", "Requests and WebSocket handshakes that were refused for their API key, by the reason (unknown, missing).", "reason")
	return m
}

func (m *metrics) forget(name string) {
	for _, v := range []*prometheus.CounterVec{m.calls, m.weight, m.refusedCalls} {
		v.DeletePartialMatch(prometheus.Labels{"key": name})
	}
}

// Collectors returns everything there is to register.
func (r *Ring) Collectors() []prometheus.Collector { return r.metrics.Collectors() }
