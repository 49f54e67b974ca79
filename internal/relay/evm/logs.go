package evm

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"

	"lockstep/internal/hedera"
)

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
