package evm

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/holiman/uint256"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
)

// Opcode is one step of a replayed transaction.
type Opcode struct {
	PC, Gas, GasCost uint64
	Op               string
	Depth            int
	Stack            []common.Hash
	Memory           []common.Hash
	Storage          map[common.Hash]common.Hash // slots the step touched
	Reason           []byte                      // revert data or failure, on the failing step
}

// OpcodeOptions says what a replay collects beside the steps themselves.
type OpcodeOptions struct {
	Stack, Memory, Storage bool
}

// OpcodeTrace is a replayed transaction.
type OpcodeTrace struct {
	Failed      bool
	GasUsed     uint64
	ReturnValue []byte
	Steps       []Opcode
}

// Errors of View.Opcodes.
var (
	ErrNotExecuted   = errors.New("the transaction was not executed")
	ErrTraceTooLarge = errors.New("the trace is too large")
)

// maxTraceBytes bounds a trace in memory.
const maxTraceBytes = 64 << 20

// Replay runs a transaction again on the state it ran on, and collects every step.
// The errors are ErrNotExecuted, ErrTraceTooLarge and the context's.
func (e *Engine) Replay(ctx context.Context, r *history.Record, env BlockEnv, with OpcodeOptions) (*OpcodeTrace, error) {
	if !r.Executed() || r.Result.Refused {
		return nil, ErrNotExecuted
	}
	did := r.Result
	o := core.NewWork(e.net.Store, r.Consensus.UnixNano()-1, true)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &tracer{with: with, stop: cancel}
	msg := message{
		ctx: ctx, from: did.Sender, data: did.Input, gas: did.GasLimit, value: did.Amount, gasPrice: did.GasPrice, ethereum: did.Raw != nil,
		steps: &tracing.Hooks{OnOpcode: t.step, OnFault: t.fault}, authorizations: did.Authorizations,
	}
	switch {
	case !did.Create:
		to := o.Canonical(common.BytesToAddress(did.To))
		msg.to = &to
	case did.Raw == nil: // a creation by HAPI has a long-zero address
		msg.at = &did.Address
	}
	// What was advanced for gas is gone while the transaction runs.
	sender := o.Get(did.Sender)
	advance := min(hedera.Tinybar(did.GasLimit)*did.GasPrice, max(sender.Tinybar()-did.Amount, 0))
	o.PutTinybar(sender, sender.Tinybar()-advance)

	if did.Raw != nil && !did.Create {
		o.PutNonce(sender, sender.Nonce+1)
	}
	out := e.run(o, env, msg)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t.trace.Failed, t.trace.GasUsed = !out.ok(), out.gasUsed
	t.trace.ReturnValue = out.output
	if len(out.revert) > 0 {
		t.trace.ReturnValue = out.revert
	}
	return &t.trace, nil
}

// tracer collects steps.
type tracer struct {
	with  OpcodeOptions
	trace OpcodeTrace
	size  int
	stop  context.CancelCauseFunc
}

func (t *tracer) step(pc uint64, op byte, gas, cost uint64, scope tracing.OpContext, _ []byte, depth int, err error) {
	if t.size > maxTraceBytes {
		t.stop(ErrTraceTooLarge)
		return
	}
	s := Opcode{PC: pc, Op: vm.OpCode(op).String(), Gas: gas, GasCost: cost, Depth: depth}
	if err != nil {
		s.Reason = []byte(err.Error())
	}
	stack := scope.StackData()
	if t.with.Stack {
		s.Stack = make([]common.Hash, len(stack))
		for i := range stack {
			s.Stack[i] = stack[i].Bytes32()
		}
	}
	if t.with.Memory {
		memory := scope.MemoryData()
		s.Memory = make([]common.Hash, 0, len(memory)/32)
		for ; len(memory) >= 32; memory = memory[32:] {
			s.Memory = append(s.Memory, common.Hash(memory[:32]))
		}
	}
	if t.with.Storage {
		s.Storage = storageOf(vm.OpCode(op), stack)
	}
	t.size += 128 + 32*(len(s.Stack)+len(s.Memory)+2*len(s.Storage))
	t.trace.Steps = append(t.trace.Steps, s)
}

// storageOf is the slot that a store is about to write.
func storageOf(op vm.OpCode, stack []uint256.Int) map[common.Hash]common.Hash {
	if n := len(stack); op == vm.SSTORE && n >= 2 {
		return map[common.Hash]common.Hash{stack[n-1].Bytes32(): stack[n-2].Bytes32()}
	}
	return nil
}

// fault marks the step that failed.
func (t *tracer) fault(_ uint64, _ byte, _, _ uint64, _ tracing.OpContext, _ int, err error) {
	if n := len(t.trace.Steps); n > 0 && err != nil {
		t.trace.Steps[n-1].Reason = []byte(err.Error())
	}
}
