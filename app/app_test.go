package app_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/app"
	"lockstep/config"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
	"lockstep/internal/relay/apikey"
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

// TestMain lets more tests run at the same time than there are processors: most wait for the time of a relay to be up.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// reloadable runs a relay without a network, which reads its settings again with further ones. It returns its log.
func reloadable(t *testing.T, further func() []string) (*app.App, *journal) {
	t.Helper()
	load := func() (config.Config, error) {
		return config.Load(slices.Concat([]string{
			`HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`, "MIRROR_NODE_URL=http://127.0.0.1:1", "READ_ONLY=true", "SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "SHUTDOWN_DRAIN_DELAY_MS=0",
		}, patient, further()))
	}
	log := new(journal)
	relay := must.Get(app.New(must.Get(load())(t), "test", slog.New(slog.NewTextHandler(log, nil))))(t)
	relay.Reloads(load, func(config.Config) {})
	serving(t, relay)
	return relay, log
}

// takes reads the settings again, of which one has changed.
func takes(t *testing.T, relay *app.App, setting string) {
	t.Helper()
	done, err := relay.Reload(t.Context())
	if err != nil || !slices.Equal(done.Changed, []string{setting}) || len(done.Restart) != 0 {
		t.Errorf("reloaded %+v, %v", done, err)
	}
}

// Reading the settings again tells of a misspelt name, as the start does, also while another setting is wrong.
func TestReloadTellsOfMisspeltNames(t *testing.T) {
	t.Parallel()
	var more []string
	relay, log := reloadable(t, func() []string { return more })
	for i, step := range []struct {
		more  []string
		warns int // so far
		fails bool
	}{
		{nil, 0, false},
		{[]string{"TIER_1_RATE_LIMTI=5"}, 1, false},
		{[]string{"TIER_1_RATE_LIMTI=5", "LOG_LEVEL=loud"}, 2, true},
	} {
		more = step.more
		_, err := relay.Reload(t.Context())
		if warned := log.with("name=TIER_1_RATE_LIMTI setting=TIER_1_RATE_LIMIT"); (err != nil) != step.fails || len(warned) != step.warns {
			t.Errorf("step %d: %v, warned: %q", i, err, warned)
		}
	}
}

// A running relay takes another file of keys. A file with a mistake changes nothing.
func TestKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	first, firstLine := must.Get2(apikey.New("first"))(t)
	second, secondLine := must.Get2(apikey.New("second"))(t)
	name := filepath.Join(t.TempDir(), "keys.txt")
	write := func(text string) { must.Do(t, os.WriteFile(name, []byte(text), 0o600)) }
	write(firstLine)
	relay, log := reloadable(t, func() []string { return []string{"API_KEYS_FILE=" + name, "API_KEYS_REQUIRED=true"} })
	url := "http://" + relay.HTTPAddr()
	want := func(when string, statuses ...int) {
		t.Helper()
		for i, token := range []string{first.Reveal(), second.Reveal()} {
			if status, answer := ask(t, http.MethodPost, url, rpcBody("eth_chainId"), "Authorization", "Bearer "+token); status != statuses[i] {
				t.Errorf("%s, key %d: %d %s", when, i+1, status, answer)
			}
		}
	}
	want("at first", 200, 401)
	write(secondLine + " methods=eth_chainId,eth_chanId")
	takes(t, relay, "API_KEYS_FILE")
	want("after the change", 401, 200)
	write("second " + second.Reveal())
	if _, err := relay.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "API_KEYS_FILE") || strings.Contains(err.Error(), second.Reveal()[4:]) {
		t.Errorf("a mistake: %v", err)
	}
	want("after the mistake", 401, 200)
	if status, _ := ask(t, http.MethodGet, url+"/health/liveness", ""); status != 200 {
		t.Errorf("a probe without a key: %d", status)
	}
	if _, page := ask(t, http.MethodGet, url+"/metrics", ""); !strings.Contains(page, `lockstep_api_key_calls_total{key="second"} 2`) || strings.Contains(page, `{key="first"}`) {
		t.Errorf("metrics:\n%s", page)
	}
	if len(log.with("eth_chanId")) == 0 {
		t.Error("nobody is told of a misspelt method")
	}
	if len(log.with(first.Reveal()[4:])) > 0 || len(log.with(second.Reveal()[4:])) > 0 {
		t.Error("the log shows a key")
	}
}

