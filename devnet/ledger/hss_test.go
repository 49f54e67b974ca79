package ledger

import (
	"crypto/ecdsa"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

var scheduleAddress = hedera.Entity(evm.NumScheduleService).LongZero()

// forwarder is a contract that calls an address with its input and returns the answer, or stores 1
// when nobody gave it any.
func forwarder(target common.Address) []byte {
	body := program.New().Op(vm.CALLDATASIZE).Push(0).Push(0).Op(vm.CALLDATACOPY).
		Push(0).Push(0).Op(vm.CALLDATASIZE).Push(0).Op(vm.CALLVALUE).Push(target).Op(vm.GAS, vm.CALL, vm.POP).
		Op(vm.RETURNDATASIZE).Push(0).Push(0).Op(vm.RETURNDATACOPY, vm.RETURNDATASIZE).Push(0).Op(vm.RETURN).Bytes()
	const head = 9 // bytes of what follows
	code := program.New().Op(vm.CALLDATASIZE).Push(head+5).Op(vm.JUMPI).Push(1).Push(0).Op(vm.SSTORE, vm.STOP)
	for len(code.Bytes()) < head+5 {
		code.Op(vm.STOP)
	}
	return append(append(code.Bytes(), byte(vm.JUMPDEST)), body...)
}

// scheduled is the schedule that a call returned.
func (r *rig) scheduled(rec *history.Record) hedera.ID {
	r.t.Helper()
	if got := r.code(rec); got != okay {
		r.t.Fatalf("code %s", got)
	}
	id, _ := hedera.FromLongZero(common.BytesToAddress(rec.Result.Output[32:64]))
	return id
}

func (r *rig) later(d time.Duration) *big.Int { return big.NewInt(r.Now().Add(d).Unix()) }

// A contract schedules a call of itself: it executes in its time and the contract pays.
func TestContractSchedulesACall(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	contract := r.deploy(from, 0, forwarder(scheduleAddress))
	r.want(r.submit(from.id, amounts(from.id.AccountID(), -1_000_000_000, r.entity(contract).AccountID(), 1_000_000_000), from.key), okay)
	rec := r.call(from, contract, 0, "scheduleCall(address,uint256,uint256,uint64,bytes)",
		contract, r.later(time.Hour), big.NewInt(100_000), uint64(0), []byte{})
	id := r.scheduled(rec)
	s, ok := r.View().Schedule(id)
	if !ok || s.Payer != r.entity(contract) || !s.WaitForExpiry || len(s.Signatories) != 1 || len(rec.Children) != 1 || rec.Children[0].Kind != history.KindScheduleCreate {
		t.Fatalf("schedule %+v, children %v", s, rec.Children)
	}
	before := r.balance(contract)
	r.IncreaseTime(time.Hour)
	r.Mine(1, 0)
	s, _ = r.View().Schedule(id)
	done, ok := r.View().RecordAt(s.Executed)
	if !ok || done.Status != okay || done.ID != s.Transaction || r.balance(contract) >= before {
		t.Fatalf("schedule %+v, record %+v", s, done)
	}
	if slot := r.View().Storage(r.entity(contract), common.Hash{}); slot.Value != number(1) {
		t.Errorf("slot %+v", slot)
	}
}

// Whoever is to pay agrees by a call of its own; then it executes at once.
func TestExecuteCallOnPayerSignature(t *testing.T) {
	r := newRig(t, Config{})
	from, payer := dev(t, 0), dev(t, 1)
	contract := r.deploy(from, 0, forwarder(scheduleAddress))
	const signature = "executeCallOnPayerSignature(address,address,uint256,uint256,uint64,bytes)"
	id := r.scheduled(r.call(from, contract, 0, signature, contract, payer.address, r.later(time.Hour), big.NewInt(100_000), uint64(0), []byte{}))
	if s, _ := r.View().Schedule(id); !s.Executed.IsZero() || s.Payer != payer.id {
		t.Fatalf("schedule %+v", s)
	}
	if got := r.code(r.call(from, id.LongZero(), 0, "signSchedule()")); got != hapi.ResponseCodeEnum_NO_NEW_VALID_SIGNATURES {
		t.Errorf("signed by another: %s", got)
	}
	if got := r.code(r.call(payer, id.LongZero(), 0, "signSchedule()")); got != okay {
		t.Errorf("signed: %s", got)
	}
	if s, _ := r.View().Schedule(id); s.Executed.IsZero() {
		t.Errorf("schedule %+v", s)
	}

	// A signature that somebody else brings counts as well.
	id = r.scheduled(r.call(from, contract, 0, signature, contract, payer.address, r.later(2*time.Hour), big.NewInt(100_000), uint64(0), []byte{}))
	signed := must.Get(crypto.Sign(crypto.Keccak256(evm.ScheduleMessage(id)), payer.key))(t)
	list := core.Marshal(&hapi.SignatureMap{SigPair: []*hapi.SignaturePair{{
		PubKeyPrefix: crypto.CompressPubkey(&payer.key.PublicKey), Signature: &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: signed[:64]},
	}}})
	if got := r.code(r.call(from, scheduleAddress, 0, "signSchedule(address,bytes)", id.LongZero(), list)); got != okay {
		t.Errorf("signed: %s", got)
	}
	if s, _ := r.View().Schedule(id); s.Executed.IsZero() {
		t.Errorf("schedule %+v", s)
	}
}

