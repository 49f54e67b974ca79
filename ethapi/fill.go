package ethapi

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/mirror"
	"lockstep/rpc"
)

// filledTransaction is the answer of eth_fillTransaction: the transaction without a
// signature, encoded and as an object. Its shape is go-ethereum's.
type filledTransaction struct {
	Raw hexutil.Bytes      `json:"raw"`
	Tx  *types.Transaction `json:"tx"`
}

// fillTransaction is eth_fillTransaction: it fills in what the client left out of a transaction, except the
// signature.
func (a *API) fillTransaction(ctx context.Context, p *rpc.Params) (any, error) {
	args, err := readTxArgs(p.At(0))
	if err != nil {
		return nil, err
	}
	if err := a.fillable(&args); err != nil {
		return nil, err
	}
	t, ctx := parallel(ctx, 3)
	t.run(func() error { return a.fillNonce(ctx, &args) })
	t.run(func() error { return a.fillGas(ctx, &args, p) })
	t.run(func() error { return a.fillFees(ctx, &args) })
	if err := t.wait(); err != nil {
		return nil, err
	}
	switch {
	case args.price != nil:
	case args.maxFee.BitLen() > 256:
		return nil, eth.ErrInvalidArguments("maxPriorityFeePerGas %v is too high", args.tip)
	case args.maxFee.Cmp(args.tip) < 0:
		return nil, eth.ErrInvalidArguments("maxFeePerGas (%v) < maxPriorityFeePerGas (%v)", args.maxFee, args.tip)
	}
	tx := types.NewTx(args.unsigned(a.chainID()))
	raw, err := tx.MarshalBinary()
	if err != nil {
		return nil, eth.ErrInvalidArguments("%s", err)
	}
	return filledTransaction{raw, tx}, nil
}

// fillable refuses a transaction that no value for the missing parts can make valid.
func (a *API) fillable(t *txArgs) error {
	zero := func(n *big.Int) bool { return n != nil && n.Sign() == 0 }
	switch {
	case t.to == nil && len(t.data) == 0:
		return eth.ErrInvalidArguments("contract creation without any data provided")
	case t.to == nil && t.authorizations != nil:
		return eth.ErrInvalidArguments(`authorizationList provided for contract creation, but "to" field is missing`)
	case t.price != nil && t.authorizations != nil:
		return eth.ErrInvalidArguments("both gasPrice and authorizationList specified")
	case zero(t.price):
		return eth.ErrInvalidArguments("gasPrice must be non-zero")
	case zero(t.maxFee):
		return eth.ErrInvalidArguments("maxFeePerGas must be non-zero")
	case t.chainID != nil && t.chainID.Cmp(a.chainID()) != 0:
		return eth.ErrChainID(t.chainID, a.deps.ChainID)
	}
	return nil
}

func (a *API) fillNonce(ctx context.Context, t *txArgs) error {
	if t.nonce != nil {
		return nil
	}
	nonce := uint64(0)
	if t.from != nil {
		var err error
		if nonce, err = a.pendingNonce(ctx, *t.from); err != nil {
			return err
		}
	}
	t.nonce = &nonce
	return nil
}

// fillGas asks for an estimate of the call that p describes.
func (a *API) fillGas(ctx context.Context, t *txArgs, p *rpc.Params) error {
	if t.gas != nil {
		return nil
	}
	q := mirror.CallRequest{
		Block: eth.BlockRef{}.String(), Estimate: true, From: t.from, To: t.to, Data: t.data,
		AccessList: rawField(p.At(0).Field("accessList")), Authorizations: rawField(p.At(0).Field("authorizationList")),
	}
	if t.value != nil && t.value.Sign() > 0 {
		tinybars, ok := hedera.TinybarOf(t.value)
		if !ok {
			return eth.ErrInvalidArguments("value %v is more than there is", t.value)
		}
		q.Value = max(tinybars, 1)
	}
	if q.From == nil && q.Value > 0 {
		q.From = a.deps.Operator
	}
	gas, err := a.estimate(ctx, q)
	if err != nil {
		return err
	}
	if !gas.IsUint64() {
		return eth.ErrInternal("Fail to retrieve gas estimate")
	}
	n := gas.Uint64()
	t.gas = &n
	return nil
}

// fillFees offers a fifth more than the present price: the price follows the exchange rate, and an offer above it
// is not charged.
func (a *API) fillFees(ctx context.Context, t *txArgs) error {
	if t.price != nil {
		return nil
	}
	if t.tip == nil {
		t.tip = new(big.Int)
	}
	if t.maxFee != nil {
		return nil
	}
	price, err := a.currentPrice(ctx)
	if err != nil {
		return err
	}
	tinybar := big.NewInt(hedera.WeibarPerTinybar)
	fee := new(big.Int).Div(price, tinybar)
	fee.Add(fee, new(big.Int).Div(new(big.Int).Add(fee, big.NewInt(4)), big.NewInt(5))) // rounded up
	t.maxFee = fee.Mul(fee, tinybar)
	t.maxFee.Add(t.maxFee, t.tip)
	return nil
}

// unsigned is the transaction of complete arguments, of the lowest type that can hold
// them, except that one without a gas price is at least of type 2.
func (t *txArgs) unsigned(chain *big.Int) types.TxData {
	value := t.value
	if value == nil {
		value = new(big.Int)
	}
	switch {
	case t.authorizations != nil:
		return &types.SetCodeTx{
			ChainID: uint256.MustFromBig(chain), Nonce: *t.nonce, GasTipCap: uint256.MustFromBig(t.tip), GasFeeCap: uint256.MustFromBig(t.maxFee),
			Gas: *t.gas, To: *t.to, Value: uint256.MustFromBig(value), Data: t.data, AccessList: t.accessList, AuthList: t.authorizations,
		}
	case t.price == nil:
		return &types.DynamicFeeTx{
			ChainID: chain, Nonce: *t.nonce, GasTipCap: t.tip, GasFeeCap: t.maxFee,
			Gas: *t.gas, To: t.to, Value: value, Data: t.data, AccessList: t.accessList,
		}
	case t.accessList != nil:
		return &types.AccessListTx{
			ChainID: chain, Nonce: *t.nonce, GasPrice: t.price,
			Gas: *t.gas, To: t.to, Value: value, Data: t.data, AccessList: t.accessList,
		}
	}
	return &types.LegacyTx{Nonce: *t.nonce, GasPrice: t.price, Gas: *t.gas, To: t.to, Value: value, Data: t.data}
}
