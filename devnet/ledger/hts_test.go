package ledger

import (
	"encoding/binary"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// selectors are those that contracts on the network call, with the names of the functions.
const tokenSelectors = `
0x927da105 allowance
0xdd62ed3e allowance
0x0a754de6 associate
0x49146bde associateToken
0x099794e8 dissociateToken
0x5c9217e0 dissociate
0x2e63879b associateTokens
0x78b63918 dissociateTokens
0x70a08231 balanceOf
0xacb9cff9 burnToken
0xd6910d06 burnToken
0x7812a04b createFungibleToken
0xc23baeb6 createFungibleToken
0x0fb65bf3 createFungibleToken
0x4c381ae7 createFungibleTokenWithCustomFees
0xb937581a createFungibleTokenWithCustomFees
0x2af0c59a createFungibleTokenWithCustomFees
0x9dc711e0 createNonFungibleToken
0x9c89bb35 createNonFungibleToken
0xea83f293 createNonFungibleToken
0x5bc7c0e6 createNonFungibleTokenWithCustomFees
0x45733969 createNonFungibleTokenWithCustomFees
0xabb54eb5 createNonFungibleTokenWithCustomFees
0x7cb8323a createFungibleToken
0x5ac3e67a createFungibleTokenWithCustomFees
0xad7f8f0b createNonFungibleToken
0xc5bc16bc createNonFungibleTokenWithCustomFees
0xae7611a0 getTokenCustomFees
0x313ce567 decimals
0xa7daa18d getTokenDefaultFreezeStatus
0x335e04c1 getTokenDefaultKycStatus
0xf069f712 deleteToken
0x5b8f8584 freezeToken
0x52f91387 unfreezeToken
0x3f28a19b getFungibleTokenInfo
0x098f2366 getApproved
0x081812fc getApproved
0x095ea7b3 approve
0xe1f21c67 approve
0x7336aaf0 approveNFT
0x8f8d7f99 grantTokenKyc
0xaf99c633 revokeTokenKyc
0xf49f40db isApprovedForAll
0xe985e9c5 isApprovedForAll
0x4d8fdd6d isAssociated
0x46de0fb1 isFrozen
0xf2c31ff4 isKyc
0x19f37361 isToken
0x278e0b88 mintToken
0xe0f4059a mintToken
0x06fdde03 name
0x287e1da8 getNonFungibleTokenInfo
0x6352211e ownerOf
0x7c41ad2c pauseToken
0x3b3bff0f unpauseToken
0x367605ca setApprovalForAll
0xa22cb465 setApprovalForAll
0x95d89b41 symbol
0xd614cdb8 getTokenExpiryInfo
0x1f69565f getTokenInfo
0x3c4dd32e getTokenKey
0x93272baf getTokenType
0xc87b56dd tokenURI
0x18160ddd totalSupply
0x2f348119 airdropTokens
0x012ebcaf cancelAirdrops
0xcef5b705 cancelAirdropFT
0xad4917cf cancelAirdropNFT
0x05961641 claimAirdrops
0xa83bc5b2 claimAirdropFT
0x63ada5d7 claimAirdropNFT
0xebd595e0 rejectTokens
0x76c6b391 rejectTokenFT
0xa869c78a rejectTokenNFTs
0x189a554c cryptoTransfer
0x0e71804f cryptoTransfer
0x82bba493 transferTokens
0xeca36917 transferToken
0x2c4ba191 transferNFTs
0x5cfc9011 transferNFT
0x15dacbea transferFrom
0x9b23d3d9 transferFromNFT
0xa9059cbb transfer
0x23b872dd transferFrom
0x593d6e82 updateTokenExpiryInfo
0xd27be6cd updateTokenExpiryInfo
0x6fc3cbaf updateTokenKeys
0x2cccc36f updateTokenInfo
0x18370d34 updateTokenInfo
0x7d305cfa updateTokenInfo
0x0fcaca1f updateNFTsMetadata
0x54c832a5 updateTokenInfo
0xd5f60c47 updateFungibleTokenCustomFees
0x30727a29 updateNonFungibleTokenCustomFees
0x9790686d wipeTokenAccount
0xefef57f9 wipeTokenAccount
0xf7f38e26 wipeTokenAccountNFT
`

// Every function answers to the selector that it has on the network. Of the token service, those with metadata in them
// came later, and HRC-719 and the redirect are listed elsewhere.
func TestSelectors(t *testing.T) {
	for _, service := range []struct {
		functions *serviceFunctions
		selectors string
		unlisted  int
	}{
		{newTokenFunctions(), tokenSelectors, 8}, {newAccountFunctions(), accountSelectors, 0}, {newScheduleFunctions(), scheduleSelectors, 0},
	} {
		listed := 0
		for line := range strings.Lines(strings.TrimSpace(service.selectors)) {
			selector, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			key := [4]byte(common.FromHex(selector))
			f := service.functions.direct()[key]
			if f == nil {
				f = service.functions.facade()[key]
			}
			if f == nil || !strings.HasPrefix(f.signature, name+"(") {
				t.Errorf("%s %s: %+v", selector, name, f)
			}
			listed++
		}
		if got := len(service.functions.direct()) + len(service.functions.facade()); got < listed || got > listed+service.unlisted {
			t.Errorf("%s: %d functions, %d are listed", service.functions.name, got, listed)
		}
	}
}

const accountSelectors = `
0xdea3d081 getEvmAddressAlias
0xbbee989e hbarAllowance
0xfec46666 hbarAllowance
0x86aff07c hbarApprove
0xa0918464 hbarApprove
0xbbf12d2e getHederaAccountNumAlias
0xb2526367 isAuthorized
0xb2a31da4 isAuthorizedRaw
0x308ef301 isValidAlias
0xf5677e99 setUnlimitedAutomaticAssociations
`

const scheduleSelectors = `
0x72d42394 deleteSchedule
0xc61dea85 deleteSchedule
0xdfb4a999 hasScheduleCapacity
0xda2d5f8f getScheduledCreateFungibleTokenInfo
0xd68c902c getScheduledCreateNonFungibleTokenInfo
0xca829811 scheduleNative
0x6f5bfde8 scheduleCall
0xe6599c18 scheduleCallWithPayer
0x105772b2 executeCallOnPayerSignature
0x358eeb03 signSchedule
0x06d15889 signSchedule
0xf0637961 authorizeSchedule
`

// call has an account call an address with arguments encoded by another's encoder.
func (r *rig) call(from party, to common.Address, value hedera.Tinybar, signature string, args ...any) *history.Record {
	r.t.Helper()
	a, _ := r.Handled().AccountByAddress(from.address)
	return r.ethereum(from, dynamic(uint64(a.Nonce), &to, value, 3_000_000, packed(r.t, signature, args...)))
}

func packed(t testing.TB, signature string, args ...any) []byte {
	t.Helper()
	parsed, err := abi.ParseSelector(signature)
	if err != nil {
		t.Fatal(err)
	}
	var types abi.Arguments
	for _, in := range parsed.Inputs {
		typ, err := abi.NewType(in.Type, in.InternalType, in.Components)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, abi.Argument{Type: typ})
	}
	data, err := types.Pack(args...)
	if err != nil {
		t.Fatal(err)
	}
	return append(abi.NewMethod(parsed.Name, parsed.Name, abi.Function, "", false, false, types, nil).ID, data...)
}

