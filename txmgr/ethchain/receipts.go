package ethchain

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/ethrpc"
	"lockstep/txmgr"
)

type receipt struct {
	Hash      common.Hash     `json:"transactionHash"`
	Block     *hexutil.Uint64 `json:"blockNumber"`
	BlockHash *common.Hash    `json:"blockHash"`
	Status    *hexutil.Uint64 `json:"status"`
	GasUsed   hexutil.Uint64  `json:"gasUsed"`
	GasPrice  *hexutil.Big    `json:"effectiveGasPrice"`
	Contract  *common.Address `json:"contractAddress"`
}

// Receipts asks one endpoint for its head and then for receipts. If the lowest transaction without one has had none for a while, or a receipt is of a block
// that was replaced, the other endpoints are asked too: one that knows better answers for all.
func (c *Chain) Receipts(ctx context.Context, list []txmgr.Signed) (txmgr.Head, []txmgr.Lookup, error) {
	q := newInquiry(list)
	e, err := c.client.Do(ctx, q.calls...)
	if err != nil {
		return txmgr.Head{}, nil, err
	}
	head, out, err := c.found(ctx, e, q)
	stale := slices.ContainsFunc(out, isStale)
	if err != nil || !stale && !c.overdue(q.lowestMissing(out)) {
		return head, out, err
	}
	for _, other := range c.client.Order() {
		second := newInquiry(list)
		if other == e || other.Do(ctx, second.calls...) != nil {
			continue
		}
		at, found, err := c.found(ctx, other, second)
		if err != nil || slices.ContainsFunc(found, isStale) {
			continue
		}
		if stale || second.lowestMissing(found) != q.lowestMissing(out) {
			return at, found, nil
		}
	}
	for n := range out {
		if again, is := errors.AsType[*staleError](out[n].Err); is && again.there != nil {
			out[n] = txmgr.Lookup{Hash: out[n].Hash, Receipt: again.there}
		}
	}
	return head, out, nil
}

// inquiry is one endpoint's questions about transactions.
type inquiry struct {
	list     []txmgr.Signed
	head     header
	receipts []receipt
	calls    []*ethrpc.Call // the head's first
}

func newInquiry(list []txmgr.Signed) *inquiry {
	q := &inquiry{list: list, receipts: make([]receipt, len(list)), calls: make([]*ethrpc.Call, 0, len(list)+1)}
	q.calls = append(q.calls, ethrpc.Ask(&q.head, "eth_getBlockByNumber", "latest", false))
	for n, one := range list {
		q.calls = append(q.calls, ethrpc.Ask(&q.receipts[n], "eth_getTransactionReceipt", one.Hash))
	}
	return q
}

// lowestMissing is the first transaction that was answered with "none", "" if there is none.
func (q *inquiry) lowestMissing(list []txmgr.Lookup) string {
	for _, one := range list {
		if one.Receipt == nil && one.Err == nil {
			return one.Hash
		}
	}
	return ""
}

// found reads an endpoint's answers.
func (c *Chain) found(ctx context.Context, e *ethrpc.Endpoint, q *inquiry) (txmgr.Head, []txmgr.Lookup, error) {
	if err := q.calls[0].Need(); err != nil {
		return txmgr.Head{}, nil, err
	}
	out := make([]txmgr.Lookup, len(q.list))
	for n, one := range q.list {
		out[n] = lookup(one.Hash, q.calls[n+1], &q.receipts[n])
		if r := out[n].Receipt; r == nil || r.Success || c.traits.Mempool {
			continue
		}
		if spent, err := c.spent(ctx, e, one, out[n].Receipt.Block); err != nil || !spent {
			out[n] = txmgr.Lookup{Hash: one.Hash, Err: err}
		}
	}
	if c.traits.Depth > 0 { // else nothing is ever replaced
		if err := standing(ctx, e, out); err != nil {
			return txmgr.Head{}, nil, err
		}
	}
	return q.head.head(), out, nil
}

// staleError means that a receipt is of a block that is not the endpoint's own at that height. Some nodes and caches go on serving it after a reorganisation, for
// days, whatever became of the transaction.
type staleError struct {
	there *txmgr.Receipt // the receipt, if the endpoint's own block has the transaction, too: some nodes name their blocks in two ways
}

func (*staleError) Error() string {
	return "eth_getTransactionReceipt: the receipt is of a block that is not on the chain"
}

func isStale(l txmgr.Lookup) bool {
	_, is := errors.AsType[*staleError](l.Err)
	return is
}

// standing holds receipts against the blocks that the endpoint has at their heights. One of another block proves nothing.
func standing(ctx context.Context, e *ethrpc.Endpoint, list []txmgr.Lookup) error {
	type listed struct {
		Hash         common.Hash   `json:"hash"`
		Transactions []common.Hash `json:"transactions"`
	}
	blocks := map[uint64]*listed{}
	var calls []*ethrpc.Call
	for _, one := range list {
		if one.Receipt != nil && blocks[one.Receipt.Block] == nil {
			blocks[one.Receipt.Block] = new(listed)
			calls = append(calls, ethrpc.Ask(blocks[one.Receipt.Block], "eth_getBlockByNumber", hexutil.Uint64(one.Receipt.Block), false))
		}
	}
	if len(calls) == 0 {
		return nil
	}
	if err := e.Do(ctx, calls...); err != nil {
		return err
	}
	for n, one := range list {
		if one.Receipt == nil || blocks[one.Receipt.Block].Hash.Hex() == one.Receipt.BlockHash {
			continue
		}
		why := &staleError{}
		if own := blocks[one.Receipt.Block]; slices.Contains(own.Transactions, common.HexToHash(one.Hash)) {
			again := *one.Receipt
			again.BlockHash = own.Hash.Hex()
			why.there = &again
		}
		list[n] = txmgr.Lookup{Hash: one.Hash, Err: why}
	}
	return nil
}

