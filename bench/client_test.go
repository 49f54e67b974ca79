package bench

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// Reads are repeated when the target is busy, and only then.
func TestReadRetries(t *testing.T) {
	tests := map[string]struct {
		first string // answers before the good one; empty: HTTP 502
		times int64
		ok    bool
		calls int64
	}{
		"at once":         {times: 0, ok: true, calls: 1},
		"rate limit":      {first: `{"id":null,"error":{"code":-32605,"message":"limit"}}`, times: 2, ok: true, calls: 3},
		"gateway":         {times: 2, ok: true, calls: 3},
		"verdict":         {first: `{"id":null,"error":{"code":-32602,"message":"invalid"}}`, times: 9, ok: false, calls: 1},
		"no such method":  {first: `{"id":null,"error":{"code":-32601,"message":"no"}}`, times: 9, ok: false, calls: 1},
		"busy throughout": {first: `{"id":null,"error":{"code":-32603,"message":"busy"}}`, times: 99, ok: false, calls: readAttempts},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			url, _ := countedServer(t, func(w http.ResponseWriter, r *http.Request) {
				if n := calls.Add(1); n <= test.times {
					if test.first == "" {
						w.WriteHeader(http.StatusBadGateway)
					}
					_, _ = io.WriteString(w, test.first)
					return
				}
				echo(w, r)
			})
			c := newClient([]string{url})
			defer c.close()
			v, err := c.quantity(t.Context(), "eth_blockNumber")
			if (err == nil) != test.ok || calls.Load() != test.calls {
				t.Errorf("%v, error %v after %d calls, want %d", v, err, calls.Load(), test.calls)
			}
		})
	}
}

func TestRateLimited(t *testing.T) {
	for _, err := range []error{&rpcError{Code: -32605}, &rpcError{Code: -32005}, transportError{statusError(429)}} {
		if !rateLimited(err) {
			t.Errorf("%v is a rate limit", err)
		}
	}
	for _, err := range []error{nil, &rpcError{Code: -32000}, transportError{statusError(502)}} {
		if rateLimited(err) {
			t.Errorf("%v is no rate limit", err)
		}
	}
}

func TestSleepUntil(t *testing.T) {
	start := time.Now()
	sleepUntil(t.Context(), start.Add(5*time.Millisecond))
	if d := time.Since(start); d < 5*time.Millisecond {
		t.Errorf("woke after %v", d)
	}
	sleepUntil(t.Context(), start) // the past
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sleepUntil(ctx, start.Add(time.Hour))
}
