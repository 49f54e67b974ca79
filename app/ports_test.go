package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/internal/must"
)

// A process that serves WebSocket alone answers probes and Prometheus on a port of its own,
// and nothing else there.
func TestWebSocketOnlyProcessAnswersProbesAndPrometheus(t *testing.T) {
	r := start(t, "RPC_HTTP_ENABLED=false", "WEB_SOCKET_HTTP_PORT=0")
	if r.HTTPAddr() != "" {
		t.Errorf("HTTP is served on %s", r.HTTPAddr())
	}
	base := "http://" + r.StatusAddr()
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/health/liveness":  {http.StatusOK, "OK"},
		"/health/readiness": {http.StatusServiceUnavailable, `"upstream":"mirror"`},
		"/metrics":          {http.StatusOK, "rpc_websocket_active_connections 1"},
		"/config":           {http.StatusNotFound, ""},
		"/":                 {http.StatusNotFound, ""},
	} {
		client := must.Get(rpc.DialContext(t.Context(), "ws://"+r.WSAddr()))(t)
		must.Until(t, "the connection counts", func() bool { // which is after the client has the answer to its upgrade
			_, body := ask(t, http.MethodGet, base+"/metrics", "")
			return strings.Contains(body, "rpc_websocket_active_connections 1")
		})
		if status, body := ask(t, http.MethodGet, base+path, ""); status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d %.200s, want %d %s", path, status, body, want.status, want.text)
		}
		client.Close()
		must.Until(t, "the connection has ended", func() bool {
			_, body := ask(t, http.MethodGet, base+"/metrics", "")
			return strings.Contains(body, "rpc_websocket_active_connections 0")
		})
	}
	if addr := start(t, "WEB_SOCKET_HTTP_PORT=0").StatusAddr(); addr != "" {
		t.Errorf("beside the HTTP port, %s is open", addr)
	}
}

// Without RPC_WS_ENABLED no port speaks WebSocket; with it, the HTTP port does so as well.
func TestWebSocketIsClosedOnEveryPort(t *testing.T) {
	off := start(t, "RPC_WS_ENABLED=false")
	if off.WSAddr() != "" {
		t.Errorf("WebSocket is served on %s", off.WSAddr())
	}
	if client, err := rpc.DialContext(t.Context(), "ws://"+off.HTTPAddr()); err == nil {
		client.Close()
		t.Error("the HTTP port speaks WebSocket")
	}
	if status, body := ask(t, http.MethodPost, "http://"+off.HTTPAddr(), rpcBody("eth_chainId")); status != http.StatusOK {
		t.Errorf("HTTP: %d %s", status, body)
	}
	on := start(t)
	for _, address := range []string{on.HTTPAddr(), on.WSAddr()} {
		client, err := rpc.DialContext(t.Context(), "ws://"+address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		client.Close()
	}
}
