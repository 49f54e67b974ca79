package ledger

import (
	"encoding/binary"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// call has an account call an address with arguments encoded by another's encoder.
func (r *rig) call(from party, to common.Address, value hedera.Tinybar, signature string, args ...any) *history.Record {
	r.t.Helper()
	a, _ := r.Handled().AccountByAddress(from.address)
	return r.ethereum(from, dynamic(uint64(a.Nonce), &to, value, 3_000_000, packed(r.t, signature, args...)))
}

func packed(t testing.TB, signature string, args ...any) []byte {
	t.Helper()
	parsed := must.Get(abi.ParseSelector(signature))(t)
	var types abi.Arguments
	for _, in := range parsed.Inputs {
		typ := must.Get(abi.NewType(in.Type, in.InternalType, in.Components))(t)
		types = append(types, abi.Argument{Type: typ})
	}
	data := must.Get(types.Pack(args...))(t)
	return append(abi.NewMethod(parsed.Name, parsed.Name, abi.Function, "", false, false, types, nil).ID, data...)
}

var serviceAddress = hedera.Entity(evm.NumTokenService).LongZero()

// code is the response code that a direct call returned.
func (r *rig) code(rec *history.Record) hedera.Status {
	r.t.Helper()
	r.want(rec, okay)
	if len(rec.Result.Output) < 32 {
		r.t.Fatalf("output %x", rec.Result.Output)
	}
	return hedera.Status(binary.BigEndian.Uint32(rec.Result.Output[28:32]))
}

func TestTokenServiceCalls(t *testing.T) {
	r := newRig(t, Config{})
	owner, other := dev(t, 0), dev(t, 1)
	token := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) { b.KycKey = nil })
	at := token.LongZero()
	r.associated(other, token)
	if got := r.code(r.call(owner, serviceAddress, 0, "transferToken(address,address,address,int64)", at, owner.address, other.address, int64(30))); got != okay {
		t.Errorf("transfer: %s", got)
	}
	// Nobody takes from others what they did not allow.
	if got := r.code(r.call(owner, serviceAddress, 0, "transferToken(address,address,address,int64)", at, other.address, owner.address, int64(1))); got != hapi.ResponseCodeEnum_SPENDER_DOES_NOT_HAVE_ALLOWANCE {
		t.Errorf("transfer of another's: %s", got)
	}
	if got := r.code(r.call(other, serviceAddress, 0, "mintToken(address,int64,bytes[])", at, int64(1), [][]byte{})); got != hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE {
		t.Errorf("mint by a stranger: %s", got)
	}
	rec := r.call(owner, serviceAddress, 0, "mintToken(address,int64,bytes[])", at, int64(9), [][]byte{})
	if got := r.code(rec); got != okay || binary.BigEndian.Uint64(rec.Result.Output[56:64]) != 1009 {
		t.Errorf("mint: %s %x", got, rec.Result.Output)
	}
	if len(rec.Children) != 1 || rec.Children[0].Kind != history.KindTokenMint || rec.Children[0].Did().TokenSupply != 1009 {
		t.Errorf("children %+v", rec.Children)
	}
	// What the caller may not take, it takes from an allowance, in the newer form as well.
	selector := common.FromHex("0x0e71804f") // cryptoTransfer, with approvals
	f := evm.NewTokenFunctions().Direct()[[4]byte(selector)]
	entry := func(a common.Address, amount int64) sysabi.Value {
		return sysabi.List(sysabi.Address(a), sysabi.Int(amount), sysabi.Bool(false))
	}
	input := append(selector, sysabi.Encode(f.Args, []sysabi.Value{
		sysabi.List(sysabi.List(entry(other.address, -5), entry(owner.address, 5))),
		sysabi.List(sysabi.List(sysabi.Address(at), sysabi.List(entry(other.address, -7), entry(owner.address, 7)), sysabi.List())),
	})...)
	newer := func() hedera.Status {
		a, _ := r.View().AccountByAddress(owner.address)
		return r.code(r.ethereum(owner, dynamic(uint64(a.Nonce), &serviceAddress, 0, 3_000_000, input)))
	}
	if got := newer(); got != hapi.ResponseCodeEnum_SPENDER_DOES_NOT_HAVE_ALLOWANCE {
		t.Errorf("newer transfer without an allowance: %s", got)
	}
	r.want(r.submit(other.id, core.BodyOf(&hapi.CryptoApproveAllowanceTransactionBody{
		CryptoAllowances: []*hapi.CryptoAllowance{{Spender: owner.id.AccountID(), Amount: 5}},
		TokenAllowances:  []*hapi.TokenAllowance{{TokenId: token.TokenID(), Spender: owner.id.AccountID(), Amount: 7}},
	}), other.key), okay)
	if got := newer(); got != okay {
		t.Errorf("newer transfer with an allowance: %s", got)
	}
	r.code(r.call(owner, serviceAddress, 0, "transferToken(address,address,address,int64)", at, owner.address, other.address, int64(7)))
	for key, want := range map[int64]hedera.Status{1: okay, 2: hapi.ResponseCodeEnum_KEY_NOT_PROVIDED, 256: hapi.ResponseCodeEnum_KEY_NOT_PROVIDED} {
		if got := r.code(r.call(other, serviceAddress, 0, "getTokenKey(address,uint256)", at, big.NewInt(key))); got != want {
			t.Errorf("key %d: %s, want %s", key, got, want)
		}
	}
	// The proxy of the token: a failure reverts with its code, a success leaves an event.
	rec = r.call(other, at, 0, "transfer(address,uint256)", owner.address, big.NewInt(31))
	r.want(rec, hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED)
	if want := hexutil.Encode(sysabi.Word(int64(hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE)).Bytes()); rec.Result.ErrorMessage != want {
		t.Errorf("reverted with %s", rec.Result.ErrorMessage)
	}
	rec = r.call(other, at, 0, "transfer(address,uint256)", owner.address, big.NewInt(30))
	r.want(rec, okay)
	if logs := rec.Result.Logs; len(logs) != 1 || logs[0].Contract != token || logs[0].Topics[0] != crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)")) || rec.Result.Target != token {
		t.Errorf("target %v, logs %+v", rec.Result.Target, logs)
	}
	r.checkSupply(token)
	// Value does not go to tokens, and what the service does not know halts.
	r.want(r.call(owner, at, 1, "transfer(address,uint256)", other.address, big.NewInt(1)), hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
	r.want(r.call(owner, serviceAddress, 0, "nonsense(uint256)", big.NewInt(1)), hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION)
}