func TestScheduleServiceAnswers(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	contract := r.deploy(from, 0, forwarder(scheduleAddress))
	const call, withPayer = "scheduleCall(address,uint256,uint256,uint64,bytes)", "scheduleCallWithPayer(address,address,uint256,uint256,uint64,bytes)"
	huge, none := new(big.Int).Lsh(big.NewInt(1), 200), common.HexToAddress("0xabcdef0000000000000000000000000000000001")
	for _, tt := range []struct {
		name string
		rec  *history.Record
		want hedera.Status
	}{
		{"in the past", r.call(from, contract, 0, call, contract, r.later(-time.Hour), big.NewInt(100_000), uint64(0), []byte{}), hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_MUST_BE_HIGHER_THAN_CONSENSUS_TIME},
		{"too far", r.call(from, contract, 0, call, contract, huge, big.NewInt(100_000), uint64(0), []byte{}), hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_TOO_FAR_IN_FUTURE},
		{"too much gas", r.call(from, contract, 0, call, contract, r.later(time.Hour), huge, uint64(0), []byte{}), hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED},
		{"nobody pays", r.call(from, contract, 0, withPayer, contract, none, r.later(time.Hour), big.NewInt(100_000), uint64(0), []byte{}), hapi.ResponseCodeEnum_INVALID_SCHEDULE_PAYER_ID},
		{"signing none", r.call(from, contract, 0, "authorizeSchedule(address)", none), hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID},
	} {
		if got := r.code(tt.rec); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}

	// Its contract may delete it, and no other caller.
	id := r.scheduled(r.call(from, contract, 0, call, contract, r.later(time.Hour), big.NewInt(100_000), uint64(0), []byte{}))
	if got := r.code(r.call(from, id.LongZero(), 0, "deleteSchedule()")); got != hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE {
		t.Errorf("deleted by another: %s", got)
	}
	if got := r.code(r.call(from, contract, 0, "deleteSchedule(address)", id.LongZero())); got != okay {
		t.Errorf("deleted: %s", got)
	}
	for want, args := range map[bool][]any{true: {r.later(time.Hour), big.NewInt(1_000_000)}, false: {r.later(-time.Hour), big.NewInt(1_000_000)}} {
		rec := r.call(from, contract, 0, "hasScheduleCapacity(uint256,uint256)", args...)
		if got := common.BytesToHash(rec.Result.Output) == number(1); len(rec.Result.Output) != 32 || got != want {
			t.Errorf("capacity %x", rec.Result.Output)
		}
	}
}

