package nodes

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet"
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/proctest"
)

// A relay that knows its network by name learns from the mirror node which nodes there are
// and what certificates they have, and goes by that: a node that shows another certificate
// gets nothing, and the log says why.
func TestPinsFromTheAddressBook(t *testing.T) {
	for name, wrong := range map[string][]string{"right": nil, "one is wrong": {"0.0.3"}, "all are wrong": {"0.0.3", "0.0.4"}} {
		t.Run(name, func(t *testing.T) {
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
			for i, entry := range entries {
				if len(entry.CertHash) != 96 {
					t.Fatalf("node %s has the certificate hash %q", entry.Account, entry.CertHash)
				}
				if slices.Contains(wrong, entry.Account.String()) {
					entries[i].CertHash = strings.Repeat("5a", 48)
				}
			}
			n.Ledger().SetNodes(entries)

			// The built-in list of testnet is replaced before anything is sent; until then the
			// relay connects to nobody.
			var log proctest.Tail
			settings := []string{"HEDERA_NETWORK=testnet", "CLIENT_TRANSPORT_SECURITY=true"}
			if len(wrong) == 2 {
				settings = append(settings, "SDK_REQUEST_TIMEOUT=5s")
			}
			r := startLogging(t, n, &log, slog.LevelInfo, settings...)
			eventually(t, "the address book is read", func() bool { return log.Has("the list of consensus nodes has changed") })
			senders := 6 // some of which would go to either node
			if len(wrong) == 2 {
				senders = 1 // which is offered to both
			}
			for i := range senders {
				_, err := r.send(t.Context(), newWallet(t, n, i).sign(&common.Address{9}, nil))
				if len(wrong) < 2 && err != nil {
					t.Error(err)
				}
				if len(wrong) == 2 && (err == nil || !strings.Contains(err.Error(), "Nothing was submitted")) {
					t.Errorf("without a node to trust: %v", err)
				}
			}
			mistrusts := func(account string) bool {
				return log.Has("is not trusted and nothing is sent to it\" node=" + account)
			}
			for i, account := range wrong {
				eventually(t, "the log names node "+account, func() bool {
					if len(wrong) == 2 && !mistrusts(account) { // the time was up before the relay got to this node
						_, _ = r.send(t.Context(), newWallet(t, n, i).sign(&common.Address{9}, nil))
					}
					return mistrusts(account)
				})
			}
			mu.Lock()
			defer mu.Unlock()
			if got := offered[0] + offered[1]; len(wrong) < 2 && got != senders || len(wrong) == 2 && got != 0 {
				t.Errorf("%d transactions reached nodes", got)
			}
			for i, entry := range entries {
				mistrusted := slices.Contains(wrong, entry.Account.String())
				if mistrusted && offered[i] > 0 {
					t.Errorf("%d transactions reached node %s, which shows another certificate", offered[i], entry.Account)
				}
				if said := mistrusts(entry.Account.String()); said != mistrusted {
					t.Errorf("node %s is called untrustworthy: %v", entry.Account, said)
				}
			}
		})
	}
}
