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
//			Params:  []rpc.Param{rpc.Required(rpc.Address()), rpc.Optional(rpc.BlockParams())},
//			Handler: api.getBalance,
//		},
//		rpc.Method{
//			Name:   "eth_sendRawTransaction",
//			Params: []rpc.Param{rpc.Required(rpc.Hex())},
//			Enter:  api.enterRawTransaction,
//		},
//	)
//	dispatcher, err := rpc.NewDispatcher(config, table, rpc.Options{Logger: log, Metrics: metrics})
//	ws := rpc.NewWSServer(dispatcher)
//	web := rpc.NewHTTPServer(dispatcher, rpc.HTTPOptions{Upgrade: ws})
//
// There are three kinds of handlers. An Inline one never waits and runs where the
// request is read. A plain Handler may wait until its context ends, which is when its
// time is up, and then has to return. Alone in an HTTP request it runs where the request
// is read; otherwise in a goroutine of its own, and is answered for if it is late. Where
// its result is often known already, Ready spares it that. A two-phase one has an Enter
// that takes a place in line, called strictly in the order in which the calls stand in a
// batch or arrive on a WebSocket connection, and a Finish that does the work and may wait
// for the turn.
//
// Parameters, and the views of them that Value hands out, are valid until the handler
// returns.
//
// A two-phase call that is alone in a WebSocket message has no time-out: it is
// answered when its Finish returns, since what is in line still must not be reported
// as given up. While it waits it keeps its id, one of the connection's WS_MAX_IN_FLIGHT
// places and no buffer; a goroutine only if its Finish is not Patient. If its connection
// ends first, it goes on without it.
//
// Results are json.RawMessage, an Appender, or whatever encoding/json takes.
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
// ProfileHiero speaks as established relays do, down to message texts, HTTP
// statuses and close codes. ProfileEthereum speaks as Ethereum nodes do, with the texts
// of go-ethereum where it has the case: libraries go by them. Codes are the same. Some
// methods are refused inside batches in ProfileHiero alone. Both keep the id of a call
// in every answer, refuse ids that are not scalars with -32600, and refuse params that
// are not an array with -32602.
//
// # Bounds
//
// Bodies are bounded before and after decompression, batches by item count,
// nesting by depth; an oversized batch is never executed in part. A WebSocket
// connection has a bounded number of messages in progress, beyond which it is not
// read, and a bounded queue of answers. Labels and rate-limit keys never hold
// method names that are not in the table.
//
// # Notifications
//
// A method that was called over WebSocket finds its connection in the Request
// (FromContext) and may send notifications to it at any time: Notify never blocks,
// and shares the bytes of a result with all other connections that get it. To be
// sure that none overtakes the answer with the subscription's id, the handler
// returns an *Answer, whose Sent is called when the answer is queued.
//
// What waits for one client is bounded (WS_NOTIFICATION_BUFFER_LIMIT). A client that
// falls further behind is closed with 1008 and what waited for it is dropped; it
// should connect and subscribe again, and look up what it missed. No other client
// notices. A client that takes in nothing at all is cut off after the write time-out.
//
// An idle connection costs one goroutine and a buffer of 512 bytes, about 15 KB with
// everything: frames are written by a goroutine that exists only while there are
// some, and larger buffers belong to messages, not to connections.
//
// # WebSocket close codes
//
//	1001  the server stops; the answers that were ready in time were sent before
//	1007  a text message was not UTF-8
//	1008  the client reads its notifications too slowly
//	1009  a message was over the size limit
//	4001  too many connections from one address
//	4002  nothing went over the connection for too long
//	4003  too many connections
//
// Codes of 4001 and up are preceded by a text frame that says the same as a
// JSON-RPC error. Answers that find no room make their connection wait, up to the
// write time-out; a client that takes in nothing at all for so long is cut off
// without a close code, for which there is no room either.
//
// # Running
//
// HTTPServer.Run and WSServer.Run serve on a listener until their context
// ends, then stop accepting, let work in progress finish for the drain time-out,
// and return.
//
// The requests that clients send all day, a POST with a short head and a body of known
// length, do not pass through net/http: internal/plainhttp reads and answers them for less
// than half of what net/http alone costs. At anything else, also what is malformed, slow or
// an upgrade, a connection goes to net/http and stays there. Both come to the same code
// (Dispatcher.serve), and a test holds their answers against each other. ServeHTTP is the
// way through net/http alone.
package rpc
