package mirrorrest_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func TestContract(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{s.contract.Hex(), s.contractID.String(), s.contractID.LongZero().Hex()} {
		got := s.get("contracts/"+name, http.StatusOK)
		s.fields(name, got, map[string]string{
			"contract_id": text(s.contractID.String()), "evm_address": text(strings.ToLower(s.contract.Hex())),
			"runtime_bytecode": text(hexOf(counterCode())), "bytecode": text(hexOf(initCode(counterCode()))),
			"nonce": "1", "deleted": "false", "file_id": "null", "created_timestamp": text(s.creation.Consensus.String()),
		})
	}
	before := hedera.FromNanos(s.creation.Consensus.UnixNano() - 1).String()
	s.get("contracts/"+s.contract.Hex()+"?timestamp="+before, http.StatusNotFound)
	s.get("contracts/"+s.contract.Hex()+"?timestamp="+s.creation.Consensus.String(), http.StatusOK)
	s.get("contracts/"+account(0).EVMAddress().Hex(), http.StatusNotFound)
	s.get("contracts/0x9999999999999999999999999999999999999999", http.StatusNotFound)
	rows := s.list("contracts", "contracts")
	if len(rows) != 4 || rows[0]["bytecode"] != nil {
		t.Errorf("contracts: %s", text(column(rows, "contract_id")))
	}
	made := s.list("contracts?contract.id="+s.internalMake.Result.Created[0].String(), "contracts")
	if len(made) != 1 {
		t.Errorf("the contract made by a contract: %s", text(made))
	}
}

// A contract that was made through a file says which.
func TestContractMadeThroughAFile(t *testing.T) {
	s := newScene(t)
	file := s.mustSucceed(s.handle(core.BodyOf(&hapi.FileCreateTransactionBody{ExpirationTime: &hapi.Timestamp{Seconds: 4_000_000_000}, Contents: []byte(hex.EncodeToString(initCode(counterCode())))}), nil))
	made := s.mustSucceed(s.handle(core.BodyOf(&hapi.ContractCreateTransactionBody{
		Gas: 1_000_000, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
		InitcodeSource: &hapi.ContractCreateTransactionBody_FileID{FileID: &hapi.FileID{FileNum: file.File.Num}},
	}), nil))
	if got := s.get("contracts/"+made.ContractID.String(), http.StatusOK); text(got["file_id"]) != text(file.File.String()) {
		t.Errorf("a contract that was made through file %s: file_id is %s", file.File, text(got["file_id"]))
	}
}

