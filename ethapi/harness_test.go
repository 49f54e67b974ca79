package ethapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

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

// A block of the mirror node with one transaction of every kind, all signed by the
// same key.
const (
	blockHash  = "0x1111111111111111111111111111111111111111111111111111111111111117"
	parentHash = "0x1111111111111111111111111111111111111111111111111111111111111116"
	hashTail   = "22222222222222222222222222222222"
	longZero   = "0x00000000000000000000000000000000000003f2" // 0.0.1010, the sender
	tokenLog   = "0x00000000000000000000000000000000000004d2" // 0.0.1234, a token
	synthetic  = "0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
	transferID = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
	window     = "timestamp=gte:1767225600.000000001&timestamp=lte:1767225601.999999999"
)

var (
	contract = common.HexToAddress("0x05FbA803Be258049A27B820088bab1cAD2058871")
	price    = big.NewInt(710_000_000_000)
)

type member = map[string]any

// signed is a transaction as it was sent and the record that became of it.
type signed struct {
	*types.Transaction
	record member
}

func (s signed) json() string { return text(s.record) }

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func senderKey() (address common.Address, sign func(types.TxData) *types.Transaction) {
	key, err := crypto.HexToECDSA("105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524")
	if err != nil {
		panic(err)
	}
	return crypto.PubkeyToAddress(key.PublicKey), func(data types.TxData) *types.Transaction {
		signer := types.LatestSignerForChainID(big.NewInt(298))
		if legacy, ok := data.(*types.LegacyTx); ok && legacy.Nonce == 1 {
			signer = types.HomesteadSigner{}
		}
		return types.MustSignNewTx(key, signer, data)
	}
}

// scenario makes the transactions of block 17, in order.
func scenario() []signed {
	_, sign := senderKey()
	chain := big.NewInt(298)
	access := types.AccessList{{Address: contract, StorageKeys: []common.Hash{{31: 1}}}}
	value := big.NewInt(20_000_000_000)
	transactions := []*types.Transaction{
		sign(&types.LegacyTx{Nonce: 0, GasPrice: price, Gas: 21000, To: &contract, Value: value}),
		sign(&types.LegacyTx{Nonce: 1, GasPrice: big.NewInt(900_000_000_000), Gas: 21000, To: &contract}),
		sign(&types.AccessListTx{ChainID: chain, Nonce: 2, GasPrice: price, Gas: 50000, To: &contract, AccessList: access, Data: []byte{1}}),
		sign(&types.DynamicFeeTx{ChainID: chain, Nonce: 3, GasFeeCap: big.NewInt(800_000_000_000), GasTipCap: big.NewInt(1), Gas: 60000, Data: []byte{0x60, 0x80}}),
		sign(&types.DynamicFeeTx{ChainID: chain, Nonce: 4, GasFeeCap: price, GasTipCap: new(big.Int), Gas: 70000, To: &contract, Data: []byte{0xa9, 0x05, 0x9c, 0xbb}}),
		sign(&types.SetCodeTx{
			ChainID: uint256.NewInt(298), Nonce: 5, GasFeeCap: uint256.NewInt(710_000_000_000), GasTipCap: new(uint256.Int), Gas: 100000, To: contract,
			AuthList: []types.SetCodeAuthorization{{ChainID: *uint256.NewInt(298), Address: contract, Nonce: 9, V: 1, R: *uint256.NewInt(10), S: *uint256.NewInt(11)}},
		}),
	}
	block := make([]signed, len(transactions))
	for i, tx := range transactions {
		block[i] = signed{tx, record(tx, i)}
	}
	block[2].record["logs"] = []any{member{"address": hexutil.Encode(contract[:]), "bloom": "0x", "data": "0x2a", "index": 0, "topics": []string{transferID}, "contract_id": "0.0.1003"}}
	block[2].record["bloom"] = hexutil.Encode(bloomOf(contract, transferID))
	block[3].record["created_contract_ids"] = []string{"0.0.1004"}
	block[3].record["contract_id"] = "0.0.1004"
	block[3].record["to"] = "0x00000000000000000000000000000000000003ec"
	block[3].record["address"] = "0xc0ffee0000000000000000000000000000000001"
	block[4].record["result"], block[4].record["status"] = "CONTRACT_REVERT_EXECUTED", "0x0"
	block[4].record["error_message"] = "0x08c379a0"
	return block
}

func bloomOf(address common.Address, topics ...string) []byte {
	var bloom types.Bloom
	bloom.Add(address[:])
	for _, topic := range topics {
		bloom.Add(common.HexToHash(topic).Bytes())
	}
	return bloom[:]
}

