package rpc

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/must"
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
		for k, v := range header {
			r.Header[k] = v
		}
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
			for k, v := range tt.header {
				r.Header[k] = v
			}
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
