package mirrorrest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
)

func TestErrorBodies(t *testing.T) {
	s := newScene(t)
	for path, want := range map[string]string{
		"blocks/7777":                           `{"_status":{"messages":[{"message":"Not found"}]}}`,
		"nothing/here":                          `{"_status":{"messages":[{"message":"Not found"}]}}`,
		"blocks?a=1&limit=0":                    `{"_status":{"messages":[{"message":"Unknown query parameter: a"},{"message":"Invalid parameter: limit"}]}}`,
		"accounts/%zz":                          `{"_status":{"messages":[{"message":"Invalid parameter: idOrAliasOrEvmAddress"}]}}`,
		"transactions/abc":                      `{"_status":{"messages":[{"message":"Invalid Transaction id. Please use \"shard.realm.num-sss-nnn\" format where sss are seconds and nnn are nanoseconds"}]}}`,
		"contracts/results?transaction.index=1": `{"_status":{"messages":[{"message":"Invalid parameter usage: transaction.index - transaction.index requires block.number or block.hash filter to be specified"}]}}`,
		"contracts/results?block.number=1&block.hash=" + zeros(64): `{"_status":{"messages":[{"message":"Invalid parameter usage: block.hash - cannot combine block.number and block.hash"}]}}`,
		"contracts/results?block.number=gt:1":                      `{"_status":{"messages":[{"message":"Invalid parameter: block.number"}]}}`,
	} {
		if strings.Contains(path, "%") {
			path = strings.ReplaceAll(path, "%zz", "-")
		}
		r := s.do(http.MethodGet, "/api/v1/"+path, "")
		if got := strings.TrimSpace(string(r.body)); got != want {
			t.Errorf("%s: %d %s, want %s", path, r.status, got, want)
		}
	}
}

func TestMethodsAndHeaders(t *testing.T) {
	s := newScene(t)
	for _, test := range []struct {
		method, target string
		status         int
	}{
		{http.MethodGet, "/api/v1/blocks", http.StatusOK},
		{http.MethodGet, "/api/v1/blocks/", http.StatusOK},
		{http.MethodHead, "/api/v1/blocks", http.StatusOK},
		{http.MethodOptions, "/api/v1/contracts/call", http.StatusNoContent},
		{http.MethodPost, "/api/v1/blocks", http.StatusNotFound},
		{http.MethodDelete, "/api/v1/blocks", http.StatusNotFound},
		{http.MethodGet, "/", http.StatusNotFound},
		{http.MethodGet, "/health/liveness", http.StatusOK},
		{http.MethodGet, "/health/readiness", http.StatusOK},
	} {
		r := s.do(test.method, test.target, "")
		if r.status != test.status {
			t.Errorf("%s %s: status %d, want %d", test.method, test.target, r.status, test.status)
		}
		if origin := r.header.Get("Access-Control-Allow-Origin"); origin != "*" {
			t.Errorf("%s %s: allowed origin %q", test.method, test.target, origin)
		}
	}
}