// A frame that reverts takes its schedule back, and a simulation leaves none.
func TestScheduleIsTakenBack(t *testing.T) {
	r := newRig(t, Config{})
	from := dev(t, 0)
	inner := r.deploy(from, 0, forwarder(scheduleAddress))
	input := packed(t, "scheduleCall(address,uint256,uint256,uint64,bytes)", inner, r.later(time.Hour), big.NewInt(100_000), uint64(0), []byte{})
	result, err := r.View().Call(t.Context(), evm.CallRequest{From: &from.address, To: &inner, Data: input, Gas: 3_000_000})
	if err != nil || result.Status != okay || len(result.Output) != 64 {
		t.Fatalf("call: %+v, %v", result, err)
	}
	outer := r.deploy(from, 1, program.New().Op(vm.CALLDATASIZE).Push(0).Push(0).Op(vm.CALLDATACOPY).
		Push(0).Push(0).Op(vm.CALLDATASIZE).Push(0).Push(0).Push(inner).Op(vm.GAS, vm.CALL).Push(0).Push(0).Op(vm.REVERT).Bytes())
	rec := r.ethereum(from, dynamic(2, &outer, 0, 3_000_000, input))
	r.want(rec, hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED)
	if len(rec.Children) != 1 || rec.Children[0].Status != hapi.ResponseCodeEnum_REVERTED_SUCCESS {
		t.Errorf("children %+v", rec.Children)
	}
	for s := range r.View().Schedules(0, state.Last, false) {
		t.Errorf("schedule %+v", s)
	}
}

// The code of a schedule is the schedule service's.
func TestScheduleCode(t *testing.T) {
	r := newRig(t, Config{})
	payer, owner := dev(t, 0), dev(t, 1)
	id := r.schedule(payer, &scheduleBody{ScheduledTransactionBody: scheduledTransfer(owner.id, payer.id, 50)}).Did().Schedule
	size := r.deploy(payer, 0, returnTop(program.New().Push(id.LongZero()).Op(vm.EXTCODESIZE)))
	rec := r.ethereum(payer, dynamic(1, &size, 0, 100_000, nil))
	r.want(rec, okay)
	if got := common.BytesToHash(rec.Result.Output); got != number(int64(len(types.AddressToDelegation(scheduleAddress)))) {
		t.Errorf("size %s", got)
	}
}

// creating is a call of the token service that creates a token.
func creating(selector string, treasury party, amounts ...sysabi.Value) []byte {
	bytes := common.FromHex(selector)
	f := evm.NewTokenFunctions().Direct()[[4]byte(bytes)]
	token := sysabi.List(sysabi.Text("Coin"), sysabi.Text("C"), sysabi.Address(treasury.address), sysabi.Text("memo"), sysabi.Bool(true), sysabi.Int(900), sysabi.Bool(false),
		sysabi.List(sysabi.List(sysabi.Int(16), sysabi.List(sysabi.Bool(false), sysabi.Value{}, sysabi.Value{}, sysabi.Bytes(crypto.CompressPubkey(&treasury.key.PublicKey)), sysabi.Value{}))),
		sysabi.List(sysabi.Int(0), sysabi.Address(treasury.address), sysabi.Int(core.GenesisRenewal)))
	return append(bytes, sysabi.Encode(f.Args, append([]sysabi.Value{token}, amounts...))...)
}

