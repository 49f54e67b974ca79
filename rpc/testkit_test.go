package rpc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"lockstep/internal/clientip"
	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/internal/must"
)

// testConfig is the configuration that the defaults of the tags give, with more patience.
func testConfig() Config {
	apis := envx.Strings{"eth", "debug", "net", "web3", "txpool", "trace", "admin"}
	ms := func(n int) envx.Millis { return envx.Millis(time.Duration(n) * time.Millisecond) }
	return Config{
		Profile: ProfileHiero, ValidCallStatus: 400, LogClient: "full",
		Config: clientip.Config{TrustProxyHeaders: true, TrustedProxies: envx.Strings{
			"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10",
		}},
		HTTP: HTTPConfig{
			APIs: apis, InputSizeLimit: 1, ConnectionLimit: 16384, ConnectionLimitPerIP: 1024, RequestTimeout: ms(60000), KeepAliveTimeout: ms(650000),
			HeadersTimeout: ms(660000), DrainTimeout: envx.Millis(patience),
		},
		Batch: BatchConfig{Enabled: true, MaxSize: 100, Concurrency: 100},
		WebSocket: WebSocketConfig{
			APIs: apis, BatchEnabled: true, BatchMaxSize: 20, ConnectionLimit: 10, ConnectionLimitPerIP: 10,
			InputSizeLimit: 1, InactivityTTL: ms(3600000), PingInterval: ms(3600000), MaxInFlight: 128,
			WriteTimeout: envx.Millis(patience), NotifyLimit: 16, AllowedOrigins: envx.Strings{"*"},
		},
		RateLimit: RateLimitConfig{Disabled: true, Window: ms(60000), Tier1: 100, Tier2: 800, Tier3: 1600, Default: 200},
	}
}

// coldError is an error of another package that carries a code.
type coldError struct{}

func (coldError) Error() string  { return "too cold" }
func (coldError) ErrorCode() int { return -32055 }
func (coldError) ErrorData() any { return []int{1, 2} }

type selfWriting struct{ n int }

