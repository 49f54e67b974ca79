package ethapi

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/must"
)

// A transaction with a type that was signed for chain id 0 is shown on the chain that it is
// on, with its sender's alias, and its encoding is what was sent.
func TestSignedForChainZeroIsShownWhole(t *testing.T) {
	n := newNetworkWith(t, ledger.Config{}, debugging)
	price := big.NewInt(710_000_000_000)
	for nonce, data := range []types.TxData{
		&types.AccessListTx{To: &n.sender, Gas: 21_000, GasPrice: price},
		&types.DynamicFeeTx{Nonce: 1, To: &n.sender, Gas: 21_000, GasFeeCap: price},
	} {
		tx := n.sendFor(eth.AnyChain{}, data)
		hash := `["` + tx.Hash().Hex() + `"]`
		want := []string{`"0x12a"`, `"` + strings.ToLower(n.sender.Hex()) + `"`, `"` + hexutil.EncodeUint64(uint64(nonce)) + `"`}
		if diff := cmp.Diff(want, fields(t, n.call("eth_getTransactionByHash", hash), "chainId", "from", "nonce")); diff != "" {
			t.Errorf("type %d (-want +got):\n%s", tx.Type(), diff)
		}
		raw := must.Get(tx.MarshalBinary())(t)
		n.expect([3]string{"debug_getRawTransaction", hash, `"` + hexutil.Encode(raw) + `"`})
		if got := fields(t, n.call("eth_getTransactionReceipt", hash), "status"); got[0] != `"0x1"` {
			t.Errorf("type %d: status %s", tx.Type(), got)
		}
	}
}

// A contract has a nonce at older blocks, too: nobody keeps what it was then, so that what
// it is now stands for it. Before the contract was there, it had none.
func TestNonceOfAContractAtAnOlderBlock(t *testing.T) {
	for name, change := range bothProfiles() {
		t.Run(name, func(t *testing.T) {
			n := newNetworkWith(t, ledger.Config{}, change)
			price := big.NewInt(710_000_000_000)
			n.send(&types.DynamicFeeTx{To: &n.sender, Gas: 21_000, GasFeeCap: price})
			created := n.send(&types.DynamicFeeTx{Nonce: 1, Gas: 200_000, GasFeeCap: price, Data: common.FromHex("60016000526001601ff3")})
			for nonce := range uint64(8) {
				n.send(&types.DynamicFeeTx{Nonce: nonce + 2, To: &n.sender, Gas: 21_000, GasFeeCap: price})
			}
			receipt := fields(t, n.call("eth_getTransactionReceipt", `["`+created.Hash().Hex()+`"]`), "contractAddress", "blockNumber", "blockHash")
			for _, block := range []string{receipt[1], receipt[2], `"0x6"`, `"latest"`} {
				n.expect([3]string{"eth_getTransactionCount", "[" + receipt[0] + "," + block + "]", `"0x1"`})
			}
			n.expect(
				[3]string{"eth_getTransactionCount", "[" + receipt[0] + `,"0x1"]`, `"0x0"`},
				[3]string{"eth_getTransactionCount", `["` + n.sender.Hex() + `","0x2"]`, `"0x2"`},
			)
		})
	}
}

// bothProfiles are relays of either profile.
func bothProfiles() map[string]func(*settings) {
	return map[string]func(*settings){"ethereum": func(*settings) {}, "hiero": hiero}
}

// A creation that failed has no receiver. go-ethereum leaves the member out; clients of
// established relays find it in every call.
func TestTraceOfAFailedCreation(t *testing.T) {
	for name, change := range bothProfiles() {
		t.Run(name, func(t *testing.T) {
			n := newNetworkWith(t, ledger.Config{}, debugging, change)
			// Creates a contract of one invalid instruction, and returns; then one that fails itself.
			inner := "60fe60005360016000" + "6000f0" + "00"
			price := big.NewInt(710_000_000_000)
			outer := n.send(&types.DynamicFeeTx{Gas: 1_000_000, GasFeeCap: price, Data: common.FromHex(inner)})
			failed := n.send(&types.DynamicFeeTx{Nonce: 1, Gas: 100_000, GasFeeCap: price, Data: common.FromHex("01121212")})
			trace := func(tx *types.Transaction) (root map[string]any) {
				unmarshal(t, n.call("debug_traceTransaction", `["`+tx.Hash().Hex()+`",{"tracer":"callTracer"}]`), &root)
				return root
			}
			for what, frame := range map[string]map[string]any{
				"the transaction": trace(failed), "a call in it": trace(outer)["calls"].([]any)[0].(map[string]any),
			} {
				to, there := frame["to"]
				if frame["type"] != "CREATE" || frame["error"] == nil || there != (name == "hiero") || to != nil && what == "the transaction" {
					t.Errorf("%s: %v", what, frame)
				}
			}
		})
	}
}

