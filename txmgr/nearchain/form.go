package nearchain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/holiman/uint256"

	"lockstep/internal/near"
	"lockstep/txmgr"
)

// sendGas is the gas that a transaction may need beside that of its calls; it is only what
// a budget holds until the receipt tells.
const sendGas = 10_000_000_000_000

// blockAge is for how long transactions name the same block.
const blockAge = 5 * time.Second

// actionsOf reads the actions of a call.
func actionsOf(call txmgr.Call) ([]near.Action, error) {
	value := new(uint256.Int)
	if call.Value != nil && (call.Value.Sign() < 0 || value.SetFromBig(call.Value) || value.BitLen() > 128) {
		return nil, errors.New("the value has more than 128 bits")
	}
	if len(call.Data) == 0 {
		return []near.Action{near.Transfer{Deposit: *value}}, nil
	}
	list, err := near.DecodeActions(call.Data)
	if err != nil {
		return nil, err
	}
	if deposit := near.Deposit(list); !deposit.Eq(value) {
		return nil, fmt.Errorf("the value is %s, and the actions' deposits are %s", value.Dec(), deposit.Dec())
	}
	return list, nil
}

// callOf is the other way: what a transaction does as a call.
func callOf(tx near.SignedTransaction) (txmgr.Call, error) {
	call := txmgr.Call{To: tx.Receiver, Gas: gasOf(tx.Actions)}
	deposit := near.Deposit(tx.Actions)
	call.Value = deposit.ToBig()
	if len(tx.Actions) == 1 {
		if _, plain := tx.Actions[0].(near.Transfer); plain {
			return call, nil
		}
	}
	var err error
	call.Data, err = near.EncodeActions(tx.Actions)
	return call, err
}

func gasOf(list []near.Action) uint64 {
	gas := uint64(sendGas)
	for _, action := range list {
		switch a := action.(type) {
		case near.FunctionCall:
			gas += a.Gas
		case near.Delegate:
			gas += gasOf(a.Actions)
		}
	}
	return gas
}

// Simulate checks what can be checked without sending: no node of NEAR tries a transaction.
func (c *Chain) Simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	to, err := parseSigner(call.To)
	if err != nil {
		return txmgr.Simulation{Reason: err.Error()}, nil
	}
	list, err := actionsOf(call)
	if err != nil {
		return txmgr.Simulation{Reason: err.Error()}, nil
	}
	if creates(to.account, list) {
		return txmgr.Simulation{Success: true, Gas: gasOf(list)}, nil
	}
	switch _, err := c.Balance(ctx, to.account); {
	case is(err, "UNKNOWN_ACCOUNT"):
		return txmgr.Simulation{Reason: "the account " + to.account + " does not exist"}, nil
	case err != nil:
		return txmgr.Simulation{}, err
	}
	return txmgr.Simulation{Success: true, Gas: gasOf(list)}, nil
}

// creates reports whether the actions create their receiver: by the first action, or as a
// transfer to an account that is named after its key.
func creates(account string, list []near.Action) bool {
	if len(list) == 0 {
		return false
	}
	switch list[0].(type) {
	case near.CreateAccount:
		return true
	case near.Transfer:
		return len(account) == 64
	}
	return false
}

// form is an unsigned transaction.
type form struct {
	tx     near.Transaction
	height uint64 // of its block
}

// Prepare makes the transaction, on a recent final block.
func (c *Chain) Prepare(ctx context.Context, d txmgr.Draft) (txmgr.Unsigned, error) {
	s, err := keyOf(d.Signer)
	if err != nil {
		return txmgr.Unsigned{}, err
	}
	to, err := parseSigner(d.To)
	if err != nil {
		return txmgr.Unsigned{}, err
	}
	list, err := actionsOf(d.Call)
	if err != nil {
		return txmgr.Unsigned{}, err
	}
	b, err := c.recentBlock(ctx)
	if err != nil {
		return txmgr.Unsigned{}, err
	}
	hash, err := near.ParseHash(b.Header.Hash)
	if err != nil {
		return txmgr.Unsigned{}, err
	}
	tx := near.Transaction{Signer: s.account, PublicKey: s.key, Nonce: d.Nonce, Receiver: to.account, BlockHash: hash, Actions: list}
	unsigned, err := tx.Encode()
	return txmgr.Unsigned{Bytes: unsigned, Form: form{tx, b.Header.Height}, Tag: strconv.FormatUint(b.Header.Height, 10)}, err
}

