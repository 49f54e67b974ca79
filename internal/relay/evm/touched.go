package evm

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/vm"

	"lockstep/internal/hedera"
)

// Touch is an account as it was when a message first had to do with it.
type Touch struct {
	Exists  bool
	Balance hedera.Tinybar
	Nonce   uint64
	Code    []byte
	Storage map[common.Hash]common.Hash // the words that it used; nil: none
	Gone    bool                        // it was deleted; no message here does that
}

// TouchTracer collects the accounts that one message has to do with. What belongs to
// the system is left out.
type TouchTracer struct {
	State *State
	// Accounts is by the addresses that the EVM knows the accounts by.
	Accounts map[common.Address]*Touch
}

// NewTouchTracer begins with the sender and the receiver of a message, which is to be
// run next. The receiver of a creation is the contract's address.
func NewTouchTracer(s *State, from, to common.Address) *TouchTracer {
	t := &TouchTracer{State: s, Accounts: make(map[common.Address]*Touch)}
	t.touch(from)
	t.touch(to)
	return t
}

// After returns the accounts as they are now, with the same words of storage.
func (t *TouchTracer) After() map[common.Address]*Touch {
	after := make(map[common.Address]*Touch, len(t.Accounts))
	for address, before := range t.Accounts {
		now := t.now(address)
		for key := range before.Storage {
			now.Store(key, t.State.Slot(address, key))
		}
		after[address] = now
	}
	return after
}

func (t *TouchTracer) now(address common.Address) *Touch {
	return &Touch{
		Exists: t.State.Exists(address), Balance: t.State.Balance(address), Nonce: t.State.Nonce(address), Code: t.State.Code(address),
	}
}

// Store notes a word.
func (t *Touch) Store(key, word common.Hash) {
	if t.Storage == nil {
		t.Storage = make(map[common.Hash]common.Hash)
	}
	t.Storage[key] = word
}

// touch remembers an account; the first time counts.
func (t *TouchTracer) touch(address common.Address) *Touch {
	address = t.State.canonical(address)
	if id, numbered := hedera.FromLongZero(address); numbered && id.Num <= lastSystemNumber {
		return new(Touch)
	}
	touch, known := t.Accounts[address]
	if !known {
		touch = t.now(address)
		t.Accounts[address] = touch
	}
	return touch
}

// Hooks returns what to run the message with.
func (t *TouchTracer) Hooks() *tracing.Hooks {
	return &tracing.Hooks{OnEnter: t.enter, OnOpcode: t.opcode}
}

func (t *TouchTracer) enter(_ int, typ byte, _, to common.Address, _ []byte, _ uint64, _ *big.Int) {
	if op := vm.OpCode(typ); op != vm.SELFDESTRUCT { // its beneficiary has already got something
		t.touch(to)
	}
}

func (t *TouchTracer) opcode(_ uint64, opcode byte, _, _ uint64, scope tracing.OpContext, _ []byte, _ int, err error) {
	stack := scope.StackData()
	if err != nil || len(stack) == 0 {
		return
	}
	top := stack[len(stack)-1]
	switch vm.OpCode(opcode) {
	case vm.SLOAD, vm.SSTORE:
		key := common.Hash(top.Bytes32())
		owner := t.touch(scope.Address())
		if _, known := owner.Storage[key]; !known {
			owner.Store(key, t.State.Slot(scope.Address(), key))
		}
	case vm.BALANCE, vm.EXTCODESIZE, vm.EXTCODECOPY, vm.EXTCODEHASH, vm.SELFDESTRUCT:
		t.touch(common.Address(top.Bytes20()))
	default:
	}
}
