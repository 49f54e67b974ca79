package evm

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/holiman/uint256"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// CallRequest asks for a simulation on the state a View shows.
type CallRequest struct {
	From     *common.Address // nil: the treasury
	To       *common.Address // nil: Data is init code
	Data     []byte
	Gas      uint64 // 0: the most a transaction may have
	Value    hedera.Tinybar
	GasPrice hedera.Tinybar // 0: the network price
	Override map[common.Address]state.Override
}

// CallResult is the outcome of a simulation.
type CallResult struct {
	Status       hedera.Status // SUCCESS, CONTRACT_REVERT_EXECUTED, INVALID_CONTRACT_ID, …
	Output       []byte        // return data, or the runtime code of a simulated creation
	RevertData   []byte        // raw data of a revert
	ErrorMessage string        // as in EVMResult
	GasUsed      uint64
}

// ErrSenderNotFound is a simulation for a sender that does not exist.
var ErrSenderNotFound = errors.New("sender account not found")

// How the mirror node's estimator looks for a limit.
const (
	estimateRounds  = 20 // runs at most
	estimateSpan    = 10 // it ends when what is unknown is less than a tenth of what is known to be enough
	estimateStipend = 2_300
)

// Simulate runs a transaction on the state at a time. The sender's balance must
// cover the value but not the gas, and the nonce does not matter. The error is
// ErrSenderNotFound or the context's.
func (e *Engine) Simulate(ctx context.Context, asOf int64, req CallRequest, env BlockEnv) (CallResult, error) {
	if err := ctx.Err(); err != nil {
		return CallResult{}, err
	}
	if req.Gas == 0 || req.Gas > MaxGas {
		req.Gas = MaxGas
	}
	o := core.NewWork(e.net.Store, asOf, true)
	o.Override(req.Override)
	msg := message{ctx: ctx, data: req.Data, gas: req.Gas, value: req.Value, gasPrice: req.GasPrice, ethereum: true}
	msg.gasPrice = cmp.Or(msg.gasPrice, e.net.GasPrice())
	sender := o.EntityAccount(state.Treasury)
	if req.From != nil && *req.From != (common.Address{}) {
		sender = o.Get(*req.From)
	}
	if !sender.Exists {
		return CallResult{}, ErrSenderNotFound
	}
	msg.from = sender.Address
	if req.To != nil {
		to := o.Canonical(*req.To)
		msg.to = &to
	}
	if sender.Tinybar() < req.Value {
		return CallResult{
			Status:       hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE,
			ErrorMessage: hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE.String(),
		}, nil
	}
	out := e.run(o, env, msg)
	if err := ctx.Err(); err != nil { // the run was cut short
		return CallResult{}, err
	}
	return CallResult{
		Status: out.status, Output: out.output, RevertData: out.revert,
		ErrorMessage: out.message, GasUsed: out.gasUsed,
	}, nil
}

// Estimate finds a gas limit that is enough, as the network's mirror node does: after a run with all gas it tries a
// little more than what that used, then halves what is unknown, and never answers less than 5 % above the gas used.
// Where it is to be exact, it finds the lowest limit. A result that is not SUCCESS says why no limit is enough; the
// gas is then meaningless.
func (e *Engine) Estimate(ctx context.Context, asOf int64, req CallRequest, env BlockEnv, exact bool) (uint64, CallResult, error) {
	limit := req.Gas
	if limit == 0 || limit > MaxGas {
		limit = MaxGas
	}
	req.Gas = limit
	full, err := e.Simulate(ctx, asOf, req, env)
	if err != nil || full.Status != okay {
		return 0, full, err
	}
	low, high, rounds, span := max(full.GasUsed, txGas)-1, limit, estimateRounds, uint64(estimateSpan)
	next, least := (full.GasUsed+estimateStipend)*64/63, full.GasUsed+(full.GasUsed+19)/20
	if exact {
		next, least, rounds, span = full.GasUsed, 0, 64, math.MaxUint64
	}
	for ; rounds > 0 && low+1 < high && (high-low >= high/span || next == 0); rounds-- {
		if req.Gas = min(next, high-1); req.Gas <= low {
			req.Gas = min(low+(high-low)/2, 2*low) // most need only slightly more than they use
		}
		next = 0
		step, err := e.Simulate(ctx, asOf, req, env)
		if err != nil {
			return 0, step, err
		}
		if step.Status == okay {
			high = req.Gas
		} else {
			low = req.Gas
		}
	}
	return min(max(high, least), limit), full, nil
}

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
