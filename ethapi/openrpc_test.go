package ethapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/rpc"
)

type document struct {
	OpenRPC string
	Info    struct{ Title, Version string }
	Methods []struct {
		Name                 string
		Summary, Description string
		Params               []struct {
			Name     string
			Required bool
			Schema   json.RawMessage
		}
		Result *struct {
			Name   string
			Schema json.RawMessage
		}
		Errors []json.RawMessage
	}
	Components struct {
		Errors, Schemas map[string]json.RawMessage
	}
}

func readDocument(t *testing.T, r *relay) (d document, raw string) {
	t.Helper()
	got := r.call("rpc.discover", `[]`)
	unmarshal(t, got, &d)
	return d, string(got.Result)
}

// The document describes the methods that there are, and what it says of their
// parameters is what the rules say.
func TestOpenRPCMatchesTable(t *testing.T) {
	for name, change := range bothProfiles() {
		t.Run(name, func(t *testing.T) { matchesTable(t, newRelay(t, newMirrorNode(t), change)) })
	}
}

func matchesTable(t *testing.T, r *relay) {
	d, _ := readDocument(t, r)
	if d.Info.Version != "1.2.3" || d.OpenRPC == "" || d.Info.Title == "" {
		t.Errorf("%+v", d.Info)
	}
	rows := append(r.api.Methods(), NewSubscriptions(r.api).Methods()...)
	rows = append(rows, SendRawTransaction(nil), SendRawTransactionSync(r.api, nil))
	table := make(map[string]rpc.Method)
	for _, row := range rows {
		table[row.Name] = row
	}
	for _, m := range d.Methods {
		row, ok := table[m.Name]
		if !ok {
			t.Errorf("%s is described twice, or does not exist", m.Name)
			continue
		}
		delete(table, m.Name)
		if m.Summary == "" || m.Result == nil && len(m.Errors) == 0 {
			t.Errorf("%s: neither a result nor an error", m.Name)
		}
		if row.AnyParams {
			continue
		}
		var described, ruled []bool
		for _, p := range m.Params {
			described = append(described, p.Required)
		}
		for _, p := range row.Params {
			ruled = append(ruled, p.Required)
		}
		if r.api.hiero() && (m.Name == "eth_call" || m.Name == "eth_estimateGas") {
			described = described[:len(described)-1] // block overrides, which are profile ethereum's alone
		}
		if diff := cmp.Diff(ruled, described); diff != "" {
			t.Errorf("%s: required parameters (-rules +document)\n%s", m.Name, diff)
		}
	}
	for name := range table {
		t.Errorf("%s is not described", name)
	}
}

// managed says that a transaction manager answers relay_*.
func managed(s *settings) { s.deps.Manager = true }

var reference = regexp.MustCompile(`"\$ref":"#/components/(schemas|errors)/([A-Za-z]+)"`)

// Every reference leads somewhere, and nothing is there for no one.
func TestOpenRPCReferences(t *testing.T) {
	d, raw := readDocument(t, newRelay(t, newMirrorNode(t), managed))
	used := make(map[string]bool)
	for _, m := range reference.FindAllStringSubmatch(raw, -1) {
		used[m[1]+"/"+m[2]] = true
	}
	if got := strings.Count(raw, `"$ref"`); got != len(reference.FindAllString(raw, -1)) || got == 0 {
		t.Errorf("%d references, not all of which can be followed", got)
	}
	defined := make(map[string]bool)
	for name := range d.Components.Schemas {
		defined["schemas/"+name] = true
	}
	for name := range d.Components.Errors {
		defined["errors/"+name] = true
	}
	if diff := cmp.Diff(defined, used); diff != "" {
		t.Errorf("components (-defined +used)\n%s", diff)
	}
}

func TestServeOpenRPC(t *testing.T) {
	r := newRelay(t, newMirrorNode(t), managed)
	_, want := readDocument(t, r)
	server := httptest.NewServer(http.HandlerFunc(r.api.ServeOpenRPC))
	defer server.Close()
	for method, expect := range map[string]struct {
		status int
		body   string
	}{"GET": {200, want}, "HEAD": {200, ""}, "POST": {405, ""}} {
		request := must.Get(http.NewRequestWithContext(t.Context(), method, server.URL, nil))(t)
		answer := must.Get(http.DefaultClient.Do(request))(t)
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != expect.status || string(body) != expect.body {
			t.Errorf("%s: %d %.80s %v", method, answer.StatusCode, body, err)
		}
	}
}

func TestModules(t *testing.T) {
	node := newMirrorNode(t)
	apis := func(names ...string) func(*settings) {
		return func(s *settings) { s.RPC.HTTP.APIs, s.deps.HTTPAPIs = names, names }
	}
	pooled, _ := newPool(t, apis("admin", "txpool"))
	for want, r := range map[string]*relay{
		`{"eth":"1.0","net":"1.0","rpc":"1.0"}`:      newRelay(t, node, apis("eth", "net", "debug", "txpool")),
		`{"admin":"1.0","rpc":"1.0","txpool":"1.0"}`: pooled,
		`{"relay":"1.0","rpc":"1.0"}`:                newRelay(t, node, apis("relay"), managed),
		`{"net":"1.0","rpc":"1.0"}`:                  newRelay(t, node, apis("net", "relay")),
		`{"debug":"1.0","rpc":"1.0"}`:                newRelay(t, node, apis("debug", "trace"), debugging),
		`{"rpc":"1.0","web3":"1.0"}`:                 newRelay(t, node, apis("web3"), hiero),
	} {
		r.expect([3]string{"rpc_modules", `[]`, want})
	}
}

