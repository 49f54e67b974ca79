package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/internal/must"
)

// exchangeOnce sends a body through a dispatcher without any network.
func exchangeOnce(ctx context.Context, d *Dispatcher, body string) string {
	request, r := withRequest(ctx, Request{ID: "test", IP: "192.0.2.1"})
	request.open(d)
	defer r.holding.Close()
	ex := d.begin(request, TransportHTTP, r, []byte(body))
	answer := string(bytes.Join(ex.finish(request), nil))
	ex.observeHTTP(request, ex.httpStatus())
	return answer
}

const timedOut = `{"error":{"code":-32010,"message":"[Request ID: test] Request timeout. Please try again."},"jsonrpc":"2.0","id":1}`

// TestTimeout: a handler that watches its context ends in time and may say how; an
// item of a batch that does not is answered for a moment later and cannot harm the
// answer.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan struct{})
		m := NewMetrics()
		d := testDispatcher(t, testConfig(), Options{Metrics: m},
			Method{Name: "eth_polite", AnyParams: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
			Method{Name: "eth_knows", AnyParams: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
				<-ctx.Done()
				return nil, fmt.Errorf("late: %w", coldError{})
			}},
			Method{Name: "eth_deaf", AnyParams: true, Handler: func(context.Context, *Params) (any, error) {
				<-deaf
				return "too late", nil
			}},
			Method{Name: "eth_quick", AnyParams: true, Handler: returns("quick")},
		)
		for _, tt := range []struct {
			method, want string
			after        time.Duration
		}{
			{"eth_polite", timedOut, 60 * time.Second},
			{"eth_knows", `{"error":{"code":-32055,"message":"[Request ID: test] too cold","data":[1,2]},"jsonrpc":"2.0","id":1}`, 60 * time.Second},
			{"eth_quick", `{"result":"quick","jsonrpc":"2.0","id":1}`, 0},
		} {
			start := time.Now()
			compareJSON(t, tt.method, exchangeOnce(t.Context(), d, call1(tt.method)), tt.want)
			if took := time.Since(start); took != tt.after {
				t.Errorf("%s: took %v, want %v", tt.method, took, tt.after)
			}
		}
		start := time.Now()
		answer := exchangeOnce(t.Context(), d, "["+call1("eth_deaf")+","+call1("eth_quick")+","+call1("eth_polite")+"]")
		compareJSON(t, "batch", answer, "["+timedOut+`,{"result":"quick","jsonrpc":"2.0","id":1},`+timedOut+"]")
		if took := time.Since(start); took != 61*time.Second {
			t.Errorf("batch: took %v, want 61s", took)
		}
		if got := value(m.abandoned); got != 1 {
			t.Errorf("abandoned calls: got %v, want 1", got)
		}
		close(deaf)
	})
}

// TestBatchConcurrency: at most so many items run at the same time, and those
// whose turn comes too late say so.
func TestBatchConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.Batch.Concurrency = 4
		var running, most atomic.Int64
		d := testDispatcher(t, c, Options{}, Method{Name: "eth_slow", AnyParams: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			select {
			case <-time.After(11 * time.Second):
				return "done", nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}})
		batch := func(n int) string {
			return "[" + strings.TrimSuffix(strings.Repeat(call1("eth_slow")+",", n), ",") + "]"
		}
		start := time.Now()
		answer := exchangeOnce(t.Context(), d, batch(8))
		if took := time.Since(start); took != 22*time.Second || most.Load() != 4 {
			t.Errorf("took %v with %d at once, want 22s with 4", took, most.Load())
		}
		if strings.Count(answer, `"done"`) != 8 {
			t.Errorf("answer: %s", answer)
		}
		answer = exchangeOnce(t.Context(), d, batch(32))
		if done, late := strings.Count(answer, `"done"`), strings.Count(answer, `-32010`); done != 20 || late != 12 {
			t.Errorf("32 items: %d done and %d late, want 20 and 12", done, late)
		}
	})
}

