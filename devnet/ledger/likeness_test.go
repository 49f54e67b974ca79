package ledger

import (
	"bytes"
	"errors"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// With a block time there is a block for every period, also without transactions, and
// each says that it is new. Numbers and times have no gaps and no overlap.
func TestBlocksWithoutTransactionsFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{BlockTime: 2 * time.Second})
		must.Run(t, r.Run)
		changed, unsubscribe := r.Subscribe()
		defer unsubscribe()
		for number := int64(1); number <= 3; number++ {
			<-changed
			b := r.View().LatestBlock()
			if b.Number != number || len(b.Records) != 0 || b.GasUsed != 0 {
				t.Fatalf("block %d of %d records, want %d of none", b.Number, len(b.Records), number)
			}
		}
		from, to := dev(t, 0), dev(t, 1)
		r.want(r.ethereum(from, dynamic(0, &to.address, 1, 21_000, nil)), okay)
		for {
			<-changed
			if len(r.View().LatestBlock().Records) > 0 {
				break
			}
		}
		<-changed // and after a block with transactions they go on
		blocks := r.View().Blocks()
		for i, b := range blocks[1:] {
			if previous := blocks[i]; b.Number != previous.Number+1 || b.Previous != previous.Hash || b.Hash == previous.Hash ||
				b.From.Compare(previous.To) <= 0 || b.To.Compare(b.From) < 0 {
				t.Errorf("block %d from %s to %s after block %d from %s to %s", b.Number, b.From, b.To, previous.Number, previous.From, previous.To)
			}
		}
	})
}

// What nobody pays for is refused with a result that has a place in its block, as clients
// who wait for a receipt expect it.
func TestPriceOfZeroWithoutAllowance(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1)
	free := dynamic(0, &to.address, 0, 3_000_000, nil)
	free.GasFeeCap, free.GasTipCap = new(big.Int), new(big.Int)
	rec := r.ethereum(from, free)
	r.want(rec, hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE)
	if rec.Result.GasUsed != 0 || rec.Result.From != from.id || r.nonce(from.address) != 0 || rec.Result.Index != 0 || !rec.Executed() {
		t.Errorf("result %+v", rec.Result)
	}
	if _, err := r.View().Opcodes(t.Context(), rec, evm.OpcodeOptions{}); !errors.Is(err, evm.ErrNotExecuted) {
		t.Errorf("replayed: %v", err)
	}
	r.want(r.relayed(from, free, 3_000_000*price), okay)
}

