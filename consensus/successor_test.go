package consensus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"go.uber.org/goleak"

	"lockstep/consensus"
	"lockstep/devnet"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/node"
	"lockstep/e2e/harness"
	"lockstep/internal/envx"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/secret"
)

// patience is for a machine that stands still at times; what passes, passes at once.
const patience = 2 * time.Minute

// TestMain fails when a test leaves a goroutine behind: Close and Run end all they began.
func TestMain(m *testing.M) {
	consensus.ConnectPatiently()
	code := m.Run()
	leak := goleak.Find()
	for end := time.Now().Add(patience); leak != nil && time.Now().Before(end); leak = goleak.Find() { // machines are slow
	}
	if code == 0 && leak != nil {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

// offer has a client that knows nothing but the envelope offer it, and says how that ended. hold keeps the bytes back.
func offer(t *testing.T, network string, e consensus.Submission, hold bool) string {
	t.Helper()
	client, err := newClient(network)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	left := false
	e.BeforeSend = func() error {
		if left = true; hold {
			return errors.New("held back")
		}
		return nil
	}
	var unsent *consensus.NotSentError
	_, err = client.Offer(t.Context(), e)
	for end := time.Now().Add(patience); errors.As(err, &unsent) && !left && time.Now().Before(end); {
		_, err = client.Offer(t.Context(), e) // no connection on a slow machine
	}
	var duplicate *consensus.DuplicateError
	var sent *consensus.SentError
	switch {
	case err == nil:
		return "accepted"
	case errors.As(err, &duplicate):
		return "duplicate"
	case errors.As(err, &sent):
		return "unclear"
	case errors.As(err, &unsent) && left:
		return "not sent"
	}
	t.Fatal(err)
	return ""
}

func newClient(network string) (*consensus.Client, error) {
	client, err := consensus.New(consensus.Config{
		Network: network, OperatorID: devnet.OperatorID(), OperatorKey: secret.String(devnet.OperatorKey()), OperatorKeyFormat: "HEX_ECDSA",
		AttemptTimeout: envx.Millis(patience), RequestTimeout: envx.Millis(patience), MaxAttempts: 10,
	}, slog.New(slog.DiscardHandler))
	if err == nil {
		client.BePatient()
	}
	return client, err
}

// network is a devnet of two nodes. fault spoils the calls that carry transactions.
func network(t *testing.T, latency time.Duration, fault func(nth int) node.Fault) (*devnet.Network, string) {
	t.Helper()
	var calls atomic.Int64
	n := harness.Network(t, devnet.Config{
		Nodes: 2, ConsensusLatency: latency, Jitter: 1, Log: slog.New(slog.DiscardHandler),
		Fault: func(c node.Call) node.Fault {
			if c.Submission == nil {
				return node.Fault{}
			}
			return fault(int(calls.Add(1)))
		},
	})
	nodes := must.Get(json.Marshal(n.Nodes()))(t)
	return n, string(nodes)
}

// A client is gone when the bytes of its transaction may have left. Its successor offers the same bytes under the same id, which it finds
// written down, and the network executes them once. (e2e/txm TestCrashMatrix kills whole processes.)
func TestSuccessorOffersTheSame(t *testing.T) {
	first := func(f node.Fault) func(int) node.Fault {
		return func(nth int) node.Fault {
			if nth == 1 {
				return f
			}
			return node.Fault{}
		}
	}
	const slow = 2 * time.Second // from acceptance to consensus
	success, twice := hapi.ResponseCodeEnum_SUCCESS, hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION
	for _, test := range []struct {
		name      string
		fault     node.Fault
		hold      bool // gone before the bytes leave
		latency   time.Duration
		otherNode bool     // whom the successor asks …
		known     bool     // … once the transaction has reached consensus
		want      []string // what the two hear
		statuses  []hedera.Status
	}{
		{name: "taken", fault: node.Fault{DropAfter: true}, want: []string{"unclear", "duplicate"}, statuses: []hedera.Status{success}},
		{name: "not taken", fault: node.Fault{DropBefore: true}, want: []string{"unclear", "accepted"}, statuses: []hedera.Status{success}},
		{name: "not sent", hold: true, want: []string{"not sent", "accepted"}, statuses: []hedera.Status{success}},
		{name: "taken, on its way to consensus", fault: node.Fault{DropAfter: true}, latency: slow, want: []string{"unclear", "duplicate"}, statuses: []hedera.Status{success}},
		{name: "taken, then the other node", fault: node.Fault{DropAfter: true}, otherNode: true, known: true, want: []string{"unclear", "duplicate"}, statuses: []hedera.Status{success}},
		{
			name: "on its way to consensus from both nodes", fault: node.Fault{DropAfter: true}, latency: slow, otherNode: true,
			want: []string{"unclear", "accepted"}, statuses: []hedera.Status{success, twice},
		},
		{name: "vanished, then the other node", fault: node.Fault{Vanish: true, DropAfter: true}, otherNode: true, want: []string{"unclear", "accepted"}, statuses: []hedera.Status{success}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			try := func(latency time.Duration) (inTime bool) {
				begun := time.Now()
				n, nodes := network(t, latency, first(test.fault))
				client := must.Get(newClient(nodes))(t)
				defer client.Close()
				raw, sender := transfer(t, n)
				id := must.Get(client.NewID(sender))(t)
				at := client.NodesFor(sender)
				e := consensus.Submission{Ethereum: raw, MaxFee: 10 * hedera.Hbar, ID: id, Node: at[0]}
				if got := offer(t, nodes, e, test.hold); got != test.want[0] {
					t.Errorf("the first client hears %q, want %q", got, test.want[0])
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if test.known {
					must.Get(client.Pending(id, at[0]).Receipt(ctx))(t)
				}
				if test.otherNode {
					e.Node = at[1]
				}
				got := offer(t, nodes, e, false)
				if latency > 0 && time.Since(begun) > latency {
					return false // it was not on its way any more
				}
				if got != test.want[1] {
					t.Errorf("the successor hears %q, want %q", got, test.want[1])
				}
				if receipt, err := client.Pending(id, e.Node).Receipt(ctx); err != nil || receipt.Status != success {
					t.Errorf("receipt %+v, %v", receipt, err)
				}
				checkExecutedOnce(t, n, id, crypto.Keccak256Hash(raw), sender, test.statuses)
				return true
			}
			for latency := test.latency; !try(latency); latency *= 2 {
				if latency > patience {
					t.Fatal("the machine is too slow")
				}
			}
		})
	}
}

// checkExecutedOnce waits until the ledger has all copies and compares what became of them.
func checkExecutedOnce(t *testing.T, n *devnet.Network, id hedera.TransactionID, hash common.Hash, sender common.Address, want []hedera.Status) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	records := n.Ledger().Handled().RecordsByID(id)
	for end := time.Now().Add(patience); len(records) < len(want) && time.Now().Before(end); <-tick.C {
		records = n.Ledger().Handled().RecordsByID(id)
	}
	var got []string
	for _, r := range records {
		if r.Kind == history.KindEthereum {
			got = append(got, r.Status.String())
		}
	}
	var wanted []string
	for _, status := range want {
		wanted = append(wanted, status.String())
	}
	if strings.Join(got, " ") != strings.Join(wanted, " ") {
		t.Errorf("the consensus log has %v under the id, want %v", got, wanted)
	}
	if executed := n.Ledger().Handled().RecordsByEthereumHash(hash); len(executed) != 1 {
		t.Errorf("the transaction was executed %d times", len(executed))
	}
	if account, ok := n.Ledger().Handled().AccountByAddress(sender); !ok || account.Nonce != 1 {
		t.Errorf("the sender's nonce is %d", account.Nonce)
	}
}

// transfer signs a transfer of one tinybar from a development account.
func transfer(t *testing.T, n *devnet.Network) (raw []byte, sender common.Address) {
	t.Helper()
	account := n.Accounts()[1]
	key, err := crypto.HexToECDSA(strings.TrimPrefix(account.PrivateKey, "0x"))
	if err != nil {
		t.Fatal(err)
	}
	chainID, to := big.NewInt(298), common.HexToAddress(n.Accounts()[2].Address)
	raw = must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Gas: 100_000, GasFeeCap: big.NewInt(2_000_000_000_000), To: &to, Value: big.NewInt(1e10),
	}).MarshalBinary())(t)
	return raw, crypto.PubkeyToAddress(key.PublicKey)
}