// TestFinishAlwaysRuns: what Enter took is given back even if the client has gone
// and the time is up.
func TestFinishAlwaysRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished atomic.Int64
		d := testDispatcher(t, testConfig(), Options{}, Method{
			Name: "eth_two", AnyParams: true,
			Enter: func(context.Context, *Params) (Finish, error) {
				return FinishFunc(func(ctx context.Context) (any, error) {
					finished.Add(1)
					return nil, ctx.Err()
				}), nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		answer := exchangeOnce(ctx, d, "["+strings.TrimSuffix(strings.Repeat(call1("eth_two")+",", 50), ",")+"]")
		if finished.Load() != 50 || strings.Count(answer, "-32010") != 50 {
			t.Errorf("%d of 50 finished: %s", finished.Load(), answer)
		}
	})
}

// TestEnterFails: what goes wrong in the first phase is the answer.
func TestEnterFails(t *testing.T) {
	enter := func(f Finish, err error) EnterHandler {
		return func(context.Context, *Params) (Finish, error) { return f, err }
	}
	d := testDispatcher(t, testConfig(), Options{},
		Method{Name: "eth_coded", AnyParams: true, Enter: enter(nil, eth.ErrQueueFull(3))},
		Method{Name: "eth_nothing", AnyParams: true, Enter: enter(nil, nil)},
		Method{Name: "eth_panics", AnyParams: true, Enter: func(context.Context, *Params) (Finish, error) { panic("x") }},
		Method{Name: "eth_panicsLater", AnyParams: true, Enter: enter(FinishFunc(func(context.Context) (any, error) { panic("x") }), nil)},
	)
	for method, want := range map[string]string{
		"eth_coded":       `{"code":-32000,"message":"[Request ID: test] Too many transactions of this sender are waiting: 3. Nothing was submitted; try again later.","data":{"queueLength":3}}`,
		"eth_nothing":     `{"code":-32603,"message":"[Request ID: test] Error invoking RPC: the first phase returned no second one"}`,
		"eth_panics":      `{"code":-32603,"message":"[Request ID: test] Unknown error invoking RPC"}`,
		"eth_panicsLater": `{"code":-32603,"message":"[Request ID: test] Unknown error invoking RPC"}`,
	} {
		compareJSON(t, method, exchangeOnce(t.Context(), d, call1(method)), `{"error":`+want+`,"jsonrpc":"2.0","id":1}`)
	}
}

