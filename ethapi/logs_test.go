package ethapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

// rangeWindow is the time from block 10 to block 17.
const rangeWindow = "timestamp=gte:1767225586.000000001&timestamp=lte:1767225601.999999999"

// indexes are the logIndex of each log of an answer.
func indexes(t *testing.T, r response) []string {
	t.Helper()
	var logs []struct{ BlockNumber, LogIndex string }
	unmarshal(t, r, &logs)
	all := []string{}
	for _, l := range logs {
		all = append(all, l.BlockNumber+":"+l.LogIndex)
	}
	return all
}

func TestLogs(t *testing.T) {
	relay, block := populated(t)
	a, b := hexutil.Encode(contract[:]), tokenLog
	hash := block[0].Hash().Hex()
	at := func(number, index int, address string) member {
		return logJSON(hash, address, "0x", 0, index, number, transferID)
	}
	any := rangeWindow + "&limit=100&order=desc"
	relay.node.set("contracts/results/logs?"+any, logList(at(10, 0, a), at(11, 0, b), at(17, 0, a), at(17, 1, b)))
	relay.node.set("contracts/"+a+"/results/logs?"+any, logList(at(10, 0, a), at(17, 0, a)))
	relay.node.set("contracts/"+b+"/results/logs?"+any, logList(at(11, 0, b), at(17, 1, b)))
	topic := "&topic0=" + transferID[2:]
	relay.node.set("contracts/results/logs?"+rangeWindow+topic+"&limit=100&order=desc", logList(at(11, 0, b)))
	three := logJSON(hash, a, "0x", 0, 0, 17, transferID, transferID, transferID)
	relay.node.set("contracts/results/logs?"+rangeWindow+topic+"&topic0=5&topic2=0&limit=100&order=desc", logList(three))

	all := []string{"0xa:0x0", "0xb:0x0", "0x11:0x0", "0x11:0x1"}
	ofA := []string{"0xa:0x0", "0x11:0x0"}
	const zero, five = `"0x0000000000000000000000000000000000000000000000000000000000000000"`, `"0x0000000000000000000000000000000000000000000000000000000000000005"`
	for filter, want := range map[string][]string{
		`{"fromBlock":"0xa","toBlock":"latest"}`: all,
		`{"fromBlock":"0xa"}`:                    all,
		`{"fromBlock":"earliest","toBlock":null,"address":null,"topics":null,"blockHash":null}`: all,
		`{"fromBlock":"0xa","toBlock":"0x11","address":[]}`:                                     all,
		`{"fromBlock":"0xa","toBlock":"0x11","topics":[]}`:                                      all,
		`{"fromBlock":"0xa","toBlock":"0x11","topics":[null]}`:                                  all,
		`{"fromBlock":"0xa","address":"` + a + `"}`:                                             ofA,
		// An address that is named twice is asked for once.
		`{"fromBlock":"0xa","address":["` + a + `","` + strings.ToUpper(a[2:]) + `"]}`:         nil,
		`{"fromBlock":"0xa","address":["` + a + `","0x` + strings.ToUpper(a[2:]) + `"]}`:       ofA,
		`{"fromBlock":"0xa","address":["` + a + `","` + b + `"]}`:                              all,
		`{"fromBlock":"0xa","address":"` + common.Address{}.Hex() + `"}`:                       {},
		`{"fromBlock":"0xa","topics":["` + transferID + `"]}`:                                  {"0xb:0x0"},
		`{"fromBlock":"0xa","topics":[["` + transferID + `",` + five + `],null,` + zero + `]}`: {"0x11:0x0"},
		// A null among alternatives matches anything.
		`{"fromBlock":"0xa","topics":[["` + transferID + `",null]]}`: all,
		// Before the mirror node's first block.
		`{"fromBlock":"0x1","toBlock":"0x11"}`: {},
		// One block.
		`{}`:                                {"0x11:0x0", "0x11:0x1"},
		`{"blockHash":"` + blockHash + `"}`: {"0x11:0x0", "0x11:0x1"},
		`{"blockHash":"` + blockHash + `","address":"` + a + `"}`: {"0x11:0x0"},
		`{"fromBlock":"0x10","toBlock":"0x10"}`:                   {},
	} {
		got := relay.call("eth_getLogs", "["+filter+"]")
		if want == nil {
			if got.Error == nil {
				t.Errorf("%s gives %s", filter, got)
			}
			continue
		}
		if diff := cmp.Diff(want, indexes(t, got)); diff != "" {
			t.Errorf("%s: %s", filter, diff)
		}
	}
}

