package ledger

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func TestCreation(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	runtime := returnTop(program.New().Push(42))
	rec := r.ethereum(from, dynamic(0, nil, 9, 1_000_000, program.New().ReturnViaCodeCopy(runtime).Bytes()))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	address := crypto.CreateAddress(from.address, 0)
	res := rec.Result
	if res.Address != address || res.Target.Num != 1042 || rec.ContractID != res.Target || !res.Create {
		t.Errorf("result %+v", res)
	}
	if diff := cmp.Diff([]hedera.ID{res.Target}, res.Created); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]history.ContractNonce{{Contract: res.Target, Nonce: 1}}, res.Nonces); diff != "" {
		t.Error(diff)
	}
	acct, ok := r.View().Account(res.Target)
	if !ok || acct.Address != address || acct.Balance != 9 || acct.Nonce != 1 || !bytes.Equal(acct.Contract.Runtime, runtime) ||
		acct.Key.GetContractID().GetContractNum() != 1042 || acct.Contract.Creator != from.id || len(acct.Contract.Initcode) == 0 {
		t.Errorf("contract %+v", acct)
	}
	if len(rec.Children) != 0 || res.Actions[0].CallType != history.CallTypeCreate || res.Actions[0].Recipient != res.Target {
		t.Errorf("children %v, actions %+v", rec.Children, res.Actions)
	}
	got, err := r.View().Call(t.Context(), evm.CallRequest{To: &address})
	if err != nil || common.BytesToHash(got.Output) != common.BigToHash(big.NewInt(42)) {
		t.Errorf("call: %+v, %v", got, err)
	}
}

func TestFailedCreation(t *testing.T) {
	tests := []struct {
		name    string
		init    []byte
		want    hedera.Status
		message string
	}{
		{"revert", program.New().Mstore([]byte{0xab}, 0).Push(1).Push(0).Op(vm.REVERT).Bytes(), hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED, "0xab"},
		{"invalid prefix", program.New().ReturnData([]byte{0xef, 1}).Bytes(), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, "INVALID_CODE"},
		{"too large", program.New().Push(24_577).Push(0).Op(vm.RETURN).Bytes(), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION, "CODE_TOO_LARGE"},
		{"deposit", program.New().Push(20_000).Push(0).Op(vm.RETURN).Bytes(), hapi.ResponseCodeEnum_INSUFFICIENT_GAS, "INSUFFICIENT_GAS"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{})
			from := dev(t, 0)
			gas := uint64(10_000_000)
			if tt.name == "deposit" {
				gas = 1_000_000
			}
			rec := r.ethereum(from, dynamic(0, nil, 0, gas, tt.init))
			r.want(rec, tt.want)
			res := rec.Result
			if res.ErrorMessage != tt.message || !rec.ContractID.IsZero() || len(res.Created) != 0 || len(res.Output) != 0 ||
				res.Address != (common.Address{}) || r.nonce(from.address) != 1 {
				t.Errorf("record %+v result %+v", rec, res)
			}
			// The number that the creation would have taken is still free.
			r.deploy(from, 1, []byte{0})
			if _, ok := r.View().Account(hedera.Entity(1042)); !ok {
				t.Error("the number was lost")
			}
		})
	}
}

func TestCollision(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	// A contract cannot be created where one is: the factory tries it twice.
	factory := r.deploy(from, 0, program.New().Create2(program.New().ReturnData([]byte{0}).Bytes(), 7).
		Push(0).Op(vm.MSTORE).Return(0, 32).Bytes())
	first := r.ethereum(from, dynamic(1, &factory, 0, 1_000_000, nil))
	r.want(first, hapi.ResponseCodeEnum_SUCCESS)
	if len(first.Result.Created) != 1 || len(first.Children) != 1 || first.Children[0].Kind != history.KindContractCreate ||
		first.Children[0].Consensus.UnixNano() != first.Consensus.UnixNano()+1 {
		t.Fatalf("first %+v", first.Result)
	}
	if diff := cmp.Diff([]history.ContractNonce{{Contract: first.Result.Target, Nonce: 2}, {Contract: first.Result.Created[0], Nonce: 1}}, first.Result.Nonces); diff != "" {
		t.Error(diff)
	}
	second := r.ethereum(from, dynamic(2, &factory, 0, 1_000_000, nil))
	r.want(second, hapi.ResponseCodeEnum_SUCCESS)
	if common.BytesToHash(second.Result.Output) != (common.Hash{}) || len(second.Result.Created) != 0 {
		t.Errorf("second %+v", second.Result)
	}
}

