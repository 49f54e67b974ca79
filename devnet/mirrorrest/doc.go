// Package mirrorrest serves the REST API of a mirror node over a devnet's ledger.
//
// A mirror node is the archive of a Hedera network: it follows the consensus nodes
// and answers what they do not, from an account's history to the result of a
// simulated contract call. This package speaks its API, version 0.160, so that a
// relay, an explorer or an SDK cannot tell the devnet from a network by its answers.
//
//	handler := mirrorrest.New(mirrorrest.Config{View: ledger.View, Log: log})
//	http.Serve(listener, handler)
//
// # What is served
//
// Below /api/v1/:
//
//	blocks, blocks/{hash or number}
//	accounts, accounts/{id, alias or address}, balances
//	contracts, contracts/{id or address}
//	contracts/results, contracts/{id}/results           executed results, newest first
//	contracts/results/{hash or transaction id}          one result, with logs and state changes
//	contracts/{id}/results/{timestamp}                  the same, found by its time
//	contracts/results/{…}/actions, …/opcodes            call tree, step by step replay
//	contracts/results/logs, contracts/{id}/results/logs
//	contracts/{id}/state                                storage, now or at a time
//	contracts/call                                      POST: call or estimate
//	transactions, transactions/{id or hash}
//	network/fees, exchangerate, nodes, supply, stake
//
// Tokens, NFTs, allowances, airdrops, schedules and topics have their endpoints as well. openapi_test.go holds the answers against the
// published description.
//
// Beside it, /health/liveness and /health/readiness answer probes, and
// /devnet/consensus?since=N lists the Ethereum transactions in the order in which
// consensus saw them, and /devnet/blocks?from=N&wait=MS answers as soon as there is a
// block of that number, so that a client can follow the chain without polling. No real
// mirror node has either.
//
// # Rules that hold everywhere
//
// Filters carry their comparison in front, as in timestamp=gte:1700000000.5; the
// same parameter may come up to 100 times. An unknown parameter or a value that
// does not parse is a 400 that names each of them. Lists hold 25 rows unless limit
// says otherwise, a maximum of 100; links.next is the path of the page behind, or null.
// A page that is not full is the last one.
//
// Timestamps are seconds.nanoseconds with all nine decimals. Integers are JSON
// numbers however large they are. Hashes of blocks and native transactions have 48
// bytes, and the first 32 of them find the same thing. Amounts and prices of
// contract results are tinybar, or weibar with hbar=false.
//
// A transaction that was refused before anything ran, for a wrong nonce for
// example, takes no place in its block: lists leave it out, its hash finds it. When
// a result has no function result to show, its status is 206.
//
// # Time
//
// The View of a request is the newest block this mirror node knows. Giving an older
// one than the ledger's newest imitates a mirror node that lags: nothing in an
// answer is then younger than that block. Historical questions are answered exactly
// for as long as the ledger keeps its history.
//
// # Forks
//
// A network that is a fork has an Origin, the mirror node of the other network. It answers what is asked
// of the time up to the fork point (origin.go). A list that goes on after it has the origin's rows and
// ours, and its links lead from one to the other.
//
// # Faults
//
// Config.Fault is asked about every request and may spoil its answer as real mirror
// nodes and the proxies in front of them do: absence for a while, throttling, errors,
// delay, silence, a connection that breaks before or within the answer, and a success
// that is no JSON.
//
// # Words
//
//	page             the rows of one answer of a list
//	list filter      a parameter that says which rows a list has
//	contract result  what became of a transaction that the EVM executed
//	contract action  one call of a call tree
//	origin           of a fork: the mirror node of the network that was forked
package mirrorrest
