package evm

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
)

// view is the state as the EVM uses it: an account answers to its alias and to its
// long-zero address.
type view struct {
	*state.StateDB
	s     *State
	onLog func(*types.Log) // nil: nobody wants to know
}

func (v *view) CreateAccount(a common.Address)  { v.StateDB.CreateAccount(v.s.canonical(a)) }
func (v *view) CreateContract(a common.Address) { v.StateDB.CreateContract(v.s.canonical(a)) }

func (v *view) SubBalance(a common.Address, n *uint256.Int, r tracing.BalanceChangeReason) uint256.Int {
	return v.StateDB.SubBalance(v.s.canonical(a), n, r)
}

func (v *view) AddBalance(a common.Address, n *uint256.Int, r tracing.BalanceChangeReason) uint256.Int {
	return v.StateDB.AddBalance(v.s.canonical(a), n, r)
}

func (v *view) GetBalance(a common.Address) *uint256.Int {
	return v.StateDB.GetBalance(v.s.canonical(a))
}

func (v *view) GetNonce(a common.Address) uint64 { return v.StateDB.GetNonce(v.s.canonical(a)) }

func (v *view) SetNonce(a common.Address, n uint64, r tracing.NonceChangeReason) {
	v.StateDB.SetNonce(v.s.canonical(a), n, r)
}

func (v *view) GetCodeHash(a common.Address) common.Hash {
	return v.StateDB.GetCodeHash(v.s.canonical(a))
}

func (v *view) GetCode(a common.Address) []byte { return v.StateDB.GetCode(v.s.canonical(a)) }

func (v *view) SetCode(a common.Address, code []byte, r tracing.CodeChangeReason) []byte {
	return v.StateDB.SetCode(v.s.canonical(a), code, r)
}

func (v *view) GetCodeSize(a common.Address) int { return v.StateDB.GetCodeSize(v.s.canonical(a)) }

func (v *view) GetStateAndCommittedState(a common.Address, k common.Hash) (now, committed common.Hash) {
	return v.StateDB.GetStateAndCommittedState(v.s.canonical(a), k)
}

func (v *view) GetState(a common.Address, k common.Hash) common.Hash {
	return v.StateDB.GetState(v.s.canonical(a), k)
}

func (v *view) SetState(a common.Address, k, word common.Hash) common.Hash {
	return v.StateDB.SetState(v.s.canonical(a), k, word)
}

func (v *view) GetTransientState(a common.Address, k common.Hash) common.Hash {
	return v.StateDB.GetTransientState(v.s.canonical(a), k)
}

func (v *view) SetTransientState(a common.Address, k, word common.Hash) {
	v.StateDB.SetTransientState(v.s.canonical(a), k, word)
}

func (v *view) SelfDestruct(a common.Address) { v.StateDB.SelfDestruct(v.s.canonical(a)) }

func (v *view) HasSelfDestructed(a common.Address) bool {
	return v.StateDB.HasSelfDestructed(v.s.canonical(a))
}

func (v *view) Exist(a common.Address) bool { return v.StateDB.Exist(v.s.canonical(a)) }
func (v *view) Touch(a common.Address)      { v.StateDB.Touch(v.s.canonical(a)) }
func (v *view) Empty(a common.Address) bool { return v.StateDB.Empty(v.s.canonical(a)) }

func (v *view) IsNewContract(a common.Address) bool {
	return v.StateDB.IsNewContract(v.s.canonical(a))
}

func (v *view) AddressInAccessList(a common.Address) bool {
	return v.StateDB.AddressInAccessList(v.s.canonical(a))
}

func (v *view) SlotInAccessList(a common.Address, k common.Hash) (address, slot bool) {
	return v.StateDB.SlotInAccessList(v.s.canonical(a), k)
}

func (v *view) AddAddressToAccessList(a common.Address) {
	v.StateDB.AddAddressToAccessList(v.s.canonical(a))
}

func (v *view) AddSlotToAccessList(a common.Address, k common.Hash) {
	v.StateDB.AddSlotToAccessList(v.s.canonical(a), k)
}

func (v *view) AddLog(l *types.Log) {
	l.Address = v.s.canonical(l.Address)
	v.StateDB.AddLog(l)
	if v.onLog != nil {
		v.onLog(l)
	}
}
