package develop

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/rpc"
)

// impersonationMethods let tools send in the name of accounts whose keys nobody has.
func (d *Developer) impersonationMethods() (rows []rpc.Method) {
	for _, prefix := range []string{"hardhat_", "anvil_"} {
		result := any(true)
		if prefix == "anvil_" {
			result = nil
		}
		rows = append(rows, concat(
			named(d.impersonate(true, result), prefix+"impersonateAccount"),
			named(d.impersonate(false, result), prefix+"stopImpersonatingAccount"),
			named(d.impersonateAnybody(result), prefix+"autoImpersonateAccount"),
		)...)
	}
	return rows
}

func (d *Developer) impersonate(on bool, result any) rpc.Handler {
	return func(_ context.Context, p *rpc.Params) (any, error) {
		a, err := addressAt(p, 0)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case !on:
			delete(d.impersonated, a)
		case len(d.impersonated) >= maxImpersonated:
			return nil, eth.ErrInvalidArguments("%d accounts are impersonated already", maxImpersonated)
		default:
			d.impersonated[a] = struct{}{}
		}
		return result, nil
	}
}

func (d *Developer) impersonateAnybody(result any) rpc.Handler {
	return func(_ context.Context, p *rpc.Params) (any, error) {
		if !p.At(0).IsBool() {
			return nil, eth.ErrInvalidParam(0, "want true or false")
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.anybody = p.At(0).Bool()
		return result, nil
	}
}

// impersonates tells whether an account's transactions need no key. One whose key the chain
// has signs them.
func (d *Developer) impersonates(a common.Address) bool {
	if d.keys[a] != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, named := d.impersonated[a]
	return named || d.anybody
}

// sendUnproven sends a transaction of an account that is impersonated. It has no signature, so
// that no node would take it: the ledger handles it at once.
func (d *Developer) sendUnproven(ctx context.Context, args jsonx.Value, from common.Address) (any, error) {
	tx, err := d.unproven(ctx, args, from)
	if err != nil {
		return nil, err
	}
	record, err := d.ledger.Impersonate(tx, from)
	if err != nil {
		return nil, err
	}
	d.changed(ctx)
	if record.Result == nil || !record.Executed() {
		return nil, eth.ErrRejected(record.Status.String(), "")
	}
	return record.EthereumHash, nil
}

// unproven completes a transaction.
func (d *Developer) unproven(ctx context.Context, args jsonx.Value, from common.Address) (*types.Transaction, error) {
	view := d.ledger.Handled()
	account, exists := view.AccountByAddress(from)
	if !exists {
		return nil, eth.ErrSenderNotFound(from)
	}
	fields := &types.DynamicFeeTx{
		ChainID: new(big.Int).SetUint64(view.ChainID()), Nonce: uint64(account.Nonce), GasTipCap: new(big.Int), GasFeeCap: view.GasPrice().Weibar(),
		Value: new(big.Int), Data: args.Field("data").Bytes(),
	}
	if input := args.Field("input"); input.Given() {
		fields.Data = input.Bytes()
	}
	if to := args.Field("to"); to.Given() {
		address := common.BytesToAddress(to.Bytes())
		fields.To = &address
	}
	if value := args.Field("value"); value.Given() {
		if fields.Value = value.Big(); fields.Value == nil {
			return nil, eth.ErrInvalidParam(0, "value is no number")
		}
		if tinybars, ok := hedera.TinybarOf(fields.Value); ok && tinybars == 0 && fields.Value.Sign() > 0 {
			return nil, eth.ErrValueTooLow
		}
	}
	if nonce := args.Field("nonce"); nonce.Given() {
		n, ok := nonce.Uint64()
		if !ok {
			return nil, eth.ErrInvalidParam(0, "nonce is no number")
		}
		fields.Nonce = n
	}
	gas, err := d.gas(ctx, args, from)
	fields.Gas = gas
	return types.NewTx(fields), err
}

// gas is the limit that a transaction gives, or an estimate.
func (d *Developer) gas(ctx context.Context, args jsonx.Value, from common.Address) (uint64, error) {
	for _, name := range []string{"gas", "gasLimit"} {
		if limit := args.Field(name); limit.Given() {
			n, ok := limit.Uint64()
			if !ok {
				return 0, eth.ErrInvalidParam(0, "%s is no number", name)
			}
			return n, nil
		}
	}
	answer, err := d.self.call(ctx, "eth_estimateGas", withFrom(args, from))
	if err != nil {
		return 0, err
	}
	var gas hexutil.Uint64
	if err := gas.UnmarshalJSON(answer); err != nil {
		return 0, eth.ErrInternal("estimate of gas: %s", err)
	}
	return uint64(gas), nil
}
