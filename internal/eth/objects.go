package eth

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// The objects of JSON-RPC results, by their tags. They are not for reading JSON.

// Number is a quantity; nil is zero.
func Number(n *big.Int) *hexutil.Big {
	if n == nil {
		n = new(big.Int)
	}
	return (*hexutil.Big)(n)
}

// Accesses is an access list without nulls, also where there is none.
func Accesses(list types.AccessList) types.AccessList {
	shown := make(types.AccessList, len(list))
	for i, entry := range list {
		shown[i] = types.AccessTuple{Address: entry.Address, StorageKeys: append([]common.Hash{}, entry.StorageKeys...)}
	}
	return shown
}

// Transaction is a transaction as clients see it. What its type does not have is nil, and left out.
type Transaction struct {
	BlockHash   *common.Hash    `json:"blockHash"` // nil: not in a block, as the next two
	BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	Index       *hexutil.Uint64 `json:"transactionIndex"`

	Hash    common.Hash    `json:"hash"`
	Type    hexutil.Uint64 `json:"type"`
	ChainID *hexutil.Big   `json:"chainId,omitempty"`
	// AnyChain tells that a transaction with a type was signed for chain id 0, while
	// clients are shown the chain it is on.
	AnyChain bool            `json:"-"`
	From     common.Address  `json:"from"`
	To       *common.Address `json:"to"` // nil: a creation
	Nonce    hexutil.Uint64  `json:"nonce"`
	Value    *hexutil.Big    `json:"value"` // weibar
	Input    hexutil.Bytes   `json:"input"`
	Gas      hexutil.Uint64  `json:"gas"`

	GasPrice *hexutil.Big `json:"gasPrice"`                       // weibar: what a unit of gas cost, or the maximum that is offered
	MaxFee   *hexutil.Big `json:"maxFeePerGas,omitempty"`         // weibar; types 2 and 4
	MaxTip   *hexutil.Big `json:"maxPriorityFeePerGas,omitempty"` // weibar; types 2 and 4

	AccessList     types.AccessList             `json:"accessList,omitzero"`        // types 1, 2 and 4
	Authorizations []types.SetCodeAuthorization `json:"authorizationList,omitzero"` // type 4

	// V is 27, 28 or EIP-155's number for type 0, and the parity of y otherwise.
	V       *hexutil.Big `json:"v"`
	YParity *hexutil.Big `json:"yParity,omitempty"` // V of types 1, 2 and 4
	R       *hexutil.Big `json:"r"`
	S       *hexutil.Big `json:"s"`
}

// Log is an event as clients see it. None is removed: blocks are final.
type Log struct {
	Address     common.Address `json:"address"`
	Topics      []common.Hash  `json:"topics"`
	Data        hexutil.Bytes  `json:"data"`
	BlockHash   common.Hash    `json:"blockHash"`
	BlockNumber hexutil.Uint64 `json:"blockNumber"`
	BlockTime   hexutil.Uint64 `json:"blockTimestamp"` // seconds since the Unix epoch
	TxHash      common.Hash    `json:"transactionHash"`
	TxIndex     hexutil.Uint64 `json:"transactionIndex"`
	Index       hexutil.Uint64 `json:"logIndex"` // position in the block
	Removed     bool           `json:"removed"`
}

// Receipt is what became of a transaction, as clients see it.
type Receipt struct {
	BlockHash         common.Hash     `json:"blockHash"`
	BlockNumber       hexutil.Uint64  `json:"blockNumber"`
	TxHash            common.Hash     `json:"transactionHash"`
	Index             hexutil.Uint64  `json:"transactionIndex"`
	Type              hexutil.Uint64  `json:"type"`
	From              common.Address  `json:"from"`
	To                *common.Address `json:"to"`              // nil: a creation
	ContractAddress   *common.Address `json:"contractAddress"` // nil: none came into being
	Status            hexutil.Uint64  `json:"status"`          // 1: it did what it was meant to do
	GasUsed           hexutil.Uint64  `json:"gasUsed"`
	CumulativeGasUsed hexutil.Uint64  `json:"cumulativeGasUsed"` // of the block up to and including this transaction
	EffectiveGasPrice *hexutil.Big    `json:"effectiveGasPrice"` // weibar
	Logs              []*Log          `json:"logs"`              // not nil
	Bloom             types.Bloom     `json:"logsBloom"`
	RevertReason      hexutil.Bytes   `json:"revertReason,omitzero"` // nil: left out
	Root              *common.Hash    `json:"root,omitempty"`        // of the state, as receipts had it before EIP-658; nil: left out
}

// Consensus returns what go-ethereum encodes of a receipt.
func (r *Receipt) Consensus() *types.Receipt {
	receipt := &types.Receipt{
		Type: uint8(r.Type), Status: uint64(r.Status), CumulativeGasUsed: uint64(r.CumulativeGasUsed), Bloom: r.Bloom,
		Logs: make([]*types.Log, len(r.Logs)),
	}
	for i, l := range r.Logs {
		receipt.Logs[i] = &types.Log{Address: l.Address, Topics: l.Topics, Data: l.Data}
	}
	return receipt
}

// Encoding returns the signed transaction as it was sent, as far as what is known
// of it allows.
func (t *Transaction) Encoding() ([]byte, error) {
	tx, err := t.Signed()
	if err != nil {
		return nil, err
	}
	return tx.MarshalBinary()
}

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