// A method's own limit counts in place of its tier's, and a running relay
// takes another one. Whoever calls too often is told so as at the limits of tiers.
func TestLimitsOfMethods(t *testing.T) {
	t.Parallel()
	limits := "eth_chainId=1,net_*=0,eth_chanId=5"
	relay, log := reloadable(t, func() []string {
		return []string{"RATE_LIMIT_DISABLED=false", "LIMIT_DURATION=86400000", "TIER_2_RATE_LIMIT=3", "METHOD_RATE_LIMITS=" + limits}
	})
	want := func(method string, statuses ...int) {
		t.Helper()
		for i, want := range statuses {
			response, err := http.Post("http://"+relay.HTTPAddr(), "application/json", strings.NewReader(rpcBody(method)))
			must.Do(t, err)
			text, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			again := response.Header.Get("Retry-After")
			limited := response.StatusCode == http.StatusTooManyRequests
			if err != nil || response.StatusCode != want || limited != strings.Contains(string(text), "-32605") || limited != (again != "") {
				t.Errorf("call %d of %s, limits %s: %d %s, again after %q, %v", i+1, method, limits, response.StatusCode, text, again, err)
			}
		}
	}
	want("eth_chainId", 200, 429)
	want("net_version", 429)
	want("eth_accounts", 200, 200, 200, 429) // that of the tier
	if told := log.with("METHOD_RATE_LIMITS names a method"); len(told) != 1 || !strings.Contains(told[0], "method=eth_chanId") {
		t.Errorf("of misspelt methods the log says %q", told)
	}
	limits = "eth_chainId=4,eth_account*=0"
	takes(t, relay, "METHOD_RATE_LIMITS")
	want("eth_chainId", 200, 200, 200, 429) // one was let through before
	want("net_version", 200)
	want("eth_accounts", 429)
	limits = "eth_chainId"
	if _, err := relay.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "METHOD_RATE_LIMITS") {
		t.Errorf("a limit without a number: %v", err)
	}
}

// The line about a transaction says with which request it came and from whom, its gas and why it
// was refused; addresses are spelt in one way in all lines.
func TestTransactionLineNamesRequestClientGasAndReason(t *testing.T) {
	w := newWorld(t)
	for setting, client := range map[string]string{
		"full": " client=198.51.100.7 ", "network": " client=198.51.100.0/24 ", "none": "",
	} {
		r, sender := w.relay(t, "ENABLE_NONCE_ORDERING=true", "LOG_CLIENT_ADDRESS="+setting), w.account(t)
		unpaid := sender.pay(0)
		unpaid.GasFeeCap = big.NewInt(1)
		tx := sender.sign(unpaid)
		raw := must.Get(tx.MarshalBinary())(t)
		ask(t, http.MethodPost, r.url, `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["`+hexutil.Encode(raw)+`"]}`,
			"X-Request-Id", "request-7", "X-Forwarded-For", "198.51.100.7")
		raw = must.Get(sender.sign(sender.pay(0)).MarshalBinary())(t)
		ask(t, http.MethodPost, r.url, `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["`+hexutil.Encode(raw)+`"]}`, "X-Request-Id", "request-8")
		r.until("both lines", func() bool { return len(r.log.with(outcomeLine)) == 2 })
		lines := r.log.with(outcomeLine)
		if len(lines) != 2 {
			t.Fatalf("%d lines: %q", len(lines), lines)
		}
		for _, part := range []string{" request_id=request-7 ", client, " gas=" + strconv.Itoa(1_000_000) + " ", " reason=", " sender=" + strings.ToLower(sender.address.Hex()) + " "} {
			if !strings.Contains(lines[0], part) {
				t.Errorf("%s: no %q in %s", setting, part, lines[0])
			}
		}
		if client == "" && strings.Contains(lines[0], "client=") {
			t.Errorf("the client is named: %s", lines[0])
		}
		for _, line := range r.log.with(sender.address.Hex()) {
			t.Errorf("an address with capitals: %s", line)
		}
		// So do the lines of the lock and the consensus client, each once.
		for _, what := range []string{"lock acquired", "lock released", "offered transaction"} {
			r.until(what, func() bool { return len(r.log.with(what)) > 0 })
			if said := r.log.with(what); strings.Count(said[len(said)-1], "request_id=request-8") != 1 {
				t.Errorf("%s: %s", what, said)
			}
		}
	}
}