// TestPanicIsLogged: the operator sees what the client must not.
func TestPanicIsLogged(t *testing.T) {
	var log bytes.Buffer
	m := NewMetrics()
	d := testDispatcher(t, testConfig(), Options{Metrics: m, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	answer := exchangeOnce(t.Context(), d, "["+call1("eth_mining")+","+chainIDCall+"]")
	if strings.Contains(answer, "secret value") || !strings.Contains(answer, "0x12a") {
		t.Errorf("answer: %s", answer)
	}
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%v in %s", err, log.String())
	}
	stack, _ := line["stack"].(string)
	if line["panic"] != "secret value" || line["method"] != "eth_mining" || line["request_id"] != "test" || !strings.Contains(stack, "testMethods") {
		t.Errorf("log: %v", line)
	}
	if got := value(m.panics.WithLabelValues("eth_mining")); got != 1 {
		t.Errorf("panics: got %v, want 1", got)
	}
}

// TestLogLine: one line per request, without anything a client sent but the
// method, and without methods that do not exist.
func TestLogLine(t *testing.T) {
	var log bytes.Buffer
	d := testDispatcher(t, testConfig(), Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for body, want := range map[string]string{
		chainIDCall: `msg=request request_id=test transport=http method=eth_chainId`,
		`[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}]`:                             `method=batch_request`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_evil\n","params":["private"]}`:           `method=unknown`,
		`{"jsonrpc":"2.0","id":1,"method":"web3_sha3","params":["private"]}`:            `code=-32602`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["private","0x1"]}`: `method=eth_getBalance`,
		`private`: `method=undefined`,
	} {
		log.Reset()
		exchangeOnce(t.Context(), d, body)
		if line := log.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, want) || strings.Contains(line, "private") || strings.Contains(line, "evil") {
			t.Errorf("%s: logged %s", body, line)
		}
	}
}

func TestUnexpectedErrorIsLogged(t *testing.T) {
	var log bytes.Buffer
	c := testConfig()
	c.Profile = ProfileEthereum
	d := testDispatcher(t, c, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if answer := exchangeOnce(t.Context(), d, call1("eth_gasPrice")); strings.Contains(answer, "10.0.0.1") {
		t.Errorf("answer names an upstream host: %s", answer)
	}
	if !strings.Contains(log.String(), "10.0.0.1") || !strings.Contains(log.String(), "request_id=test") {
		t.Errorf("log: %s", log.String())
	}
	log.Reset()
	exchangeOnce(t.Context(), d, call1("eth_feeHistory"))
	if log.Len() != 0 {
		t.Errorf("an error meant for the client was logged: %s", log.String())
	}
}

// Ethereum nodes take every method in a batch.
func TestMethodsRefusedInBatches(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"eth_newFilter"},{"jsonrpc":"2.0","id":2,"method":"eth_chainId"}]`
	for profile, refused := range map[Profile]bool{ProfileHiero: true, ProfileEthereum: false} {
		c := testConfig()
		c.Profile = profile
		for _, transport := range []Transport{TransportHTTP, TransportWebSocket} {
			d := testDispatcher(t, c, Options{})
			ctx, r := withRequest(t.Context(), Request{ID: "test"})
			ex := d.begin(ctx, transport, r, []byte(batch))
			var answers []struct {
				Error *struct{ Code int }
			}
			if err := json.Unmarshal(bytes.Join(ex.finish(ctx), nil), &answers); err != nil || len(answers) != 2 || answers[1].Error != nil {
				t.Fatalf("%s, %v: %+v, %v", profile, transport, answers, err)
			}
			if first := answers[0].Error; (first != nil) != refused || refused && first.Code != eth.CodeNotInBatch {
				t.Errorf("%s, %v: %+v", profile, transport, first)
			}
		}
	}
}

func TestRateLimit(t *testing.T) {
	l := newTally(2)
	m := NewMetrics()
	d := testDispatcher(t, testConfig(), Options{Allow: l.Allow, StoreType: "tally", Metrics: m})
	item := func(method string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q}`, method, method)
	}
	answer := exchangeOnce(t.Context(), d, "["+strings.Join([]string{
		item("eth_chainId"), item("eth_chainId"), item("eth_chainId"), item("eth_syncing"),
		item("eth_a"), item("eth_b"), item("eth_c"), item("nowhere_x"), item("eth_newFilter"), "1",
	}, ",")+"]")
	limited := `{"error":{"code":-32605,"message":"[Request ID: test] IP Rate limit exceeded on %s"},"jsonrpc":"2.0","id":%q}`
	missing := `{"error":{"code":-32601,"message":"[Request ID: test] Method %s not found"},"jsonrpc":"2.0","id":%q}`
	compareJSON(t, "batch", answer, "["+strings.Join([]string{
		`{"result":"0x12a","jsonrpc":"2.0","id":"eth_chainId"}`, `{"result":"0x12a","jsonrpc":"2.0","id":"eth_chainId"}`,
		fmt.Sprintf(limited, "eth_chainId", "eth_chainId"),
		`{"result":false,"jsonrpc":"2.0","id":"eth_syncing"}`,
		fmt.Sprintf(missing, "eth_a", "eth_a"), fmt.Sprintf(missing, "eth_b", "eth_b"),
		fmt.Sprintf(limited, "eth_c", "eth_c"), // misspelt names share one limit
		fmt.Sprintf(missing, "nowhere_x", "nowhere_x"),
		`{"error":{"code":-32007,"message":"[Request ID: test] Method eth_newFilter is not permitted as part of batch requests"},"jsonrpc":"2.0","id":"eth_newFilter"}`,
		`{"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null}`,
	}, ",")+"]")
	want := map[string]int{"192.0.2.1 eth_chainId": 2, "192.0.2.1 eth_syncing": 1, "192.0.2.1 unknown": 2}
	if diff := cmp.Diff(want, l.used); diff != "" {
		t.Errorf("limiter keys: (-want +got)\n%s", diff)
	}
	if got := value(m.rateLimited.WithLabelValues("eth_chainId", "tally")); got != 1 {
		t.Errorf("refused calls: got %v, want 1", got)
	}
}

