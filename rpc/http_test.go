package rpc

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/relay/apikey"
)

func call1(method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":[]}`, method)
}

func TestHTTPStatus(t *testing.T) {
	const hash = `["0x1111111111111111111111111111111111111111111111111111111111111111"]`
	for _, tt := range []struct {
		name, body            string
		hiero, lenient, plain int // profile hiero; with valid status 200; profile ethereum
	}{
		{"result", chainIDCall, 200, 200, 200},
		{"parse error", `{`, 400, 400, 400},
		{"invalid request", `{}`, 400, 400, 400},
		{"empty body", ``, 400, 400, 400},
		{"method not found", call1("eth_nope"), 400, 200, 200},
		{"invalid params", call1("eth_getBalance"), 400, 200, 200},
		{"own code", call1("eth_feeHistory"), 400, 200, 200},
		{"reverted", `{"jsonrpc":"2.0","id":1,"method":"eth_estimateGas","params":[{}]}`, 200, 200, 200},
		{"internal", call1("eth_gasPrice"), 500, 500, 200},
		{"panic", call1("eth_mining"), 500, 500, 200},
		{"upstream 501", call1("eth_getCode"), 501, 501, 200},
		{"null result", `{"jsonrpc":"2.0","id":1,"method":"eth_getTransactionByHash","params":` + hash + `}`, 200, 200, 200},
		{"batch with errors", "[" + call1("eth_nope") + "]", 200, 200, 200},
		{"empty batch", "[]", 200, 200, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range []struct {
				profile Profile
				valid   int
				want    int
			}{{ProfileHiero, 400, tt.hiero}, {ProfileHiero, 200, tt.lenient}, {ProfileEthereum, 400, tt.plain}} {
				c := testConfig()
				c.Profile, c.ValidCallStatus = v.profile, v.valid
				s := NewHTTPServer(testDispatcher(t, c, Options{}), HTTPOptions{})
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tt.body)))
				if w.Code != v.want {
					t.Errorf("%s, valid status %d: got %d, want %d: %s", v.profile, v.valid, w.Code, v.want, w.Body)
				}
			}
		})
	}
}

func TestUpstreamStatus(t *testing.T) {
	for data, want := range map[any]int{404: 400, 429: 429, 501: 501, 500: 500, 503: 500, "x": 500, nil: 500} {
		f := fault{code: -32020, data: data}
		if got := ProfileHiero.httpStatus(f, 400); got != want {
			t.Errorf("data %v: got %d, want %d", data, got, want)
		}
	}
}

func TestHTTPRoutes(t *testing.T) {
	s := NewHTTPServer(testDispatcher(t, testConfig(), Options{}), HTTPOptions{
		Handlers: map[string]http.Handler{
			"/health/liveness": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "OK") }),
		},
	})
	do := func(method, url string, header http.Header) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, url, strings.NewReader(chainIDCall))
		maps.Copy(r.Header, header)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	for _, tt := range []struct {
		name, method, url string
		header            http.Header
		status            int
		body              string
		want              http.Header
	}{
		{
			name: "call on any path", method: "POST", url: "/some/path?query", status: 200,
			body: `{"result":"0x12a","jsonrpc":"2.0","id":1}`,
			want: http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Access-Control-Allow-Origin": {"*"}, "Vary": {"Origin"}},
		},
		{
			name: "extra handler", method: "GET", url: "/health/liveness?x=1", status: 200, body: "OK",
			want: http.Header{"Access-Control-Allow-Origin": {"*"}},
		},
		{name: "extra handler, POST", method: "POST", url: "/health/liveness", status: 200, body: "OK"},
		{
			name: "other method", method: "GET", url: "/", status: 405,
			body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid HTTP method: only POST is allowed"}}`,
			want: http.Header{"Allow": {"POST, OPTIONS"}},
		},
		{
			name: "websocket upgrade that nobody takes", method: "GET", url: "/", status: 405, header: http.Header{"Upgrade": {"websocket"}},
			body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid HTTP method: only POST is allowed"}}`,
		},
		{
			name: "preflight", method: "OPTIONS", url: "/", status: 204,
			header: http.Header{"Origin": {"http://x"}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"content-type,x-a"}},
			want:   http.Header{"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Methods": {"GET,POST"}, "Access-Control-Allow-Headers": {"content-type,x-a"}, "Vary": {"Origin"}},
		},
		{name: "options without preflight", method: "OPTIONS", url: "/", status: 200, body: "OK"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(tt.method, tt.url, tt.header)
			if w.Code != tt.status || w.Body.String() != tt.body {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, tt.status, tt.body)
			}
			for name, want := range tt.want {
				if diff := cmp.Diff(want, w.Header()[name]); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", name, diff)
				}
			}
		})
	}
}

