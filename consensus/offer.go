package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// NewID draws an id for a transaction of sender: it names the operator that pays, and is valid from
// now on, for ValidDuration. It is unique in this process; other processes rarely draw the same.
func (c *Client) NewID(sender common.Address) (hedera.TransactionID, error) {
	payer := c.operators.pick(sender)
	if payer == nil {
		return hedera.TransactionID{}, ErrNoOperator
	}
	id, _ := c.ids.next(payer.ID, time.Now())
	return id, nil
}

// NodesFor returns all nodes in the order in which a sender's transaction should be offered to
// them: the sender's own node first, those that are out last.
func (c *Client) NodesFor(sender common.Address) []hedera.ID {
	var ranked []*node
	var ids []hedera.ID
	for n := c.nodes.best(sender, nil); n != nil; n = c.nodes.best(sender, ranked) {
		ranked, ids = append(ranked, n), append(ids, n.id)
	}
	return ids
}

// Offer gives a transaction with an id of its caller's to its node, once. It never draws an id, never chooses a node and never
// tries again: what comes next is the caller's decision, by what the error says. What is said of waiting for others (After, Free)
// is for Submit.
//
//	nil              the node accepted it
//	*DuplicateError  the node knows the id already: an earlier offer arrived
//	*StatusError     the node refused this offer by its status; earlier offers may still be executed
//	*SentError       the bytes left and there is no verdict
//	*NotSentError    no byte left, or the server is no node
//
// After any of them the id may be offered again, also to another node, and the network executes
// it once, or never; two offers of the same Submission carry the same bytes. Only when consensus time is past ID.ValidStart plus ValidDuration, and no record
// exists, can nothing that was offered under the id be executed any more.
func (c *Client) Offer(ctx context.Context, s Submission) (*Pending, error) {
	start := time.Now()
	pending, err := c.offerOnce(ctx, s)
	result, status := classify(err)
	c.metrics.submitted(ctx, result, status, start)
	return pending, err
}

func (c *Client) offerOnce(ctx context.Context, s Submission) (*Pending, error) {
	n := c.nodes.find(s.Node)
	if s.Payer == nil {
		s.Payer = c.operators.find(s.ID.Payer)
	}
	switch {
	case len(s.Ethereum) == 0:
		return nil, &NotSentError{errors.New("empty transaction")}
	case n == nil:
		return nil, &NotSentError{fmt.Errorf("node %s: %w", s.Node, errNotListed)}
	case s.Payer == nil:
		return nil, &NotSentError{fmt.Errorf("payer %s: %w", s.ID.Payer, ErrNoOperator)}
	case s.Payer.ID != s.ID.Payer:
		return nil, &NotSentError{fmt.Errorf("the id names payer %s, and %s would sign", s.ID.Payer, s.Payer.ID)}
	}
	s.After = hedera.TransactionID{}
	d := &delivery{Submission: s, client: c, op: s.operation(), fixed: true}
	if skew, fresh := c.ids.drawnNow(s.ID, time.Now()); fresh {
		d.skew, d.drawn = skew, time.Now()
	}
	status, err := d.offer(ctx, n)
	next := d.judge(n, status, err)
	d.trace(ctx, n, status, err)
	pending := d.accept(n)
	switch {
	case next == accept:
		return pending, nil
	case next == askNode:
		if err == nil {
			err = &StatusError{Status: status, Node: n.id, TransactionID: s.ID}
		}
		return nil, &SentError{Pending: pending, Err: err}
	case err != nil:
		return nil, &NotSentError{err}
	case status == hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION:
		return nil, &DuplicateError{Pending: pending}
	default:
		return nil, &StatusError{Status: status, Node: n.id, TransactionID: s.ID}
	}
}

// Ask asks the node of the transaction once for its receipt. found is false where the node has
// none, or none yet. An error says nothing about the transaction.
func (p *Pending) Ask(ctx context.Context) (found bool, err error) {
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
