package ethapi

import (
	"cmp"
	"context"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/internal/relay/lifecycle"
	"lockstep/mirror"
	"lockstep/rpc"
)

// adminMethods are the rows for the operator of the relay.
func (a *API) adminMethods() []rpc.Method {
	row := func(name string, offered bool, handler rpc.Handler, params ...rpc.Param) rpc.Method {
		if !offered || a.deps.NoAdmin {
			handler = func(context.Context, *rpc.Params) (any, error) { return nil, eth.ErrUnsupportedMethod }
		}
		return rpc.Method{Name: name, Params: params, AnyParams: len(params) == 0, Handler: translated(handler)}
	}
	return []rpc.Method{
		row("admin_config", a.deps.Settings != nil, a.showSettings),
		row("admin_getTransactionTraceByHash", a.deps.Trace.Enabled(), a.getTransactionTrace, rpc.Required(txHashRule())),
	}
}

// showSettings is admin_config: the settings of the relay and of its connections to the network.
func (a *API) showSettings(ctx context.Context, _ *rpc.Params) (any, error) {
	return a.deps.Settings(ctx), nil
}

// getTransactionTrace is admin_getTransactionTraceByHash: what happened to a
// transaction, or null.
func (a *API) getTransactionTrace(ctx context.Context, p *rpc.Params) (any, error) {
	record, ok := a.deps.Trace.Get(ctx, hashOf(p.At(0)))
	if !ok {
		return nil, nil
	}
	return record, nil
}

// seen notes that the mirror node shows a transaction.
func (a *API) seen(hash common.Hash) {
	a.deps.Trace.Validated(hash)
}

// lifecycle returns the record of a transaction, or the zero value.
func (a *API) lifecycle(ctx context.Context, hash common.Hash) lifecycle.Record {
	record, _ := a.deps.Trace.Get(ctx, hash)
	return record
}

// whyNoReceipt is the error for a transaction that the mirror node does not know and that is not simply on its
// way, or nil. A spent nonce proves nothing: this transaction may have spent it on another way.
func (a *API) whyNoReceipt(ctx context.Context, hash common.Hash) error {
	record := a.lifecycle(ctx, hash)
	known := eth.NoReceipt{Hash: hash, Status: record.HederaStatus, Detail: record.Error, TransactionID: record.TransactionID}
	switch {
	case record.Status == lifecycle.StatusRejected && !record.NonceSpent:
		return eth.ErrNeverExecuted(known)
	case record.Status == lifecycle.StatusTimedOut:
		return eth.ErrNotKnownYet(known)
	default:
		return nil
	}
}

// refusal is the error for a transaction that was refused, as the mirror node knows. The mirror node's text comes
// first; the record adds what that leaves out.
func (a *API) refusal(ctx context.Context, hash common.Hash, result *mirror.ContractResult) error {
	record := a.lifecycle(ctx, hash)
	return eth.ErrNeverExecuted(eth.NoReceipt{
		Hash: hash, Status: cmp.Or(result.Result, record.HederaStatus), Detail: cmp.Or(result.ErrorMessage, record.Error),
		TransactionID: record.TransactionID,
	})
}
