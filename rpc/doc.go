// Package rpc serves JSON-RPC 2.0 over HTTP and WebSocket.
//
// # Methods
//
// A server is a table of methods, written out by hand, and a Dispatcher that runs
// calls against it:
//
//	table, err := rpc.NewRegistry(
//		rpc.Method{
//			Name: "eth_chainId", Inline: true, AnyParams: true,
//			Handler: func(context.Context, *rpc.Params) (any, error) { return chainID, nil },
//		},
//		rpc.Method{
//			Name:    "eth_getBalance",
//			Params:  []rpc.Param{rpc.Required(rpc.Text()), rpc.Optional(rpc.Text())},
//			Handler: api.getBalance,
//		},
//		rpc.Method{
//			Name:   "eth_sendRawTransaction",
//			Params: []rpc.Param{rpc.Required(rpc.Text())},
//			Enter:  api.enterRawTransaction,
//		},
//	)
//	dispatcher, err := rpc.NewDispatcher(config, table, rpc.Options{Logger: log, Metrics: metrics})
//	ws := rpc.NewWSServer(dispatcher)
//	web := rpc.NewHTTPServer(dispatcher, rpc.HTTPOptions{Upgrade: ws})
//
// There are three kinds of handlers. An Inline one never waits. A plain Handler may wait until its context ends
// at the time-out, and then has to return. A two-phase one has an Enter that takes a place in line, called strictly in the order in which the calls
// stand in a batch or arrive on a WebSocket connection, and a Finish that does the work and may wait for the
// turn.
//
// How a call runs is its mode. It follows from the handler and from how the call came:
//
//	mode      which calls                          runs where                 time-out        body kept
//	inline    Inline; the call was refused         where the request is read  none            no
//	direct    plain, alone in an HTTP request      where the request is read  the request's   yes
//	pooled    plain, in a batch or over WebSocket  one of a bounded number    the request's   yes
//	                                               of goroutines
//	ordered   two-phase, in a batch or over HTTP   a goroutine, when the      the request's   in batches
//	                                               turn comes
//	detached  two-phase, alone in a WebSocket      a goroutine, when the      none            no
//	          message                              turn comes
//
// At the time-out a direct call has to return by itself. A pooled or ordered one is answered at once by the server,
// whether it has returned or not. A call of one of these three modes with a Weight also waits for a permit of the heavy reads.
//
// Parameters, and the views of them that Value hands out, are valid until the handler
// returns.
//
// A two-phase call that is alone in a WebSocket message has no time-out: it is answered when its Finish returns,
// since a call that is still in line must not be reported as given up. While it waits it keeps its id, one of the
// connection's WS_MAX_IN_FLIGHT message slots and no buffer; it keeps a goroutine only if its Finish is not Patient. If
// the connection ends first, the call goes on without it.
//
// Results are json.RawMessage or whatever encoding/json takes.
// Parameters have been checked against the method's rules before a handler sees
// them; Value reads them without a decoder.
//
// # Errors
//
// An error with an ErrorCode() int method goes to the client with its text, and
// with what ErrorData() any returns; wrappers around it stay inside. The end of a
// context is -32010. Everything else, panics included, is -32603 and is logged
// with the request id.
//
// # Profiles
//
// ProfileHiero answers as hiero-json-rpc-relay does, down to message texts, HTTP statuses and close codes.
// ProfileEthereum answers as Ethereum nodes do, with the texts of go-ethereum where it has them, because
// libraries depend on them. Codes are the same. Some methods are refused inside batches in ProfileHiero alone.
// Both keep the id of a call in every answer, refuse ids that are not scalars with -32600, and refuse params that
// are not an array with -32602.
//
// # Bounds
//
// Bodies are bounded before and after decompression, batches by item count, nesting by depth; an oversized batch
// is never executed in part. A WebSocket connection has a bounded number of messages in progress, beyond which it
// is not read; a message is in progress until its answer is written. The memory of a request is counted (internal/relay/capacity), from the
// room for its body to the last bytes of its answer. What a call reads counts until its answer is encoded. An
// answer of known length counts before it is encoded, and the answers of a batch count until the last one is sent. A message of one call over
// WebSocket that waits has a goroutine that is not counted: WS_CONNECTION_LIMIT times WS_MAX_IN_FLIGHT bound
// these. Where memory is short fewer calls of a batch run at the same time; a call that would go over a limit is
// answered -32005, and the other calls of its batch go on. A body that is longer than any transaction waits for a permit to be parsed, so that many long
// ones do not delay short ones. Later messages on its connection wait behind it, so that the order of a client's
// transactions stays. Connections are bounded in all and per client (admission.go). Heavy methods (Method.Weight)
// wait for a permit. The clients that used least get theirs first. Labels and rate-limit keys never hold method
// names that are not in the table.
//
// # API keys
//
// A request or an upgrade request may bring an API key (internal/relay/apikey, keys.go). A key that is not known is refused
// before any call is read, with status 401; a missing one only if keys are required. Calls with a key have the
// key's methods and limits, and none of their address's. A WebSocket connection has the key that it was opened with; it
// ends when that key is revoked.
//
// # Notifications
//
// A method that was called over WebSocket finds its connection in the Request
// (FromContext) and may send notifications to it at any time: Notify never blocks,
// and shares the bytes of a result with all other connections that get it. To be
// sure that none overtakes the answer with the subscription's id, the handler
// returns an *Answer, whose Sent is called when the answer is queued.
//
// What waits for one connection is bounded (WS_NOTIFICATION_BUFFER_LIMIT). A client that falls further behind is
// closed with 1008 and what waited for it is dropped; it should connect and subscribe again, and look up what it
// missed. No other client notices. A client that reads nothing at all is cut off after the write time-out. What waits
// for all connections together has a limit, too, of which the shared bytes of an Event are a part once. Where it is reached
// the connections whose clients are waited for are ended.
//
// An idle connection costs one goroutine and a buffer of 512 bytes, about 9 KB of heap and stacks with
// everything: frames are written by a few goroutines of the server (wsqueue.go). One that the client does not take at once goes
// on in a goroutine of its own, so that it delays nobody else.
//
// # WebSocket close codes
//
//	1001  the server stops; the answers that were ready in time were sent before
//	1002  a frame was not what RFC 6455 allows
//	1007  a text message was not UTF-8
//	1008  the client reads its notifications too slowly, or its API key is not valid any more
//	1009  a message was over the size limit
//	1013  no memory for a message of this size now
//	4001  too many connections from one address
//	4002  nothing went over the connection for too long
//	4003  too many connections
//
// The server writes them after the frames that were queued before, but for 1002 and 1008. Codes of 4001 and up are preceded by a text frame that says the same as a JSON-RPC error. A client that reads nothing until the write time-out is
// cut off without a close code, since there is no room for one.
//
// # Running
//
// HTTPServer.Run and WSServer.Run serve on a listener until their context
// ends, then stop accepting, let work in progress finish for the drain time-out,
// and return.
//
// # Words
//
//	message       one JSON text of a client: a call, or a batch of calls
//	exchange      a message and its answers, from its first byte to its last
//	route         a method in the table, with its rules and counters
//	endpoint          how one transport treats requests: its methods and its batches
//	mode          how a call runs
//	first phase   Enter, which takes the place in line; the second phase is its Finish
//	fault         the error of a call as the client sees it
//	suspended     of a request whose only call waits for its turn: its body is not kept
//	message slot  the right of a WebSocket connection to have one more message in progress
//	send queue    the frames that wait for one WebSocket connection
//	shared event  what all who subscribed to the same are notified of, in the same bytes: an Event
//	notification  what a connection is sent without having asked at that moment; also a call without an id
//	admission     the limits of connections
//	holding       see package internal/relay/capacity; what a request holds of this process's memory
//	permit        see package internal/relay/capacity
//	heavy         of a method: it has a Weight, so its calls wait for a permit
package rpc