var serviceAddress = hedera.Entity(numTokenService).LongZero()

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
	f := newTokenFunctions().direct()[[4]byte(selector)]
	entry := func(a common.Address, amount int64) sysabi.Value {
		return sysabi.List(sysabi.Address(a), sysabi.Int(amount), sysabi.Bool(false))
	}
	input := append(selector, sysabi.Encode(f.args, []sysabi.Value{
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
	if want := hexBytes(sysabi.Word(int64(hapi.ResponseCodeEnum_INSUFFICIENT_TOKEN_BALANCE)).Bytes()); rec.Result.ErrorMessage != want {
		t.Errorf("reverted with %s", rec.Result.ErrorMessage)
	}
	rec = r.call(other, at, 0, "transfer(address,uint256)", owner.address, big.NewInt(30))
	r.want(rec, okay)
	if logs := rec.Result.Logs; len(logs) != 1 || logs[0].Contract != token || logs[0].Topics[0] != topicTransfer || rec.Result.Target != token {
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
	result, err := r.View().Call(t.Context(), CallRequest{
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
		result, err := r.View().Call(t.Context(), CallRequest{To: &serviceAddress, Data: packed(t, signature, at)})
		if err != nil || result.Status != okay || len(result.Output) < 32*words || result.Output[31] != byte(okay) {
			t.Errorf("%s: %d bytes, %v, %v", signature, len(result.Output), result.Status, err)
		}
	}
}
