package mirrorrest

import (
	"net/http"
	"net/url"
	"strings"
)

// A handler answers one kind of request. Its result is written as JSON; an error
// that is a *problem becomes its answer, any other one a 500.
type handler func(*request) (any, error)

// takes is a handler of requests whose query string is in order.
func takes(l listing, accepted params, answer func(*request, *query) (any, error)) handler {
	return func(r *request) (any, error) {
		q, err := parseQuery(r.URL.RawQuery, accepted, l)
		if err != nil {
			return nil, err
		}
		return answer(r, q)
	}
}

// of is what answers about the one that the path names.
func of[T any](named func(*request) (T, error), answer func(*request, *query, T) (any, error)) func(*request, *query) (any, error) {
	return func(r *request, q *query) (any, error) {
		it, err := named(r)
		if err != nil {
			return nil, err
		}
		return answer(r, q, it)
	}
}

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

	get("blocks", takes(descending, params{"block.number": isBlockNumber, "timestamp": isTime}, listBlocks))
	get("blocks/{hashOrNumber}", takes(single, nil, getBlock))

	get("contracts/results", takes(descending, resultParams, listResults))
	get("contracts/results/logs", takes(descending, logParams, listLogs))
	get("contracts/results/{transactionIdOrHash}", takes(single, params{"hbar": isFlag, "nonce": isExactCount}, getResult))
	get("contracts/results/{transactionIdOrHash}/actions", takes(ascending, params{"index": func(op operator, v string) bool { return op != ne && isCount(op, v) }}, listActions))
	get("contracts/results/{transactionIdOrHash}/opcodes", takes(single, params{"memory": isFlag, "stack": isFlag, "storage": isFlag}, listOpcodes))
	get("contracts", takes(descending, params{"contract.id": isParty}, listContracts))
	get("contracts/{contractIdOrAddress}", takes(single, params{"timestamp": isTime}, of((*request).contractArg, getContract)))
	get("contracts/{contractIdOrAddress}/results", takes(descending, resultParams, listContractResults))
	get("contracts/{contractIdOrAddress}/results/logs", takes(descending, contractLogParams, listContractLogs))
	get("contracts/{contractIdOrAddress}/results/{timestamp}", takes(single, params{"hbar": isFlag}, getResultAt))
	get("contracts/{contractIdOrAddress}/state", takes(ascending, params{"slot": isSlot, "timestamp": isTime}, listState))
	rs.add(http.MethodPost, base[1:]+"contracts/call", callContract)

	get("accounts", takes(ascending, params{
		"account.balance":   isCount,
		"account.id":        isParty,
		"account.publickey": isPublicKey,
		"balance":           isFlag,
	}, listAccounts))
	get("accounts/{idOrAliasOrEvmAddress}", takes(descending, params{
		"timestamp":       isTime,
		"transactions":    isFlag,
		"transactiontype": isTransactionType,
	}, getAccount))
	get("balances", takes(descending, params{
		"account.balance":   isCount,
		"account.id":        isParty,
		"account.publickey": isPublicKey,
		"timestamp":         isTime,
	}, listBalances))
	get("transactions", takes(descending, params{
		"account.id":      isEntity,
		"result":          oneOf("success", "fail"),
		"timestamp":       isTime,
		"transactiontype": isTransactionType,
		"type":            oneOf("credit", "debit"),
	}, listTransactions))
	get("transactions/{transactionIdOrHash}", takes(single, params{"nonce": isExactCount, "scheduled": isFlag}, getTransaction))

	get("network/exchangerate", takes(single, params{"timestamp": isTime}, getExchangeRate))
	get("network/fees", takes(single, params{"timestamp": isTime, "order": oneOf("asc", "desc")}, getFees))
	get("network/nodes", takes(ascending, params{
		"file.id": func(op operator, v string) bool { return op == eq && isEntity(op, v) },
		"node.id": isCount,
	}, listNodes))
	get("network/registered-nodes", emptyList("registered_nodes", "registerednode.id", "type"))
	get("network/stake", takes(single, nil, getStake))
	get("network/supply", takes(single, params{"timestamp": isTime, "q": oneOf("totalcoins", "circulating")}, getSupply))

	const account = "accounts/{idOrAliasOrEvmAddress}/"
	get(account+"airdrops/outstanding", takes(ascending, params{"receiver.id": isParty, "serialnumber": isCount, "token.id": isParty}, listOutstandingAirdrops))
	get(account+"airdrops/pending", takes(ascending, params{"sender.id": isParty, "serialnumber": isCount, "token.id": isParty}, listPendingAirdrops))
	get(account+"allowances/crypto", takes(descending, params{"spender.id": isParty}, of((*request).accountArg, listCryptoAllowances)))
	get(account+"allowances/nfts", takes(ascending, params{"account.id": isParty, "owner": isFlag, "token.id": isParty}, of((*request).accountArg, listNFTAllowances)))
	get(account+"allowances/tokens", takes(descending, params{"spender.id": isParty, "token.id": isParty}, of((*request).accountArg, listTokenAllowances)))
	get(account+"hooks", emptyListOfAccount("hooks", "hook.id"))
	get(account+"nfts", takes(descending, params{"serialnumber": isCount, "spender.id": isParty, "token.id": isParty}, of((*request).accountArg, listAccountNFTs)))
	get(account+"rewards", emptyListOfAccount("rewards", "timestamp"))
	get(account+"tokens", takes(ascending, params{"token.id": isParty}, of((*request).accountArg, listRelationships)))
	get("tokens", takes(ascending, params{
		"account.id": isParty, "name": isText, "publickey": isPublicKey, "token.id": isParty,
		"type": oneOf("all", fungible, nonFungible),
	}, listTokens))
	get("tokens/{tokenId}", takes(single, params{"timestamp": isTime}, getToken))
	get("tokens/{tokenId}/balances", takes(descending, params{
		"account.balance": isCount, "account.id": isParty, "account.publickey": isPublicKey, "timestamp": isTime,
	}, listHolders))
	get("tokens/{tokenId}/nfts", takes(descending, params{"account.id": isParty, "serialnumber": isCount}, of((*request).tokenNumber, listTokenNFTs)))
	get("tokens/{tokenId}/nfts/{serialNumber}", getNFT)
	get("tokens/{tokenId}/nfts/{serialNumber}/transactions", takes(descending, params{"timestamp": isTime}, of((*request).nftArg, listNFTTransactions)))

	get("schedules", takes(ascending, params{"account.id": isEntity, "schedule.id": isEntity}, listSchedules))
	get("schedules/{scheduleId}", getSchedule)
	get("topics/messages/{timestamp}", getMessageAt)
	get("topics/{topicId}", getTopic)
	get("topics/{topicId}/messages", takes(ascending, params{
		"encoding": oneOf("base64", "utf-8"), "sequencenumber": isCount, "timestamp": isTime,
	}, of((*request).topicArg, listMessages)))
	get("topics/{topicId}/messages/{sequenceNumber}", getMessage)

	rs.add(http.MethodGet, "devnet/consensus", takes(single, params{"since": isExactCount, "limit": isExactCount}, listConsensus))
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
	return takes(ascending, allowed, func(*request, *query) (any, error) {
		return object{name: []any{}, "links": links{}}, nil
	})
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