func TestConsensusLog(t *testing.T) {
	s := newScene(t)
	type entry struct {
		Sequence int64
		Sender   common.Address
		Nonce    uint64
		Hash     common.Hash
		Node     string
		Status   string
		Time     string
	}
	read := func(query string) (entries []entry, next int64) {
		var out struct {
			Entries []entry
			Next    int64
		}
		r := s.do(http.MethodGet, "/devnet/consensus?"+query, "")
		if err := json.Unmarshal(r.body, &out); err != nil || r.status != http.StatusOK {
			t.Fatalf("status %d, %v: %s", r.status, err, r.body)
		}
		return out.Entries, out.Next
	}
	all, next := read("")
	var statuses []string
	for i, e := range all {
		statuses = append(statuses, fmt.Sprintf("%d %s", e.Nonce, e.Status))
		if e.Sequence != int64(i) || e.Node != "0.0.3" {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	want := []string{
		"0 SUCCESS", "1 SUCCESS", "0 SUCCESS", "2 SUCCESS", "3 CONTRACT_REVERT_EXECUTED", "99 WRONG_NONCE", "1 SUCCESS", "2 SUCCESS",
	}
	if diff := cmp.Diff(want, statuses); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if all[0].Sender != account(0).EVMAddress() || all[0].Hash != s.transfer.EthereumHash || all[0].Time != s.transfer.Consensus.String() {
		t.Errorf("the first entry: %+v", all[0])
	}
	if next != int64(len(all)) {
		t.Errorf("next is %d after %d entries", next, len(all))
	}
	if rest, next := read("since=5&limit=2"); len(rest) != 2 || rest[0].Nonce != 99 || next != 7 {
		t.Errorf("two from 5: %+v, next %d", rest, next)
	}
	if rest, again := read(fmt.Sprintf("since=%d", next)); len(rest) != 0 || again != next {
		t.Errorf("nothing new: %+v, next %d", rest, again)
	}
	if r := s.do(http.MethodGet, "/devnet/consensus?since=x", ""); r.status != http.StatusBadRequest {
		t.Errorf("since=x: status %d", r.status)
	}
}

// A mirror node that lags shows nothing of what its View does not have.
func TestLag(t *testing.T) {
	s := newScene(t)
	current := s.handler
	whole := len(s.list("accounts/0.0.1002", "transactions"))
	s.handler = mirrorrest.New(mirrorrest.Config{
		View: func() *ledger.View { return s.ledger.ViewBefore(s.creation.Consensus) },
		Log:  slog.New(slog.DiscardHandler),
	})
	if n := len(s.list("accounts/0.0.1002", "transactions")); n != 2 || n >= whole {
		t.Errorf("%d transactions of %d", n, whole)
	}
	s.get("contracts/results/"+s.call.EthereumHash.Hex(), http.StatusNotFound)
	s.get("contracts/results/"+s.creation.EthereumHash.Hex(), http.StatusOK)
	s.get("transactions/"+s.native.ID.Mirror(), http.StatusNotFound)
	s.get("accounts/"+s.hollow.Hex(), http.StatusNotFound)
	if rows := s.list("contracts/results/logs", "logs"); len(rows) != 0 {
		t.Errorf("logs of the future: %s", text(rows))
	}
	if rows := s.list("blocks?limit=1", "blocks"); text(rows[0]["number"]) != fmt.Sprint(s.creation.Block) {
		t.Errorf("the newest block is %s", text(rows[0]["number"]))
	}
	if got := s.get("accounts/0.0.1002?transactions=false", http.StatusOK); text(got["ethereum_nonce"]) != "2" {
		t.Errorf("nonce %s", text(got["ethereum_nonce"]))
	}
	s.handler = current
}

// Readers of everything while transactions are handled: for the race detector, and
// for lists that must be whole at any moment.
func TestReadingWhileWriting(t *testing.T) {
	n := newNetwork(t, ledger.Config{History: 90}) // a reader that rests for so many blocks finds nothing, and rightly so
	contract, _ := n.deploy(0, counterCode())
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, path := range []string{
		"blocks?limit=100", "contracts/results?limit=100", "contracts/results/logs?limit=100", "accounts/0.0.1002?limit=100",
		"contracts/" + contract.Hex() + "/results/logs?limit=100", "contracts/" + contract.Hex() + "/state", "transactions?limit=100",
	} {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if r := n.do(http.MethodGet, "/api/v1/"+path, ""); r.status != http.StatusOK {
					t.Errorf("%s: status %d: %s", path, r.status, r.body)
					return
				}
			}
		})
	}
	for range 100 {
		n.mustSucceed(n.call(0, &types.DynamicFeeTx{To: &contract}))
	}
	close(done)
	readers.Wait()
}

// A fault in the View costs one answer, not the process, and is told to the log
// alone.
func TestPanic(t *testing.T) {
	s := newScene(t)
	var logged bytes.Buffer
	s.handler = mirrorrest.New(mirrorrest.Config{
		View: func() *ledger.View { panic("secret cause") },
		Log:  slog.New(slog.NewTextHandler(&logged, nil)),
	})
	r := s.do(http.MethodGet, "/api/v1/blocks", "")
	if r.status != http.StatusInternalServerError || bytes.Contains(r.body, []byte("secret")) {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if !strings.Contains(logged.String(), "secret cause") {
		t.Errorf("log: %s", logged.String())
	}
	if !strings.Contains(string(r.body), `"message":"Internal Server Error","detail":"","data":""`) {
		t.Errorf("body: %s", r.body)
	}
}

// No request, however odd, is answered with an internal error or with what is not
// JSON.
func FuzzRequest(f *testing.F) {
	s := newTokenScene(f)
	for _, seed := range s.requests() {
		f.Add(seed.target)
	}
	f.Add("contracts/results/" + s.call.EthereumHash.Hex() + "/opcodes?memory=true")
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.Parse("/api/v1/" + target)
		if err != nil {
			return
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		r.URL = u
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Fatalf("%q: status %d: %s", target, w.Code, w.Body)
		}
		if w.Header().Get("Content-Type") == "application/json; charset=utf-8" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%q: not JSON: %s", target, w.Body)
		}
	})
}

