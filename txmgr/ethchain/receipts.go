package ethchain

import (
	"context"
	"errors"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/txmgr"
)

type receipt struct {
	Hash      common.Hash     `json:"transactionHash"`
	Block     *hexutil.Uint64 `json:"blockNumber"`
	BlockHash common.Hash     `json:"blockHash"`
	Status    *hexutil.Uint64 `json:"status"`
	GasUsed   hexutil.Uint64  `json:"gasUsed"`
	GasPrice  *hexutil.Big    `json:"effectiveGasPrice"`
	Contract  *common.Address `json:"contractAddress"`
}

// Receipts asks one endpoint for its head and then for receipts.
func (c *Chain) Receipts(ctx context.Context, list []txmgr.Signed) (txmgr.Head, []txmgr.Lookup, error) {
	questions := make([]*question, 0, len(list)+1)
	questions = append(questions, ask("eth_getBlockByNumber", "latest", false))
	for _, one := range list {
		questions = append(questions, ask("eth_getTransactionReceipt", one.Hash))
	}
	e, err := c.one(ctx, questions...)
	if err != nil {
		return txmgr.Head{}, nil, err
	}
	head, err := headOf(questions[0])
	if err != nil {
		return txmgr.Head{}, nil, err
	}
	out := make([]txmgr.Lookup, len(list))
	for n, one := range list {
		out[n] = lookup(one.Hash, questions[n+1])
		if r := out[n].Receipt; r == nil || r.Success || c.traits.Mempool {
			continue
		}
		if spent, err := c.spent(ctx, e, one, out[n].Receipt.Block); err != nil || !spent {
			out[n] = txmgr.Lookup{Hash: one.Hash, Err: err}
		}
	}
	return head, out, nil
}

// check refuses what proves nothing: another transaction's receipt, which a balancer or a cache
// may mix up, and one that leaves out its block or its status.
func (r *receipt) check(hash string) error {
	switch {
	case r.Hash != common.HexToHash(hash):
		return &transportError{errors.New("eth_getTransactionReceipt: the receipt is another transaction's")}
	case r.Block == nil || r.BlockHash == common.Hash{} || r.Status == nil || *r.Status > 1:
		return &transportError{errors.New("eth_getTransactionReceipt: the receipt is not whole")}
	}
	return nil
}

func lookup(hash string, q *question) txmgr.Lookup {
	var r receipt
	found, err := q.into(&r)
	if err == nil && found {
		err = r.check(hash)
	}
	if err != nil || !found {
		return txmgr.Lookup{Hash: hash, Err: err}
	}
	out := &txmgr.Receipt{
		Hash: hash, Block: uint64(*r.Block), BlockHash: r.BlockHash.Hex(), Success: *r.Status == 1, GasUsed: uint64(r.GasUsed),
		Raw: q.result,
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
	first := ask("eth_getBlockByNumber", "latest", false)
	e, err := c.one(ctx, first)
	if err != nil {
		return nil, err
	}
	head, err := headOf(first)
	if err != nil {
		return nil, err
	}
	used := func(block uint64) (bool, error) {
		q := ask("eth_getTransactionCount", account, hexutil.Uint64(block))
		part, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		if err := e.batch(part, q); err != nil {
			return false, err
		}
		var count hexutil.Uint64
		_, err := q.into(&count)
		return uint64(count) > nonce, err
	}
	if past, err := used(head.Number); err != nil || !past {
		return nil, err
	}
	low, high, err := bracket(head.Number, used)
	if err != nil {
		return nil, err
	}
	for low < high {
		middle := low + (high-low)/2
		past, err := used(middle)
		if err != nil {
			return nil, err
		}
		if past {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return c.inBlock(ctx, e, account, nonce, low, head)
}

// bracket walks back from the head in growing steps, since most endpoints keep old states
// for a short while only. It returns a range at whose end the nonce is used and before whose
// beginning it is not.
func bracket(head uint64, used func(uint64) (bool, error)) (low, high uint64, err error) {
	high = head
	for step := uint64(1); high > 0; step *= 2 {
		before := high - min(step, high)
		past, err := used(before)
		if err != nil {
			return 0, 0, err
		}
		if !past {
			return before + 1, high, nil
		}
		high = before
	}
	return 0, 0, nil
}

func (c *Chain) inBlock(ctx context.Context, e *endpoint, account string, nonce, number uint64, head txmgr.Head) (*txmgr.Consumer, error) {
	q := ask("eth_getBlockByNumber", hexutil.Uint64(number), true)
	part, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := e.batch(part, q); err != nil {
		return nil, err
	}
	var block struct {
		header
		Transactions []struct {
			Hash  common.Hash    `json:"hash"`
			From  common.Address `json:"from"`
			Nonce hexutil.Uint64 `json:"nonce"`

			Authorizations []types.SetCodeAuthorization `json:"authorizationList"`
		} `json:"transactions"`
	}
	if found, err := q.into(&block); err != nil || !found {
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
