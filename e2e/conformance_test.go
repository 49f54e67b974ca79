package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"lockstep/internal/must"
)

// openRPC is the document in which the relay describes its methods.
type openRPC struct {
	OpenRPC    string         `json:"openrpc"`
	Methods    []methodSchema `json:"methods"`
	Components struct {
		Schemas schemas `json:"schemas"`
	} `json:"components"`
}

type methodSchema struct {
	Name   string `json:"name"`
	Params []struct {
		Name     string         `json:"name"`
		Required bool           `json:"required"`
		Schema   map[string]any `json:"schema"`
	} `json:"params"`
	Result *struct {
		Schema map[string]any `json:"schema"`
	} `json:"result"` // nil: the method is not available
}

// TestConformance holds the relay to its own document: every method of it answers
// every valid request with what the document says, and refuses every other one.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"ethereum", "hiero"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			n := startDev(t, []string{"RELAY_PROFILE=" + profile, "DEBUG_API_ENABLED=true", "TXPOOL_API_ENABLED=true", "TX_STATUS_TRACING=true", "TX_TYPE_4_ENABLED=true"}, "--set-code")
			c := &conformance{t: t, network: n, made: new(made), lenient: profile == "ethereum"}
			c.document = discover(t, n.RPC)
			c.prepare()
			c.run()
		})
	}
}

// discover reads the document both ways.
func discover(t *testing.T, url string) (d openRPC) {
	t.Helper()
	status, page := get(t, url+"/openrpc")
	answer := call(t, url, "rpc.discover", "[]")
	if status != http.StatusOK || string(page) != string(answer.Result) {
		t.Fatalf("GET /openrpc: %d %.200s\nrpc.discover: %.200s", status, page, answer.Result)
	}
	must.Do(t, json.Unmarshal(page, &d))
	if d.OpenRPC == "" || len(d.Methods) < 50 {
		t.Fatalf("a document of %d methods: %.200s", len(d.Methods), page)
	}
	return d
}

// conformance is one relay with something to ask for.
type conformance struct {
	t        *testing.T
	network  *network
	lenient  bool // null stands for an optional parameter that is left out
	document openRPC
	made     *made

	sender   account
	contract common.Address
	// Transactions: of every type, a creation, one that failed, one that the network
	// refused before it ran. The first has events.
	hashes []string
	block  *types.Header // of the first
	raw    []string      // signed and not sent yet
	filter string
}

// prepare makes the transactions.
func (c *conformance) prepare() {
	t := c.t
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	c.sender = c.network.Accounts[0]
	client := dial(t, c.network.RPC)
	var txs []*types.Transaction
	txs, c.contract = everyType(t, ctx, c.network)
	for _, tx := range txs {
		hash := c.text("eth_sendRawTransaction", `["`+raw(t, tx)+`"]`)
		receiptOf(t, ctx, client, common.HexToHash(hash))
		c.hashes = append(c.hashes, hash)
	}
	slices.Reverse(c.hashes[:2]) // the one with events first
	receipt := receiptOf(t, ctx, client, common.HexToHash(c.hashes[0]))
	if len(receipt.Logs) != 1 {
		t.Fatalf("%d logs, want 1", len(receipt.Logs))
	}
	c.block = must.Get(client.HeaderByNumber(ctx, receipt.BlockNumber))(t)
	price := must.Get(client.SuggestGasPrice(ctx))(t)
	fresh := common.HexToAddress("0x7700000000000000000000000000000000c0de1")
	for i := range uint64(2) {
		tx := must.Get(types.SignNewTx(c.sender.key(t), types.LatestSignerForChainID(big.NewInt(chainID)), &types.DynamicFeeTx{
			ChainID: big.NewInt(chainID), Nonce: uint64(len(txs)) + i, GasTipCap: new(big.Int), GasFeeCap: price, Gas: 800_000, To: &fresh, Value: big.NewInt(1e18),
		}))(t)
		c.raw = append(c.raw, raw(t, tx))
	}
	c.filter = c.text("eth_newFilter", `[{"fromBlock":"earliest"}]`)
}

// raw is what eth_sendRawTransaction takes.
func raw(t *testing.T, tx *types.Transaction) string {
	t.Helper()
	return hexutil.Encode(must.Get(tx.MarshalBinary())(t))
}

