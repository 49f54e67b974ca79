package capacity

import (
	"fmt"
	"sync"
	"time"
)

// Scope is whose limit was reached.
type Scope string

// The scopes.
const (
	ScopeRequest Scope = "request" // bytes of one request
	ScopeClient  Scope = "client"  // bytes of one client
	ScopeProcess Scope = "process" // bytes of all
	ScopeTime    Scope = "time"    // processor time of one request
	ScopeQueue   Scope = "queue"   // work that waits for its permit
)

// Exceeded says that a request may not take more.
type Exceeded struct {
	Scope Scope
	Limit int64 // bytes, milliseconds for ScopeTime, pieces of work for ScopeQueue
}

func (e *Exceeded) Error() string {
	switch e.Scope {
	case ScopeTime:
		return fmt.Sprintf("the request takes more than %d milliseconds of processor time", e.Limit)
	case ScopeQueue:
		return fmt.Sprintf("%d pieces of work wait already", e.Limit)
	case ScopeRequest, ScopeClient, ScopeProcess:
	}
	return fmt.Sprintf("the %s takes more than %d bytes of memory", e.Scope, e.Limit)
}

// Memory is the bytes that all requests of this process may hold together. It is safe for
// concurrent use.
type Memory struct {
	limit, perClient, perRequest int64
	shared                       bool // no client holds more than is left for all others
	perRequestTime               time.Duration
	metrics                      *metrics

	mu      sync.Mutex
	used    int64            // guarded by mu
	peak    int64            // of used, since Peak was asked last; guarded by mu
	clients map[string]int64 // bytes of those who hold any; guarded by mu
}

// NewMemory makes the memory that the settings allow.
func NewMemory(c Config) *Memory {
	m := &Memory{
		limit: c.requests(), perClient: c.client(), perRequest: c.request(), perRequestTime: c.RequestTime.Duration(),
		shared: c.Client == 0, clients: make(map[string]int64),
	}
	m.metrics = newMetrics(m)
	return m
}

func (m *Memory) exceeded(s Scope) error {
	limit := map[Scope]int64{
		ScopeRequest: m.perRequest, ScopeClient: m.perClient, ScopeProcess: m.limit, ScopeTime: m.perRequestTime.Milliseconds(),
	}[s]
	return &Exceeded{Scope: s, Limit: limit}
}

func (m *Memory) take(client string, bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.used+bytes > m.limit:
		return m.exceeded(ScopeProcess)
	case m.clients[client]+bytes > m.perClient, m.shared && m.clients[client]+bytes > m.limit-m.used-bytes:
		return m.exceeded(ScopeClient)
	}
	m.used += bytes
	m.peak = max(m.peak, m.used)
	m.clients[client] += bytes
	return nil
}

func (m *Memory) give(client string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= bytes
	if m.clients[client] -= bytes; m.clients[client] <= 0 {
		delete(m.clients, client)
	}
}

// Used returns how many bytes all requests hold.
func (m *Memory) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// Peak returns the largest number of bytes that requests held at a time since Peak was
// called last.
func (m *Memory) Peak() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	peak := m.peak
	m.peak = m.used
	return peak
}
