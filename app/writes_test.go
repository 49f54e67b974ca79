package app_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/devnet"
	"lockstep/internal/must"
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

// The record of a transaction tells every step, in the words of established relays.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, sender := w.relay(t, "TX_STATUS_TRACING=true", "READ_YOUR_WRITES_WAIT_MS=200", "ENABLE_NONCE_ORDERING=true"), w.account(t)
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
}

// dial opens a WebSocket connection to a relay.
func dial(t *testing.T, r *relay) *rpc.Client {
	t.Helper()
	client := must.Get(rpc.DialContext(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")))(t)
	t.Cleanup(client.Close)
	return client
}
