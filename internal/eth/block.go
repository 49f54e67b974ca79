package eth

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
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
}

// AppendJSON appends the block as a JSON object.
func (b *Block) AppendJSON(dst []byte) ([]byte, error) { return b.append(dst), nil }

// MarshalJSON returns the block as a JSON object.
func (b *Block) MarshalJSON() ([]byte, error) { return b.append(nil), nil }

func (b *Block) append(dst []byte) []byte {
	return object(dst, func(dst []byte) []byte {
		dst = appendBig(dst, "baseFeePerGas", b.BaseFee)
		dst = appendUint(dst, "difficulty", 0)
		dst = appendData(dst, "extraData", nil)
		dst = appendUint(dst, "gasLimit", b.GasLimit)
		dst = appendUint(dst, "gasUsed", b.GasUsed)
		dst = appendData(dst, "hash", b.Hash[:])
		dst = appendData(dst, "logsBloom", b.Bloom[:])
		dst = appendData(dst, "miner", common.Address{}.Bytes())
		dst = appendData(dst, "mixHash", common.Hash{}.Bytes())
		dst = appendData(dst, "nonce", make([]byte, 8))
		dst = appendUint(dst, "number", b.Number)
		dst = appendData(dst, "parentHash", b.ParentHash[:])
		dst = appendData(dst, "receiptsRoot", b.ReceiptsRoot[:])
		dst = appendData(dst, "sha3Uncles", types.EmptyUncleHash[:])
		dst = appendUint(dst, "size", b.Size)
		dst = appendData(dst, "stateRoot", types.EmptyRootHash[:])
		dst = appendUint(dst, "timestamp", b.Time)
		dst = appendUint(dst, "totalDifficulty", 0)
		if b.Full {
			dst = appendList(dst, "transactions", b.Transactions, func(dst []byte, t *Transaction) []byte { return t.append(dst) })
		} else {
			dst = appendList(dst, "transactions", b.Transactions, func(dst []byte, t *Transaction) []byte { return appendHash(dst, t.Hash) })
		}
		dst = appendData(dst, "transactionsRoot", b.TxRoot[:])
		dst = append(appendName(dst, "uncles"), "[]"...)
		dst = append(appendName(dst, "withdrawals"), "[]"...)
		return appendData(dst, "withdrawalsRoot", b.WithdrawalsRoot[:])
	})
}
