package bench

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/sleep"
)

const (
	// fundChunk is how many funding transactions may be without a receipt: enough not to
	// wait for consensus each time, few enough that a failure costs little.
	fundChunk = 50
	// fundGas covers the creation of a Hedera account by the transfer, for targets that
	// do not estimate it.
	fundGas = 800_000
	// fundTimeout bounds the wait for a chunk.
	fundTimeout = time.Minute
)

// fund brings every sender to what its transactions can cost at the most. The transfers leave one after the
// other, in nonce order; it returns when the balances are there. A run after one that failed here goes on with
// those who have nothing yet.
func (r *run) fund(ctx context.Context) error {
	need := new(big.Int).Mul(r.fees.cap, big.NewInt(transferGas))
	need.Add(need, big.NewInt(transferValue))
	need.Mul(need, big.NewInt(int64(r.Count)))
	poor, err := r.poorerThan(ctx, need)
	if err != nil || len(poor) == 0 {
		return err
	}
	if r.Funder == nil {
		return fmt.Errorf("%d of %d senders, %s first, have less than the %s weibar a run can cost, and there is no key to fund them from",
			len(poor), len(r.senders), poor[0].addr, need)
	}
	r.tell("funding %d senders", len(poor))
	from := crypto.PubkeyToAddress(r.Funder.PublicKey)
	nonce, err := r.state.nonce(ctx, from)
	if err != nil {
		return err
	}
	amount := roundUp(need, transferValue)
	gas := r.fundGasFor(ctx, from, poor[0].addr, amount)
	for chunk := range slices.Chunk(poor, fundChunk) {
		if err := r.fundAll(ctx, chunk, nonce, amount, gas); err != nil {
			return err
		}
		nonce += uint64(len(chunk))
	}
	return nil
}

// fundAll sends a transfer to each, and waits for their receipts and for balances: relays check the balance of a sender with
// the same source.
func (r *run) fundAll(ctx context.Context, chunk []*sender, nonce uint64, amount *big.Int, gas uint64) error {
	ctx, cancel := context.WithTimeout(ctx, fundTimeout)
	defer cancel()
	hashes := make([]common.Hash, len(chunk))
	for i, s := range chunk {
		hash, raw, err := r.fees.transfer(r.Funder, nonce+uint64(i), s.addr, amount, gas)
		if err == nil {
			err = r.state.call(ctx, new(common.Hash), "eth_sendRawTransaction", hexutil.Encode(raw))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.addr, err)
		}
		hashes[i] = hash
	}
	return each(ctx, len(chunk), func(ctx context.Context, i int) error {
		err := await(ctx, func() (bool, error) {
			found, err := r.state.receipt(ctx, hashes[i])
			if err == nil && found != nil && found.Status == 0 {
				err = fmt.Errorf("transaction %s failed", hashes[i])
			}
			return found != nil, err
		})
		if err == nil {
			err = await(ctx, func() (bool, error) {
				have, err := r.state.balance(ctx, chunk[i].addr)
				return err == nil && have.Cmp(amount) >= 0, err
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", chunk[i].addr, err)
		}
		return nil
	})
}

// await looks again and again until something is there.
func await(ctx context.Context, look func() (there bool, err error)) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if there, err := look(); there || err != nil {
			return err
		}
		if !sleep.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// fundGasFor is the gas limit of a funding transaction: the estimate for the first plus a fifth,
// or a sum that covers the creation of an account.
func (r *run) fundGasFor(ctx context.Context, from, to common.Address, amount *big.Int) uint64 {
	gas, err := r.state.quantity(ctx, "eth_estimateGas", map[string]any{"from": from, "to": to, "value": (*hexutil.Big)(amount)})
	if err != nil {
		return fundGas
	}
	return gas.Uint64() + gas.Uint64()/5
}

// poorerThan returns those of the senders that have less than need, in order.
func (r *run) poorerThan(ctx context.Context, need *big.Int) ([]*sender, error) {
	isPoor := make([]bool, len(r.senders))
	err := each(ctx, len(r.senders), func(ctx context.Context, i int) error {
		have, err := r.state.balance(ctx, r.senders[i].addr)
		isPoor[i] = err == nil && have.Cmp(need) < 0
		return err
	})
	var poor []*sender
	for i, s := range r.senders {
		if isPoor[i] {
			poor = append(poor, s)
		}
	}
	return poor, err
}

func roundUp(v *big.Int, step int64) *big.Int {
	unit := big.NewInt(step)
	up := new(big.Int).Add(v, big.NewInt(step-1))
	return up.Mul(up.Div(up, unit), unit)
}