func TestHTTPRequestID(t *testing.T) {
	s := NewHTTPServer(testDispatcher(t, testConfig(), Options{}), HTTPOptions{})
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, tt := range []struct {
		name   string
		header http.Header
		want   string // empty: a UUID
	}{
		{"none", nil, ""},
		{"query wins", http.Header{"Query": {"a"}, "Request-Id": {"b"}, "X-Request-Id": {"c"}}, "a"},
		{"request id", http.Header{"Request-Id": {"b"}, "X-Request-Id": {"c"}}, "b"},
		{"x request id", http.Header{"X-Request-Id": {"c"}}, "c"},
		{"empty", http.Header{"Request-Id": {""}}, ""},
		{"too long", http.Header{"Request-Id": {strings.Repeat("a", 129)}}, ""},
		{"line break", http.Header{"Request-Id": {"a\nb"}}, ""},
		{"not ASCII", http.Header{"Request-Id": {"é"}}, ""},
		{"quote", http.Header{"Request-Id": {`a"b`}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(call1("eth_nope")))
			maps.Copy(r.Header, tt.header)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			id := w.Header().Get("X-Request-Id")
			if tt.want == "" && !uuid.MatchString(id) || tt.want != "" && id != tt.want {
				t.Errorf("request id: got %q, want %q", id, tt.want)
			}
			if !strings.Contains(w.Body.String(), "[Request ID: "+id+"] ") {
				t.Errorf("message without the id: %s", w.Body)
			}
		})
	}
}

func compress(t *testing.T, encoding string, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&buf)
	case "zlib":
		w = zlib.NewWriter(&buf)
	case "flate":
		w, _ = flate.NewWriter(&buf, flate.BestCompression)
	}
	must.Get(w.Write(data))(t)
	w.Close()
	return buf.Bytes()
}

