package ledger

import (
	"bytes"
	"errors"
	"math/big"
	"slices"
	"sync"
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
	"lockstep/devnet/ledger/state"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

func TestGenesis(t *testing.T) {
	r := newRig(t, Config{})
	b := r.View().LatestBlock()
	if b.Number != 0 || b.Hash == (state.Hash48{}) || b.Previous != (state.Hash48{}) || len(b.Records) != 0 || b.From != b.To {
		t.Errorf("block %+v", b)
	}
	if total, released := r.View().Supply(); total != state.TotalSupply || released != 20*devaccounts.RichBalance/2+30*devaccounts.Balance {
		t.Errorf("supply %d, released %d", total, released)
	}
	operator, _ := r.View().Account(hedera.Entity(2))
	if operator.Key.GetEd25519() == nil || operator.Address != operator.ID.LongZero() {
		t.Errorf("operator %+v", operator)
	}
	if f, ok := r.View().File(hedera.Entity(112)); !ok || len(f.Contents) == 0 {
		t.Error("no exchange rate file")
	}
}

func TestGenesisRefusals(t *testing.T) {
	good := devaccounts.All()[0]
	low, poor, odd := good, good, good
	low.ID = hedera.Entity(5)
	poor.Balance = state.TotalSupply + 1
	odd.PublicKey = []byte{1}
	for name, cfg := range map[string]Config{
		"system number":  {Accounts: []devaccounts.Account{low}},
		"twice":          {Accounts: []devaccounts.Account{good, good}},
		"too rich":       {Accounts: []devaccounts.Account{poor}},
		"bad key":        {Accounts: []devaccounts.Account{odd}},
		"no history":     {History: -1},
		"negative price": {GasPrice: -1},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Blocks chain, times increase with room for children, and records are where their
// block says.
func TestChain(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1)
	for i := range uint64(20) {
		r.want(r.ethereum(from, dynamic(i, &to.address, 1, 21_000, nil)), okay)
	}
	blocks := r.View().Blocks()
	if len(blocks) != 21 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for i, b := range blocks[1:] {
		prev := blocks[i]
		if b.Number != prev.Number+1 || b.Previous != prev.Hash || b.From.UnixNano()-prev.To.UnixNano() < 60 {
			t.Errorf("block %d after %+v: %+v", i+1, prev, b)
		}
		for _, size := range []int{32, 48} {
			if found, ok := r.View().BlockByHash(b.Hash[:size]); !ok || found != b {
				t.Errorf("block %d is not found by %d bytes of its hash", i+1, size)
			}
		}
		rec := b.Records[0]
		if got, ok := r.View().RecordAt(rec.Consensus); !ok || got != rec {
			t.Errorf("record at %s: %v", rec.Consensus, got)
		}
		if got := r.View().RecordsByHash(rec.Hash[:]); len(got) != 1 || got[0] != rec {
			t.Errorf("record by hash: %v", got)
		}
	}
	low, high := blocks[5].From, blocks[8].To
	ascending := slices.Collect(r.View().Records(low, high, false))
	descending := slices.Collect(r.View().Records(low, high, true))
	if len(ascending) != 4 || len(descending) != 4 || ascending[0] != blocks[5].Records[0] || descending[0] != blocks[8].Records[0] {
		t.Errorf("records %v, %v", ascending, descending)
	}
	if _, ok := r.View().BlockByNumber(21); ok {
		t.Error("a block of the future")
	}
	if got := slices.Collect(r.View().Records(high, low, false)); len(got) != 0 {
		t.Errorf("an empty range has %v", got)
	}
}

// What a view shows does not change, and nothing of later times gets in.
func TestViewsStandStill(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1)
	contract := r.deploy(from, 0, program.New().Op(vm.CALLVALUE).Push(0).Op(vm.SSTORE).Bytes())
	id, _ := r.View().Resolve(contract)
	var views []*View
	for i := range uint64(10) {
		r.want(r.ethereum(from, dynamic(i+1, &contract, hedera.Tinybar(i+1), 60_000, nil)), okay)
		views = append(views, r.View())
	}
	nobody := fresh(t, 1)
	r.want(r.ethereum(from, dynamic(11, &nobody.address, 1, 700_000, nil)), okay)
	for i, v := range views {
		if got := v.Storage(id, common.Hash{}).Value; got != number(int64(i+1)) {
			t.Errorf("view %d: slot %s", i, got)
		}
		a, _ := v.AccountByAddress(from.address)
		c, _ := v.Account(id)
		if a.Nonce != int64(i)+2 || c.Balance != hedera.Tinybar((i+1)*(i+2)/2) || v.LatestBlock().Number != int64(i)+2 {
			t.Errorf("view %d: %+v %+v", i, a, c)
		}
		if _, ok := v.AccountByAddress(nobody.address); ok {
			t.Errorf("view %d shows an account of the future", i)
		}
		call, err := v.Call(t.Context(), evm.CallRequest{To: &to.address, From: &nobody.address})
		if err == nil {
			t.Errorf("view %d: call by nobody: %+v", i, call)
		}
		if again := r.ViewBefore(v.Time()); again.LatestBlock() != v.LatestBlock() {
			t.Errorf("view before %s: block %d", v.Time(), again.LatestBlock().Number)
		}
	}
	if got := r.ViewBefore(hedera.Timestamp{}).LatestBlock().Number; got != 0 {
		t.Errorf("before everything: block %d", got)
	}
}

// History is bounded: blocks, their records and old versions go.
func TestHistoryIsBounded(t *testing.T) {
	const kept = 10
	r := newRig(t, Config{History: kept})
	from, to := dev(t, 0), dev(t, 1)
	contract := r.deploy(from, 0, program.New().Op(vm.CALLVALUE).Push(0).Op(vm.SSTORE).Bytes())
	id, _ := r.View().Resolve(contract)
	var last *history.Record
	for i := range uint64(100) {
		target := to.address
		if i < 60 {
			target = contract
		}
		last = r.ethereum(from, dynamic(i+1, &target, hedera.Tinybar(i+1), 60_000, nil))
		r.want(last, okay)
	}
	if n := len(r.View().Blocks()); n != kept {
		t.Errorf("%d blocks are kept", n)
	}
	for num := range r.store.World.Entities.Keys() {
		if n := len(r.store.World.Entities.Versions(num)); n > kept+1 {
			t.Errorf("entity %d has %d versions", num, n)
		}
	}
	for key := range r.store.World.Slots.Keys() {
		if n := len(r.store.World.Slots.Versions(key)); n != 1 {
			t.Errorf("a slot untouched for long has %d versions", n)
		}
	}
	if got := r.View().Storage(id, common.Hash{}).Value; got != number(60) {
		t.Errorf("slot %s", got)
	}
	oldest := r.View().OldestBlock()
	if oldest.Number != last.Block-kept+1 {
		t.Errorf("oldest block %d", oldest.Number)
	}
	if a, _ := r.View().At(oldest.To).AccountByAddress(from.address); a.Nonce != oldest.Number {
		t.Errorf("nonce %d at block %d", a.Nonce, oldest.Number)
	}
	if _, ok := r.View().BlockByNumber(1); ok {
		t.Error("block 1 is still there")
	}
}

// Large blocks leave room for fewer of them.
func TestHistoryIsBoundedBySize(t *testing.T) {
	const limit = 1 << 20
	r := newRig(t, Config{HistoryBytes: limit})
	from, to := dev(t, 0), dev(t, 1)
	for i := range uint64(40) {
		r.want(r.ethereum(from, dynamic(i, &to.address, 0, 2_000_000, make([]byte, 100_000))), okay)
	}
	if n := len(r.View().Blocks()); n < 2 || n > limit/100_000 {
		t.Errorf("%d blocks are kept", n)
	}
}

// A block that is told to ends before its time, once.
func TestCloseBlock(t *testing.T) {
	r := newRig(t, Config{BlockTime: time.Hour})
	from := dev(t, 0)
	for nonce := range uint64(3) {
		r.ethereum(from, dynamic(nonce, &from.address, 0, 60_000, nil))
	}
	for range 2 {
		r.CloseBlock()
		if b := r.View().LatestBlock(); b.Number != 1 || len(b.Records) != 3 {
			t.Fatalf("block %d of %d records", b.Number, len(b.Records))
		}
	}
}

// With a block time, what was handled is hidden from views until its block closes,
// and consensus nodes see it at once.
func TestBlockTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{BlockTime: 2 * time.Second})
		must.Run(t, r.Run)
		changed, unsubscribe := r.Subscribe()
		defer unsubscribe()
		from, to := dev(t, 0), dev(t, 1)
		emitter := program.New().Push(0).Push(0).Op(vm.LOG0).Push(0).Push(0).Op(vm.LOG0).Bytes()
		contract := r.deployUnseen(from, emitter)
		first := r.ethereum(from, dynamic(1, &contract, 0, 60_000, nil))
		<-time.After(time.Second) // fake time
		second := r.ethereum(from, dynamic(2, &contract, 0, 60_000, nil))
		if got := r.View().LatestBlock().Number; got != 0 {
			t.Errorf("block %d before its time", got)
		}
		if got := r.View().RecordsByID(first.ID); len(got) != 0 {
			t.Errorf("a record before its time: %v", got)
		}
		if got := r.Handled().RecordsByID(first.ID); len(got) != 1 {
			t.Errorf("nodes do not know: %v", got)
		}
		if a, _ := r.Handled().AccountByAddress(from.address); a.Nonce != 3 {
			t.Errorf("nodes see nonce %d", a.Nonce)
		}
		if a, _ := r.View().AccountByAddress(from.address); a.Nonce != 0 {
			t.Errorf("views see nonce %d", a.Nonce)
		}
		select {
		case <-changed:
			t.Error("told of a block that is not there")
		default:
		}
		<-time.After(time.Second) // fake time
		synctest.Wait()
		<-changed
		b := r.View().LatestBlock()
		if b.Number != 1 || len(b.Records) != 3 || b.GasUsed != b.Records[0].Result.GasUsed+first.Result.GasUsed+second.Result.GasUsed {
			t.Errorf("block %+v", b)
		}
		if first.Result.Index != 1 || second.Result.Index != 2 || first.Result.Logs[0].Index != 0 ||
			second.Result.Logs[0].Index != 2 || second.Result.Logs[1].Index != 3 {
			t.Errorf("places: %+v, %+v", first.Result, second.Result)
		}
		r.want(r.ethereum(from, dynamic(3, &to.address, 1, 21_000, nil)), okay)
		<-time.After(2 * time.Second) // fake time
		synctest.Wait()
		if b := r.View().LatestBlock(); b.Number != 2 || b.Records[0].Result.Index != 0 {
			t.Errorf("block %+v", b)
		}
	})
}

