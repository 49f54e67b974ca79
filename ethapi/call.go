package ethapi

import (
	"context"
	"encoding/json"
	"math/big"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/eth"
	"lockstep/hedera"
	"lockstep/mirror"
	"lockstep/rpc"
)

// call is eth_call.
func (a *API) call(ctx context.Context, p *rpc.Params) (any, error) {
	if overridesBlock(p) {
		return a.simulateCall(ctx, p, p.At(overridesParam), p.At(blockOverridesParam), (*simulation).call)
	}
	q, err := a.callRequest(p)
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

// estimateGas is eth_estimateGas. More gas than a call may have is what clients offer who
// know the limits of Ethereum's blocks: its nodes go to their own limit then, established
// relays have the mirror node refuse it.
func (a *API) estimateGas(ctx context.Context, p *rpc.Params) (any, error) {
	if overridesBlock(p) {
		return a.simulateCall(ctx, p, p.At(overridesParam), p.At(blockOverridesParam), (*simulation).estimate)
	}
	q, err := a.callRequest(p)
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

// estimate asks the mirror node for the gas that a call needs. It is told of
// authorizations and does not count them, so what they need is added. From a mirror node
// that did count them this would be too much, which is less harm than too little.
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
	for range rpc.Value(q.Authorizations).Elements() {
		gas.Add(gas, big.NewInt(eth.AuthorizationGas))
	}
	return gas, nil
}

// callRequest reads the transaction object, the block and the state overrides.
func (a *API) callRequest(p *rpc.Params) (q mirror.CallRequest, err error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return q, err
	}
	q.Block = ref.String()
	tx := p.At(0)
	if from := tx.Field("from"); from.Given() {
		address := from.Address()
		q.From = &address
	}
	if to := tx.Field("to"); to.Given() {
		address := to.Address()
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
	q.StateOverrides, err = stateOverrides(p.At(overridesParam))
	return q, err
}

// gasField reads a gas limit; absent or 0 is no limit of the caller's.
func gasField(v rpc.Value) (uint64, error) {
	n := v.Big()
	switch {
	case n == nil:
		return 0, nil
	case !n.IsUint64():
		return 0, eth.ErrInvalidArguments("gas %s does not fit 64 bits", v.Text())
	}
	return n.Uint64(), nil
}

// valueField reads an amount of weibar. One that is too small for a tinybar counts
// as one, so that a call which sends something is simulated as such.
func valueField(v rpc.Value) (hedera.Tinybar, error) {
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

func rawField(v rpc.Value) json.RawMessage {
	if !v.Given() {
		return nil
	}
	return json.RawMessage(v)
}

func rawJSON(text string) json.RawMessage { return json.RawMessage(text) }
