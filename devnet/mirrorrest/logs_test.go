package mirrorrest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
)

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
