package nearchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holiman/uint256"

	"lockstep/internal/near"
	"lockstep/txmgr"
)

// Delegates is what a relayer carries for others. Gas and deposits of a delegate action are paid by whoever carries it.
type Delegates struct {
	receivers  []string
	maxDeposit uint256.Int
	maxGas     uint64
}

// allGas is what one transaction may have.
const allGas = 300_000_000_000_000

// NewDelegates makes the bounds: receivers are account ids, or "*." and the end of account ids. The deposit is in
// yoctoNEAR, "" for 0; gas 0 is all that a transaction may have.
func NewDelegates(receivers []string, maxDeposit string, maxGas uint64) (*Delegates, error) {
	d := &Delegates{receivers: receivers, maxGas: maxGas}
	if len(receivers) == 0 {
		return nil, errors.New("receivers: want the accounts that may be called, at least one")
	}
	for _, r := range receivers {
		if err := near.CheckAccount(strings.TrimPrefix(r, "*.")); err != nil {
			return nil, fmt.Errorf("receivers: %q: %w", r, err)
		}
	}
	if maxDeposit != "" && (d.maxDeposit.SetFromDecimal(maxDeposit) != nil || d.maxDeposit.BitLen() > 128) {
		return nil, errors.New("maxDeposit: want yoctoNEAR as decimal text")
	}
	d.maxGas = cmp.Or(d.maxGas, allGas)
	return d, nil
}

func (d *Delegates) allows(receiver string) bool {
	return slices.ContainsFunc(d.receivers, func(r string) bool {
		end, below := strings.CutPrefix(r, "*")
		return below && strings.HasSuffix(receiver, end) || r == receiver
	})
}

var (
	_ txmgr.Composer = (*Chain)(nil)
	_ txmgr.Screener = (*Chain)(nil)
)

// Compose reads actions as JSON, see near.ParseActions. A delegate action tells whom the transaction is for.
func (c *Chain) Compose(actions []byte) (txmgr.Call, error) {
	list, err := near.ParseActions(actions)
	if err != nil {
		return txmgr.Call{}, err
	}
	var call txmgr.Call
	if d, carries := list[0].(near.Delegate); carries {
		call.To = d.Sender
	}
	deposit := near.Deposit(list)
	if deposit.BitLen() > 128 {
		return txmgr.Call{}, errors.New("the deposits have more than 128 bits")
	}
	call.Value = deposit.ToBig()
	call.Data, err = near.EncodeActions(list)
	return call, err
}

// Screen checks the delegate action that a call carries. Its hash (NEP-461) is what is claimed.
func (c *Chain) Screen(ctx context.Context, call txmgr.Call) (claims []string, err error) {
	if len(call.Data) == 0 {
		return nil, nil
	}
	list, err := near.DecodeActions(call.Data)
	if err != nil {
		return nil, &txmgr.InvalidError{Field: "data", Problem: err.Error()}
	}
	for _, action := range list {
		d, carries := action.(near.Delegate)
		if !carries {
			continue
		}
		if len(claims) > 0 {
			return nil, refused("a transaction carries one delegate action")
		}
		if err := c.screen(ctx, call.To, d); err != nil {
			return nil, err
		}
		hash, err := d.Hash()
		if err != nil {
			return nil, refused("%v", err)
		}
		claims = append(claims, "delegate:"+hash.String())
	}
	return claims, nil
}

func refused(format string, args ...any) error {
	return &txmgr.InvalidError{Field: "actions", Problem: "the delegate action: " + fmt.Sprintf(format, args...)}
}

func forbidden(format string, args ...any) error {
	return fmt.Errorf("%w: the delegate action: %s", txmgr.ErrPolicy, fmt.Sprintf(format, args...))
}

func (c *Chain) screen(ctx context.Context, to string, d near.Delegate) error {
	bounds := c.config.Delegates
	if bounds == nil {
		return forbidden("this chain carries none; its entry in TXM_CHAINS has no delegates")
	}
	if !bounds.allows(d.Receiver) {
		return forbidden("%s is not one of the receivers that are allowed", d.Receiver)
	}
	if deposit := near.Deposit(d.Actions); deposit.Gt(&bounds.maxDeposit) {
		return forbidden("its deposits are %s, and the maximum is %s", deposit.Dec(), bounds.maxDeposit.Dec())
	}
	if gas := calledGas(d.Actions); gas > bounds.maxGas {
		return forbidden("its calls have %d gas, and the maximum is %d", gas, bounds.maxGas)
	}
	if to != d.Sender {
		return refused("its sender is %s, so the transaction must be for that account, not for %q", d.Sender, to)
	}
	if !d.Verify() {
		return refused("the signature is not that of its key")
	}
	return c.current(ctx, d)
}

// calledGas is what the calls among actions have; all gas there is if that is more than a number holds.
func calledGas(list []near.Action) (gas uint64) {
	for _, action := range list {
		if call, ok := action.(near.FunctionCall); ok {
			if gas += call.Gas; gas < call.Gas {
				return ^uint64(0)
			}
		}
	}
	return gas
}

// current checks against the chain that the delegate action can still be executed: its key is the sender's, its nonce
// is not used, and its last block has not passed.
func (c *Chain) current(ctx context.Context, d near.Delegate) error {
	k, err := c.accessKey(ctx, signer{account: d.Sender, key: d.PublicKey, keyed: true}, optimistic)
	switch {
	case is(err, "UNKNOWN_ACCESS_KEY"), is(err, "UNKNOWN_ACCOUNT"), errors.Is(err, errNoKey):
		return refused("%s has no access key %s", d.Sender, d.PublicKey)
	case err != nil:
		return fmt.Errorf("%w: the key of the delegate action: %w", txmgr.ErrUnavailable, err)
	case d.MaxBlockHeight <= k.Height:
		return refused("it was valid up to block %d, and the chain is at %d", d.MaxBlockHeight, k.Height)
	case d.Nonce <= k.Nonce:
		return refused("its nonce is %d, and its key has used %d", d.Nonce, k.Nonce)
	}
	return nil
}
