package hederachain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/hedera"
	"lockstep/mirror"
	"lockstep/txmgr"
)

// errNotAsked answers for nonces behind one whose fate is open: theirs is, too.
var errNotAsked = errors.New("the outcome of the transaction before it is not known yet")

// Receipts asks for the fate of each attempt, by its id and by its hash.
func (c *Chain) Receipts(ctx context.Context, list []txmgr.Signed) (txmgr.Head, []txmgr.Lookup, error) {
	head, err := c.Head(ctx)
	if err != nil {
		return txmgr.Head{}, nil, err
	}
	out := make([]txmgr.Lookup, len(list))
	open, nonce := false, uint64(0) // a nonce may have several transactions
	for n, s := range list {
		out[n] = txmgr.Lookup{Hash: s.Hash, Tag: s.Tag, Err: errNotAsked}
	}
	for n, s := range list {
		o, err := c.read(s)
		if err != nil {
			out[n].Err, open = err, true
			continue
		}
		if open && o.tx.Nonce() != nonce {
			break
		}
		nonce = o.tx.Nonce()
		out[n] = o.fate(ctx, s)
		open = out[n].Receipt == nil && (open || out[n].Refused == nil)
	}
	return head, out, nil
}

// fate asks for one attempt: the node first, which knows early and costs nothing, and the
// mirror node for what is in its blocks.
func (o *offer) fate(ctx context.Context, s txmgr.Signed) (out txmgr.Lookup) {
	out.Hash, out.Tag = s.Hash, s.Tag
	var said *txmgr.Refusal
	if time.Since(o.id.ValidStart.Time()) < consensus.ReceiptKept {
		receipt, err := o.nodes.ReceiptAt(ctx, o.id, o.node)
		switch {
		case errors.Is(err, consensus.ErrInProgress):
			return out
		case err == nil && never[receipt.Status]:
			// The name alone proves nothing: the same one may end a run. What was not run has left the nonce where it was.
			next, err := o.nodes.NonceAt(ctx, o.tx.From(), o.node)
			switch {
			case err != nil && !errors.Is(err, consensus.ErrNoAccount):
				out.Err = fmt.Errorf("the account's nonce: %w", err)
				return out
			case err != nil || next <= o.tx.Nonce():
				said = refusal(receipt.Status)
			}
		}
	}
	result, err := o.mirror.ContractResultByID(ctx, o.id)
	switch {
	case err == nil && result.Hash != common.HexToHash(s.Hash):
		said = &txmgr.Refusal{Class: txmgr.ClassPoolPolicy, Text: "somebody else's transaction has its id"}
	case err == nil && result.Complete():
		out.Receipt, said, out.Err = o.judge(ctx, result)
		if out.Receipt != nil || out.Err != nil {
			return out
		}
	case err == nil && refused(result):
		status, _ := statusOf(result)
		said = refusal(status)
	case err != nil && !errors.Is(err, mirror.ErrNotFound):
		out.Err = err
		return out
	}
	// The same bytes may have come to the network under another id.
	if out.Receipt, out.Err = o.byHash(ctx); out.Receipt == nil && out.Err == nil {
		out.Refused = said
	}
	return out
}

// statusOf reads a result's status, which for a transaction that never ran may stand in its
// error alone.
func statusOf(r *mirror.ContractResult) (hedera.Status, bool) {
	if status, ok := hedera.ParseStatus(r.Result); ok {
		return status, true
	}
	return hedera.ParseStatus(string(common.FromHex(r.ErrorMessage)))
}

// ran reports whether a record proves that its transaction was run, whatever the status is called: what is refused before
// has used no gas.
func ran(r *mirror.ContractResult) bool {
	status, known := hedera.ParseStatus(r.Result)
	return r.GasUsed > 0 || known && hedera.NonceSpent(status)
}

// refused reports whether a record is of a transaction that is in no block since it was refused before it ran. The record
// says so itself; while its block is not known, the name of the status does.
func refused(r *mirror.ContractResult) bool {
	status, known := statusOf(r)
	return !ran(r) && (r.NotRun() || known && never[status] && !r.Complete())
}

// judge tells what a result that is in a block means. Where it does not tell itself whether the transaction was run, the
// account's nonce does.
func (o *offer) judge(ctx context.Context, r *mirror.ContractResult) (*txmgr.Receipt, *txmgr.Refusal, error) {
	if ran(r) {
		return o.receiptOf(ctx, r), nil, nil
	}
	status, _ := hedera.ParseStatus(r.Result)
	next, err := o.nonce(ctx, o.tx.From())
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the account's nonce: %w", err)
	case next > o.tx.Nonce() && !never[status]:
		return o.receiptOf(ctx, r), nil, nil
	default:
		return nil, refusal(status), nil
	}
}