// deployUnseen creates a contract whose block may not have closed.
func (r *rig) deployUnseen(from party, runtime []byte) common.Address {
	r.t.Helper()
	rec := r.ethereum(from, dynamic(0, nil, 0, 5_000_000, program.New().ReturnViaCodeCopy(runtime).Bytes()))
	r.want(rec, okay)
	return rec.Result.Address
}

// Readers and simulations run beside the handler. The race detector is the test.
func TestConcurrentReaders(t *testing.T) {
	r := newRig(t, Config{History: 50})
	from, to := dev(t, 0), dev(t, 1)
	contract := r.deploy(from, 0, program.New().Op(vm.CALLVALUE).Push(0).Op(vm.SLOAD, vm.ADD).Push(0).Op(vm.SSTORE).Bytes())
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				v := r.View()
				b := v.LatestBlock()
				_, err := v.Call(t.Context(), evm.CallRequest{From: &from.address, To: &contract, Value: 1})
				if err != nil && r.View().OldestBlock().From.Compare(v.Time()) > 0 {
					continue // the view fell out of the history while this reader waited for its turn
				}
				if err != nil {
					t.Error(err)
					return
				}
				for range v.Records(b.From, b.To, true) {
				}
				for range v.Accounts(0, 2_000, false) {
				}
				v.StorageSlots(hedera.Entity(1042))
				v.ConsensusLog(0, 10)
			}
		})
	}
	for i := range uint64(200) {
		target := to.address
		if i%2 == 0 {
			target = contract
		}
		r.want(r.ethereum(from, dynamic(i+1, &target, 1, 100_000, nil)), okay)
	}
	close(stop)
	group.Wait()
}

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
