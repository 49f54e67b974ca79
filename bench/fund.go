package bench

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/sleep"
)

const (
	// fundChunk is how many funding transactions may be without a receipt: enough not to
	// wait for consensus each time, few enough that a failure costs little.
	fundChunk = 50
	// fundStalls is how many rounds may bring nothing before funding gives up.
	fundStalls = 3
	// fundGas covers the creation of a Hedera account by the transfer, for targets that
	// do not estimate it.
	fundGas = 800_000
)

// fund brings every sender to at least need weibar, giving those below it amount.
// Its transactions leave one after the other, in nonce order; it returns when the
// balances are there.
func fund(ctx context.Context, c Config, state *client, senders []*sender, f fees, need, amount *big.Int, p *progress) error {
	poor, err := poorSenders(ctx, state, senders, need)
	if err != nil || len(poor) == 0 {
		return err
	}
	if c.Funder == nil {
		return fmt.Errorf("%d of %d senders, %s first, have less than the %s weibar a run can cost, and there is no key to fund them from",
			len(poor), len(senders), poor[0].addr, need)
	}
	p.begin("fund", len(poor))
	defer p.end()
	amount = roundUp(amount, weibarPerTinybar)
	stalls := 0
	var nonce uint64 // the least that the funder can have
	for len(poor) > 0 {
		chunk := poor[:min(len(poor), fundChunk)]
		var sendErr error
		nonce, sendErr = fundRound(ctx, c, state, chunk, f, amount, nonce)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		before := len(poor)
		if poor, err = poorSenders(ctx, state, poor, need); err != nil {
			return err
		}
		p.add(before - len(poor))
		if len(poor) < before {
			stalls = 0
			continue
		}
		if stalls++; stalls == fundStalls {
			if sendErr == nil {
				sendErr = errors.New("executed, but the balance did not rise")
			}
			return fmt.Errorf("fund %s: %w", poor[0].addr, sendErr)
		}
		sleep.For(ctx, min(time.Second, c.FundTimeout/10))
	}
	return nil
}

// fundRound sends one transfer to each of chunk and waits for their receipts and
// balances. What fails is left to the next round. The nonce is what the target says,
// but not less than floor, as a target may be late to see the round before; the result
// is the floor of the next round.
func fundRound(ctx context.Context, c Config, state *client, chunk []*sender, f fees, amount *big.Int, floor uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, c.FundTimeout)
	defer cancel()
	from := crypto.PubkeyToAddress(c.Funder.PublicKey)
	nonce, err := state.nonce(ctx, from)
	if err != nil {
		return floor, err
	}
	nonce = max(nonce, floor)
	signer := types.LatestSignerForChainID(f.chainID)
	gas := fundGasFor(ctx, state, from, chunk[0].addr, amount)
	var sent []common.Hash
	var sendErr error
	for i, s := range chunk {
		tx, err := types.SignNewTx(c.Funder, signer, &types.DynamicFeeTx{
			ChainID: f.chainID, Nonce: nonce + uint64(i), GasTipCap: f.tip, GasFeeCap: f.cap,
			Gas: gas, To: &s.addr, Value: amount,
		})
		if err != nil {
			return 0, fmt.Errorf("sign: %w", err)
		}
		raw, err := tx.MarshalBinary()
		if err != nil {
			return 0, fmt.Errorf("encode: %w", err)
		}
		var hash common.Hash
		if sendErr = state.call(ctx, &hash, "eth_sendRawTransaction", hexutil.Encode(raw)); sendErr != nil {
			break // the nonces behind this one could not execute
		}
		sent = append(sent, tx.Hash())
	}
	waitErr := each(ctx, len(sent), func(ctx context.Context, i int) error {
		return awaitReceipt(ctx, state, sent[i])
	})
	if waitErr != nil {
		return 0, errors.Join(sendErr, waitErr)
	}
	waitErr = awaitBalances(ctx, state, chunk[:len(sent)], amount)
	return nonce + uint64(len(sent)), errors.Join(sendErr, waitErr)
}

func awaitReceipt(ctx context.Context, state *client, hash common.Hash) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		r, err := state.receipt(ctx, hash)
		switch {
		case err != nil:
			return err
		case r != nil && r.Status == 0:
			return fmt.Errorf("transaction %s failed", hash)
		case r != nil:
			return nil
		}
		sleep.For(ctx, pause)
	}
}

// awaitBalances waits until what the receipts promised is visible to a balance query:
// relays check the balance of a sender with the same source.
func awaitBalances(ctx context.Context, state *client, funded []*sender, atLeast *big.Int) error {
	return each(ctx, len(funded), func(ctx context.Context, i int) error {
		for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			have, err := state.balance(ctx, funded[i].addr)
			if err != nil || have.Cmp(atLeast) >= 0 {
				return err
			}
			sleep.For(ctx, pause)
		}
	})
}

// fundGasFor is the gas limit of a funding transaction: the estimate for the first,
// with room for the price moving, or a sum that covers the creation of an account.
func fundGasFor(ctx context.Context, state *client, from, to common.Address, amount *big.Int) uint64 {
	gas, err := estimate(ctx, state, from, to, amount, nil)
	if err != nil {
		return fundGas
	}
	return gas
}

// estimate is the target's estimate plus a fifth.
func estimate(ctx context.Context, state *client, from, to common.Address, value *big.Int, data []byte) (uint64, error) {
	gas, err := state.quantity(ctx, "eth_estimateGas", map[string]any{
		"from": from, "to": to, "value": (*hexutil.Big)(value), "data": hexutil.Bytes(data),
	})
	if err != nil {
		return 0, err
	}
	return gas.Uint64() + gas.Uint64()/5, nil
}

// poorSenders returns those of senders that have less than need, in order.
func poorSenders(ctx context.Context, state *client, senders []*sender, need *big.Int) ([]*sender, error) {
	isPoor := make([]bool, len(senders))
	err := each(ctx, len(senders), func(ctx context.Context, i int) error {
		have, err := state.balance(ctx, senders[i].addr)
		isPoor[i] = err == nil && have.Cmp(need) < 0
		return err
	})
	if err != nil {
		return nil, err
	}
	var poor []*sender
	for i, s := range senders {
		if isPoor[i] {
			poor = append(poor, s)
		}
	}
	return poor, nil
}

func roundUp(v *big.Int, step int64) *big.Int {
	unit := big.NewInt(step)
	up := new(big.Int).Add(v, big.NewInt(step-1))
	return up.Mul(up.Div(up, unit), unit)
}