func TestHTTPBodies(t *testing.T) {
	d := testDispatcher(t, testConfig(), Options{})
	url := serveHTTP(t, d, HTTPOptions{})
	pad := func(n int) []byte {
		return append([]byte(chainIDCall), bytes.Repeat([]byte{' '}, n-len(chainIDCall))...)
	}
	const ok, bad = `{"result":"0x12a","jsonrpc":"2.0","id":1}`, `{"error":{"code":-32700,"message":"[Request ID: test] Parse error"},"jsonrpc":"2.0","id":null}`
	encoded := func(name string) http.Header { return http.Header{"Content-Encoding": {name}} }
	for _, tt := range []struct {
		name   string
		body   []byte
		header http.Header
		chunks bool
		status int
		want   string
	}{
		{"at the limit", pad(megabyte), nil, false, 200, ok},
		{"over the limit", pad(megabyte + 1), nil, false, 400, bad},
		{"at the limit, length unknown", pad(megabyte), nil, true, 200, ok},
		{"over the limit, length unknown", pad(megabyte + 1), nil, true, 400, bad},
		{"gzip", compress(t, "gzip", pad(megabyte)), encoded("gzip"), false, 200, ok},
		{"deflate with header", compress(t, "zlib", pad(megabyte)), encoded("deflate"), false, 200, ok},
		{"deflate without header", compress(t, "flate", pad(megabyte)), encoded("deflate"), false, 200, ok},
		{"identity", []byte(chainIDCall), encoded("identity"), false, 200, ok},
		{"gzip bomb", compress(t, "gzip", make([]byte, 8*megabyte)), encoded("gzip"), false, 400, bad},
		{"deflate bomb", compress(t, "zlib", make([]byte, 8*megabyte)), encoded("deflate"), true, 400, bad},
		{"gzip that never yields", bytes.Repeat(compress(t, "gzip", nil), 100_000), encoded("gzip"), true, 400, bad},
		{"not gzip", []byte(chainIDCall), encoded("gzip"), false, 400, bad},
		{"gzip cut short", compress(t, "gzip", []byte(chainIDCall))[:30], encoded("gzip"), false, 400, bad},
		{"unknown encoding", []byte(chainIDCall), encoded("br"), false, 415, bad},
		{"not UTF-8", []byte("{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"eth_chainId\"}"), nil, false, 400, bad},
		{"very deep", bytes.Repeat([]byte{'['}, 500_000), nil, false, 400, bad},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var body io.Reader = bytes.NewReader(tt.body)
			if tt.chunks {
				body = io.MultiReader(body) // hides the length
			}
			status, answer := postWith(t, url, body, tt.header)
			if status != tt.status {
				t.Errorf("status: got %d, want %d", status, tt.status)
			}
			compareJSON(t, tt.name, answer, tt.want)
		})
	}
}

func TestHTTPBodyTooLargeForEthereum(t *testing.T) {
	c := testConfig()
	c.Profile = ProfileEthereum
	url := serveHTTP(t, testDispatcher(t, c, Options{}), HTTPOptions{})
	if status, _ := postWith(t, url, bytes.NewReader(make([]byte, megabyte+1)), nil); status != http.StatusRequestEntityTooLarge {
		t.Errorf("status: got %d, want 413", status)
	}
}

func TestHTTPBatchLimits(t *testing.T) {
	tooMany := func(n, items int) string {
		one := fmt.Sprintf(`{"error":{"code":-32203,"message":"[Request ID: test] Batch request amount %d exceeds max 100"},"jsonrpc":"2.0","id":null}`, n)
		return "[" + strings.TrimSuffix(strings.Repeat(one+",", items), ",") + "]"
	}
	url := serveHTTP(t, testDispatcher(t, testConfig(), Options{}), HTTPOptions{})
	status, answer := post(t, url, chainIDBatch(100))
	if status != 200 || strings.Count(answer, "0x12a") != 100 {
		t.Errorf("100 items: got %d %s", status, answer)
	}
	status, answer = post(t, url, chainIDBatch(101))
	compareJSON(t, "101 items", answer, tooMany(101, 101))
	if status != 200 {
		t.Errorf("101 items: status %d", status)
	}
	// What is sent back stays in proportion.
	_, answer = post(t, url, "["+strings.TrimSuffix(strings.Repeat("1,", 300_000), ",")+"]")
	compareJSON(t, "300000 items", answer, tooMany(300_000, 1))
	_, answer = post(t, url, "["+strings.Repeat("1,", 300_000)+"]")
	compareJSON(t, "not JSON at its end", answer, `{"error":{"code":-32700,"message":"[Request ID: test] Parse error"},"jsonrpc":"2.0","id":null}`)

	for valid, want := range map[int]int{400: 400, 200: 200} {
		c := testConfig()
		c.Batch.Enabled = false
		c.ValidCallStatus = valid
		url := serveHTTP(t, testDispatcher(t, c, Options{}), HTTPOptions{})
		status, answer := post(t, url, chainIDBatch(2))
		compareJSON(t, "disabled", answer, `{"error":{"code":-32202,"message":"[Request ID: test] Batch requests are disabled"},"jsonrpc":"2.0","id":null}`)
		if status != want {
			t.Errorf("disabled: status %d, want %d", status, want)
		}
	}
}

