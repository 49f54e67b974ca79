package nearchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/near"
	"lockstep/txmgr"
)

// lookups is how many transactions are asked for at once.
const lookups = 8

// outcome is what became of a transaction or a receipt.
type outcome struct {
	ID      string `json:"id"`
	Block   string `json:"block_hash"`
	Outcome struct {
		Gas    uint64          `json:"gas_burnt"`
		Tokens string          `json:"tokens_burnt"`
		Status json.RawMessage `json:"status"`
	} `json:"outcome"`
}

// Receipts asks one node for its final head and then for transactions. Now and then the other nodes are asked for those that it does not know: it may have forgotten them,
// or never have had them.
func (c *Chain) Receipts(ctx context.Context, list []txmgr.Signed) (head txmgr.Head, out []txmgr.Lookup, err error) {
	var asked *endpoint
	out, err = one(ctx, c, func(ctx context.Context, e *endpoint) ([]txmgr.Lookup, error) {
		b, err := e.block(ctx, final)
		if err != nil {
			return nil, err
		}
		asked, head = e, headOf(b)
		out := make([]txmgr.Lookup, len(list))
		for n, one := range list {
			out[n] = txmgr.Lookup{Hash: one.Hash, Tag: one.Tag}
		}
		e.lookUp(ctx, list, out)
		return out, nil
	})
	unknown := func(l txmgr.Lookup) bool { return l.Receipt == nil && l.Err == nil }
	if err != nil || !slices.ContainsFunc(out, unknown) || !c.lookElsewhere() {
		return head, out, err
	}
	for _, e := range c.order() {
		if e != asked && slices.ContainsFunc(out, unknown) {
			part, cancel := context.WithTimeout(ctx, c.timeout)
			e.lookUp(part, list, out)
			cancel()
		}
	}
	return head, out, nil
}

// elsewhereEvery is how often other nodes are asked for what the first does not know.
const elsewhereEvery = 2 * time.Second

func (c *Chain) lookElsewhere() bool {
	if len(c.endpoints) == 1 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < elsewhereEvery {
		return false
	}
	c.looked = time.Now()
	return true
}

// lookUp asks for transactions that nothing is known of. An error of a second node takes nothing back of what the first one said.
func (e *endpoint) lookUp(ctx context.Context, list []txmgr.Signed, out []txmgr.Lookup) {
	var group errgroup.Group
	group.SetLimit(lookups)
	for n, one := range list {
		if out[n].Receipt != nil || out[n].Err != nil {
			continue
		}
		group.Go(func() error {
			out[n].Receipt, out[n].Err = e.receipt(ctx, one)
			return nil
		})
	}
	_ = group.Wait() // they return nil
}

// receipt asks for one transaction; it is nil before the last of its receipts is final.
func (e *endpoint) receipt(ctx context.Context, one txmgr.Signed) (*txmgr.Receipt, error) {
	tx, err := near.DecodeTransaction(one.Raw)
	if err != nil {
		return nil, err
	}
	var status struct {
		Level    string          `json:"final_execution_status"`
		Status   json.RawMessage `json:"status"`
		Outcome  outcome         `json:"transaction_outcome"`
		Receipts []outcome       `json:"receipts_outcome"`
	}
	err = e.call(ctx, "tx", object{"tx_hash": one.Hash, "sender_account_id": tx.Signer, "wait_until": "NONE"}, &status)
	if is(err, "UNKNOWN_TRANSACTION") {
		return nil, nil
	}
	if err != nil || status.Level != "FINAL" {
		return nil, err
	}
	if status.Outcome.ID != one.Hash {
		return nil, errors.New(e.name + " shows the outcome of another transaction")
	}
	success, err := succeeded(status.Status)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	b, err := e.block(ctx, object{"block_id": status.Outcome.Block})
	if err != nil {
		return nil, err
	}
	receipt := &txmgr.Receipt{Hash: one.Hash, Block: b.Header.Height, BlockHash: b.Header.Hash, Success: success, Raw: status.Status}
	if !success {
		receipt.Reason = reasonOf(status.Status)
	}
	burnt := new(big.Int)
	for _, part := range append(status.Receipts, status.Outcome) {
		tokens, ok := new(big.Int).SetString(part.Outcome.Tokens, 10)
		if !ok {
			return nil, errors.New(e.name + " does not say what was burnt")
		}
		burnt.Add(burnt, tokens)
		// The last receipt of the chain of results may succeed without those beside it.
		if reason, failed := failureOf(part.Outcome.Status); failed && receipt.Success {
			receipt.Success, receipt.Reason = false, reason
		}
		receipt.GasUsed += part.Outcome.Gas
	}
	receipt.GasPrice = new(big.Int)
	if receipt.GasUsed > 0 {
		receipt.GasPrice.Div(burnt, new(big.Int).SetUint64(receipt.GasUsed))
	}
	return receipt, nil
}

