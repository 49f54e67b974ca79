package evm

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

// Simulate runs a transaction on the state at a time. The sender's balance must
// cover the value but not the gas, and the nonce does not matter. The error is
// ErrSenderNotFound or the context's.
func (e *Engine) Simulate(ctx context.Context, asOf int64, req CallRequest, env BlockEnv) (CallResult, error) {
	if err := ctx.Err(); err != nil {
		return CallResult{}, err
	}
	if req.Gas == 0 || req.Gas > MaxGas {
		req.Gas = MaxGas
	}
	o := core.NewWork(e.net.Store, asOf, true)
	o.Override(req.Override)
	msg := message{ctx: ctx, data: req.Data, gas: req.Gas, value: req.Value, gasPrice: req.GasPrice, ethereum: true}
	if msg.gasPrice == 0 {
		msg.gasPrice = e.net.GasPrice()
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
	out := e.run(o, env, msg)
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
// Where it is to be exact, it finds the lowest limit. A result that is not SUCCESS says why no limit is enough; the
// gas is then meaningless.
func (e *Engine) Estimate(ctx context.Context, asOf int64, req CallRequest, env BlockEnv, exact bool) (uint64, CallResult, error) {
	limit := req.Gas
	if limit == 0 || limit > MaxGas {
		limit = MaxGas
	}
	req.Gas = limit
	full, err := e.Simulate(ctx, asOf, req, env)
	if err != nil || full.Status != okay {
		return 0, full, err
	}
	low, high, rounds, span := max(full.GasUsed, txGas)-1, limit, estimateRounds, uint64(estimateSpan)
	next, least := (full.GasUsed+estimateStipend)*64/63, full.GasUsed+(full.GasUsed+19)/20
	if exact {
		next, least, rounds, span = full.GasUsed, 0, 64, math.MaxUint64
	}
	for ; rounds > 0 && low+1 < high && (high-low >= high/span || next == 0); rounds-- {
		if req.Gas = min(next, high-1); req.Gas <= low {
			req.Gas = min(low+(high-low)/2, 2*low) // most need only slightly more than they use
		}
		next = 0
		step, err := e.Simulate(ctx, asOf, req, env)
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
