package txmgr_test

import (
	"context"
	"math/big"

	"lockstep/txmgr"
)

// rising is an endpoint of a chain in memory that is as unlike Ethereum as one may be: a nonce above the next one is executed and ends
// those below it, and a transaction names the block until which it can be executed. There are no fees and no pool.
type rising struct {
	node
	lose bool // the next transaction is taken and never executed
}

// risingValid is how many blocks a transaction is valid.
const risingValid = 20

// losing makes the chain lose the next transaction.
func (c *rising) losing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose = true
}

func (c *rising) block() uint64 { return uint64(len(c.blocks) - 1) }

func (c *rising) ran(hash string) bool {
	_, _, found := c.executed(func(tx wireTx) bool { return tx.hash() == hash })
	return found
}

func (c *rising) Traits() txmgr.Traits {
	return txmgr.Traits{Order: txmgr.OrderRising, Validity: txmgr.ValidPayload, InFlight: 4}
}

func (c *rising) Market(ctx context.Context) (txmgr.Market, error) {
	return answered(ctx, &c.node, func() txmgr.Market { return marketOf(nil, txmgr.Fees{Max: new(big.Int)}) })
}

func (c *rising) Prepare(ctx context.Context, d txmgr.Draft) (txmgr.Unsigned, error) {
	return answered(ctx, &c.node, func() txmgr.Unsigned {
		tx := wireTx{From: d.Signer, To: d.To, Nonce: d.Nonce, Value: d.Value.Int64(), Data: d.Data, Until: c.block() + risingValid}
		return txmgr.Unsigned{Bytes: tx.digest(), Form: tx}
	})
}

func (c *rising) Send(ctx context.Context, list []txmgr.Signed) []error {
	return c.each(ctx, list, func(tx wireTx) error {
		switch {
		case c.ran(tx.hash()):
			return &txmgr.SendError{Class: txmgr.ClassKnown, Text: "executed before"}
		case tx.Until < c.block():
			return &txmgr.SendError{Class: txmgr.ClassPoolPolicy, Text: "it is not valid any more"}
		case tx.Nonce < c.next[tx.From]:
			return &txmgr.SendError{Class: txmgr.ClassNonceUsed, Text: "a nonce must be above the highest"}
		case c.lose:
			c.lose = false
			return nil
		}
		c.next[tx.From] = tx.Nonce + 1
		c.money[tx.From] -= tx.Value
		c.money[tx.To] += tx.Value
		c.blocks = append(c.blocks, []wireTx{tx})
		return nil
	})
}

func (c *rising) Expired(ctx context.Context, s txmgr.Signed) (bool, error) {
	return answered(ctx, &c.node, func() bool {
		tx, _, err := c.read(s.Raw)
		return err == nil && c.block() > tx.Until && !c.ran(s.Hash)
	})
}