func TestOptionalID(t *testing.T) {
	for _, p := range []Profile{ProfileHiero, ProfileEthereum} {
		c := testConfig()
		c.Profile, c.RequestIDOptional = p, true
		url := serveHTTP(t, testDispatcher(t, c, Options{}), HTTPOptions{})
		_, answer := post(t, url, `{"jsonrpc":"2.0","method":"eth_chainId"}`)
		compareJSON(t, string(p), answer, `{"result":"0x12a","jsonrpc":"2.0","id":"0"}`)
	}
}

// TestHTTPDrainGivesUp: a request that does not finish in time is cancelled, and
// still answered.
func TestHTTPDrainGivesUp(t *testing.T) {
	c := testConfig()
	c.HTTP.DrainTimeout = envx.Millis(20 * time.Millisecond)
	started := make(chan struct{})
	m := Method{Name: "eth_slow", AnyParams: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	server := NewHTTPServer(testDispatcher(t, c, Options{}, m), HTTPOptions{})
	server.closeSlack = patience
	go func() { done <- server.Run(ctx, ln) }()
	answers := make(chan string, 1)
	go func() {
		_, answer := post(t, "http://"+ln.Addr().String(), call1("eth_slow"))
		answers <- answer
	}()
	<-started
	cancel()
	compareJSON(t, "answer", <-answers, `{"error":{"code":-32010,"message":"[Request ID: test] Request timeout. Please try again."},"jsonrpc":"2.0","id":1}`)
	if err := <-done; err == nil {
		t.Error("Run returned no error although a request was cut off")
	}
}

// manyFields is a head of many short fields, without its end.
func manyFields(fields int) string {
	var b strings.Builder
	b.WriteString("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n")
	for i := range fields {
		fmt.Fprintf(&b, "%x:\n", i+1<<12)
	}
	return b.String()
}

// TestHeadsAreCounted: heads of thousands of fields, finished or not, hold no more than a client may, on the ports of both transports. What they
// held is given back, and usual requests are served meanwhile.
func TestHeadsAreCounted(t *testing.T) {
	servers := map[string]func(*testing.T, *Dispatcher) string{
		"http": func(t *testing.T, d *Dispatcher) string {
			return strings.TrimPrefix(serveHTTP(t, d, HTTPOptions{}), "http://")
		},
		"websocket": func(t *testing.T, d *Dispatcher) string {
			url, _ := serveWS(t, d)
			return strings.TrimPrefix(url, "ws://")
		},
	}
	for transport, serve := range servers {
		for state, end := range map[string]string{"unfinished": "", "without its body": "\r\n"} {
			t.Run(transport+", "+state, func(t *testing.T) {
				memory := littleMemory()
				d := withLongAnswers(t, memory)
				address := serve(t, d)
				const heads, fields = 40, 4500 // of about 0.8 MB each; a client may hold 16 MB
				var conns []net.Conn
				refused := make(chan bool, heads)
				for range heads {
					conn := must.Get(net.Dial("tcp", address))(t)
					defer conn.Close()
					conns = append(conns, conn)
					go func() {
						_, _ = io.WriteString(conn, manyFields(fields)+end)
						_, _ = io.Copy(io.Discard, conn)
						refused <- true
					}()
				}
				for range heads / 4 {
					select {
					case <-refused:
					case <-time.After(patience):
						t.Fatalf("nobody is refused; %d bytes are held", memory.Used())
					}
				}
				if used := memory.Used(); used > 16*megabyte {
					t.Errorf("%d bytes are held", used)
				}
				if transport == "http" {
					if status, text := post(t, "http://"+address, call1("eth_chainId")); status != http.StatusOK {
						t.Errorf("another request: %d %s", status, text)
					}
				}
				for _, conn := range conns {
					_ = conn.Close()
				}
				eventually(t, func() bool { return memory.Used() == 0 })
			})
		}
	}
}

// TestHTTPClientIP: the address is that of the socket, or what a proxy says if it is
// trusted.
func TestHTTPClientIP(t *testing.T) {
	for trust, want := range map[bool]map[string]int{true: {"9.9.9.9 eth_chainId": 1, "127.0.0.1 eth_chainId": 1}, false: {"127.0.0.1 eth_chainId": 2}} {
		c := testConfig()
		c.TrustProxyHeaders = trust
		calls := newTally(2)
		url := serveHTTP(t, testDispatcher(t, c, Options{Allow: calls.Allow}), HTTPOptions{})
		postWith(t, url, strings.NewReader(chainIDCall), http.Header{"X-Forwarded-For": {"1.1.1.1, 9.9.9.9, 127.0.0.2"}})
		post(t, url, chainIDCall)
		if diff := cmp.Diff(want, calls.used); diff != "" {
			t.Errorf("trust %t: (-want +got)\n%s", trust, diff)
		}
	}
}

// TestHTTPClientGoneWhileQueued: the context of a call in line ends with its client, whichever way that goes, and the connection
// counts no more.
func TestHTTPClientGoneWhileQueued(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn) error{
		"closes":          (*net.TCPConn).Close,
		"resets":          func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
		"closes its half": (*net.TCPConn).CloseWrite, // it cannot be told from one that is gone
	} {
		t.Run(name, func(t *testing.T) {
			q, met := newQueued(func() (any, error) { return true, nil }), NewMetrics()
			url := serveHTTP(t, testDispatcher(t, testConfig(), Options{Metrics: met}, q.method()), HTTPOptions{})
			conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
			defer conn.Close()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall)
			ctx := <-q.begun
			if ctx.Err() != nil {
				t.Error("the context has ended while the client was there")
			}
			must.Do(t, end(conn.(*net.TCPConn)))
			<-ctx.Done()
			close(q.release)
			eventually(t, func() bool { return value(met.connections) == 0 && value(met.inFlight) == 0 })
		})
	}
}