// A node tells an account's nonce by its address, for a payment; an address that nobody has is ErrNoAccount.
func TestNonceAt(t *testing.T) {
	n, nodes := network(t, 0, func(int) node.Fault { return node.Fault{} })
	client := must.Get(newClient(nodes))(t)
	defer client.Close()
	raw, sender := transfer(t, n)
	at := client.NodesFor(sender)[0]
	if nonce, err := client.NonceAt(t.Context(), sender, at); err != nil || nonce != 0 {
		t.Fatalf("NonceAt = %d, %v", nonce, err)
	}
	pending := must.Get(client.Submit(t.Context(), consensus.Submission{Ethereum: raw, Sender: sender, MaxFee: 10 * hedera.Hbar}))(t)
	must.Get(pending.Receipt(t.Context()))(t)
	number := must.Get(hedera.ParseID(n.Accounts()[1].ID))(t)
	for _, address := range []common.Address{sender, number.LongZero()} {
		if nonce, err := client.NonceAt(t.Context(), address, at); err != nil || nonce != 1 {
			t.Errorf("NonceAt(%s) = %d, %v", address, nonce, err)
		}
	}
	if _, err := client.NonceAt(t.Context(), common.HexToAddress("0xdead00000000000000000000000000000000dead"), at); !errors.Is(err, consensus.ErrNoAccount) {
		t.Errorf("an address that nobody has: %v", err)
	}
	if _, err := client.NonceAt(t.Context(), sender, hedera.Entity(99)); err == nil {
		t.Error("a node that is not there answers")
	}
	// The balance alone is told for nothing.
	operator, _ := client.Operator()
	paid, err := client.BalanceAt(t.Context(), operator, at)
	if err != nil || paid <= 0 {
		t.Fatalf("the operator's balance: %d, %v", paid, err)
	}
	if now, err := client.BalanceAt(t.Context(), operator, at); err != nil || now != paid {
		t.Errorf("the operator's balance was %d, is %d, %v", paid, now, err)
	}
	if _, err := client.BalanceAt(t.Context(), hedera.Entity(424242), at); !errors.Is(err, consensus.ErrNoAccount) {
		t.Errorf("the balance of an account that is not there: %v", err)
	}
	if _, err := client.BalanceAt(t.Context(), operator, hedera.Entity(99)); err == nil {
		t.Error("a node that is not there tells a balance")
	}
}