// faulty serves a ledger over a socket, where connections can break.
func faulty(t *testing.T, closing <-chan struct{}, fault func(*http.Request) mirrorrest.Fault) *httptest.Server {
	t.Helper()
	l := must.Get(ledger.New(ledger.Config{}))(t)
	server := httptest.NewServer(mirrorrest.New(mirrorrest.Config{
		View: l.View, Log: slog.New(slog.DiscardHandler), Closing: closing, Fault: fault,
	}))
	t.Cleanup(server.Close)
	return server
}

// fetched is what a client saw of an answer.
type fetched struct {
	status     int
	retryAfter string
	json       bool
	err        error // the connection broke, before the answer or within it
}

func fetch(ctx context.Context, t *testing.T, url string) (f fetched) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/blocks", nil))(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return fetched{err: err}
	}
	defer answer.Body.Close()
	f.status, f.retryAfter = answer.StatusCode, answer.Header.Get("Retry-After")
	body, err := io.ReadAll(answer.Body)
	f.err, f.json = err, json.Valid(body)
	return f
}

func TestFaults(t *testing.T) {
	tests := map[string]struct {
		fault mirrorrest.Fault
		want  fetched
		cut   bool
	}{
		"none":              {mirrorrest.Fault{}, fetched{status: 200, json: true}, false},
		"absent":            {mirrorrest.Fault{Status: 404}, fetched{status: 404, json: true}, false},
		"throttled":         {mirrorrest.Fault{Status: 429, RetryAfter: 1500 * time.Millisecond}, fetched{status: 429, retryAfter: "2", json: true}, false},
		"broken":            {mirrorrest.Fault{Status: 503}, fetched{status: 503, json: true}, false},
		"late":              {mirrorrest.Fault{Delay: time.Millisecond}, fetched{status: 200, json: true}, false},
		"slow":              {mirrorrest.Fault{Pause: time.Millisecond}, fetched{status: 200, json: true}, false},
		"garbage":           {mirrorrest.Fault{Garbage: true}, fetched{status: 200}, false},
		"dropped":           {mirrorrest.Fault{Drop: true}, fetched{}, true},
		"cut":               {mirrorrest.Fault{Cut: true}, fetched{status: 200}, true},
		"cut after a while": {mirrorrest.Fault{Cut: true, Pause: time.Millisecond}, fetched{status: 200}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := faulty(t, nil, func(*http.Request) mirrorrest.Fault { return test.fault })
			got := fetch(t.Context(), t, server.URL)
			if cut := got.err != nil; cut != test.cut {
				t.Fatalf("%+v", got)
			}
			got.err = nil
			if got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestHangEndsWithTheClientOrTheServer(t *testing.T) {
	arrived, closing := make(chan struct{}, 2), make(chan struct{})
	server := faulty(t, closing, func(*http.Request) mirrorrest.Fault {
		arrived <- struct{}{}
		return mirrorrest.Fault{Hang: true}
	})
	ended := make(chan fetched, 1)
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { ended <- fetch(ctx, t, server.URL) }()
	<-arrived
	giveUp()
	if got := <-ended; !errors.Is(got.err, context.Canceled) {
		t.Errorf("the client that went away: %+v", got)
	}
	go func() { ended <- fetch(t.Context(), t, server.URL) }()
	<-arrived
	close(closing)
	if got := <-ended; got.err == nil {
		t.Errorf("the client of a server that stopped: %+v", got)
	}
}

func ExampleNew() {
	network, err := ledger.New(ledger.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	api := mirrorrest.New(mirrorrest.Config{View: network.View, Log: slog.Default()})

	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/contracts/0.0.1002", nil))
	fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))

	answer = httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/network/fees?timestamp=nine", nil))
	fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	// Output:
	// 404 {"_status":{"messages":[{"message":"Not found"}]}}
	// 400 {"_status":{"messages":[{"message":"Invalid parameter: timestamp"}]}}
}
