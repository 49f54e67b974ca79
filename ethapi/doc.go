// Package ethapi is what clients call: the table of JSON-RPC methods, and one file
// per family of them. A method reads from the mirror node, builds Ethereum's objects
// out of what it finds, and answers with an object, null or an *eth.Error.
//
//	methods.go   the table: name, parameter rules, handler
//	state.go     balances, nonces, code and storage at a block
//	block.go     blocks and what is counted in them
//	tx.go        transactions; receipt.go their receipts; build.go how both are made
//	call.go      simulation: eth_call and eth_estimateGas
//	fee.go       gas prices
//	logs.go      event queries; filter.go the stateful ones
//	constant.go  what is the same for every caller, and what cannot be had
//	errors.go    the one place that turns failures below into errors for clients
//
// # Where Hedera differs from Ethereum
//
// Blocks are final, so the tags latest, pending, safe and finalized name the same
// block. Gas has one price for all: it is the base fee of a block, there are no tips,
// and an offer above it is not charged. Accounts have an address made from their
// number, the long-zero address, and often an alias that Ethereum clients know them
// by; results show the alias. Token transfers that were not made by contract calls
// still leave events: the transactions shown for them are synthetic, made from the
// events alone.
//
// A block's hash is the first 32 bytes of Hedera's own 48 and cannot be recomputed
// from the header. The roots of transactions and receipts are those of the objects
// shown.
package ethapi
