// Package txpool knows the transactions on their way: those that this fleet of relays
// has taken and that are not executed yet, and for a while those that just were.
//
// It answers three questions that the mirror node, which lags behind the network,
// cannot: which nonce a sender should use next, what is pending, and whether an unknown
// hash is one that will soon be known.
//
// # Nonces
//
// A sender's confirmed nonce is the larger of what the mirror node says and what the
// network proved: a receipt of an executed transaction with nonce n proves n + 1. A
// proof is remembered for TXPOOL_EXECUTED_TTL_MS, is shared by the fleet and only ever
// rises. Nothing else counts as one: not a rejection, not a time that passed, not a
// transaction that vanished. The pending nonce is the first one, from the confirmed
// nonce on, that no pending transaction has: a transaction behind a gap does not raise
// it.
//
// # No zombies
//
// In this process an entry lives from Add to Done. In Redis it expires by itself
// unless the process that made it says again, in time, that it is still on its way:
// what a dead process left is gone after TXPOOL_ENTRY_TTL_MS. Nothing is purged by
// scanning.
//
// # In Redis
//
//	txpool:sender:{<address>}  sorted set: nonce, hash and process; score = when it expires, in ms
//	txpool:next:{<address>}    the proven nonce; expires
//	txpool:tx:<hash>           sender and raw transaction, or nothing if nobody may ask for it; expires
//	txpool:index               sorted set of all, with their senders; only for the txpool_* methods
//
// Addresses and hashes are 0x-hexadecimal in lower case. The braces make the first two
// share a slot of a cluster. A transaction costs seven Redis commands, most of them in
// round trips that many transactions share, and no transaction ever waits for one. When
// Redis fails, each relay knows its own transactions.
package txpool
