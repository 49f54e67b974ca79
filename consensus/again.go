package consensus

import (
	"context"
	"errors"
)

// Ask asks the node of the transaction once for its receipt. found is false where the node has
// none, or none yet. An error says nothing about the transaction.
func (p *Pending) Ask(ctx context.Context) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.client.pace.query)
	defer cancel()
	receipt, _, err := p.client.query(ctx, p.node, p.id)
	return receipt != nil, err
}

// OfferAgain offers a transaction that a node may have, or has lost, to that node under the same id, if the node says
// now that it never heard of it, and no other node knows it. It does not while the node has lost s.After as well. It
// tells whether the node has the transaction. A node takes no id twice: should the first offer be still on its way there,
// one of the two is refused as a duplicate.
func (c *Client) OfferAgain(ctx context.Context, s Submission, p *Pending) bool {
	switch c.stateAt(ctx, p.node, p.id) {
	case idKnown:
		return true
	case idUnclear:
		return false
	case idUnknown:
	}
	if c.knownElsewhere(ctx, p.node, p.id) {
		return true
	}
	if !s.After.IsZero() && s.Node == p.node.id && c.lostAt(ctx, p.node, s.After) {
		return false
	}
	s.ID, s.Node = p.id, p.node.id
	_, err := c.Offer(ctx, s)
	var duplicate *DuplicateError
	return err == nil || errors.As(err, &duplicate)
}
