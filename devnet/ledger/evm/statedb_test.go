package evm

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	ethstate "github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// The overlay must behave under the EVM as go-ethereum's own state does: random
// contracts that call each other run on both, and everything observable must agree.
func TestOverlayAgreesWithStateDB(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 25
	}
	e := emptyEngine()
	for seed := range uint64(rounds) {
		world := randomWorld(seed)
		ours, theirs := world.run(t, e, world.overlay(e)), world.run(t, e, world.stateDB(t))
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

// FuzzOverlay is the same for worlds of the fuzzer's choice.
func FuzzOverlay(f *testing.F) {
	f.Add(uint64(1))
	e := emptyEngine()
	f.Fuzz(func(t *testing.T, seed uint64) {
		world := randomWorld(seed)
		ours, theirs := world.run(t, e, world.overlay(e)), world.run(t, e, world.stateDB(t))
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Fatal(diff)
		}
	})
}

// emptyEngine is one of a network in which nothing is.
func emptyEngine() *Engine {
	return NewEngine(&core.Network{Store: state.NewStore(nil)}, 298, false)
}

// testWorld is some contracts and an account that calls the first of them.
type testWorld struct {
	sender    common.Address
	contracts []common.Address
	code      [][]byte
	slots     []common.Hash
	unused    []common.Address
}

const worldBalance = 1_000_000

func randomWorld(seed uint64) *testWorld {
	random := rand.New(rand.NewPCG(seed, 1))
	w := &testWorld{sender: common.BytesToAddress([]byte{0xa0, 19: 1})}
	for i := range byte(4) {
		w.contracts = append(w.contracts, common.BytesToAddress([]byte{0xc0, 19: i}))
		w.unused = append(w.unused, common.BytesToAddress([]byte{0xd0, 19: i}))
		w.slots = append(w.slots, common.Hash{31: i})
	}
	for range w.contracts {
		w.code = append(w.code, w.randomCode(random, 3+random.IntN(20)))
	}
	return w
}

// randomCode does a number of random things to state and then ends in some way.
func (w *testWorld) randomCode(random *rand.Rand, steps int) []byte {
	p := program.New()
	any := func(list []common.Address) common.Address { return list[random.IntN(len(list))] }
	where := func() common.Address {
		if random.IntN(4) == 0 {
			return any(w.unused)
		}
		return any(w.contracts)
	}
	for range steps {
		gas := uint256.NewInt(uint64(random.IntN(200_000)))
		slot := random.IntN(len(w.slots))
		switch random.IntN(16) {
		case 0, 1, 2:
			p.Sstore(slot, random.IntN(3))
		case 3:
			p.Tstore(slot, random.IntN(3))
		case 4:
			p.Push(slot).Op(vm.SLOAD).Push(random.IntN(4)).Op(vm.SSTORE)
		case 5:
			p.Push(slot).Op(vm.TLOAD).Push(random.IntN(4)).Op(vm.SSTORE)
		case 6, 7:
			p.Call(gas, where(), random.IntN(3), 0, 0, 0, 0).Push(random.IntN(4)).Op(vm.SSTORE)
		case 8:
			p.DelegateCall(gas, any(w.contracts), 0, 0, 0, 0).Op(vm.POP)
		case 9:
			p.StaticCall(gas, where(), 0, 0, 0, 0).Push(random.IntN(4)).Op(vm.SSTORE)
		case 10:
			p.CallCode(gas, any(w.contracts), 0, 0, 0, 0, 0).Op(vm.POP)
		case 11:
			p.Push(where()).Op(vm.BALANCE).Push(random.IntN(4)).Op(vm.SSTORE)
		case 12:
			p.Push(where()).Op(vm.EXTCODEHASH).Push(random.IntN(4)).Op(vm.SSTORE)
		case 13:
			p.Push(slot).Push(random.IntN(3)).Push(0).Op(vm.LOG1)
		case 14:
			p.Create2(w.smallInit(random), random.IntN(3)).Push(random.IntN(4)).Op(vm.SSTORE)
		case 15:
			p.Push(0).Push(0).Push(random.IntN(2)).Op(vm.CREATE).Push(random.IntN(4)).Op(vm.SSTORE)
		}
	}
	switch random.IntN(8) {
	case 0:
		p.Push(0).Push(0).Op(vm.REVERT)
	case 1:
		p.Op(vm.INVALID)
	case 2:
		p.Selfdestruct(any(w.contracts)) // to nobody is another matter here
	default:
		p.Op(vm.SELFBALANCE).Push(0).Op(vm.MSTORE).Return(0, 32)
	}
	return p.Bytes()
}

