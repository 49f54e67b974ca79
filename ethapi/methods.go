package ethapi

import (
	"slices"

	"lockstep/rpc"
)

// Methods returns the method table.
func (a *API) Methods() []rpc.Method {
	var (
		address     = rpc.Required(rpc.Address())
		number      = rpc.Required(rpc.BlockNumber())
		blockHash   = rpc.Required(rpc.BlockHash())
		txHash      = rpc.Required(rpc.TransactionHash())
		full        = rpc.Required(rpc.Boolean())
		hex         = rpc.Required(rpc.Hex())
		transaction = rpc.Required(rpc.Transaction())
		filterRule  = rpc.Required(rpc.Filter())
		anyBlock    = blockRule()
		atBlock     = rpc.Optional(anyBlock)
	)
	row := func(name string, handler rpc.Handler, params ...rpc.Param) rpc.Method {
		return rpc.Method{Name: name, Params: params, AnyParams: len(params) == 0, Handler: translated(handler)}
	}
	// Established relays refuse a fourth parameter.
	call := []rpc.Param{transaction, rpc.Optional(rpc.BlockParams()), rpc.Optional(rpc.StateOverride())}
	estimate := []rpc.Param{transaction, rpc.Optional(rpc.BlockNumber().Also(rpc.BlockParams())), rpc.Optional(rpc.StateOverride())}
	if !a.hiero() {
		call, estimate = append(call, rpc.Optional(rpc.BlockOverrides())), append(estimate, rpc.Optional(rpc.BlockOverrides()))
	}
	methods := []rpc.Method{
		// Head and fees.
		ready(row("eth_blockNumber", a.blockNumber), a.knownBlockNumber),
		ready(row("eth_gasPrice", a.gasPrice), a.knownGasPrice),
		row("eth_feeHistory", a.feeHistory, hex, number, rpc.Optional(rpc.RewardPercentiles())),

		// State.
		row("eth_getBalance", a.getBalance, address, atBlock),
		row("eth_getTransactionCount", a.getTransactionCount, address, atBlock),
		row("eth_getCode", a.getCode, address, atBlock),
		row("eth_getStorageAt", a.getStorageAt, address, rpc.Required(rpc.Hex64()), atBlock),
		row("eth_call", a.call, call...),
		row("eth_estimateGas", a.estimateGas, estimate...),
		row("eth_createAccessList", a.createAccessList, transaction, rpc.Nullable(anyBlock), rpc.Nullable(rpc.StateOverride())),
		row("eth_simulateV1", a.simulateV1, rpc.Required(rpc.SimulatePayload()), rpc.Nullable(anyBlock)),
		row("eth_fillTransaction", a.fillTransaction, transaction),

		// Blocks.
		ready(row("eth_getBlockByNumber", a.getBlock, number, full), a.knownBlock),
		ready(row("eth_getBlockByHash", a.getBlock, blockHash, full), a.knownBlock),
		row("eth_getBlockTransactionCountByNumber", a.getBlockTransactionCount, number),
		row("eth_getBlockTransactionCountByHash", a.getBlockTransactionCount, blockHash),
		row("eth_getBlockReceipts", a.getBlockReceipts, rpc.Required(anyBlock)),

		// Transactions.
		row("eth_getTransactionByHash", a.getTransactionByHash, txHash),
		row("eth_getTransactionByBlockNumberAndIndex", a.getTransactionByBlock, number, hex),
		row("eth_getTransactionByBlockHashAndIndex", a.getTransactionByBlock, blockHash, hex),
		row("eth_getTransactionReceipt", a.getTransactionReceipt, txHash),

		// Logs and filters.
		row("eth_getLogs", a.getLogs, filterRule),
		row("eth_newFilter", a.newFilter, filterRule),
		row("eth_newBlockFilter", a.newBlockFilter),
		row("eth_getFilterLogs", a.getFilterLogs, hex),
		row("eth_getFilterChanges", a.getFilterChanges, hex),
		row("eth_uninstallFilter", a.uninstallFilter, hex),
	}
	return slices.Concat(methods, a.debugMethods(), a.poolMethods(), a.adminMethods(), a.constants(), a.discovery())
}