// record is how the mirror node shows a transaction.
func record(tx *types.Transaction, index int) member {
	v, r, s := tx.RawSignatureValues()
	m := member{
		"address": hexutil.Encode(contract[:]), "amount": json.Number(tx.Value().String()), "bloom": "0x" + strings.Repeat("00", 256), "call_result": "0x",
		"contract_id": "0.0.1003", "created_contract_ids": []string{}, "error_message": nil, "from": longZero,
		"function_parameters": hexutil.Encode(tx.Data()), "gas_consumed": 21000, "gas_limit": tx.Gas(), "gas_used": 21000,
		"timestamp": fmt.Sprintf("1767225600.%09d", index+1), "to": nil, "hash": tx.Hash().Hex(),
		"block_hash": blockHash + hashTail, "block_number": 17, "result": "SUCCESS", "transaction_index": index, "status": "0x1",
		"failed_initcode": nil, "access_list": []any{}, "block_gas_used": 126000, "chain_id": "0x12a", "gas_price": "0x",
		"max_fee_per_gas": "0x", "max_priority_fee_per_gas": "0x", "r": hexutil.EncodeBig(r), "s": hexutil.EncodeBig(s),
		"type": tx.Type(), "v": json.Number(v.String()), "nonce": tx.Nonce(), "logs": []any{}, "state_changes": []any{},
	}
	if tx.To() != nil {
		m["to"] = hexutil.Encode(tx.To()[:])
	}
	if tx.Type() < types.DynamicFeeTxType {
		m["gas_price"] = hexutil.EncodeBig(tx.GasPrice())
	} else {
		m["max_fee_per_gas"], m["max_priority_fee_per_gas"] = hexutil.EncodeBig(tx.GasFeeCap()), hexutil.EncodeBig(tx.GasTipCap())
	}
	if !tx.Protected() {
		m["chain_id"] = "0x"
	}
	var list []any
	for _, entry := range tx.AccessList() {
		list = append(list, member{"address": entry.Address.Hex(), "storage_keys": entry.StorageKeys})
	}
	if list != nil {
		m["access_list"] = list
	}
	for _, a := range tx.SetCodeAuthorizations() {
		m["authorization_list"] = []any{member{"chain_id": "0x12a", "address": a.Address.Hex(), "nonce": a.Nonce, "y_parity": a.V, "r": a.R.Hex(), "s": a.S.Hex()}}
	}
	return m
}

func blockJSON(number int) member {
	hash := blockHash[:len(blockHash)-2] + fmt.Sprintf("%02d", number) + hashTail
	parent := blockHash[:len(blockHash)-2] + fmt.Sprintf("%02d", number-1) + hashTail
	start := 1767225600 + 2*(number-17)
	return member{
		"count": 9, "gas_used": 126000, "hapi_version": "0.75.0", "hash": hash, "logs_bloom": "0x", "name": "x", "number": number,
		"previous_hash": parent, "size": 489, "timestamp": member{"from": fmt.Sprintf("%d.000000001", start), "to": fmt.Sprintf("%d.999999999", start+1)},
	}
}

func logJSON(hash, address, data string, transaction, index, block int, topics ...string) member {
	return member{
		"address": address, "bloom": "0x", "contract_id": "0.0.1003", "data": data, "index": index, "topics": topics, "block_hash": blockHash + hashTail,
		"block_number": block, "root_contract_id": nil, "timestamp": "1767225600.000000003", "transaction_hash": hash, "transaction_index": transaction,
	}
}

// logList is a list of logs as the relay asks for them: the newest first.
func logList(logs ...any) string {
	slices.Reverse(logs)
	return listOf("logs", logs...)
}

func listOf(name string, items ...any) string {
	if items == nil {
		items = []any{}
	}
	return text(member{name: items, "links": member{"next": nil}})
}

func fees(gas int) string {
	return text(member{"fees": []any{
		member{"gas": gas + 1, "transaction_type": "ContractCall"},
		member{"gas": gas, "transaction_type": "EthereumTransaction"},
	}, "timestamp": "1767225600.000000001"})
}

// populate gives a mirror node the chain: blocks 10 to 17, of which only the last
// holds anything, its transactions, and the sender's account.
func populate(node *mirrorNode) []signed {
	address, _ := senderKey()
	block := scenario()
	for number := 10; number <= 17; number++ {
		node.set(fmt.Sprintf("blocks/%d", number), text(blockJSON(number)))
		node.set("blocks/"+blockJSON(number)["hash"].(string)[:66], text(blockJSON(number)))
	}
	node.set("blocks?limit=1&order=desc", listOf("blocks", blockJSON(17)))
	node.set("blocks?limit=1&order=asc", listOf("blocks", blockJSON(10)))

	results := make([]any, len(block))
	for i, tx := range block {
		node.set("contracts/results/"+tx.Hash().Hex()+"?hbar=false", tx.json())
		results[i] = tx.record
	}
	node.set("contracts/results?"+window+"&limit=100&order=asc&hbar=false", listOf("results", results...))
	node.set("contracts/results?block.number=17&limit=100&order=asc&hbar=false", listOf("results", results...))

	plain := logJSON(block[2].Hash().Hex(), hexutil.Encode(contract[:]), "0x2a", 2, 0, 17, transferID)
	token := logJSON(synthetic, tokenLog, "0x07", 6, 1, 17, transferID, "0x"+strings.Repeat("00", 31)+"05")
	node.set("contracts/results/logs?"+window+"&limit=100&order=desc", logList(plain, token))
	node.set("contracts/results/logs?transaction.hash="+synthetic+"&limit=100&order=desc", logList(token))
	node.set("contracts/"+hexutil.Encode(contract[:])+"/results/logs?"+window+"&limit=100&order=desc", logList(plain))

	node.set("transactions?timestamp=1767225600.000000003&limit=1", `{"transactions":[{"transaction_id":"0.0.1010-1767225600-000000007","name":"CRYPTOTRANSFER","consensus_timestamp":"1767225600.000000003"}],"links":{"next":null}}`)

	node.set("network/fees", fees(71))
	node.set("network/fees?timestamp=lte:1767225600.000000000", fees(71))
	account := member{
		"account": "0.0.1010", "evm_address": hexutil.Encode(address[:]), "balance": member{"balance": 123456789, "timestamp": "1767225602.000000000", "tokens": []any{}},
		"created_timestamp": "1767225590.000000001", "ethereum_nonce": 6, "deleted": false, "receiver_sig_required": false, "transactions": []any{}, "links": member{"next": nil},
	}
	node.set("accounts/0.0.1010?transactions=false", text(account))
	node.set("accounts/"+hexutil.Encode(address[:])+"?transactions=false", text(account))
	return block
}

func populated(t testing.TB, change ...func(*settings)) (*relay, []signed) {
	node := newMirrorNode(t)
	block := populate(node)
	return newRelay(t, node, change...), block
}
