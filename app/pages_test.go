package app

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/telemetry"
)

// slowReader takes nothing until it is released.
type slowReader struct {
	*httptest.ResponseRecorder
	writes  chan<- struct{}
	release <-chan struct{}
}

func (s slowReader) Write(text []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.release
	return s.ResponseRecorder.Write(text)
}

// Readers that take their time keep nobody from the metrics, and have no more pages in memory than they may.
func TestSlowReadersOfMetrics(t *testing.T) {
	a := &App{registry: prometheus.NewRegistry(), tracer: new(telemetry.Tracer), memory: capacity.NewMemory(capacity.Config{Limit: 4, Requests: 1, Client: 1, Request: 1})}
	a.registry.MustRegister(collectors.NewGoCollector())
	page := a.metricsPage()
	get := func(w http.ResponseWriter, from string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.RemoteAddr = from
		page.ServeHTTP(w, r)
	}
	const readers = 1000 // their pages are larger than a megabyte together
	writes, release := make(chan struct{}, readers), make(chan struct{})
	var all sync.WaitGroup
	for range readers {
		w := httptest.NewRecorder()
		all.Go(func() { get(slowReader{w, writes, release}, "192.0.2.1:1") })
	}
	for range readers { // each waits for its reader now
		<-writes
	}
	w := httptest.NewRecorder()
	if get(w, "192.0.2.2:1"); w.Code != http.StatusOK || w.Body.Len() < 1000 {
		t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
	}
	if peak := a.memory.Peak(); peak > 1<<20 {
		t.Errorf("%d bytes were held", peak)
	}
	close(release)
	all.Wait()
	if used := a.memory.Used(); used != 0 {
		t.Errorf("%d bytes are held still", used)
	}
}
