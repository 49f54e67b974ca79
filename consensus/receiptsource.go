package consensus

import (
	"context"
	"time"

	"lockstep/internal/hedera"
)

// ReceiptSource tells from outside, such as from the mirror node, what became of a transaction:
// nil, if it does not know yet or there is nothing to know.
type ReceiptSource func(ctx context.Context, id hedera.TransactionID) (*Receipt, error)

// ReceiptsAlsoFrom names a source for transactions whose receipt the nodes do not give: while
// they do not answer, and before one is called unknown or never executed. Call it before
// the client is used.
func (c *Client) ReceiptsAlsoFrom(w ReceiptSource) { c.source = w }

// askSource asks the source, not more often than once in a while unless it is the last chance.
func (w *watch) askSource(ctx context.Context, lastChance bool) *Receipt {
	if w.client.source == nil || !lastChance && time.Since(w.askedSource) < w.client.pace.source {
		return nil
	}
	w.askedSource = time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.client.pace.query)
	defer cancel()
	receipt, err := w.client.source(ctx, w.id)
	if err != nil {
		w.client.log.Debug("the mirror node was asked for a transaction and gave none", "transaction_id", w.id.String(), "error", err)
		return nil
	}
	return receipt
}
