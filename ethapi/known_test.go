package ethapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/envx"
)

func shared(s *settings) { s.Mirror.Freshness = envx.Millis(time.Hour) }

// What the mirror client may share is answered without asking it, and as it is answered
// otherwise.
func TestTheNewestIsKnown(t *testing.T) {
	plain, _ := populated(t)
	relay, _ := populated(t, shared)
	calls := [][2]string{
		{"eth_blockNumber", `[]`},
		{"eth_gasPrice", `[]`},
		{"eth_getBlockByNumber", `["latest",false]`},
		{"eth_getBlockByNumber", `["latest",true]`},
		{"eth_getBlockByNumber", `["pending",true]`},
		{"eth_getBlockByNumber", `["0x11",true]`},
		{"eth_getBlockByHash", `["` + blockHash + `",false]`},
	}
	for _, c := range calls {
		want := plain.call(c[0], c[1]).String()
		if first := relay.call(c[0], c[1]).String(); first != want {
			t.Errorf("%s%s\n got %s\nwant %s", c[0], c[1], first, want)
		}
	}
	relay.node.requests()
	for _, c := range calls {
		if again, want := relay.call(c[0], c[1]).String(), plain.call(c[0], c[1]).String(); again != want {
			t.Errorf("the second time: %s%s\n got %s\nwant %s", c[0], c[1], again, want)
		}
	}
	if asked := relay.node.requests(); len(asked) > 0 {
		t.Errorf("the mirror node was asked for %v", asked)
	}
	if _, ok := relay.api.recent.get(common.HexToHash(blockHash), true); !ok {
		t.Error("the block is not kept")
	}
	if _, ok := plain.api.recent.get(common.HexToHash(blockHash), true); ok {
		t.Error("a block is kept of which nobody knows whether it is new")
	}
}

// A block whose logs are still missing is shown as it is and not kept.
func TestAnIncompleteBlockIsNotKept(t *testing.T) {
	relay, _ := populated(t, shared)
	complete := relay.node.answers["contracts/results/logs?"+window+"&limit=100&order=desc"].body
	bloomed := blockJSON(17)
	bloomed["logs_bloom"] = "0x" + strings.Repeat("01", 256)
	relay.node.set("blocks?limit=1&order=desc", listOf("blocks", bloomed))
	relay.node.set("contracts/results/logs?"+window+"&limit=100&order=desc", logList())
	before := relay.call("eth_getBlockByNumber", `["latest",true]`).String()
	relay.node.set("contracts/results/logs?"+window+"&limit=100&order=desc", complete)
	if after := relay.call("eth_getBlockByNumber", `["latest",true]`).String(); after == before {
		t.Errorf("the logs made no difference: %s", after)
	}
}

// A block without gas can have results all the same: that the mirror node has no list of
// them, or none of logs, is not that it has an empty one. What is missing comes later.
func TestABlockWithoutItsListsIsNotKept(t *testing.T) {
	gasless := blockJSON(17)
	gasless["gas_used"], gasless["logs_bloom"] = 0, "0x"
	for _, list := range []string{"contracts/results?" + window + "&limit=100&order=asc&hbar=false", "contracts/results/logs?" + window + "&limit=100&order=desc"} {
		for method, params := range map[string]string{"eth_getBlockByNumber": `["latest",true]`, "eth_getBlockReceipts": `["latest"]`} {
			relay, _ := populated(t, shared)
			complete, known := relay.node.answers[list]
			if !known {
				t.Fatal(list)
			}
			relay.node.set("blocks?limit=1&order=desc", listOf("blocks", gasless))
			relay.node.fail(list, http.StatusNotFound, `{"_status":{"messages":[{"message":"Not found"}]}}`)
			before := relay.call(method, params)
			relay.node.set(list, complete.body)
			after := relay.call(method, params)
			if before.Error != nil || after.Error != nil || before.String() == after.String() {
				t.Errorf("%s without %s: the list made no difference: %s", method, list, after)
			}
		}
	}
}

func TestRecentBlocksAreBounded(t *testing.T) {
	var r recentBlocks
	for i := range 100 {
		r.put(common.HexToHash(fmt.Sprint(i)), i%2 == 0, json.RawMessage(fmt.Sprint(i)))
	}
	r.put(common.HexToHash("ff"), true, make(json.RawMessage, recentBytes+1))
	found := 0
	for i := range 100 {
		if answer, ok := r.get(common.HexToHash(fmt.Sprint(i)), i%2 == 0); ok {
			found++
			if string(answer.(json.RawMessage)) != fmt.Sprint(i) || i < 100-recentCount {
				t.Errorf("%d: %s", i, answer)
			}
		}
		if _, ok := r.get(common.HexToHash(fmt.Sprint(i)), i%2 != 0); ok {
			t.Errorf("%d in the other form", i)
		}
	}
	if _, ok := r.get(common.HexToHash("ff"), true); ok || found != recentCount {
		t.Errorf("%d are kept, a large one among them: %t", found, ok)
	}
}
