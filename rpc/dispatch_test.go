package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/eth"
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
