package evm

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"

	"lockstep/internal/hedera"
)

// Call is a call that a message made, or the message itself.
type Call struct {
	Op       string // CALL, CREATE and so on, or SELFDESTRUCT
	From, To common.Address
	Value    *hedera.Tinybar // nil: a call that cannot have one
	Gas      uint64          // without what the message costs before it runs
	GasUsed  uint64
	Input    []byte
	Output   []byte // also what it reverted with
	Err      error  // nil: it succeeded
	Logs     []CallLog
	Calls    []*Call
}

// CallLog is a log of a call, left after so many of its calls.
type CallLog struct {
	*types.Log
	Position int
}

// CallTracer collects the calls of one message.
type CallTracer struct {
	State    *State
	OnlyTop  bool  // leave out the calls of the message
	WithLogs bool  // collect logs as well
	Most     int64 // bytes; more than that end the run with TooLarge
	TooLarge error
	Hold     func(bytes int) error // counts memory; nil: nobody does

	root  *Call
	open  []*Call
	depth int
	used  int64
}

// Root returns the message's own call; nil if it did not get that far. Logs of calls
// that were undone are not there.
func (t *CallTracer) Root() *Call {
	if t.root != nil {
		t.root.dropUndone(false)
	}
	return t.root
}

func (c *Call) dropUndone(undone bool) {
	undone = undone || c.Err != nil
	if undone {
		c.Logs = nil
	}
	for _, inner := range c.Calls {
		inner.dropUndone(undone)
	}
}

// Hooks returns what to run the message with.
func (t *CallTracer) Hooks() *tracing.Hooks {
	return &tracing.Hooks{OnEnter: t.enter, OnExit: t.exit, OnLog: t.log}
}

// take counts memory.
func (t *CallTracer) take(bytes int) bool {
	const perItem = 256
	t.used += int64(bytes) + perItem
	if t.used > t.Most {
		t.State.fail(t.TooLarge)
		return false
	}
	if t.Hold == nil {
		return true
	}
	err := t.Hold(bytes + perItem)
	if err != nil {
		t.State.fail(err)
	}
	return err == nil
}

func (t *CallTracer) enter(depth int, typ byte, from, to common.Address, input []byte, gas uint64, value *big.Int) {
	t.depth = depth
	if t.OnlyTop && depth > 0 || !t.take(len(input)) {
		return
	}
	call := &Call{Op: vm.OpCode(typ).String(), From: from, To: to, Gas: gas, Input: common.CopyBytes(input)}
	if value != nil {
		tinybars := hedera.Tinybar(value.Int64())
		call.Value = &tinybars
	}
	if depth == 0 {
		t.root = call
	} else if parent := t.innermost(); parent != nil {
		parent.Calls = append(parent.Calls, call)
	}
	t.open = append(t.open, call)
}

func (t *CallTracer) innermost() *Call {
	if len(t.open) == 0 {
		return nil
	}
	return t.open[len(t.open)-1]
}

func (t *CallTracer) exit(depth int, output []byte, gasUsed uint64, err error, _ bool) {
	t.depth = depth - 1
	call := t.innermost()
	if t.OnlyTop && depth > 0 || call == nil || !t.take(len(output)) {
		return
	}
	t.open = t.open[:len(t.open)-1]
	call.GasUsed, call.Output, call.Err = gasUsed, common.CopyBytes(output), err
}

func (t *CallTracer) log(l *types.Log) {
	call := t.innermost()
	if !t.WithLogs || t.OnlyTop && t.depth > 0 || call == nil || !t.take(len(l.Data)) {
		return
	}
	call.Logs = append(call.Logs, CallLog{Log: l, Position: len(call.Calls)})
}

// transferTopic is that of Transfer(address,address,uint256).
var transferTopic = common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")

// transferAddress stands for the network's own currency in the logs of transfers.
var transferAddress = common.HexToAddress("0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee")

// LogTracer collects the logs of one message that last, in their order.
type LogTracer struct {
	// Transfers adds a log for every transfer of value: Transfer(from, to, weibar) of
	// the address 0xeeee….
	Transfers bool

	logs  []*types.Log
	marks []int // how many logs there were when each open call began
}

// Logs returns the logs. Index and transaction are not set.
func (t *LogTracer) Logs() []*types.Log { return t.logs }

// Hooks returns what to run the message with.
func (t *LogTracer) Hooks() *tracing.Hooks {
	return &tracing.Hooks{OnEnter: t.enter, OnExit: t.exit, OnLog: t.log}
}

func (t *LogTracer) enter(_ int, typ byte, from, to common.Address, _ []byte, _ uint64, value *big.Int) {
	t.marks = append(t.marks, len(t.logs))
	op := vm.OpCode(typ)
	if !t.Transfers || value == nil || value.Sign() == 0 || op == vm.DELEGATECALL || op == vm.CALLCODE {
		return
	}
	weibar := hedera.Tinybar(value.Int64()).Weibar()
	t.log(&types.Log{
		Address: transferAddress, Topics: []common.Hash{transferTopic, common.BytesToHash(from[:]), common.BytesToHash(to[:])},
		Data: common.BigToHash(weibar).Bytes(),
	})
}

func (t *LogTracer) exit(_ int, _ []byte, _ uint64, err error, _ bool) {
	if err != nil {
		t.logs = t.logs[:t.marks[len(t.marks)-1]]
	}
	t.marks = t.marks[:len(t.marks)-1]
}

func (t *LogTracer) log(l *types.Log) { t.logs = append(t.logs, l) }
