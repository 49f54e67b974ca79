// Package upstream reads another Hedera network through its mirror node, so that a
// development network can be a fork of it: [state.Upstream].
//
//	mirror, err := upstream.Open(ctx, upstream.Config{URL: "https://testnet.mirrornode.hedera.com"})
//	point, err := mirror.Fork(accounts)     // for ledger.Config
//	mirror.Forward(ctx, request)            // for mirrorrest.Config: what happened before the fork
//
// # The fork point
//
// Fork point is the end of one block of the upstream: the newest one, or the one that Config
// names. Accounts, balances, nonces, code, storage and tokens are asked for at its
// time. A mirror node has no history of some facts, and these are the present ones: relations of
// accounts with tokens, NFTs and allowances.
//
// # Bounds
//
// There is one host, the one of Config, and redirects are not followed. Nothing but GET
// is sent, and the POST of a simulated call at a block before the fork. An
// answer has a maximum size, a request a maximum time with all its attempts, and there is a
// maximum of requests at once. What a busy mirror node refuses is asked for again a few times.
//
// # Words
//
//	forked network  the network that is forked, and its mirror node
//	fact            something that the forked network had at the fork point. It never changes. The ledger keeps
//	                facts while there is room
package upstream
