package ledger

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
)

// Call simulates a transaction on the state of the view. The sender's balance must
// cover the value but not the gas, and the nonce does not matter. The error is
// ErrSenderNotFound or the context's.
func (v *View) Call(ctx context.Context, req evm.CallRequest) (evm.CallResult, error) {
	return v.l.engine.Simulate(ctx, v.reader.AsOf, req, v.env())
}

// Estimate finds a gas limit that is enough, as the network's mirror node does: after a run with all gas it tries a
// little more than what that used, then halves what is unknown, and never answers less than 5 % above the gas used.
// With Config.ExactEstimates it finds the lowest limit. A result that is not SUCCESS says why no limit is enough; the
// gas is then meaningless.
func (v *View) Estimate(ctx context.Context, req evm.CallRequest) (uint64, evm.CallResult, error) {
	return v.l.engine.Estimate(ctx, v.reader.AsOf, req, v.nextEnv(), v.l.cfg.ExactEstimates)
}

// nextEnv is the block that an estimate is for: the one after the newest of the view, where that
// is the newest there is. What it estimates will run there, and may wait for its time.
func (v *View) nextEnv() evm.BlockEnv {
	env := v.env()
	if v.reader.AsOf < v.l.newest.Load().reader.AsOf {
		return env
	}
	env.Number, env.Hashes = env.Number+1, v.hashes(env.Number+1)
	env.Time = max(env.Time, v.l.nextSecond())
	return env
}

// env is the block that a call runs in: the newest of the view.
func (v *View) env() evm.BlockEnv {
	v.l.store.RLock()
	defer v.l.store.RUnlock()
	b := v.l.chain.Latest(v.reader.AsOf)
	return evm.BlockEnv{
		Number: b.Number, Time: b.From.Seconds, Seed: b.Hash, Hashes: v.hashes(b.Number),
	}
}

// hashes is what BLOCKHASH shows in a block.
func (v *View) hashes(current int64) func(uint64) common.Hash {
	return func(n uint64) common.Hash {
		if hash, ok := v.l.store.Fork.BlockHash(current, n); ok {
			return hash
		}
		v.l.store.RLock()
		defer v.l.store.RUnlock()
		return v.l.chain.Hash(current, n)
	}
}

// Opcodes runs a transaction again on the state it ran on, and collects every step.
// The errors are ErrNotExecuted, ErrTraceTooLarge and the context's.
func (v *View) Opcodes(ctx context.Context, r *history.Record, with evm.OpcodeOptions) (*evm.OpcodeTrace, error) {
	return v.l.engine.Replay(ctx, r, v.envOf(r), with)
}

// envOf is the block a transaction ran in.
func (v *View) envOf(r *history.Record) evm.BlockEnv {
	env := evm.BlockEnv{Number: r.Block, Time: r.Consensus.Seconds, Seed: r.Seed}
	v.l.store.RLock()
	defer v.l.store.RUnlock()
	if b := v.l.chain.Number(r.Block); b != nil {
		env.Time = b.From.Seconds
	}
	env.Hashes = func(n uint64) common.Hash {
		v.l.store.RLock()
		defer v.l.store.RUnlock()
		return v.l.chain.Hash(r.Block, n)
	}
	return env
}
