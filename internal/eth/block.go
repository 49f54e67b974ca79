package eth

import (
	"encoding/json"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// Block is a block as clients see it. What Hedera's blocks do not have is a
// constant: there are no uncles, no difficulty, no miner and no state root.
type Block struct {
	Number       uint64
	Hash         common.Hash
	ParentHash   common.Hash
	Time         uint64 // seconds since the Unix epoch
	GasLimit     uint64
	GasUsed      uint64
	BaseFee      *big.Int // weibar
	Bloom        types.Bloom
	Size         uint64 // bytes
	TxRoot       common.Hash
	ReceiptsRoot common.Hash
	// WithdrawalsRoot is of none, however that is written.
	WithdrawalsRoot common.Hash
	Transactions    []*Transaction
	// Full writes the transactions themselves instead of their hashes.
	Full bool
	// Calls are the results of a simulated block's; nil: left out.
	Calls any
}

// MarshalJSON returns the block as a JSON object.
func (b *Block) MarshalJSON() ([]byte, error) {
	list := make([]any, len(b.Transactions))
	for i, t := range b.Transactions {
		if list[i] = t.Hash; b.Full {
			list[i] = t
		}
	}
	m := members{
		"baseFeePerGas":    number(b.BaseFee),
		"difficulty":       "0x0",
		"extraData":        "0x",
		"gasLimit":         hexutil.Uint64(b.GasLimit),
		"gasUsed":          hexutil.Uint64(b.GasUsed),
		"hash":             b.Hash,
		"logsBloom":        b.Bloom,
		"miner":            common.Address{},
		"mixHash":          common.Hash{},
		"nonce":            types.BlockNonce{},
		"number":           hexutil.Uint64(b.Number),
		"parentHash":       b.ParentHash,
		"receiptsRoot":     b.ReceiptsRoot,
		"sha3Uncles":       types.EmptyUncleHash,
		"size":             hexutil.Uint64(b.Size),
		"stateRoot":        types.EmptyRootHash,
		"timestamp":        hexutil.Uint64(b.Time),
		"totalDifficulty":  "0x0",
		"transactions":     list,
		"transactionsRoot": b.TxRoot,
		"uncles":           []common.Hash{},
		"withdrawals":      []common.Hash{},
		"withdrawalsRoot":  b.WithdrawalsRoot,
	}
	if b.Calls != nil {
		m["calls"] = b.Calls
	}
	return json.Marshal(m)
}