func TestState(t *testing.T) {
	s := newScene(t)
	zero, five := "0x"+zeros(64), "0x"+zeros(63)+"5"
	again := s.network.call(0, &types.DynamicFeeTx{To: &s.contract}) // counter 2, last value 0
	s.mustSucceed(again)
	path := "contracts/" + s.contract.Hex() + "/state"
	words := func(query string) string {
		var out []string
		for _, row := range s.list(path+query, "state") {
			out = append(out, row["slot"].(string)[62:]+"="+row["value"].(string)[62:])
		}
		return strings.Join(out, " ")
	}
	for query, want := range map[string]string{
		"":                                "0000=0002 0005=0000", // a word that is zero again stays
		"?order=desc":                     "0005=0000 0000=0002",
		"?slot=0x5":                       "0005=0000",
		"?slot=" + five + "&slot=" + zero: "0000=0002 0005=0000",
		"?slot=gt:0x0":                    "0005=0000",
		"?slot=lt:5":                      "0000=0002",
		"?slot=gte:0x1&slot=lte:0x4":      "",
		"?slot=lt:0x0":                    "",
		"?slot=0x7":                       "",
		"?timestamp=" + s.call.Consensus.String():                          "0000=0001 0005=0002",
		"?timestamp=lt:" + again.Consensus.String() + "&slot=0x0":          "0000=0001",
		"?timestamp=" + s.creation.Consensus.String():                      "",
		"?timestamp=gte:" + again.Consensus.String() + "&slot=0x0&limit=1": "0000=0002",
		"?timestamp=gt:" + again.Consensus.String():                        "",
	} {
		if got := strings.ReplaceAll(words(query), "0x", ""); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	row := s.list(path+"?slot=0x0", "state")[0]
	if text(row["timestamp"]) != text(again.Consensus.String()) || text(row["contract_id"]) != text(s.contractID.String()) ||
		text(row["address"]) != text(strings.ToLower(s.contract.Hex())) {
		t.Errorf("row %s", text(row))
	}
	if rows := s.list("contracts/0x9999999999999999999999999999999999999999/state", "state"); len(rows) != 0 {
		t.Errorf("of nobody: %s", text(rows))
	}
	s.get(path+"?timestamp=ne:1", http.StatusBadRequest)
	s.get(path+"?slot=ne:0x1", http.StatusBadRequest)
	s.get(path+"?slot="+zeros(65), http.StatusBadRequest)
}

func TestTransaction(t *testing.T) {
	s := newScene(t)
	rec := s.native
	got := s.list("transactions/"+rec.ID.Mirror()+"?nonce=0", "transactions")
	if len(got) != 1 {
		t.Fatalf("%d rows: %s", len(got), text(got))
	}
	var transfers []string
	for _, m := range rec.Transfers {
		transfers = append(transfers, fmt.Sprintf(`{"account":%q,"amount":%d,"is_approval":false}`, m.Account, m.Amount))
	}
	want := fmt.Sprintf(`{
		"assessed_custom_fees": [], "batch_key": null, "bytes": null, "charged_tx_fee": %d, "consensus_timestamp": %q,
		"entity_id": null, "high_volume": false, "high_volume_pricing_multiplier": null, "max_custom_fees": [],
		"max_fee": "1000000000", "memo_base64": "R3LDvMOfZQ==", "name": "CRYPTOTRANSFER", "nft_transfers": [],
		"node": "0.0.3", "nonce": 0, "parent_consensus_timestamp": null, "result": "SUCCESS", "scheduled": false,
		"staking_reward_transfers": [], "token_transfers": [], "transaction_hash": %q, "transaction_id": %q,
		"transfers": [%s], "valid_duration_seconds": "120", "valid_start_timestamp": %q
	}`, rec.Fee, rec.Consensus, base64.StdEncoding.EncodeToString(rec.Hash[:]), rec.ID.Mirror(),
		strings.Join(transfers, ","), rec.ID.ValidStart)
	if diff := cmp.Diff(normal(t, want), normal(t, text(got[0]))); diff != "" {
		t.Errorf("transaction (-want +got):\n%s", diff)
	}
}

// A transaction comes with its children, in the order of their times, under every
// name it has.
func TestWaysToATransaction(t *testing.T) {
	s := newScene(t)
	rec := s.internalMake
	if len(rec.Children) != 1 {
		t.Fatalf("%d children", len(rec.Children))
	}
	want := []any{rec.Consensus.String(), rec.Children[0].Consensus.String()}
	for _, name := range []string{
		rec.ID.Mirror(), rec.ID.String(), hexOf(rec.Hash[:]),
		url.PathEscape(base64.StdEncoding.EncodeToString(rec.Hash[:])), base64.URLEncoding.EncodeToString(rec.Hash[:]),
	} {
		got := s.get("transactions/"+name, http.StatusOK)
		var times []any
		for _, row := range got["transactions"].([]any) {
			times = append(times, row.(map[string]any)["consensus_timestamp"])
		}
		if diff := cmp.Diff(want, times); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	child := s.get("transactions/"+rec.ID.Mirror()+"?nonce=1", http.StatusOK)["transactions"].([]any)[0].(map[string]any)
	s.fields("a child", child, map[string]string{
		"name": `"CONTRACTCREATEINSTANCE"`, "nonce": "1", "parent_consensus_timestamp": text(rec.Consensus.String()),
		"entity_id": text(rec.Result.Created[0].String()), "transaction_id": text(rec.ID.Mirror()),
	})
	for name, status := range map[string]int{
		"0.0.2-1-1": http.StatusNotFound, hexOf(make([]byte, 48)): http.StatusNotFound,
		rec.ID.Mirror() + "?nonce=7": http.StatusNotFound, rec.ID.Mirror() + "?scheduled=true": http.StatusNotFound,
		"0.0.2-1": http.StatusBadRequest, "0x1234": http.StatusBadRequest, rec.ID.Mirror() + "?nonce=x": http.StatusBadRequest,
	} {
		s.get("transactions/"+name, status)
	}
}

func TestTransactionFilters(t *testing.T) {
	s := newScene(t)
	for path, want := range map[string][]*history.Record{
		"transactions?transactiontype=cryptotransfer":                     {s.native},
		"transactions?result=fail&order=asc":                              {s.reverted, s.wrongNonce},
		"transactions?account.id=" + s.hollowID.String():                  {s.native},
		"transactions?account.id=" + s.hollowID.String() + "&type=debit":  {},
		"transactions?account.id=" + s.hollowID.String() + "&type=credit": {s.native},
		"transactions?account.id=0.0.1003&type=credit":                    {s.transfer},
		"transactions?timestamp=" + s.call.Consensus.String():             {s.call},
		"transactions?timestamp=lt:" + s.transfer.Consensus.String():      {},
	} {
		var times []any
		for _, rec := range want {
			times = append(times, rec.Consensus.String())
		}
		if diff := cmp.Diff(times, column(s.list(path, "transactions"), "consensus_timestamp")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNetwork(t)
		to := account(1).EVMAddress()
		for range 3 {
			n.mustSucceed(n.call(0, &types.DynamicFeeTx{To: &to, Gas: 21_000}))
			n.mustSucceed(n.transfer(accountID(1005), 1))
			n.closeBlock()
		}
		blocks := n.ledger.View().Blocks()
		if len(blocks) != 4 {
			t.Fatalf("%d blocks", len(blocks))
		}
		b := blocks[2]
		want := fmt.Sprintf(`{
			"count": 2, "gas_used": 21000, "hapi_version": "0.75.0", "hash": %q, "logs_bloom": "0x%s",
			"name": "%s.rcd.gz", "number": 2, "previous_hash": %q, "size": %d, "timestamp": {"from": %q, "to": %q}
		}`, hexOf(b.Hash[:]), zeros(512), b.From.Time().Format("2006-01-02T15_04_05.000000000Z"),
			hexOf(blocks[1].Hash[:]), b.Size, b.From, b.To)
		for _, name := range []string{"2", hexOf(b.Hash[:]), hexOf(b.Hash[:32]), strings.ToUpper(hexOf(b.Hash[:])[2:])} {
			if diff := cmp.Diff(normal(t, want), normal(t, text(n.get("blocks/"+name, http.StatusOK)))); diff != "" {
				t.Errorf("blocks/%s (-want +got):\n%s", name, diff)
			}
		}
		first := n.get("blocks/0", http.StatusOK)
		if text(first["previous_hash"]) != `"0x`+zeros(96)+`"` || text(first["count"]) != "0" {
			t.Errorf("block 0: %s", text(first))
		}
		for query, want := range map[string]string{
			"":          "[3,2,1,0]",
			"order=asc": "[0,1,2,3]",
			"block.number=gte:1&block.number=lte:2&limit=100&order=asc": "[1,2]",
			"block.number=gt:0x1":                                   "[3,2]",
			"block.number=2":                                        "[2]",
			"block.number=2&block.number=0&limit=1":                 "[2,0]",
			"block.number=gt:3":                                     "null",
			"timestamp=" + b.To.String():                            "[2]",
			"timestamp=gt:" + b.To.String():                         "[3]",
			"timestamp=lt:" + b.To.String() + "&order=asc&limit=1":  "[0,1]",
			"timestamp=gte:" + b.To.String() + "&block.number=lt:3": "[2]",
		} {
			if got := text(column(n.list("blocks?"+query, "blocks"), "number")); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		for name, status := range map[string]int{
			"4": http.StatusNotFound, hexOf(make([]byte, 32)): http.StatusNotFound,
			"0x1": http.StatusBadRequest, "-1": http.StatusBadRequest, "latest": http.StatusBadRequest, "1?limit=1": http.StatusBadRequest,
		} {
			n.get("blocks/"+name, status)
		}
	})
}

func TestNetwork(t *testing.T) {
	s := newScene(t)
	at := s.call.Consensus.String()
	for path, want := range map[string]string{
		"network/fees?timestamp=" + at: `{"fees":[{"gas":71,"transaction_type":"ContractCall"},{"gas":71,"transaction_type":"ContractCreate"},
			{"gas":71,"transaction_type":"EthereumTransaction"}],"timestamp":"` + at + `"}`,
		"network/exchangerate?timestamp=" + at: `{"current_rate":{"cent_equivalent":12,"expiration_time":4102444800,"hbar_equivalent":1},
			"next_rate":{"cent_equivalent":12,"expiration_time":4102444800,"hbar_equivalent":1},"timestamp":"` + at + `"}`,
	} {
		if diff := cmp.Diff(normal(t, want), normal(t, text(s.get(path, http.StatusOK)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	total := s.get("network/supply", http.StatusOK)
	if text(total["total_supply"]) != `"5000000000000000000"` {
		t.Errorf("supply %s", text(total))
	}
	r := s.do(http.MethodGet, "/api/v1/network/supply?q=totalcoins", "")
	if string(r.body) != "50000000000.00000000" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Errorf("total coins: %s %s", r.header.Get("Content-Type"), r.body)
	}
	r = s.do(http.MethodGet, "/api/v1/network/supply?q=circulating", "")
	released := integer(t, normal(t, strings.ReplaceAll(text(total["released_supply"]), `"`, "")))
	if string(r.body) != fmt.Sprintf("%d.%08d", released/1e8, released%1e8) {
		t.Errorf("circulating: %s, released %d", r.body, released)
	}
	nodes := s.list("network/nodes?limit=1", "nodes")
	if text(column(nodes, "node_account_id")) != `["0.0.3","0.0.4"]` || text(nodes[0]["service_endpoints"]) != `[{"domain_name":"","ip_address_v4":"127.0.0.1","port":50211}]` {
		t.Errorf("nodes %s", text(nodes))
	}
	if rows := s.list("network/nodes?node.id=1&file.id=0.0.101", "nodes"); len(rows) != 1 || text(rows[0]["file_id"]) != `"0.0.101"` {
		t.Errorf("node 1: %s", text(rows))
	}
}

// counted is what the counter contract returns.
func counted(n byte) string { return text(hexOf(common.LeftPadBytes([]byte{n}, 32))) }

func TestCall(t *testing.T) {
	s := newScene(t) // the counter stands at 1
	s.mustSucceed(s.network.call(0, &types.DynamicFeeTx{To: &s.contract}))
	first, _ := s.ledger.View().BlockByNumber(s.call.Block)
	to := `"to":"` + s.contract.Hex() + `"`
	for body, want := range map[string]string{
		`{` + to + `,"data":"0x02"}`:                                                                              counted(2),
		`{` + to + `,"data":"02","block":"latest"}`:                                                               counted(2),
		`{` + to + `,"data":"0x02","block":"PENDING","from":null,"gas":24000}`:                                    counted(2),
		`{` + to + `,"data":"0x02","block":"` + fmt.Sprint(s.call.Block) + `"}`:                                   counted(1),
		`{` + to + `,"data":"0x02","block":"` + fmt.Sprintf("0x%X", s.call.Block) + `"}`:                          counted(1),
		`{` + to + `,"data":"0x02","block":"` + hexOf(first.Hash[:]) + `"}`:                                       counted(1),
		`{` + to + `,"data":"0x02","block":"` + hexOf(first.Hash[:32]) + `"}`:                                     counted(1),
		`{` + to + `,"data":"0x02","block":"earliest"}`:                                                           `"0x"`,
		`{"to":"` + s.contractID.LongZero().Hex() + `","data":"0x02"}`:                                            counted(2),
		`{"to":"` + account(1).EVMAddress().Hex() + `"}`:                                                          `"0x"`,
		`{"to":"` + account(1).EVMAddress().Hex() + `","value":5,"from":"` + account(0).EVMAddress().Hex() + `"}`: `"0x"`,
		`{"data":"` + hexOf(initCode(counterCode())) + `"}`:                                                       text(hexOf(counterCode())),
		`{` + to + `,"data":"0x02","state_overrides":[{"address":"` + s.contract.Hex() + `","state_diff":[{"key":"0x` + zeros(64) + `","value":"0x` + zeros(63) + `9"}]}]}`:                    counted(9),
		`{"to":"0x9999999999999999999999999999999999999999","data":"0x02","state_overrides":[{"address":"0x9999999999999999999999999999999999999999","code":"` + hexOf(counterCode()) + `"}]}`: counted(0),
	} {
		if got := text(s.post(body, http.StatusOK)["result"]); got != want {
			t.Errorf("%.200s: %s, want %s", body, got, want)
		}
	}
	if got := text(s.post(`{`+to+`,"data":"0x02"}`, http.StatusOK)["result"]); got != counted(2) {
		t.Errorf("simulations changed the state: %s", got)
	}
}

func TestEstimate(t *testing.T) {
	s := newScene(t)
	result := s.post(`{"to":"`+s.contract.Hex()+`","estimate":true,"from":"`+account(0).EVMAddress().Hex()+`"}`, http.StatusOK)["result"].(string)
	var gas uint64
	if _, err := fmt.Sscanf(result, "0x%016x", &gas); err != nil || len(result) != 18 {
		t.Fatalf("%s: %v", result, err)
	}
	rec := s.mustSucceed(s.network.call(0, &types.DynamicFeeTx{To: &s.contract, Gas: gas}))
	if gas < rec.Result.GasUsed || gas > rec.Result.GasUsed*3/2 {
		t.Errorf("estimate %d for %d", gas, rec.Result.GasUsed)
	}
	plain := s.post(`{"to":"`+account(1).EVMAddress().Hex()+`","estimate":true}`, http.StatusOK)["result"]
	if plain != "0x0000000000005622" { // 5 % above 21,000
		t.Errorf("a plain transfer: %s", plain)
	}
	failed := s.post(`{"to":"`+s.contract.Hex()+`","data":"0x01","estimate":true}`, http.StatusBadRequest)
	if firstMessage(failed) != "CONTRACT_REVERT_EXECUTED" {
		t.Errorf("what always reverts: %s", text(failed))
	}
}

func TestCallErrors(t *testing.T) {
	s := newScene(t)
	to := `"to":"` + s.contract.Hex() + `"`
	for _, test := range []struct {
		body   string
		status int
		want   string
	}{
		{
			`{` + to + `,"data":"0x01"}`, http.StatusBadRequest,
			`{"message":"CONTRACT_REVERT_EXECUTED","detail":"no more","data":"0x08c379a0` + zeros(62) + `20` + zeros(63) + `7` + `6e6f206d6f7265` + zeros(50) + `"}`,
		},
		{`{` + to + `,"data":"0x03"}`, http.StatusBadRequest, `{"message":"CONTRACT_EXECUTION_EXCEPTION","detail":"","data":""}`},
		{`{` + to + `,"gas":21000,"data":"0x02"}`, http.StatusBadRequest, `{"message":"INSUFFICIENT_GAS","detail":"","data":""}`},
		{
			`{` + to + `,"data":"0x02","from":"0x9999999999999999999999999999999999999999"}`, http.StatusBadRequest,
			`{"message":"PAYER_ACCOUNT_NOT_FOUND","detail":"Sender account not found.","data":""}`,
		},
		{`{` + to + `,"gas":15000001}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"gas field must be less than or equal to 15000000","data":""}`},
		{`{` + to + `,"block":"99999"}`, http.StatusNotFound, `{"message":"Not Found","detail":"Unknown block: 99999","data":""}`},
		{`{` + to + `,"block":"99999999999999999999"}`, http.StatusNotFound, `{"message":"Not Found","detail":"Unknown block: 99999999999999999999","data":""}`},
		{`{` + to + `,"block":"0x` + zeros(64) + `"}`, http.StatusNotFound, `{"message":"Not Found","detail":"Unknown block: 0x` + zeros(64) + `","data":""}`},
		{`{` + to + `,"block":"newest"}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"block field invalid value","data":""}`},
		{`{` + to + `,"block":"-1"}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"block field invalid value","data":""}`},
		{`{` + to + `,"block":"0x` + zeros(17) + `"}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"block field invalid value","data":""}`},
		{`{` + to + `,"gas":"many"}`, http.StatusBadRequest, `{"message":"Bad Request","detail":"Unable to parse JSON","data":""}`},
		{`{`, http.StatusBadRequest, `{"message":"Bad Request","detail":"Unable to parse JSON","data":""}`},
		{`[]`, http.StatusBadRequest, `{"message":"Bad Request","detail":"Unable to parse JSON","data":""}`},
	} {
		r := s.do(http.MethodPost, "/api/v1/contracts/call", test.body, "Content-Type", "application/json; charset=utf-8")
		want := `{"_status":{"messages":[` + test.want + `]}}`
		if got := strings.TrimSpace(string(r.body)); got != want || r.status != test.status {
			t.Errorf("%.200s: %d %s\nwant %d %s", test.body, r.status, got, test.status, want)
		}
	}
	several := s.post(`{"gas":1,"value":-1}`, http.StatusBadRequest)
	if n := len(several["_status"].(map[string]any)["messages"].([]any)); n != 3 {
		t.Errorf("%d messages for three faults: %s", n, text(several))
	}
	r := s.do(http.MethodPost, "/api/v1/contracts/call", `{"data":"`+strings.Repeat("0", 1<<20)+`"}`, "Content-Type", "application/json")
	if r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over the limit: status %d", r.status)
	}
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		if r := s.do(http.MethodPost, "/api/v1/contracts/call", `{}`, "Content-Type", media); r.status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: status %d", media, r.status)
		}
	}
}

// following is a network whose blocks can be waited for.
type following struct {
	*network
	closing chan struct{}
	lag     time.Duration
}

func newFollowing(t *testing.T) *following {
	f := &following{network: newNetwork(t, ledger.Config{}), closing: make(chan struct{})}
	f.handler = mirrorrest.New(mirrorrest.Config{
		View: func() *ledger.View {
			if f.lag == 0 {
				return f.ledger.View()
			}
			return f.ledger.ViewBehind(f.lag)
		},
		Changed: f.ledger.Subscribe, Closing: f.closing, Log: slog.New(slog.DiscardHandler),
	})
	return f
}

// ask returns the numbers of the blocks of an answer, and how long it took.
func (f *following) ask(query string) (numbers []int64, took time.Duration) {
	f.t.Helper()
	began := time.Now()
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, "/devnet/blocks"+query, nil))
	var answer struct{ Blocks []struct{ Number int64 } }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || answer.Blocks == nil {
		f.t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	for _, b := range answer.Blocks {
		numbers = append(numbers, b.Number)
	}
	return numbers, time.Since(began)
}

// newBlock makes a block.
func (f *following) newBlock() { f.call(0, &types.DynamicFeeTx{To: new(account(1).Address)}) }

func number(n int64) string { return strconv.FormatInt(n, 10) }

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		expect := func(query string, want []int64, wantTook time.Duration) {
			t.Helper()
			got, took := f.ask(query)
			if !slices.Equal(got, want) || took != wantTook {
				t.Errorf("%s: got %v after %v, want %v after %v", query, got, took, want, wantTook)
			}
		}
		head := f.ledger.View().LatestBlock().Number
		next := "?wait=10000&from=" + number(head+1)
		expect("?from="+number(head), []int64{head}, 0)
		expect("?from="+number(head+1), nil, 0)
		expect(next, nil, 10*time.Second)
		expect("?wait=999999999&from="+number(head+5), nil, 30*time.Second)

		soon := func(do func()) { time.AfterFunc(3*time.Second, do) }
		soon(f.newBlock)
		expect(next, []int64{head + 1}, 3*time.Second)
		f.newBlock()
		f.newBlock()
		expect(next, []int64{head + 1, head + 2, head + 3}, 0)

		// A mirror node that lags answers when it may show the block, not before.
		f.lag = time.Second
		<-time.After(2 * time.Second)
		soon(f.newBlock)
		got, took := f.ask("?wait=10000&from=" + number(head+4))
		if !slices.Equal(got, []int64{head + 4}) || took < 4*time.Second || took > 4*time.Second+20*time.Millisecond {
			t.Errorf("lagging: got %v after %v, want block %d after 4s", got, took, head+4)
		}

		// A server that stops keeps nobody waiting.
		soon(func() { close(f.closing) })
		expect("?wait=10000&from="+number(head+5), nil, 3*time.Second)
	})
}

