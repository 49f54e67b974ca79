// Package fetch sends requests to mirror nodes and reads their answers. It knows HTTP, which mirror node to ask,
// and how much memory may be held; package mirror knows what to ask for and what the answers mean.
//
// # Use
//
//	fetcher, err := fetch.New(config, fetch.Deps{Log: log, Newest: readNewest, Forget: forget})
//	go fetcher.Run(ctx)
//	value, err := fetcher.Do(ctx, fetch.Request{Label: "blocks", Path: "blocks?limit=1"}, read)
//
// All requests are reads, simulated calls included, so that each may be made twice. A 404 to a GET is
// ErrNotFound if its body is a mirror node's; a 404 of a gateway is an answer that cannot be read, also to a call. Anything else that goes wrong is an *Error with the upstream's status, or with a status made here:
// 504 when no answer came in time, 502 when the answer cannot be read, 567 when there was no HTTP answer at all.
// When the caller gave up, the context's own error is returned as it is.
//
// # Which mirror node is asked
//
// It is the first of the list that answers, is not far behind another, and has the head floor. The others stand
// by. Run asks each for its newest block in every interval.
//
//   - The breaker of an address opens after some failures in a row; nothing is asked of it for a
//     pause that grows with each try. This holds for a single mirror node, too: requests fail at
//     once, with what was wrong with it last. Run probes it twice in every interval, so that it
//     is used again within a second of its recovery.
//   - One that says Retry-After is not asked for that time, a minute as a maximum; after a 429 without
//     it, not for half a second. If all that are well have said so, up to a thousand requests wait until the first
//     may be asked, each as long as one request may take; other requests fail at once.
//   - A request that a mirror node failed goes to the next one at once.
//   - With HedgeDelay, a request that takes longer than most of its kind is made again; the first
//     answer counts. What is longer than most is measured on the recent answers.
//   - Repetitions, changes of the mirror node and hedges have a budget in proportion to all
//     requests, so that an outage is not made worse.
//
// # Answers do not go back in time
//
// If no mirror node has the head floor, a request waits for the nearest one, for up to CatchUp; then it fails
// with status 503, because a list could silently lack something. Differences between mirror nodes behind one
// address cannot be seen from here.
//
// # Bounds
//
// An answer is read into memory whole before it is decoded. MaxBody bounds each, MaxBodies all that are being
// read, and the holding of a request (package capacity) what that request may hold. An answer that does not fit
// fails, and this does not count against the mirror node.
//
// # Connections
//
// MaxSockets bounds the requests that are under way at one host; others wait, as long as one request may take. A
// tenth of these slots is for the submission of transactions (ForSend) and for probes, so that slow reads cannot
// keep them waiting.
//
// # Words
//
//	upstream       see package internal/outage; here one of the mirror nodes of MIRROR_NODE_URL
//	interface      what an upstream offers, REST or Web3; each has an address
//	breaker        what keeps requests from an address that does not answer
//	probe          a request for the newest block, for which no caller waits
//	hedge          the same request made a second time because the first one is slow
//	head floor     the highest block that any answer told of; no later answer comes from an upstream without it
//	chain reset    the head floor's block is gone for ever, or another block has its number, as when a test network
//	               starts again
//	upstream slot  the right of a request to be under way at a host
//	class          what a request is for: a read of a client, or a send; a probe counts as a send
//	flight         one read that several callers wait for
//	retry budget   how many repetitions there may be for so many requests
package fetch
