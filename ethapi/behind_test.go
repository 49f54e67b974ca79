package ethapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

// Several mirror nodes can be behind one address. What one of them does not show yet, though another did, is no answer: to
// take it for one would lose events for good.

func (n *mirrorNode) hide(key string) (show func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.answers[key]
	delete(n.answers, key)
	return func() { n.fail(key, a.status, a.body) }
}

// logsPath is the path of the logs from one block to another.
func logsPath(first, last int) string {
	return fmt.Sprintf("contracts/results/logs?timestamp=gte:%s&timestamp=lte:%s&limit=100&order=desc",
		blockJSON(first)["timestamp"].(member)["from"], blockJSON(last)["timestamp"].(member)["to"])
}

func TestBlockThatIsNotShown(t *testing.T) {
	relay, _ := populated(t)
	logs := relay.filter("eth_newFilter", `[{}]`)
	relay.node.grow(18)
	relay.node.grow(19)
	relay.node.set(logsPath(18, 19), logList(logJSON(synthetic, tokenLog, "0x", 0, 0, 18), logJSON(synthetic, tokenLog, "0x", 0, 0, 19)))
	show := relay.node.hide("blocks/18")
	for _, call := range [][2]string{
		{"eth_getLogs", `[{"fromBlock":"0x12","toBlock":"0x13"}]`}, {"eth_getFilterChanges", `["` + logs + `"]`}, {"eth_getBlockByNumber", `["0x12",false]`},
	} {
		if got := relay.call(call[0], call[1]); got.Error == nil {
			t.Errorf("%s: %s", call[0], got.Result)
		}
	}
	show()
	if diff := cmp.Diff([]string{"0x12:0x0", "0x13:0x0"}, indexes(t, relay.changes(logs))); diff != "" {
		t.Error(diff)
	}
}

// What lies before the mirror node's first block is not there, and what lies after it is.
func TestRangeFromBeforeTheFirstBlock(t *testing.T) {
	relay, _ := populated(t)
	relay.node.set(logsPath(10, 17), logList(logJSON(synthetic, tokenLog, "0x", 0, 0, 12)))
	if diff := cmp.Diff([]string{"0xc:0x0"}, indexes(t, relay.call("eth_getLogs", `[{"fromBlock":"0x0","toBlock":"latest"}]`))); diff != "" {
		t.Error(diff)
	}
	relay.expect(
		[3]string{"eth_getLogs", `[{"fromBlock":"0x0","toBlock":"0x9"}]`, "[]"},
		[3]string{"eth_getBlockByNumber", `["0x9",false]`, "null"},
		[3]string{"eth_getBlockByNumber", `["0x12",false]`, "null"},
	)
}

func TestListOfBlocksThatEndsEarly(t *testing.T) {
	relay, _ := populated(t, func(s *settings) { s.API.FeeHistoryFixed = false })
	id := relay.filter("eth_newBlockFilter", `[]`)
	relay.node.grow(19)
	hash := func(n int) string { return blockJSON(n)["hash"].(string)[:66] }
	list := "blocks?block.number=gte:18&block.number=lte:19&limit=100&order=asc"
	relay.node.set(list, listOf("blocks", blockJSON(18)))
	relay.node.set("blocks?block.number=gte:19&block.number=lte:19&limit=100&order=asc", listOf("blocks", blockJSON(19)))
	relay.expect(
		[3]string{"eth_getFilterChanges", `["` + id + `"]`, fmt.Sprintf(`["%s"]`, hash(18))},
		[3]string{"eth_getFilterChanges", `["` + id + `"]`, fmt.Sprintf(`["%s"]`, hash(19))},
		[3]string{"eth_getFilterChanges", `["` + id + `"]`, "[]"},
		[3]string{"eth_feeHistory", `["0x2","latest",[]]`, "-32015 Dependent service returned immature records"},
	)
}

// The transactions of a block include the one whose receipt is asked for.
func TestReceiptOfABlockThatIsNotListed(t *testing.T) {
	relay, block := populated(t)
	receipt := `["` + block[3].Hash().Hex() + `"]`
	list := "contracts/results?block.number=17&limit=100&order=asc&hbar=false"
	show := relay.node.hide(list)
	relay.expect([3]string{"eth_getTransactionReceipt", receipt, "null"})
	relay.node.set(list, listOf("results"))
	relay.expect([3]string{"eth_getTransactionReceipt", receipt, "null"})
	show()
	var got struct{ CumulativeGasUsed string }
	if unmarshal(t, relay.call("eth_getTransactionReceipt", receipt), &got); got.CumulativeGasUsed != "0x14820" {
		t.Errorf("%+v", got)
	}
}

