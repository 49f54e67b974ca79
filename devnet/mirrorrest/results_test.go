package mirrorrest_test

import (
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/eth"
)

func hexOf(b []byte) string { return fmt.Sprintf("0x%x", b) }

// A transfer of 1 ℏ, field by field as clients see it.
func TestTransferResult(t *testing.T) {
	n := newNetwork(t, ledger.Config{})
	to := account(1).EVMAddress()
	rec := n.mustSucceed(n.call(0, &types.DynamicFeeTx{To: &to, Value: weibar(100_000_000), Gas: 21_000}))
	block := n.ledger.View().LatestBlock()

	got := n.get("contracts/results/"+rec.EthereumHash.Hex()+"?hbar=false", http.StatusOK)
	r, s := got["r"].(string), got["s"].(string)
	if !strings.HasPrefix(r, "0x") || !strings.HasPrefix(s, "0x") || len(r) > 66 || len(s) > 66 {
		t.Errorf("signature r %s, s %s", r, s)
	}
	delete(got, "r")
	delete(got, "s")
	if v := text(got["v"]); v != "0" && v != "1" {
		t.Errorf("v is %s", v)
	}
	delete(got, "v")
	want := `{
		"access_list": [], "address": "` + strings.ToLower(to.Hex()) + `", "amount": 1000000000000000000,
		"block_gas_used": 21000, "block_hash": "` + hexOf(block.Hash[:]) + `", "block_number": 1,
		"bloom": "0x` + zeros(512) + `", "call_result": "0x", "chain_id": "0x12a", "contract_id": "0.0.1003",
		"created_contract_ids": [], "error_message": null, "failed_initcode": null,
		"from": "0x00000000000000000000000000000000000003ea", "function_parameters": "0x",
		"gas_consumed": 21000, "gas_limit": 21000, "gas_price": "0x", "gas_used": 21000,
		"hash": "` + rec.EthereumHash.Hex() + `", "logs": [], "max_fee_per_gas": "0xa54f4c3c00",
		"max_priority_fee_per_gas": "0x0", "nonce": 0, "result": "SUCCESS", "state_changes": [], "status": "0x1",
		"timestamp": "` + rec.Consensus.String() + `", "to": "` + strings.ToLower(to.Hex()) + `",
		"transaction_index": 0, "type": 2
	}`
	if diff := cmp.Diff(normal(t, want), normal(t, text(got))); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// The unit of amounts and prices is tinybar unless hbar=false asks for weibar.
func TestUnits(t *testing.T) {
	n := newNetwork(t, ledger.Config{})
	to := account(1).EVMAddress()
	// What is below one tinybar is not moved, but it was signed.
	value := new(big.Int).Add(weibar(5), big.NewInt(7))
	typed := n.call(0, &types.DynamicFeeTx{To: &to, Value: value})
	legacy := n.signAndHandle(0, &types.LegacyTx{Nonce: 1, To: &to, Value: value, Gas: 21_000, GasPrice: big.NewInt(710_000_000_000)})
	n.mustSucceed(typed)
	n.mustSucceed(legacy)
	for _, test := range []struct {
		rec                            *history.Record
		query                          string
		amount, gasPrice, fee, typ, id string
	}{
		{typed, "", "5", `"0x"`, `"0x47"`, "2", `"0x12a"`},
		{typed, "?hbar=true", "5", `"0x"`, `"0x47"`, "2", `"0x12a"`},
		{typed, "?hbar=false", "50000000007", `"0x"`, `"0xa54f4c3c00"`, "2", `"0x12a"`},
		{legacy, "", "5", `"0x47"`, `"0x"`, "0", `"0x12a"`},
		{legacy, "?hbar=False", "50000000007", `"0xa54f4c3c00"`, `"0x"`, "0", `"0x12a"`},
	} {
		got := n.get("contracts/results/"+test.rec.EthereumHash.Hex()+test.query, http.StatusOK)
		n.fields("type "+test.typ+" with "+test.query, got, map[string]string{
			"amount": test.amount, "gas_price": test.gasPrice, "max_fee_per_gas": test.fee, "type": test.typ, "chain_id": test.id,
		})
	}
	got := n.get("contracts/results/"+legacy.EthereumHash.Hex(), http.StatusOK)
	if v := text(got["v"]); v != "631" && v != "632" { // 298·2 + 35 or 36
		t.Errorf("v of a legacy transaction is %s", v)
	}
}

// What a result says of transactions of some kinds.
func TestResultsOfKinds(t *testing.T) {
	n := newNetwork(t, ledger.Config{})
	to, slot, price := account(1).EVMAddress(), common.HexToHash("0x81"), big.NewInt(710_000_000_000)
	low := strings.ToLower(to.Hex())
	contract, id := n.deploy(1, counterCode())
	created := n.mustSucceed(n.call(0, &types.DynamicFeeTx{Data: initCode(counterCode())}))
	for name, test := range map[string]struct {
		rec  *history.Record
		want map[string]string
	}{
		"with an access list": {
			n.mustSucceed(n.signAndHandle(0, &types.AccessListTx{
				ChainID: big.NewInt(298), Nonce: 1, To: &to, Gas: 100_000, GasPrice: price,
				AccessList: types.AccessList{{Address: to, StorageKeys: []common.Hash{slot}}, {Address: to}},
			})),
			map[string]string{"access_list": `[{"address":"` + low + `","storage_keys":["` + slot.Hex() + `"]},{"address":"` + low + `","storage_keys":[]}]`},
		},
		"signed for any chain, and so without a chain id": {
			n.mustSucceed(n.signFor(eth.AnyChain{}, 0, &types.AccessListTx{Nonce: 2, To: &to, Gas: 100_000, GasPrice: price})),
			map[string]string{"chain_id": `"0x"`},
		},
		"a creation": {created, map[string]string{
			"address":              text(hexOf(created.Result.Address[:])),
			"contract_id":          text(created.Result.Target.String()),
			"created_contract_ids": text([]string{created.Result.Target.String()}),
			"to":                   text(hexOf(created.Result.Target.LongZero().Bytes())),
			"function_parameters":  text(hexOf(initCode(counterCode()))),
			"call_result":          text(hexOf(counterCode())),
			"failed_initcode":      "null",
		}},
		"a creation that failed made nothing that it could name": {
			n.call(0, &types.DynamicFeeTx{Data: []byte{0x01, 0x12, 0x12, 0x12}}), map[string]string{"to": "null", "contract_id": "null"},
		},
		"reverted": {n.call(0, &types.DynamicFeeTx{To: &contract, Data: []byte{callRevert}}), map[string]string{
			"status": `"0x0"`, "result": `"CONTRACT_REVERT_EXECUTED"`, "call_result": `"0x"`,
			"contract_id": text(id.String()), "created_contract_ids": "[]", "logs": "[]",
			"failed_initcode": `"0x01"`, "transaction_index": "0",
			"error_message": `"0x08c379a0` + zeros(62) + `20` + zeros(63) + `7` + `6e6f206d6f7265` + zeros(50) + `"`,
		}},
	} {
		n.fields(name, n.get("contracts/results/"+test.rec.EthereumHash.Hex(), http.StatusOK), test.want)
	}
}

// A transaction with a wrong nonce reached consensus and did nothing: no list shows
// it and its hash does.
func TestWrongNonce(t *testing.T) {
	n := newNetwork(t, ledger.Config{})
	to := account(1).EVMAddress()
	early := n.send(0, &types.DynamicFeeTx{Nonce: 1, To: &to, Value: weibar(1)})
	if early.Status.String() != "WRONG_NONCE" {
		t.Fatal(early.Status)
	}
	path := "contracts/results/" + early.EthereumHash.Hex()
	status := http.StatusOK
	if !early.Result.HasResult {
		status = http.StatusPartialContent
	}
	got := n.get(path, status)
	if text(got["result"]) != `"WRONG_NONCE"` || got["transaction_index"] != nil || text(got["status"]) != `"0x0"` {
		t.Errorf("found by hash: %s", text(got))
	}
	number := early.Block
	for _, list := range []string{
		"contracts/results", "contracts/results?internal=true", fmt.Sprintf("contracts/results?block.number=%d", number),
		"contracts/results?timestamp=" + early.Consensus.String(), "contracts/" + to.Hex() + "/results",
	} {
		if rows := n.list(list, "results"); len(rows) != 0 {
			t.Errorf("%s lists it: %s", list, text(rows))
		}
	}

	// When its turn comes it succeeds under the same hash, and that is then found.
	n.mustSucceed(n.send(0, &types.DynamicFeeTx{Nonce: 0, To: &to, Value: weibar(1)}))
	again := n.mustSucceed(n.send(0, &types.DynamicFeeTx{Nonce: 1, To: &to, Value: weibar(1)}))
	if again.EthereumHash != early.EthereumHash {
		t.Fatal("the second attempt has another hash")
	}
	n.send(0, &types.DynamicFeeTx{Nonce: 1, To: &to, Value: weibar(1)}) // and once more in vain
	if got := n.get(path, http.StatusOK); text(got["result"]) != `"SUCCESS"` {
		t.Errorf("among three attempts the hash finds %s", text(got["result"]))
	}
}

func TestResultFilters(t *testing.T) {
	synctest.Test(t, testResultFilters)
}

func testResultFilters(t *testing.T) {
	n := newSlowNetwork(t)
	contract, id := n.deploy(0, counterCode())
	to := account(2).EVMAddress()
	var records []*history.Record
	for i := range 5 {
		rec := n.mustSucceed(n.call(i%2, &types.DynamicFeeTx{To: &contract, Value: weibar(int64(i))}))
		records = append(records, rec)
	}
	other := n.mustSucceed(n.call(0, &types.DynamicFeeTx{To: &to, Value: weibar(1)}))
	n.closeBlock()
	block := n.ledger.View().LatestBlock()
	all := append([]*history.Record{nil}, records...) // the first is the deployment
	for _, rec := range block.Records {
		if rec.Result != nil && rec.Result.Create {
			all[0] = rec
		}
	}
	all = append(all, other)

	pick := func(indexes ...int) []any {
		var out []any
		for _, i := range indexes {
			out = append(out, all[i].Consensus.String())
		}
		return out
	}
	at := func(i int) string { return all[i].Consensus.String() }
	for _, test := range []struct {
		path string
		want []any
	}{
		{"contracts/results", pick(6, 5, 4, 3, 2, 1, 0)},
		{"contracts/results?order=asc", pick(0, 1, 2, 3, 4, 5, 6)},
		{"contracts/results?order=asc&limit=2", pick(0, 1, 2, 3, 4, 5, 6)},
		{"contracts/results?from=" + account(1).EVMAddress().Hex() + "&order=asc", pick(2, 4)},
		{"contracts/results?from=0.0.1003&order=asc&limit=1", pick(2, 4)},
		{"contracts/results?from=0x00000000000000000000000000000000000003eb&order=asc", pick(2, 4)},
		{"contracts/results?from=0x9999999999999999999999999999999999999999", nil},
		{"contracts/results?block.number=1&transaction.index=2", pick(2)},
		{"contracts/results?block.number=0x1&transaction.index=6", pick(6)},
		{"contracts/results?block.number=1&transaction.index=7", nil},
		{"contracts/results?block.number=0", nil},
		{"contracts/results?block.number=7", nil},
		{"contracts/results?block.hash=" + hexOf(block.Hash[:]) + "&order=asc&limit=3", pick(0, 1, 2, 3, 4, 5, 6)},
		{"contracts/results?block.hash=" + hexOf(block.Hash[:32]) + "&transaction.index=0", pick(0)},
		{"contracts/results?timestamp=" + at(3), pick(3)},
		{"contracts/results?timestamp=gt:" + at(3) + "&timestamp=lte:" + at(5) + "&order=asc&limit=1", pick(4, 5)},
		{"contracts/results?timestamp=gte:" + at(4) + "&timestamp=lt:" + at(5), pick(4)},
		{"contracts/results?timestamp=ne:" + at(4) + "&timestamp=gte:" + at(3), pick(6, 5, 3)},
		{"contracts/" + contract.Hex() + "/results?order=asc", pick(0, 1, 2, 3, 4, 5)},
		{"contracts/" + id.String() + "/results?limit=2", pick(5, 4, 3, 2, 1, 0)},
		{"contracts/" + id.LongZero().Hex() + "/results?timestamp=lte:" + at(2) + "&limit=1&order=desc&hbar=false", pick(2, 1, 0)},
		{"contracts/0x9999999999999999999999999999999999999999/results", nil},
	} {
		if diff := cmp.Diff(test.want, column(n.list(test.path, "results"), "timestamp")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.path, diff)
		}
	}

	for i, rec := range all {
		got := n.get("contracts/results/"+rec.EthereumHash.Hex(), http.StatusOK)
		if text(got["transaction_index"]) != fmt.Sprint(i) || text(got["block_gas_used"]) != fmt.Sprint(block.GasUsed) {
			t.Errorf("result %d: index %s, block gas %s", i, text(got["transaction_index"]), text(got["block_gas_used"]))
		}
	}
}