// Whoever has one address of IPv6 has all of its /64, and so has no more calls than one address.
func TestRateLimitCountsIPv6ByNetwork(t *testing.T) {
	d := testDispatcher(t, testConfig(), Options{Allow: newTally(2).Allow})
	for _, call := range []struct {
		from string
		want int
	}{
		{"2001:db8:0:1::1", 200},
		{"2001:db8:0:1:ffff::9", 200},
		{"2001:db8:0:1::2", 429},
		{"2001:db8:0:1:a:b:c:d", 429},
		{"2001:db8:0:2::1", 200},
		{"192.0.2.1", 200},
		{"::ffff:192.0.2.1", 200},
		{"192.0.2.1", 429},
		{"192.0.2.2", 200},
	} {
		ctx, r := withRequest(t.Context(), Request{ID: "test", IP: call.from})
		ex := d.begin(ctx, TransportHTTP, r, []byte(chainIDCall))
		if got := ex.httpStatus(); got != call.want {
			t.Errorf("%s: status %d, want %d", call.from, got, call.want)
		}
	}
}

// TestMetrics: what is counted, and that names from outside make no series.
func TestMetrics(t *testing.T) {
	m := NewMetrics()
	d := testDispatcher(t, testConfig(), Options{Metrics: m})
	exchangeOnce(t.Context(), d, chainIDCall)
	exchangeOnce(t.Context(), d, call1("eth_gasPrice"))
	for i := range 50 {
		exchangeOnce(t.Context(), d, call1(fmt.Sprintf("eth_x%d", i)))
		exchangeOnce(t.Context(), d, "["+call1(fmt.Sprintf("eth_y%d", i))+"]")
	}
	exchangeOnce(t.Context(), d, "{")
	exchangeOnce(t.Context(), d, "["+chainIDCall+","+call1("eth_gasPrice")+"]")

	got := map[string]uint64{}
	for _, s := range append(collect(m.methodResponse), collect(m.methodResult)...) {
		var labels []string
		for _, l := range s.GetLabel() {
			labels = append(labels, l.GetValue())
		}
		got[strings.Join(labels, " ")] = s.GetHistogram().GetSampleCount()
	}
	want := map[string]uint64{
		"eth_chainId 200": 1, "eth_gasPrice 500": 1, "unknown 400": 50, "undefined 400": 1, "batch_request 200": 51,
		"true eth_chainId 200": 1, "true eth_gasPrice -32603": 1, "true unknown -32601": 50,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series: (-want +got)\n%s", diff)
	}
}

func TestNamespaces(t *testing.T) {
	c := testConfig()
	c.HTTP.APIs = []string{"web3"}
	d := testDispatcher(t, c, Options{})
	for method, want := range map[string]string{
		"eth_chainId":   "Method eth_chainId not found",
		"debug_x":       "Method debug_x not found",
		"engine_x":      "Unsupported JSON-RPC method",
		"web3_x":        "Method web3_x not found",
		"web3":          "Method web3 not found",
		"secret_method": "Method secret_method not found",
	} {
		compareJSON(t, method, exchangeOnce(t.Context(), d, call1(method)),
			`{"error":{"code":-32601,"message":"[Request ID: test] `+want+`"},"jsonrpc":"2.0","id":1}`)
	}
}