// text is the result of a call whose result is a string.
func (c *conformance) text(method, params string) (text string) {
	c.t.Helper()
	r := call(c.t, c.network.RPC, method, params)
	if err := json.Unmarshal(r.Result, &text); err != nil || r.Error != nil {
		c.t.Fatalf("%s%s: %s %v", method, params, r.Error, err)
	}
	return text
}

// made is how much was driven.
type made struct{ methods, parameters, valid, missing, wrong int }

// withKeys are the methods that the document says a relay refuses, or answers with nothing, since it has no keys.
// The development network has some, and answers itself: TestNodeWithKeys.
var withKeys = []string{"eth_accounts", "eth_sendTransaction", "eth_sign", "eth_signTransaction"}

// run drives every method of the document that the relay answers here.
func (c *conformance) run() {
	defer func() { c.t.Logf("%d methods of the document: %+v", len(c.document.Methods), *c.made) }()
	for _, m := range c.document.Methods {
		if slices.Contains(withKeys, m.Name) {
			continue
		}
		c.t.Run(m.Name, func(t *testing.T) {
			one := *c
			one.t = t
			switch {
			case m.Result == nil:
				one.refused(m.Name, "[]", -32601)
			case m.Name == "eth_subscribe":
				one.subscribe(m)
			case m.Name == "eth_unsubscribe": // with eth_subscribe
			default:
				one.method(m)
			}
		})
	}
}

// newer are the methods that no established relay has: null stands for a parameter that
// is left out in both profiles.
var newer = []string{"debug_traceCall", "eth_createAccessList", "eth_simulateV1"}

// wider are the methods whose last parameter is profile ethereum's alone.
var wider = []string{"eth_call", "eth_estimateGas"}

func (c *conformance) method(m methodSchema) {
	if !c.lenient && slices.Contains(wider, m.Name) {
		m.Params = m.Params[:len(m.Params)-1]
	}
	valid := c.valid(m)
	for _, params := range valid {
		c.answered(m, params)
	}
	c.made.methods++
	c.made.parameters += len(m.Params)
	c.made.valid += len(valid)
	// The first valid request is the one that is spoilt.
	good := parse(c.t, valid[0]).([]any)
	required := 0
	for i, p := range m.Params {
		if p.Required {
			required = i + 1
			c.made.missing++
			c.refused(m.Name, show(good[:min(i, len(good))]), -32602)
		}
	}
	if len(good) < len(m.Params) {
		c.t.Errorf("the first valid request leaves parameters out")
	}
	for i, p := range m.Params {
		before := c.made.wrong
		for _, wrong := range []any{nil, 42.0, true, "wrong", "0xg", "0x123456789012345678", []any{}, []any{map[string]any{}}, map[string]any{}, map[string]any{"from": 1.0, "blockHash": "0x1", "tracer": "none", "address": "0x"}} {
			spoilt := slices.Clone(good)
			spoilt[i] = wrong
			named, isObject := wrong.(map[string]any)
			switch {
			case isObject && len(named) == 0 && p.Schema["$ref"] == "#/components/schemas/BlockReference":
				c.refused(m.Name, show(spoilt), -32000) // a reference, to nothing
			case wrong == nil && i >= required && m.Name == "eth_sendRawTransactionSync": // it is spent
			case wrong == 42.0 && c.lenient && m.Name == "eth_feeHistory" && i == 0: // a count may be a number there
				c.answered(m, show(spoilt))
			case wrong == 42.0 && c.lenient && (p.Schema["$ref"] == "#/components/schemas/BlockReference" || p.Schema["$ref"] == "#/components/schemas/BlockNumber"): // so may a block's, and there is none of this number
			case wrong == nil && i >= required && (c.lenient || slices.Contains(newer, m.Name)):
				c.answered(m, show(spoilt))
			case wrong == nil, c.document.Components.Schemas.check(p.Schema, wrong, p.Name) != nil:
				c.made.wrong++
				c.refused(m.Name, show(spoilt), -32602)
			}
		}
		if c.made.wrong == before {
			c.t.Errorf("no wrong value of %s is tried", p.Name)
		}
	}
	if extra := show(append(slices.Clone(good), "extra")); len(m.Params) > 0 || strings.HasPrefix(m.Name, "txpool_") {
		c.refused(m.Name, extra, -32602)
	} else {
		c.answered(m, extra)
	}
}