func TestLogErrors(t *testing.T) {
	relay, _ := populated(t, func(s *settings) { s.API.LogsBlockRange = 5 })
	topics := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"`+transferID+`",`, n), ",") }
	var addresses []string
	for i := range 1001 {
		addresses = append(addresses, fmt.Sprintf(`"0x%040x"`, i+1))
	}
	relay.expect(
		[3]string{"eth_getLogs", `[{"fromBlock":"0x11","toBlock":"0xa"}]`, "-32602 invalid block range params"},
		[3]string{"eth_getLogs", `[{"toBlock":"0xa"}]`, "-32602 invalid block range params"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x11","toBlock":"earliest"}]`, "-32602 invalid block range params"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x64","toBlock":"0x63"}]`, "-32602 invalid block range params"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x64"}]`, "-32602 block range extends beyond current head block: requested 100, head 17"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x12","toBlock":"latest"}]`, "-32602 block range extends beyond current head block: requested 18, head 17"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x12","toBlock":"0x13"}]`, "-32602 block range extends beyond current head block: requested 19, head 17"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0xf","toBlock":"0x3e7"}]`, "-32602 block range extends beyond current head block: requested 999, head 17"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0xa"}]`, "-32000 Exceeded maximum block range: 5"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0xa","address":["` + tokenLog + `","` + longZero + `"]}]`, "-32000 Exceeded maximum block range: 5"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0xa","address":["` + tokenLog + `"]}]`, "[]"}, // exempt
		[3]string{"eth_getLogs", `[{"topics":[` + topics(5) + `]}]`, "-32602 invalid argument 0: exceed max topics: at most 4"},
		[3]string{"eth_getLogs", `[{"topics":[null,[` + topics(101) + `]]}]`, "-32602 invalid argument 1: Topic 1 exceeds maximum nested length of 100"},
		[3]string{"eth_getLogs", `[{"address":[` + strings.Join(addresses, ",") + `]}]`, "-32602 invalid argument 0: exceed max addresses: 1001 of at most 1000"},
		[3]string{"eth_getLogs", `[{"blockHash":"` + blockHash + `","toBlock":"0x1"}]`, "-32602 invalid argument 0: Can't use both blockHash and toBlock/fromBlock"},
	)
	// Blocks that are more than seven days apart.
	old := blockJSON(12)
	old["timestamp"] = member{"from": "1766000000.000000000", "to": "1766000001.000000000"}
	relay.node.set("blocks/12", text(old))
	relay.expect([3]string{"eth_getLogs", `[{"fromBlock":"0xc"}]`, "-32004 The provided fromBlock and toBlock contain timestamps that exceed the maximum allowed duration of 7 days (604800 seconds): fromBlock: 0xc (1766000000.000000000), toBlock: 0x11 (1767225600.000000001)"})
	// Records that stay incomplete.
	log := logJSON(synthetic, tokenLog, "0x", 0, 0, 17)
	log["index"] = nil
	relay.node.set("contracts/results/logs?"+window+"&limit=100&order=desc", logList(log))
	relay.expect([3]string{"eth_getLogs", `[{}]`, "-32015 Dependent service returned immature records"})
}

// grow makes block number the head, with one log of the contract in it.
func (n *mirrorNode) grow(number int) {
	block := blockJSON(number)
	span := block["timestamp"].(member)
	log := logJSON(synthetic, hexutil.Encode(contract[:]), "0x", 0, 0, number, transferID)
	n.set("blocks?limit=1&order=desc", listOf("blocks", block))
	n.set(fmt.Sprintf("blocks/%d", number), text(block))
	single := fmt.Sprintf("timestamp=gte:%s&timestamp=lte:%s", span["from"], span["to"])
	n.set("contracts/results/logs?"+single+"&limit=100&order=desc", logList(log))
}

func (r *relay) filter(method, params string) string {
	r.t.Helper()
	var id string
	answer := r.call(method, params)
	if answer.Error != nil {
		r.t.Fatal(answer)
	}
	must.Do(r.t, json.Unmarshal(answer.Result, &id))
	return id
}

func (r *relay) changes(id string) response {
	r.t.Helper()
	return r.call("eth_getFilterChanges", `["`+id+`"]`)
}

func TestLogFilter(t *testing.T) {
	relay, _ := populated(t)
	expect := func(id string, want ...string) {
		t.Helper()
		if want == nil {
			want = []string{}
		}
		if diff := cmp.Diff(want, indexes(t, relay.changes(id))); diff != "" {
			t.Error(diff)
		}
	}
	fromNow := relay.filter("eth_newFilter", `[{}]`)
	fromNumber := relay.filter("eth_newFilter", `[{"fromBlock":"0x11"}]`)
	until18 := relay.filter("eth_newFilter", `[{"toBlock":"0x12"}]`)
	ofHash := relay.filter("eth_newFilter", `[{"blockHash":"`+blockHash+`","address":"`+contract.Hex()+`"}]`)
	expect(fromNow)                            // what was before the filter is not new
	expect(fromNumber, "0x11:0x0", "0x11:0x1") // unless it was named
	expect(ofHash, "0x11:0x0")
	expect(ofHash)
	relay.node.grow(18)
	expect(fromNow, "0x12:0x0")
	expect(fromNow)
	expect(until18, "0x12:0x0")
	relay.node.grow(19)
	expect(fromNow, "0x13:0x0")
	expect(until18)
	// All logs of a filter begin at the block in which it was made.
	both := "timestamp=gte:1767225600.000000001&timestamp=lte:1767225603.999999999"
	log := func(n int) member { return logJSON(synthetic, tokenLog, "0x", 0, 0, n) }
	relay.node.set("contracts/results/logs?"+both+"&limit=100&order=desc", logList(log(17), log(18)))
	if diff := cmp.Diff([]string{"0x11:0x0", "0x12:0x0"}, indexes(t, relay.call("eth_getFilterLogs", `["`+until18+`"]`))); diff != "" {
		t.Error(diff)
	}
	// Ids are numbers: leading zeros say nothing.
	expect("0x000" + fromNow[2:])
	relay.expect(
		[3]string{"eth_uninstallFilter", `["` + fromNow + `"]`, "true"},
		[3]string{"eth_uninstallFilter", `["` + fromNow + `"]`, "false"},
		[3]string{"eth_getFilterChanges", `["` + fromNow + `"]`, "-32001 filter not found"},
		[3]string{"eth_getFilterLogs", `["` + fromNow + `"]`, "-32001 filter not found"},
		[3]string{"eth_newFilter", `[{"fromBlock":"0x13","toBlock":"0x12"}]`, "-32602 invalid block range params"},
	)
}

// A poll reads no more than one query may, and the next one goes on there.
func TestLogFilterCatchesUp(t *testing.T) {
	relay, _ := populated(t, func(s *settings) { s.API.LogsBlockRange = 1 })
	id := relay.filter("eth_newFilter", `[{}]`)
	for number := 18; number <= 20; number++ {
		relay.node.grow(number)
	}
	two := "timestamp=gte:1767225602.000000001&timestamp=lte:1767225605.999999999"
	log := func(n int) member { return logJSON(synthetic, tokenLog, "0x", 0, 0, n) }
	relay.node.set("contracts/results/logs?"+two+"&limit=100&order=desc", logList(log(18), log(19)))
	for _, want := range [][]string{{"0x12:0x0", "0x13:0x0"}, {"0x14:0x0"}, {}} {
		if diff := cmp.Diff(want, indexes(t, relay.changes(id))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFailedPollLosesNothing(t *testing.T) {
	relay, _ := populated(t)
	id := relay.filter("eth_newFilter", `[{}]`)
	relay.node.grow(18)
	path := "contracts/results/logs?timestamp=gte:1767225602.000000001&timestamp=lte:1767225603.999999999&limit=100&order=desc"
	good := relay.node.answers[path]
	relay.node.fail(path, 500, "")
	if got := relay.changes(id); got.Error == nil {
		t.Fatalf("%s", got)
	}
	relay.node.set(path, good.body)
	if got := indexes(t, relay.changes(id)); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestBlockFilter(t *testing.T) {
	relay, _ := populated(t)
	id := relay.filter("eth_newBlockFilter", `[]`)
	relay.expect([3]string{"eth_getFilterChanges", `["` + id + `"]`, "[]"})
	relay.node.grow(19)
	relay.node.set("blocks?block.number=gte:18&block.number=lte:19&limit=100&order=asc", listOf("blocks", blockJSON(18), blockJSON(19)))
	hash := func(n int) string { return blockJSON(n)["hash"].(string)[:66] }
	relay.expect(
		[3]string{"eth_getFilterChanges", `["` + id + `"]`, fmt.Sprintf(`["%s","%s"]`, hash(18), hash(19))},
		[3]string{"eth_getFilterChanges", `["` + id + `"]`, "[]"},
		[3]string{"eth_getFilterLogs", `["` + id + `"]`, "-32001 filter not found"},
		[3]string{"eth_uninstallFilter", `["` + id + `"]`, "true"},
	)
}

func TestFiltersCanBeOff(t *testing.T) {
	relay, _ := populated(t, func(s *settings) { s.API.Filters = false })
	for method, params := range map[string]string{
		"eth_newFilter": `[{}]`, "eth_newBlockFilter": `[]`, "eth_getFilterLogs": `["0x1"]`, "eth_getFilterChanges": `["0x1"]`, "eth_uninstallFilter": `["0x1"]`,
	} {
		relay.expect([3]string{method, params, "-32601 Unsupported JSON-RPC method"})
	}
}