func TestNewRegistry(t *testing.T) {
	ok := returns(nil)
	for _, tt := range []struct {
		name string
		rows []Method
		want string
	}{
		{"no name", []Method{{Handler: ok}}, "no name"},
		{"no handler", []Method{{Name: "a"}}, "needs either"},
		{"two handlers", []Method{{Name: "a", Handler: ok, Enter: func(context.Context, *Params) (Finish, error) { return nil, nil }}}, "needs either"},
		{"inline in two phases", []Method{{Name: "a", Inline: true, Enter: func(context.Context, *Params) (Finish, error) { return nil, nil }}}, "cannot be inline"},
		{"twice", []Method{{Name: "a", Handler: ok}, {Name: "a", Handler: ok}}, "declared twice"},
		{"rules ignored", []Method{{Name: "a", Handler: ok, AnyParams: true, Params: []Param{Required(Text())}}}, "ignores them"},
		{"no rule", []Method{{Name: "a", Handler: ok, Params: []Param{{}}}}, "has no rule"},
		{"required after optional", []Method{{Name: "a", Handler: ok, Params: []Param{Optional(Text()), Required(Text())}}}, "follows an optional one"},
		{"too many", []Method{{Name: "a", Handler: ok, Params: make([]Param, maxParams+1)}}, "more than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := NewRegistry(tt.rows...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// badData is error data that cannot be encoded.
type badData struct{}

func (badData) MarshalJSON() ([]byte, error) { panic("data") }

// TestBadErrorData: an error stays an error if its data cannot be shown.
func TestBadErrorData(t *testing.T) {
	for _, data := range []any{badData{}, make(chan int)} {
		err := &eth.Error{Code: -32077, Message: "m", Data: data}
		d := testDispatcher(t, testConfig(), Options{},
			Method{Name: "eth_later", AnyParams: true, Handler: fails(err)},
			Method{Name: "eth_now", AnyParams: true, Inline: true, Handler: fails(err)},
			Method{Name: "eth_two", AnyParams: true, Enter: func(context.Context, *Params) (Finish, error) { return nil, err }},
		)
		for _, method := range []string{"eth_later", "eth_now", "eth_two"} {
			compareJSON(t, method, exchangeOnce(t.Context(), d, call1(method)),
				`{"error":{"code":-32077,"message":"[Request ID: test] m"},"jsonrpc":"2.0","id":1}`)
		}
	}
}

func TestTranslate(t *testing.T) {
	for _, tt := range []struct {
		err        error
		code       int
		unexpected bool
	}{
		{eth.ErrNonceTooLow(1, 2), -32000, false},
		{fmt.Errorf("submit: %w", eth.ErrNonceTooLow(1, 2)), -32000, false},
		{coldError{}, -32055, false},
		{context.DeadlineExceeded, -32010, false},
		{fmt.Errorf("read: %w", context.Canceled), -32010, false},
		{errors.New("boom"), -32603, true},
	} {
		f, unexpected := ProfileHiero.translate(tt.err)
		if f.code != tt.code || unexpected != tt.unexpected || strings.Contains(f.message, "submit: ") {
			t.Errorf("%v: got %+v, unexpected %v", tt.err, f, unexpected)
		}
	}
}

// TestTooManyRequestsSayWhenToTryAgain: status 429 comes with Retry-After.
func TestTooManyRequestsSayWhenToTryAgain(t *testing.T) {
	c := testConfig()
	c.RateLimit.Disabled = false
	url := serveHTTP(t, testDispatcher(t, c, Options{Allow: newTally(1).Allow}), HTTPOptions{})
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		response := must.Get(http.Post(url, jsonType, strings.NewReader(chainIDCall)))(t)
		_ = response.Body.Close()
		after := response.Header.Get("Retry-After")
		if response.StatusCode != want || (after == "60") != (want != http.StatusOK) {
			t.Errorf("answer %d has status %d, and says to try again after %q", i, response.StatusCode, after)
		}
	}
}

// FuzzMessage: whatever comes in, the answer is valid JSON-RPC, or nothing where
// nothing is due.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{``, ` `, `null`, `01`, `"a`, `[]`, `[1,]`, `{}`, `{"a":1,}`, ` {"a" : 1} `, `{} {}`, "\ufeff{}", "\"\xff\"", chainIDCall, "[" + chainIDCall + "]"} {
		f.Add([]byte(s), false)
	}
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":"\ud800","method":"eth_chainId"}`,
		`{"jsonrpc":"2.0","id":1e400,"method":"eth_\u0000"}`,
		`{"jsonrpc":"2.0","id":[],"method":"eth_call","params":[{"type":"0x4","authorizationList":[{}]},{}]}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"topics":[[null,"0x"]],"address":[]}]}`,
		`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0X",[[],{},null]]}`,
		`{"jsonrpc":"2.0","method":"eth_chainId"}`,
		`[1,{"jsonrpc":"2.0","method":"eth_chainId"},[]]`,
	} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	c := testConfig()
	hiero := testDispatcher(f, c, Options{})
	c.Profile = ProfileEthereum
	ethereum := testDispatcher(f, c, Options{})
	f.Fuzz(func(t *testing.T, body []byte, plain bool) {
		d := hiero
		if plain {
			d = ethereum
		}
		answer := exchangeOnce(t.Context(), d, string(body))
		if answer == "" {
			if !plain {
				t.Fatalf("%q: no answer", body)
			}
			return
		}
		if !utf8.ValidString(answer) {
			t.Fatalf("%q: the answer is not UTF-8: %q", body, answer)
		}
		checkAnswer(t, body, []byte(answer))
	})
}

