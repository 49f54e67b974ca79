package app_test

import (
	"encoding/json"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/devnet"
	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/internal/hapi"
	"lockstep/internal/redistest"
)

// lagging is a mirror node that shows what happened a while ago.
func lagging(c *devnet.Config) { c.MirrorLag = 1500 * time.Millisecond }

// Whoever asks right after sending, through this relay or another of the fleet, is told
// of the transaction although the mirror node does not show it yet; and nonces do not
// go back (P7), with ordering on or off.
func TestReadYourWrites(t *testing.T) {
	w := newWorld(t, lagging)
	redis := "REDIS_URL=" + redistest.Start(t).URL()
	for name, settings := range map[string][]string{
		"alone":   {},
		"ordered": {"ENABLE_NONCE_ORDERING=true"},
		"fleet":   {"REDIS_ENABLED=true", redis},
	} {
		t.Run(name, func(t *testing.T) {
			settings = append(settings, "READ_YOUR_WRITES_WAIT_MS=60000")
			told := w.relay(t, settings...)
			asked := told
			if name == "fleet" {
				asked = w.relay(t, settings...)
			}
			sender := w.account(t)
			var last common.Hash
			for nonce := range uint64(3) {
				tx := sender.sign(sender.pay(nonce))
				if got := told.send(tx); got.Error != nil {
					t.Fatal(got)
				}
				last = tx.Hash()
				asked.until("the nonces", func() bool {
					return asked.count(sender, "latest") == nonce+1 && asked.count(sender, "pending") == nonce+1
				})
			}
			var receipt types.Receipt
			if got := asked.call("eth_getTransactionReceipt", last); json.Unmarshal(got.Result, &receipt) != nil || receipt.TxHash != last {
				t.Errorf("receipt: %s", got)
			}
			if got := asked.call("eth_getTransactionByHash", last); !strings.Contains(string(got.Result), `"blockNumber":"0x`) {
				t.Errorf("transaction: %s", got)
			}
			if got := asked.count(sender, "latest"); got != 3 {
				t.Errorf("nonce %d after the receipt", got)
			}
		})
	}
}

// The wait is bounded, can be off, and is for what this fleet sent.
func TestReadYourWritesIsBounded(t *testing.T) {
	w := newWorld(t)
	w.spoilMirror(t, func(r *http.Request) mirrorrest.Fault {
		if strings.Contains(r.URL.Path, "/contracts/results") {
			return mirrorrest.Fault{Status: 404}
		}
		return mirrorrest.Fault{}
	})
	for name, setting := range map[string]string{"off": "READ_YOUR_WRITES_WAIT_MS=0", "short": "READ_YOUR_WRITES_WAIT_MS=300", "no pool": "ENABLE_TX_POOL=false"} {
		t.Run(name, func(t *testing.T) {
			r, sender := w.relay(t, setting), w.account(t)
			tx := sender.sign(sender.pay(0))
			if got := r.send(tx); got.Error != nil {
				t.Fatal(got)
			}
			for _, hash := range []common.Hash{tx.Hash(), {9}} {
				for _, method := range []string{"eth_getTransactionReceipt", "eth_getTransactionByHash"} {
					if got := r.call(method, hash); got.String() != "null" {
						t.Errorf("%s: %s", method, got)
					}
				}
			}
		})
	}
}

// While a transaction is on its way, clients of Ethereum see it in no block; those of
// Hedera, as with established relays, do not see it. Both see it in the pending nonce.
func TestPendingTransaction(t *testing.T) {
	w := newWorld(t)
	ethereum := w.relay(t, "RELAY_PROFILE=ethereum", "SEND_RAW_TRANSACTION_RETURNS=accepted", "TXPOOL_API_ENABLED=true", "READ_YOUR_WRITES_WAIT_MS=50")
	hiero := w.relay(t, "SEND_RAW_TRANSACTION_RETURNS=accepted", "TXPOOL_API_ENABLED=true", "READ_YOUR_WRITES_WAIT_MS=50")
	w.spoilNode(t, node.Fault{Vanish: true}) // accepted, and no verdict comes for long
	for name, r := range map[string]*relay{"ethereum": ethereum, "hiero": hiero} {
		t.Run(name, func(t *testing.T) {
			sender := w.account(t)
			tx := sender.sign(sender.pay(0))
			if got := r.send(tx); got.Error != nil {
				t.Fatal(got)
			}
			var shown map[string]any
			got := r.call("eth_getTransactionByHash", tx.Hash())
			_ = json.Unmarshal(got.Result, &shown)
			if name == "hiero" && shown != nil || name == "ethereum" && (shown["hash"] != tx.Hash().Hex() || shown["blockHash"] != nil || shown["blockNumber"] != nil) {
				t.Errorf("eth_getTransactionByHash: %s", got)
			}
			if latest, pending := r.count(sender, "latest"), r.count(sender, "pending"); latest != 0 || pending != 1 {
				t.Errorf("latest %d, pending %d", latest, pending)
			}
			if got := r.call("txpool_contentFrom", sender.address); !strings.Contains(string(got.Result), tx.Hash().Hex()) {
				t.Errorf("txpool_contentFrom: %s", got)
			}
			if got := r.call("txpool_status"); got.String() != `{"pending":"0x1","queued":"0x0"}` {
				t.Errorf("txpool_status: %s", got)
			}
		})
	}
}