// answered makes a call whose result must be as described.
func (c *conformance) answered(m methodSchema, params string) {
	c.t.Helper()
	r := call(c.t, c.network.RPC, m.Name, params)
	if r.Error != nil {
		c.t.Errorf("%s%.500s: %s", m.Name, params, r.Error)
		return
	}
	c.described(m, params, r.Result)
}

func (c *conformance) described(m methodSchema, params string, result json.RawMessage) {
	c.t.Helper()
	if err := c.document.Components.Schemas.check(m.Result.Schema, parse(c.t, string(result)), "result"); err != nil {
		c.t.Errorf("%s%.500s: %v\n%.1000s", m.Name, params, err, result)
	}
}

// refused makes a call that must fail with a code.
func (c *conformance) refused(method, params string, code int) {
	c.t.Helper()
	r := call(c.t, c.network.RPC, method, params)
	if r.Error == nil || r.Error.Code != code || r.Error.Message == "" {
		c.t.Errorf("%s%.500s: %s %.200s, want an error %d", method, params, r.Error, r.Result, code)
	}
}

// subscribe drives the methods of a WebSocket connection.
func (c *conformance) subscribe(m methodSchema) {
	unsubscribe := c.document.Methods[slices.IndexFunc(c.document.Methods, func(m methodSchema) bool { return m.Name == "eth_unsubscribe" })]
	c.refused("eth_subscribe", `["newHeads"]`, -32601)
	c.refused("eth_unsubscribe", `["0x1"]`, -32601)
	client := dial(c.t, c.network.WS).Client()
	events := []string{"newHeads", "logs", "newPendingTransactions", "syncing"}
	if got := fmt.Sprint(m.Params[0].Schema["enum"]); got != fmt.Sprint(events) {
		c.t.Errorf("events %s, tested are %s", got, events)
	}
	for _, event := range events {
		var id, ended json.RawMessage
		parameters := []any{event}
		if event == "logs" { // established relays insist on a filter
			parameters = append(parameters, map[string]any{})
		}
		if err := client.CallContext(c.t.Context(), &id, "eth_subscribe", parameters...); err != nil {
			c.t.Errorf("eth_subscribe %s: %v", event, err)
			continue
		}
		c.described(m, event, id)
		if err := client.CallContext(c.t.Context(), &ended, "eth_unsubscribe", id); err != nil || string(ended) != "true" {
			c.t.Errorf("eth_unsubscribe %s: %s %v", id, ended, err)
			continue
		}
		c.described(unsubscribe, string(id), ended)
	}
	for _, wrong := range []any{nil, 42, "wrong"} {
		if err := client.CallContext(c.t.Context(), new(any), "eth_subscribe", wrong); err == nil {
			c.t.Errorf("eth_subscribe %v is accepted", wrong)
		}
	}
}

var placeholder = regexp.MustCompile(`\$[a-z]+`)

// valid lists valid requests of a method that it has the parameters for, the first of
// them with every one.
func (c *conformance) valid(m methodSchema) []string {
	if len(m.Params) == 0 {
		return []string{"[]"}
	}
	requests, ok := validRequests()[m.Name]
	if !ok {
		c.t.Fatalf("the document has a method that is not tested: add valid requests of it to validRequests")
	}
	values := map[string]string{
		"$sender": c.sender.Address, "$contract": strings.ToLower(c.contract.Hex()), "$missing": common.MaxHash.Hex(),
		"$number": hexutil.EncodeBig(c.block.Number), "$filter": c.filter, "$raw": c.raw[0], "$second": c.raw[1],
	}
	required := 0
	for i, p := range m.Params {
		if p.Required {
			required = i + 1
		}
	}
	var filled []string
	for _, request := range requests {
		if len(parse(c.t, placeholder.ReplaceAllString(request, "0")).([]any)) < required {
			continue // the other profile does with less
		}
		for _, hash := range c.hashes {
			values["$hash"] = hash
			values["$block"] = c.blockOf(hash)
			one := placeholder.ReplaceAllStringFunc(request, func(name string) string {
				value, ok := values[name]
				if !ok {
					c.t.Fatalf("no value for %s", name)
				}
				return value
			})
			if !slices.Contains(filled, one) && len(parse(c.t, one).([]any)) <= len(m.Params) {
				filled = append(filled, one)
			}
		}
	}
	return filled
}

