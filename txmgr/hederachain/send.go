package hederachain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/mirror"
	"lockstep/txmgr"
)

const (
	// maxAsked is how many nodes are asked about one id: its own and those that its bytes may
	// have gone to instead.
	maxAsked = 3
	// restart is how long after its valid start a transaction may go to another node whose
	// own does not answer: that node may be back by then without what it had.
	restart = 20 * time.Second
	// baseFee is what wrapping a transaction may cost the operator besides its gas.
	baseFee = 2 * hedera.Hbar
	// maxWrapFee bounds the whole.
	maxWrapFee = 1000 * hedera.Hbar
)

func reverted(failed *mirror.Error) txmgr.Simulation {
	out := txmgr.Simulation{Reason: failed.Message}
	if failed.Detail != "" {
		out.Reason += ": " + failed.Detail
	}
	out.Reason = hedera.Explain(out.Reason)
	out.Output, _ = hexutil.Decode(failed.Data)
	if reason, err := abi.UnpackRevert(out.Output); err == nil {
		out.Reason = reason
	}
	return out
}

// Prepare makes the transaction that is signed. The tag comes with the signature, so that a
// slow key costs no validity; the draft's predecessor is kept for it.
func (c *Chain) Prepare(ctx context.Context, d txmgr.Draft) (txmgr.Unsigned, error) {
	unsigned, err := c.Form.Prepare(ctx, d)
	unsigned.Tag = d.Behind
	return unsigned, err
}

// Seal puts the signature to a transaction and draws its id and its node.
func (c *Chain) Seal(u txmgr.Unsigned, signature []byte) (txmgr.Signed, error) {
	signed, err := c.Form.Seal(u, signature)
	if err != nil {
		return txmgr.Signed{}, err
	}
	return c.draw(signed, u.Tag)
}

// Decode reads a transaction that a caller signed, and draws its id and its node.
func (c *Chain) Decode(raw []byte) (txmgr.Decoded, error) {
	decoded, err := c.Form.Decode(raw)
	if err != nil {
		return txmgr.Decoded{}, err
	}
	decoded.Signed, err = c.draw(decoded.Signed, "")
	return decoded, err
}

// Renew draws a new id and a node for bytes.
func (c *Chain) Renew(_ context.Context, attempt txmgr.Signed, behind string) (txmgr.Signed, error) {
	return c.draw(attempt, behind)
}

// draw draws an id and a node. Behind another transaction the node is that one's.
func (c *Chain) draw(attempt txmgr.Signed, behind string) (txmgr.Signed, error) {
	tx, err := eth.DecodeTx(attempt.Raw)
	if err != nil {
		return txmgr.Signed{}, err
	}
	var t tag
	if t.id, err = c.nodes.NewID(tx.From()); err != nil {
		return txmgr.Signed{}, err
	}
	if behind != "" {
		before, err := parseTag(behind)
		if err != nil {
			return txmgr.Signed{}, err
		}
		t.before, t.node = &before.place, before.node
	} else {
		t.node = c.nodes.NodesFor(tx.From())[0]
	}
	return txmgr.Signed{Hash: attempt.Hash, Raw: attempt.Raw, Tag: t.String()}, nil
}

// Send offers transactions in order. When one of them is not at a node afterwards, those
// behind it do not leave.
func (c *Chain) Send(ctx context.Context, list []txmgr.Signed) []error {
	out := make([]error, len(list))
	var stopped error
	for n, s := range list {
		if stopped != nil {
			out[n] = &txmgr.SendError{Class: txmgr.ClassNotSent, Text: "the transaction before it is not at a node yet"}
			continue
		}
		out[n] = c.send(ctx, s)
		if class := txmgr.ClassOf(out[n]); class != "" && class != txmgr.ClassKnown {
			stopped = out[n]
		}
	}
	return out
}

// offer is one attempt while it is sent.
type offer struct {
	*Chain
	tag
	tx  *eth.Tx
	raw []byte
}

func (c *Chain) read(s txmgr.Signed) (*offer, error) {
	t, err := parseTag(s.Tag)
	if err != nil {
		return nil, err
	}
	tx, err := eth.DecodeTx(s.Raw)
	if err != nil {
		return nil, err
	}
	return &offer{Chain: c, tag: t, tx: tx, raw: s.Raw}, nil
}

func notSent(text string, args ...any) error {
	return &txmgr.SendError{Class: txmgr.ClassNotSent, Text: fmt.Sprintf(text, args...)}
}

