package nodes

import (
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet"
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// A relay that knows its network by name learns from the mirror node which nodes there are
// and what certificates they have, and goes by that: a node that shows another certificate
// gets nothing, and the log says why.
func TestPinsFromTheAddressBook(t *testing.T) {
	var mu sync.Mutex
	offered := map[int]int{}
	n := harness.Network(t, devnet.Config{TLS: true, Nodes: 2, Fault: func(c node.Call) node.Fault {
		if c.Submission != nil {
			mu.Lock()
			defer mu.Unlock()
			offered[c.Node]++
		}
		return node.Fault{}
	}})
	entries := n.Ledger().Handled().Nodes()
	if len(entries[0].CertHash) != 96 {
		t.Fatalf("node %s has the certificate hash %q", entries[0].Account, entries[0].CertHash)
	}
	entries[0].CertHash = strings.Repeat("5a", 48)
	n.Ledger().SetNodes(entries)

	// The built-in list of testnet is replaced before anything is sent; until then the
	// relay connects to nobody.
	var log proctest.Tail
	r := startLogging(t, n, &log, slog.LevelInfo, "HEDERA_NETWORK=testnet", "CLIENT_TRANSPORT_SECURITY=true")
	eventually(t, "the address book is read", func() bool { return log.Has("the list of consensus nodes has changed") })
	const senders = 6 // some of which would go to either node
	for i := range senders {
		must.Get(r.send(t.Context(), newWallet(t, n, i).sign(&common.Address{9}, nil)))(t)
	}
	mistrusts := func(account string) bool {
		return log.Has("is not trusted and nothing is sent to it\" node=" + account)
	}
	eventually(t, "the log names the node", func() bool { return mistrusts(entries[0].Account.String()) })
	mu.Lock()
	defer mu.Unlock()
	if offered[0] != 0 || offered[1] != senders || mistrusts(entries[1].Account.String()) {
		t.Errorf("%v transactions reached the nodes; the one that shows its certificate is mistrusted: %v", offered, mistrusts(entries[1].Account.String()))
	}
}
