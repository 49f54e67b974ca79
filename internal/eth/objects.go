package eth

import (
	"encoding/json"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// The objects of JSON-RPC results. Fields that are nil are null or left out as their comments say. They are not for reading JSON.

type members map[string]any

// number is a quantity; nil is zero.
func number(n *big.Int) *hexutil.Big { return (*hexutil.Big)(whole(n)) }

// Transaction is a transaction as clients see it.
type Transaction struct {
	BlockHash   *common.Hash // nil: not in a block; written as null, as the next two
	BlockNumber *uint64
	Index       *uint64

	Hash    common.Hash
	Type    uint8
	ChainID *big.Int // nil: left out
	// AnyChain tells that a transaction with a type was signed for chain id 0, while
	// clients are shown the chain it is on.
	AnyChain bool
	From     common.Address
	To       *common.Address // nil: a creation; written as null
	Nonce    uint64
	Value    *big.Int // weibar
	Input    []byte
	Gas      uint64

	GasPrice *big.Int // weibar: what a unit of gas cost, or the maximum that is offered
	MaxFee   *big.Int // weibar; types 2 and 4
	MaxTip   *big.Int // weibar; types 2 and 4

	AccessList     types.AccessList // types 1, 2 and 4
	Authorizations []Authorization  // type 4

	// V is 27, 28 or EIP-155's number for type 0, and the parity of y otherwise.
	V, R, S *big.Int

	Checksums bool // sender and receiver are written in the capitals of EIP-55
}

// Authorization is a signed permission to run an address's code as an account's.
type Authorization struct {
	ChainID *big.Int
	Address common.Address
	Nonce   uint64
	YParity uint64
	R, S    *big.Int
}

// MarshalJSON returns the transaction as a JSON object.
func (t *Transaction) MarshalJSON() ([]byte, error) {
	m := members{
		"blockHash":        t.BlockHash,
		"blockNumber":      (*hexutil.Uint64)(t.BlockNumber),
		"from":             t.shown(&t.From),
		"gas":              hexutil.Uint64(t.Gas),
		"gasPrice":         number(t.GasPrice),
		"hash":             t.Hash,
		"input":            hexutil.Bytes(t.Input),
		"nonce":            hexutil.Uint64(t.Nonce),
		"r":                number(t.R),
		"s":                number(t.S),
		"to":               t.shown(t.To),
		"transactionIndex": (*hexutil.Uint64)(t.Index),
		"type":             hexutil.Uint64(t.Type),
		"v":                number(t.V),
		"value":            number(t.Value),
	}
	if t.ChainID != nil {
		m["chainId"] = number(t.ChainID)
	}
	if t.Type != types.LegacyTxType {
		m["accessList"], m["yParity"] = accesses(t.AccessList), number(t.V)
	}
	if t.Type != types.LegacyTxType && t.Type != types.AccessListTxType {
		m["maxPriorityFeePerGas"], m["maxFeePerGas"] = number(t.MaxTip), number(t.MaxFee)
	}
	if t.Type == types.SetCodeTxType {
		list := make([]members, len(t.Authorizations))
		for i, a := range t.Authorizations {
			list[i] = members{
				"chainId": number(a.ChainID), "address": a.Address, "nonce": hexutil.Uint64(a.Nonce), "yParity": hexutil.Uint64(a.YParity),
				"r": number(a.R), "s": number(a.S),
			}
		}
		m["authorizationList"] = list
	}
	return json.Marshal(m)
}

// shown is an address as text, or nothing.
func (t *Transaction) shown(address *common.Address) any {
	if address != nil && t.Checksums {
		return address.Hex()
	}
	return address
}

// accesses is a list without nulls.
func accesses(list types.AccessList) types.AccessList {
	shown := make(types.AccessList, len(list))
	for i, entry := range list {
		shown[i] = types.AccessTuple{Address: entry.Address, StorageKeys: append([]common.Hash{}, entry.StorageKeys...)}
	}
	return shown
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
	BlockHash         common.Hash
	BlockNumber       uint64
	TxHash            common.Hash
	Index             uint64
	Type              uint8
	From              common.Address
	To                *common.Address // nil: a creation
	ContractAddress   *common.Address // nil: none came into being
	Status            uint64          // 1: it did what it was meant to do
	GasUsed           uint64
	CumulativeGasUsed uint64   // of the block up to and including this transaction
	EffectiveGasPrice *big.Int // weibar
	Logs              []*Log
	Bloom             types.Bloom
	RevertReason      []byte       // nil: left out
	Root              *common.Hash // of the state, as receipts had it before EIP-658; nil: left out
}

// MarshalJSON returns the receipt as a JSON object.
func (r *Receipt) MarshalJSON() ([]byte, error) {
	m := members{
		"blockHash":         r.BlockHash,
		"blockNumber":       hexutil.Uint64(r.BlockNumber),
		"contractAddress":   r.ContractAddress,
		"cumulativeGasUsed": hexutil.Uint64(r.CumulativeGasUsed),
		"effectiveGasPrice": number(r.EffectiveGasPrice),
		"from":              r.From,
		"gasUsed":           hexutil.Uint64(r.GasUsed),
		"logs":              append([]*Log{}, r.Logs...),
		"logsBloom":         r.Bloom,
		"status":            hexutil.Uint64(r.Status),
		"to":                r.To,
		"transactionHash":   r.TxHash,
		"transactionIndex":  hexutil.Uint64(r.Index),
		"type":              hexutil.Uint64(r.Type),
	}
	if r.Root != nil {
		m["root"] = r.Root
	}
	if r.RevertReason != nil {
		m["revertReason"] = hexutil.Bytes(r.RevertReason)
	}
	return json.Marshal(m)
}

// Encoding returns the receipt in the form whose trie is the receiptsRoot.
func (r *Receipt) Encoding() []byte { return r.encoding(nil) }

// RawEncoding is Encoding with Root, if there is one, in the place of the status.
func (r *Receipt) RawEncoding() []byte {
	if r.Root == nil {
		return r.Encoding()
	}
	return r.encoding(r.Root[:])
}

func (r *Receipt) encoding(root []byte) []byte {
	consensus := types.Receipt{
		Type: r.Type, PostState: root, Status: r.Status, CumulativeGasUsed: r.CumulativeGasUsed, Bloom: r.Bloom,
		Logs: make([]*types.Log, len(r.Logs)),
	}
	for i, l := range r.Logs {
		consensus.Logs[i] = &types.Log{Address: l.Address, Topics: l.Topics, Data: l.Data}
	}
	raw, err := consensus.MarshalBinary()
	if err != nil {
		return nil // a type that Ethereum does not have; it is not built from one
	}
	return raw
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
