package mirrorrest_test

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/vm"
)

// The contracts of these tests, written in the EVM's own instructions.

var (
	raisedTopic = common.HexToHash("0x00000000000000000000000000000000000000000000000000000000000000a1")
	echoTopic   = common.HexToHash("0xf1000000000000000000000000000000000000000000000000000000000000a2")
)

// selectors of the counter contract: the first byte of the call data.
const (
	callRevert = 1 // reverts with Error("no more")
	callGet    = 2 // returns the counter
)

// counterCode counts its calls in slot 0, keeps the last value sent in slot 5, and
// emits two events each time.
func counterCode() []byte {
	var a assembly
	a.op(vm.CALLDATASIZE, vm.ISZERO).jumpIf("raise")
	a.push(0).op(vm.CALLDATALOAD).push(0).op(vm.BYTE) // first byte
	a.op(vm.DUP1).push(callRevert).op(vm.EQ).jumpIf("revert")
	a.push(callGet).op(vm.EQ).jumpIf("get")
	a.op(vm.INVALID)

	a.label("raise")
	a.push(0).op(vm.SLOAD).push(1).op(vm.ADD, vm.DUP1).push(0).op(vm.SSTORE)
	a.push(0).op(vm.MSTORE)
	a.op(vm.CALLVALUE).push(5).op(vm.SSTORE)
	a.op(vm.CALLER).word(raisedTopic).push(32).push(0).op(vm.LOG2)
	a.op(vm.CALLER).word(echoTopic).push(0).push(0).op(vm.LOG2)
	a.op(vm.STOP)

	a.label("get")
	a.push(0).op(vm.SLOAD).push(0).op(vm.MSTORE).push(32).push(0).op(vm.RETURN)

	a.label("revert")
	a.word(common.HexToHash("0x08c379a0" + zeros(56))).push(0).op(vm.MSTORE)
	a.push(32).push(4).op(vm.MSTORE)
	a.push(7).push(36).op(vm.MSTORE)
	a.word(common.HexToHash("0x6e6f206d6f7265" + zeros(50))).push(68).op(vm.MSTORE)
	a.push(100).push(0).op(vm.REVERT)
	return a.assemble()
}

// forwarderCode calls the address in its call data with all value and no data.
func forwarderCode() []byte {
	var a assembly
	a.push(0).push(0).push(0).push(0).op(vm.CALLVALUE)
	a.push(0).op(vm.CALLDATALOAD, vm.GAS, vm.CALL, vm.POP, vm.STOP)
	return a.assemble()
}

// factoryCode creates a contract without code at every call.
func factoryCode() []byte {
	var a assembly
	a.push(0).push(0).push(0).op(vm.CREATE, vm.POP, vm.STOP)
	return a.assemble()
}

// initCode returns a runtime from memory.
func initCode(runtime []byte) []byte {
	head := []byte{
		byte(vm.PUSH2), byte(len(runtime) >> 8), byte(len(runtime)), byte(vm.DUP1),
		byte(vm.PUSH1), 12, byte(vm.PUSH1), 0, byte(vm.CODECOPY), byte(vm.PUSH1), 0, byte(vm.RETURN),
	}
	return append(head, runtime...)
}

func zeros(n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = '0'
	}
	return string(out)
}

// assembly is code with labels, all of them below 256.
type assembly struct {
	code   []byte
	labels map[string]byte
	jumps  map[int]string
}

func (a *assembly) op(ops ...vm.OpCode) *assembly {
	for _, o := range ops {
		a.code = append(a.code, byte(o))
	}
	return a
}

func (a *assembly) push(b byte) *assembly {
	a.code = append(a.code, byte(vm.PUSH1), b)
	return a
}

func (a *assembly) word(h common.Hash) *assembly {
	a.code = append(append(a.code, byte(vm.PUSH32)), h[:]...)
	return a
}

func (a *assembly) jumpIf(label string) *assembly {
	if a.jumps == nil {
		a.jumps = map[int]string{}
	}
	a.push(0)
	a.jumps[len(a.code)-1] = label
	return a.op(vm.JUMPI)
}

func (a *assembly) label(name string) *assembly {
	if a.labels == nil {
		a.labels = map[string]byte{}
	}
	a.labels[name] = byte(len(a.code))
	return a.op(vm.JUMPDEST)
}

func (a *assembly) assemble() []byte {
	for at, label := range a.jumps {
		a.code[at] = a.labels[label]
	}
	if len(a.code) > 256 {
		panic("labels do not fit in a byte")
	}
	return a.code
}
