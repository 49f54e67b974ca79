package ledger

import (
	"context"
	"errors"
	"math"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// CallRequest asks for a simulation on the state a View shows.
type CallRequest struct {
	From     *common.Address // nil: the treasury
	To       *common.Address // nil: Data is init code
	Data     []byte
	Gas      uint64 // 0: the most a transaction may have
	Value    hedera.Tinybar
	GasPrice hedera.Tinybar // 0: the network price
	Override map[common.Address]state.Override
}

// CallResult is the outcome of a simulation.
type CallResult struct {
	Status       hedera.Status // SUCCESS, CONTRACT_REVERT_EXECUTED, INVALID_CONTRACT_ID, …
	Output       []byte        // return data, or the runtime code of a simulated creation
	RevertData   []byte        // raw data of a revert
	ErrorMessage string        // as in EVMResult
	GasUsed      uint64
}

// ErrSenderNotFound is a simulation for a sender that does not exist.
var ErrSenderNotFound = errors.New("sender account not found")

// How the mirror node's estimator looks for a limit.
const (
	estimateRounds  = 20 // runs at most
	estimateSpan    = 10 // it ends when what is unknown is less than a tenth of what is known to be enough
	estimateStipend = 2_300
)

// Call simulates a transaction on the state of the view. The sender's balance must
// cover the value but not the gas, and the nonce does not matter. The error is
// ErrSenderNotFound or the context's.
func (v *View) Call(ctx context.Context, req CallRequest) (CallResult, error) {
	if req.Gas == 0 || req.Gas > maxGas {
		req.Gas = maxGas
	}
	return v.simulate(ctx, req, v.env())
}

func (v *View) simulate(ctx context.Context, req CallRequest, env blockEnv) (CallResult, error) {
	if err := ctx.Err(); err != nil {
		return CallResult{}, err
	}
	o := core.NewWork(v.l.store, v.reader.AsOf, true)
	o.Override(req.Override)
	msg := message{ctx: ctx, data: req.Data, gas: req.Gas, value: req.Value, gasPrice: req.GasPrice, ethereum: true}
	if msg.gasPrice == 0 {
		msg.gasPrice = v.l.net.GasPrice()
	}
	sender := o.EntityAccount(state.Treasury)
	if req.From != nil && *req.From != (common.Address{}) {
		sender = o.Get(*req.From)
	}
	if !sender.Exists {
		return CallResult{}, ErrSenderNotFound
	}
	msg.from = sender.Address
	if req.To != nil {
		to := o.Canonical(*req.To)
		msg.to = &to
	}
	if sender.Tinybar() < req.Value {
		return CallResult{
			Status:       hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE,
			ErrorMessage: hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE.String(),
		}, nil
	}
	out := v.l.engine.run(o, env, msg)
	if err := ctx.Err(); err != nil { // the run was cut short
		return CallResult{}, err
	}
	return CallResult{
		Status: out.status, Output: out.output, RevertData: out.revert,
		ErrorMessage: out.message, GasUsed: out.gasUsed,
	}, nil
}

// Estimate finds a gas limit that is enough, as the network's mirror node does: after a run with all gas it tries a
// little more than what that used, then halves what is unknown, and never answers less than 5 % above the gas used.
// With Config.ExactEstimates it finds the lowest limit. A result that is not SUCCESS says why no limit is enough; the
// gas is then meaningless.
func (v *View) Estimate(ctx context.Context, req CallRequest) (uint64, CallResult, error) {
	limit := req.Gas
	if limit == 0 || limit > maxGas {
		limit = maxGas
	}
	req.Gas = limit
	env := v.nextEnv()
	full, err := v.simulate(ctx, req, env)
	if err != nil || full.Status != okay {
		return 0, full, err
	}
	low, high, rounds, span := max(full.GasUsed, txGas)-1, limit, estimateRounds, uint64(estimateSpan)
	next, least := (full.GasUsed+estimateStipend)*64/63, full.GasUsed+(full.GasUsed+19)/20
	if v.l.cfg.ExactEstimates {
		next, least, rounds, span = full.GasUsed, 0, 64, math.MaxUint64
	}
	for ; rounds > 0 && low+1 < high && (high-low >= high/span || next == 0); rounds-- {
		if req.Gas = min(next, high-1); req.Gas <= low {
			req.Gas = min(low+(high-low)/2, 2*low) // most need only slightly more than they use
		}
		next = 0
		step, err := v.simulate(ctx, req, env)
		if err != nil {
			return 0, step, err
		}
		if step.Status == okay {
			high = req.Gas
		} else {
			low = req.Gas
		}
	}
	return min(max(high, least), limit), full, nil
}

// nextEnv is the block that an estimate is for: the one after the newest of the view, where that
// is the newest there is. What it estimates will run there, and may wait for its time.
func (v *View) nextEnv() blockEnv {
	env := v.env()
	if v.reader.AsOf < v.l.newest.Load().reader.AsOf {
		return env
	}
	env.number, env.hashes = env.number+1, v.hashes(env.number+1)
	env.time = max(env.time, v.l.nextSecond())
	return env
}

// env is the block that a call runs in: the newest of the view.
func (v *View) env() blockEnv {
	v.l.store.RLock()
	defer v.l.store.RUnlock()
	b := v.l.chain.Latest(v.reader.AsOf)
	return blockEnv{
		number: b.Number, time: b.From.Seconds, seed: b.Hash, hashes: v.hashes(b.Number),
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
