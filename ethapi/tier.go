package ethapi

// Tier returns the tier of a method's rate limit, as the TypeScript relay has it; 0 is the default
// tier. Simulations are in the first one, as docs/CONFIG.md says of it.
func Tier(method string) int {
	switch method {
	case "eth_call", "eth_hashrate", "eth_maxPriorityFeePerGas", "eth_mining", "eth_sendRawTransaction", "eth_sendRawTransactionSync",
		"eth_sendTransaction", "eth_sign", "eth_signTransaction", "eth_submitHashrate", "eth_submitWork",
		"eth_syncing", "debug_traceCall", "debug_traceTransaction", "debug_traceBlockByNumber", "debug_traceBlockByHash",
		"eth_simulateV1", "eth_createAccessList", "eth_estimateGas":
		return 1
	case "admin_config", "web3_clientVersion", "web3_sha3", "net_listening", "net_version", "net_peerCount":
		return 3
	case "eth_accounts", "eth_blobBaseFee", "eth_blockNumber", "eth_chainId", "eth_coinbase",
		"eth_feeHistory", "eth_gasPrice", "eth_getBalance",
		"eth_getBlockByHash", "eth_getBlockByNumber", "eth_getBlockReceipts",
		"eth_getBlockTransactionCountByHash", "eth_getBlockTransactionCountByNumber", "eth_getCode",
		"eth_getFilterChanges", "eth_getFilterLogs", "eth_getLogs", "eth_getProof", "eth_getStorageAt",
		"eth_getTransactionByBlockHashAndIndex", "eth_getTransactionByBlockNumberAndIndex",
		"eth_getTransactionByHash", "eth_getTransactionCount", "eth_getTransactionReceipt",
		"eth_getUncleByBlockHashAndIndex", "eth_getUncleByBlockNumberAndIndex",
		"eth_getUncleCountByBlockHash", "eth_getUncleCountByBlockNumber", "eth_getWork",
		"eth_newBlockFilter", "eth_newFilter", "eth_newPendingTransactionFilter", "eth_protocolVersion",
		"eth_uninstallFilter":
		return 2
	}
	return 0
}
