package nodes

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/devnet"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// Nodes that send their clients away all the time, before calls and in the middle of them, lose
// nothing, get nothing twice and keep the order.
func TestGoAway(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			const size = 60
			var calls, sentAway atomic.Int64
			n := harness.Network(t, devnet.Config{Nodes: nodes, ConsensusLatency: time.Millisecond, Fault: func(c node.Call) node.Fault {
				if calls.Add(1)%4 != 0 {
					return node.Fault{}
				}
				sentAway.Add(1)
				return node.Fault{GoAway: true, Delay: 5 * time.Millisecond} // the call is answered after the goodbye
			}})
			r := startRelay(t, n)
			w := newWallet(t, n, 0)
			var batch []rpc.BatchElem
			for range size {
				batch = append(batch, rpc.BatchElem{
					Method: "eth_sendRawTransaction", Args: []any{hexutil.Encode(w.sign(&common.Address{9}, nil))}, Result: new(common.Hash),
				})
			}
			must.Do(t, r.BatchCallContext(t.Context(), batch))
			for i, call := range batch {
				if call.Error != nil {
					t.Errorf("nonce %d: %v", i, call.Error)
				}
			}
			if sentAway.Load() < size/4 {
				t.Errorf("clients were sent away %d times", sentAway.Load())
			}
			seen := records(n, history.KindEthereum)
			if len(seen) != size {
				t.Errorf("%d transactions reached consensus, want %d", len(seen), size)
			}
			for i, entry := range n.Ledger().Handled().ConsensusLog(0, 2*size) {
				if entry.Nonce != uint64(i) {
					t.Fatalf("nonce %d came as number %d", entry.Nonce, i)
				}
			}
			ids := map[hedera.TransactionID]bool{}
			for _, rec := range seen {
				if ids[rec.ID] || !hedera.Succeeded(rec.Status) {
					t.Errorf("transaction %s: %s", rec.ID, rec.Status)
				}
				ids[rec.ID] = true
			}
		})
	}
}
