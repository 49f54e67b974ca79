package source

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/ethrpc"
	"lockstep/mirror"
)

// Transaction is one transaction of a block, with what came of it.
type Transaction struct {
	Hash        common.Hash
	BlockNumber uint64
	BlockHash   common.Hash
	Time        uint64 // of the block, in seconds since 1970
	Index       uint64 // in the block
	From        common.Address
	To          *common.Address // nil for a creation
	// Contract is the address of what was called, where the chain knows it by another one than To.
	Contract *common.Address
	Value    *big.Int // wei; on Hedera weibar
	Input    []byte
	Nonce    uint64

	Failed  bool // it was executed and changed nothing
	GasUsed uint64
	Created *common.Address
}

const (
	// blocksPerBatch is how many full blocks one request asks for.
	blocksPerBatch = 16
	// receiptsPerBatch is how many receipts.
	receiptsPerBatch = 100
)

// TransactionsOfBlock returns the wanted transactions of a block in their order, with what came of them. ErrNotFound means that no endpoint has the
// block: it may have been replaced by another. Want may be called again for the same transaction, at the same time, and after the return: it
// must only read.
func (p *Pool) TransactionsOfBlock(ctx context.Context, b Block, want func(*Transaction) bool) ([]Transaction, error) {
	return ask(ctx, p, func(ctx context.Context, e *endpoint) ([]Transaction, error) {
		return e.transactions(ctx, extent{hash: &b.Hash, from: b.Number, to: b.Number}, want)
	})
}