func checkAnswer(t *testing.T, body, answer []byte) {
	t.Helper()
	items := []json.RawMessage{answer}
	if answer[0] == '[' {
		if err := json.Unmarshal(answer, &items); err != nil {
			t.Fatalf("%q: %v in %q", body, err, answer)
		}
		var sent []json.RawMessage
		if err := json.Unmarshal(body, &sent); err != nil || len(items) > max(len(sent), 1) {
			t.Fatalf("%q: %d answers: %q", body, len(items), answer)
		}
	}
	for _, item := range items {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(item, &m); err != nil {
			t.Fatalf("%q: %v in %q", body, err, item)
		}
		_, hasResult := m["result"]
		_, hasError := m["error"]
		if string(m["jsonrpc"]) != `"2.0"` || len(m["id"]) == 0 || hasResult == hasError || len(m) != 3 {
			t.Fatalf("%q: not an answer: %q", body, item)
		}
	}
}

func TestLooseText(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`: "[object Object]", `["a",null,{},5]`: "a,,[object Object],5", `[]`: "", `"x"`: "x",
		"[" + strings.TrimSuffix(strings.Repeat("1,", 100), ",") + "]": strings.Repeat("1,", maxParams) + "…",
	} {
		if got := looseText(jsonx.Value(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestNewParams(t *testing.T) {
	p, ok := NewParams([]byte(` ["0x12", true , "x"] `))
	if !ok || p.Len() != 3 || p.Text(2) != "x" || !p.Bool(1) || len(p.Bytes(0)) != 1 || p.Given(3) || p.At(-1).Present() {
		t.Errorf("got %v, %v", p, ok)
	}
	for _, bad := range []string{``, `{}`, `[1`, `[1] 2`, `"x"`} {
		if _, ok := NewParams([]byte(bad)); ok {
			t.Errorf("%s: accepted", bad)
		}
	}
	many, ok := NewParams([]byte("[" + strings.Repeat("1,", 999) + "1]"))
	if !ok || many.Len() != 1000 || len(many.args) != maxParams || many.At(maxParams).Present() {
		t.Errorf("many: %d, %d kept", many.Len(), len(many.args))
	}
}

// orderMethod is a two-phase method that hands out turns like a lock does: its
// second phase waits until all that entered before it have finished.
type orderMethod struct {
	mu      sync.Mutex
	entered []uint64
	tail    chan struct{} // closed when the last one to enter has finished
}

func newOrderMethod() *orderMethod {
	o := &orderMethod{tail: make(chan struct{})}
	close(o.tail)
	return o
}

func (o *orderMethod) method() Method {
	return Method{Name: "eth_order", Params: []Param{Required(Text())}, Enter: o.enter}
}

func (o *orderMethod) enter(_ context.Context, p *Params) (Finish, error) {
	n, _ := p.At(0).Uint64()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entered = append(o.entered, n)
	before, mine := o.tail, make(chan struct{})
	o.tail = mine
	return FinishFunc(func(ctx context.Context) (any, error) {
		defer close(mine)
		select {
		case <-before:
			return n, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}), nil
}

func (o *orderMethod) call(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_order","params":["0x%x"]}`, n, n)
}