func TestFollowWithoutNotice(t *testing.T) {
	n := newNetwork(t, ledger.Config{}) // nobody says when there are new blocks
	w := httptest.NewRecorder()
	n.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/devnet/blocks?wait=30000&from=1000", nil))
	if got := w.Body.String(); got != `{"blocks":[]}`+"\n" {
		t.Errorf("got %s", got)
	}
	for _, odd := range []string{"?from=-1", "?from=x", "?wait=1.5", "?after=1"} {
		w := httptest.NewRecorder()
		n.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/devnet/blocks"+odd, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", odd, w.Code)
		}
	}
}

// An answer that waited is of the history in which it ends: a relay asks again for what is of one that is gone, and would
// wait for a block that may not come.
func TestFollowSaysThatTheNetworkWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		snapshot := f.ledger.Snapshot()
		f.newBlock()
		time.AfterFunc(3*time.Second, func() { f.ledger.Revert(snapshot) })
		w := httptest.NewRecorder()
		path := "/devnet/blocks?wait=10000&from=" + number(f.ledger.View().LatestBlock().Number+1)
		f.handler.ServeHTTP(w, httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, path, nil))
		now := f.ledger.View().Generation()
		if got, want := w.Header().Get("Lockstep-Generation"), fmt.Sprintf("%d:%d", now.Number, now.Block); got != want {
			t.Errorf("generation %s, want %s", got, want)
		}
	})
}