// A part of a block's transactions is not kept as if it were all.
func TestPartOfABlockIsNotKept(t *testing.T) {
	relay, _ := populated(t)
	list := "contracts/results?" + window + "&limit=100&order=asc&hbar=false"
	whole := relay.node.answers[list]
	count := func() int {
		var got struct{ Transactions []string }
		unmarshal(t, relay.call("eth_getBlockByNumber", `["0x11",false]`), &got)
		return len(got.Transactions)
	}
	relay.node.set(list, listOf("results", scenario()[0].record))
	if count() == 7 {
		t.Error("it is whole already")
	}
	relay.node.set(list, whole.body)
	if got := count(); got != 7 {
		t.Errorf("%d transactions", got)
	}
}

// Nor is it told as all, as long as the block is new.
func TestPartOfANewBlock(t *testing.T) {
	relay, txs := populated(t)
	block := blockJSON(18)
	from, to := fmt.Sprintf("%d.000000001", time.Now().Unix()-3), fmt.Sprintf("%d.000000001", time.Now().Unix()-1)
	block["timestamp"], block["gas_used"], block["logs_bloom"] = member{"from": from, "to": to}, 42000, hexutil.Encode(bloomOf(contract, transferID))
	relay.node.set("blocks?limit=1&order=desc", listOf("blocks", block))
	logs := "contracts/results/logs?timestamp=gte:" + from + "&timestamp=lte:" + to + "&limit=100&order=desc"
	other := logJSON(synthetic, tokenLog, "0x", 6, 1, 18)
	relay.node.set(logs, logList(other))
	relay.node.set("network/fees?timestamp=lte:"+from[:9]+"0.000000000", fees(71))
	list := "contracts/results?timestamp=gte:" + from + "&timestamp=lte:" + to + "&limit=100&order=asc&hbar=false"
	calls := map[string]string{
		"eth_getBlockByNumber": `["latest",false]`, "eth_getBlockReceipts": `["latest"]`, "eth_getBlockTransactionCountByNumber": `["latest"]`,
		"eth_getTransactionByBlockNumberAndIndex": `["latest","0x1"]`,
	}
	for _, part := range []string{listOf("results"), listOf("results", txs[0].record)} {
		relay.node.set(list, part)
		for method, params := range calls {
			relay.expect([3]string{method, params, "-32015 Dependent service returned immature records"})
		}
	}
	relay.node.set(list, listOf("results", txs[0].record, txs[2].record)) // the second of which has a log, as its bloom says
	for _, method := range []string{"eth_getBlockByNumber", "eth_getBlockReceipts"} {
		relay.expect([3]string{method, calls[method], "-32015 Dependent service returned immature records"})
	}
	relay.node.set(logs, logList(logJSON(txs[2].Hash().Hex(), hexutil.Encode(contract[:]), "0x2a", 2, 0, 17, transferID), other))
	for method, params := range calls {
		if got := relay.call(method, params); got.Error != nil {
			t.Errorf("%s: %s", method, got)
		}
	}
}

// A nonce never goes back, nor does an account that has sent.
func TestNonceOfOneThatLags(t *testing.T) {
	relay, _ := populated(t)
	path := "accounts/" + senderText() + "?transactions=false"
	now := relay.node.answers[path].body
	for _, answer := range []string{now, strings.Replace(now, `"ethereum_nonce":6`, `"ethereum_nonce":5`, 1), ""} {
		relay.node.set(path, answer)
		if answer == "" {
			relay.node.hide(path)
		}
		relay.expect(
			[3]string{"eth_getTransactionCount", `["` + senderText() + `","latest"]`, `"0x6"`},
			[3]string{"eth_getTransactionCount", `["` + senderText() + `","pending"]`, `"0x6"`},
		)
	}
}

