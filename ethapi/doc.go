// Package ethapi has what clients call: the table of JSON-RPC methods, and one file per family of them. A method
// reads from the mirror node, builds Ethereum's objects out of what it finds, and answers with an object, null or
// an *eth.Error.
//
//	methods.go   the table: name, parameter rules, handler; what each method costs, what is the same for every caller, and
//	             what cannot be had. openrpc.json describes them all
//	send.go      raw transactions. app adds them to the table
//	state.go     balances, nonces, code and storage at a block
//	block.go     blocks and what is counted in them
//	tx.go        transactions and their receipts; build.go how both are made, and who a sender is
//	call.go      eth_call, eth_estimateGas, and what else takes a transaction object
//	simulate.go  what runs in this process, and eth_simulateV1
//	fee.go       gas prices
//	debug.go     traces of transactions, which trace.go and trace_opcodes.go make, and raw encodings
//	logs.go      event queries; filter.go the stateful ones
//	subscribe.go live subscriptions over WebSocket; subscribe_follow.go how new blocks get there
//	errors.go    the one place that turns failures below into errors for clients
//
// # Where Hedera differs from Ethereum
//
// Blocks are final, so the tags latest, pending, safe and finalized name the same block. Gas has one price for
// all, which is the base fee of a block. There are no tips, and an offer above it is not charged. Accounts have
// an address made from their number, the long-zero address, and often an alias that Ethereum clients use; results
// show the alias. Token transfers that were not made by contract calls still leave events: the transactions shown
// for them are synthetic, made from the events alone.
//
// A block's hash is the first 32 bytes of Hedera's own 48 and cannot be recomputed
// from the header. The roots of transactions and receipts are those of the objects
// shown. Profile hiero has other roots, and some members of objects, as the TypeScript
// relay shows them; docs/METHODS.md lists where the profiles differ.
//
// # Filters
//
// A filter tells every event, or block, once: a poll reads from the cursor to the head and then moves the cursor.
// Of several polls at the same time the first to move it answers with what it read, the others with nothing. That
// holds across the relays of a fleet when filters are kept in Redis (FILTER_REDIS_ENABLED), where each lives for
// FILTER_TTL after it was last used and FILTER_MAX_COUNT bounds all of them together. While Redis does not
// answer, the methods of filters fail with an error that says so. A poll that fails has told nothing and moved
// nothing, unless Redis moved the cursor, went away before its answer, and stayed away. A client that must not
// miss anything asks eth_getFilterLogs.
//
// # Simulations
//
// The mirror node runs eth_call and eth_estimateGas. The gas of authorizations is added to an estimate, because
// the mirror node does not count it. Calls in another block than the network's, debug_traceCall,
// eth_createAccessList and eth_simulateV1 run in this process, because the mirror node has none of them: package
// evm runs them on a state that it reads from the mirror node meanwhile. What package evm cannot run, mainly
// system contracts, is refused with an error that says so.
//
// # Live subscriptions
//
// eth_subscribe knows newHeads (with {"includeTransactions": true} for whole
// transactions), logs (addresses and topics, with null and alternatives),
// newPendingTransactions (with true for whole transactions) and syncing. The blocks
// of newHeads are those of eth_getBlockByNumber. Transactions are pending from the
// moment when a consensus node has accepted them from this relay until their block.
//
//	subs := ethapi.NewSubscriptions(api)
//	methods := append(api.Methods(), subs.Methods()...)
//	go subs.Run(ctx)
//
// For any number of clients and wishes, the mirror node is asked once per interval for blocks after the last one
// told, and once for the content of each. This package decides who gets which log. The mirror node is not asked
// while nobody wants blocks. A mirror node that can push is not polled at all.
//
// Every subscription gets every block, or every matching log, from its answer on: once, in order, also across
// failures of the mirror node, after which everything that was missed comes. Notifications never come before the
// answer with the id. Within a block, the header comes first and logs come in their order. Only a block that the
// mirror node lists, but whose contents it cannot give for minutes, is skipped, with an error in the log and a
// count in rpc_websocket_watch_skipped_blocks_total. Package rpc says what a slow client must expect.
//
// Order is per process: a client that was disconnected, or that comes back to another
// relay, looks up what it missed with eth_getLogs.
//
// # Words
//
//	tier            what a method costs, and so the limit of calls that it counts against
//	parameter rule  what a parameter may be
//	head            see package mirror
//	contents        the transactions and the events of a block
//	flat block      a raw block as the TypeScript relay writes it: header, transactions and lists in one list
//	synthetic       of a transaction: made from events alone, since no Ethereum transaction was there
//	override        the state, or the block, that a simulation is told to assume
//	log cursor      the block up to which a filter has been told
//	hub             what tells all subscriptions of new blocks
//	index           which subscriptions want a log, by one of its values
//	devnet          a development network, which has methods of its own and may go back in time
package ethapi
