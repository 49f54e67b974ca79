package app_test

import (
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/node"
	"lockstep/internal/hapi"
)

// A wrong nonce is told with the right one, with or without a pool. BUG: established relays
// take it for granted that the transaction itself is in the pool, and are off by one without.
func TestWrongNonceIsToldExactly(t *testing.T) {
	w := newWorld(t)
	for _, pool := range []string{"ENABLE_TX_POOL=true", "ENABLE_TX_POOL=false"} {
		for _, ordering := range []string{"ENABLE_NONCE_ORDERING=true", "ENABLE_NONCE_ORDERING=false"} {
			t.Run(pool+" "+ordering, func(t *testing.T) {
				r, a := w.relay(t, pool, ordering), w.account(t)
				first, gap := good(a, 0), good(a, 4)
				row{}.check(t, r.call("eth_sendRawTransaction", first), first)
				r.until("the mirror node shows it", func() bool { return r.count(a, "latest") == 1 })
				row{code: -32000, message: "Nonce too high. Provided nonce: 4, current nonce: 1", status: "WRONG_NONCE"}.check(t, r.call("eth_sendRawTransaction", gap), gap)
				// One that was wrong when it arrived, and would be right by now.
				w.spoilNode(t, node.Fault{Outcome: hapi.ResponseCodeEnum_WRONG_NONCE})
				next := good(a, 1)
				row{code: -32003, message: "Transaction rejected: WRONG_NONCE", status: "WRONG_NONCE"}.check(t, r.call("eth_sendRawTransaction", next), next)
			})
		}
	}
}

// HEDERA_SPECIFIC_REVERT_STATUSES says which outcomes mean that nothing was executed.
func TestRejectedStatuses(t *testing.T) {
	w := newWorld(t)
	w.spoilNode(t, node.Fault{Outcome: hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED})
	r, a := w.relay(t, "HEDERA_SPECIFIC_REVERT_STATUSES=WRONG_NONCE"), w.account(t)
	tx := good(a, 0)
	row{}.check(t, r.call("eth_sendRawTransaction", tx), tx) // an outcome like any other, then
}

// The buffer on the gas price is what eth_gasPrice and the precheck go by.
func TestGasPriceBuffer(t *testing.T) {
	w := newWorld(t)
	plain, dear := w.relay(t), w.relay(t, "GAS_PRICE_PERCENTAGE_BUFFER=100")
	var price, doubled hexutil.Big
	if json.Unmarshal(plain.call("eth_gasPrice").Result, &price) != nil || json.Unmarshal(dear.call("eth_gasPrice").Result, &doubled) != nil {
		t.Fatal("no gas price")
	}
	a := w.account(t)
	data := a.pay(0)
	data.GasFeeCap = price.ToInt()
	tx := a.raw(data)
	row{code: -32009, message: "Gas price '" + price.ToInt().String() + "' is below configured minimum gas price '" + doubled.ToInt().String() + "'"}.
		check(t, dear.call("eth_sendRawTransaction", tx), tx)
	row{}.check(t, plain.call("eth_sendRawTransaction", tx), tx)
}
