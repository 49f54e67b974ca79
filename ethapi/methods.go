package ethapi

import (
	"slices"

	"lockstep/internal/eth"
	"lockstep/rpc"
)

// Methods returns the method table.
func (a *API) Methods() []rpc.Method {
	var (
		address     = rpc.Required(AddressRule())
		number      = rpc.Required(a.blockRule())
		blockHash   = rpc.Required(blockHashRule())
		txHash      = rpc.Required(txHashRule())
		full        = rpc.Required(rpc.Boolean())
		hex         = rpc.Required(HexRule())
		count       = rpc.Required(countRule())
		transaction = rpc.Required(transactionRule())
		logFilter   = rpc.Required(filterRule(a.blockRule(), !a.hiero()))
		anyBlock    = anyBlockRule(a.blockRule())
		callBlock   = blockParamsRule(a.blockRule())
		estimateAt  = a.blockRule().Also(blockParamsRule(a.blockRule()))
		optional    = rpc.Optional // of the block
	)
	if a.hiero() { // the TypeScript relay requires the block, and does not accept null
		optional, count = rpc.Required, hex
	}
	atBlock := optional(anyBlock)
	row := func(name string, handler rpc.Handler, params ...rpc.Param) rpc.Method {
		return rpc.Method{Name: name, Params: params, AnyParams: len(params) == 0, Handler: translated(handler)}
	}
	// The TypeScript relay refuses a fourth parameter.
	call := []rpc.Param{transaction, optional(callBlock), rpc.Optional(stateOverrideRule())}
	estimate := []rpc.Param{transaction, rpc.Optional(estimateAt), rpc.Optional(stateOverrideRule())}
	if !a.hiero() {
		call, estimate = append(call, rpc.Optional(blockOverridesRule())), append(estimate, rpc.Optional(blockOverridesRule()))
	}
	methods := []rpc.Method{
		// Head and fees.
		row("eth_blockNumber", a.blockNumber),
		row("eth_gasPrice", a.gasPrice),
		heavy(weightLists, row("eth_feeHistory", a.feeHistory, count, number, rpc.Optional(percentilesRule()))),

		// State.
		row("eth_getBalance", a.getBalance, address, atBlock),
		row("eth_getTransactionCount", a.getTransactionCount, address, atBlock),
		row("eth_getCode", a.getCode, address, atBlock),
		row("eth_getStorageAt", a.getStorageAt, address, rpc.Required(wordRule()), atBlock),
		row("eth_call", a.call, call...),
		row("eth_estimateGas", a.estimateGas, estimate...),
		row("eth_createAccessList", a.createAccessList, transaction, rpc.Nullable(anyBlock), rpc.Nullable(stateOverrideRule())),
		row("eth_simulateV1", a.simulateV1, rpc.Required(simulateRule()), rpc.Nullable(anyBlock)),
		row("eth_fillTransaction", a.fillTransaction, transaction),

		// Blocks.
		row("eth_getBlockByNumber", a.getBlock, number, full),
		row("eth_getBlockByHash", a.getBlock, blockHash, full),
		row("eth_getBlockTransactionCountByNumber", a.getBlockTransactionCount, number),
		row("eth_getBlockTransactionCountByHash", a.getBlockTransactionCount, blockHash),
		heavy(weightLists, row("eth_getBlockReceipts", a.getBlockReceipts, rpc.Required(anyBlock))),

		// Transactions.
		row("eth_getTransactionByHash", a.getTransactionByHash, txHash),
		row("eth_getTransactionByBlockNumberAndIndex", a.getTransactionByBlock, number, hex),
		row("eth_getTransactionByBlockHashAndIndex", a.getTransactionByBlock, blockHash, hex),
		row("eth_getTransactionReceipt", a.getTransactionReceipt, txHash),

		// Logs and filters.
		heavy(weightLists, row("eth_getLogs", a.getLogs, logFilter)),
		row("eth_newFilter", a.newFilter, logFilter),
		row("eth_newBlockFilter", a.newBlockFilter),
		heavy(weightLists, row("eth_getFilterLogs", a.getFilterLogs, hex)),
		heavy(weightLists, row("eth_getFilterChanges", a.getFilterChanges, hex)),
		row("eth_uninstallFilter", a.uninstallFilter, hex),
	}
	return slices.Concat(methods, a.debugMethods(), a.poolMethods(), a.adminMethods(), a.constants(), a.discovery())
}

// Weights of calls that read much, for the permits of heavy reads.
const (
	weightLists = 1 // of logs, receipts, blocks
	weightTrace = 4
)

func heavy(weight int, m rpc.Method) rpc.Method {
	m.Weight = weight
	return m
}

// UnknownMethod is the answer to a name that the method table does not have, or not on this transport. It
// distinguishes namespaces that exist on other chains from misspelt names. served says whether the transport
// serves the namespace of the name.
func UnknownMethod(name string, t rpc.Transport, served bool) *eth.Error {
	namespace := rpc.Namespace(name)
	switch {
	case namespace == "engine",
		served && t == rpc.TransportWebSocket && (name == "eth_subscribe" || name == "eth_unsubscribe"):
		return eth.ErrUnsupportedMethod
	case served && t == rpc.TransportHTTP && (namespace == "trace" || namespace == "debug"):
		return eth.ErrNotYetImplemented
	}
	return eth.ErrMethodNotFound(name)
}
