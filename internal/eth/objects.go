package eth

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// The objects of JSON-RPC results. Each writes its own JSON; fields that are nil
// are null or left out as their comments say. They are not for reading JSON.

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

// AppendJSON appends the transaction as a JSON object.
func (t *Transaction) AppendJSON(dst []byte) ([]byte, error) { return t.append(dst), nil }

// MarshalJSON returns the transaction as a JSON object.
func (t *Transaction) MarshalJSON() ([]byte, error) { return t.append(nil), nil }

func (t *Transaction) append(dst []byte) []byte {
	return object(dst, func(dst []byte) []byte {
		dst = appendMaybeHash(dst, "blockHash", t.BlockHash)
		dst = appendMaybeUint(dst, "blockNumber", t.BlockNumber)
		if t.ChainID != nil {
			dst = appendBig(dst, "chainId", t.ChainID)
		}
		dst = t.appendAddress(dst, "from", &t.From)
		dst = appendUint(dst, "gas", t.Gas)
		dst = appendBig(dst, "gasPrice", t.GasPrice)
		dst = appendData(dst, "hash", t.Hash[:])
		dst = appendData(dst, "input", t.Input)
		dst = appendUint(dst, "nonce", t.Nonce)
		dst = appendBig(dst, "r", t.R)
		dst = appendBig(dst, "s", t.S)
		dst = t.appendAddress(dst, "to", t.To)
		dst = appendMaybeUint(dst, "transactionIndex", t.Index)
		dst = appendUint(dst, "type", uint64(t.Type))
		dst = appendBig(dst, "v", t.V)
		dst = appendBig(dst, "value", t.Value)
		return t.appendTyped(dst)
	})
}

// appendAddress appends an address, or null.
func (t *Transaction) appendAddress(dst []byte, name string, address *common.Address) []byte {
	if address == nil || !t.Checksums {
		return appendMaybeAddress(dst, name, address)
	}
	dst = append(appendName(dst, name), '"')
	return append(append(dst, address.Hex()...), '"')
}

func (t *Transaction) appendTyped(dst []byte) []byte {
	if t.Type == types.LegacyTxType {
		return dst
	}
	dst = appendList(dst, "accessList", t.AccessList, appendAccess)
	dst = appendBig(dst, "yParity", t.V)
	if t.Type == types.AccessListTxType {
		return dst
	}
	dst = appendBig(dst, "maxPriorityFeePerGas", t.MaxTip)
	dst = appendBig(dst, "maxFeePerGas", t.MaxFee)
	if t.Type == types.SetCodeTxType {
		dst = appendList(dst, "authorizationList", t.Authorizations, appendAuthorization)
	}
	return dst
}

func appendAccess(dst []byte, entry types.AccessTuple) []byte {
	return object(dst, func(dst []byte) []byte {
		dst = appendData(dst, "address", entry.Address[:])
		return appendList(dst, "storageKeys", entry.StorageKeys, appendHash)
	})
}

func appendAuthorization(dst []byte, a Authorization) []byte {
	return object(dst, func(dst []byte) []byte {
		dst = appendBig(dst, "chainId", a.ChainID)
		dst = appendData(dst, "address", a.Address[:])
		dst = appendUint(dst, "nonce", a.Nonce)
		dst = appendUint(dst, "yParity", a.YParity)
		dst = appendBig(dst, "r", a.R)
		return appendBig(dst, "s", a.S)
	})
}

// Log is an event as clients see it.
type Log struct {
	Address     common.Address
	Topics      []common.Hash
	Data        []byte
	BlockHash   common.Hash
	BlockNumber uint64
	BlockTime   uint64 // seconds since the Unix epoch
	TxHash      common.Hash
	TxIndex     uint64
	Index       uint64 // position in the block
}

// AppendJSON appends the log as a JSON object.
func (l *Log) AppendJSON(dst []byte) ([]byte, error) { return l.append(dst), nil }

// MarshalJSON returns the log as a JSON object.
func (l *Log) MarshalJSON() ([]byte, error) { return l.append(nil), nil }

func (l *Log) append(dst []byte) []byte {
	return object(dst, func(dst []byte) []byte {
		dst = appendData(dst, "address", l.Address[:])
		dst = appendData(dst, "blockHash", l.BlockHash[:])
		dst = appendUint(dst, "blockNumber", l.BlockNumber)
		dst = appendUint(dst, "blockTimestamp", l.BlockTime)
		dst = appendData(dst, "data", l.Data)
		dst = appendUint(dst, "logIndex", l.Index)
		dst = append(appendName(dst, "removed"), "false"...) // blocks are final
		dst = appendList(dst, "topics", l.Topics, appendHash)
		dst = appendData(dst, "transactionHash", l.TxHash[:])
		return appendUint(dst, "transactionIndex", l.TxIndex)
	})
}

func appendLog(dst []byte, l *Log) []byte { return l.append(dst) }

// Logs is a list of logs.
type Logs []*Log

// AppendJSON appends the logs as a JSON array.
func (l Logs) AppendJSON(dst []byte) ([]byte, error) { return array(dst, l, appendLog), nil }

// MarshalJSON returns the logs as a JSON array.
func (l Logs) MarshalJSON() ([]byte, error) { return array(nil, l, appendLog), nil }

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

// AppendJSON appends the receipt as a JSON object.
func (r *Receipt) AppendJSON(dst []byte) ([]byte, error) { return r.append(dst), nil }

// MarshalJSON returns the receipt as a JSON object.
func (r *Receipt) MarshalJSON() ([]byte, error) { return r.append(nil), nil }

func (r *Receipt) append(dst []byte) []byte {
	return object(dst, func(dst []byte) []byte {
		dst = appendData(dst, "blockHash", r.BlockHash[:])
		dst = appendUint(dst, "blockNumber", r.BlockNumber)
		dst = appendMaybeAddress(dst, "contractAddress", r.ContractAddress)
		dst = appendUint(dst, "cumulativeGasUsed", r.CumulativeGasUsed)
		dst = appendBig(dst, "effectiveGasPrice", r.EffectiveGasPrice)
		dst = appendData(dst, "from", r.From[:])
		dst = appendUint(dst, "gasUsed", r.GasUsed)
		dst = appendList(dst, "logs", r.Logs, appendLog)
		dst = appendData(dst, "logsBloom", r.Bloom[:])
		if r.Root != nil {
			dst = appendData(dst, "root", r.Root[:])
		}
		dst = appendUint(dst, "status", r.Status)
		dst = appendMaybeAddress(dst, "to", r.To)
		dst = appendData(dst, "transactionHash", r.TxHash[:])
		dst = appendUint(dst, "transactionIndex", r.Index)
		dst = appendUint(dst, "type", uint64(r.Type))
		if r.RevertReason != nil {
			dst = appendData(dst, "revertReason", r.RevertReason)
		}
		return dst
	})
}

// Receipts is the receipts of a block.
type Receipts []*Receipt

// AppendJSON appends the receipts as a JSON array.
func (r Receipts) AppendJSON(dst []byte) ([]byte, error) {
	return array(dst, r, func(dst []byte, one *Receipt) []byte { return one.append(dst) }), nil
}

// MarshalJSON returns the receipts as a JSON array.
func (r Receipts) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

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
