package ledger

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/stateless"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/types/bal"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"

	"lockstep/internal/hedera"
)

// This file is overlay in the role of vm.StateDB. What differs from Ethereum:
// amounts are tinybar, accounts with no balance stay, system accounts show no
// balance, and low long-zero numbers show no code.

var _ vm.StateDB = (*overlay)(nil)

func (o *overlay) CreateAccount(a common.Address) { o.create(o.get(a), true) }

func (o *overlay) CreateContract(a common.Address) {
	acct := o.get(a)
	if acct.fresh {
		return
	}
	o.note(func() {
		acct.fresh, acct.contract = false, false
		acct.committed, acct.storage = nil, nil
		o.created = o.created[:len(o.created)-1]
	})
	acct.fresh, acct.contract, acct.committed = true, true, nil
	o.created = append(o.created, acct)
}

func (o *overlay) AddBalance(a common.Address, v *uint256.Int, _ tracing.BalanceChangeReason) uint256.Int {
	acct := o.get(a)
	prev := acct.balance
	if !v.IsZero() {
		o.setBalance(acct, new(uint256.Int).Add(&prev, v))
	}
	return prev
}

func (o *overlay) SubBalance(a common.Address, v *uint256.Int, _ tracing.BalanceChangeReason) uint256.Int {
	acct := o.get(a)
	prev := acct.balance
	if !v.IsZero() {
		o.setBalance(acct, new(uint256.Int).Sub(&prev, v))
	}
	return prev
}

// GetBalance is what BALANCE shows. Transfers look at the account itself.
func (o *overlay) GetBalance(a common.Address) *uint256.Int {
	if isSystem(a) {
		return new(uint256.Int)
	}
	balance := o.get(a).balance
	return &balance
}

func (o *overlay) GetNonce(a common.Address) uint64 { return o.get(a).nonce }

func (o *overlay) SetNonce(a common.Address, nonce uint64, _ tracing.NonceChangeReason) {
	o.setNonce(o.get(a), nonce)
}

func (o *overlay) GetCodeHash(a common.Address) common.Hash {
	if code := o.proxyCode(a); code != nil {
		return crypto.Keccak256Hash(code)
	}
	acct := o.get(a)
	if !acct.exists || hidesCode(a) {
		return common.Hash{}
	}
	return acct.codeHash
}

func (o *overlay) GetCode(a common.Address) []byte {
	if hidesCode(a) {
		return nil
	}
	if code := o.proxyCode(a); code != nil {
		return code
	}
	return o.get(a).code
}

func (o *overlay) GetCodeSize(a common.Address) int { return len(o.GetCode(a)) }

func (o *overlay) SetCode(a common.Address, code []byte, _ tracing.CodeChangeReason) []byte {
	acct := o.get(a)
	prev := acct.code
	o.setCode(acct, code)
	return prev
}

func (o *overlay) AddRefund(gas uint64) { o.setRefund(o.refund + gas) }

func (o *overlay) SubRefund(gas uint64) {
	if gas > o.refund {
		panic(fmt.Sprintf("refund of %d gas below zero by %d", o.refund, gas)) // the EVM's own bookkeeping is broken
	}
	o.setRefund(o.refund - gas)
}

func (o *overlay) setRefund(gas uint64) {
	old := o.refund
	o.note(func() { o.refund = old })
	o.refund = gas
}

func (o *overlay) GetRefund() uint64 { return o.refund }

func (o *overlay) GetStateAndCommittedState(a common.Address, key common.Hash) (current, committed common.Hash) {
	acct := o.get(a)
	committed = o.committedState(acct, key)
	return o.state(acct, key), committed
}

func (o *overlay) GetState(a common.Address, key common.Hash) common.Hash {
	return o.state(o.get(a), key)
}

func (o *overlay) SetState(a common.Address, key, value common.Hash) common.Hash {
	return o.setState(o.get(a), key, value)
}

