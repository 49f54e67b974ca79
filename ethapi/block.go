package ethapi

import (
	"cmp"
	"context"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/trie"

	"lockstep/internal/eth"
	"lockstep/mirror"
	"lockstep/rpc"
)

// getBlock is eth_getBlockByNumber and eth_getBlockByHash.
func (a *API) getBlock(ctx context.Context, p *rpc.Params) (any, error) {
	block, err := a.blockParam(ctx, p)
	if block == nil || err != nil {
		return nil, err
	}
	full := p.Bool(1)
	c, err := a.contents(ctx, block)
	if err != nil {
		return nil, err
	}
	if full {
		if len(c.entries) >= a.cfg.MaxFullTransactions {
			return nil, eth.ErrBlockTooLarge(len(c.entries))
		}
		c.learnSenders(a)
		if err := a.aliases(ctx, c.transactionAddresses()...); err != nil {
			return nil, err
		}
		if err := a.payers(ctx, c); err != nil {
			return nil, err
		}
	}
	return c.block(full), nil
}

// blockParam finds the block of parameter 0; nil without an error if there is none.
func (a *API) blockParam(ctx context.Context, p *rpc.Params) (*mirror.Block, error) {
	ref, err := blockRef(p.At(0))
	if err != nil {
		return nil, err
	}
	return a.block(ctx, ref)
}

// getBlockReceipts is eth_getBlockReceipts.
func (a *API) getBlockReceipts(ctx context.Context, p *rpc.Params) (any, error) {
	block, err := a.blockParam(ctx, p)
	if block == nil || err != nil {
		return nil, err
	}
	c, err := a.contents(ctx, block)
	if err != nil {
		return nil, err
	}
	c.learnSenders(a)
	if err := a.aliases(ctx, c.receiptAddresses()...); err != nil {
		return nil, err
	}
	if err := a.payers(ctx, c); err != nil {
		return nil, err
	}
	receipts := make([]*eth.Receipt, len(c.entries))
	for i := range c.entries {
		receipts[i] = c.entries[i].receipt
	}
	return receipts, nil
}

// getBlockTransactionCount is eth_getBlockTransactionCountByNumber and …ByHash: the number of transactions that
// the block shows, or in profile hiero of all that it has.
func (a *API) getBlockTransactionCount(ctx context.Context, p *rpc.Params) (any, error) {
	block, err := a.blockParam(ctx, p)
	if block == nil || err != nil {
		return nil, err
	}
	if block.Count == 0 || a.hiero() { // the TypeScript relay counts native transactions, too
		return hexutil.Uint64(block.Count), nil
	}
	results, logs, err := a.listed(ctx, block)
	if err != nil {
		return nil, err
	}
	distinct := make(map[common.Hash]bool, len(results))
	for _, r := range results {
		distinct[r.Hash] = true
	}
	for _, l := range logs {
		distinct[l.TxHash] = true
	}
	return hexutil.Uint64(len(distinct)), nil
}

// listed reads the two lists of a block: the results of its transactions, and its logs.
func (a *API) listed(ctx context.Context, block *mirror.Block) (results []*mirror.ContractResult, logs []*mirror.Log, err error) {
	t, ctx := parallel(ctx, 2)
	t.run(func() (err error) { results, err = a.mirror.BlockResults(ctx, block); return err })
	t.run(func() (err error) { logs, err = a.mirror.BlockLogs(ctx, block, mirror.LogsQuery{}); return err })
	err = t.wait()
	return results, logs, err
}

// contents is everything in a block, in order.
type contents struct {
	builder
	source  *mirror.Block
	entries []entry
}

type entry struct {
	transaction *eth.Transaction
	receipt     *eth.Receipt
	synthetic   *mirror.Log // the first event of a synthetic transaction, whose receiver is a token, which has no alias; else nil
}

// contents reads a block's results and logs and builds its transactions and events.
func (a *API) contents(ctx context.Context, block *mirror.Block) (*contents, error) {
	c := &contents{builder: a.builder(), source: block}
	var results []*mirror.ContractResult
	var logs []*mirror.Log
	t, taskCtx := parallel(ctx, 3)
	t.run(func() (err error) { c.price, err = a.priceAt(taskCtx, block.To); return err })
	if block.Count > 0 {
		t.run(func() (err error) { results, err = a.mirror.BlockResults(taskCtx, block); return err })
		t.run(func() (err error) { logs, err = a.mirror.BlockLogs(taskCtx, block, mirror.LogsQuery{}); return err })
	}
	if err := t.wait(); err != nil {
		return nil, err
	}
	if !block.Settled() && lacksLogs(results, logs) {
		return nil, mirror.ErrImmature
	}
	c.fill(results, logs)
	return c, nil
}

// lacksLogs tells whether there is a result whose bloom shows logs, and none of them: a part of the logs came from one of several
// mirror nodes behind an address, which lags.
func lacksLogs(results []*mirror.ContractResult, logs []*mirror.Log) bool {
	have := make(map[common.Hash]bool, len(results))
	for _, l := range logs {
		have[l.TxHash] = true
	}
	return slices.ContainsFunc(results, func(r *mirror.ContractResult) bool {
		return !have[r.Hash] && slices.ContainsFunc(r.Bloom, func(bits byte) bool { return bits != 0 })
	})
}

