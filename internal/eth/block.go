package eth

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// Block is a block as clients see it.
type Block struct {
	Number          hexutil.Uint64 `json:"number"`
	Hash            common.Hash    `json:"hash"`
	ParentHash      common.Hash    `json:"parentHash"`
	Time            hexutil.Uint64 `json:"timestamp"` // seconds since the Unix epoch
	GasLimit        hexutil.Uint64 `json:"gasLimit"`
	GasUsed         hexutil.Uint64 `json:"gasUsed"`
	BaseFee         *hexutil.Big   `json:"baseFeePerGas"` // weibar
	Bloom           types.Bloom    `json:"logsBloom"`
	Size            hexutil.Uint64 `json:"size"` // bytes
	TxRoot          common.Hash    `json:"transactionsRoot"`
	ReceiptsRoot    common.Hash    `json:"receiptsRoot"`
	WithdrawalsRoot common.Hash    `json:"withdrawalsRoot"` // of none, however that is written
	Transactions    any            `json:"transactions"`    // a list of their hashes, or of the transactions themselves
	Calls           any            `json:"calls,omitempty"` // the results of a simulated block's; nil: left out

	UnclesHash common.Hash `json:"sha3Uncles"` // types.EmptyUncleHash
	StateRoot  common.Hash `json:"stateRoot"`  // types.EmptyRootHash
	// What follows is zero: there are no uncles, no difficulty and no miner in Hedera's blocks.
	Uncles          [0]common.Hash   `json:"uncles"`
	Withdrawals     [0]common.Hash   `json:"withdrawals"`
	Difficulty      hexutil.Uint64   `json:"difficulty"`
	TotalDifficulty hexutil.Uint64   `json:"totalDifficulty"`
	Miner           common.Address   `json:"miner"`
	MixHash         common.Hash      `json:"mixHash"`
	Nonce           types.BlockNonce `json:"nonce"`
	ExtraData       hexutil.Bytes    `json:"extraData"`
}

// Show lists the transactions themselves, or their hashes.
func (b *Block) Show(transactions []*Transaction, full bool) {
	if b.Transactions = append([]*Transaction{}, transactions...); full {
		return
	}
	hashes := make([]common.Hash, len(transactions))
	for i, t := range transactions {
		hashes[i] = t.Hash
	}
	b.Transactions = hashes
}
