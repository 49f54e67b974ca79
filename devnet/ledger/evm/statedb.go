package evm

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	ethstate "github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/stateless"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/types/bal"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// stateDB is what a transaction changes, in the role of vm.StateDB. What differs from Ethereum:
// amounts are tinybar, accounts with no balance stay, system accounts show no
// balance, and low long-zero numbers show no code.
type stateDB struct {
	*core.Work
	logs      []*types.Log
	refund    uint64
	warm      map[common.Address]struct{}
	warmSlots map[addressSlot]struct{}
	transient map[addressSlot]common.Hash
}

var _ vm.StateDB = (*stateDB)(nil)

type addressSlot struct {
	address common.Address
	slot    common.Hash
}

func newStateDB(w *core.Work) *stateDB {
	return &stateDB{Work: w, warm: make(map[common.Address]struct{}, 16), warmSlots: map[addressSlot]struct{}{}}
}

func (o *stateDB) CreateAccount(a common.Address) { o.Create(o.Get(a), true) }

func (o *stateDB) CreateContract(a common.Address) { o.BecomeContract(o.Get(a)) }

func (o *stateDB) AddBalance(a common.Address, v *uint256.Int, _ tracing.BalanceChangeReason) uint256.Int {
	return o.changeBalance(a, v, (*uint256.Int).Add)
}

func (o *stateDB) SubBalance(a common.Address, v *uint256.Int, _ tracing.BalanceChangeReason) uint256.Int {
	return o.changeBalance(a, v, (*uint256.Int).Sub)
}

func (o *stateDB) changeBalance(a common.Address, v *uint256.Int, change func(z, x, y *uint256.Int) *uint256.Int) uint256.Int {
	acct := o.Get(a)
	prev := acct.Balance
	if !v.IsZero() {
		o.PutBalance(acct, change(new(uint256.Int), &prev, v))
	}
	return prev
}

// GetBalance is what BALANCE shows. Transfers look at the account itself.
func (o *stateDB) GetBalance(a common.Address) *uint256.Int {
	if state.IsSystem(a) {
		return new(uint256.Int)
	}
	balance := o.Get(a).Balance
	return &balance
}

func (o *stateDB) GetNonce(a common.Address) uint64 { return o.Get(a).Nonce }

func (o *stateDB) SetNonce(a common.Address, nonce uint64, _ tracing.NonceChangeReason) {
	o.PutNonce(o.Get(a), nonce)
}

func (o *stateDB) GetCodeHash(a common.Address) common.Hash {
	if code := o.proxyCode(a); code != nil {
		return crypto.Keccak256Hash(code)
	}
	acct := o.Get(a)
	if !acct.Exists || hidesCode(a) {
		return common.Hash{}
	}
	return acct.CodeHash
}

func (o *stateDB) GetCode(a common.Address) []byte {
	if hidesCode(a) {
		return nil
	}
	if code := o.proxyCode(a); code != nil {
		return code
	}
	return o.Get(a).Code
}

func (o *stateDB) GetCodeSize(a common.Address) int { return len(o.GetCode(a)) }

func (o *stateDB) SetCode(a common.Address, code []byte, _ tracing.CodeChangeReason) []byte {
	acct := o.Get(a)
	prev := acct.Code
	o.PutCode(acct, code)
	return prev
}

func (o *stateDB) AddRefund(gas uint64) { o.setRefund(o.refund + gas) }

func (o *stateDB) SubRefund(gas uint64) {
	if gas > o.refund {
		panic(fmt.Sprintf("refund of %d gas below zero by %d", o.refund, gas)) // the EVM's own bookkeeping is broken
	}
	o.setRefund(o.refund - gas)
}

func (o *stateDB) setRefund(gas uint64) {
	old := o.refund
	o.Note(func() { o.refund = old })
	o.refund = gas
}

func (o *stateDB) GetRefund() uint64 { return o.refund }

func (o *stateDB) GetStateAndCommittedState(a common.Address, key common.Hash) (current, committed common.Hash) {
	acct := o.Get(a)
	committed = o.CommittedState(acct, key)
	return o.State(acct, key), committed
}

func (o *stateDB) GetState(a common.Address, key common.Hash) common.Hash {
	return o.State(o.Get(a), key)
}

func (o *stateDB) SetState(a common.Address, key, value common.Hash) common.Hash {
	return o.PutState(o.Get(a), key, value)
}