// The record of a transaction that was refused says so itself, whatever the status is called.
func TestRefusedForAnyReason(t *testing.T) {
	relay, block := populated(t)
	tx := block[1]
	tx.record["transaction_index"], tx.record["gas_used"], tx.record["result"], tx.record["status"] = nil, 0, "INVALID_SIGNATURE", "0x0"
	relay.node.set("contracts/results/"+tx.Hash().Hex()+"?hbar=false", tx.json())
	got := relay.call("eth_getTransactionReceipt", `["`+tx.Hash().Hex()+`"]`)
	if got.Error == nil || got.Error.Code != -32003 {
		t.Errorf("%s", got)
	}
}

// What the bloom of a new block shows is in an answer, or there is none; a bloom may match by chance.
func TestLogsThatTheBloomShows(t *testing.T) {
	relay, _ := populated(t)
	id := relay.filter("eth_newFilter", `[{"address":"`+contract.Hex()+`"}]`)
	block := blockJSON(18)
	from, to := fmt.Sprintf("%d.000000001", time.Now().Unix()-3), fmt.Sprintf("%d.000000001", time.Now().Unix()-1)
	block["timestamp"], block["logs_bloom"] = member{"from": from, "to": to}, "0x"+strings.Repeat("ff", 256)
	relay.node.set("blocks?limit=1&order=desc", listOf("blocks", block))
	period := "timestamp=gte:" + from + "&timestamp=lte:" + to + "&limit=100&order=desc"
	ours := "contracts/" + hexutil.Encode(contract[:]) + "/results/logs?" + period
	for _, step := range []struct {
		ours, all string
		want      string // of a poll
	}{
		{listOf("logs"), listOf("logs"), "-32015"},
		{listOf("logs"), logList(logJSON(synthetic, hexutil.Encode(contract[:]), "0x", 0, 0, 18)), "-32015"},
		{logList(logJSON(synthetic, hexutil.Encode(contract[:]), "0x", 0, 0, 18)), listOf("logs"), `[{"address"`},
	} {
		relay.node.set(ours, step.ours)
		relay.node.set("contracts/results/logs?"+period, step.all)
		if got := relay.changes(id).String(); !strings.HasPrefix(got, step.want) {
			t.Errorf("%s, want %s", got, step.want)
		}
	}
	relay.node.set("contracts/results/logs?"+period, logList(logJSON(synthetic, hexutil.Encode(contract[:]), "0x", 0, 0, 18)))
	other := `[{"fromBlock":"0x12","address":"` + longZero + `"}]`
	relay.node.set("contracts/"+longZero+"/results/logs?"+period, listOf("logs"))
	relay.expect([3]string{"eth_getLogs", other, "[]"})
}

// A list that lacks logs of new blocks is completed by the blocks' own logs, if these are all that their blooms show.
func TestLogsThatAListLacks(t *testing.T) {
	relay, _ := populated(t)
	ours := hexutil.Encode(contract[:])
	log := func(number int) string { return logList(logJSON(synthetic, ours, "0x", 0, 0, number)) }
	now, at := time.Now().Unix(), map[int][2]string{}
	for i, number := range []int{18, 19} {
		from, to := fmt.Sprintf("%d.000000001", now-6+int64(2*i)), fmt.Sprintf("%d.000000001", now-5+int64(2*i))
		block := blockJSON(number)
		block["timestamp"], block["logs_bloom"] = member{"from": from, "to": to}, hexutil.Encode(bloomOf(contract))
		body, err := json.Marshal(block)
		must.Do(t, err)
		relay.node.set(fmt.Sprintf("blocks/%d", number), string(body))
		relay.node.set("blocks?limit=1&order=desc", listOf("blocks", block))
		relay.node.set("contracts/results/logs?timestamp=gte:"+from+"&timestamp=lte:"+to+"&limit=100&order=desc", log(number))
		at[number] = [2]string{from, to}
	}
	list := "contracts/" + ours + "/results/logs?timestamp=gte:" + at[18][0] + "&timestamp=lte:" + at[19][1] + "&limit=100&order=desc"
	for name, body := range map[string]string{"nothing": listOf("logs"), "the first": log(18), "the last": log(19)} {
		relay.node.set(list, body)
		got := relay.call("eth_getLogs", `[{"fromBlock":"0x12","toBlock":"0x13","address":"`+ours+`"}]`)
		if got.Error != nil {
			t.Errorf("of a list of %s: %s", name, got)
			continue
		}
		if diff := cmp.Diff([]string{"0x12:0x0", "0x13:0x0"}, indexes(t, got)); diff != "" {
			t.Errorf("of a list of %s: %s", name, diff)
		}
	}
}
