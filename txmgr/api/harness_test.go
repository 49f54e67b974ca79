package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/redisx"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/service"
	"lockstep/txmgr/signers"
	"lockstep/txmgr/webhooks"
)

// The keys of this test; the first is the signer's, the second a caller's who signs.
const (
	signerKey = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	callerKey = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	receiver  = "0x05FbA803Be258049A27B820088bab1cAD2058871"
)

func addressOf(key string) common.Address {
	k, err := crypto.HexToECDSA(key)
	if err != nil {
		panic(err)
	}
	return crypto.PubkeyToAddress(k.PublicKey)
}

var (
	signer       = addressOf(signerKey)
	callerSigner = addressOf(callerKey)

	signerName, callerName = spelled(signer), spelled(callerSigner)
)

// spelled is how the manager spells an address.
func spelled(a common.Address) string { return strings.ToLower(a.Hex()) }

// world is a running manager on a chain of its own.
type world struct {
	*service.Service
	t      *testing.T
	url    string
	chain  *simchain
	log    *proctest.Tail
	ledger string
	client *http.Client
	stop   func()
}

// start runs a manager. Change may set settings.
func start(t *testing.T, change func(*service.Config)) *world {
	t.Helper()
	w := &world{t: t, chain: newChain(t, signer, callerSigner), log: &proctest.Tail{}, client: http.DefaultClient, ledger: filepath.Join(t.TempDir(), "ledger.db")}
	w.run(change)
	return w
}

// build puts a manager together that listens nowhere yet.
func (w *world) build(change func(*service.Config)) *service.Service {
	t := w.t
	t.Helper()
	cfg := service.Config{
		Ledger: service.Ledger{URL: secret.URL("sqlite:" + w.ledger)}, Chains: service.Chains{Chains: `{"1337":{"driver":"sim"}}`}, Manager: txmgr.Defaults(),
		Signers: signers.Config{Keys: signerKey, Timeout: envx.Millis(time.Minute)},
		API:     api.Config{Address: "127.0.0.1:0", Streams: 20, Batch: 10, Waits: 4000, Drain: envx.Millis(5 * time.Second)},
		Webhooks: webhooks.Config{
			Networks: envx.Strings{"127.0.0.1"}, Timeout: envx.Millis(5 * time.Minute), RetryFor: envx.Millis(time.Hour), Workers: 4, Limit: 5, Retention: envx.Millis(time.Hour),
		},
	}
	cfg.Manager.Instance, cfg.Manager.Poll = "test", envx.Millis(20*time.Millisecond)
	cfg.Manager.Reservation = envx.Millis(time.Hour) // however slow the machine is
	if change != nil {
		change(&cfg)
	}
	s := must.Get(service.New(t.Context(), cfg, service.Deps{
		Drivers: map[string]service.Driver{
			"sim":    func(context.Context, service.Spec) (txmgr.Chain, error) { return w.chain, nil },
			"silent": func(context.Context, service.Spec) (txmgr.Chain, error) { return silent{w.chain}, nil },
		},
		Version: "test", Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}))(t)
	return s
}

func (w *world) run(change func(*service.Config)) {
	t := w.t
	t.Helper()
	s := w.build(change)
	must.Do(t, s.Listen(t.Context()))
	w.Service, w.url = s, s.URL()
	w.stop = must.Run(t, s.Run)
}

// until waits for a condition.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	must.Until(w.t, what, holds)
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) into(t *testing.T, out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), out); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
}

// transaction reads one, and fails the test if the answer is an error.
func (a answer) transaction(t *testing.T) api.Transaction {
	t.Helper()
	if a.status/100 != 2 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var tx api.Transaction
	a.into(t, &tx)
	return tx
}

func (a answer) code(t *testing.T) string {
	t.Helper()
	var p struct{ Code string }
	a.into(t, &p)
	return p.Code
}

// ask makes one request; headers are pairs.
func (w *world) ask(method, path, body string, headers ...string) answer {
	w.t.Helper()
	request := must.Get(http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body)))(w.t)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := w.client.Do(request)
	if err != nil {
		w.t.Error(err)
		return answer{}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Error(err)
	}
	if !documented(method, path, response.StatusCode) {
		w.t.Errorf("%s %s answers %d, which /openapi.json does not tell: %s", method, path, response.StatusCode, content)
	}
	return answer{response.StatusCode, response.Header, string(content)}
}

// described is what /openapi.json has, by the paths that are operations, such as "/v1/transactions/*".
var described = sync.OnceValue(func() map[string]*huma.PathItem {
	parameter, all := regexp.MustCompile(`\{\w+\}`), map[string]*huma.PathItem{}
	for path, item := range api.Document().Paths {
		all[parameter.ReplaceAllString(path, "*")] = item
	}
	return all
})

// documented reports whether the document has a status of an operation. What is no operation of the document may answer anything.
func documented(method, path string, status int) bool {
	path, _, _ = strings.Cut(path, "?")
	found := described()[path]
	for pattern, item := range described() {
		if match, _ := filepath.Match(pattern, path); match && found == nil {
			found = item
		}
	}
	if found == nil {
		return true
	}
	op := map[string]*huma.Operation{
		http.MethodGet: found.Get, http.MethodPost: found.Post, http.MethodPut: found.Put, http.MethodPatch: found.Patch, http.MethodDelete: found.Delete,
	}[method]
	return op == nil || op.Responses[strconv.Itoa(status)] != nil || status >= http.StatusBadRequest && op.Responses["default"] != nil
}

// The document tells of both answers of what can wait, and the check of answers finds what is missing in it.
func TestDocumentedStatuses(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		want         bool
	}{
		{"POST", "/v1/transactions?wait=mined", 200, true},
		{"POST", "/v1/transactions", 202, true},
		{"POST", "/v1/transactions/raw", 200, true},
		{"POST", "/v1/transactions/batch", 200, false},
		{"POST", "/v1/transactions/batch", 202, true},
		{"POST", "/v1/transactions/1/cancel", 404, true},
		{"POST", "/v1/transactions/1/cancel", 418, false},
		{"POST", "/v1/transactions", 413, true},
		{"GET", "/v1/transactions/1?wait=mined", 202, false},
		{"GET", "/v1/transactions/1", 404, true},
		{"GET", "/no/such/path", 404, true},
		{"POST", "/v1/signers/1/0xa/top-up", 202, true},
		{"POST", "/evm/getCurrentFee", 422, true},
		{"POST", "/evm/getCurrentFee", 202, false},
	} {
		if got := documented(c.method, c.path, c.status); got != c.want {
			t.Errorf("%s %s, %d: documented %v", c.method, c.path, c.status, got)
		}
	}
}

func (w *world) post(path, body string, headers ...string) answer {
	w.t.Helper()
	return w.ask(http.MethodPost, path, body, headers...)
}

func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	return w.ask(http.MethodGet, path, "", headers...)
}

func TestMain(m *testing.M) {
	redisx.LogTo(slog.New(slog.DiscardHandler)) // a server that does not answer is what is tested here
	os.Exit(m.Run())
}