// Slow reads of clients take all connections to the mirror node but those that are kept for sends. Meanwhile new
// senders and a burst are checked, submitted and executed, before one of these reads has its answer.
func TestSlowReadsDoNotKeepSendsWaiting(t *testing.T) {
	t.Parallel()
	const places, kept, slow, burst = 10, 1, 40, 20
	w := newWorld(t)
	r := w.relay(t, "ENABLE_NONCE_ORDERING=true", "MIRROR_NODE_HTTP_MAX_SOCKETS=10", "MIRROR_NODE_TIMEOUT=120000", "SERVER_REQUEST_TIMEOUT_MS=120000", "RATE_LIMIT_DISABLED=true", aBurst)
	release := make(chan struct{})
	var held, answered atomic.Int64
	w.spoilMirror(t, func(q *http.Request) mirrorrest.Fault {
		if strings.HasSuffix(q.URL.Path, "/contracts/call") {
			held.Add(1)
			<-release
		}
		return mirrorrest.Fault{}
	})
	target := w.account(t).address
	var reads sync.WaitGroup
	for i := range slow {
		reads.Go(func() {
			call := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"%s","data":"0x%s"},"latest"]}`, target, strings.Repeat("ab", i+1))
			from := fmt.Sprintf("192.0.2.%d", i) // one client has not all of these places
			if _, got := ask(t, http.MethodPost, r.url, call, "X-Forwarded-For", from); !strings.Contains(got, `"result"`) {
				t.Errorf("a read: %s", got)
			}
			answered.Add(1)
		})
	}
	r.until("the reads have their places", func() bool { return held.Load() >= places-kept })
	for range 3 {
		a := w.account(t)
		var sends sync.WaitGroup
		for nonce := range uint64(burst) {
			sends.Go(func() {
				if got := r.send(a.sign(a.pay(nonce))); got.Error != nil {
					t.Errorf("nonce %d: %s", nonce, got)
				}
			})
		}
		sends.Wait()
		if got := w.nonce(t, a); got != burst {
			t.Errorf("%d of %d were executed", got, burst)
		}
	}
	if n := answered.Load(); n != 0 {
		t.Errorf("%d reads were answered before the sends", n)
	}
	if n := held.Load(); n != places-kept {
		t.Errorf("%d reads were under way, want %d", n, places-kept)
	}
	close(release)
	reads.Wait()
	if n := r.scrape()[`rpc_relay_mirror_waiting_requests_total{class="read"}`]; n == 0 {
		t.Error("no read is counted as one that waited for a place")
	}
}

// No page, log line or metric shows a token or a key.
func TestSecretsStaySecret(t *testing.T) {
	w := newWorld(t)
	const token = "sesame-4711"
	r := w.relay(t, "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_TOKEN="+token, "MIRROR_NODE_URL_HEADER_X_API_KEY=sesame-4712")
	r.app.Announce(t.Context())
	r.call("eth_sendRawTransaction", "0x01")
	said := strings.Join(r.log.with(""), "\n")
	for _, path := range []string{"/metrics", "/config", "/health/readiness", "/openrpc"} {
		_, body := ask(t, http.MethodGet, r.url+path, "")
		said += body
	}
	_, page := ask(t, http.MethodGet, "http://"+r.app.AdminAddr()+"/ui/", "")
	key := devaccounts.OperatorKey
	for _, secret := range []string{token, "sesame-4712", key, strings.ToLower(key[len(key)-64:])} {
		if strings.Contains(strings.ToLower(said+page), strings.ToLower(secret)) {
			t.Errorf("a secret of %d characters is shown", len(secret))
		}
	}
	if len(said) < 10_000 {
		t.Error("hardly anything was looked at")
	}
}

// A console on loopback without a token draws one, unless that is switched off.
func TestConsoleDrawsAToken(t *testing.T) {
	w := newWorld(t)
	for setting, want := range map[string]int{"ADMIN_LOOPBACK_TOKEN=true": http.StatusUnauthorized, "ADMIN_LOOPBACK_TOKEN=false": http.StatusOK} {
		r := w.relay(t, "ADMIN_ADDRESS=127.0.0.1:0", setting)
		if status, _ := ask(t, http.MethodGet, "http://"+r.app.AdminAddr()+"/locks", ""); status != want {
			t.Errorf("%s: %d, want %d", setting, status, want)
		}
	}
}
