package nodes

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// payers returns who paid for each Ethereum transaction, in order of consensus.
func payers(n *devnet.Network) (ids []string) {
	for _, r := range records(n, history.KindEthereum) {
		ids = append(ids, r.ID.Payer.String())
	}
	return ids
}

// account returns a funded account of a kind of key, other than the usual operator.
func account(t *testing.T, n *devnet.Network, kind string) devnet.Account {
	t.Helper()
	for _, a := range n.Accounts() {
		if a.KeyType == kind && a.ID != devnet.OperatorID() {
			return a
		}
	}
	t.Fatalf("no account with a key of type %s", kind)
	return devnet.Account{}
}

// Several operators share the transactions, in turn or by sender; each pays with its own
// key, also for files.
func TestSeveralOperators(t *testing.T) {
	t.Parallel()
	for _, choice := range []string{"rotate", "sender"} {
		t.Run(choice, func(t *testing.T) {
			n := harness.Network(t, devnet.Config{})
			ecdsa, ed25519 := account(t, n, "ECDSA_SECP256K1"), account(t, n, "ED25519")
			more := must.Get(json.Marshal([][]string{{ecdsa.ID, "HEX_ECDSA", ecdsa.PrivateKey}, {ed25519.ID, "HEX_ED25519", ed25519.PrivateKey}}))(t)
			r := startRelay(t, n, "OPERATOR_ACCOUNTS="+string(more), "OPERATOR_CHOICE="+choice, inFiles)
			bySender := map[common.Address]map[string]bool{}
			for i := range 9 {
				w := newWallet(t, n, i)
				bySender[w.address()] = map[string]bool{}
				for j := range 3 {
					data := []byte{byte(j)}
					if i < 3 && j == 0 {
						data = make([]byte, 5200) // goes into a file
					}
					must.Get(r.send(t.Context(), w.sign(&common.Address{9}, data)))(t)
					paid := payers(n)
					bySender[w.address()][paid[len(paid)-1]] = true
				}
			}
			r.stop()
			count := map[string]int{}
			for _, id := range payers(n) {
				count[id]++
			}
			if len(count) != 3 {
				t.Errorf("paid by %v", count)
			}
			for sender, ids := range bySender {
				if choice == "sender" && len(ids) != 1 {
					t.Errorf("sender %s was paid for by %v", sender, ids)
				}
			}
			if choice == "rotate" && (count[ecdsa.ID] < 6 || count[ed25519.ID] < 6) {
				t.Errorf("not shared evenly: %v", count)
			}
			if left := files(n); len(left) != 0 {
				t.Errorf("%d files are left", len(left))
			}
		})
	}
}

// Who is subsidised sends at any gas price; who is not is told the minimum. The payer
// is the paymaster with its own key, and the gas comes from its balance.
func TestPaymasters(t *testing.T) {
	n := harness.Network(t, devnet.Config{})
	own := account(t, n, "ED25519")
	free, dear, byAccount := common.Address{0xf1}, common.Address{0xd0}, common.Address{0xac}
	accounts := fmt.Sprintf(`[["%s","HEX_ED25519","%s","25"]]`, own.ID, own.PrivateKey)
	lists := fmt.Sprintf(`[["%s",["%s","%s"]],["0.0.999999",["0x00000000000000000000000000000000000000dd"]]]`, own.ID, byAccount.Hex(), free.Hex())
	defaults := []string{"PAYMASTER_ENABLED=true", "MAX_GAS_ALLOWANCE_HBAR=50"}
	for i, test := range []struct {
		name     string
		settings []string
		to       *common.Address
		payer    string // empty: refused
	}{
		{"off", []string{"MAX_GAS_ALLOWANCE_HBAR=50", `PAYMASTER_WHITELIST=["*"]`}, &free, ""},
		{"not listed", append(defaults, `PAYMASTER_WHITELIST=["`+free.Hex()+`"]`), &dear, ""},
		{"everybody, creation", append(defaults, `PAYMASTER_WHITELIST=["*"]`), nil, devnet.OperatorID()},
		{"by an account", []string{"PAYMASTER_ACCOUNTS=" + accounts, "PAYMASTER_ACCOUNTS_WHITELISTS=" + lists}, &byAccount, own.ID},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := startRelay(t, n, test.settings...)
			w := newWallet(t, n, i)
			before, _ := n.Ledger().Handled().AccountByAddress(w.address())
			var data []byte
			if test.to == nil {
				data = initCode(10)
			}
			_, err := r.send(t.Context(), w.offer(new(big.Int), test.to, data))
			if test.payer == "" {
				if code(err) != -32009 || !strings.Contains(err.Error(), "Gas price '0' is below configured minimum gas price") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			seen := records(n, history.KindEthereum)
			last := seen[len(seen)-1]
			if last.ID.Payer.String() != test.payer || !hedera.Succeeded(last.Status) {
				t.Errorf("paid by %s: %s, want %s", last.ID.Payer, last.Status, test.payer)
			}
			if after, _ := n.Ledger().Handled().AccountByAddress(w.address()); after.Balance != before.Balance {
				t.Errorf("the sender paid %d tinybars", before.Balance-after.Balance)
			}
		})
	}
	t.Run("allowance too small", func(t *testing.T) {
		r := startRelay(t, n, "PAYMASTER_ENABLED=true", "PAYMASTER_WHITELIST=*")
		// It is in a block, as a transaction that failed: so the answer is its hash.
		if _, err := r.send(t.Context(), newWallet(t, n, 9).offer(new(big.Int), &free, nil)); err != nil {
			t.Errorf("an allowance of 0: %v", err)
		}
	})
}

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
