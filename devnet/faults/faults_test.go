package faults

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/internal/hapi"
	"lockstep/internal/must"
)

var (
	ethereum = node.Call{Submission: &core.Submission{Body: core.BodyOf(&hapi.EthereumTransactionBody{})}}
	transfer = node.Call{Node: 1, Submission: &core.Submission{Body: core.BodyOf(&hapi.CryptoTransferTransactionBody{})}}
	receipt  = node.Call{Query: &hapi.Query{Query: &hapi.Query_TransactionGetReceipt{TransactionGetReceipt: &hapi.TransactionGetReceiptQuery{}}}}
	balance  = node.Call{Query: &hapi.Query{Query: &hapi.Query_CryptogetAccountBalance{CryptogetAccountBalance: &hapi.CryptoGetAccountBalanceQuery{}}}}
)

func TestWhichCallsAreSpoiled(t *testing.T) {
	const spoiled = `"dropBefore":true`
	for _, test := range []struct {
		rule  string
		calls []node.Call
		want  string // x: spoiled
	}{
		{`{"at":"submit"`, []node.Call{ethereum, transfer, receipt, balance}, "xx.."},
		{`{"at":"receipt"`, []node.Call{ethereum, receipt, balance}, ".x."},
		{`{"at":"query"`, []node.Call{ethereum, receipt, balance}, "..x"},
		{`{"at":"mirror"`, []node.Call{ethereum, receipt, balance}, "..."},
		{`{"at":"submit","node":1`, []node.Call{ethereum, transfer}, ".x"},
		{`{"at":"submit","node":0`, []node.Call{ethereum, transfer}, "x."},
		{`{"at":"submit","body":"ethereumTransaction"`, []node.Call{ethereum, transfer, ethereum}, "x.x"},
		{`{"at":"submit","body":"cryptoTransfer","skip":1`, []node.Call{transfer, ethereum, transfer, transfer}, "..xx"},
		{`{"at":"submit","times":2`, []node.Call{ethereum, receipt, ethereum, ethereum}, "x.x."},
		{`{"at":"submit","skip":1,"times":1`, []node.Call{ethereum, ethereum, ethereum}, ".x."},
	} {
		var rules Rules
		must.Do(t, rules.Set([]byte("["+test.rule+","+spoiled+"}]")))
		got := ""
		for _, call := range test.calls {
			if rules.Node(call) == (node.Fault{DropBefore: true}) {
				got += "x"
			} else {
				got += "."
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.rule, got, test.want)
		}
	}
}

func TestWhatRulesDo(t *testing.T) {
	var rules Rules
	must.Do(t, rules.Set([]byte(`[
		{"at":"submit","times":1,"status":"BUSY","delay":"1.5s"},
		{"at":"submit","times":1,"grpc":"PERMISSION_DENIED"},
		{"at":"submit","times":1,"outcome":"THROTTLED_AT_CONSENSUS","goAway":true},
		{"at":"submit","vanish":true,"lose":true,"dropAfter":true},
		{"at":"mirror","path":"/blocks","httpStatus":429,"retryAfter":"2s"},
		{"at":"mirror","cut":true}
	]`)))
	for i, want := range []node.Fault{
		{Status: hapi.ResponseCodeEnum_BUSY, Delay: 1500 * time.Millisecond},
		{Code: codes.PermissionDenied},
		{Outcome: hapi.ResponseCodeEnum_THROTTLED_AT_CONSENSUS, GoAway: true},
		{Vanish: true, Lose: true, DropAfter: true},
		{Vanish: true, Lose: true, DropAfter: true},
	} {
		if got := rules.Node(ethereum); got != want {
			t.Errorf("call %d: %+v, want %+v", i, got, want)
		}
	}
	for path, want := range map[string]mirrorrest.Fault{
		"/api/v1/blocks":     {Status: 429, RetryAfter: 2 * time.Second},
		"/api/v1/accounts/2": {Cut: true},
	} {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1"+path, nil))(t)
		if got := rules.Mirror(request); got != want {
			t.Errorf("%s: %+v, want %+v", path, got, want)
		}
	}
}

func TestBadRules(t *testing.T) {
	var rules Rules
	must.Do(t, rules.Set([]byte(`[{"at":"submit","dropBefore":true}]`)))
	for _, bad := range []string{
		"", "{}", `[{"at":"here"}]`, `[{"at":"submit","status":"TIRED"}]`, `[{"at":"submit","grpc":"TIRED"}]`, `[{"at":"submit","chance":2}]`, `[{"at":"submit","delay":"-1s"}]`,
		`[{"at":"submit","delay":5}]`, `[{"at":"submit","colour":"red"}]`, `[{"at":"mirror","httpStatus":200}]`, `[] []`,
	} {
		if rules.Set([]byte(bad)) == nil {
			t.Errorf("%s was taken", bad)
		}
	}
	if rules.Node(ethereum) == (node.Fault{}) {
		t.Error("bad rules replaced the good ones")
	}
}

func TestControlPort(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:1", "example.org:1", "nonsense"} {
		if l, err := Listen(t.Context(), address); err == nil {
			l.Close()
			t.Errorf("listens on %s", address)
		}
	}
	l := must.Get(Listen(t.Context(), "127.0.0.1:0"))(t)
	var rules Rules
	must.Run(t, func(ctx context.Context) error { return rules.Serve(ctx, l) })
	ask := func(method, path, host, body string) (int, string) {
		request := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+l.Addr().String()+path, strings.NewReader(body)))(t)
		if host != "" {
			request.Host = host
		}
		response, err := http.DefaultClient.Do(request)
		must.Do(t, err)
		defer response.Body.Close()
		text := must.Get(io.ReadAll(response.Body))(t)
		return response.StatusCode, string(text)
	}
	for _, step := range []struct {
		method, path, host, body string
		status                   int
		want                     string
		spoiled                  bool // the next submission is
	}{
		{"GET", "/faults", "", "", 200, "[]", false},
		{"PUT", "/faults", "", `[{"at":"submit","status":"BUSY"}]`, 200, `"fitted":0`, true},
		{"GET", "/faults", "", "", 200, `"fitted":1,"spoiled":1`, true},
		{"PUT", "/faults", "", `[{"at":"dreams"}]`, 400, "rule 0", true},
		{"PUT", "/faults", "evil.example:80", "[]", 403, "", true},
		{"POST", "/faults", "", "[]", 405, "", true},
		{"GET", "/", "", "", 404, "", true},
		{"DELETE", "/faults", "", "", 200, "[]", false},
	} {
		status, text := ask(step.method, step.path, step.host, step.body)
		if status != step.status || !strings.Contains(text, step.want) {
			t.Errorf("%s %s %s: %d %s", step.method, step.path, step.body, status, text)
		}
		if got := rules.Node(ethereum) != (node.Fault{}); got != step.spoiled {
			t.Errorf("after %s %s: spoiled %v", step.method, step.body, got)
		}
	}
}
