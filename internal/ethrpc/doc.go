// Package ethrpc asks the Ethereum endpoints of one chain, and says of every answer whether it is about the call or about
// the endpoint that gave it.
//
// A caller wants the balance of an account, and the first of two URLs says "daily request count exceeded". That says nothing
// of the account: the second URL is asked, and the first rests. Had it said "execution reverted", that would be about
// the call, and no other URL would know better. Nodes, balancers and providers say either in the same form, often with the same code,
// so what an answer means is one table (class.go) over texts as they were recorded, and nothing else in this program compares them.
//
//	client, err := ethrpc.New(ethrpc.Config{ChainID: 1, URLs: urls, Log: log})
//	var balance hexutil.Big
//	q := ethrpc.Ask(&balance, "eth_getBalance", account, "latest")
//	endpoint, err := client.Do(ctx, q) // err: no endpoint gave an answer that is about the call
//	found, err := q.Answer()           // its result, or what it said of the call
//
// # One endpoint for what belongs together
//
// Calls that are given to Do together are answered by one endpoint, in their order, so that a head that is asked first is no newer
// than the receipts behind it. They travel as a batch. Providers cap batches at 3, 10 or 100 calls, or take none; what an endpoint takes is
// found by halving, remembered, and costs no setting. A null is the endpoint's answer like any other: what it proves depends on the
// endpoint's head, which only the caller knows to ask.
//
// # Rest
//
// An endpoint that failed is asked last, for a time that doubles with each failure up to half a minute. One that limits us, refuses our
// key, or serves another chain is not asked at all while it rests; a Retry-After of up to five minutes is honoured. The log has one line when
// it is lost and one when it is back. A state or block that an endpoint does not have is no failure: another is asked, and this one
// comes last for a quarter of a second.
//
// # Silence
//
// A connection that is half-open takes questions and answers none, and the time of a call is long, since a query for logs may be. So while an
// endpoint leaves all its questions without an answer for three seconds, the next one is asked beside it, once a call, and the first good answer
// counts. From then on it is asked last, and a WebSocket is dialled anew for the next call, while those who wait on the silent one go on waiting.
// Nothing is hung up: the processor may be what is slow. If all others have failed, they and the silent one are asked once more. What the silent one answers in the end, or that
// it answers nothing in its time, counts for it as ever. Only reads are asked so, and those that belong together go to either
// endpoint together.
//
// # Heads
//
// Every few seconds the heads of all endpoints are compared, those that speak something else (Config.Others) among them. One that does not have what another showed three seconds ago lags: it is asked
// last, and its word counts only when nobody else answers.
//
// # One fork
//
// A caller that knows a block which cannot be replaced any more names it (Anchor). An endpoint that has another block in that place is refused like one of another chain, unless all have.
//
// # Bounds
//
// An answer has a maximum of bytes, an error's text 2 kB, a batch 100 calls, a call its time. A WebSocket that leaves one call without an
// answer is closed and dialled again. No URL is in an error or in the log, since it may hold a key; endpoints have numbers and
// hosts.
package ethrpc
