package rpc

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/relay/apikey"
)

// keyFile writes a file of keys, one for each name, with what follows the hash. It returns the keys by name.
func keyFile(t *testing.T, holders map[string]string) (f apikey.File, tokens map[string]string) {
	t.Helper()
	tokens = map[string]string{}
	var lines []string
	for name, more := range holders {
		token, line := newKey(t, name)
		tokens[name] = token
		lines = append(lines, line+" "+more)
	}
	return fileOf(t, lines...), tokens
}

func newKey(t *testing.T, name string) (token, line string) {
	t.Helper()
	key, line := must.Get2(apikey.New(name))(t)
	return key.Reveal(), line
}

func fileOf(t *testing.T, lines ...string) (f apikey.File) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	must.Do(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600))
	must.Do(t, f.UnmarshalText([]byte(name)))
	return f
}

// tally is quotas, and a limiter of calls, whose window does not end.
type tally struct {
	limit int // of calls
	mu    sync.Mutex
	used  map[string]int
}

func newTally(limit int) *tally { return &tally{limit: limit, used: map[string]int{}} }

func (q *tally) Allow(ctx context.Context, ip, method string) bool {
	return q.Spend(ctx, ip, method, 1, q.limit)
}

func (q *tally) Spend(_ context.Context, holder, what string, amount, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := holder + " " + what
	if q.used[key]+amount > limit {
		return false
	}
	q.used[key] += amount
	return true
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func ask(method string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":[]}`
}

func TestKeysAreKnownByEitherHeader(t *testing.T) {
	c := testConfig()
	f, tokens := keyFile(t, map[string]string{"shop": ""})
	c.Keys = KeysConfig{APIKeys: f, KeyRequired: true}
	log := new(proctest.Tail)
	d := testDispatcher(t, c, Options{Keys: apikey.NewRing(f), Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	url := serveHTTP(t, d, HTTPOptions{})
	const unknown = "lrk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for name, test := range map[string]struct {
		header http.Header
		status int
		answer string
	}{
		"bearer":         {bearer(tokens["shop"]), 200, `"result":"0x12a"`},
		"lower case":     {http.Header{"Authorization": {"bearer " + tokens["shop"]}}, 200, `"result":"0x12a"`},
		"X-API-Key":      {http.Header{"X-Api-Key": {tokens["shop"]}}, 200, `"result":"0x12a"`},
		"both":           {http.Header{"X-Api-Key": {tokens["shop"]}, "Authorization": {"Bearer of-a-proxy"}}, 200, `"result":"0x12a"`},
		"unknown":        {bearer(unknown), 401, `{"error":{"code":-32609,"message":"[Request ID: test] Unknown API key"},"jsonrpc":"2.0","id":null}`},
		"no key at all":  {bearer("sesame"), 401, "Unknown API key"},
		"empty":          {http.Header{"X-Api-Key": {""}}, 401, "Unknown API key"},
		"none":           {nil, 401, "An API key is needed"},
		"another scheme": {http.Header{"Authorization": {"Basic eDp5"}}, 401, "An API key is needed"},
	} {
		status, answer := postWith(t, url, strings.NewReader(ask("eth_chainId")), test.header)
		if status != test.status || !strings.Contains(answer, test.answer) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	res := must.Get(http.Post(url, jsonType, strings.NewReader(ask("eth_chainId"))))(t)
	res.Body.Close()
	if got := res.Header.Get("WWW-Authenticate"); got != "Bearer" || res.Header.Get("Content-Type") != jsonType {
		t.Errorf("asked to authenticate by %q, as %q", got, res.Header.Get("Content-Type"))
	}
	for _, token := range []string{tokens["shop"], unknown} {
		if strings.Contains(log.String(), token[len("lrk_"):]) {
			t.Error("a key is in the log")
		}
	}
}

func TestKeysAreOptional(t *testing.T) {
	c := testConfig()
	f, _ := keyFile(t, map[string]string{"shop": ""})
	c.Keys.APIKeys = f
	url := serveHTTP(t, testDispatcher(t, c, Options{Keys: apikey.NewRing(f)}), HTTPOptions{})
	if status, answer := post(t, url, ask("eth_chainId")); status != 200 {
		t.Errorf("without a key: %d %s", status, answer)
	}
	if status, answer := postWith(t, url, strings.NewReader(ask("eth_chainId")), bearer("lrk_x")); status != 401 {
		t.Errorf("with an unknown one: %d %s", status, answer)
	}
	// Where there is no file, nobody looks at what is for others.
	url = serveHTTP(t, testDispatcher(t, testConfig(), Options{Keys: apikey.NewRing(apikey.File{})}), HTTPOptions{})
	if status, answer := postWith(t, url, strings.NewReader(ask("eth_chainId")), bearer("of-a-proxy")); status != 200 {
		t.Errorf("without a file: %d %s", status, answer)
	}
}

func TestAKeyHasItsMethods(t *testing.T) {
	f, tokens := keyFile(t, map[string]string{"shop": "methods=eth_chainId,web3_*,eth_chainID"})
	c := testConfig()
	c.Keys.APIKeys = f
	d := testDispatcher(t, c, Options{Keys: apikey.NewRing(f)})
	url := serveHTTP(t, d, HTTPOptions{})
	if status, answer := postWith(t, url, strings.NewReader(ask("eth_accounts")), bearer(tokens["shop"])); status != 403 || !strings.Contains(answer, `"code":-32609`) || !strings.Contains(answer, `"id":7`) {
		t.Errorf("%d %s", status, answer)
	}
	status, answer := postWith(t, url, strings.NewReader("["+ask("eth_chainId")+","+ask("eth_accounts")+"]"), bearer(tokens["shop"]))
	if status != 200 || strings.Count(answer, `"result":"0x12a"`) != 1 || strings.Count(answer, "does not allow eth_accounts") != 1 {
		t.Errorf("in a batch: %d %s", status, answer)
	}
	if idle := d.Idle(f); len(idle) != 1 || idle["eth_chainID"] != "shop" {
		t.Errorf("misspelt: %v", idle)
	}
}

// The limits of a key are the key's, wherever it comes from; those of the address do not count.
func TestAKeyHasItsLimits(t *testing.T) {
	c := testConfig()
	f, tokens := keyFile(t, map[string]string{"few": "calls=3", "light": "weight=9", "other": ""})
	c.Keys.APIKeys = f
	methods := append(testMethods(), Method{Name: "eth_heavy", AnyParams: true, Weight: 4, Handler: returns(true)})
	d := testDispatcher(t, c, Options{Keys: apikey.NewRing(f), Spend: newTally(0).Spend, Allow: newTally(1).Allow}, methods...)
	url := serveHTTP(t, d, HTTPOptions{})
	call := func(key, method, from string) int {
		header := http.Header{"X-Forwarded-For": {from}}
		if key != "" {
			header.Set("Authorization", "Bearer "+tokens[key])
		}
		status, _ := postWith(t, url, strings.NewReader(ask(method)), header)
		return status
	}
	for i, test := range []struct {
		key, method, from string
		want              int
	}{
		{"", "eth_chainId", "192.0.2.1", 200},
		{"", "eth_chainId", "192.0.2.1", 429}, // the address's limit
		{"few", "eth_chainId", "192.0.2.1", 200},
		{"few", "eth_chainId", "192.0.2.1", 200},
		{"few", "eth_nonsense", "192.0.2.2", 400}, // counts, too
		{"few", "eth_accounts", "192.0.2.3", 429},
		{"other", "eth_accounts", "192.0.2.3", 200},
		{"light", "eth_heavy", "192.0.2.1", 200},
		{"light", "eth_heavy", "192.0.2.1", 200},
		{"light", "eth_heavy", "192.0.2.1", 429}, // 4 of 1
		{"light", "eth_chainId", "192.0.2.1", 200},
		{"light", "eth_chainId", "192.0.2.1", 429},
	} {
		if got := call(test.key, test.method, test.from); got != test.want {
			t.Errorf("call %d: %+v: %d", i, test, got)
		}
	}
	req := must.Get(http.NewRequest(http.MethodPost, url, strings.NewReader(ask("eth_chainId"))))(t)
	req.Header = bearer(tokens["few"])
	res := must.Get(http.DefaultClient.Do(req))(t)
	res.Body.Close()
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "60" {
		t.Errorf("%d, again after %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
}

func TestWebSocketHandshakesHaveKeys(t *testing.T) {
	f, tokens := keyFile(t, map[string]string{"shop": "methods=eth_chainId", "other": ""})
	c := testConfig()
	c.Keys = KeysConfig{APIKeys: f, KeyRequired: true}
	d := testDispatcher(t, c, Options{Keys: apikey.NewRing(f)})
	url, _ := serveWS(t, d)
	for _, header := range []http.Header{nil, bearer("lrk_x")} {
		_, res, err := websocket.DefaultDialer.Dial(url, header)
		if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
			t.Fatalf("%v: %v, %v", header, res, err)
		}
		_ = res.Body.Close()
	}
	ws := dial(t, url, http.Header{"X-Api-Key": {tokens["shop"]}})
	send(t, ws, ask("eth_chainId"))
	if got := receive(t, ws); !strings.Contains(got, `"result":"0x12a"`) {
		t.Error(got)
	}
	send(t, ws, ask("eth_accounts"))
	if got := receive(t, ws); !strings.Contains(got, "does not allow eth_accounts") {
		t.Error(got)
	}
}

// A connection ends when its key is revoked; those of other keys stay.
func TestConnectionsOfARevokedKeyEnd(t *testing.T) {
	shop, shopLine := newKey(t, "shop")
	gone, goneLine := newKey(t, "gone")
	ring := apikey.NewRing(fileOf(t, shopLine, goneLine))
	s := NewWSServer(testDispatcher(t, testConfig(), Options{Keys: ring}))
	ln := listen(t)
	go s.Run(t.Context(), ln)
	url := "ws://" + ln.Addr().String()
	stays, goes := dial(t, url, bearer(shop)), dial(t, url, bearer(gone))
	for _, ws := range []*websocket.Conn{stays, goes} {
		send(t, ws, ask("eth_chainId"))
		receive(t, ws)
	}
	ring.Replace(fileOf(t, shopLine))
	s.EndRevoked()
	wantClose(t, goes, websocket.ClosePolicyViolation)
	send(t, stays, ask("eth_chainId"))
	if got := receive(t, stays); !strings.Contains(got, `"result":"0x12a"`) {
		t.Error(got)
	}
	stays.Close()
}