// succeeded reads how a transaction ended. What says neither, or both, says nothing.
func succeeded(status json.RawMessage) (bool, error) {
	var value struct {
		SuccessValue *string
		Failure      *json.RawMessage
	}
	if json.Unmarshal(status, &value) != nil || (value.SuccessValue == nil) == (value.Failure == nil) {
		return false, errors.New("a transaction that is final has neither failed nor succeeded")
	}
	return value.SuccessValue != nil, nil
}

// failureOf tells whether a transaction or a receipt failed, and why.
func failureOf(status json.RawMessage) (reason string, failed bool) {
	var value struct{ Failure *json.RawMessage }
	if json.Unmarshal(status, &value) != nil || value.Failure == nil {
		return "", false
	}
	return reasonOf(status), true
}

// reasonOf is why a transaction failed, in nearcore's names from the outer to the inner one and with a contract's own text:
// "action 0: FunctionCallError: ExecutionError: Smart contract panicked: …".
func reasonOf(status json.RawMessage) string {
	var value struct{ Failure json.RawMessage }
	_ = json.Unmarshal(status, &value) // it was read before
	return txmgr.ClipReason(strings.TrimSuffix(describe(value.Failure), ": "))
}

func describe(failure json.RawMessage) string {
	var text string
	if json.Unmarshal(failure, &text) == nil {
		return text
	}
	var action struct {
		ActionError *struct {
			Index *uint64
			Kind  json.RawMessage
		}
	}
	if json.Unmarshal(failure, &action) == nil && action.ActionError != nil {
		if action.ActionError.Index == nil {
			return describe(action.ActionError.Kind)
		}
		return fmt.Sprintf("action %d: %s", *action.ActionError.Index, describe(action.ActionError.Kind))
	}
	var named map[string]json.RawMessage
	if json.Unmarshal(failure, &named) == nil && len(named) == 1 {
		for name, inner := range named {
			if len(inner) > 0 && (inner[0] == '{' || inner[0] == '"') {
				return strings.TrimSuffix(name+": "+describe(inner), ": ")
			}
		}
	}
	if string(failure) == "{}" {
		return ""
	}
	return string(failure)
}

// Consumer finds the transaction that used a nonce or the lowest one above it: it halves the
// chain by the key's nonce at each height and reads the chunks of the block in which it grew.
func (c *Chain) Consumer(ctx context.Context, account string, nonce uint64) (*txmgr.Consumer, error) {
	s, err := keyOf(account)
	if err != nil {
		return nil, err
	}
	return one(ctx, c, func(ctx context.Context, e *endpoint) (*txmgr.Consumer, error) { return e.consumer(ctx, s, nonce) })
}

func (e *endpoint) consumer(ctx context.Context, s signer, nonce uint64) (*txmgr.Consumer, error) {
	head, err := e.block(ctx, final)
	if err != nil {
		return nil, err
	}
	used := func(height uint64) (bool, error) {
		for { // a height without a block has the state of the one before it
			k, err := e.accessKey(ctx, s, object{"block_id": height})
			if is(err, "UNKNOWN_BLOCK") && height > 0 {
				height--
				continue
			}
			return k.Nonce >= nonce, err
		}
	}
	if past, err := used(head.Header.Height); err != nil || !past {
		return nil, err
	}
	first, err := txmgr.FirstUse(head.Header.Height, used)
	if err != nil {
		return nil, err
	}
	return e.inBlock(ctx, s, nonce, first, head)
}

func (e *endpoint) inBlock(ctx context.Context, s signer, nonce, height uint64, head block) (*txmgr.Consumer, error) {
	b, err := e.block(ctx, object{"block_id": height})
	if err != nil {
		return nil, err
	}
	var lowest *txmgr.Consumer
	var at uint64
	for _, chunk := range b.Chunks {
		if chunk.Included != height {
			continue // it stands here again because its shard has no new one
		}
		var content struct {
			Transactions []struct {
				Hash   string `json:"hash"`
				Signer string `json:"signer_id"`
				Key    string `json:"public_key"`
				Nonce  uint64 `json:"nonce"`
			} `json:"transactions"`
		}
		if err := e.call(ctx, "chunk", object{"chunk_id": chunk.Hash}, &content); err != nil {
			return nil, err
		}
		for _, tx := range content.Transactions {
			if tx.Signer == s.account && tx.Key == s.key.String() && tx.Nonce >= nonce && (lowest == nil || tx.Nonce < at) {
				lowest, at = &txmgr.Consumer{Hash: tx.Hash, Block: height, BlockHash: b.Header.Hash, Head: headOf(head)}, tx.Nonce
			}
		}
	}
	return lowest, nil // nil: a delegate action can use a nonce without a transaction of the key's
}
