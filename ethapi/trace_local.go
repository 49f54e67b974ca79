package ethapi

import (
	"context"
	"errors"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/relay/evm"
	"lockstep/mirror"
	"lockstep/rpc"
)

// traceCall is debug_traceCall: a trace of a call that is not put into a block, in
// go-ethereum's form in both profiles.
func (a *API) traceCall(ctx context.Context, p *rpc.Params) (any, error) {
	options := p.At(2)
	o := readTraceOptions(options, tracerOpcodes)
	if o.tracer == tracerOpcodes && !a.cfg.Debug.OpcodeLogger {
		return nil, eth.ErrUnsupportedMethod
	}
	if options.Field("txIndex").Given() {
		return nil, eth.ErrInvalidArguments("txIndex is not supported: the state is that of the end of the block")
	}
	return a.simulateCall(ctx, p, argument{2, options.Field("stateOverrides")}, argument{2, options.Field("blockOverrides")}, func(s *simulation, block evm.Block, message evm.Message) (any, error) {
		switch o.tracer {
		case tracerCalls:
			return s.traceCalls(block, message, o)
		case tracerPrestate:
			return s.traceStates(block, message, o)
		}
		return s.traceSteps(block, message, o)
	})
}

func (s *simulation) traceCalls(block evm.Block, m evm.Message, o traceOptions) (any, error) {
	most := s.api.cfg.Debug.MaxBytes
	tracer := &evm.CallTracer{State: s.state, OnlyTop: o.onlyTop, WithLogs: o.withLog, Most: most, TooLarge: eth.ErrTraceTooLarge(most), Hold: s.pace.hold}
	result, err := s.state.Run(s.api.deps.ChainID, block, m, tracer.Hooks())
	if err != nil {
		return nil, err
	}
	root := localFrame(tracer.Root())
	root.Gas, root.GasUsed = hexutil.Uint64(m.Gas), hexutil.Uint64(result.GasUsed)
	var rule *evm.HaltError // the network's own
	if errors.As(result.Err, &rule) || result.Err != nil && root.Error == "" {
		root.Error, root.Output = result.Err.Error(), nil
	}
	return root, nil
}

// localFrame shows a call as go-ethereum does.
func localFrame(c *evm.Call) *callFrame {
	to := c.To
	f := &callFrame{
		Type: c.Op, From: c.From, To: frameReceiver{Address: &to}, Gas: hexutil.Uint64(c.Gas), GasUsed: hexutil.Uint64(c.GasUsed), Input: present(c.Input),
	}
	if c.Value != nil {
		f.Value = (*hexutil.Big)(c.Value.Weibar())
	}
	if len(c.Output) > 0 {
		f.Output = c.Output
	}
	if c.Err != nil {
		f.Error = c.Err.Error()
		f.RevertReason, _ = revertReason(c.Output)
		if f.creates() {
			f.To.Address = nil
		}
	}
	for _, l := range c.Logs {
		f.Logs = append(f.Logs, &frameLog{
			Address: l.Address, Topics: slices.Concat([]common.Hash{}, l.Topics), Data: present(l.Data),
			Index: hexutil.Uint64(l.Index), Position: hexutil.Uint64(l.Position),
		})
	}
	for _, inner := range c.Calls {
		f.Calls = append(f.Calls, localFrame(inner))
	}
	return f
}

func (s *simulation) traceStates(block evm.Block, m evm.Message, o traceOptions) (any, error) {
	tracer := evm.NewTouchTracer(s.state, m.From, s.receiver(&m))
	if _, err := s.state.Run(s.api.deps.ChainID, block, m, tracer.Hooks()); err != nil {
		return nil, err
	}
	w := stateWriter{noCode: o.noCode}
	if !o.diff {
		return w.all(tracer.Accounts, o.withEmpty), nil
	}
	after := tracer.After()
	if err := s.state.Err(); err != nil {
		return nil, err
	}
	return w.diff(tracer.Accounts, after, o.withEmpty), nil
}

func (s *simulation) traceSteps(block evm.Block, m evm.Message, o traceOptions) (any, error) {
	trace := &opcodeTrace{options: o, most: s.api.cfg.Debug.MaxBytes, Opcodes: new(mirror.Opcodes)}
	var steps []byte
	full := false
	tracer := &evm.StepTracer{State: s.state, Stack: !o.noStack, Memory: o.memory, Storage: !o.noStorage, Next: func(step *evm.Step) error {
		if full = full || o.limit > 0 && int64(len(steps)) > o.limit; full {
			return nil
		}
		if len(steps) > 0 {
			steps = append(steps, ',')
		}
		shown := mirror.Step{PC: step.PC, Op: step.Op, Gas: step.Gas, Cost: step.Cost, Depth: step.Depth, Stack: step.Stack, Memory: step.Memory}
		if step.Err != nil {
			shown.Reason = step.Err.Error()
		}
		for slot, value := range step.Storage {
			shown.Storage = append(shown.Storage, mirror.Word{Slot: slot, Value: value})
		}
		before := len(steps)
		if steps = trace.appendStep(steps, &shown); int64(len(steps)) > trace.most {
			return eth.ErrTraceTooLarge(trace.most)
		}
		return s.pace.hold(len(steps) - before)
	}}
	result, err := s.state.Run(s.api.deps.ChainID, block, m, tracer.Hooks())
	if err != nil {
		return nil, err
	}
	trace.Gas, trace.Failed = result.GasUsed, result.Err != nil
	if result.Err == nil || result.Reverted() {
		trace.Return = result.Output
	}
	text, err := trace.encoded() // without the steps, which follow between its brackets
	if err != nil {
		return nil, err
	}
	const end = "]}"
	return slices.Concat(text[:len(text)-len(end)], steps, []byte(end)), nil
}