func (o *orderMethod) check(t *testing.T, n int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.entered) != n || !slices.IsSorted(o.entered) {
		t.Errorf("entered: got %v, want 0 to %d in order", o.entered, n-1)
	}
}

// TestBatchOrder: items enter in array order, and every one of them makes
// progress however few others may run at the same time.
func TestBatchOrder(t *testing.T) {
	for _, concurrency := range []int{1, 100} {
		const n = 100
		c := testConfig()
		c.Batch.Concurrency = concurrency
		o := newOrderMethod()
		url := serveHTTP(t, testDispatcher(t, c, Options{}, o.method()), HTTPOptions{})
		var items, want []string
		for i := range n {
			items = append(items, o.call(i))
			want = append(want, fmt.Sprintf(`{"result":%d,"jsonrpc":"2.0","id":%d}`, i, i))
		}
		_, answer := post(t, url, "["+strings.Join(items, ",")+"]")
		compareJSON(t, "batch", answer, "["+strings.Join(want, ",")+"]")
		o.check(t, n)
	}
}

// queued is a two-phase method that waits as long as the test wants, whatever its
// context says.
type queued struct {
	begun   chan context.Context
	release chan struct{}
	result  func() (any, error)
}

func newQueued(result func() (any, error)) *queued {
	return &queued{begun: make(chan context.Context, 200), release: make(chan struct{}), result: result}
}

func (q *queued) method() Method {
	return Method{Name: "eth_queued", AnyParams: true, Enter: func(context.Context, *Params) (Finish, error) {
		return FinishFunc(func(ctx context.Context) (any, error) {
			q.begun <- ctx
			<-q.release
			return q.result()
		}), nil
	}}
}

const queuedCall = `{"jsonrpc":"2.0","id":1,"method":"eth_queued"}`

// TestLoneCallHasNoTimeout: a two-phase call that is alone in its message is answered
// when it ends, and other calls, and batches, in time.
func TestLoneCallHasNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testConfig()
		c.HTTP.RequestTimeout = envx.Millis(10 * time.Millisecond)
		polite := Method{Name: "eth_polite", AnyParams: true, Handler: func(ctx context.Context, _ *Params) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		q := newQueued(func() (any, error) { return "done", nil })
		ws, _ := pipeWS(t, testDispatcher(t, c, Options{}, q.method(), polite))
		send(t, ws, queuedCall)
		ctx := <-q.begun
		if _, limited := ctx.Deadline(); limited {
			t.Error("the call has a deadline")
		}
		if r, ok := FromContext(ctx); !ok || r.Transport != TransportWebSocket {
			t.Errorf("the call has the request %v", r)
		}
		send(t, ws, call1("eth_polite"))
		compareJSON(t, "the other call", receive(t, ws), timedOut)
		send(t, ws, "["+queuedCall+"]")
		compareJSON(t, "the batch", receive(t, ws), "["+timedOut+"]")
		if ctx.Err() != nil {
			t.Error("the call was cancelled")
		}
		close(q.release)
		compareJSON(t, "the call", receive(t, ws), `{"result":"done","jsonrpc":"2.0","id":1}`)
	})
}

// TestLoneCallOutlivesItsConnection: the server forgets a connection whose client has
// gone although a call of it goes on.
func TestLoneCallOutlivesItsConnection(t *testing.T) {
	met := NewMetrics()
	sent := make(chan bool, 1)
	q := newQueued(func() (any, error) { return &Answer{Result: "x", Sent: func(ok bool) { sent <- ok }}, nil })
	url, _ := serveWS(t, testDispatcher(t, testConfig(), Options{Metrics: met}, q.method()))
	ws := dial(t, url, nil)
	send(t, ws, queuedCall)
	ctx := <-q.begun
	ws.Close()
	<-ctx.Done()
	eventually(t, func() bool { return value(met.ws.active) == 0 })
	if value(met.inFlight) != 1 {
		t.Error("the call is not in progress any more")
	}
	close(q.release)
	if <-sent {
		t.Error("an answer that nobody could get was said to be sent")
	}
	eventually(t, func() bool { return value(met.inFlight) == 0 })
}

