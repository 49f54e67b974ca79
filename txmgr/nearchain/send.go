package nearchain

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"lockstep/internal/near"
	"lockstep/txmgr"
)

// Send offers transactions of one key through one node, in their order. What comes behind an
// offer that failed is not offered: it could end the one before it.
func (c *Chain) Send(ctx context.Context, list []txmgr.Signed) []error {
	answers := make([]error, len(list))
	e := c.order()[0]
	highest, err := c.used(ctx, e, list)
	for n := range list {
		if err != nil {
			answers[n] = &txmgr.SendError{Class: txmgr.ClassNotSent, Endpoint: e.name, Text: err.Error()}
			continue
		}
		if answers[n] = c.offer(ctx, e, list[n], highest); answers[n] != nil {
			if class := txmgr.ClassOf(answers[n]); class != txmgr.ClassKnown && class != txmgr.ClassNonceUsed {
				err = errors.New("the one before it was not taken")
			}
		}
	}
	return answers
}

// used is the highest nonce that the key has used, as the node knows now.
func (c *Chain) used(ctx context.Context, e *endpoint, list []txmgr.Signed) (uint64, error) {
	if len(list) == 0 {
		return 0, nil
	}
	tx, err := near.DecodeTransaction(list[0].Raw)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	k, err := e.accessKey(ctx, signer{account: tx.Signer, key: tx.PublicKey, keyed: true}, optimistic)
	return k.Nonce, err
}

func (c *Chain) offer(ctx context.Context, e *endpoint, one txmgr.Signed, used uint64) error {
	tx, err := near.DecodeTransaction(one.Raw)
	if err != nil {
		return &txmgr.SendError{Class: txmgr.ClassFatal, Endpoint: e.name, Text: err.Error()}
	}
	if tx.Nonce <= used {
		return &txmgr.SendError{Class: txmgr.ClassNonceUsed, Endpoint: e.name, Text: "the key has used a nonce that is not below it"}
	}
	wait := "NONE"
	if one.Again {
		wait = "INCLUDED"
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var ignored json.RawMessage
	return classify(e.name, e.call(ctx, "send_tx", object{"signed_tx_base64": base64.StdEncoding.EncodeToString(one.Raw), "wait_until": wait}, &ignored))
}

// classes are what a node's refusals mean, by their names in nearcore.
var classes = map[string]txmgr.Class{
	"InvalidNonce":            txmgr.ClassNonceUsed,
	"NonceTooLarge":           txmgr.ClassGap,
	"NotEnoughBalance":        txmgr.ClassFunds,
	"LackBalanceForState":     txmgr.ClassFunds,
	"ShardCongested":          txmgr.ClassPoolPolicy,
	"ShardStuck":              txmgr.ClassPoolPolicy,
	"SignerDoesNotExist":      txmgr.ClassPoolPolicy,
	"InvalidAccessKeyError":   txmgr.ClassPoolPolicy,
	"Expired":                 txmgr.ClassPoolPolicy,
	"InvalidChain":            txmgr.ClassPoolPolicy,
	"InvalidSignerId":         txmgr.ClassFatal,
	"InvalidReceiverId":       txmgr.ClassFatal,
	"InvalidSignature":        txmgr.ClassFatal,
	"CostOverflow":            txmgr.ClassFatal,
	"TransactionSizeExceeded": txmgr.ClassFatal,
	"ActionsValidation":       txmgr.ClassFatal,
}

// classify names what a node said of a transaction.
func classify(name string, err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*callError](err)
	if !ok {
		return &txmgr.SendError{Class: txmgr.ClassTransport, Endpoint: name, Text: err.Error()}
	}
	out := &txmgr.SendError{Class: txmgr.ClassAmbiguous, Endpoint: name, Text: answer.Error()}
	switch answer.Cause.Name {
	case "INVALID_TRANSACTION":
		if class, known := classes[refusalOf(answer.Data)]; known {
			out.Class = class
		}
	case "PARSE_ERROR":
		out.Class = txmgr.ClassFatal
	case "TIMEOUT_ERROR":
		out.Class = txmgr.ClassTransport // it was not in a block in time, and may be yet
	}
	return out
}

// refusalOf is the name of nearcore's InvalidTxError, "" if the data is of another form. A
// name is a text of its own, or the only key of an object.
func refusalOf(data json.RawMessage) string {
	var outer struct {
		TxExecutionError struct{ InvalidTxError json.RawMessage }
	}
	if json.Unmarshal(data, &outer) != nil {
		return ""
	}
	var name string
	if json.Unmarshal(outer.TxExecutionError.InvalidTxError, &name) == nil {
		return name
	}
	var named map[string]json.RawMessage
	if json.Unmarshal(outer.TxExecutionError.InvalidTxError, &named) != nil || len(named) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(named))[0]
}