// byHash looks for the bytes under any id.
func (o *offer) byHash(ctx context.Context) (*txmgr.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	r, err := o.mirror.ContractResult(ctx, o.tx.Hash())
	switch {
	case errors.Is(err, mirror.ErrNotFound), r != nil && refused(r): // it may have been waited for in vain
		return nil, nil
	case errors.Is(err, mirror.ErrImmature) || err == nil && !r.Complete():
		return nil, errors.New("the mirror node has no block for it yet")
	case err != nil:
		return nil, err
	}
	receipt, _, err := o.judge(ctx, r)
	return receipt, err
}

func (c *Chain) receiptOf(ctx context.Context, r *mirror.ContractResult) *txmgr.Receipt {
	out := &txmgr.Receipt{
		Hash: r.Hash.Hex(), Block: *r.BlockNumber, BlockHash: r.BlockHash.Hex(), Success: r.Status == 1, GasUsed: r.GasUsed, GasPrice: c.paid(ctx, r),
	}
	if r.CreatedContract() && r.Address != nil {
		out.Contract = strings.ToLower(r.Address.Hex())
	}
	if !out.Success {
		out.Reason = hedera.Explain(r.Result)
		if strings.HasPrefix(r.ErrorMessage, "0x") {
			out.Output = common.FromHex(r.ErrorMessage)
		}
	}
	// Numbers and texts alone cannot fail to be written.
	out.Raw, _ = json.Marshal(map[string]any{"consensusTimestamp": r.Timestamp.String(), "result": r.Result, "contract": r.Contract.String(), "gasLimit": r.GasLimit})
	return out
}

// paid is the price of gas that was paid: the network's of that hour, and no more than was
// offered. While that price cannot be read, the offer is the most that it can be.
func (c *Chain) paid(ctx context.Context, r *mirror.ContractResult) *big.Int {
	offered := r.GasPrice
	if r.MaxFee != nil && r.MaxFee.Sign() > 0 {
		offered = r.MaxFee
	}
	price, err := c.mirror.GasPriceAt(ctx, r.Timestamp)
	switch {
	case err != nil || price <= 0:
		return offered
	case offered == nil || offered.Cmp(price.Weibar()) > 0:
		return price.Weibar()
	default:
		return offered
	}
}

// Consumer finds the transaction that used a nonce among the account's newest.
func (c *Chain) Consumer(ctx context.Context, account string, nonce uint64) (*txmgr.Consumer, error) {
	head, err := c.Head(ctx)
	if err != nil {
		return nil, err
	}
	from := common.HexToAddress(account)
	for r, err := range c.mirror.ContractResults(ctx, mirror.ResultsQuery{From: &from, Order: mirror.Descending}) {
		if err != nil {
			return nil, err
		}
		if r.Nonce == nil || !r.Complete() {
			continue
		}
		if status, _ := hedera.ParseStatus(r.Result); *r.Nonce == nonce && (ran(r) || !never[status]) {
			return &txmgr.Consumer{Hash: r.Hash.Hex(), Block: *r.BlockNumber, BlockHash: r.BlockHash.Hex(), Head: head}, nil
		}
		if *r.Nonce < nonce {
			break
		}
	}
	return nil, nil
}

// Expired reports whether an attempt can never be executed any more under its id: consensus
// time, as the mirror node has it, is past its validity, and there is no record of it, or only
// such as have not used its nonce. The time is asked first, so that the records are no older.
func (c *Chain) Expired(ctx context.Context, s txmgr.Signed) (bool, error) {
	o, err := c.read(s)
	if err != nil {
		return false, err
	}
	end := o.id.ValidStart.Time().Add(consensus.ValidDuration)
	if time.Now().Before(end.Add(-time.Minute)) { // even a clock that is far off need not ask before
		return false, nil
	}
	head, err := c.mirror.LatestBlock(ctx)
	if err != nil {
		return false, err
	}
	if !head.To.Time().After(end) {
		return false, nil
	}
	if _, err = c.mirror.Transactions(ctx, o.id); err != nil && !errors.Is(err, mirror.ErrNotFound) {
		return false, err
	}
	if err == nil {
		if next, err := c.nonce(ctx, o.tx.From()); err != nil || next > o.tx.Nonce() {
			return false, err
		}
	}
	receipt, err := o.byHash(ctx)
	return err == nil && receipt == nil, err
}