// fill makes the entries: one for each result, and one for each transaction of which
// only logs are known, all in the order of their index.
func (c *contents) fill(results []*mirror.ContractResult, logs []*mirror.Log) {
	byHash := make(map[common.Hash][]*eth.Log)
	var firsts []*mirror.Log
	for _, l := range logs {
		if byHash[l.TxHash] == nil {
			firsts = append(firsts, l)
		}
		byHash[l.TxHash] = append(byHash[l.TxHash], &l.Log)
	}
	for _, r := range results {
		if t := c.transaction(r); t != nil {
			c.entries = append(c.entries, entry{t, c.receipt(r, byHash[r.Hash], 0), nil})
		}
		delete(byHash, r.Hash)
	}
	for _, first := range firsts {
		if own := byHash[first.TxHash]; own != nil {
			c.entries = append(c.entries, entry{c.syntheticTransaction(own[0]), c.syntheticReceipt(own, 0), first})
		}
	}
	slices.SortStableFunc(c.entries, func(a, b entry) int { return cmp.Compare(a.receipt.Index, b.receipt.Index) })
	var cumulative hexutil.Uint64
	for _, e := range c.entries {
		cumulative += e.receipt.GasUsed
		e.receipt.CumulativeGasUsed = cumulative
	}
}

func (c *contents) transactionAddresses() (all []*common.Address) {
	for _, e := range c.entries {
		if e.synthetic == nil {
			all = append(all, addressesOf(&e.transaction.From, &e.transaction.To)...)
		}
	}
	return all
}

func (c *contents) receiptAddresses() (all []*common.Address) {
	for _, e := range c.entries {
		if e.synthetic == nil {
			all = append(all, addressesOf(&e.receipt.From, &e.receipt.To)...)
		}
	}
	return all
}

// payers shows who paid for each synthetic transaction.
func (a *API) payers(ctx context.Context, c *contents) error {
	return each(ctx, a.cfg.Concurrency, c.entries, func(ctx context.Context, _ int, e entry) (err error) {
		if e.synthetic != nil {
			e.transaction.From, err = a.payerOf(ctx, e.synthetic)
			e.receipt.From = e.transaction.From
		}
		return err
	})
}

// payerOf is the account that paid for the native transaction of an event, which is who sent the synthetic one. Where the
// mirror node does not know it any more, the token stands for it.
func (a *API) payerOf(ctx context.Context, first *mirror.Log) (common.Address, error) {
	payer, err := a.mirror.PayerAt(ctx, first.Timestamp)
	if missing, err := notFound(err); missing || err != nil {
		return first.Address, err
	}
	return a.mirror.Alias(ctx, payer.LongZero())
}

// addressesOf copies the receiver, so that it can be replaced, and returns both addresses.
func addressesOf(from *common.Address, to **common.Address) []*common.Address {
	if *to == nil {
		return []*common.Address{from}
	}
	own := **to
	*to = &own
	return []*common.Address{from, &own}
}

// block builds the block itself.
func (c *contents) block(full bool) *eth.Block {
	b := &eth.Block{
		Number: hexutil.Uint64(c.source.Number), Hash: c.source.Hash, ParentHash: c.source.ParentHash, Time: hexutil.Uint64(c.source.From.Seconds),
		GasLimit: hexutil.Uint64(gasLimit(c.source.HAPI)), GasUsed: hexutil.Uint64(c.source.GasUsed), BaseFee: eth.Number(c.price), Size: hexutil.Uint64(c.source.Size),
		Bloom: c.bloom(), UnclesHash: types.EmptyUncleHash, StateRoot: types.EmptyRootHash,
	}
	transactions := make([]*eth.Transaction, len(c.entries))
	var signed types.Transactions
	var receipts types.Receipts
	for i, e := range c.entries {
		transactions[i] = e.transaction
		receipts = append(receipts, e.receipt.Consensus())
		if tx, err := e.transaction.Signed(); err == nil {
			signed = append(signed, tx)
		}
	}
	b.Show(transactions, full)
	b.TxRoot, b.ReceiptsRoot, b.WithdrawalsRoot = listRoot(signed), listRoot(receipts), types.EmptyWithdrawalsHash
	if c.hiero {
		c.hieroRoots(b)
	}
	return b
}

// listRoot is the root of the trie that Ethereum builds over a list.
func listRoot(list types.DerivableList) common.Hash {
	return types.DeriveSha(list, trie.NewStackTrie(nil))
}

// hieroRoots sets the roots of the TypeScript relay: the block's hash as the root of transactions, and zeros for no
// transactions.
func (c *contents) hieroRoots(b *eth.Block) {
	b.WithdrawalsRoot = common.Hash{}
	if len(c.entries) == 0 {
		b.ReceiptsRoot = common.Hash{}
	} else {
		b.TxRoot = b.Hash
	}
}

// bloom is the union of the receipts'. That of the mirror node may lack events of tokens. It stands for receipts that
// are not listed.
func (c *contents) bloom() (bloom types.Bloom) {
	if len(c.source.Bloom) == types.BloomByteLength {
		bloom = types.BytesToBloom(c.source.Bloom)
	}
	for _, e := range c.entries {
		for i, b := range e.receipt.Bloom {
			bloom[i] |= b
		}
	}
	return bloom
}
