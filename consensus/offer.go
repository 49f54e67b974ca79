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

// Envelope is an Ethereum transaction wrapped for one node under a transaction id that the
// caller chose and keeps. Two offers of the same Envelope carry the same bytes.
type Envelope struct {
	// Ethereum is the signed transaction. Nodes take up to 133,120 bytes with all that wraps it, or,
	// where the network has no jumbo transactions, 6,144; a larger one is a *StatusError with
	// TRANSACTION_OVERSIZE. Larger call data goes into a file first: Ethereum then has an empty
	// data field and CallData names the file.
	Ethereum []byte
	// CallData is the file with the call data, or nil. Client.StoreFile makes one, under ids of its
	// own; whoever offers the transaction again names the same file again.
	CallData *hedera.ID
	// ID is the transaction id: who pays and from when the transaction is valid. Client.NewID draws one.
	ID hedera.TransactionID
	// Node is the only node that gets the transaction. The same transaction for another node
	// is another Envelope with the same ID.
	Node hedera.ID
	// MaxFee is the maximum that the HAPI transaction may cost the payer, and MaxGasAllowance the
	// part of the gas that the payer takes over.
	MaxFee, MaxGasAllowance hedera.Tinybar
	// Payer signs, and has the account ID.Payer. nil means the configured operator of that account.
	Payer *Operator
	// BeforeSend is called right before the bytes leave. An error keeps them here. It must be quick.
	BeforeSend func() error
	// Offered, if there is one, is told right before the bytes leave. It must be quick.
	Offered func(node hedera.ID, id hedera.TransactionID)
}

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
	nodes := c.nodes.all()
	ids := make([]hedera.ID, 0, len(nodes))
	for ranked := make([]*node, 0, len(nodes)); len(ranked) < len(nodes); {
		n := nodes.best(sender, ranked)
		ranked, ids = append(ranked, n), append(ids, n.id)
	}
	return ids
}

// Offer gives a transaction to its node, once. It never draws an id, never chooses a node and never
// tries again: what comes next is the caller's decision, by what the error says.
//
//	nil              the node accepted it
//	*DuplicateError  the node knows the id already: an earlier offer arrived
//	*StatusError     the node refused this offer by its status; earlier offers may still be executed
//	*SentError       the bytes left and there is no verdict
//	*NotSentError    no byte left, or the server is no node
//
// After any of them the id may be offered again, also to another node, and the network executes
// it once, or never. Only when consensus time is past ID.ValidStart plus ValidDuration, and no record
// exists, can nothing that was offered under the id be executed any more.
func (c *Client) Offer(ctx context.Context, e Envelope) (*Pending, error) {
	start := time.Now()
	pending, err := c.offerOnce(ctx, e)
	result, status := classify(err)
	c.metrics.submitted(ctx, result, status, start)
	return pending, err
}

func (c *Client) offerOnce(ctx context.Context, e Envelope) (*Pending, error) {
	n := c.nodes.find(e.Node)
	if e.Payer == nil {
		e.Payer = c.operators.find(e.ID.Payer)
	}
	switch {
	case len(e.Ethereum) == 0:
		return nil, &NotSentError{errors.New("empty transaction")}
	case n == nil:
		return nil, &NotSentError{fmt.Errorf("node %s: %w", e.Node, errNotListed)}
	case e.Payer == nil:
		return nil, &NotSentError{fmt.Errorf("payer %s: %w", e.ID.Payer, ErrNoOperator)}
	case e.Payer.ID != e.ID.Payer:
		return nil, &NotSentError{fmt.Errorf("the id names payer %s, and %s would sign", e.ID.Payer, e.Payer.ID)}
	}
	d := &delivery{
		client: c, op: ethereumOperation(e.Ethereum, e.CallData, e.MaxGasAllowance),
		maxFee: e.MaxFee, payer: e.Payer, beforeSend: e.BeforeSend, offered: e.Offered, id: e.ID, fixed: true,
	}
	if skew, fresh := c.ids.drawnNow(e.ID, time.Now()); fresh {
		d.skew, d.drawn = skew, time.Now()
	}
	status, cost, err := d.offer(ctx, n)
	next := d.judge(n, status, err)
	d.trace(ctx, n, status, err)
	pending := d.accept(n)
	switch {
	case next == accept:
		return pending, nil
	case next == askNode:
		if err == nil {
			err = &StatusError{Status: status, Node: n.id, TransactionID: e.ID}
		}
		return nil, &SentError{Pending: pending, Err: err}
	case err != nil:
		return nil, &NotSentError{err}
	case status == hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION:
		return nil, &DuplicateError{Pending: pending}
	default:
		return nil, &StatusError{Status: status, Node: n.id, TransactionID: e.ID, Cost: cost}
	}
}
