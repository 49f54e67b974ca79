package evm

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/vm"
)

// Step is one instruction, before it runs.
type Step struct {
	PC, Gas, Cost uint64
	Op            string
	Depth         int
	Stack, Memory []common.Hash               // nil: not asked for
	Storage       map[common.Hash]common.Hash // the words that its contract used so far; nil: none, or not asked for
	Err           error                       // why it fails
}

// StepTracer hands on the instructions of one message.
type StepTracer struct {
	State                  *State
	Stack, Memory, Storage bool
	// Next takes the next instruction; an error of it ends the run.
	Next func(*Step) error

	storage map[common.Address]map[common.Hash]common.Hash
}

// Hooks returns what to run the message with.
func (t *StepTracer) Hooks() *tracing.Hooks { return &tracing.Hooks{OnOpcode: t.opcode} }

func (t *StepTracer) opcode(pc uint64, opcode byte, gas, cost uint64, scope tracing.OpContext, _ []byte, depth int, err error) {
	if t.State.err != nil {
		return // the run ends at its next jump
	}
	step := &Step{PC: pc, Op: vm.OpCode(opcode).String(), Gas: gas, Cost: cost, Depth: depth, Err: err}
	if t.Stack {
		step.Stack = make([]common.Hash, len(scope.StackData()))
		for i, word := range scope.StackData() {
			step.Stack[i] = word.Bytes32()
		}
	}
	if t.Memory {
		memory := scope.MemoryData()
		step.Memory = make([]common.Hash, (len(memory)+31)/32)
		for i := range step.Memory {
			copy(step.Memory[i][:], memory[32*i:])
		}
	}
	if t.Storage && err == nil {
		step.Storage = t.words(vm.OpCode(opcode), scope)
	}
	if err := t.Next(step); err != nil {
		t.State.fail(err)
	}
}

// words keeps what a contract reads and writes; it returns it at those instructions.
func (t *StepTracer) words(op vm.OpCode, scope tracing.OpContext) map[common.Hash]common.Hash {
	stack := scope.StackData()
	if op != vm.SLOAD && op != vm.SSTORE || len(stack) == 0 || op == vm.SSTORE && len(stack) < 2 {
		return nil
	}
	if t.storage == nil {
		t.storage = make(map[common.Address]map[common.Hash]common.Hash)
	}
	own := t.storage[scope.Address()]
	if own == nil {
		own = make(map[common.Hash]common.Hash)
		t.storage[scope.Address()] = own
	}
	key := common.Hash(stack[len(stack)-1].Bytes32())
	if op == vm.SLOAD {
		own[key] = t.State.Slot(scope.Address(), key)
	} else {
		own[key] = stack[len(stack)-2].Bytes32()
	}
	return own
}

// Precompiles lists the addresses of the EVM's own contracts.
func Precompiles() []common.Address {
	var all []common.Address
	for n := int64(1); n <= int64(len(vm.PrecompiledContractsCancun)); n++ {
		all = append(all, common.BigToAddress(big.NewInt(n)))
	}
	return all
}
