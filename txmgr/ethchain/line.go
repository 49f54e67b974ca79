package ethchain

import (
	"context"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/txmgr"
)

// sendInLine offers transactions one by one. When one of them was not taken, those behind it do not
// leave: the chain would refuse them, and somebody might pay for that.
func (c *Chain) sendInLine(ctx context.Context, list []txmgr.Signed) []error {
	out := make([]error, len(list))
	stopped := false
	for n, s := range list {
		if stopped {
			out[n] = &txmgr.SendError{Class: txmgr.ClassNotSent, Text: "the transaction before it was not taken"}
			continue
		}
		out[n] = c.sendNext(ctx, s)
		class := txmgr.ClassOf(out[n])
		stopped = class != "" && class != txmgr.ClassKnown
	}
	return out
}

// sendNext offers one transaction. Another endpoint gets it only if the one before has certainly not
// got it, or has not taken it for reasons of its own: two relays of one network do not know what the
// other one has under way, and the second would have the network refuse it for its nonce.
func (c *Chain) sendNext(ctx context.Context, s txmgr.Signed) error {
	if s.Again {
		if answer := c.seen(ctx, s); answer != nil {
			return answer
		}
	}
	out := &txmgr.SendError{Class: txmgr.ClassNotSent, Text: "no endpoint was asked"}
	for _, e := range c.order() {
		if ctx.Err() != nil {
			return out
		}
		q := ask("eth_sendRawTransaction", hexutil.Bytes(s.Raw))
		err := e.batch(ctx, q)
		answer := classify(e.name, q.err)
		switch {
		case answer == nil:
			return nil
		case err != nil && unsent(err):
			answer.Class = txmgr.ClassNotSent
		case answer.Class != txmgr.ClassPoolPolicy:
			return answer
		}
		out = answer
	}
	return out
}

// seen answers for bytes that may have left before: a relay whose view is old would take them a second
// time. It returns nil if they are still the next ones, as far as is known.
func (c *Chain) seen(ctx context.Context, s txmgr.Signed) error {
	tx, err := c.Decode(s.Raw)
	if err != nil {
		return &txmgr.SendError{Class: txmgr.ClassNotSent, Text: err.Error()}
	}
	known, next := ask("eth_getTransactionByHash", s.Hash), ask("eth_getTransactionCount", tx.Signer, "latest")
	e, err := c.one(ctx, known, next)
	if err != nil {
		return &txmgr.SendError{Class: txmgr.ClassNotSent, Text: "whether it was executed is not known: " + err.Error()}
	}
	var nonce hexutil.Uint64
	if found, err := next.into(&nonce); err != nil || !found {
		return &txmgr.SendError{Class: txmgr.ClassNotSent, Endpoint: e.name, Text: "the account's nonce is not known"}
	}
	if uint64(nonce) <= tx.Nonce {
		return nil
	}
	var transaction struct{}
	if found, err := known.into(&transaction); err == nil && found {
		return &txmgr.SendError{Class: txmgr.ClassKnown, Endpoint: e.name, Text: "it has the transaction"}
	}
	return &txmgr.SendError{Class: txmgr.ClassNonceUsed, Endpoint: e.name, Text: "its nonce is used, perhaps by itself"}
}

// spent reports whether an account's nonce was used in a block. The record of a transaction that the
// network refused, for its price or for its nonce, is a receipt too, but it uses no nonce.
func (c *Chain) spent(ctx context.Context, e *endpoint, s txmgr.Signed, block uint64) (bool, error) {
	tx, err := c.Decode(s.Raw)
	if err != nil {
		return false, err
	}
	before, after := ask("eth_getTransactionCount", tx.Signer, hexutil.Uint64(max(block, 1)-1)), ask("eth_getTransactionCount", tx.Signer, hexutil.Uint64(block))
	part, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := e.batch(part, before, after); err != nil {
		return false, err
	}
	var was, is hexutil.Uint64
	if _, err := before.into(&was); err != nil {
		return false, err
	}
	if _, err := after.into(&is); err != nil {
		return false, err
	}
	return uint64(was) <= tx.Nonce && tx.Nonce < uint64(is), nil
}
