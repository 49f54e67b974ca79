package mirrorrest

import "net/http"

// table is every path that is served. A fixed path comes before one with a
// variable in its place.
func table() routes {
	var rs routes
	get := func(path string, h handler) { rs.add(http.MethodGet, base[1:]+path, h) }

	get("blocks", listBlocks)
	get("blocks/{hashOrNumber}", getBlock)

	get("contracts/results", listResults)
	get("contracts/results/logs", listLogs)
	get("contracts/results/{transactionIdOrHash}", getResult)
	get("contracts/results/{transactionIdOrHash}/actions", listActions)
	get("contracts/results/{transactionIdOrHash}/opcodes", listOpcodes)
	get("contracts", listContracts)
	get("contracts/{contractIdOrAddress}", getContract)
	get("contracts/{contractIdOrAddress}/results", listContractResults)
	get("contracts/{contractIdOrAddress}/results/logs", listContractLogs)
	get("contracts/{contractIdOrAddress}/results/{timestamp}", getResultAt)
	get("contracts/{contractIdOrAddress}/state", listState)
	rs.add(http.MethodPost, base[1:]+"contracts/call", callContract)

	get("accounts", listAccounts)
	get("accounts/{idOrAliasOrEvmAddress}", getAccount)
	get("balances", listBalances)
	get("transactions", listTransactions)
	get("transactions/{transactionIdOrHash}", getTransaction)

	get("network/exchangerate", getExchangeRate)
	get("network/fees", getFees)
	get("network/nodes", listNodes)
	get("network/registered-nodes", emptyList("registered_nodes", "registerednode.id", "type"))
	get("network/stake", getStake)
	get("network/supply", getSupply)
	rs.addTokens(get)
	get("schedules", listSchedules)
	get("schedules/{scheduleId}", getSchedule)
	get("topics/messages/{timestamp}", getMessageAt)
	get("topics/{topicId}", getTopic)
	get("topics/{topicId}/messages", listMessages)
	get("topics/{topicId}/messages/{sequenceNumber}", getMessage)
	rs.addAbsent(get)

	rs.add(http.MethodGet, "devnet/consensus", listConsensus)
	rs.add(http.MethodGet, "health/liveness", health)
	rs.add(http.MethodGet, "health/readiness", health)
	return rs
}

// addTokens adds the paths of tokens and of what accounts have and grant of them.
func (rs *routes) addTokens(get func(string, handler)) {
	const account = "accounts/{idOrAliasOrEvmAddress}/"
	get(account+"airdrops/outstanding", listOutstandingAirdrops)
	get(account+"airdrops/pending", listPendingAirdrops)
	get(account+"allowances/crypto", listCryptoAllowances)
	get(account+"allowances/nfts", listNFTAllowances)
	get(account+"allowances/tokens", listTokenAllowances)
	get(account+"nfts", listAccountNFTs)
	get(account+"tokens", listRelationships)
	get("tokens", listTokens)
	get("tokens/{tokenId}", getToken)
	get("tokens/{tokenId}/balances", listHolders)
	get("tokens/{tokenId}/nfts", listTokenNFTs)
	get("tokens/{tokenId}/nfts/{serialNumber}", getNFT)
	get("tokens/{tokenId}/nfts/{serialNumber}/transactions", listNFTTransactions)
}

// addAbsent adds the paths of what the devnet does not have.
func (rs *routes) addAbsent(get func(string, handler)) {
	const account = "accounts/{idOrAliasOrEvmAddress}/"
	get(account+"hooks", emptyListOfAccount("hooks", "hook.id"))
	get(account+"rewards", emptyListOfAccount("rewards", "timestamp"))
}
