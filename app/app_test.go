package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"lockstep/app"
	"lockstep/config"
	"lockstep/internal/must"
)

const operatorKey = "105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524"

// start runs a relay whose mirror node and consensus node do not answer: what it
// serves by itself must work without them.
func start(t *testing.T, more ...string) *app.App {
	t.Helper()
	relay := build(t, more...)
	serving(t, relay)
	return relay
}

// serving runs a relay until the test ends.
func serving(t *testing.T, relay *app.App) {
	t.Helper()
	http, ws := relay.Endpoints()
	must.Do(t, relay.Listen(t.Context(), http, ws))
	running(t, relay)
}

// running runs a relay that listens already, until the test ends.
func running(t *testing.T, relay *app.App) {
	t.Helper()
	must.Run(t, relay.Run)
}

func build(t *testing.T, more ...string) *app.App {
	t.Helper()
	cfg := must.Get(config.Load(append([]string{
		"CHAIN_ID=298", `HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1",
		"OPERATOR_ID_MAIN=0.0.1002", "OPERATOR_KEY_FORMAT=HEX_ECDSA", "OPERATOR_KEY_MAIN=" + operatorKey,
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "WEB_SOCKET_PORT=0", "RPC_WS_ENABLED=true", "ENABLE_NONCE_ORDERING=true", "SHUTDOWN_DRAIN_DELAY_MS=0",
	}, append(slices.Clone(patient), more...)...)))(t)
	return must.Get(app.New(cfg, "test", slog.New(slog.DiscardHandler)))(t)
}

// ask makes a request and returns status and body.
func ask(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := (&http.Client{Timeout: 5 * generous}).Do(request)
	must.Do(t, err)
	defer response.Body.Close()
	content := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(content)
}

func TestPagesWithoutANetwork(t *testing.T) {
	base := "http://" + start(t, "ADMIN_TOKEN=sesame").HTTPAddr()
	tests := map[string]struct{ want, never string }{
		"/health/liveness": {want: "OK"},
		"/metrics":         {want: "rpc_relay_lock_waiting_txns", never: operatorKey},
		"/config":          {want: `"OPERATOR_KEY_MAIN": "**********"`, never: operatorKey},
	}
	for path, test := range tests {
		status, body := ask(t, http.MethodGet, base+path, "")
		if status != http.StatusOK || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d %.200s, want %q", path, status, body, test.want)
		}
		if test.never != "" && strings.Contains(body, test.never) || strings.Contains(body, "sesame") {
			t.Errorf("%s shows a secret", path)
		}
	}
	if status, body := ask(t, http.MethodGet, base+"/health/readiness", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, `"upstream":"mirror"`) {
		t.Errorf("ready without a network: %d %s", status, body)
	}
	status, body := ask(t, http.MethodPost, base, `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`)
	if status != http.StatusOK || !strings.Contains(body, `"0x12a"`) {
		t.Errorf("eth_chainId: %d %s", status, body)
	}
	status, body = ask(t, http.MethodPost, base, `{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}`)
	if status != http.StatusInternalServerError || !strings.Contains(body, "-32020") || strings.Contains(body, "127.0.0.1") {
		t.Errorf("eth_blockNumber without a mirror node: %d %s", status, body)
	}
}

func TestAdminNamespaceCanBeHidden(t *testing.T) {
	base := "http://" + start(t, "DISABLE_ADMIN_NAMESPACE=true", "DEBUG_API_ENABLED=true").HTTPAddr()
	if status, body := ask(t, http.MethodGet, base+"/config", ""); status != http.StatusNotFound || body != "Not Found" {
		t.Errorf("/config: %d %s", status, body)
	}
	for method, want := range map[string]string{"admin_config": "-32601", "rpc_modules": `{"debug":"1.0","eth":"1.0","net":"1.0","rpc":"1.0","web3":"1.0"}`} {
		if _, body := ask(t, http.MethodPost, base, rpcBody(method)); !strings.Contains(body, want) {
			t.Errorf("%s: %s", method, body)
		}
	}
}

func rpcBody(method string) string { return `{"jsonrpc":"2.0","id":1,"method":"` + method + `"}` }

// The page and the method show every setting, each where it belongs, and no secret; on
// which version the consensus nodes are comes from the newest block.
func TestSettings(t *testing.T) {
	w := newWorld(t)
	r := w.relay(t, "REDIS_URL=redis://:hunter2@127.0.0.1:1", "ADMIN_TOKEN=sesame", "MIRROR_NODE_AUTH_HEADER=Bearer abc123", "SDK_MAX_ATTEMPTS=7", "TIER_3_RATE_LIMIT=4711", "MIRROR_NODE_TIMEOUT=61000")
	shown := r.call("admin_config")
	for _, word := range []string{operatorKey, "hunter2", "sesame", "abc123"} {
		if shown.Error != nil || strings.Contains(shown.String(), word) {
			t.Errorf("%s is in %s", word, shown)
		}
	}
	type part struct {
		Service, Version string
		Config           map[string]string
	}
	var got struct {
		Relay                part
		UpstreamDependencies []part
	}
	if err := json.Unmarshal(shown.Result, &got); err != nil || len(got.UpstreamDependencies) != 2 {
		t.Fatalf("%v in %s", err, shown)
	}
	nodes, mirror := got.UpstreamDependencies[0], got.UpstreamDependencies[1]
	if got.Relay.Version != "test" || nodes.Service != "consensusNode" || mirror.Service != "mirrorNode" || nodes.Version != "0.75.0" {
		t.Errorf("%s", shown)
	}
	for name, where := range map[string]struct {
		part map[string]string
		want string
	}{
		"TIER_3_RATE_LIMIT": {got.Relay.Config, "4711"}, "SDK_MAX_ATTEMPTS": {nodes.Config, "7"}, "MIRROR_NODE_TIMEOUT": {mirror.Config, "1m1s"},
		"OPERATOR_KEY_MAIN": {got.Relay.Config, "**********"}, "MIRROR_NODE_AUTH_HEADER": {mirror.Config, "**********"},
	} {
		if where.part[name] != where.want {
			t.Errorf("%s is %q, want %q", name, where.part[name], where.want)
		}
	}
}

func TestAdmin(t *testing.T) {
	relay := build(t, "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_TOKEN=sesame", "TX_STATUS_TRACING=true")
	relay.Develops(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}, nil)
	relay.Beside("the manager", "http://127.0.0.1:2")
	serving(t, relay)
	base := "http://" + relay.AdminAddr()
	const sender = "0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"
	token := []string{"Authorization", "Bearer sesame"}
	tests := []struct {
		method, path, body string
		headers            []string
		status             int
		want               string
	}{
		{"GET", "/locks", "", nil, 401, "bearer"},
		{"GET", "/locks", "", []string{"Authorization", "Bearer sesam"}, 401, "bearer"},
		{"GET", "/locks", "", append([]string{"Origin", "http://evil.example"}, token...), 403, "other origins"},
		{"GET", "/locks", "", token, 200, `{"lanes":[]}`},
		{"GET", "/ordering", "", token, 200, `{"enabled":true,"ordered":"all senders"}`},
		{"PUT", "/ordering", `{"enabled":false}`, token, 200, `{"enabled":false,"ordered":"all senders"}`},
		{"GET", "/ordering", "", token, 200, `{"enabled":false,"ordered":"all senders"}`},
		{"PUT", "/ordering", `{}`, token, 400, "want"},
		{"PUT", "/ordering", strings.Repeat("x", 2000), token, 400, "want"},
		{"POST", "/locks/" + sender + "/release", "", token, 200, `{"released":false}`},
		{"POST", "/locks/nobody/release", "", token, 400, "not an address"},
		{"GET", "/debug/pprof/cmdline", "", token, 404, ""},
		{"GET", "/ui/mirror/network/fees", "", token, 502, ""},
		{"GET", "/ui/about", "", token, 200, "http://127.0.0.1:2"},
		{"GET", "/ui/records/0x" + strings.Repeat("01", 32), "", token, 404, "nothing is known of this transaction"},
		{"POST", "/ui/rpc", rpcBody("eth_chainId"), token, 200, "0x12a"},
		{"POST", "/reload", "", token, 404, ""}, // it cannot read its settings again
		{"GET", "/nothing", "", token, 404, ""},
	}
	for _, test := range tests {
		status, body := ask(t, test.method, base+test.path, test.body, test.headers...)
		if status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s %s: %d %s, want %d %q", test.method, test.path, status, body, test.status, test.want)
		}
	}
}

// Without a token the admin server listens on loopback only.
func TestAdminNeedsATokenOffLoopback(t *testing.T) {
	cfg := must.Get(config.Load([]string{`HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true"}))(t)
	cfg.Server.AdminAddress = "0.0.0.0:0" // Load refuses it
	relay, err := app.New(cfg, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	err = relay.Listen(t.Context(), app.Endpoint{}, app.Endpoint{})
	if err == nil || !strings.Contains(err.Error(), "ADMIN_TOKEN") {
		t.Errorf("Listen = %v", err)
	}
}

// A taken port is told with its number and with what chooses another.
func TestTakenPort(t *testing.T) {
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	err = build(t).Listen(t.Context(), app.Endpoint{Address: taken.Addr().String(), Setting: "--http"}, app.Endpoint{})
	if want := fmt.Sprintf("port %s is taken", port); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--http") {
		t.Errorf("Listen = %v, want %q", err, want)
	}
}

// What was set for another relay and does nothing here is named when the relay starts.
func TestIdleSettingsAreNamed(t *testing.T) {
	cfg := must.Get(config.Load([]string{
		`HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true",
		"HAPI_CLIENT_ERROR_RESET=[21, 50]", "GET_RECORD_DEFAULT_TO_CONSENSUS_NODE=true",
	}))(t)
	var log strings.Builder
	must.Get(app.New(cfg, "test", slog.New(slog.NewTextHandler(&log, nil))))(t)
	if want := `settings="GET_RECORD_DEFAULT_TO_CONSENSUS_NODE HAPI_CLIENT_ERROR_RESET"`; !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %s:\n%s", want, log.String())
	}
}