// serviceCaller deploys a contract that calls the token service with its call data, and that
// reverts afterwards where it is told to.
func (r *rig) serviceCaller(from party) (contract common.Address, run func(data []byte, reverts bool) *history.Record) {
	r.t.Helper()
	caller := program.New().
		Op(vm.CALLDATASIZE, vm.PUSH0, vm.PUSH0, vm.CALLDATACOPY).
		Op(vm.PUSH0, vm.PUSH0, vm.CALLDATASIZE, vm.PUSH0, vm.PUSH0).Push(serviceAddress).Op(vm.GAS, vm.CALL, vm.POP).
		Push(1).Op(vm.CALLDATASIZE, vm.SUB, vm.CALLDATALOAD).Push(248).Op(vm.SHR)
	at := len(caller.Bytes())
	code := caller.Push(at+4).Op(vm.JUMPI, vm.STOP, vm.JUMPDEST, vm.PUSH0, vm.PUSH0, vm.REVERT).Bytes()
	contract = r.deploy(from, 0, code)
	return contract, func(data []byte, reverts bool) *history.Record {
		tail := byte(0) // the last byte of call data tells
		if reverts {
			tail = 1
		}
		a, _ := r.Handled().AccountByAddress(from.address)
		return r.ethereum(from, dynamic(uint64(a.Nonce), &contract, 0, 3_000_000, append(slices.Clone(data), tail)))
	}
}

// A frame that reverts takes its tokens back; what others did stays.
func TestRevertTakesTokensBack(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	token := r.fungibleToken(owner, nil)
	contract, run := r.serviceCaller(owner)
	id, _ := r.View().Resolve(contract)
	associate := packed(t, "associateToken(address,address)", contract, token.LongZero())
	rec := run(associate, true)
	r.want(rec, hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED)
	if _, ok := r.View().Relation(id, token); ok || len(rec.Children) != 1 || rec.Children[0].Status != hapi.ResponseCodeEnum_REVERTED_SUCCESS {
		t.Fatalf("associated %v, children %+v", ok, rec.Children)
	}
	rec = run(associate, false)
	r.want(rec, okay)
	if _, ok := r.View().Relation(id, token); !ok || len(rec.Children) != 1 || rec.Children[0].Status != okay {
		t.Fatalf("associated %v, children %+v", ok, rec.Children)
	}
}

// Simulations see what they do and leave nothing behind.
func TestTokenSimulation(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	token := r.fungibleToken(owner, nil)
	result, err := r.View().Call(t.Context(), evm.CallRequest{
		From: &owner.address, To: &serviceAddress, Data: packed(t, "mintToken(address,int64,bytes[])", token.LongZero(), int64(5), [][]byte{}),
	})
	if err != nil || result.Status != okay || binary.BigEndian.Uint64(result.Output[56:64]) != 1005 {
		t.Errorf("%+v, %v", result, err)
	}
	if got, _ := r.View().Token(token); got.Supply != 1000 {
		t.Errorf("supply %d", got.Supply)
	}
	for signature, words := range map[string]int{"getTokenInfo(address)": 32, "getTokenCustomFees(address)": 7, "getTokenExpiryInfo(address)": 4, "isToken(address)": 2} {
		at := token.LongZero()
		result, err := r.View().Call(t.Context(), evm.CallRequest{To: &serviceAddress, Data: packed(t, signature, at)})
		if err != nil || result.Status != okay || len(result.Output) < 32*words || result.Output[31] != byte(okay) {
			t.Errorf("%s: %d bytes, %v, %v", signature, len(result.Output), result.Status, err)
		}
	}
}
