package app_test

import (
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/node"
	"lockstep/internal/hapi"
)

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
