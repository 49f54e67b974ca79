package mirror

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A mirror node that has too many requests, and does not say for how long, is waited for.
func TestTooManyRequestsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		wires := newWires()
		url := wires.serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			status := http.StatusNotFound
			if asked.Add(1) == 1 {
				status = http.StatusTooManyRequests
			}
			w.WriteHeader(status)
		}))
		client := connectOver(t, wires, url)
		if _, err := client.BlockByNumber(t.Context(), 17); !errors.Is(err, ErrNotFound) || asked.Load() != 2 {
			t.Errorf("%v after %d requests", err, asked.Load())
		}
	})
}
