package evm

import (
	"errors"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/vm"

	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// frame is a call frame that has not ended.
type frame struct {
	action   int // index in execution.actions, -1 when it is not kept
	op       vm.OpCode
	from, to common.Address
	gas      uint64
	value    *big.Int
	special  bool // a precompile was put at to for this frame alone
	replaced vm.PrecompiledContract
}

// hooks watches the frames. It is also where the network's rules about call
// targets get in: the EVM asks for a precompile at the target right after the
// enter hook, so a frame that must not run as the EVM would run it gets one.
func (x *execution) hooks(steps *tracing.Hooks) *tracing.Hooks {
	h := &tracing.Hooks{OnEnter: x.enter, OnExit: x.exit}
	if steps != nil {
		h.OnOpcode, h.OnFault = steps.OnOpcode, steps.OnFault
	}
	return h
}

func (x *execution) enter(depth int, typ byte, from, to common.Address, input []byte, gas uint64, value *big.Int) {
	op := vm.OpCode(typ)
	if op == vm.SELFDESTRUCT {
		x.selfDestruct(from, to)
		x.frames = append(x.frames, frame{action: -1, op: op})
		return
	}
	if op == vm.CREATE || op == vm.CREATE2 {
		acct := x.o.Get(to)
		acct.Creator, acct.Initcode = from, append([]byte(nil), input...)
	}
	f := frame{action: -1, op: op, from: from, to: to, gas: gas, value: value}
	if special := x.special(op, to, value, input); special != nil {
		f.special, f.replaced = true, x.precompiles[to]
		x.precompiles[to] = special
	}
	if len(x.actions) < maxActions && x.payload+len(input) <= maxActionPayload {
		f.action = len(x.actions)
		x.payload += len(input)
		x.actions = append(x.actions, x.newAction(depth, op, from, to, input, gas, value))
	}
	x.frames = append(x.frames, f)
}

func (x *execution) exit(_ int, output []byte, gasUsed uint64, err error, _ bool) {
	f := x.frames[len(x.frames)-1]
	x.frames = x.frames[:len(x.frames)-1]
	if f.op == vm.SELFDESTRUCT {
		return
	}
	if f.special {
		delete(x.precompiles, f.to)
		if f.replaced != nil {
			x.precompiles[f.to] = f.replaced
		}
	}
	if f.action >= 0 {
		x.endAction(&x.actions[f.action], output, gasUsed, err)
	}
	// A caller that survives the halt of a callee does not halt for its reason.
	if len(x.frames) > 0 {
		x.halt = 0
	}
}

// special returns what stands in for the target of a frame, nil for the EVM's own
// course.
func (x *execution) special(op vm.OpCode, to common.Address, value *big.Int, input []byte) vm.PrecompiledContract {
	if op == vm.CREATE || op == vm.CREATE2 {
		return nil
	}
	valued := op == vm.CALL && value != nil && value.Sign() > 0
	id, longZero := hedera.FromLongZero(to)
	if longZero && id.Num <= state.LastSystemNumber {
		return x.systemTarget(to, valued && !x.createsToken(id, input))
	}
	if functions := x.proxyOf(to); functions != nil {
		if valued {
			return &halting{x: x, reason: hapi.ResponseCodeEnum_INVALID_CONTRACT_ID}
		}
		return &serviceProxy{x: x, functions: functions, entity: id}
	}
	acct := x.o.Get(to)
	if proxy := x.accountProxy(op, acct, input); proxy != nil {
		return proxy
	}
	switch {
	case !valued || acct.Exists:
		return nil
	case acct.Deleted(), longZero:
		return &halting{x: x, reason: hapi.ResponseCodeEnum_INVALID_ALIAS_KEY}
	default:
		return lazyCreation{}
	}
}

// proxyOf is what an entity without code of its own answers with, nil for any other address.
func (x *execution) proxyOf(a common.Address) *serviceFunctions {
	switch {
	case x.o.IsToken(a):
		return x.tokens
	case x.o.IsSchedule(a):
		return x.schedules
	default:
		return nil
	}
}

// systemTarget is for the addresses up to 0.0.750: they take no value, and those
// without a contract swallow all gas.
func (x *execution) systemTarget(to common.Address, valued bool) vm.PrecompiledContract {
	if valued {
		if len(x.frames) > 0 { // the network halts the caller, too; here it goes on, without success
			x.doom = hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
		}
		return &halting{x: x, reason: hapi.ResponseCodeEnum_INVALID_CONTRACT_ID}
	}
	if x.precompiles[to] != nil {
		return nil
	}
	return &swallowing{x: x}
}

// createsToken tells whether a call is one that pays for a new token.
func (x *execution) createsToken(target hedera.ID, input []byte) bool {
	if target.Num != NumTokenService && target.Num != numTokenService2 || len(input) < 4 {
		return false
	}
	f := x.tokens.Direct()[[4]byte(input[:4])]
	return f != nil && strings.HasPrefix(f.signature, "create")
}

// selfDestruct checks a beneficiary: it must exist and not belong to the system.
// The opcode cannot be failed from here, so the transaction fails as a whole.
func (x *execution) selfDestruct(from, beneficiary common.Address) {
	switch {
	case beneficiary == from:
		x.poison = hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID
	case state.IsSystem(beneficiary) || !x.o.Get(beneficiary).Exists:
		x.poison = hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS
	}
	x.o.Get(from).Obtainer = beneficiary
}

// halting ends a frame exceptionally for a reason of the network.
type halting struct {
	x      *execution
	reason hedera.Status
}

func (*halting) Name() string { return "halt" }

func (*halting) RequiredGas([]byte) uint64 { return 0 }

func (p *halting) Run([]byte) ([]byte, error) {
	p.x.halt = p.reason
	return nil, errHalt
}

// swallowing succeeds with no output and takes all gas.
type swallowing struct{ x *execution }

func (*swallowing) Name() string { return "system account" }

func (p *swallowing) RequiredGas([]byte) uint64 { return p.x.frames[len(p.x.frames)-1].gas }

func (*swallowing) Run([]byte) ([]byte, error) { return nil, nil }

// lazyCreation is a transfer to an address that nothing is at: the EVM has made the
// account, this charges for it.
type lazyCreation struct{}

func (lazyCreation) Name() string { return "account creation" }

func (lazyCreation) RequiredGas([]byte) uint64 { return LazyCreationGas }

func (lazyCreation) Run([]byte) ([]byte, error) { return nil, nil }

func (x *execution) newAction(depth int, op vm.OpCode, from, to common.Address, input []byte, gas uint64, value *big.Int) history.Action {
	a := history.Action{
		CallType: history.CallTypeCall, Operation: op.String(), Depth: depth,
		From: from, To: to, Gas: gas, Input: append([]byte(nil), input...),
		CallerIsCode: depth > 0,
	}
	if value != nil {
		a.Value = hedera.Tinybar(value.Int64())
	}
	switch {
	case op == vm.CREATE || op == vm.CREATE2:
		a.CallType, a.RecipientCode = history.CallTypeCreate, true
	case state.IsSystem(to):
		a.CallType = history.CallTypeSystem
		if to.Big().Cmp(big.NewInt(10)) <= 0 {
			a.CallType = history.CallTypePrecompile
		}
	default:
		a.RecipientCode = x.o.Get(to).Contract
	}
	return a
}

func (x *execution) endAction(a *history.Action, output []byte, gasUsed uint64, err error) {
	a.GasUsed = gasUsed
	switch {
	case err == nil:
		a.ResultType = history.ResultOutput
	case errors.Is(err, vm.ErrExecutionReverted):
		a.ResultType = history.ResultRevert
	default:
		a.ResultType = history.ResultError
		_, name := haltStatus(err)
		if x.halt != 0 {
			name = x.halt.String()
		}
		a.Result = []byte(name)
		return
	}
	if x.payload+len(output) <= maxActionPayload {
		x.payload += len(output)
		a.Result = append([]byte(nil), output...)
	}
}

// failRoot has the outermost action end as the transaction does: halted.
func (x *execution) failRoot(gas uint64) {
	if len(x.actions) > 0 {
		x.endAction(&x.actions[0], nil, gas, errHalt)
	}
}