// A result is found by the Ethereum hash, by the native hash in both lengths, by the
// transaction id in both forms, and by its time through any contract in it.
func TestWaysToAResult(t *testing.T) {
	n := newNetwork(t, ledger.Config{})
	contract, id := n.deploy(0, counterCode())
	rec := n.mustSucceed(n.call(0, &types.DynamicFeeTx{To: &contract}))
	hash := rec.EthereumHash.Hex()
	for _, path := range []string{
		hash, strings.ToUpper(hash[2:]), hexOf(rec.Hash[:]), hexOf(rec.Hash[:32]), rec.ID.Mirror(), rec.ID.Mirror() + "?nonce=0", rec.ID.String(),
	} {
		if got := n.get("contracts/results/"+path, http.StatusOK); text(got["hash"]) != text(hash) {
			t.Errorf("%s finds %s", path, text(got["hash"]))
		}
	}
	for _, contract := range []string{contract.Hex(), id.String(), id.LongZero().Hex()} {
		got := n.get("contracts/"+contract+"/results/"+rec.Consensus.String()+"?hbar=false", http.StatusOK)
		if text(got["hash"]) != text(hash) || len(got["logs"].([]any)) != 2 || len(got["state_changes"].([]any)) == 0 {
			t.Errorf("by time through %s: %s", contract, text(got))
		}
	}
	for path, status := range map[string]int{
		"contracts/results/" + common.Hash{1}.Hex():                                    http.StatusNotFound,
		"contracts/results/0x1234":                                                     http.StatusBadRequest,
		"contracts/results/" + rec.ID.Mirror() + "?nonce=1":                            http.StatusNotFound,
		"contracts/results/0.0.2-1-1":                                                  http.StatusNotFound,
		"contracts/" + id.String() + "/results/1.000000001":                            http.StatusNotFound,
		"contracts/" + id.String() + "/results/yesterday":                              http.StatusBadRequest,
		"contracts/0.0.1003/results/" + rec.Consensus.String():                         http.StatusNotFound,
		"contracts/somebody/results/" + rec.Consensus.String():                         http.StatusBadRequest,
		"contracts/results/" + hash + "/actions/0":                                     http.StatusNotFound,
		"contracts/results/" + hash + "?hbar=perhaps":                                  http.StatusBadRequest,
		"contracts/" + id.String() + "/results/" + rec.Consensus.String() + "?limit=1": http.StatusBadRequest,
	} {
		n.get(path, status)
	}
}