// What a contract makes is activated by the signature of whoever administers it, on the transaction around the
// call; what the caller's whole key holds, it holds in a direct call.
func TestOutsideSignatures(t *testing.T) {
	const refused = hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE
	from, admin := dev(t, 0), dev(t, 1)
	call := func(r *rig, payer hedera.ID, to common.Address, value hedera.Tinybar, input []byte, keys ...*ecdsa.PrivateKey) hedera.Status {
		t.Helper()
		rec := r.submit(payer, core.BodyOf(&hapi.ContractCallTransactionBody{
			ContractID: &hapi.ContractID{Contract: &hapi.ContractID_EvmAddress{EvmAddress: to[:]}}, Gas: 3_000_000, Amount: int64(value), FunctionParameters: input,
		}), keys...)
		return r.code(rec)
	}
	t.Run("creation of a token", func(t *testing.T) {
		r := newRig(t, Config{})
		contract := r.deploy(from, 0, forwarder(serviceAddress))
		input := func(admin party) []byte {
			selector := common.FromHex("0x0fb65bf3") // createFungibleToken
			f := evm.NewTokenFunctions().Direct()[[4]byte(selector)]
			token := sysabi.List(sysabi.Text("Coin"), sysabi.Text("C"), sysabi.Address(contract), sysabi.Text(""), sysabi.Bool(false), sysabi.Int(0), sysabi.Bool(false),
				sysabi.List(sysabi.List(sysabi.Int(1), sysabi.List(sysabi.Bool(false), sysabi.Value{}, sysabi.Value{}, sysabi.Bytes(crypto.CompressPubkey(&admin.key.PublicKey)), sysabi.Value{}))),
				sysabi.List(sysabi.Int(0), sysabi.Value{}, sysabi.Int(0)))
			return append(selector, sysabi.Encode(f.Args, []sysabi.Value{token, sysabi.Int(500), sysabi.Int(3)})...)
		}
		if got := call(r, from.id, contract, evm.CreateFee, input(admin), from.key); got != refused {
			t.Errorf("without the admin: %s", got)
		}
		if got := call(r, from.id, contract, evm.CreateFee, input(admin), from.key, admin.key); got != okay {
			t.Errorf("with the admin: %s", got)
		}
		if got := r.code(r.ethereum(from, dynamic(1, &contract, evm.CreateFee, 3_000_000, input(from)))); got != okay {
			t.Errorf("by the sender of an Ethereum transaction: %s", got)
		}
	})
	t.Run("deletion of a schedule", func(t *testing.T) {
		r := newRig(t, Config{})
		id := r.schedule(from, &scheduleBody{ScheduledTransactionBody: scheduledTransfer(dev(t, 2).id, from.id, 50), AdminKey: publicKey(admin)}, admin.key).Did().Schedule
		input := packed(t, "deleteSchedule()")
		if got := call(r, from.id, id.LongZero(), 0, input, from.key); got != refused {
			t.Errorf("without the admin: %s", got)
		}
		direct := packed(t, "deleteSchedule(address)", id.LongZero())
		if got := call(r, from.id, scheduleAddress, 0, direct, from.key, admin.key); got != refused {
			t.Errorf("not at the schedule: %s", got)
		}
		if got := call(r, from.id, id.LongZero(), 0, input, from.key, admin.key); got != okay {
			t.Errorf("with the admin: %s", got)
		}
	})
	t.Run("a whole key", func(t *testing.T) {
		r := newRig(t, Config{})
		either := &hapi.Key{Key: &hapi.Key_ThresholdKey{ThresholdKey: &hapi.ThresholdKey{
			Threshold: 1, Keys: &hapi.KeyList{Keys: []*hapi.Key{publicKey(from), publicKey(admin)}},
		}}}
		rec := r.submit(from.id, create(func(b *hapi.CryptoCreateTransactionBody) { b.Key, b.InitialBalance = either, 10_000_000_000 }), from.key)
		r.want(rec, okay)
		token := r.fungibleToken(from, func(b *hapi.TokenCreateTransactionBody) { b.SupplyKey = either })
		mint := packed(t, "mintToken(address,int64,bytes[])", token.LongZero(), int64(1), [][]byte{})
		if got := call(r, rec.Account, serviceAddress, 0, mint, admin.key); got != okay {
			t.Errorf("as its payer's: %s", got)
		}
		if got := r.code(r.ethereum(admin, dynamic(0, &serviceAddress, 0, 3_000_000, mint))); got != refused {
			t.Errorf("as one of its keys: %s", got)
		}
	})
	// A schedule keeps the single keys that agreed, so there a part of a key counts.
	t.Run("a part of a key, for a schedule", func(t *testing.T) {
		r := newRig(t, Config{})
		either := &hapi.Key{Key: &hapi.Key_ThresholdKey{ThresholdKey: &hapi.ThresholdKey{
			Threshold: 1, Keys: &hapi.KeyList{Keys: []*hapi.Key{publicKey(from), publicKey(admin)}},
		}}}
		rec := r.submit(from.id, create(func(b *hapi.CryptoCreateTransactionBody) { b.Key, b.InitialBalance = either, 10_000_000_000 }), from.key)
		r.want(rec, okay)
		other := dev(t, 2)
		id := r.schedule(other, &scheduleBody{ScheduledTransactionBody: scheduledTransfer(rec.Account, other.id, 50)}, other.key).Did().Schedule
		at := id.LongZero()
		if got := r.code(r.ethereum(admin, dynamic(0, &at, 0, 3_000_000, packed(t, "signSchedule()")))); got != okay {
			t.Errorf("signed by the sender: %s", got)
		}
		if s, _ := r.View().Schedule(id); s.Executed.IsZero() {
			t.Errorf("not executed: %+v", s)
		}
	})
}