func (c *conformance) blockOf(hash string) string {
	c.t.Helper()
	var receipt struct{ BlockHash string }
	must.Do(c.t, json.Unmarshal(call(c.t, c.network.RPC, "eth_getTransactionReceipt", `["`+hash+`"]`).Result, &receipt))
	return receipt.BlockHash
}

// validRequests are valid requests of every method that has parameters. A name after $
// stands for something that exists.
func validRequests() map[string][]string {
	account := []string{`["$sender","latest"]`, `["$sender"]`, `["$contract","$number"]`, `["$contract","earliest"]`, `["$sender",{"blockHash":"$block"}]`, `["0X0000000000000000000000000000000000c0ffee","$block"]`}
	call := []string{`[{"from":"$sender","to":"$contract","data":"0x"},"latest",{"$contract":{"balance":"0x1","stateDiff":{"0x0":"0x1"}}}]`, `[{"to":"$contract"},"latest",{}]`, `[{"to":"$contract"}]`, `[{"to":"$contract","input":"0x01","value":"0x0"},"$number"]`, `[{"to":"$contract","gas":"0x30d40"},{"blockHash":"$block","requireCanonical":true}]`}
	inBlock := append([]string{`[{"from":"$sender","to":"$contract"},"latest",{},{"number":"0x99","time":null,"difficulty":"0x0"}]`}, call...)
	ref := []string{`["$block"]`, `["$number"]`, `["latest"]`, `["earliest"]`, `["$missing"]`, `[{"blockNumber":"$number"}]`}
	byNumber := func(more string) []string {
		return []string{`["$number"` + more + `]`, `["latest"` + more + `]`, `["earliest"` + more + `]`, `["0xffffff"` + more + `]`}
	}
	byHash := func(more string) []string { return []string{`["$block"` + more + `]`, `["$missing"` + more + `]`} }
	byTx := []string{`["$hash"]`, `["$missing"]`}
	filter := []string{`[{"fromBlock":"earliest","toBlock":"latest","address":"$contract","topics":[null,[]]}]`, `[{}]`, `[{"address":["$contract"]}]`}
	var trace, traceNumber, traceHash []string
	for _, options := range []string{
		`{"tracer":"callTracer"}`, `{"tracer":"callTracer","tracerConfig":{"withLog":true}}`, `{"tracer":"callTracer","tracerConfig":{"onlyTopCall":true}}`,
		`{"tracer":"prestateTracer"}`, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`,
		`{"tracer":"opcodeLogger"}`, `{"enableMemory":true}`, `{"disableStack":true,"disableStorage":true}`, `{}`, `{"timeout":"5s"}`,
	} {
		trace = append(trace, `["$hash",`+options+`]`)
		traceHash = append(traceHash, `["$block",`+options+`]`)
		traceNumber = append(traceNumber, `["$number",`+options+`]`)
	}
	var traceCall []string
	for _, options := range []string{
		`{"tracer":"callTracer","tracerConfig":{"withLog":true}}`, `{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}`,
		`{"enableMemory":true,"stateOverrides":{"$contract":{"balance":"0x2540be400"}},"blockOverrides":{"number":"0x99"}}`,
	} {
		traceCall = append(traceCall, `[{"from":"$sender","to":"$contract"},"latest",`+options+`]`, `[{"from":"$sender","data":"0x60006000fd"},"$number",`+options+`]`)
	}
	return map[string][]string{
		"admin_getTransactionTraceByHash": byTx,
		"txpool_contentFrom":              {`["$sender"]`},
		"debug_traceCall":                 append(traceCall, `[{"to":"$contract"}]`, `[{"to":"$contract"},{"blockHash":"$block"}]`),
		"debug_getRawBlock":               ref, "debug_getRawHeader": ref, "debug_getRawReceipts": ref, "debug_getRawTransaction": byTx,
		"debug_traceTransaction":                  append(trace, `["$hash"]`),
		"debug_traceBlockByHash":                  append(traceHash, `["$block"]`),
		"debug_traceBlockByNumber":                append(traceNumber, `["latest"]`),
		"eth_call":                                inBlock,
		"eth_createAccessList":                    append(call, `[{"from":"$sender","data":"0x60006000fd"}]`),
		"eth_estimateGas":                         inBlock,
		"eth_feeHistory":                          {`["0x4","latest",[0,50.5,100]]`, `["0x1","$number"]`, `["0x0","latest",[]]`},
		"eth_fillTransaction":                     {`[{"from":"$sender","to":"$contract"}]`, `[{"from":"$sender","to":"$contract","gasPrice":"0xba43b7400000","accessList":[]}]`, `[{"from":"$sender","to":"$contract","value":"0x2540be400","gas":"0x30d40","nonce":"0x0"}]`},
		"eth_getBalance":                          account,
		"eth_getBlockByHash":                      append(byHash(",true"), byHash(",false")...),
		"eth_getBlockByNumber":                    append(byNumber(",true"), byNumber(",false")...),
		"eth_getBlockReceipts":                    ref,
		"eth_getBlockTransactionCountByHash":      byHash(""),
		"eth_getBlockTransactionCountByNumber":    byNumber(""),
		"eth_getCode":                             account,
		"eth_getFilterChanges":                    {`["$filter"]`},
		"eth_getFilterLogs":                       {`["$filter"]`},
		"eth_getLogs":                             append(filter, `[{"blockHash":"$block"}]`),
		"eth_getStorageAt":                        {`["$contract","0x0","latest"]`, `["$contract","0x2a"]`, `["$sender","0x0","$number"]`},
		"eth_getTransactionByBlockHashAndIndex":   append(byHash(`,"0x0"`), byHash(`,"0x63"`)...),
		"eth_getTransactionByBlockNumberAndIndex": append(byNumber(`,"0x0"`), byNumber(`,"0x63"`)...),
		"eth_getTransactionByHash":                byTx,
		"eth_getTransactionCount":                 account,
		"eth_getTransactionReceipt":               byTx,
		"eth_getUncleByBlockHashAndIndex":         append(byHash(`,"0x0"`), `[]`),
		"eth_getUncleByBlockNumberAndIndex":       append(byNumber(`,"0x0"`), `[]`),
		"eth_getUncleCountByBlockHash":            append(byHash(""), `[]`),
		"eth_getUncleCountByBlockNumber":          append(byNumber(""), `[]`),
		"eth_newFilter":                           filter,
		"eth_sendRawTransaction":                  {`["$raw"]`},
		"eth_sendRawTransactionSync":              {`["$second",20000]`},
		"eth_simulateV1": {
			`[{"blockStateCalls":[{"calls":[{"from":"$sender","to":"$contract"},{"from":"$sender","data":"0x60006000fd"}]}],"traceTransfers":true},"$number"]`,
			`[{"blockStateCalls":[{"calls":[{"from":"$sender","to":"$contract","gasPrice":"0x0","value":"0x2540be400"},{"from":"$sender","to":"$contract"}]},{}],"returnFullTransactions":true,"traceTransfers":true}]`,
			`[{"blockStateCalls":[{"blockOverrides":{"time":"0xffffffffff"},"stateOverrides":{"$contract":{"balance":"0x1"}},"calls":[{"from":"$sender","to":"$contract","maxFeePerGas":"0xba43b7400000"}]}],"validation":true},"latest"]`,
		},
		"eth_uninstallFilter": {`["0x1"]`},
		"web3_sha3":           {`["0x"]`, `["0x1234"]`},
	}
}

// schemas are those of the relay's document, by name.
type schemas map[string]any

// check returns what is wrong with a value, whose schema may refer to those of the document.
func (s schemas) check(schema map[string]any, value any, what string) error {
	const document = "document.json"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(document, map[string]any{"components": map[string]any{"schemas": map[string]any(s)}, "schema": schema}); err != nil {
		return err
	}
	compiled, err := compiler.Compile(document + "#/schema")
	if err != nil {
		return err
	}
	if err := compiled.Validate(value); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func show(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

func parse(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