// A transaction is looked for at other endpoints when it has had no receipt for this long, and then as often.
const lookElsewhere = 2 * time.Second

// maxWaiting bounds how many transactions without a receipt are remembered.
const maxWaiting = 4096

// overdue reports whether a transaction has been without a receipt for long, and notes that it is.
func (c *Chain) overdue(hash string) bool {
	if hash == "" || len(c.client.All()) == 1 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	since, known := c.waiting[hash]
	if known && now.Sub(since) < lookElsewhere {
		return false
	}
	if len(c.waiting) >= maxWaiting {
		clear(c.waiting)
	}
	c.waiting[hash] = now
	return known
}

// check refuses what proves nothing: another transaction's receipt, which a balancer or a cache
// may mix up, and one that leaves out its block or its status.
func (r *receipt) check(hash string) error {
	switch {
	case r.Hash != common.HexToHash(hash):
		return errors.New("eth_getTransactionReceipt: the receipt is another transaction's")
	case r.Block == nil || r.BlockHash == nil || *r.BlockHash == common.Hash{} || r.Status == nil || *r.Status > 1:
		return errors.New("eth_getTransactionReceipt: the receipt is not whole")
	}
	return nil
}

func lookup(hash string, q *ethrpc.Call, r *receipt) txmgr.Lookup {
	found, err := q.Answer()
	if err == nil && found {
		err = r.check(hash)
	}
	if err != nil || !found {
		return txmgr.Lookup{Hash: hash, Err: err}
	}
	out := &txmgr.Receipt{
		Hash: hash, Block: uint64(*r.Block), BlockHash: r.BlockHash.Hex(), Success: *r.Status == 1, GasUsed: uint64(r.GasUsed),
		Raw: q.Raw(),
	}
	if r.GasPrice != nil {
		out.GasPrice = r.GasPrice.ToInt()
	}
	if r.Contract != nil {
		out.Contract = r.Contract.Hex()
	}
	return txmgr.Lookup{Hash: hash, Receipt: out}
}

// Consumer finds the transaction that used a nonce: it halves the chain by the account's
// nonce at each height and reads the block in which it grew. Every question goes to one
// endpoint.
func (c *Chain) Consumer(ctx context.Context, account string, nonce uint64) (*txmgr.Consumer, error) {
	var newest header
	latest := ethrpc.Ask(&newest, "eth_getBlockByNumber", "latest", false)
	e, err := c.client.Do(ctx, latest)
	if err != nil {
		return nil, err
	}
	if err := latest.Need(); err != nil {
		return nil, err
	}
	head := newest.head()
	used := func(block uint64) (bool, error) {
		var count hexutil.Uint64
		q := ethrpc.Ask(&count, "eth_getTransactionCount", account, hexutil.Uint64(block))
		if err := e.Do(ctx, q); err != nil {
			return false, err
		}
		return uint64(count) > nonce, q.Need()
	}
	if past, err := used(head.Number); err != nil || !past {
		return nil, err
	}
	first, err := txmgr.FirstUse(head.Number, used)
	if err != nil {
		return nil, err
	}
	return c.inBlock(ctx, e, account, nonce, first, head)
}

func (c *Chain) inBlock(ctx context.Context, e *ethrpc.Endpoint, account string, nonce, number uint64, head txmgr.Head) (*txmgr.Consumer, error) {
	var block struct {
		header
		Transactions []struct {
			Hash  common.Hash    `json:"hash"`
			From  common.Address `json:"from"`
			Nonce hexutil.Uint64 `json:"nonce"`

			Authorizations []types.SetCodeAuthorization `json:"authorizationList"`
		} `json:"transactions"`
	}
	q := ethrpc.Ask(&block, "eth_getBlockByNumber", hexutil.Uint64(number), true)
	if err := e.Do(ctx, q); err != nil {
		return nil, err
	}
	if found, err := q.Answer(); err != nil || !found {
		return nil, err
	}
	for _, tx := range block.Transactions {
		if tx.From == common.HexToAddress(account) && uint64(tx.Nonce) == nonce ||
			slices.ContainsFunc(tx.Authorizations, func(a types.SetCodeAuthorization) bool { return authorizes(a, account, nonce) }) {
			return &txmgr.Consumer{Hash: tx.Hash.Hex(), Block: number, BlockHash: block.Hash.Hex(), Head: head}, nil
		}
	}
	return nil, nil // the account's own code can use a nonce by creating a contract: no transaction has it
}

// authorizes reports whether an account has signed an authorization (EIP-7702) with a nonce. It uses the nonce up, whoever
// sends the transaction that carries it.
func authorizes(a types.SetCodeAuthorization, account string, nonce uint64) bool {
	if a.Nonce != nonce {
		return false
	}
	authority, err := a.Authority()
	return err == nil && authority == common.HexToAddress(account)
}

// Expired is false: what was signed for Ethereum is valid for ever.
func (c *Chain) Expired(context.Context, txmgr.Signed) (bool, error) { return false, nil }

// Renew is an error: there is nothing to renew.
func (c *Chain) Renew(context.Context, txmgr.Signed, string) (txmgr.Signed, error) {
	return txmgr.Signed{}, txmgr.ErrNotPossible
}
