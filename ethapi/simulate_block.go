package ethapi

import (
	"encoding/binary"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/eth"
	"lockstep/internal/relay/evm"
)

// simulatedBlock is a block that a simulation makes.
type simulatedBlock struct {
	env      evm.Block
	chain    *big.Int
	block    *eth.Block
	calls    []*simulatedCall
	shown    []*eth.Transaction
	full     bool // transactions are listed themselves
	unsigned types.Transactions
	receipts types.Receipts
	logs     hexutil.Uint64
}

// simulatedCall is the result of a call. Its shape is go-ethereum's.
type simulatedCall struct {
	Output  hexutil.Bytes    `json:"returnData"`
	Logs    []*eth.Log       `json:"logs"`
	GasUsed hexutil.Uint64   `json:"gasUsed"`
	MaxGas  hexutil.Uint64   `json:"maxUsedGas"`
	Status  hexutil.Uint64   `json:"status"`
	Error   *simulationError `json:"error,omitempty"`
}

type simulationError struct {
	Message string `json:"message"`
	Code    int    `json:"code"`
	Data    string `json:"data,omitempty"`
}

func newSimulatedBlock(s *simulation, request *simulateRequest, env evm.Block, parent common.Hash) *simulatedBlock {
	b := &simulatedBlock{env: env, chain: request.chain, calls: []*simulatedCall{}, full: request.full, block: &eth.Block{
		Number: hexutil.Uint64(env.Number), ParentHash: parent, Time: hexutil.Uint64(env.Time), GasLimit: hexutil.Uint64(gasLimit(s.head.HAPI)),
		BaseFee: eth.Number(s.baseFeeOf(&env, request.strict)), UnclesHash: types.EmptyUncleHash, StateRoot: types.EmptyRootHash, WithdrawalsRoot: types.EmptyWithdrawalsHash,
	}}
	if env.GasLimit != nil {
		b.block.GasLimit = hexutil.Uint64(*env.GasLimit)
	}
	return b
}

// add puts a call into the block. The logs include those of transfers, which are not in the receipt.
func (b *simulatedBlock) add(call *txArgs, m *evm.Message, r *evm.Result, logs []*types.Log) {
	tx := unsignedCall(b.chain, call, m.Gas)
	index := hexutil.Uint64(len(b.calls))
	b.block.GasUsed += hexutil.Uint64(r.GasUsed)
	shown := pendingTransaction(m.From, tx)
	shown.BlockHash, shown.BlockNumber, shown.Index = &b.block.Hash, &b.block.Number, &index
	b.shown = append(b.shown, shown)
	b.unsigned = append(b.unsigned, tx)
	b.block.Size += hexutil.Uint64(tx.Size())

	c := &simulatedCall{GasUsed: hexutil.Uint64(r.GasUsed), MaxGas: hexutil.Uint64(r.MaxGasUsed), Logs: []*eth.Log{}, Output: hexutil.Bytes{}}
	if r.Err == nil {
		c.Status, c.Output = 1, present(r.Output)
	} else {
		c.Error = callFailure(r)
	}
	for _, l := range logs {
		c.Logs = append(c.Logs, &eth.Log{
			Address: l.Address, Topics: l.Topics, Data: l.Data, BlockNumber: b.block.Number, BlockTime: b.block.Time,
			TxHash: tx.Hash(), TxIndex: index, Index: b.logs,
		})
		b.logs++
	}
	b.calls = append(b.calls, c)

	receipt := &types.Receipt{Type: tx.Type(), Status: uint64(c.Status), CumulativeGasUsed: uint64(b.block.GasUsed), Logs: r.Logs}
	receipt.Bloom = types.CreateBloom(receipt)
	b.receipts = append(b.receipts, receipt)
}

func callFailure(r *evm.Result) *simulationError {
	if !r.Reverted() {
		return &simulationError{Message: r.Err.Error(), Code: eth.CodeVMError}
	}
	e := revertError(r.Output)
	return &simulationError{Message: e.Message, Code: e.Code, Data: hexutil.Encode(r.Output)}
}

// seal ends the block. Its hash is made of its content, since the network's hash cannot be known.
func (b *simulatedBlock) seal() {
	b.block.TxRoot, b.block.ReceiptsRoot = listRoot(b.unsigned), listRoot(b.receipts)
	b.block.Bloom = types.MergeBloom(b.receipts)
	var figures [24]byte
	binary.BigEndian.PutUint64(figures[:], uint64(b.block.Number))
	binary.BigEndian.PutUint64(figures[8:], uint64(b.block.Time))
	binary.BigEndian.PutUint64(figures[16:], uint64(b.block.GasUsed))
	b.block.Hash = crypto.Keccak256Hash(b.block.ParentHash[:], figures[:], b.block.TxRoot[:], b.block.ReceiptsRoot[:])
	for _, c := range b.calls {
		for _, l := range c.Logs {
			l.BlockHash = b.block.Hash
		}
	}
	b.block.Show(b.shown, b.full)
	b.block.Calls = b.calls
}
