package app_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/internal/hapi"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// traces is a collector: it reads what OTLP/HTTP sends.
type traces struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*trace.Span // guarded by mu
	token  string        // guarded by mu
	about  string        // of the process; guarded by mu
	broken bool          // guarded by mu
}

func newTraces(t *testing.T) *traces {
	c := &traces{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *traces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest) // a status after which nothing is repeated
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	text, err := io.ReadAll(body)
	var got collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(text, &got) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.token = r.Header.Get("Authorization")
	for _, resource := range got.GetResourceSpans() {
		c.about = resource.GetResource().String()
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

func (c *traces) breaks(broken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = broken
}

// of returns the spans of a trace, when there is one of that name that began it.
func (c *traces) of(t *testing.T, root string, is func(*trace.Span) bool) (first *trace.Span, all []*trace.Span) {
	t.Helper()
	must.Until(t, "the trace of "+root, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.IndexFunc(c.spans, func(s *trace.Span) bool {
			return s.GetName() == root && s.GetKind() == trace.Span_SPAN_KIND_SERVER && is(s)
		})
		if i < 0 {
			return false
		}
		first, all = c.spans[i], nil
		for _, s := range c.spans {
			if bytes.Equal(s.GetTraceId(), first.GetTraceId()) {
				all = append(all, s)
			}
		}
		return true
	})
	return first, all
}

// tree writes the spans below one, each with its parent, in the order of their beginnings.
func tree(of *trace.Span, all []*trace.Span) (lines []string) {
	slices.SortStableFunc(all, func(a, b *trace.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	for _, s := range all {
		if bytes.Equal(s.GetParentSpanId(), of.GetSpanId()) {
			lines = append(lines, of.GetName()+" > "+s.GetName())
			lines = append(lines, tree(s, all)...)
		}
	}
	return lines
}

func attribute(s *trace.Span, name string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == name {
			return strings.TrimSpace(a.GetValue().GetStringValue() + fmt.Sprint(a.GetValue().GetIntValue()))
		}
	}
	return ""
}

// post sends a body with a traceparent.
func (r *relay) post(body, traceparent string) string {
	r.Helper()
	request := must.Get(http.NewRequestWithContext(r.Context(), http.MethodPost, r.url, strings.NewReader(body)))(r)
	request.Header.Set("traceparent", traceparent)
	response, err := http.DefaultClient.Do(request)
	must.Do(r, err)
	defer response.Body.Close()
	answer := must.Get(io.ReadAll(response.Body))(r)
	return string(answer)
}

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	traceparent  = "00-" + callersTrace + "-" + callersSpan + "-01"
)

func rawTransaction(r *relay, a *account, nonce uint64) string {
	raw := must.Get(a.sign(a.pay(nonce)).MarshalBinary())(r)
	return `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x` + hex.EncodeToString(raw) + `"]}`
}

// One trace leads from a trusted caller's request through the lock, the checks and the node to the mirror node, which
// hears of it, too. Logs and histograms name it.
func TestTraceOfATransaction(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), newTraces(t)
	var heard sync.Map
	w.spoilMirror(t, func(r *http.Request) mirrorrest.Fault {
		heard.Store(r.Header.Get("Traceparent"), true)
		return mirrorrest.Fault{}
	})
	r := w.relay(t, "ENABLE_NONCE_ORDERING=true", "PRETTY_LOGS_ENABLED=false",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20of-the-collector", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment=here")
	sender := w.account(t)
	if got := r.post(rawTransaction(r, sender, 0), traceparent); !strings.Contains(got, `"result"`) {
		t.Fatal(got)
	}
	root, all := c.of(t, "eth_sendRawTransaction", func(s *trace.Span) bool { return hex.EncodeToString(s.GetTraceId()) == callersTrace })
	if got := hex.EncodeToString(root.GetParentSpanId()); got != callersSpan {
		t.Errorf("the parent is %s, want the caller's %s", got, callersSpan)
	}
	if attribute(root, "rpc.system") == "" || attribute(root, "lockstep.request_id") == "" || !strings.HasPrefix(attribute(root, "client.address"), "127.0.0.1") {
		t.Errorf("attributes: %v", root.GetAttributes())
	}
	lines := tree(root, all)
	for _, want := range []string{
		"eth_sendRawTransaction > lock wait", "eth_sendRawTransaction > precheck", "eth_sendRawTransaction > consensus submit",
		"consensus submit > offer", "eth_sendRawTransaction > receipt",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	mirrored := slices.IndexFunc(all, func(s *trace.Span) bool { return attribute(s, "server.address") != "" })
	if mirrored < 0 {
		t.Fatalf("no request to the mirror node in\n%s", strings.Join(lines, "\n"))
	}
	id := "00-" + callersTrace + "-" + hex.EncodeToString(all[mirrored].GetSpanId()) + "-01"
	if _, ok := heard.Load(id); !ok {
		t.Errorf("the mirror node did not hear of %s", id)
	}
	for _, s := range all {
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR {
			t.Errorf("span %v", s)
		}
	}
	if len(r.log.with("trace_id="+callersTrace)) == 0 {
		t.Error("no line of the log names the trace")
	}
	c.mu.Lock()
	token, about := c.token, c.about
	c.mu.Unlock()
	if token != "Bearer of-the-collector" || !strings.Contains(about, "lockstep") || !strings.Contains(about, "deployment.environment") {
		t.Errorf("token %q, resource %s", token, about)
	}
	if settings := r.call("admin_config").String(); strings.Contains(settings, "of-the-collector") || len(r.log.with("of-the-collector")) > 0 {
		t.Error("the collector's token is shown")
	}

	for _, name := range []string{
		"rpc_relay_method_response", "rpc_relay_lock_wait_time_seconds", "rpc_relay_lock_hold_duration_seconds", "rpc_relay_consensus_submit_seconds",
		"rpc_relay_consensus_receipt_seconds", "rpc_relay_mirror_response", "rpc_relay_tx_seconds",
	} {
		must.Until(t, name+" has an exemplar of the trace", func() bool { return r.hasExemplar(name, callersTrace) })
	}
	page := r.openMetrics()
	if !strings.Contains(page, "\nrpc_websocket_method_counter{") && !strings.Contains(page, "\nrpc_relay_eth_executions{") {
		t.Errorf("counters have other names:\n%s", page)
	}
	must.Until(t, "sent spans are counted", func() bool { return r.scrape()[`lockstep_trace_spans_total{result="sent"}`] > 0 })
}

// hasExemplar tells whether a count of a histogram names a trace.
func (r *relay) hasExemplar(name, trace string) bool {
	r.Helper()
	return slices.ContainsFunc(strings.Split(r.openMetrics(), "\n"), func(line string) bool {
		return strings.HasPrefix(line, name+"_bucket") && strings.Contains(line, `# {trace_id="`+trace+`"}`)
	})
}

// openMetrics reads the metrics in the form that has exemplars.
func (r *relay) openMetrics() string {
	r.Helper()
	request := must.Get(http.NewRequestWithContext(r.Context(), http.MethodGet, r.url+"/metrics", nil))(r)
	request.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	response, err := http.DefaultClient.Do(request)
	must.Do(r, err)
	defer response.Body.Close()
	page := must.Get(io.ReadAll(response.Body))(r)
	return string(page)
}

// Each call of a batch has its span, one that fails says why; a message over WebSocket has a trace of its own.
func TestTracesOfBatchesAndMessages(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), newTraces(t)
	r := w.relay(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	sender := w.account(t)
	r.post("["+rawTransaction(r, sender, 0)+`,{"jsonrpc":"2.0","id":2,"method":"eth_getBlockByNumber","params":["latest",false]},{"jsonrpc":"2.0","id":3,"method":"eth_getBalance","params":["0x00000000000000000000000000000000000003e9","0xffffffff"]}]`, "")
	root, all := c.of(t, "batch_request", func(*trace.Span) bool { return true })
	lines := tree(root, all)
	for _, want := range []string{"batch_request > eth_sendRawTransaction", "batch_request > eth_getBlockByNumber", "eth_sendRawTransaction > consensus submit"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	failed := slices.IndexFunc(all, func(s *trace.Span) bool { return s.GetName() == "eth_getBalance" })
	if failed < 0 || all[failed].GetStatus().GetCode() != trace.Status_STATUS_CODE_ERROR || attribute(all[failed], "rpc.jsonrpc.error_code") == "" {
		t.Errorf("the call that failed: %v", all)
	}
	must.Until(t, "a batch has an exemplar", func() bool { return r.hasExemplar("rpc_relay_method_result", hex.EncodeToString(root.GetTraceId())) })
	var price string
	must.Do(t, dial(t, r).Call(&price, "eth_gasPrice"))
	root, _ = c.of(t, "eth_gasPrice", func(*trace.Span) bool { return true })
	if got := attribute(root, "lockstep.transport"); !strings.HasPrefix(got, "ws") {
		t.Errorf("transport %q", got)
	}
	must.Until(t, "a message has an exemplar", func() bool {
		return r.hasExemplar("rpc_websocket_message_duration_miliseconds", hex.EncodeToString(root.GetTraceId()))
	})
}

// A stranger's traceparent decides nothing: neither which trace is gone on with, nor whether it is recorded.
func TestATraceparentOfAStranger(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), newTraces(t)
	r := w.relay(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "TRUSTED_PROXIES=10.0.0.0/8")
	r.post(`{"jsonrpc":"2.0","id":1,"method":"eth_gasPrice","params":[]}`, "00-"+callersTrace+"-"+callersSpan+"-00")
	root, _ := c.of(t, "eth_gasPrice", func(*trace.Span) bool { return true })
	if got := hex.EncodeToString(root.GetTraceId()); got == callersTrace || len(root.GetParentSpanId()) > 0 {
		t.Errorf("trace %s, parent %x", got, root.GetParentSpanId())
	}
	trusting := w.relay(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	trusting.post(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`, "00-"+callersTrace+"-"+callersSpan+"-00") // not to be recorded
	trusting.post(`{"jsonrpc":"2.0","id":1,"method":"net_version","params":[]}`, traceparent)
	c.of(t, "net_version", func(*trace.Span) bool { return true })
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.spans, func(s *trace.Span) bool { return s.GetName() == "eth_chainId" }) {
		t.Error("what the proxy said not to record was recorded")
	}
}

// A collector that refuses everything costs the traces alone, and is told to the log once.
func TestACollectorThatFails(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), newTraces(t)
	c.breaks(true)
	r := w.relay(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL)
	sender := w.account(t)
	for nonce := range uint64(3) {
		if got := r.send(sender.sign(sender.pay(nonce))); got.Error != nil {
			t.Fatal(got)
		}
		must.Until(t, "spans are lost", func() bool { return r.scrape()[`lockstep_trace_spans_total{result="lost"}`] > 0 })
	}
	if got := r.log.with("upstream=collector"); len(got) != 1 || !strings.Contains(got[0], "level=WARN") {
		t.Errorf("the log: %q", got)
	}
	c.breaks(false)
	r.call("eth_gasPrice")
	c.of(t, "eth_gasPrice", func(*trace.Span) bool { return true })
	must.Until(t, "the collector is back", func() bool { return len(r.log.with("an upstream is usable again")) == 1 })
}

func (r *relay) scrape() map[string]float64 {
	r.Helper()
	_, page := ask(r.T, http.MethodGet, r.url+"/metrics", "")
	return must.Scrape(r, page)
}

// happened is what TestEveryMetricTellsWhatHappened expects of series, by their names with labels.
func happened() map[string]float64 {
	return map[string]float64{
		`rpc_relay_method_response_count{method="eth_chainId",statusCode="200"}`:                                                2,
		`rpc_relay_method_response_count{method="unknown",statusCode="400"}`:                                                    1,
		`rpc_relay_method_response_count{method="batch_request",statusCode="200"}`:                                              1,
		`rpc_relay_method_response_count{method="eth_getTransactionReceipt",statusCode="200"}`:                                  1,
		`rpc_relay_method_response_count{method="eth_sendRawTransaction",statusCode="200"}`:                                     3,
		`rpc_relay_method_response_count{method="eth_sendRawTransaction",statusCode="400"}`:                                     2,
		`rpc_relay_method_result_count{isPartOfBatch="true",method="eth_chainId",statusCode="200"}`:                             1,
		`rpc_relay_method_result_count{isPartOfBatch="true",method="unknown",statusCode="-32601"}`:                              1,
		`lockstep_rpc_errors_total{code="-32601",method="unknown",transport="http"}`:                                            2,
		`lockstep_rpc_errors_total{code="-32000",method="eth_sendRawTransaction",transport="http"}`:                             1,
		`lockstep_rpc_errors_total{code="-32003",method="eth_sendRawTransaction",transport="http"}`:                             1,
		`rpc_relay_eth_executions{method="eth_sendRawTransaction"}`:                                                             4,
		`rpc_relay_tx_outcomes_total{outcome="executed",status="SUCCESS"}`:                                                      3,
		`rpc_relay_consensusnode_response_count{mode="TRANSACTION",status="SUCCESS",type="EthereumTransaction"}`:                3,
		`rpc_relay_consensusnode_gasfee_count{mode="TRANSACTION",status="SUCCESS",type="EthereumTransaction"}`:                  3,
		`rpc_relay_consensusnode_response_count{mode="TRANSACTION",status="MAX_GAS_LIMIT_EXCEEDED",type="EthereumTransaction"}`: 1,
		`rpc_relay_consensusnode_gasfee_count{mode="TRANSACTION",status="MAX_GAS_LIMIT_EXCEEDED",type="EthereumTransaction"}`:   1,
		`rpc_relay_tx_outcomes_total{outcome="rejected",status="MAX_GAS_LIMIT_EXCEEDED"}`:                                       1,
		`lockstep_lane_holes_total`:                                              1, // the refused nonce was not used
		`rpc_relay_consensus_attempts_total{result="accepted"}`:                  4,
		`rpc_relay_consensus_node_healthy{node="0.0.3"}`:                         1,
		`rpc_relay_lock_acquisitions_total{status="success",strategy="redis"}`:   4,
		`rpc_relay_lock_acquisitions_total{status="success",strategy="local"}`:   0,
		`rpc_relay_lock_hold_duration_seconds_count{strategy="redis"}`:           4,
		`rpc_relay_lock_wait_time_seconds_count{strategy="redis"}`:               4,
		`rpc_relay_txpool_operations_total{operation="add"}`:                     4,
		`rpc_relay_txpool_operations_total{operation="remove"}`:                  4,
		`rpc_websocket_active_connections`:                                       1,
		`rpc_websocket_active_connections_per_ip`:                                1,
		`rpc_websocket_connections_established_total`:                            1,
		`rpc_websocket_messages_received_total`:                                  1,
		`rpc_websocket_method_counter{method="eth_chainId"}`:                     1,
		`rpc_websocket_message_duration_miliseconds_count{method="eth_chainId"}`: 1,
		`lockstep_ordering_enabled`:                                              1,
		`lockstep_ordering_window_seconds`:                                       2,
		`lockstep_lanes{state="idle"}`:                                           1,
		`lockstep_lock_redis_up`:                                                 1,
		`lockstep_upstream_up{upstream="mirror"}`:                                1,
		`lockstep_upstream_up{upstream="nodes"}`:                                 1,
		`lockstep_upstream_up{upstream="redis"}`:                                 1,
		`rpc_relay_client_service{errors="",transactions=""}`:                    0,
	}
}

// happenedSomehow is what that test expects to be more than nothing, by how the names begin: it depends on the time or
// on the machine.
func happenedSomehow() []string {
	return []string{
		"go_", "rpc_relay_process_", "rpc_relay_nodejs_", "lockstep_build_info", "rpc_relay_connections",
		"rpc_relay_operator_balance", "rpc_relay_mirror_response", "rpc_relay_mirror_upstream", "rpc_relay_mirror_cache_entries", "rpc_relay_cache", "rpc_cache_service_methods_counter",
		"rpc_relay_tx_seconds", "rpc_relay_consensus_submit_seconds", "rpc_relay_consensus_receipt_seconds",
	}
}

// A scraper sees what happened, in every metric: what is not in the list is 0.
func TestEveryMetricTellsWhatHappened(t *testing.T) {
	w, server := newWorld(t), redistest.Start(t)
	r := w.relay(t, "ENABLE_NONCE_ORDERING=true", "NONCE_GAP_HOLD_MS=2000", "REDIS_ENABLED=true", "REDIS_URL="+server.URL(),
		"READ_YOUR_WRITES_WAIT_MS=60000",
		ofOperator[0], ofOperator[1], ofOperator[2])
	r.becomesSum(t, "lockstep_lock_redis_up", 1)
	sender, before := w.account(t), operatorBalance(t, w.net)
	for nonce := range uint64(3) {
		if got := r.send(sender.sign(sender.pay(nonce))); got.Error != nil {
			t.Fatal(got)
		}
	}
	for range 2 {
		r.call("eth_chainId")
	}
	r.call("eth_nonsense")
	r.call("eth_sendRawTransaction", "0x00")                               // no transaction
	r.call("eth_getTransactionReceipt", sender.sign(sender.pay(0)).Hash()) // the gas that it used is kept from now on
	w.spoilNode(t, node.Fault{Outcome: hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED})
	if got := r.send(sender.sign(sender.pay(3))); got.Error == nil {
		t.Fatal("the network refuses it")
	}
	answer, err := http.Post(r.url, "application/json", bytes.NewReader([]byte(`[`+rpcBody("eth_chainId")+`,`+rpcBody("eth_nonsense")+`]`)))
	must.Do(t, err)
	_ = answer.Body.Close()
	client := dial(t, r)
	must.Do(t, client.CallContext(t.Context(), new(string), "eth_chainId"))
	costs := func() float64 {
		sum := 0.0
		for name, value := range r.scrape() {
			if strings.HasPrefix(name, "rpc_relay_consensusnode_gasfee_count{mode=\"TRANSACTION\"") {
				sum += value
			}
		}
		return sum
	}
	must.Until(t, "the costs are known", func() bool { return costs() == 4 })

	exactly, something := happened(), happenedSomehow()
	got := r.scrape()
	for name, want := range exactly {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	isSum := func(name string) bool { return strings.HasSuffix(name[:len(name)-len(cutLabels(name))], "_sum") }
	strange := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		_, listed := exactly[name]
		known := slices.ContainsFunc(something, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		late := name == `rpc_relay_consensus_attempts_total{result="unsent"}` // the node was not connected in time
		if !listed && !known && !late && !isSum(name) && got[name] != 0 {
			strange[name] = got[name]
		}
	}
	if diff := cmp.Diff(map[string]float64{}, strange); diff != "" {
		t.Errorf("what happened to nobody's knowledge (-want +got):\n%s", diff)
	}
	for _, prefix := range something {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(name string) bool { return strings.HasPrefix(name, prefix) && got[name] > 0 }) {
			t.Errorf("%s… is nothing", prefix)
		}
	}
	var spent float64
	for name, value := range got {
		if strings.HasPrefix(name, "rpc_relay_consensusnode_response_sum") {
			spent += value
		}
	}
	if want := float64(before - operatorBalance(t, w.net)); spent != want {
		t.Errorf("transactions cost %v tinybars; the operator has %v less", spent, want)
	}
	if told, want := got[`rpc_relay_consensusnode_gasfee_sum{mode="TRANSACTION",status="SUCCESS",type="EthereumTransaction"}`], r.gasUsed(sender, 3); told != want || want == 0 {
		t.Errorf("gas %v, by the receipts %v", told, want)
	}
}

// gasUsed is what the first transactions of a sender used, by their receipts.
func (r *relay) gasUsed(sender *account, transactions uint64) (sum float64) {
	r.Helper()
	for nonce := range transactions {
		var receipt struct{ GasUsed hexutil.Uint64 }
		must.Do(r, json.Unmarshal(r.call("eth_getTransactionReceipt", sender.sign(sender.pay(nonce)).Hash()).Result, &receipt))
		sum += float64(receipt.GasUsed)
	}
	return sum
}

// cutLabels returns what follows a metric's name.
func cutLabels(series string) string {
	if i := strings.IndexByte(series, '{'); i >= 0 {
		return series[i:]
	}
	return ""
}
