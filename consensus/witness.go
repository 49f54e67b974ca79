package consensus

import (
	"context"
	"time"

	"lockstep/internal/hedera"
)

// Witness tells from outside, such as from the mirror node, what became of a transaction:
// nil, if it does not know yet or there is nothing to know.
type Witness func(ctx context.Context, id hedera.TransactionID) (*Receipt, error)

// Consult names a witness for transactions whose receipt the nodes do not give: while
// they do not answer, and before one is called unknown or never executed. Call it before
// the client is used.
func (c *Client) Consult(w Witness) { c.witness = w }

// consult asks the witness, not more often than once in a while unless it is the last chance.
func (w *watch) consult(ctx context.Context, lastChance bool) *Receipt {
	if w.client.witness == nil || !lastChance && time.Since(w.consulted) < w.client.pace.witness {
		return nil
	}
	w.consulted = time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.client.pace.query)
	defer cancel()
	receipt, err := w.client.witness(ctx, w.id)
	if err != nil {
		w.client.log.Debug("the mirror node was asked for a transaction and gave none", "transaction_id", w.id.String(), "error", err)
		return nil
	}
	return receipt
}