// The record of a transaction tells every step, in the words of established relays, and
// receipts of rejected ones say why there is none.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.relay(t, "TX_STATUS_TRACING=true", "READ_YOUR_WRITES_WAIT_MS=200", "ENABLE_NONCE_ORDERING=true")
	t.Run("executed", func(t *testing.T) {
		sender := w.account(t)
		tx := sender.sign(sender.pay(0))
		if got := r.send(tx); got.Error != nil {
			t.Fatal(got)
		}
		if got := r.record(tx.Hash()); got.Status != "sent" || got.HederaStatus != "SUCCESS" || got.TransactionID == "" {
			t.Errorf("%+v", got)
		}
		if got := r.call("eth_getTransactionReceipt", tx.Hash()); got.String() == "null" {
			t.Error("no receipt")
		}
		got := r.record(tx.Hash())
		if want := []string{"received", "queued", "submitted", "accepted", "consensus", "mirror"}; got.Status != "validated" || !slices.Equal(got.steps(), want) {
			t.Errorf("%+v, want the steps %v", got, want)
		}
		// Sent again it is refused, and that says nothing of the first time.
		if again := r.send(tx); again.Error == nil {
			t.Errorf("sent twice: %s", again)
		}
		if got := r.record(tx.Hash()); got.Status != "validated" {
			t.Errorf("after it was sent again: %+v", got)
		}
	})
	t.Run("never sent", func(t *testing.T) {
		sender := w.account(t)
		data := sender.pay(0)
		data.Value = new(big.Int).Lsh(big.NewInt(1e10), 60)
		tx := sender.sign(data)
		const want = "Insufficient funds for transfer"
		if got := r.send(tx); got.Error == nil || got.Error.Message != want {
			t.Fatal(got)
		}
		if got := r.record(tx.Hash()); got.Status != "rejected" || got.Error != want || got.TransactionID != "" {
			t.Errorf("%+v", got)
		}
		refused(t, r.call("eth_getTransactionReceipt", tx.Hash()), tx, "Transaction rejected: "+want, map[string]any{"detail": want})
	})
	t.Run("unheard of", func(t *testing.T) {
		for _, method := range []string{"admin_getTransactionTraceByHash", "eth_getTransactionReceipt"} {
			if got := r.call(method, common.Hash{7}); got.String() != "null" {
				t.Errorf("%s: %s", method, got)
			}
		}
	})
}

// refused checks the error that a receipt's place is taken by.
func refused(t *testing.T, got answer, tx *types.Transaction, message string, data map[string]any) {
	t.Helper()
	var said map[string]any
	if got.Error == nil || got.Error.Code != -32003 || got.Error.Message != message || json.Unmarshal(got.Error.Data, &said) != nil {
		t.Errorf("%s, want -32003 %s", got, message)
		return
	}
	if said["txHash"] != tx.Hash().Hex() || said["detail"] == "" {
		t.Errorf("data %s", got.Error.Data)
	}
	for name, want := range data {
		if said[name] != want {
			t.Errorf("%s = %v, want %v", name, said[name], want)
		}
	}
}

// The record is offered when it is kept and the namespace is not hidden; what a receipt
// says of rejected transactions does not depend on the namespace.
func TestLifecycleGates(t *testing.T) {
	w := newWorld(t)
	for name, settings := range map[string][]string{
		"off":    nil,
		"hidden": {"TX_STATUS_TRACING=true", "DISABLE_ADMIN_NAMESPACE=true"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.relay(t, settings...)
			if got := r.call("admin_getTransactionTraceByHash", common.Hash{1}); got.Error == nil || got.Error.Code != -32601 || got.Error.Message != "Unsupported JSON-RPC method" {
				t.Errorf("%s", got)
			}
			// The mirror node's record of a refused one says so by itself.
			w.spoilNode(t, node.Fault{Outcome: hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED})
			sender := w.account(t)
			tx := sender.sign(sender.pay(0))
			if got := r.send(tx); got.Error == nil {
				t.Fatal(got)
			}
			refused(t, r.call("eth_getTransactionReceipt", tx.Hash()), tx, "Transaction rejected: MAX_GAS_LIMIT_EXCEEDED", nil)
		})
	}
}

// dial opens a WebSocket connection to a relay.
func dial(t *testing.T, r *relay) *rpc.Client {
	t.Helper()
	client, err := rpc.DialContext(t.Context(), "ws"+strings.TrimPrefix(r.url, "http"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
