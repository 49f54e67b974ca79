package ethapi

import (
	"context"

	"lockstep/internal/eth"
	"lockstep/rpc"
)

// adminMethods are the rows for the operator of the relay.
func (a *API) adminMethods() []rpc.Method {
	row := func(name string, offered bool, handler rpc.Handler, params ...rpc.Param) rpc.Method {
		if !offered || a.deps.NoAdmin {
			handler = func(context.Context, *rpc.Params) (any, error) { return nil, eth.ErrUnsupportedMethod() }
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