// A contract schedules the creation of a token whose treasury is another's: it is made once the
// treasury agrees, and until then the service tells what it will be.
func TestContractSchedulesAToken(t *testing.T) {
	r := newRig(t, Config{})
	from, treasury := dev(t, 0), dev(t, 1)
	contract := r.deploy(from, 0, forwarder(scheduleAddress))
	r.want(r.submit(from.id, amounts(from.id.AccountID(), -5_000_000_000, r.entity(contract).AccountID(), 5_000_000_000), from.key), okay)
	const native, fungible, nonFungible = "scheduleNative(address,bytes,address)", "getScheduledCreateFungibleTokenInfo(address)", "getScheduledCreateNonFungibleTokenInfo(address)"
	coin := creating("0x0fb65bf3", treasury, sysabi.Int(500), sysabi.Int(3)) // createFungibleToken
	id := r.scheduled(r.call(from, contract, 0, native, serviceAddress, coin, contract))
	s, _ := r.View().Schedule(id)
	if !s.Executed.IsZero() || s.Payer != r.entity(contract) || s.Body.GetTokenCreation().GetName() != "Coin" || s.WaitForExpiry {
		t.Fatalf("schedule %+v", s)
	}
	rec := r.call(from, contract, 0, fungible, id.LongZero())
	if got := r.code(rec); got != okay {
		t.Fatalf("information: %s", got)
	}
	info, ok := sysabi.Decode(sysabi.ParseTypes("int64,"+evm.Expand("(INFO,int32)")), rec.Result.Output)
	if !ok {
		t.Fatalf("information %x", rec.Result.Output)
	}
	basics, supply, decimals := info[1].List[0].List[0].List, info[1].List[0].List[1].Int64(), info[1].List[1].Int64()
	if basics[0].Text() != "Coin" || basics[2].Address() != treasury.address || basics[5].Int64() != 900 || supply != 500 || decimals != 3 ||
		basics[8].List[1].Address() != treasury.address || basics[8].List[2].Int64() != core.GenesisRenewal {
		t.Errorf("information %+v", info)
	}
	if got := r.code(r.call(from, contract, 0, nonFungible, id.LongZero())); got != hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID {
		t.Errorf("as a token of the other type: %s", got)
	}
	if got := r.code(r.call(treasury, id.LongZero(), 0, "signSchedule()")); got != okay {
		t.Fatalf("signed: %s", got)
	}
	s, _ = r.View().Schedule(id)
	done, ok := r.View().RecordAt(s.Executed)
	if !ok || done.Status != okay || done.Kind != history.KindTokenCreate {
		t.Fatalf("schedule %+v, record %+v", s, done)
	}
	if made, _ := r.View().Token(done.Did().Token); made.Supply != 500 || made.Treasury != treasury.id || made.MaxSupply != 900 || made.Keys.Supply == nil {
		t.Errorf("token %+v", made)
	}

	art := creating("0xea83f293", treasury) // createNonFungibleToken
	id = r.scheduled(r.call(from, contract, 0, native, serviceAddress, art, treasury.address))
	if got := r.code(r.call(from, contract, 0, nonFungible, id.LongZero())); got != okay {
		t.Errorf("information: %s", got)
	}
	if s, _ := r.View().Schedule(id); s.Payer != treasury.id || !s.Executed.IsZero() {
		t.Errorf("schedule %+v", s)
	}
	for name, tt := range map[string]struct {
		service common.Address
		input   []byte
		payer   common.Address
		want    hedera.Status
	}{
		"another service": {scheduleAddress, coin, contract, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID},
		"nobody pays":     {serviceAddress, coin, common.HexToAddress("0xabcdef0000000000000000000000000000000001"), hapi.ResponseCodeEnum_INVALID_SCHEDULE_PAYER_ID},
		"a transfer":      {serviceAddress, packed(t, "transferToken(address,address,address,int64)", contract, contract, contract, int64(1)), contract, hapi.ResponseCodeEnum_SCHEDULED_TRANSACTION_NOT_IN_WHITELIST},
		"a short input":   {serviceAddress, coin[:100], contract, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"none":            {serviceAddress, nil, contract, hapi.ResponseCodeEnum_SCHEDULED_TRANSACTION_NOT_IN_WHITELIST},
	} {
		if got := r.code(r.call(from, contract, 0, native, tt.service, tt.input, tt.payer)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
