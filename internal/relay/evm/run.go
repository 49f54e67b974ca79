package evm

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
)

// Block is what a message sees of the block that it is in.
type Block struct {
	Number uint64
	Time   uint64 // seconds since the Unix epoch
	Random common.Hash
	// What the network always says, unless a simulation wants something else.
	Coinbase    *common.Address // nil: 0.0.98
	GasLimit    *uint64         // nil: the message's own
	BaseFee     *big.Int        // nil: 0
	BlobBaseFee *big.Int        // nil: 1
}

// Message is what to run.
type Message struct {
	From     common.Address
	To       *common.Address // nil: a creation
	Data     []byte
	Gas      uint64 // whole limit; the gas that it costs before it runs is part of it
	Value    hedera.Tinybar
	GasPrice hedera.Tinybar // what GASPRICE shows
	Charge   bool           // take the price of the gas from the sender
}

// Result is what became of a message.
type Result struct {
	Output  []byte // also what it reverted with
	GasUsed uint64
	// MaxGasUsed is the gas that it needed before refunds.
	MaxGasUsed uint64
	Logs       []*types.Log
	Err        error // nil: it succeeded; go-ethereum's errors, or a *HaltError
}

// Reverted tells whether it failed by a revert, so that Output says why.
func (r *Result) Reverted() bool { return errors.Is(r.Err, vm.ErrExecutionReverted) }

// OutOfGas tells whether it failed because it had too little gas.
func (r *Result) OutOfGas() bool { return errors.Is(r.Err, vm.ErrOutOfGas) }

// GasError says that the limit does not cover what a message costs before it runs.
type GasError struct{ Have, Want uint64 }

func (e *GasError) Error() string {
	return fmt.Sprintf("intrinsic gas too low: have %d, want %d", e.Have, e.Want)
}

// ErrFunds says that the sender has less than the value, and the gas if it is charged.
var ErrFunds = errors.New("insufficient funds for gas * price + value")

// refundQuotient bounds what is given back of the gas, by EIP-3529.
const refundQuotient = 5

// chain is the EVM's rules. Delegations are the only difference to Cancun: the
// precompiles are set by hand, and on a network without them no code begins like one.
func chain() *params.ChainConfig {
	zero, fork := new(big.Int), new(uint64)
	return &params.ChainConfig{
		ChainID: zero, HomesteadBlock: zero, EIP150Block: zero, EIP155Block: zero, EIP158Block: zero,
		ByzantiumBlock: zero, ConstantinopleBlock: zero, PetersburgBlock: zero, IstanbulBlock: zero,
		MuirGlacierBlock: zero, BerlinBlock: zero, LondonBlock: zero, ArrowGlacierBlock: zero, GrayGlacierBlock: zero,
		MergeNetsplitBlock: zero, TerminalTotalDifficulty: zero, ShanghaiTime: fork, CancunTime: fork, PragueTime: fork,
	}
}

func rules() params.Rules { return chain().Rules(new(big.Int), true, 0) }

// Run runs a message and keeps its effects for those after it. Hooks may be nil; of
// them OnEnter, OnExit, OnOpcode, OnFault and OnLog are called, with tinybars where
// they have amounts.
func (s *State) Run(chainID uint64, block Block, msg Message, hooks *tracing.Hooks) (*Result, error) {
	result, err := s.run(chainID, block, msg, hooks)
	if err == nil {
		s.db.Finalise(rules())
	}
	return result, err
}

// Try is Run without effects: the next message finds the state as this one did. What
// was read meanwhile is not read again.
func (s *State) Try(chainID uint64, block Block, msg Message) (*Result, error) {
	defer s.db.RevertToSnapshot(s.db.Snapshot())
	return s.run(chainID, block, msg, nil)
}

func (s *State) run(chainID uint64, block Block, msg Message, hooks *tracing.Hooks) (*Result, error) {
	msg.From = s.canonical(msg.From)
	if msg.To != nil {
		to := s.canonical(*msg.To)
		msg.To = &to
	}
	if want := max(eth.DataGas(msg.Data, msg.To == nil)); msg.Gas < want {
		return nil, &GasError{Have: msg.Gas, Want: want}
	}
	price := uint256.NewInt(uint64(msg.GasPrice))
	paid := new(uint256.Int)
	if msg.Charge {
		paid.Mul(uint256.NewInt(msg.Gas), price)
	}
	if cost := new(uint256.Int).Add(paid, uint256.NewInt(uint64(msg.Value))); s.db.GetBalance(msg.From).Lt(cost) {
		if s.err != nil { // what the sender has is not known
			return nil, s.err
		}
		return nil, ErrFunds
	}
	s.db.SubBalance(msg.From, paid, tracing.BalanceDecreaseGasBuy)
	x := s.newExecution(chainID, block, msg, hooks)
	result := x.run()
	if s.err != nil {
		return nil, s.err
	}
	if msg.Charge {
		s.db.AddBalance(msg.From, new(uint256.Int).Mul(uint256.NewInt(msg.Gas-result.GasUsed), price), tracing.BalanceIncreaseGasReturn)
	}
	return result, nil
}

// execution is one run of the EVM.
type execution struct {
	s     *State
	msg   Message
	evm   *vm.EVM
	hooks *tracing.Hooks // of the caller; nil: none

	precompiles vm.PrecompiledContracts
	frames      []frame    // open, outermost first
	halt        *HaltError // why the innermost failing frame halted
	poison      *HaltError // fails the whole message at its end, if it would have worked
	doom        *HaltError // fails it however it would have ended
	hash        common.Hash
	block       Block
}