func TestActions(t *testing.T) {
	n := newNetwork(t, ledger.Config{})
	counter, counterID := n.deploy(0, counterCode())
	forwarder, forwarderID := n.deploy(0, forwarderCode())
	rec := n.mustSucceed(n.call(0, &types.DynamicFeeTx{To: &forwarder, Data: common.LeftPadBytes(counter[:], 32), Value: weibar(3)}))

	path := "contracts/results/" + rec.EthereumHash.Hex() + "/actions"
	actions := n.list(path+"?limit=1", "actions")
	if len(actions) != 2 {
		t.Fatalf("%d actions: %s", len(actions), text(actions))
	}
	root, inner := actions[0], actions[1]
	for _, test := range []struct {
		action map[string]any
		want   map[string]string
	}{
		{root, map[string]string{
			"index": "0", "call_depth": "0", "call_type": `"CALL"`, "call_operation_type": `"CALL"`,
			"caller": `"0.0.1002"`, "caller_type": `"ACCOUNT"`, "from": text(hexOf(account(0).ID.LongZero().Bytes())),
			"recipient": text(forwarderID.String()), "recipient_type": `"CONTRACT"`,
			"to": text(hexOf(forwarderID.LongZero().Bytes())), "value": "3", "result_data_type": `"OUTPUT"`, "result_data": `"0x"`,
			"timestamp": text(rec.Consensus.String()),
		}},
		{inner, map[string]string{
			"index": "1", "call_depth": "1", "caller": text(forwarderID.String()), "caller_type": `"CONTRACT"`,
			"recipient": text(counterID.String()), "to": text(hexOf(counterID.LongZero().Bytes())), "value": "3", "input": `"0x"`,
		}},
	} {
		n.fields("action "+text(test.action["index"]), test.action, test.want)
	}
	if diff := cmp.Diff(reversed(actions), n.list(path+"?limit=1&order=desc", "actions")); diff != "" {
		t.Errorf("descending (-want +got):\n%s", diff)
	}
	if rows := n.list(path+"?index=gte:1", "actions"); len(rows) != 1 || text(rows[0]["index"]) != "1" {
		t.Errorf("from index 1: %s", text(rows))
	}
	if rows := n.list(strings.Replace(path, rec.EthereumHash.Hex(), rec.ID.Mirror(), 1), "actions"); len(rows) != 2 {
		t.Errorf("by transaction id: %s", text(rows))
	}
	n.get(path+"?index=ne:1", http.StatusBadRequest)
	n.get("contracts/results/"+common.Hash{1}.Hex()+"/actions", http.StatusNotFound)
}