// patient is a two-phase method whose turn comes when the test says so.
type patient struct {
	queued
	told chan func()
	no   atomic.Bool // it will not tell
}

func (p *patient) method() Method {
	return Method{Name: "eth_queued", AnyParams: true, Enter: func(context.Context, *Params) (Finish, error) { return p, nil }}
}

// Run implements Finish.
func (p *patient) Run(ctx context.Context) (any, error) {
	p.begun <- ctx
	return p.result()
}

// Notify implements Patient.
func (p *patient) Notify(_ context.Context, f func()) bool {
	no := p.no.Load()
	if !no {
		p.told <- f
	}
	return !no
}

// TestPatientCall: a call that tells when its turn has come is run then and not before,
// alone or in a batch, over WebSocket or HTTP, and others are answered meanwhile; one that
// does not tell is run at once.
func TestPatientCall(t *testing.T) {
	p := &patient{queued: *newQueued(func() (any, error) { return "done", nil }), told: make(chan func(), 1)}
	d := testDispatcher(t, testConfig(), Options{}, p.method())
	url, _ := serveWS(t, d)
	ws := dial(t, url, nil)
	const done = `{"result":"done","jsonrpc":"2.0","id":1}`

	send(t, ws, queuedCall)
	turn := <-p.told
	send(t, ws, "["+queuedCall+"]")
	turnOfBatch := <-p.told
	if len(p.begun) > 0 {
		t.Error("a call ran before its turn")
	}
	turnOfBatch()
	compareJSON(t, "the batch", receive(t, ws), "["+done+"]")
	turn()
	compareJSON(t, "the call", receive(t, ws), done)

	plain := serveHTTP(t, d, HTTPOptions{})
	answers := make(chan string, 1)
	go func() {
		_, answer := post(t, plain, queuedCall)
		answers <- answer
	}()
	turn = <-p.told
	if len(p.begun) != 2 {
		t.Errorf("%d calls have run, want 2", len(p.begun))
	}
	turn()
	compareJSON(t, "the call over HTTP", <-answers, done)

	p.no.Store(true)
	send(t, ws, queuedCall)
	compareJSON(t, "the call that does not tell", receive(t, ws), done)
}

// TestSuspendedRequest: a request over HTTP whose call waits for its turn is answered once: when the call has run, or when its time is up, or not at all if its client has gone. A call whose turn comes after that
// runs all the same, and hears that nobody got its answer.
func TestSuspendedRequest(t *testing.T) {
	sent := make(chan bool, 1)
	p := &patient{queued: *newQueued(func() (any, error) { return &Answer{Result: "done", Sent: func(ok bool) { sent <- ok }}, nil }), told: make(chan func(), 1)}
	c := testConfig()
	met := NewMetrics()
	url := serveHTTP(t, testDispatcher(t, c, Options{Metrics: met}, p.method()), HTTPOptions{})
	c.HTTP.RequestTimeout = envx.Millis(300 * time.Millisecond)
	hasty := serveHTTP(t, testDispatcher(t, c, Options{}, p.method()), HTTPOptions{})
	const done = `{"result":"done","jsonrpc":"2.0","id":1}`

	t.Run("turn in time", func(t *testing.T) {
		go func() { (<-p.told)() }()
		_, answer := post(t, url, queuedCall)
		compareJSON(t, "answer", answer, done)
		if <-p.begun; !<-sent {
			t.Error("the answer was said not to be sent")
		}
	})
	t.Run("turn too late", func(t *testing.T) {
		compareJSON(t, "answer", postUntilAnswered(t, hasty, queuedCall), timedOut)
		(<-p.told)()
		if <-sent {
			t.Error("an answer that came too late was said to be sent")
		}
		<-p.begun
	})
	t.Run("client gone", func(t *testing.T) {
		conn := must.Get(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
		must.Get(fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(queuedCall), queuedCall))(t)
		turn := <-p.told
		conn.Close()
		eventually(t, func() bool { return value(met.inFlight) == 0 })
		turn()
		if <-sent {
			t.Error("an answer that nobody could get was said to be sent")
		}
	})
}