func (o *overlay) GetTransientState(a common.Address, key common.Hash) common.Hash {
	return o.transient[addressSlot{a, key}]
}

func (o *overlay) SetTransientState(a common.Address, key, value common.Hash) {
	k := addressSlot{a, key}
	prev := o.transient[k]
	if prev == value {
		return
	}
	if o.transient == nil {
		o.transient = map[addressSlot]common.Hash{}
	}
	o.note(func() { o.transient[k] = prev })
	o.transient[k] = value
}

func (o *overlay) SelfDestruct(a common.Address) {
	if acct := o.get(a); !acct.destroyed {
		o.note(func() { acct.destroyed = false })
		acct.destroyed = true
	}
}

func (o *overlay) HasSelfDestructed(a common.Address) bool { return o.get(a).destroyed }

// Exist is true of the system's addresses even where they have no account, so that a call to one makes none.
func (o *overlay) Exist(a common.Address) bool {
	return isSystem(a) || o.get(a).exists || o.isToken(a) || o.isSchedule(a)
}

func (o *overlay) Touch(common.Address) {}

func (o *overlay) IsNewContract(a common.Address) bool { return o.get(a).fresh }

func (o *overlay) Empty(a common.Address) bool {
	acct := o.get(a)
	return acct.nonce == 0 && acct.balance.IsZero() && len(acct.code) == 0
}

func (o *overlay) AddressInAccessList(a common.Address) bool {
	_, ok := o.warm[a]
	return ok
}

func (o *overlay) SlotInAccessList(a common.Address, key common.Hash) (addressOK, slotOK bool) {
	_, slotOK = o.warmSlots[addressSlot{a, key}]
	return o.AddressInAccessList(a), slotOK
}

func (o *overlay) AddAddressToAccessList(a common.Address) {
	if _, ok := o.warm[a]; !ok {
		o.note(func() { delete(o.warm, a) })
		o.warm[a] = struct{}{}
	}
}

func (o *overlay) AddSlotToAccessList(a common.Address, key common.Hash) {
	o.AddAddressToAccessList(a)
	k := addressSlot{a, key}
	if _, ok := o.warmSlots[k]; !ok {
		o.note(func() { delete(o.warmSlots, k) })
		o.warmSlots[k] = struct{}{}
	}
}

// Prepare warms what is warm from the start: sender, target and precompiles. The
// coinbase is not, and an access list neither costs nor warms anything.
func (o *overlay) Prepare(_ params.Rules, sender, _ common.Address, dest *common.Address, precompiles []common.Address, _ types.AccessList) {
	o.warm[sender] = struct{}{}
	if dest != nil {
		o.warm[*dest] = struct{}{}
	}
	for _, a := range precompiles {
		o.warm[a] = struct{}{}
	}
}

func (o *overlay) Snapshot() int { return len(o.journal) }

func (o *overlay) RevertToSnapshot(snapshot int) { o.revertTo(snapshot) }

func (o *overlay) AddLog(log *types.Log) {
	o.note(func() { o.logs = o.logs[:len(o.logs)-1] })
	log.Address = o.canonical(log.Address)
	o.logs = append(o.logs, log)
}

func (o *overlay) AddPreimage(common.Hash, []byte)                        {}
func (o *overlay) Witness() *stateless.Witness                            { return nil }
func (o *overlay) AccessEvents() *state.AccessEvents                      { return nil }
func (o *overlay) SetTxContext(common.Hash, int, uint32)                  {}
func (o *overlay) Finalise(params.Rules) *bal.ConstructionBlockAccessList { return nil }

// isSystem tells whether an address belongs to the system: it takes no value and
// shows no balance.
func isSystem(a common.Address) bool {
	id, ok := hedera.FromLongZero(a)
	return ok && id.Num <= lastSystemNumber
}

// hidesCode tells whether an address shows no code whatever is there.
func hidesCode(a common.Address) bool {
	id, ok := hedera.FromLongZero(a)
	return ok && id.Num <= lastSystemCode
}