// A native call with a negative amount has a contract result and a place in its block. Clients of
// established relays find the amount there as 64 bits in two's complement; to those of Ethereum,
// which knows no such amount, it shows what moved: nothing.
func TestNegativeAmountOfAContractCall(t *testing.T) {
	for name, change := range bothProfiles() {
		t.Run(name, func(t *testing.T) {
			n := newNetworkWith(t, ledger.Config{}, debugging, change)
			contract := n.receipt(n.dynamic(0, nil, 0, 500_000, initCode(counter))).ContractAddress
			for amount, inTwosComplement := range map[int64]string{
				-100:                   `"0xffffff172b5af000"`,
				-1_000_000_000_000_000: `"0xe9ebfeb7b6000000"`, // below -2^64 in weibar
			} {
				rec := n.handle(core.BodyOf(&hapi.ContractCallTransactionBody{
					ContractID: &hapi.ContractID{Contract: &hapi.ContractID_EvmAddress{EvmAddress: contract[:]}}, Gas: 500_000, Amount: amount,
				}), nil)
				want := map[string]string{"ethereum": `"0x0"`, "hiero": inTwosComplement}[name]
				hash, block := hexutil.Encode(rec.Hash[:32]), hexutil.EncodeUint64(uint64(rec.Block))
				shown := []string{`"` + hash + `"`, `"` + lower(contract) + `"`, want, `"0x7a120"`}
				if diff := cmp.Diff(shown, fields(t, n.call("eth_getTransactionByHash", `["`+hash+`"]`), "hash", "to", "value", "gas")); diff != "" {
					t.Errorf("%d by hash (-want +got):\n%s", amount, diff)
				}
				var whole struct {
					Transactions []struct{ Hash, Value string }
				}
				unmarshal(t, n.call("eth_getBlockByNumber", `["`+block+`",true]`), &whole)
				if len(whole.Transactions) != 1 || whole.Transactions[0].Hash != hash || `"`+whole.Transactions[0].Value+`"` != want {
					t.Errorf("%d in its block: %+v", amount, whole.Transactions)
				}
				if got := fields(t, n.call("eth_getTransactionReceipt", `["`+hash+`"]`), "status", "gasUsed"); got[0] != `"0x0"` || got[1] != `"0x0"` {
					t.Errorf("%d: receipt %s", amount, got)
				}
				if got := n.call("debug_getRawTransaction", `["`+hash+`"]`); got.Error != nil || len(got.Result) < 10 {
					t.Errorf("%d: encoded %s", amount, got)
				}
				// Nothing ran, so that there is nothing in the trace but the reason.
				trace := fields(t, n.call("debug_traceTransaction", `["`+hash+`",{"tracer":"callTracer"}]`), "type", "value", "gas", "gasUsed", "input", "error", "revertReason", "output")
				const reason = "CONTRACT_NEGATIVE_VALUE"
				traced := []string{`"CALL"`, `"0x0"`, `"0x7a120"`, `"0x0"`, `"0x"`, `"` + reason + `"`, "", ""}
				if name == "hiero" {
					traced[2], traced[6], traced[7] = `"0x61a80"`, `"`+reason+`"`, fmt.Sprintf(`"0x%s"`, hex.EncodeToString([]byte(reason)))
				}
				if diff := cmp.Diff(traced, trace); diff != "" {
					t.Errorf("%d traced (-want +got):\n%s", amount, diff)
				}
			}
		})
	}
}
