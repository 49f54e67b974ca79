package ethapi

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/mirror"
	"lockstep/rpc"
)

// The raw encodings are Ethereum's own and decode with its tools. They hold what the
// objects of the other methods hold, so that
//
//   - a header does not hash to the block's hash, which is made of Hedera's block;
//   - a transaction that was signed hashes to its own hash, unless the network kept
//     less of it than was sent;
//   - a transaction that nobody signed for Ethereum, a native call or a synthetic one,
//     has the signature 0, 0, 0;
//   - in profile hiero a block is one flat list.

// getRawHeader is debug_getRawHeader: 0x if there is no such block.
func (a *API) getRawHeader(ctx context.Context, p *rpc.Params) (any, error) {
	c, err := a.rawContents(ctx, p)
	if c == nil || err != nil {
		return hexutil.Bytes{}, err
	}
	return encodedBytes(a.header(c.block(false)))
}

// getRawBlock is debug_getRawBlock: 0x if there is no such block.
func (a *API) getRawBlock(ctx context.Context, p *rpc.Params) (any, error) {
	c, err := a.rawContents(ctx, p)
	if c == nil || err != nil {
		return hexutil.Bytes{}, err
	}
	if a.hiero() {
		return a.flatBlock(c)
	}
	body := types.Body{Withdrawals: types.Withdrawals{}}
	for _, e := range c.entries {
		tx, err := e.transaction.Signed()
		if err != nil {
			return nil, err
		}
		body.Transactions = append(body.Transactions, tx)
	}
	return encodedBytes(types.NewBlockWithHeader(a.header(c.block(false))).WithBody(body))
}

// flatBlock is a raw block as the TypeScript relay writes it: the header's fields, the
// encoded transactions, no uncles and no withdrawals, all in one list.
func (a *API) flatBlock(c *contents) (any, error) {
	head, err := rlp.EncodeToBytes(a.header(c.block(false)))
	if err != nil {
		return nil, err
	}
	fields, err := rlp.SplitListValues(head)
	if err != nil {
		return nil, err
	}
	transactions := make([][]byte, len(c.entries))
	for i, e := range c.entries {
		if transactions[i], err = e.transaction.Encoding(); err != nil {
			return nil, err
		}
	}
	list := make([]any, 0, len(fields)+3)
	for _, field := range fields {
		list = append(list, rlp.RawValue(field))
	}
	return encodedBytes(append(list, transactions, []any{}, []any{}))
}

// getRawReceipts is debug_getRawReceipts: an empty list if there is no such block.
func (a *API) getRawReceipts(ctx context.Context, p *rpc.Params) (any, error) {
	raw := []hexutil.Bytes{}
	c, err := a.rawContents(ctx, p)
	if c == nil || err != nil {
		return raw, err
	}
	for _, e := range c.entries {
		receipt := e.receipt.Consensus()
		if e.receipt.Root != nil {
			receipt.PostState = e.receipt.Root[:]
		}
		text, err := receipt.MarshalBinary()
		if err != nil {
			return nil, err
		}
		raw = append(raw, text)
	}
	return raw, nil
}

// getRawTransaction is debug_getRawTransaction: 0x if there is no such transaction, or
// if it never ran.
func (a *API) getRawTransaction(ctx context.Context, p *rpc.Params) (any, error) {
	hash := hashOf(p.At(0))
	result, err := a.mirror.ContractResult(ctx, hash)
	missing, err := notFound(err)
	if err != nil {
		return nil, err
	}
	b := a.builder()
	var tx *eth.Transaction
	switch {
	case missing:
		logs, err := a.mirror.Logs(ctx, mirror.LogsQuery{Transaction: &hash})
		if err != nil {
			return nil, err
		}
		if len(logs) > 0 {
			tx = b.syntheticTransaction(buildLogs(logs[:1])[0])
		}
	case result.Complete():
		tx = b.transaction(result)
	}
	if tx == nil {
		return hexutil.Bytes{}, nil
	}
	raw, err := tx.Encoding()
	if err != nil {
		return nil, err
	}
	return hexutil.Bytes(raw), nil
}

// rawContents reads the block of parameter 0; nil without an error if there is none.
func (a *API) rawContents(ctx context.Context, p *rpc.Params) (*contents, error) {
	block, err := a.blockParam(ctx, p)
	if block == nil || err != nil {
		return nil, err
	}
	return a.contents(ctx, block)
}

// rewardAccount is where the network collects what it pays to its nodes. Profile hiero
// names it as the beneficiary of a raw header.
const rewardAccount = 801

// header is a block's header in go-ethereum's form.
func (a *API) header(b *eth.Block) *types.Header {
	h := &types.Header{
		ParentHash: b.ParentHash, UncleHash: b.UnclesHash, Root: b.StateRoot, TxHash: b.TxRoot,
		ReceiptHash: b.ReceiptsRoot, Bloom: b.Bloom, Difficulty: new(big.Int), Number: new(big.Int).SetUint64(uint64(b.Number)),
		GasLimit: uint64(b.GasLimit), GasUsed: uint64(b.GasUsed), Time: uint64(b.Time), BaseFee: b.BaseFee.ToInt(), WithdrawalsHash: &b.WithdrawalsRoot,
	}
	if a.hiero() {
		h.Coinbase = hedera.Entity(rewardAccount).LongZero()
	}
	return h
}

func encodedBytes(v any) (any, error) {
	raw, err := rlp.EncodeToBytes(v)
	return hexutil.Bytes(raw), err
}
