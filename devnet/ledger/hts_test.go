package ledger

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/binary"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
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

var accountAddress = hedera.Entity(evm.NumAccountService).LongZero()

// Allowances of hbar, at the service and at an account's own address.
func TestHbarAllowances(t *testing.T) {
	r := newRig(t, Config{})
	owner, spender, stranger := dev(t, 0), dev(t, 1), fresh(t, 7)
	word := func(rec *history.Record, i int) int64 {
		return new(big.Int).SetBytes(rec.Result.Output[32*i : 32*i+32]).Int64()
	}
	rec := r.call(owner, accountAddress, 0, "hbarApprove(address,address,int256)", owner.address, spender.address, big.NewInt(500))
	if got := r.code(rec); got != okay || len(rec.Children) != 1 || rec.Children[0].Kind != history.KindCryptoApprove {
		t.Errorf("approve: %s, children %+v", got, rec.Children)
	}
	rec = r.call(spender, accountAddress, 0, "hbarAllowance(address,address)", owner.address, spender.address)
	if got := r.code(rec); got != okay || word(rec, 1) != 500 || len(rec.Children) != 0 {
		t.Errorf("allowance: %s %d", got, word(rec, 1))
	}
	// At the owner's own address, for its own caller.
	if got := r.code(r.call(owner, owner.address, 0, "hbarApprove(address,int256)", spender.address, big.NewInt(40))); got != okay {
		t.Errorf("approve at the account: %s", got)
	}
	rec = r.call(spender, owner.address, 0, "hbarAllowance(address)", spender.address)
	if got := r.code(rec); got != okay || word(rec, 1) != 40 {
		t.Errorf("allowance at the account: %s %d", got, word(rec, 1))
	}
	for a := range r.View().Allowances(owner.id, false) {
		if a.Amount != 40 || a.Spender != spender.id {
			t.Errorf("%+v", a)
		}
	}
	// Nobody approves for others, and what is wrong has its code.
	for name, tt := range map[string]struct {
		owner, spender common.Address
		amount         int64
		want           hedera.Status
	}{
		"another's":  {owner.address, spender.address, 1, hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE},
		"negative":   {spender.address, owner.address, -1, hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT},
		"to oneself": {spender.address, spender.address, 1, hapi.ResponseCodeEnum_SPENDER_ACCOUNT_SAME_AS_OWNER},
		"to nobody":  {spender.address, stranger.address, 1, hapi.ResponseCodeEnum_INVALID_ALLOWANCE_SPENDER_ID},
	} {
		rec := r.call(spender, accountAddress, 0, "hbarApprove(address,address,int256)", tt.owner, tt.spender, big.NewInt(tt.amount))
		if got := r.code(rec); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	r.want(r.call(owner, accountAddress, 0, "hbarAllowance(address,address)", stranger.address, owner.address), hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED)
	// Other call data to an account means nothing.
	rec = r.call(owner, spender.address, 0, "balanceOf(address)", owner.address)
	r.want(rec, okay)
	if len(rec.Result.Output) != 0 {
		t.Errorf("an account answers %x", rec.Result.Output)
	}
}

// The address of an account's number and its own translate into one another. Of what is unknown there is a code and
// the zero address, and nothing reverts.
func TestAddressAliases(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	own, number, unknown := owner.address, owner.id.LongZero(), hedera.Entity(9_999).LongZero()
	for _, tt := range []struct {
		signature string
		of        common.Address
		code      hedera.Status
		is        common.Address
	}{
		{"getEvmAddressAlias(address)", number, okay, own},
		{"getEvmAddressAlias(address)", own, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, common.Address{}},
		{"getEvmAddressAlias(address)", unknown, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, common.Address{}},
		{"getHederaAccountNumAlias(address)", own, okay, number},
		{"getHederaAccountNumAlias(address)", fresh(t, 7).address, hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS, common.Address{}},
	} {
		rec := r.call(owner, accountAddress, 0, tt.signature, tt.of)
		r.want(rec, okay)
		if out := rec.Result.Output; len(out) != 64 || r.code(rec) != tt.code || common.BytesToAddress(out[32:]) != tt.is {
			t.Errorf("%s of %s: %x, want %s and %s", tt.signature, tt.of, out, tt.code, tt.is)
		}
	}
}

// An account opens itself for tokens, and nobody else does.
func TestUnlimitedAssociations(t *testing.T) {
	r := newRig(t, Config{})
	owner, other := dev(t, 0), dev(t, 1)
	const signature = "setUnlimitedAutomaticAssociations(bool)"
	rec := r.call(owner, owner.address, 0, signature, true)
	if got := r.code(rec); got != okay || len(rec.Children) != 1 || rec.Children[0].Kind != history.KindCryptoUpdate {
		t.Errorf("%s, children %+v", got, rec.Children)
	}
	if got := r.code(r.call(other, owner.address, 0, signature, false)); got != hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE {
		t.Errorf("by another: %s", got)
	}
	if a, _ := r.View().Account(owner.id); a.MaxAutoAssociations != -1 {
		t.Errorf("limit %d", a.MaxAutoAssociations)
	}
	if got := r.code(r.call(owner, owner.address, 0, signature, false)); got != okay {
		t.Errorf("back: %s", got)
	}
	if a, _ := r.View().Account(owner.id); a.MaxAutoAssociations != 0 {
		t.Errorf("limit %d", a.MaxAutoAssociations)
	}
}

// Signatures are checked against the keys of accounts.
func TestAccountSignatures(t *testing.T) {
	r := newRig(t, Config{})
	one, two := dev(t, 0), dev(t, 1)
	seed := make([]byte, ed25519.SeedSize)
	private := ed25519.NewKeyFromSeed(seed)
	edPublic := []byte(private[32:])
	rec := r.submit(one.id, create(func(b *hapi.CryptoCreateTransactionBody) { b.Key = hapikey.Ed25519(edPublic) }), one.key)
	r.want(rec, okay)
	edAccount := rec.Account.LongZero()
	both := &hapi.Key{Key: &hapi.Key_KeyList{KeyList: &hapi.KeyList{Keys: []*hapi.Key{publicKey(one), hapikey.Ed25519(edPublic)}}}}
	rec = r.submit(one.id, create(func(b *hapi.CryptoCreateTransactionBody) { b.Key = both }), one.key)
	r.want(rec, okay)
	listed := rec.Account.LongZero()

	message := []byte("what was agreed")
	hash := crypto.Keccak256(message)
	ec := must.Get(crypto.Sign(hash, one.key))(t)
	eip155 := append(append([]byte(nil), ec[:64]...), big.NewInt(int64(ec[64])+35+2*testChain).Bytes()...)
	broken := append([]byte(nil), ec...)
	broken[64] = 30
	ed := ed25519.Sign(private, message)
	const raw = "isAuthorizedRaw(address,bytes,bytes)"
	for name, tt := range map[string]struct {
		account         common.Address
		hash, signature []byte
		want            bool
		failure         hedera.Status
	}{
		"secp256k1":             {one.address, hash, ec, true, okay},
		"with a chain id":       {one.address, hash, eip155, true, okay},
		"another's":             {two.address, hash, ec, false, okay},
		"of something else":     {one.address, crypto.Keccak256([]byte("else")), ec, false, okay},
		"an impossible v":       {one.address, hash, broken, false, okay},
		"by number":             {one.id.LongZero(), hash, ec, false, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID},
		"no hash":               {one.address, message, ec, false, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"too short":             {one.address, hash, ec[:63], false, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"Ed25519":               {edAccount, message, ed, true, okay},
		"Ed25519, of else":      {edAccount, hash, ed, false, okay},
		"Ed25519 for secp256k1": {one.address, message, ed, false, hapi.ResponseCodeEnum_INVALID_SIGNATURE_TYPE_MISMATCHING_KEY},
		"a list":                {listed, message, ed, false, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"nobody":                {fresh(t, 8).address, hash, ec, false, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID},
	} {
		rec := r.call(two, accountAddress, 0, raw, tt.account, tt.hash, tt.signature)
		if tt.failure != okay {
			r.want(rec, hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED)
			if want := hexutil.Encode(sysabi.Word(int64(tt.failure)).Bytes()); rec.Result.ErrorMessage != want {
				t.Errorf("%s: %s, want %s", name, rec.Result.ErrorMessage, want)
			}
			continue
		}
		r.want(rec, okay)
		if got := rec.Result.Output; len(got) != 32 || (got[31] == 1) != tt.want {
			t.Errorf("%s: %x", name, got)
		}
	}
	pairs := func(list ...*hapi.SignaturePair) []byte { return core.Marshal(&hapi.SignatureMap{SigPair: list}) }
	ecPair := &hapi.SignaturePair{PubKeyPrefix: publicKey(one).GetECDSASecp256K1(), Signature: &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: ec}}
	edPair := &hapi.SignaturePair{PubKeyPrefix: edPublic, Signature: &hapi.SignaturePair_Ed25519{Ed25519: ed}}
	for name, tt := range map[string]struct {
		account common.Address
		blob    []byte
		code    hedera.Status
		want    bool
	}{
		"both of a list": {listed, pairs(ecPair, edPair), okay, true},
		"one of a list":  {listed, pairs(edPair), okay, false},
		"single":         {edAccount, pairs(edPair), okay, true},
		"none":           {edAccount, nil, okay, false},
		"nonsense":       {edAccount, []byte{1}, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY, false},
		"nobody":         {fresh(t, 8).address, pairs(edPair), hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, false},
	} {
		rec := r.call(two, accountAddress, 0, "isAuthorized(address,bytes,bytes)", tt.account, message, tt.blob)
		if got := r.code(rec); got != tt.code || (rec.Result.Output[63] == 1) != tt.want {
			t.Errorf("%s: %s %x", name, got, rec.Result.Output)
		}
		if name == "both of a list" && rec.Result.GasUsed < evm.EcdsaGas+evm.Ed25519Gas {
			t.Errorf("gas %d", rec.Result.GasUsed)
		}
	}
}

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
