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
	rs.addAbsent(get)

	rs.add(http.MethodGet, "devnet/consensus", listConsensus)
	rs.add(http.MethodGet, "health/liveness", health)
	rs.add(http.MethodGet, "health/readiness", health)
	return rs
}

// addAbsent adds the paths of what the devnet does not have.
func (rs *routes) addAbsent(get func(string, handler)) {
	const account = "accounts/{idOrAliasOrEvmAddress}/"
	get(account+"airdrops/outstanding", emptyListOfAccount("airdrops", "receiver.id", "serialnumber", "token.id"))
	get(account+"airdrops/pending", emptyListOfAccount("airdrops", "sender.id", "serialnumber", "token.id"))
	get(account+"allowances/crypto", emptyListOfAccount("allowances", "spender.id"))
	get(account+"allowances/nfts", emptyListOfAccount("allowances", "account.id", "token.id", "owner"))
	get(account+"allowances/tokens", emptyListOfAccount("allowances", "spender.id", "token.id"))
	get(account+"hooks", emptyListOfAccount("hooks", "hook.id"))
	get(account+"nfts", emptyListOfAccount("nfts", "serialnumber", "spender.id", "token.id"))
	get(account+"rewards", emptyListOfAccount("rewards", "timestamp"))
	get(account+"tokens", emptyListOfAccount("tokens", "token.id"))

	get("schedules", emptyList("schedules", "account.id", "schedule.id"))
	get("schedules/{scheduleId}", missing("scheduleId", isEntity))
	get("tokens", emptyList("tokens", "account.id", "name", "publickey", "token.id", "type"))
	get("tokens/{tokenId}", missing("tokenId", isParty))
	get("tokens/{tokenId}/balances", missing("tokenId", isParty))
	get("tokens/{tokenId}/nfts", missing("tokenId", isParty))
	get("tokens/{tokenId}/nfts/{serialNumber}", missing("tokenId", isParty))
	get("topics/messages/{timestamp}", missing("timestamp", isTime))
	get("topics/{topicId}", missing("topicId", isEntity))
	get("topics/{topicId}/messages", missing("topicId", isEntity))
	get("topics/{topicId}/messages/{sequenceNumber}", missing("topicId", isEntity))
}