// smallInit is init code that stores, and ends in some way.
func (w *testWorld) smallInit(random *rand.Rand) []byte {
	p := program.New().Sstore(random.IntN(4), random.IntN(3))
	switch random.IntN(4) {
	case 0:
		return p.Push(0).Push(0).Op(vm.REVERT).Bytes()
	case 1:
		return p.Selfdestruct(w.contracts[random.IntN(len(w.contracts))]).Bytes()
	case 2:
		return p.Sstore(random.IntN(4), 0).ReturnData(program.New().Sstore(1, random.IntN(3)).Bytes()).Bytes()
	default:
		return p.Bytes()
	}
}

// overlay is the world as an overlay.
func (w *testWorld) overlay(e *Engine) vm.StateDB {
	o := core.NewWork(e.net.Store, 0, false)
	balance, nonce := hedera.Tinybar(worldBalance), uint64(1)
	accounts := map[common.Address]state.Override{w.sender: {Balance: &balance, Nonce: &nonce}}
	for i, a := range w.contracts {
		accounts[a] = state.Override{
			Balance: &balance, Nonce: &nonce, Code: w.code[i], State: map[common.Hash]common.Hash{w.slots[1]: {31: 1}},
		}
	}
	o.Override(accounts)
	return newStateDB(o)
}

// stateDB is the world as go-ethereum's state.
func (w *testWorld) stateDB(t *testing.T) vm.StateDB {
	t.Helper()
	db := ethstate.NewDatabase(triedb.NewDatabase(rawdb.NewMemoryDatabase(), nil), nil)
	s := must.Get(ethstate.New(types.EmptyRootHash, db))(t)
	set := func(a common.Address) {
		s.SetBalance(a, uint256.NewInt(worldBalance), tracing.BalanceChangeUnspecified)
		s.SetNonce(a, 1, tracing.NonceChangeUnspecified)
	}
	set(w.sender)
	for i, a := range w.contracts {
		set(a)
		s.SetCode(a, w.code[i], tracing.CodeChangeUnspecified)
		s.SetState(a, w.slots[1], common.Hash{31: 1})
	}
	root := must.Get(s.Commit(params.Rules{}, 0))(t)
	return must.Get(ethstate.New(root, db))(t)
}

// observed is everything that can be seen of a run.
type observed struct {
	Output   []byte
	Gas      uint64
	Err      string
	Refund   uint64
	Accounts map[common.Address]observedAccount
	Logs     []common.Address
}

type observedAccount struct {
	Exists, Empty, Destroyed bool
	Balance                  string
	Nonce                    uint64
	CodeHash                 common.Hash
	Slots                    []common.Hash
}

