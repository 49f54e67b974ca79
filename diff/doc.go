// Package diff sends the same JSON-RPC requests to two relays and reports where their
// answers differ. It is for those who move from one relay to another, or to another
// version, and want to know beforehand what their clients will notice.
//
//	summary, err := diff.Run(ctx, diff.Config{A: diff.Endpoint{URL: old}, B: diff.Endpoint{URL: new}}, file, os.Stdout)
//
// # Requests
//
// A line of the input is a request object, a batch (an array of them), or in short
// {"method": …, "params": […]}, which gets its version and id here. In the form of
// execution-apis' test files a line ">> …" is sent as it stands, valid or not, and
// "<< …" is passed over. Empty lines and those that start with # or // are comments.
// [Generate] writes such a file from what a relay has on its chain.
//
// Requests that change something (eth_sendRawTransaction and its like) are left out
// unless Config.Writes says otherwise: the second relay could only refuse what the
// first one has sent.
//
// # What is compared
//
// The HTTP status and the answer, value by value: the order of an object's keys and
// white space mean nothing, the spelling of strings and numbers does. The answers of a
// batch are matched by id. A path names a difference:
//
//	result.transactions[3].gasPrice: "0x1" != "0x2"
//	result.size: only a has it: "0x3e8"
//	error.message: "nonce too low" != "Nonce too low"
//	status: 200 != 400
//
// An answer that is not JSON differs from one that is. A request that got no answer
// from one of the two, or one over the size limit, could not be compared: that is
// trouble, not a difference.
//
// # What is not
//
// "[Request ID: …] " in front of a message. What Config.Ignore names: METHOD:PATH or
// PATH alone, where * stands for any part and [*] for any index, as in
// eth_getBlock*:result.transactions[*].v. What Config.Shape names in the same way is
// compared by its JSON type only; so are, always, the version of the client and ids of
// new filters.
//
// With Config.Pin both relays are asked for their head first and "latest" in parameters
// becomes the lower of the two, so that blocks that come meanwhile make no difference;
// the results of eth_blockNumber are then compared by type.
//
// # Bounds
//
// Only the two URLs are contacted: redirects are not followed, proxies not used. At
// most Config.Concurrency requests are under way, each with two answers of up to
// Config.MaxAnswer bytes; nothing but the tally outlives a request. Headers and URLs,
// which may hold credentials, are never printed.
//
// # Words
//
//	a, b     the two relays
//	path     where in an answer a difference is
//	shape    the JSON type of a value, without its content
//	pin      to ask both relays for one block where clients say latest
//	trouble  a request that could not be compared
package diff
