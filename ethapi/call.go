package ethapi

import (
	"context"
	"encoding/json"
	"math/big"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
	"lockstep/mirror"
	"lockstep/rpc"
)

// call is eth_call.
func (a *API) call(ctx context.Context, p *rpc.Params) (any, error) {
	if overridesBlock(p) {
		return a.simulateCall(ctx, p, argumentAt(p, overridesParam), argumentAt(p, blockOverridesParam), (*simulation).call)
	}
	q, err := a.callRequest(ctx, p)
	if err != nil {
		return nil, err
	}
	q.Gas = min(q.Gas, a.deps.MaxCallGas)
	output, err := a.mirror.Call(ctx, q)
	if err != nil {
		return nil, a.callError(err)
	}
	return hexutil.Bytes(output), nil
}

// estimateGas is eth_estimateGas. Clients that know the limits of Ethereum's blocks offer more gas than a call
// may have. Ethereum's nodes then use their own limit; with the TypeScript relay the mirror node refuses the call.
func (a *API) estimateGas(ctx context.Context, p *rpc.Params) (any, error) {
	if overridesBlock(p) {
		return a.simulateCall(ctx, p, argumentAt(p, overridesParam), argumentAt(p, blockOverridesParam), (*simulation).estimate)
	}
	q, err := a.callRequest(ctx, p)
	if err != nil {
		return nil, err
	}
	if !a.hiero() {
		q.Gas = min(q.Gas, a.deps.MaxCallGas)
	}
	gas, err := a.estimate(ctx, q)
	if err != nil {
		return nil, err
	}
	return (*hexutil.Big)(gas), nil
}

// estimate asks the mirror node for the gas that a call needs. The mirror node gets authorizations but does not
// count them, so their gas is added. If a mirror node did count them, the estimate would be too high, which does
// less harm than too low.
func (a *API) estimate(ctx context.Context, q mirror.CallRequest) (*big.Int, error) {
	q.Estimate = true
	output, err := a.mirror.Call(ctx, q)
	if err != nil {
		return nil, a.callError(err)
	}
	if len(output) == 0 {
		return nil, eth.ErrInternal("Fail to retrieve gas estimate")
	}
	gas := new(big.Int).SetBytes(output)
	for range jsonx.Value(q.Authorizations).Elements() {
		gas.Add(gas, big.NewInt(eth.AuthorizationGas))
	}
	return gas, nil
}

// callRequest reads the transaction object, the block and the state overrides.
func (a *API) callRequest(ctx context.Context, p *rpc.Params) (q mirror.CallRequest, err error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return q, err
	}
	q.Block = ref.String()
	tx := p.At(0)
	if !a.hiero() { // the mirror node does not look at them
		if err := verifyFees(tx.Field("gasPrice").Big(), tx.Field("maxFeePerGas").Big(), tx.Field("maxPriorityFeePerGas").Big()); err != nil {
			return q, err
		}
	}
	if from := tx.Field("from"); from.Given() {
		address := addressOf(from)
		q.From = &address
	}
	if to := tx.Field("to"); to.Given() {
		address := addressOf(to)
		q.To = &address
	}
	// input is the newer name and wins.
	if q.Data = tx.Field("input").Bytes(); len(q.Data) == 0 {
		q.Data = tx.Field("data").Bytes()
	}
	if q.Gas, err = gasField(tx.Field("gas")); err != nil {
		return q, err
	}
	if price := tx.Field("gasPrice"); price.Given() {
		q.GasPrice = price.Big()
	}
	if q.Value, err = valueField(tx.Field("value")); err != nil {
		return q, err
	}
	if q.From == nil && q.Value > 0 {
		q.From = a.deps.Operator
	}
	q.AccessList = rawField(tx.Field("accessList"))
	q.Authorizations = rawField(tx.Field("authorizationList"))
	holding, overrides := capacity.FromContext(ctx), p.At(overridesParam)
	if err := holding.Take(copiesOfData * (2*len(q.Data) + len(q.AccessList) + len(q.Authorizations))); err != nil {
		return q, err
	}
	err = a.withPermit(ctx, overrides, func() (err error) { q.StateOverrides, err = stateOverrides(holding, overrides); return err })
	return q, err
}

// gasField reads a gas limit; absent or 0 means no limit.
func gasField(v jsonx.Value) (uint64, error) {
	n := v.Big()
	switch {
	case n == nil:
		return 0, nil
	case !n.IsUint64():
		return 0, eth.ErrInvalidArguments("gas %s does not fit 64 bits", v.Text())
	}
	return n.Uint64(), nil
}

// valueField reads an amount of weibar. An amount below a tinybar counts as one, so that the simulation sends
// something, too.
func valueField(v jsonx.Value) (hedera.Tinybar, error) {
	n := v.Big()
	if n == nil || n.Sign() == 0 {
		return 0, nil
	}
	tinybars, ok := hedera.TinybarOf(n)
	if !ok {
		return 0, eth.ErrInvalidArguments("value %s is more than there is", v.Text())
	}
	return max(tinybars, 1), nil
}

func rawField(v jsonx.Value) json.RawMessage {
	if !v.Given() {
		return nil
	}
	return json.RawMessage(v)
}
