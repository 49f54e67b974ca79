package evm

import (
	"math/big"
	"math/rand/v2"
	"slices"
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