func (w *testWorld) run(t *testing.T, e *Engine, db vm.StateDB) observed {
	t.Helper()
	touched := map[common.Address]bool{w.sender: true}
	for _, a := range slices.Concat(w.contracts, w.unused) {
		touched[a] = true
	}
	block := vm.BlockContext{
		CanTransfer: func(db vm.StateDB, a common.Address, v *uint256.Int) bool { return db.GetBalance(a).Cmp(v) >= 0 },
		Transfer: func(db vm.StateDB, from, to common.Address, v *uint256.Int, _ *params.Rules) {
			db.SubBalance(from, v, tracing.BalanceChangeTransfer)
			db.AddBalance(to, v, tracing.BalanceChangeTransfer)
		},
		BlockNumber: big.NewInt(1), Difficulty: new(big.Int), BaseFee: new(big.Int), BlobBaseFee: big.NewInt(1),
		Random: &common.Hash{}, GasLimit: 1_000_000,
	}
	tracer := &tracing.Hooks{OnEnter: func(_ int, _ byte, _, to common.Address, _ []byte, _ uint64, _ *big.Int) { touched[to] = true }}
	evm := vm.NewEVM(block, db, e.chain, vm.Config{Tracer: tracer})
	evm.SetTxContext(vm.TxContext{Origin: w.sender, GasPrice: new(uint256.Int)})
	to := w.contracts[0]
	db.Prepare(evm.GetRules(), w.sender, w.sender, &to, e.warmed, nil)
	output, left, err := evm.Call(w.sender, to, nil, vm.NewGasBudget(500_000, 0), uint256.NewInt(3))
	seen := observed{Output: output, Gas: left.ExecutionGas, Refund: db.GetRefund(), Accounts: map[common.Address]observedAccount{}}
	if err != nil {
		seen.Err = err.Error()
	}
	for a := range touched {
		account := observedAccount{
			Exists: db.Exist(a), Empty: db.Empty(a), Destroyed: db.HasSelfDestructed(a),
			Balance: db.GetBalance(a).String(), Nonce: db.GetNonce(a), CodeHash: db.GetCodeHash(a),
		}
		if account.Empty { // Ethereum makes an empty account of what is looked at, until the transaction ends
			account.Exists, account.CodeHash = false, common.Hash{}
		}
		for _, slot := range w.slots {
			account.Slots = append(account.Slots, db.GetState(a, slot), db.GetTransientState(a, slot))
		}
		seen.Accounts[a] = account
	}
	switch db := db.(type) {
	case *stateDB:
		for _, log := range db.logs {
			seen.Logs = append(seen.Logs, log.Address)
		}
	case *ethstate.StateDB:
		for _, log := range db.Logs() {
			seen.Logs = append(seen.Logs, log.Address)
		}
	}
	return seen
}

// A snapshot that is gone back to leaves nothing, whatever happened since.
func TestRevertIsComplete(t *testing.T) {
	e := emptyEngine()
	w := randomWorld(5)
	o, _ := w.overlay(e).(*stateDB)
	before := o.Snapshot()
	a := common.BytesToAddress([]byte{0xee, 19: 1})
	o.CreateAccount(a)
	o.CreateContract(a)
	o.SetNonce(a, 5, 0)
	o.AddBalance(a, uint256.NewInt(7), 0)
	o.SetCode(a, []byte{1}, 0)
	o.SetState(a, common.Hash{1}, common.Hash{2})
	o.SetTransientState(a, common.Hash{1}, common.Hash{2})
	o.AddRefund(9)
	o.AddLog(&types.Log{Address: a})
	o.AddSlotToAccessList(a, common.Hash{1})
	o.SelfDestruct(a)
	o.RevertToSnapshot(before)
	_, warmSlot := o.SlotInAccessList(a, common.Hash{1})
	if o.Exist(a) || !o.Empty(a) || o.IsNewContract(a) || o.HasSelfDestructed(a) || o.GetState(a, common.Hash{1}) != (common.Hash{}) ||
		o.GetTransientState(a, common.Hash{1}) != (common.Hash{}) || o.GetRefund() != 0 || len(o.logs) != 0 ||
		o.AddressInAccessList(a) || warmSlot || len(o.Creations()) != 0 || o.GetCodeHash(a) != (common.Hash{}) {
		t.Errorf("left behind: %+v", o.Get(a))
	}
}

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
		{NewTokenFunctions(), tokenSelectors, 8}, {newAccountFunctions(), accountSelectors, 0}, {newScheduleFunctions(), scheduleSelectors, 0},
	} {
		listed := 0
		for line := range strings.Lines(strings.TrimSpace(service.selectors)) {
			selector, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			key := [4]byte(common.FromHex(selector))
			f := service.functions.Direct()[key]
			if f == nil {
				f = service.functions.facade()[key]
			}
			if f == nil || !strings.HasPrefix(f.signature, name+"(") {
				t.Errorf("%s %s: %+v", selector, name, f)
			}
			listed++
		}
		if got := len(service.functions.Direct()) + len(service.functions.facade()); got < listed || got > listed+service.unlisted {
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