func (s *State) newExecution(chainID uint64, block Block, msg Message, hooks *tracing.Hooks) *execution {
	s.runs++
	x := &execution{s: s, msg: msg, hooks: hooks, block: block, hash: common.BigToHash(new(big.Int).SetUint64(s.runs))}
	x.precompiles = make(vm.PrecompiledContracts, len(vm.PrecompiledContractsCancun))
	warm := make([]common.Address, 0, len(vm.PrecompiledContractsCancun))
	for address, contract := range vm.PrecompiledContractsCancun {
		warm = append(warm, address)
		if !s.mocked[address] {
			x.precompiles[address] = contract
		}
	}
	state := &view{StateDB: s.db, s: s}
	if hooks != nil {
		state.onLog = hooks.OnLog
	}
	config := chain()
	config.ChainID = new(big.Int).SetUint64(chainID)
	x.evm = vm.NewEVM(x.blockContext(), state, config, vm.Config{Tracer: x.watch()})
	x.evm.SetPrecompiles(x.precompiles)
	x.evm.SetTxContext(vm.TxContext{Origin: msg.From, GasPrice: uint256.NewInt(uint64(msg.GasPrice))})
	s.db.SetTxContext(x.hash, int(s.runs), 0)
	// The network does not warm the coinbase; the sender in its place changes nothing.
	s.db.Prepare(x.evm.GetRules(), msg.From, msg.From, msg.To, warm, nil)
	return x
}

func (x *execution) blockContext() vm.BlockContext {
	b := x.block
	c := vm.BlockContext{
		CanTransfer: func(state vm.StateDB, from common.Address, amount *uint256.Int) bool {
			return !state.GetBalance(from).Lt(amount)
		},
		Transfer: func(state vm.StateDB, from, to common.Address, amount *uint256.Int, _ *params.Rules) {
			state.SubBalance(from, amount, tracing.BalanceChangeTransfer)
			state.AddBalance(to, amount, tracing.BalanceChangeTransfer)
		},
		GetHash:     x.blockHash,
		Coinbase:    hedera.Entity(98).LongZero(),
		GasLimit:    x.msg.Gas,
		BlockNumber: new(big.Int).SetUint64(b.Number),
		Time:        b.Time,
		Difficulty:  new(big.Int),
		BaseFee:     new(big.Int),
		BlobBaseFee: big.NewInt(1),
		Random:      &b.Random,
	}
	if b.Coinbase != nil {
		c.Coinbase = *b.Coinbase
	}
	if b.GasLimit != nil {
		c.GasLimit = *b.GasLimit
	}
	if b.BaseFee != nil {
		c.BaseFee = b.BaseFee
	}
	if b.BlobBaseFee != nil {
		c.BlobBaseFee = b.BlobBaseFee
	}
	return c
}

func (x *execution) blockHash(number uint64) common.Hash {
	hash, known := x.s.hashes[number]
	if known || !x.s.read() {
		return hash
	}
	hash, err := x.s.reader.BlockHash(x.s.ctx, number)
	if err != nil {
		x.s.Fail(err)
	}
	x.s.hashes[number] = hash
	return hash
}

// run runs the outermost frame. Every look-up that fails ends it, and so does the end
// of the context.
func (x *execution) run() *Result {
	s := x.s
	s.stop = x.evm.Cancel
	defer func() { s.stop = func() {} }()
	defer x.evm.Release()
	defer context.AfterFunc(s.ctx, x.evm.Cancel)()

	// On this network access lists cost nothing.
	intrinsic, floor := eth.DataGas(x.msg.Data, x.msg.To == nil)
	budget, value := vm.NewGasBudget(x.msg.Gas-intrinsic, 0), uint256.NewInt(uint64(x.msg.Value))
	snapshot := s.db.Snapshot()
	var r Result
	var left vm.GasBudget
	if x.msg.To == nil {
		r.Output, _, left, r.Err = x.evm.Create(x.msg.From, x.msg.Data, budget, value)
	} else {
		s.db.SetNonce(x.msg.From, s.db.GetNonce(x.msg.From)+1, tracing.NonceChangeEoACall)
		r.Output, left, r.Err = x.evm.Call(x.msg.From, *x.msg.To, x.msg.Data, budget, value)
	}
	if s.err == nil && s.ctx.Err() != nil {
		s.err = s.ctx.Err() // the run was cut short
	}
	r.MaxGasUsed = x.msg.Gas - left.ExecutionGas
	if x.doom != nil {
		x.poison, r.Err = x.doom, nil
	}
	r.Err = x.reason(r.Err)
	if r.Err == nil && x.poison != nil {
		s.db.RevertToSnapshot(snapshot)
		s.db.SetNonce(x.msg.From, s.db.GetNonce(x.msg.From)+1, tracing.NonceChangeEoACall)
		r.Err, r.Output, r.MaxGasUsed = x.poison, nil, x.msg.Gas
	}
	r.GasUsed = max(r.MaxGasUsed-min(r.MaxGasUsed/refundQuotient, s.db.GetRefund()), floor)
	r.MaxGasUsed = max(r.MaxGasUsed, floor)
	r.Logs = s.db.GetLogs(x.hash, x.block.Number, common.Hash{}, x.block.Time)
	return &r
}