func (o *stateDB) GetTransientState(a common.Address, key common.Hash) common.Hash {
	return o.transient[addressSlot{a, key}]
}

func (o *stateDB) SetTransientState(a common.Address, key, value common.Hash) {
	k := addressSlot{a, key}
	prev := o.transient[k]
	if prev == value {
		return
	}
	if o.transient == nil {
		o.transient = map[addressSlot]common.Hash{}
	}
	o.Note(func() { o.transient[k] = prev })
	o.transient[k] = value
}

func (o *stateDB) SelfDestruct(a common.Address) {
	if acct := o.Get(a); !acct.Destroyed {
		o.Note(func() { acct.Destroyed = false })
		acct.Destroyed = true
	}
}

func (o *stateDB) HasSelfDestructed(a common.Address) bool { return o.Get(a).Destroyed }

// Exist is true of the system's addresses even where they have no account, so that a call to one makes none.
func (o *stateDB) Exist(a common.Address) bool {
	return state.IsSystem(a) || o.Get(a).Exists || o.IsToken(a) || o.IsSchedule(a)
}

func (o *stateDB) Touch(common.Address) {}

func (o *stateDB) IsNewContract(a common.Address) bool { return o.Get(a).Fresh }

func (o *stateDB) Empty(a common.Address) bool {
	acct := o.Get(a)
	return acct.Nonce == 0 && acct.Balance.IsZero() && len(acct.Code) == 0
}

func (o *stateDB) AddressInAccessList(a common.Address) bool {
	_, ok := o.warm[a]
	return ok
}

func (o *stateDB) SlotInAccessList(a common.Address, key common.Hash) (addressOK, slotOK bool) {
	_, slotOK = o.warmSlots[addressSlot{a, key}]
	return o.AddressInAccessList(a), slotOK
}

func (o *stateDB) AddAddressToAccessList(a common.Address) {
	if _, ok := o.warm[a]; !ok {
		o.Note(func() { delete(o.warm, a) })
		o.warm[a] = struct{}{}
	}
}

func (o *stateDB) AddSlotToAccessList(a common.Address, key common.Hash) {
	o.AddAddressToAccessList(a)
	k := addressSlot{a, key}
	if _, ok := o.warmSlots[k]; !ok {
		o.Note(func() { delete(o.warmSlots, k) })
		o.warmSlots[k] = struct{}{}
	}
}

// Prepare warms what is warm from the start: sender, target and precompiles. The
// coinbase is not, and an access list neither costs nor warms anything.
func (o *stateDB) Prepare(_ params.Rules, sender, _ common.Address, dest *common.Address, precompiles []common.Address, _ types.AccessList) {
	o.warm[sender] = struct{}{}
	if dest != nil {
		o.warm[*dest] = struct{}{}
	}
	for _, a := range precompiles {
		o.warm[a] = struct{}{}
	}
}

func (o *stateDB) RevertToSnapshot(snapshot int) { o.RevertTo(snapshot) }

func (o *stateDB) AddLog(log *types.Log) {
	o.Note(func() { o.logs = o.logs[:len(o.logs)-1] })
	log.Address = o.Canonical(log.Address)
	o.logs = append(o.logs, log)
}

func (o *stateDB) AddPreimage(common.Hash, []byte)                        {}
func (o *stateDB) Witness() *stateless.Witness                            { return nil }
func (o *stateDB) AccessEvents() *ethstate.AccessEvents                   { return nil }
func (o *stateDB) SetTxContext(common.Hash, int, uint32)                  {}
func (o *stateDB) Finalise(params.Rules) *bal.ConstructionBlockAccessList { return nil }

// hidesCode tells whether an address shows no code whatever is there.
func hidesCode(a common.Address) bool {
	id, ok := hedera.FromLongZero(a)
	return ok && id.Num <= state.LastSystemCode
}

// proxyCode is what EXTCODE shows of a token or a schedule: that its code is the service's. It
// is nil for any other address.
func (o *stateDB) proxyCode(a common.Address) []byte {
	switch {
	case o.IsToken(a):
		return types.AddressToDelegation(hedera.Entity(NumTokenService).LongZero())
	case o.IsSchedule(a):
		return types.AddressToDelegation(hedera.Entity(NumScheduleService).LongZero())
	default:
		return nil
	}
}