// TransactionsOfRange returns the wanted transactions of blocks that cannot be replaced any more. It reads each block as a whole.
func (p *Pool) TransactionsOfRange(ctx context.Context, from, to uint64, want func(*Transaction) bool) (all []Transaction, err error) {
	for ; from <= to; from += blocksPerBatch {
		w := extent{from: from, to: min(to, from+blocksPerBatch-1)}
		list, err := ask(ctx, p, func(ctx context.Context, e *endpoint) ([]Transaction, error) { return e.transactions(ctx, w, want) })
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// fullBlock is a block with its transactions.
type fullBlock struct {
	header
	Root         *common.Hash     `json:"transactionsRoot"`
	GasUsed      hexutil.Uint64   `json:"gasUsed"`
	Transactions []rawTransaction `json:"transactions"`
}

// rawTransaction is a transaction on the wire.
type rawTransaction struct {
	Hash      common.Hash     `json:"hash"`
	BlockHash *common.Hash    `json:"blockHash"`
	Index     hexutil.Uint64  `json:"transactionIndex"`
	From      common.Address  `json:"from"`
	To        *common.Address `json:"to"`
	Value     *hexutil.Big    `json:"value"`
	Input     hexutil.Bytes   `json:"input"`
	Nonce     hexutil.Uint64  `json:"nonce"`
}

// rawReceipt is what is read of a receipt.
type rawReceipt struct {
	BlockHash common.Hash     `json:"blockHash"`
	Status    *hexutil.Uint64 `json:"status"` // before Byzantium it is not there, and Root is
	Root      hexutil.Bytes   `json:"root"`
	GasUsed   hexutil.Uint64  `json:"gasUsed"`
	Created   *common.Address `json:"contractAddress"`
}

// transactions reads whole blocks, and the receipts of what is wanted of them. A batch that is refused is halved.
func (j jsonRPC) transactions(ctx context.Context, w extent, want func(*Transaction) bool) ([]Transaction, error) {
	list, err := j.wanted(ctx, w, want)
	if err != nil && w.to > w.from && ctx.Err() == nil && !errors.Is(err, ErrNotFound) {
		half := w.from + (w.to-w.from)/2
		list, err = j.transactions(ctx, extent{from: w.from, to: half}, want)
		if err != nil {
			return nil, err
		}
		rest, err := j.transactions(ctx, extent{from: half + 1, to: w.to}, want)
		return append(list, rest...), err
	}
	if err != nil {
		return nil, err
	}
	return list, j.outcomes(ctx, list)
}

func (j jsonRPC) wanted(ctx context.Context, w extent, want func(*Transaction) bool) (list []Transaction, err error) {
	blocks := make([]fullBlock, w.to-w.from+1)
	calls := make([]*ethrpc.Call, len(blocks))
	for i := range blocks {
		if w.hash != nil {
			calls[i] = ethrpc.Ask(&blocks[i], "eth_getBlockByHash", *w.hash, true)
		} else {
			calls[i] = ethrpc.Ask(&blocks[i], "eth_getBlockByNumber", hexutil.Uint64(w.from+uint64(i)), true)
		}
	}
	if err := j.answers(ctx, calls); err != nil {
		return nil, err
	}
	for i := range blocks {
		b := &blocks[i]
		switch {
		case !b.there():
			return nil, ErrNotFound
		case uint64(*b.Number) != w.from+uint64(i), w.hash != nil && *b.Hash != *w.hash, i > 0 && b.ParentHash != *blocks[i-1].Hash:
			return nil, errAnother
		case len(b.Transactions) == 0 && b.GasUsed > 0 && b.Root != nil && *b.Root != types.EmptyTxsHash && *b.Root != (common.Hash{}):
			return nil, errors.New("a block that used gas and has no transactions")
		}
		if list, err = b.wanted(list, want); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// wanted adds the wanted transactions of a block.
func (b *fullBlock) wanted(list []Transaction, want func(*Transaction) bool) ([]Transaction, error) {
	seen := make(map[uint64]struct{}, len(b.Transactions))
	for i := range b.Transactions {
		r := &b.Transactions[i]
		_, twice := seen[uint64(r.Index)]
		if twice || r.BlockHash != nil && *r.BlockHash != *b.Hash {
			return nil, errors.New("a transaction of another block, or two of one index")
		}
		seen[uint64(r.Index)] = struct{}{}
		t := Transaction{
			Hash: r.Hash, BlockNumber: uint64(*b.Number), BlockHash: *b.Hash, Time: uint64(b.Timestamp), Index: uint64(r.Index),
			From: r.From, To: r.To, Value: new(big.Int), Input: r.Input, Nonce: uint64(r.Nonce),
		}
		if r.Value != nil {
			t.Value = r.Value.ToInt()
		}
		if want(&t) {
			list = append(list, t)
		}
	}
	return list, nil
}

// outcomes reads the receipts of transactions.
func (j jsonRPC) outcomes(ctx context.Context, list []Transaction) error {
	for part := range slices.Chunk(list, receiptsPerBatch) {
		receipts := make([]rawReceipt, len(part))
		calls := make([]*ethrpc.Call, len(part))
		for i := range part {
			calls[i] = ethrpc.Ask(&receipts[i], "eth_getTransactionReceipt", part[i].Hash)
		}
		if err := j.answers(ctx, calls); err != nil {
			return err
		}
		for i, r := range receipts {
			switch {
			case r.BlockHash != part[i].BlockHash: // it has not indexed the block yet, or the block was replaced
				return ErrNotFound
			case r.Status == nil && len(r.Root) != common.HashLength, r.Status != nil && *r.Status > 1:
				return errors.New("a receipt that does not say whether the transaction failed")
			}
			part[i].Failed, part[i].GasUsed, part[i].Created = r.Status != nil && *r.Status == 0, uint64(r.GasUsed), r.Created
		}
	}
	return nil
}

// answers asks several questions. What an endpoint lacks is ErrNotFound.
func (j jsonRPC) answers(ctx context.Context, calls []*ethrpc.Call) error {
	if err := j.Do(ctx, calls...); err != nil {
		return err
	}
	for _, c := range calls {
		switch found, err := c.Found(); {
		case err == nil && !found:
			return ErrNotFound
		case err != nil:
			return fmt.Errorf("%w: %s: %w", errRefused, c.Method, err)
		}
	}
	return nil
}

// transactions reads the results of contracts' calls in each block. Transfers that are no Ethereum transactions are not among them.
func (m *mirrorNode) transactions(ctx context.Context, w extent, want func(*Transaction) bool) (list []Transaction, err error) {
	for number := w.from; number <= w.to; number++ {
		m.calls(1)
		var block *mirror.Block
		if w.hash != nil {
			block, err = m.client.BlockByHash(ctx, *w.hash)
		} else {
			block, err = m.client.BlockByNumber(ctx, number)
		}
		if err != nil {
			return nil, mirrored(err)
		}
		if block.Count == 0 {
			continue
		}
		m.calls(1)
		results, err := m.client.BlockResults(ctx, block)
		if err != nil {
			return nil, mirrored(err)
		}
		for _, r := range results {
			t := Transaction{
				Hash: r.Hash, BlockNumber: block.Number, BlockHash: block.Hash, Time: uint64(block.From.Seconds), Index: *r.Index, From: r.From, To: r.To, Contract: r.Address,
				Value: new(big.Int), Input: r.Input, Failed: r.Status == 0, GasUsed: r.GasUsed,
			}
			if r.Amount != nil {
				t.Value = r.Amount
			}
			if r.Nonce != nil {
				t.Nonce = *r.Nonce
			}
			if r.To == nil {
				t.Created, t.Contract = r.Address, nil
			}
			if t.From, err = m.sender(ctx, r.From); err != nil {
				return nil, err
			}
			if want(&t) {
				list = append(list, t)
			}
		}
	}
	return list, nil
}

// maxSenders bounds the senders whose address is remembered.
const maxSenders = 10_000

// sender is the Ethereum address of whom a record may name by its number. An account keeps its address for ever.
func (m *mirrorNode) sender(ctx context.Context, a common.Address) (common.Address, error) {
	if !longZero(a) {
		return a, nil
	}
	if known, ok := m.senders.Get(a); ok {
		return known, nil
	}
	m.calls(1)
	account, err := m.client.Account(ctx, a)
	switch {
	case errors.Is(err, mirror.ErrNotFound):
		return a, nil // it is deleted, or not known yet
	case err != nil:
		return a, mirrored(err)
	}
	m.senders.Add(a, account.Address)
	return account.Address, nil
}

// longZero tells whether an address is the number of an account.
func longZero(a common.Address) bool { return [12]byte(a[:12]) == [12]byte{} }