// A value sent to the system from inside a call fails the transaction, not only the call.
func TestValueToTheSystemInsideACall(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	sha := common.BytesToAddress([]byte{2})
	// What the call returns is ignored: on the network the caller does not get that far.
	contract := r.deploy(from, 0, program.New().Call(nil, sha, 1, 0, 0, 0, 0).Op(vm.POP).Sstore(1, 1).Bytes())
	rec := r.ethereum(from, dynamic(1, &contract, 5, 100_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
	res := rec.Result
	if res.ErrorMessage != "INVALID_CONTRACT_ID" || res.GasUsed != 100_000 || len(res.Actions) != 2 {
		t.Fatalf("result %+v", res)
	}
	for i, action := range res.Actions {
		if action.ResultType != history.ResultError || string(action.Result) != "INVALID_CONTRACT_ID" {
			t.Errorf("action %d: %s %s", i, action.ResultType, action.Result)
		}
	}
	if got := r.View().Storage(rec.ContractID, number(1)).Value; got != (common.Hash{}) || r.nonce(from.address) != 2 {
		t.Errorf("stored %s, nonce %d", got, r.nonce(from.address))
	}
	_, out, err := r.View().Estimate(t.Context(), evm.CallRequest{From: &from.address, To: &contract, Value: 5})
	if err != nil || out.Status != hapi.ResponseCodeEnum_INVALID_CONTRACT_ID {
		t.Errorf("estimate: %+v, %v", out, err)
	}
	reverting := r.deploy(from, 2, program.New().Call(nil, sha, 1, 0, 0, 0, 0).Push(0).Push(0).Op(vm.REVERT).Bytes())
	r.want(r.ethereum(from, dynamic(3, &reverting, 5, 100_000, nil)), hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
}

// The numbers of the network's accounts have gaps, an address of the key's own is nobody else's to sign for, and
// tokens end on a second.
func TestAccountsAndTokensOfTheNetwork(t *testing.T) {
	r := newRig(t, Config{})
	from, nobody := dev(t, 0), fresh(t, 1)
	for num, want := range map[int64]bool{
		1: true, 100: true, 101: false, 199: false, 349: true, 350: false, 399: false, 400: true, 750: true,
		751: false, 799: false, 800: true, 801: true, 802: true, 803: false, 810: false, 899: false, 900: true, 1000: true,
	} {
		a, got := r.View().Account(hedera.Entity(num))
		if got != want || got && (a.Deleted || a.IsContract() || a.Address != hedera.Entity(num).LongZero()) {
			t.Errorf("account %d: %t %+v", num, got, a)
		}
	}
	r.want(r.submit(from.id, create(func(b *hapi.CryptoCreateTransactionBody) { b.Key, b.Alias = publicKey(nobody), nobody.address[:] }), from.key), okay)
	token, _ := r.View().Token(r.fungibleToken(from, nil))
	if want := (hedera.Timestamp{Seconds: token.Created.Seconds + token.AutoRenewPeriod}); token.Expires != want {
		t.Errorf("the token expires at %s, want %s", token.Expires, want)
	}
}

// The relay of the ecosystem's other tools expects at least as much for the creation of an account, and as much is
// enough.
func TestEstimateOfAHollowAccount(t *testing.T) {
	r := newRig(t, Config{})
	from, nobody := dev(t, 0), fresh(t, 1)
	other := fresh(t, 2)
	r.want(r.ethereum(from, dynamic(0, &other.address, 5, 610_000, nil)), okay)
	gas, _, err := r.View().Estimate(t.Context(), evm.CallRequest{From: &from.address, To: &nobody.address, Value: 5})
	if err != nil || gas < 610_000 {
		t.Errorf("%d gas, %v", gas, err)
	}
}

// A signature for chain 0 holds on any chain, also in transactions that have a type.
func TestSignedForChainZero(t *testing.T) {
	to := dev(t, 1).address
	price := big.NewInt(weiPrice)
	for name, fields := range map[string]types.TxData{
		"legacy": &types.LegacyTx{To: &to, Gas: 21_000, GasPrice: price},
		"type 1": &types.AccessListTx{To: &to, Gas: 21_000, GasPrice: price, ChainID: new(big.Int)},
		"type 2": &types.DynamicFeeTx{To: &to, Gas: 21_000, GasFeeCap: price, GasTipCap: price, ChainID: new(big.Int)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			from, relayer := dev(t, 0), dev(t, 9)
			var signer types.Signer = eth.AnyChain{}
			if name == "legacy" {
				signer = types.HomesteadSigner{}
			}
			tx := must.Get(types.SignNewTx(from.key, signer, fields))(t)
			raw := must.Get(tx.MarshalBinary())(t)
			rec := r.submit(relayer.id, core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: raw}), relayer.key)
			r.want(rec, okay)
			if r.nonce(from.address) != 1 || rec.EthereumHash != tx.Hash() {
				t.Errorf("nonce %d, hash %s", r.nonce(from.address), rec.EthereumHash)
			}
		})
	}
}

// A native call with a negative amount passes a node's own checks. It fails when it is handled,
// before anything runs, and its result says which amount that was.
func TestContractCallWithNegativeAmountFailsWithAResult(t *testing.T) {
	r := newRig(t, Config{})
	payer := dev(t, 0)
	address := r.deploy(dev(t, 1), 0, returnTop(program.New().Push(42)))
	contract, _ := r.View().AccountByAddress(address)
	call := func(target *hapi.ContractID) *history.Record {
		body := core.BodyOf(&hapi.ContractCallTransactionBody{ContractID: target, Gas: 500_000, Amount: -100, FunctionParameters: []byte{1, 2}})
		if status := r.PureCheck(body); status != okay {
			t.Errorf("a node refuses it: %s", status)
		}
		return r.submit(payer.id, body, payer.key)
	}
	rec := call(contract.ID.ContractID())
	r.want(rec, hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_VALUE)
	if !rec.Executed() || rec.Result.Amount != -100 || rec.Result.GasUsed != 0 || rec.Result.GasLimit != 500_000 || rec.Result.From != payer.id ||
		rec.Result.Target != contract.ID || !bytes.Equal(rec.Result.To, address[:]) || !bytes.Equal(rec.Result.Input, []byte{1, 2}) ||
		rec.Result.ErrorMessage != hexutil.Encode([]byte(rec.Status.String())) || !rec.ContractID.IsZero() {
		t.Errorf("result %+v", rec.Result)
	}
	if paid := devaccounts.RichBalance - r.balance(payer.address); paid != eth.TxGas*price || rec.Fee != paid || r.balance(address) != 0 {
		t.Errorf("paid %d, fee %d", paid, rec.Fee)
	}
	if _, err := r.View().Opcodes(t.Context(), rec, evm.OpcodeOptions{}); !errors.Is(err, evm.ErrNotExecuted) {
		t.Errorf("replayed: %v", err)
	}
	// The amount is looked at before the contract is.
	nowhere := call(hedera.Entity(9_999).ContractID())
	r.want(nowhere, hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_VALUE)
	if !nowhere.Executed() || !nowhere.Result.Target.IsZero() {
		t.Errorf("result without a contract: %+v", nowhere.Result)
	}
}