const (
	methodsFile  = "../docs/METHODS.md"
	methodsStart = "| Method | Parameters | What it answers |\n|---|---|---|\n"
)

// The table of docs/METHODS.md lists every method that the document describes, which
// is every one that there is.
func TestMethodsDocument(t *testing.T) {
	d, _ := readDocument(t, newRelay(t, newMirrorNode(t), managed))
	want := methodsStart
	for _, m := range d.Methods {
		var params []string
		for _, p := range m.Params {
			name := p.Name
			if !p.Required {
				name = "[" + name + "]"
			}
			params = append(params, name)
		}
		says := m.Summary
		if m.Result == nil {
			says += " **Refused:** -32601."
		} else if m.Description != "" {
			says += " " + m.Description
		}
		want += fmt.Sprintf("| `%s` | %s | %s |\n", m.Name, strings.Join(params, ", "), strings.ReplaceAll(says, "|", "\\|"))
	}
	content := must.Get(os.ReadFile(methodsFile))(t)
	before, got, found := strings.Cut(string(content), methodsStart)
	if !found {
		t.Fatalf("%s has no table", methodsFile)
	}
	if *update {
		must.Do(t, os.WriteFile(methodsFile, []byte(before+want), 0o644))
		return
	}
	if diff := cmp.Diff(want, methodsStart+got); diff != "" {
		t.Errorf("docs/METHODS.md is stale; run go test ./ethapi -run TestMethodsDocument -update (-want +got):\n%s", diff)
	}
}

func TestUnknownMethod(t *testing.T) {
	for _, tt := range []struct {
		name   string
		t      rpc.Transport
		served bool
		want   *eth.Error
	}{
		{"eth_nope", rpc.TransportHTTP, true, eth.ErrMethodNotFound("eth_nope")},
		{"engine_newPayloadV1", rpc.TransportHTTP, true, eth.ErrUnsupportedMethod},
		{"engine_newPayloadV1", rpc.TransportWebSocket, false, eth.ErrUnsupportedMethod},
		{"trace_block", rpc.TransportHTTP, true, eth.ErrNotYetImplemented},
		{"debug_nope", rpc.TransportHTTP, true, eth.ErrNotYetImplemented},
		{"debug_nope", rpc.TransportHTTP, false, eth.ErrMethodNotFound("debug_nope")},
		{"trace_block", rpc.TransportWebSocket, true, eth.ErrMethodNotFound("trace_block")},
		{"eth_subscribe", rpc.TransportWebSocket, true, eth.ErrUnsupportedMethod},
		{"eth_subscribe", rpc.TransportWebSocket, false, eth.ErrMethodNotFound("eth_subscribe")},
		{"eth_subscribe", rpc.TransportHTTP, true, eth.ErrMethodNotFound("eth_subscribe")},
	} {
		if got := UnknownMethod(tt.name, tt.t, tt.served); got.Code != tt.want.Code || got.Message != tt.want.Message {
			t.Errorf("%s over %s, served %v: got %v, want %v", tt.name, tt.t, tt.served, got, tt.want)
		}
	}
}

// What costs most is in the first tier: what runs code, here or on the mirror node, and what is submitted.
func TestTiers(t *testing.T) {
	for name, want := range map[string]int{
		"eth_call": 1, "eth_estimateGas": 1, "eth_createAccessList": 1, "eth_simulateV1": 1, "eth_sendRawTransaction": 1, "debug_traceCall": 1, "debug_traceTransaction": 1,
		"eth_chainId": 2, "eth_getLogs": 2, "web3_sha3": 3, "txpool_status": 0, "nope": 0,
	} {
		if got := Tier(name); got != want {
			t.Errorf("%s: tier %d, want %d", name, got, want)
		}
	}
}

// What reads much waits for a permit, and traces take more places than lists.
func TestWeights(t *testing.T) {
	want := map[string]int{
		"eth_getLogs": weightLists, "eth_getFilterLogs": weightLists, "eth_getFilterChanges": weightLists, "eth_getBlockReceipts": weightLists, "eth_feeHistory": weightLists,
		"debug_traceTransaction": weightTrace, "debug_traceBlockByNumber": weightTrace, "debug_traceBlockByHash": weightTrace,
		"eth_chainId": 0, "eth_blockNumber": 0, "eth_getBalance": 0,
	}
	for _, m := range newRelay(t, newMirrorNode(t), debugging).api.Methods() {
		if weight, named := want[m.Name]; named && m.Weight != weight {
			t.Errorf("%s weighs %d, want %d", m.Name, m.Weight, weight)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 || weightTrace <= weightLists {
		t.Errorf("not there: %v; a trace weighs %d", want, weightTrace)
	}
}
