package nodes

import (
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet"
	"lockstep/devnet/ledger"
	"lockstep/devnet/node"
	"lockstep/internal/hedera"
)

// A node takes a transaction, the answer is lost, and from then on no receipt query is
// answered: the mirror node tells what became of it, and it is not sent again.
func TestMirrorNodeSettlesTheUnclear(t *testing.T) {
	var offers atomic.Int64
	n := startNetwork(t, devnet.Config{Fault: func(c node.Call) node.Fault {
		if c.Submission != nil {
			offers.Add(1)
			return node.Fault{DropAfter: true}
		}
		return node.Fault{DropBefore: true}
	}})
	r := startRelay(t, n, "SDK_MAX_ATTEMPTS=1")
	w := newWallet(t, n, 0)
	raw := w.sign(&common.Address{9}, nil)
	if hash, err := r.send(t.Context(), raw); err != nil || hash == (common.Hash{}) {
		t.Errorf("executed and told %s, %v", hash, err)
	}
	seen := records(n, ledger.KindEthereum)
	if len(seen) != 1 || !hedera.Succeeded(seen[0].Status) || offers.Load() != 1 {
		t.Errorf("%d records, %d offers", len(seen), offers.Load())
	}
}
