package evm

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/vm"

	"lockstep/internal/hedera"
)

// SystemContractError says that a message calls a system contract, or a token or
// schedule, whose code is one. Those run on the network only.
type SystemContractError struct{ Address common.Address }

func (e *SystemContractError) Error() string {
	return fmt.Sprintf("evm: the system contract at %s cannot be run here", e.Address)
}

// HaltError is why a frame ended for a reason that only this network has: the name of
// its response code.
type HaltError struct{ Status string }

func (e *HaltError) Error() string { return e.Status }

// errHalt is what a frame ends with when execution.halt says why.
var errHalt = errors.New("halted by a rule of the network")

// accountCreationGas is what a transfer to an address without an account costs more,
// at the default prices of the fee schedule.
const accountCreationGas = 589_000

// System contracts are the numbers from the first to the last.
const (
	firstSystemContract = 0x167
	lastSystemContract  = 0x16d
)

// frame is a call that has not ended.
type frame struct {
	to       common.Address
	special  bool // something stands in for its target, for this frame alone
	replaced vm.PrecompiledContract
}

// watch is where the network's rules about targets get in: the EVM asks for a
// precompile right after the enter hook, so that a frame that must not run as the EVM
// would run it gets one.
func (x *execution) watch() *tracing.Hooks {
	h := &tracing.Hooks{OnEnter: x.enter, OnExit: x.exit}
	if x.hooks != nil {
		h.OnOpcode, h.OnFault = x.hooks.OnOpcode, x.hooks.OnFault
	}
	return h
}

func (x *execution) enter(depth int, typ byte, from, to common.Address, input []byte, gas uint64, value *big.Int) {
	if x.hooks != nil && x.hooks.OnEnter != nil {
		x.hooks.OnEnter(depth, typ, from, to, input, gas, value)
	}
	if pace := x.s.Pace; pace != nil && x.s.err == nil {
		if err := pace(depth, gas); err != nil {
			x.s.Fail(err)
		}
	}
	f := frame{to: to}
	switch op := vm.OpCode(typ); op {
	case vm.SELFDESTRUCT:
		x.beneficiary(x.s.canonical(from), x.s.canonical(to), value)
	case vm.CREATE, vm.CREATE2:
	default:
		if special := x.standIn(op, to, gas, value); special != nil {
			f.special, f.replaced = true, x.precompiles[to]
			x.precompiles[to] = special
		}
	}
	x.frames = append(x.frames, f)
}

func (x *execution) exit(depth int, output []byte, gasUsed uint64, err error, reverted bool) {
	if x.hooks != nil && x.hooks.OnExit != nil {
		x.hooks.OnExit(depth, output, gasUsed, x.reason(err), reverted)
	}
	f := x.frames[len(x.frames)-1]
	x.frames = x.frames[:len(x.frames)-1]
	if !f.special {
		return
	}
	delete(x.precompiles, f.to)
	if f.replaced != nil {
		x.precompiles[f.to] = f.replaced
	}
}

// reason says why a frame ended. The EVM takes what it finds while it counts gas for a
// lack of gas, and keeps only the text of it: so a write in a static call.
func (x *execution) reason(err error) error {
	switch {
	case errors.Is(err, errHalt) && x.halt != nil:
		return x.halt
	case errors.Is(err, vm.ErrOutOfGas) && strings.HasSuffix(err.Error(), vm.ErrWriteProtection.Error()):
		return vm.ErrWriteProtection
	}
	return err
}

// standIn returns what runs in the place of a target, nil for the EVM's own course.
func (x *execution) standIn(op vm.OpCode, to common.Address, gas uint64, value *big.Int) vm.PrecompiledContract {
	canonical := x.s.canonical(to)
	if x.s.mocked[canonical] {
		return nil
	}
	valued := op == vm.CALL && value != nil && value.Sign() > 0
	id, numbered := hedera.FromLongZero(canonical)
	if numbered && id.Num <= lastSystemNumber {
		return x.systemTarget(canonical, id.Num, gas, valued)
	}
	account := x.s.account(canonical)
	switch {
	case account != nil && account.Service:
		x.s.Fail(&SystemContractError{canonical})
		return x.halting("NOT_SUPPORTED")
	case !valued || x.s.db.Exist(canonical) || account != nil:
		return nil
	case numbered:
		return x.halting("INVALID_ALIAS_KEY")
	}
	return standIn{gas: accountCreationGas}
}

// systemTarget is for addresses of the system: they take no value, and those without a
// contract use up all gas.
func (x *execution) systemTarget(to common.Address, number int64, gas uint64, valued bool) vm.PrecompiledContract {
	switch {
	case number >= firstSystemContract && number <= lastSystemContract:
		x.s.Fail(&SystemContractError{to})
		return x.halting("NOT_SUPPORTED")
	case valued:
		if len(x.frames) > 0 { // the network halts the caller, too; here it goes on, without success
			x.doom = &HaltError{"INVALID_CONTRACT_ID"}
		}
		return x.halting("INVALID_CONTRACT_ID")
	case x.precompiles[to] != nil:
		return nil
	}
	return standIn{gas: gas}
}

// beneficiary checks who got what a contract left behind. The instruction cannot be
// failed from a hook, so that the message fails as a whole.
func (x *execution) beneficiary(from, to common.Address, amount *big.Int) {
	id, numbered := hedera.FromLongZero(to)
	db := x.s.db
	switch {
	case from == to:
		x.poison = &HaltError{"OBTAINER_SAME_CONTRACT_ID"}
	case numbered && id.Num <= lastSystemNumber,
		// It has nothing but what it just got.
		x.s.account(to) == nil && db.GetNonce(to) == 0 && db.GetCodeSize(to) == 0 && db.GetBalance(to).CmpBig(amount) == 0:
		x.poison = &HaltError{"INVALID_SOLIDITY_ADDRESS"}
	}
}

// standIn takes so much gas, and then ends the frame well or as an error says.
type standIn struct {
	gas uint64
	end func() error // nil: well
}

func (standIn) Name() string                { return "stand-in" }
func (p standIn) RequiredGas([]byte) uint64 { return p.gas }

func (p standIn) Run([]byte) ([]byte, error) {
	if p.end == nil {
		return nil, nil
	}
	return nil, p.end()
}

// halting ends a frame.
func (x *execution) halting(status string) vm.PrecompiledContract {
	return standIn{end: func() error { x.halt = &HaltError{status}; return errHalt }}
}

// OpName is the name of an instruction.
func OpName(op byte) string { return vm.OpCode(op).String() }

// Precompiles lists the addresses of the EVM's own contracts.
func Precompiles() []common.Address {
	var all []common.Address
	for n := int64(1); n <= int64(len(vm.PrecompiledContractsCancun)); n++ {
		all = append(all, common.BigToAddress(big.NewInt(n)))
	}
	return all
}