// An account created inside a frame that reverts is gone, and its number is free.
func TestRevertedCreation(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	nobody := common.HexToAddress("0xabcdef0000000000000000000000000000000001")
	giver := r.deploy(from, 0, program.New().Call(nil, nobody, 3, 0, 0, 0, 0).Push(0).Push(0).Op(vm.REVERT).Bytes())
	outer := r.deploy(from, 1, program.New().Call(nil, giver, 3, 0, 0, 0, 0).Bytes())
	rec := r.ethereum(from, dynamic(2, &outer, 3, 3_000_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	if _, ok := r.View().AccountByAddress(nobody); ok || len(rec.Children) != 0 {
		t.Errorf("children %v", rec.Children)
	}
	r.deploy(from, 3, []byte{0})
	if a, _ := r.View().AccountByAddress(crypto.CreateAddress(from.address, 3)); a.ID.Num != 1044 {
		t.Errorf("next number %d", a.ID.Num)
	}
}

func TestTooManyChildren(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	p := program.New()
	for i := range 4 {
		p.Call(nil, common.BytesToAddress([]byte{0xaa, 19: byte(i)}), 1, 0, 0, 0, 0)
	}
	contract := r.deploy(from, 0, p.Bytes())
	rec := r.ethereum(from, dynamic(1, &contract, 4, 10_000_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_MAX_CHILD_RECORDS_EXCEEDED)
	if rec.Result.ErrorMessage != hexutil.Encode([]byte("MAX_CHILD_RECORDS_EXCEEDED")) || len(rec.Children) != 0 {
		t.Errorf("result %+v", rec.Result)
	}
}

func TestSelfDestructInCreation(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1)
	rec := r.ethereum(from, dynamic(0, nil, 8, 1_000_000, program.New().Selfdestruct(to.address).Bytes()))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	acct, ok := r.View().Account(rec.ContractID)
	if !ok || !acct.Deleted || acct.Balance != 0 || acct.Obtainer != to.id || r.balance(to.address) != devaccounts.RichBalance+8 {
		t.Errorf("contract %+v", acct)
	}
	// The address is that of something deleted: value cannot go there.
	r.want(r.ethereum(from, dynamic(1, &acct.Address, 1, 700_000, nil)), hapi.ResponseCodeEnum_INVALID_ALIAS_KEY)
}

func TestDeterministicDeployer(t *testing.T) {
	raw := common.FromHex("0xf8a58085174876e800830186a08080b853604580600e600039806000f350fe7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf31ba02222222222222222222222222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222")
	r := newRig(t, Config{})
	keyless := common.HexToAddress("0x3fab184622dc19b6109349b94811493bf2a45362")
	r.want(r.ethereum(dev(t, 0), dynamic(0, &keyless, hedera.Hbar, 700_000, nil)), hapi.ResponseCodeEnum_SUCCESS)
	relayer := dev(t, 9)
	rec := r.submit(relayer.id, core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: raw}), relayer.key)
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	if want := common.HexToAddress("0x4e59b44847b379578588920ca78fbf26c0b4956c"); rec.Result.Address != want {
		t.Errorf("deployed at %s", rec.Result.Address)
	}
	if rec.Result.GasUsed == 0 || r.balance(relayer.address) != devaccounts.RichBalance {
		t.Error("the relayer paid")
	}
}