func TestOpcodes(t *testing.T) {
	s := newScene(t)
	read := func(query string, rec *history.Record) map[string]any {
		r := s.do(http.MethodGet, "/api/v1/contracts/results/"+rec.EthereumHash.Hex()+"/opcodes"+query, "", "Accept-Encoding", "gzip, br")
		return s.decode(r, query, http.StatusOK)
	}
	trace := read("", s.reverted)
	if text(trace["failed"]) != "true" || text(trace["contract_id"]) != text(s.contractID.String()) ||
		text(trace["gas"]) != fmt.Sprint(s.reverted.Result.GasUsed) {
		t.Errorf("failed %s, contract %s, gas %s", text(trace["failed"]), text(trace["contract_id"]), text(trace["gas"]))
	}
	if v := trace["return_value"].(string); !strings.HasPrefix(v, "0x08c379a0") {
		t.Errorf("return value %s", v)
	}
	steps := trace["opcodes"].([]any)
	first, last := steps[0].(map[string]any), steps[len(steps)-1].(map[string]any)
	if text(first["op"]) != `"CALLDATASIZE"` || text(first["pc"]) != "0" || text(first["depth"]) != "1" && text(first["depth"]) != "0" ||
		text(first["stack"]) != "[]" || first["memory"] != nil || first["storage"] != nil {
		t.Errorf("first step %s", text(first))
	}
	if text(last["op"]) != `"REVERT"` || last["reason"] == nil {
		t.Errorf("last step %s", text(last))
	}
	full := read("?stack=false&memory=true&storage=true", s.call)
	for _, step := range full["opcodes"].([]any) {
		row := step.(map[string]any)
		if row["stack"] != nil || row["memory"] == nil || row["storage"] == nil {
			t.Fatalf("step with memory and storage and without stack: %s", text(row))
		}
		if text(row["op"]) == `"SSTORE"` && len(row["storage"].(map[string]any)) == 0 {
			t.Errorf("a store that touches no slot: %s", text(row))
		}
	}
	path := "/api/v1/contracts/results/" + s.call.EthereumHash.Hex() + "/opcodes"
	if r := s.do(http.MethodGet, path, ""); r.status != http.StatusNotAcceptable {
		t.Errorf("without gzip: status %d", r.status)
	}
	if r := s.do(http.MethodGet, path+"?stack=x", "", "Accept-Encoding", "gzip"); r.status != http.StatusBadRequest {
		t.Errorf("stack=x: status %d", r.status)
	}
	for _, hash := range []string{common.Hash{1}.Hex(), s.wrongNonce.EthereumHash.Hex()} {
		r := s.do(http.MethodGet, "/api/v1/contracts/results/"+hash+"/opcodes", "", "Accept-Encoding", "gzip")
		if r.status != http.StatusNotFound {
			t.Errorf("%s: status %d", hash, r.status)
		}
	}
}