func (s selfWriting) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"n":%d}`, s.n), nil
}

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("while encoding") }

func returns(v any) Handler {
	return func(context.Context, *Params) (any, error) { return v, nil }
}

func fails(err error) Handler {
	return func(context.Context, *Params) (any, error) { return nil, err }
}

// hexRule accepts hex digits in pairs, as many as digits says or any number if it is 0.
func hexRule(phrase string, digits int) Rule {
	return Rule{Phrase: phrase, Check: func(v jsonx.Value) bool {
		found, ok := jsonx.HexDigits(v.View())
		return ok && len(found)%2 == 0 && (digits == 0 || len(found) == digits)
	}}
}

func addressRule() Rule {
	return hexRule("Expected 0x prefixed string representing the address (20 bytes)", 40)
}

func hashRule() Rule {
	return hexRule("Expected Expected 0x prefixed string representing the hash (32 bytes) of a block", 64)
}

func tagRule() Rule {
	return Rule{
		Phrase: `Expected 0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`,
		Check:  func(v jsonx.Value) bool { return v.Text() == "latest" },
	}
}

// callRule accepts an object that may name an address and data.
func callRule() Rule {
	return Object{Name: "TransactionObject", Fields: []Field{
		{Name: "to", Rule: addressRule(), Nullable: true},
		{Name: "data", Rule: hexRule("Expected 0x prefixed hexadecimal value with even length", 0), Nullable: true},
	}}.Rule("Expected TransactionObject", nil)
}

// testMethods is a table with one method per behaviour.
func testMethods() []Method {
	return []Method{
		{Name: "eth_chainId", Inline: true, AnyParams: true, Handler: returns(json.RawMessage(`"0x12a"`))},
		{Name: "eth_syncing", Inline: true, AnyParams: true, Handler: returns(false)},
		{Name: "eth_accounts", AnyParams: true, Handler: returns([]string{})},
		{Name: "eth_getBalance", Params: []Param{Required(addressRule()), Optional(AnyOf(tagRule(), hashRule()))}, Handler: returns("0x1")},
		{Name: "eth_getTransactionByHash", Params: []Param{Required(hashRule())}, Handler: returns(nil)},
		{Name: "eth_getLogs", Params: []Param{Required(callRule())}, Handler: returns(json.RawMessage(`[]`))},
		{
			Name: "eth_call", Params: []Param{Required(callRule()), Optional(tagRule())},
			Handler: func(_ context.Context, p *Params) (any, error) { return p.At(0).Field("data"), nil },
		},
		{Name: "eth_estimateGas", Params: []Param{Required(callRule())}, Handler: fails(eth.ErrReverted("no", "0x08c3"))},
		{Name: "eth_getCode", AnyParams: true, Handler: fails(eth.ErrUpstream(501, "not here"))},
		{Name: "eth_gasPrice", AnyParams: true, Handler: fails(errors.New("dial tcp 10.0.0.1:5551: refused"))},
		{Name: "eth_feeHistory", AnyParams: true, Handler: fails(fmt.Errorf("inner detail: %w", coldError{}))},
		{Name: "eth_mining", AnyParams: true, Handler: func(context.Context, *Params) (any, error) { panic("secret value") }},
		{Name: "eth_hashrate", AnyParams: true, Handler: returns(explosive{})},
		{Name: "eth_newFilter", AnyParams: true, Handler: returns("0x1")},
		{Name: "eth_getFilterLogs", AnyParams: true, Handler: returns(selfWriting{7})},
		{Name: "eth_protocolVersion", Inline: true, AnyParams: true, Handler: fails(eth.ErrUnsupportedMethod)},
		{Name: "net_peerCount", AnyParams: true, Handler: returns(make(chan int))},
		{
			Name: "web3_sha3", Params: []Param{Required(hexRule("Expected 0x prefixed hexadecimal value with even length", 0))}, Inline: true,
			Handler: func(_ context.Context, p *Params) (any, error) { return p.Text(0), nil },
		},
		{Name: "txpool_status", Handler: returns(map[string]string{"a": "<b>"})},
		{Name: "secret_method", AnyParams: true, Handler: returns("hidden")},
	}
}

// testUnknown answers as the relay does: the answer depends on the namespace, on the transport
// and on whether that serves the namespace.
func testUnknown(name string, t Transport, served bool) *eth.Error {
	if served && t == TransportWebSocket && (name == "eth_subscribe" || name == "eth_unsubscribe") {
		return eth.ErrUnsupportedMethod
	}
	switch Namespace(name) {
	case "engine":
		return eth.ErrUnsupportedMethod
	case "trace", "debug":
		if served && t == TransportHTTP {
			return eth.ErrNotYetImplemented
		}
	}
	return eth.ErrMethodNotFound(name)
}

const chainIDCall = `{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`

func chainIDBatch(n int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(chainIDCall+",", n), ",") + "]"
}

// testNotification is the method of the notifications that subscribers of the tests get.
const testNotification = "test_subscription"

func testDispatcher(t testing.TB, c Config, o Options, methods ...Method) *Dispatcher {
	t.Helper()
	if methods == nil {
		methods = testMethods()
	}
	r := must.Get(NewRegistry(methods...))(t)
	if o.Unknown == nil {
		o.Unknown = testUnknown
	}
	if o.NotInBatches == nil {
		o.NotInBatches = []string{"eth_newFilter", "debug_traceTransaction"}
	}
	o.Notification = cmp.Or(o.Notification, testNotification)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Metrics = cmp.Or(o.Metrics, NewMetrics())
	return must.Get(NewDispatcher(c, r, o))(t)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	return must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
}

// pipes is a listener in the process, for tests with fake time: what waits for it lets that pass, which a socket
// does not.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- pipe{far}:
		return near, nil
	case <-p.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return pipe{}.RemoteAddr() }

// pipe is one end that has the address of a client.
type pipe struct{ net.Conn }

func (pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// serveHTTP runs a server for the test's duration and returns its URL.
func serveHTTP(t testing.TB, d *Dispatcher, o HTTPOptions) string {
	t.Helper()
	ln := listen(t)
	must.Run(t, func(ctx context.Context) error { return NewHTTPServer(d, o).Run(ctx, ln) })
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return "http://" + ln.Addr().String()
}

// post sends a body with the request id "test" and returns status and answer.
func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	return postWith(t, url, strings.NewReader(body), nil)
}

// postUntilAnswered is post for a server whose time-out for reading a head is short: it may hang up before it has
// read anything.
func postUntilAnswered(t testing.TB, url, body string) (answer string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		res, err := http.Post(url, jsonType, strings.NewReader(body))
		if err == nil {
			defer res.Body.Close()
			answer := must.Get(io.ReadAll(res.Body))(t)
			return string(answer)
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func postWith(t testing.TB, url string, body io.Reader, header http.Header) (int, string) {
	t.Helper()
	req := must.Get(http.NewRequest(http.MethodPost, url, body))(t)
	req.Header.Set("Request-Id", "test")
	maps.Copy(req.Header, header)
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	answer := must.Get(io.ReadAll(res.Body))(t)
	return res.StatusCode, string(answer)
}

// collect returns all series of a collector.
func collect(c prometheus.Collector) []*dto.Metric {
	ch := make(chan prometheus.Metric)
	go func() {
		c.Collect(ch)
		close(ch)
	}()
	var all []*dto.Metric
	for m := range ch {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			panic(err)
		}
		all = append(all, &d)
	}
	return all
}

// value is the sum of all series of a collector; of histograms, the count.
func value(c prometheus.Collector) float64 {
	sum := 0.0
	for _, d := range collect(c) {
		sum += d.GetCounter().GetValue() + d.GetGauge().GetValue() + float64(d.GetHistogram().GetSampleCount())
	}
	return sum
}

// TestMain also checks that no server leaves a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := leak(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// leak waits for the goroutines that are about to end. goleak alone waits for a second or two.
func leak() (err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}
