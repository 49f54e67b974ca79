package mirrorrest

import (
	"net/http"
	"net/url"
	"strings"
)

// A handler answers one kind of request. Its result is written as JSON; an error
// that is a *problem becomes its answer, any other one a 500.
type handler func(*request) (any, error)

// A route is a method and a path under the base, already split. A segment in
// braces matches anything and becomes the next entry of request.args.
type route struct {
	method   string
	segments []string
	handle   handler
}

// Routes are tried in order, so that a fixed path stands before one with a
// variable in the same place. (http.ServeMux refuses this set of paths: it finds
// contracts/{id}/results/{timestamp} and contracts/results/{hash}/actions in
// conflict.)
type routes []route

func (rs *routes) add(method, path string, h handler) {
	*rs = append(*rs, route{method: method, segments: strings.Split(path, "/"), handle: h})
}

// find returns the handler for an escaped path and the values of its variables,
// unescaped: a hash in base 64 may have a slash in it.
func (rs routes) find(method, path string) (handler, []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for _, r := range rs {
		if r.method != method || len(r.segments) != len(segments) {
			continue
		}
		if args, ok := r.match(segments); ok {
			return r.handle, args
		}
	}
	return nil, nil
}

func (r route) match(segments []string) (args []string, ok bool) {
	for i, want := range r.segments {
		switch {
		case strings.HasPrefix(want, "{"):
			arg, err := url.PathUnescape(segments[i])
			if err != nil {
				return nil, false
			}
			args = append(args, arg)
		case want != segments[i]:
			return nil, false
		}
	}
	return args, true
}

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

	const account = "accounts/{idOrAliasOrEvmAddress}/"
	get(account+"airdrops/outstanding", listOutstandingAirdrops)
	get(account+"airdrops/pending", listPendingAirdrops)
	get(account+"allowances/crypto", listCryptoAllowances)
	get(account+"allowances/nfts", listNFTAllowances)
	get(account+"allowances/tokens", listTokenAllowances)
	get(account+"hooks", emptyListOfAccount("hooks", "hook.id"))
	get(account+"nfts", listAccountNFTs)
	get(account+"rewards", emptyListOfAccount("rewards", "timestamp"))
	get(account+"tokens", listRelationships)
	get("tokens", listTokens)
	get("tokens/{tokenId}", getToken)
	get("tokens/{tokenId}/balances", listHolders)
	get("tokens/{tokenId}/nfts", listTokenNFTs)
	get("tokens/{tokenId}/nfts/{serialNumber}", getNFT)
	get("tokens/{tokenId}/nfts/{serialNumber}/transactions", listNFTTransactions)

	get("schedules", listSchedules)
	get("schedules/{scheduleId}", getSchedule)
	get("topics/messages/{timestamp}", getMessageAt)
	get("topics/{topicId}", getTopic)
	get("topics/{topicId}/messages", listMessages)
	get("topics/{topicId}/messages/{sequenceNumber}", getMessage)

	rs.add(http.MethodGet, "devnet/consensus", listConsensus)
	rs.add(http.MethodGet, "health/liveness", health)
	rs.add(http.MethodGet, "health/readiness", health)
	return rs
}

// health answers the probes: an API that answers is alive, and ready, since there
// is a block from the start.
func health(*request) (any, error) { return object{"status": "OK"}, nil }

// emptyList answers for what the devnet does not have, such as hooks and rewards, as a network where nobody made any,
// so that explorers and probing clients work. Its parameters are not checked beyond their names being of this API.
func emptyList(name string, accepted ...string) handler {
	allowed := params{}
	for _, parameter := range accepted {
		allowed[parameter] = func(operator, string) bool { return true }
	}
	return func(r *request) (any, error) {
		if _, err := r.query(allowed, ascending); err != nil {
			return nil, err
		}
		return object{name: []any{}, "links": links{}}, nil
	}
}

// emptyListOfAccount is an empty list below an account, which must exist.
func emptyListOfAccount(name string, accepted ...string) handler {
	list := emptyList(name, accepted...)
	return func(r *request) (any, error) {
		if _, err := r.accountArg(); err != nil {
			return nil, err
		}
		return list(r)
	}
}