// logNetwork has two contracts with four transactions in two blocks, each of which
// emits two events.
func logNetwork(t *testing.T) (n *network, contracts [2]common.Address, records []*history.Record) {
	t.Helper()
	n = newSlowNetwork(t)
	contracts[0], _ = n.deploy(0, counterCode())
	contracts[1], _ = n.deploy(0, counterCode())
	for i := range 4 {
		rec := n.mustSucceed(n.call(i%2, &types.DynamicFeeTx{To: &contracts[i/2]}))
		records = append(records, rec)
		if i == 1 {
			n.closeBlock()
		}
	}
	n.closeBlock()
	return n, contracts, records
}

func TestLogFilters(t *testing.T) { synctest.Test(t, testLogFilters) }

func testLogFilters(t *testing.T) {
	n, contracts, records := logNetwork(t)
	// An event is named by its transaction and its place in the block.
	event := func(rec, log int) string {
		return fmt.Sprintf("%s %d", records[rec].Consensus, records[rec].Result.Logs[log].Index)
	}
	var all []string
	for i := range records {
		all = append(all, event(i, 0), event(i, 1))
	}
	at := func(i int) string { return records[i].Consensus.String() }
	between := "timestamp=gte:" + at(0) + "&timestamp=lte:" + at(3)
	raised, sender := raisedTopic.Hex(), common.BytesToHash(account(1).EVMAddress().Bytes()).Hex()
	for _, test := range []struct {
		query string
		want  []string
	}{
		{"order=asc", all},
		{"", reversed(all)},
		{"timestamp=" + at(1) + "&order=asc", all[2:4]},
		{"timestamp=gte:" + at(1) + "&timestamp=lt:" + at(3) + "&order=asc", all[2:6]},
		{"timestamp=gte:" + at(2) + "&timestamp=lte:" + at(2) + "&order=asc", all[4:6]},
		{"timestamp=lt:" + at(0), nil},
		{between + "&topic0=" + raised + "&order=asc", []string{all[0], all[2], all[4], all[6]}},
		{between + "&topic0=0xa1&order=asc", []string{all[0], all[2], all[4], all[6]}},
		{between + "&topic0=" + raised + "&topic0=" + echoTopic.Hex() + "&order=asc", all},
		{between + "&topic0=" + raised + "&topic1=" + sender + "&order=asc", []string{all[2], all[6]}},
		{between + "&topic1=" + sender, []string{all[7], all[6], all[3], all[2]}},
		{between + "&topic2=0x1", nil},
		{between + "&topic0=0x0", nil},
		{"timestamp=" + at(1) + "&index=" + fmt.Sprint(records[1].Result.Logs[1].Index), all[3:4]},
		{"timestamp=gte:" + at(1) + "&index=gt:" + fmt.Sprint(records[1].Result.Logs[0].Index) + "&order=asc", all[3:]},
		{"timestamp=lte:" + at(1) + "&index=lt:" + fmt.Sprint(records[1].Result.Logs[1].Index), reversed(all[:3])},
	} {
		for _, limit := range []string{"", "&limit=1", "&limit=2", "&limit=3"} {
			path := "contracts/results/logs?" + test.query + limit
			if diff := cmp.Diff(test.want, events(n, path)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		}
	}
	for i, want := range [][]string{all[:4], all[4:]} {
		path := "contracts/" + contracts[i].Hex() + "/results/logs?limit=1&order=asc&"
		if diff := cmp.Diff(want, events(n, path+between)); diff != "" {
			t.Errorf("of contract %d (-want +got):\n%s", i, diff)
		}
		one := events(n, path+between+"&topic0="+raised+"&topic1="+sender)
		if diff := cmp.Diff([]string{want[2]}, one); diff != "" {
			t.Errorf("of contract %d with topics (-want +got):\n%s", i, diff)
		}
	}
	for i, rec := range records {
		path := "contracts/results/logs?transaction.hash=" + rec.EthereumHash.Hex() + "&limit=1&order=asc"
		if diff := cmp.Diff(all[2*i:2*i+2], events(n, path)); diff != "" {
			t.Errorf("of a transaction (-want +got):\n%s", diff)
		}
	}
	for _, path := range []string{
		"contracts/results/logs?transaction.hash=" + common.Hash{1}.Hex(),
		"contracts/0x9999999999999999999999999999999999999999/results/logs",
		"contracts/0.0.1002/results/logs",
	} {
		if got := events(n, path); len(got) != 0 {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func events(n *network, path string) []string {
	var out []string
	for _, row := range n.list(path, "logs") {
		out = append(out, fmt.Sprintf("%s %s", row["timestamp"], text(row["index"])))
	}
	return out
}

func TestLogFields(t *testing.T) { synctest.Test(t, testLogFields) }

func testLogFields(t *testing.T) {
	n, contracts, records := logNetwork(t)
	rec := records[3]
	rows := n.list("contracts/results/logs?transaction.hash="+rec.EthereumHash.Hex()+"&order=asc", "logs")
	block, _ := n.ledger.View().BlockByNumber(rec.Block)
	want := map[string]any{
		"address":           strings.ToLower(contracts[1].Hex()),
		"block_hash":        hexOf(block.Hash[:]),
		"block_number":      rec.Block,
		"contract_id":       rec.Result.Target.String(),
		"data":              hexOf(common.LeftPadBytes([]byte{2}, 32)),
		"index":             2,
		"root_contract_id":  rec.Result.Target.String(),
		"timestamp":         rec.Consensus.String(),
		"topics":            []string{raisedTopic.Hex(), common.BytesToHash(account(1).EVMAddress().Bytes()).Hex()},
		"transaction_hash":  rec.EthereumHash.Hex(),
		"transaction_index": 1,
	}
	bloom := rec.Result.Logs[0].Bloom()
	want["bloom"] = hexOf(bloom[:])
	if diff := cmp.Diff(normal(t, text(want)), normal(t, text(rows[0]))); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if text(rows[1]["data"]) != `"0x"` || text(rows[1]["index"]) != "3" {
		t.Errorf("the second log: %s", text(rows[1]))
	}
}

func TestLogErrors(t *testing.T) {
	n := newNetwork(t, ledger.Config{})
	const prefix = "Cannot search topics without a valid timestamp range: "
	for query, want := range map[string]string{
		"topic0=0x1":                 prefix + "No timestamp range or eq operator provided",
		"topic0=0x1&timestamp=gte:1": prefix + "Timestamp range must have gt (or gte) and lt (or lte), or eq operator",
		"topic3=0x1&timestamp=gte:1&timestamp=lte:604802": prefix + "Timestamp range by the lower and upper bounds must be positive and within 7d",
		"topic3=0x1&timestamp=gte:9&timestamp=lte:8":      prefix + "Timestamp range by the lower and upper bounds must be positive and within 7d",
		"topic0=0x" + zeros(65):                           "Invalid parameter: topic0",
		"topic0=gt:0x1":                                   "Invalid parameter: topic0",
		"topic4=0x1":                                      "Unknown query parameter: topic4",
		"index=1":                                         "timestamp must have eq operator",
		"index=gt:1":                                      "timestamp must have gte or eq operator",
		"index=lt:1&timestamp=lt:5":                       "timestamp must have lte or eq operator",
		"transaction.hash=0x12":                           "Invalid parameter: transaction.hash",
		"transaction.hash=" + strings.Repeat(zeros(64)+"&transaction.hash=", 1) + zeros(64): "Only one transaction.hash filter is allowed",
	} {
		if got := firstMessage(n.get("contracts/results/logs?"+query, http.StatusBadRequest)); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	n.get("contracts/results/logs?topic0=0x1&timestamp=gte:1&timestamp=lte:604801", http.StatusOK)
	n.get("contracts/0.0.1/results/logs?transaction.hash="+zeros(64), http.StatusBadRequest)
}

func firstMessage(body map[string]any) string {
	messages := body["_status"].(map[string]any)["messages"].([]any)
	return messages[0].(map[string]any)["message"].(string)
}
