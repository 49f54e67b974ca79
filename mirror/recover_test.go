package mirror

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/envx"
)

// A mirror node that has too many requests, and does not say for how long, is waited for.
func TestTooManyRequestsAreWaitedFor(t *testing.T) {
	n := newNode(t)
	var asked atomic.Int64
	answer := n.handler
	if answer == nil {
		answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	}
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answer(w, r)
	}
	client := connect(t, n.URL, func(c *Config) { c.Timeout, c.RetryBudget = envx.Millis(20*time.Second), 0.2 })
	if _, err := client.BlockByNumber(t.Context(), 17); !errors.Is(err, ErrNotFound) || asked.Load() != 2 {
		t.Errorf("%v after %d requests", err, asked.Load())
	}
}