func load(environ map[string]string) (Config, error) {
	return env.ParseAsWithOptions[Config](env.Options{Environment: environ})
}

func TestConfigDefaults(t *testing.T) {
	c := must.Get(load(nil))(t)
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
	want := testConfig()
	want.HTTP.DrainTimeout, want.WebSocket.WriteTimeout = envx.Millis(20*time.Second), envx.Millis(10*time.Second)
	want.WebSocket.InactivityTTL, want.WebSocket.PingInterval = envx.Millis(5*time.Minute), envx.Millis(100*time.Second)
	if _, err := load(map[string]string{"RELAY_PROFILE": "other"}); err == nil {
		t.Error("an unknown profile was accepted")
	}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(apikey.File{})); diff != "" {
		t.Errorf("defaults differ from what the tests use: (-want +got)\n%s", diff)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tt := range []struct {
		want  string
		spoil func(*Config)
	}{
		{"RELAY_PROFILE", func(c *Config) { c.Profile = "" }},
		{"ON_VALID_JSON_RPC_HTTP_RESPONSE_STATUS_CODE", func(c *Config) { c.ValidCallStatus = 204 }},
		{"WS_INPUT_SIZE_LIMIT must be -1 or a positive number.", func(c *Config) { c.WebSocket.InputSizeLimit = 0 }},
		{"LIMIT_DURATION", func(c *Config) { c.RateLimit.Disabled, c.RateLimit.Window = false, 0 }},
	} {
		c := testConfig()
		tt.spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", tt.want, err)
		}
	}
	bad := testConfig()
	bad.Profile, bad.Batch.MaxSize = "", -1
	if err := bad.Validate(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("want both mistakes, got %v", err)
	}
	r, _ := NewRegistry()
	if _, err := NewDispatcher(bad, r, Options{Metrics: NewMetrics()}); err == nil {
		t.Error("NewDispatcher took an invalid configuration")
	}
}
