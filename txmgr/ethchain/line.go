package ethchain

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/ethrpc"
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
	out := c.unasked()
	for _, e := range c.client.Order() {
		if ctx.Err() != nil {
			return out
		}
		q := ethrpc.Ask(nil, "eth_sendRawTransaction", hexutil.Bytes(s.Raw))
		_ = e.Do(ctx, q) // the question has the error
		answer := taken(e, q, s)
		switch {
		case answer == nil:
			return nil
		case answer.Class != txmgr.ClassPoolPolicy && answer.Class != txmgr.ClassNotSent:
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
	var transaction struct{}
	var nonce hexutil.Uint64
	known, next := ethrpc.Ask(&transaction, "eth_getTransactionByHash", s.Hash), ethrpc.Ask(&nonce, "eth_getTransactionCount", tx.Signer, "latest")
	e, err := c.client.Do(ctx, known, next)
	if err != nil {
		return &txmgr.SendError{Class: txmgr.ClassNotSent, Text: "whether it was executed is not known: " + err.Error()}
	}
	if next.Need() != nil {
		return &txmgr.SendError{Class: txmgr.ClassNotSent, Endpoint: e.Name(), Text: "the account's nonce is not known"}
	}
	if uint64(nonce) <= tx.Nonce {
		return nil
	}
	if found, err := known.Answer(); err == nil && found {
		return &txmgr.SendError{Class: txmgr.ClassKnown, Endpoint: e.Name(), Text: "it has the transaction"}
	}
	return &txmgr.SendError{Class: txmgr.ClassNonceUsed, Endpoint: e.Name(), Text: "its nonce is used, perhaps by itself"}
}

// spent reports whether an account's nonce was used in a block. The record of a transaction that the
// network refused, for its price or for its nonce, is a receipt too, but it uses no nonce.
func (c *Chain) spent(ctx context.Context, e *ethrpc.Endpoint, s txmgr.Signed, block uint64) (bool, error) {
	tx, err := c.Decode(s.Raw)
	if err != nil {
		return false, err
	}
	var was, is hexutil.Uint64
	before := ethrpc.Ask(&was, "eth_getTransactionCount", tx.Signer, hexutil.Uint64(max(block, 1)-1))
	after := ethrpc.Ask(&is, "eth_getTransactionCount", tx.Signer, hexutil.Uint64(block))
	if err := e.Do(ctx, before, after); err != nil {
		return false, err
	}
	if err := errors.Join(before.Need(), after.Need()); err != nil {
		return false, fmt.Errorf("the account's nonce in a block is not known: %w", err)
	}
	return uint64(was) <= tx.Nonce && tx.Nonce < uint64(is), nil
}