func (c *Chain) send(ctx context.Context, s txmgr.Signed) error {
	o, err := c.read(s)
	if err != nil {
		return notSent("it cannot be read: %v", err)
	}
	nodes := []hedera.ID{o.node}
	if s.Again {
		switch at, where := o.locate(ctx); at {
		case atNode:
			return &txmgr.SendError{Class: txmgr.ClassKnown, Endpoint: "node " + where.String(), Text: "it has the transaction"}
		case atNobody:
		case atUnclear:
			if time.Since(o.id.ValidStart.Time()) < restart {
				return &txmgr.SendError{Class: txmgr.ClassTransport, Endpoint: "node " + o.node.String(), Text: "it does not say whether it has the transaction"}
			}
		}
	}
	if time.Now().After(o.id.ValidStart.Time().Add(consensus.ValidDuration)) {
		return notSent("transaction %s is not valid any more; whether it was executed is not proven yet", o.id)
	}
	anyNode, err := o.mayLeave(ctx, s.Again)
	if err != nil {
		return err
	}
	if anyNode {
		for _, node := range c.nodes.NodesFor(o.tx.From()) {
			if node != o.node && len(nodes) < maxAsked {
				nodes = append(nodes, node)
			}
		}
	}
	for _, node := range nodes {
		if err = o.offer(ctx, node, s.Again); !elsewhere(err) {
			break
		}
	}
	return err
}

// elsewhere reports whether an answer leaves the transaction free to go to another node.
func elsewhere(err error) bool {
	class := txmgr.ClassOf(err)
	return class == txmgr.ClassPoolPolicy || class == txmgr.ClassNotSent
}

// Where a transaction is, as nodes tell.
type whereabouts int

const (
	atUnclear whereabouts = iota // its own node does not answer
	atNobody                     // its own node does not know it, nor does any other that answers
	atNode
)

// locate asks the nodes that may have the transaction.
func (o *offer) locate(ctx context.Context) (whereabouts, hedera.ID) {
	result := atUnclear
	asked := 0
	for _, node := range append([]hedera.ID{o.node}, o.nodes.NodesFor(o.tx.From())...) {
		if asked > 0 && node == o.node {
			continue
		}
		if asked++; asked > maxAsked {
			break
		}
		_, err := o.nodes.ReceiptAt(ctx, o.id, node)
		switch {
		case err == nil, errors.Is(err, consensus.ErrInProgress):
			return atNode, node
		case errors.Is(err, consensus.ErrUnknownID) && node == o.node:
			result = atNobody
		}
	}
	return result, hedera.ID{}
}

// mayLeave decides whether the transaction can be the next one now, and whether any node may
// take it. It asks for the fate of the one before it.
func (o *offer) mayLeave(ctx context.Context, again bool) (anyNode bool, err error) {
	if o.before != nil {
		receipt, err := o.nodes.ReceiptAt(ctx, o.before.id, o.before.node)
		switch {
		case err == nil && hedera.NonceSpent(receipt.Status):
			return true, nil
		case errors.Is(err, consensus.ErrInProgress) && o.before.node == o.node:
			return false, nil
		}
	}
	next, err := o.nonce(ctx, o.tx.From())
	switch {
	case err != nil:
		return false, notSent("the account's nonce is not known: %v", err)
	case next == o.tx.Nonce():
		return true, nil
	case next < o.tx.Nonce():
		return false, notSent("the account's next nonce is %d as far as is known, not %d; what comes before is on its way or lost", next, o.tx.Nonce())
	case again:
		return false, &txmgr.SendError{Class: txmgr.ClassTransport, Text: "its nonce is used, perhaps by itself"}
	default:
		return false, &txmgr.SendError{Class: txmgr.ClassNonceUsed, Text: fmt.Sprintf("the account's next nonce is %d", next)}
	}
}

// offer gives the transaction to one node.
func (o *offer) offer(ctx context.Context, node hedera.ID, again bool) error {
	_, err := o.nodes.Offer(ctx, consensus.Submission{Ethereum: o.raw, ID: o.id, Node: node, MaxFee: o.maxFee()})
	answer := classify(node, err, again)
	if answer == nil {
		return nil
	}
	if answer.Class == txmgr.ClassTransport && ctx.Err() == nil {
		// A node knows what it has from the moment of its answer, also when that was lost.
		if _, err := o.nodes.ReceiptAt(ctx, o.id, node); err == nil || errors.Is(err, consensus.ErrInProgress) {
			return &txmgr.SendError{Class: txmgr.ClassKnown, Endpoint: answer.Endpoint, Text: "its answer was lost, and it has the transaction"}
		}
	}
	return answer
}

// maxFee is the maximum that the wrapped transaction may cost the operator. It follows from the
// Ethereum transaction, so that the bytes are always the same.
func (o *offer) maxFee() hedera.Tinybar {
	gas := new(big.Int).Mul(o.tx.GasPrice(), new(big.Int).SetUint64(o.tx.Gas()))
	fee, ok := hedera.TinybarOf(gas)
	if !ok || fee > maxWrapFee-baseFee {
		return maxWrapFee
	}
	return fee + baseFee
}
