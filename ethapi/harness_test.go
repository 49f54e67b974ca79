package ethapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/secret"
	"lockstep/mirror"
	"lockstep/rpc"
)

// patience is how long a test waits for what must happen; machines that test are busy.
const patience = 2 * time.Minute

var update = flag.Bool("update", false, "write the golden files anew")

// mirrorNode is a mirror node that answers from a table, and keeps what it was asked.
type mirrorNode struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]answer // by path and query below /api/v1/; of a call, by its body
	asked   []string
}

type answer struct {
	status int
	body   string
}

func newMirrorNode(t testing.TB) *mirrorNode {
	n := &mirrorNode{answers: make(map[string]answer)}
	n.Server = httptest.NewServer(n)
	t.Cleanup(n.Close)
	return n
}

func (n *mirrorNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.RequestURI(), "/api/v1/")
	if r.Method == http.MethodPost {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		key = body.String()
	}
	n.mu.Lock()
	a, ok := n.answers[key]
	n.asked = append(n.asked, key)
	n.mu.Unlock()
	if !ok {
		a = answer{http.StatusNotFound, `{"_status":{"messages":[{"message":"Not found"}]}}`}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	fmt.Fprint(w, a.body)
}

func (n *mirrorNode) set(key, body string) { n.fail(key, http.StatusOK, body) }

func (n *mirrorNode) fail(key string, status int, body string) {
	n.mu.Lock()
	n.answers[key] = answer{status, body}
	n.mu.Unlock()
}

// requests returns what was asked since the last time.
func (n *mirrorNode) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	asked := n.asked
	n.asked = nil
	return asked
}

// relay is the whole read side over a mirror node: HTTP in, HTTP out.
type relay struct {
	t        testing.TB
	api      *API
	handler  http.Handler
	url      string
	node     *mirrorNode
	settings settings
}

type settings struct {
	API    Config
	Mirror mirror.Config
	RPC    rpc.Config
	deps   Deps
	// transport replaces the connections to the mirror node; nil: it does not.
	transport http.RoundTripper
	// Memory is what requests and notifications may hold; nil: as much as they want.
	Memory *capacity.Memory `env:"-"`
}

// newAPI makes the methods over the mirror node at an address.
func newAPI(t testing.TB, url string, change ...func(*settings)) (*API, settings) {
	t.Helper()
	s := must.Get(env.ParseAsWithOptions[settings](env.Options{Environment: map[string]string{}}))(t)
	s.RPC.Profile = rpc.ProfileEthereum
	s.Mirror.URL = secret.URL(url)
	s.Mirror.ImmatureAttempts = 2
	s.Mirror.RetryDelay, s.Mirror.RetryBudget = 0, 0 // an error is told at once; that reads are repeated is shown in mirror/fetch
	s.Mirror.Freshness = 0
	s.Mirror.Timeout, s.API.Simulation.Timeout = envx.Millis(patience), envx.Millis(patience)
	s.RPC.HTTP.RequestTimeout, s.RPC.WebSocket.WriteTimeout = envx.Millis(2*patience), envx.Millis(patience)
	s.deps = Deps{ChainID: 298, Version: "1.2.3"}
	for _, c := range change {
		c(&s)
	}
	client := must.Get(mirror.New(s.Mirror, mirror.Options{Transport: s.transport}))(t)
	s.deps.Mirror, s.deps.Profile = client, s.RPC.Profile
	return must.Get(New(s.API, s.deps))(t), s
}

func newRelay(t testing.TB, node *mirrorNode, change ...func(*settings)) *relay {
	t.Helper()
	api, s := newAPI(t, node.URL, change...)
	registry := must.Get(rpc.NewRegistry(api.Methods()...))(t)
	dispatcher := must.Get(rpc.NewDispatcher(s.RPC, registry, rpc.Options{Logger: slog.New(slog.DiscardHandler), Metrics: rpc.NewMetrics(), Unknown: UnknownMethod, NotInBatches: s.API.NotInBatches}))(t)
	handler := rpc.NewHTTPServer(dispatcher, rpc.HTTPOptions{})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &relay{t: t, api: api, handler: handler, url: server.URL, node: node, settings: s}
}

func hiero(s *settings) { s.RPC.Profile = rpc.ProfileHiero }

type response struct {
	Result json.RawMessage `json:"result"`
	Error  *responseError  `json:"error"`
	status int
}

type responseError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (r response) String() string {
	if r.Error != nil {
		text := fmt.Sprintf("%d %s", r.Error.Code, r.Error.Message)
		if r.Error.Data != nil {
			text += " " + string(r.Error.Data)
		}
		return text
	}
	return string(r.Result)
}

// call sends one request; params is the text of the array.
func (r *relay) call(method, params string) response {
	r.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	answer := must.Get(http.Post(r.url, "application/json", strings.NewReader(body)))(r.t)
	defer answer.Body.Close()
	var response response
	if err := json.NewDecoder(answer.Body).Decode(&response); err != nil {
		r.t.Fatalf("%s: %v", body, err)
	}
	response.status = answer.StatusCode
	return response
}

// expect makes calls and compares results and errors as text.
func (r *relay) expect(want ...[3]string) {
	r.t.Helper()
	for _, w := range want {
		if got := r.call(w[0], w[1]).String(); got != w[2] {
			r.t.Errorf("%s%s\n got %s\nwant %s", w[0], w[1], got, w[2])
		}
	}
}

// value is what a text says, in which the order of members does not count.
func value(t testing.TB, text []byte) (v any) {
	t.Helper()
	must.Do(t, json.Unmarshal(text, &v))
	return v
}

// golden compares a result with a file below testdata, as values.
func (r *relay) golden(name, method, params string) {
	r.t.Helper()
	got := r.call(method, params)
	if got.Error != nil {
		r.t.Errorf("%s: %s", name, got)
		return
	}
	var pretty bytes.Buffer
	must.Do(r.t, json.Indent(&pretty, got.Result, "", "  "))
	pretty.WriteByte('\n')
	// A bloom of all zeros says as much in short.
	text := strings.ReplaceAll(pretty.String(), `"0x`+strings.Repeat("00", 256)+`"`, `"empty bloom"`)
	file := filepath.Join("testdata", name+".json")
	if *update {
		must.Do(r.t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	want := must.Get(os.ReadFile(file))(r.t)
	if diff := cmp.Diff(value(r.t, want), value(r.t, []byte(text))); diff != "" {
		r.t.Errorf("%s (-want +got)\n%s", name, diff)
	}
}