func (c *Chain) recentBlock(ctx context.Context) (block, error) {
	c.mu.Lock()
	b, fresh := c.recent, time.Since(c.asked) < blockAge
	c.mu.Unlock()
	if fresh {
		return b, nil
	}
	asked := time.Now()
	b, err := c.block(ctx, final)
	if err == nil {
		c.mu.Lock()
		c.recent, c.asked = b, asked
		c.mu.Unlock()
	}
	return b, err
}

// Seal puts the signature to a transaction, and checks that it is the key's.
func (c *Chain) Seal(u txmgr.Unsigned, signature []byte) (txmgr.Signed, error) {
	f, ok := u.Form.(form)
	if !ok {
		return txmgr.Signed{}, errors.New("not a transaction of this chain")
	}
	s, err := near.NewSignature(f.tx.PublicKey.Curve, signature)
	if err != nil {
		return txmgr.Signed{}, err
	}
	tx := near.SignedTransaction{Transaction: f.tx, Signature: s}
	if !tx.Verify() {
		return txmgr.Signed{}, errors.New("the signature is not the key's")
	}
	return signed(tx, u.Tag)
}

func signed(tx near.SignedTransaction, tag string) (txmgr.Signed, error) {
	hash, err := tx.Hash()
	if err != nil {
		return txmgr.Signed{}, err
	}
	raw, err := tx.Encode()
	return txmgr.Signed{Hash: hash.String(), Raw: raw, Tag: tag}, err
}

// Decode reads a transaction that a caller signed. When it expires is not known: its block
// has a hash here and no height.
func (c *Chain) Decode(raw []byte) (txmgr.Decoded, error) {
	tx, err := near.DecodeTransaction(raw)
	if err != nil {
		return txmgr.Decoded{}, err
	}
	if !tx.Verify() {
		return txmgr.Decoded{}, errors.New("the signature is not the key's")
	}
	call, err := callOf(tx)
	if err != nil {
		return txmgr.Decoded{}, err
	}
	out, err := signed(tx, "")
	name := signer{account: tx.Signer, key: tx.PublicKey, keyed: true}.String()
	call.From = name
	return txmgr.Decoded{Signed: out, Signer: name, Nonce: tx.Nonce, Call: call, Fees: txmgr.Fees{Max: new(big.Int)}}, err
}

// Expired reports whether an attempt can never be executed: at a final block past those for
// which it is good, its key has not used its nonce, nor one above it. One state tells both.
// That no node knows the attempt proves nothing: nodes forget transactions after some days.
func (c *Chain) Expired(ctx context.Context, attempt txmgr.Signed) (bool, error) {
	height, err := strconv.ParseUint(attempt.Tag, 10, 64)
	if err != nil {
		return false, nil //nolint:nilerr // of a caller: nobody knows its block's height
	}
	tx, err := near.DecodeTransaction(attempt.Raw)
	if err != nil {
		return false, err
	}
	k, err := c.accessKey(ctx, signer{account: tx.Signer, key: tx.PublicKey, keyed: true}, final)
	return err == nil && k.Height > height+c.config.Validity && k.Nonce < tx.Nonce, err
}

// Renew is an error: an attempt that has expired is signed again, at another nonce.
func (c *Chain) Renew(context.Context, txmgr.Signed, string) (txmgr.Signed, error) {
	return txmgr.Signed{}, txmgr.ErrNotPossible
}
