package ethapi

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// A contract that leaves a hundred logs, the numbers from 100 down to 1.
const hundredLogs = "6064" + "5b" + "80600052" + "60206000a0" + "6001900380" + "600257" + "00"

// More than ten thousand logs come whole, once and in order, over more than a hundred
// pages of the mirror node; where they are more than may be read, the error says so.
func TestManyLogs(t *testing.T) {
	n := newNetwork(t, 0)
	loud := n.receipt(n.dynamic(0, nil, 0, 500_000, initCode(hundredLogs))).ContractAddress
	const calls = 102
	var last *types.Transaction
	for i := range uint64(calls) {
		last = n.dynamic(i+1, &loud, 0, 500_000, nil)
	}
	n.receipt(last)
	for name, filter := range map[string]string{
		"any address":                           `{"fromBlock":"earliest"}`,
		"one address":                           fmt.Sprintf(`{"fromBlock":"earliest","address":"%s"}`, loud),
		"two addresses, of which one is silent": fmt.Sprintf(`{"fromBlock":"earliest","address":["%s","%s"]}`, loud, n.sender),
	} {
		var logs []types.Log
		unmarshal(t, n.call("eth_getLogs", `[`+filter+`]`), &logs)
		if len(logs) != 100*calls {
			t.Errorf("%s: %d logs, want %d", name, len(logs), 100*calls)
			continue
		}
		for i, l := range logs {
			ordered := i == 0 || l.BlockNumber > logs[i-1].BlockNumber || l.BlockNumber == logs[i-1].BlockNumber && l.Index == logs[i-1].Index+1
			if want := 100 - i%100; !ordered || int(l.Index) != i%100 || common.BytesToHash(l.Data).Big().Int64() != int64(want) {
				t.Fatalf("%s: log %d is %+v", name, i, l)
			}
		}
	}
	n.relay = newRelay(t, n.node, func(s *settings) { s.Mirror.MaxLogPages = 100 })
	n.expect([3]string{"eth_getLogs", `[{"fromBlock":"earliest"}]`, "-32011 Exceeded maximum mirror node pagination count: 100"})
	n.relay = newRelay(t, n.node, func(s *settings) { s.API.LogsBlockRange = 100 })
	n.expect([3]string{"eth_getLogs", `[{"fromBlock":"earliest"}]`, "-32000 Exceeded maximum block range: 100"})
}
