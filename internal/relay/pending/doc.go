// Package pending knows the transactions on their way: those that this fleet of relays
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
// Prechecks go by the proofs, too: a transaction whose nonce this process has seen executed is
// refused for free although the mirror node does not show it yet. That is always right: a spent
// nonce stays spent. They do not go by what is pending, since that may fail.
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
//	txpool:sender:{<address>}  sorted set: nonce, hash and process; score = when it expires, in ms,
//	                           and 2^50 more once it was executed
//	txpool:known               sorted set: the hashes that may be asked for; score = when they expire
//	txpool:tx:<hash>           sender and raw transaction, if somebody may ask for it; expires
//	txpool:index               sorted set of all, with their senders; only for the txpool_* methods
//
// Addresses and hashes in the names of keys are 0x-hexadecimal in lower case. An executed
// transaction is the proof of its nonce, until it expires. One command turns a pending transaction into
// a proof, so that it is always one of the two. Proofs have scores of their own, so that whoever wants to
// know the confirmed nonce reads the proofs alone, of which each process has a few.
//
// The whole transactions have a bound in bytes, and none is added while Redis is short of
// memory. One that is not there is known by its nonce and its hash all the same.
//
// # Promises
//
// In asynchronous mode a client gets the hash before any node has the transaction. Promises keeps the bytes
// where another relay finds them when this one dies:
//
//	promise:{fleet}:alive     sorted set: the processes that have promises; score = their last heartbeat
//	promise:{fleet}:of:<id>   hash: of one process, transaction hash to the end of the promise and the bytes
//
// The answer to the client waits until Redis has the bytes, for a maximum of TXPOOL_REDIS_TIMEOUT_MS; the transaction does not
// wait. A promise ends with the verdict on its transaction. A process that sends no heartbeat for
// PROMISES_DEAD_AFTER_MS is dead: one script moves its promises to a single other process, which goes on with them in the
// order of their nonces. A process that stops in order leaves what it could not send, and says so.
// One that stood still and was taken for dead goes on, too: the bytes are the same, so the network executes them once.
//
// What does not fit into PROMISES_MAX_BYTES and TXPOOL_MAX_ENTRIES, and what comes while Redis does not answer or is short
// of memory, is kept by its own process alone; metrics count it. What Redis did not take is told again with the next heartbeat.
//
// # What waits
//
// No transaction ever waits for Redis. What changes is told at once if nothing was told in the last
// 10 ms, else with all else that changes in these, in one round trip. What changes
// twice before it was told is told once. Two things may take 100 ms: that a transaction was executed while more
// of its sender are on their way; and that one is on its way where verdicts come within that time, so that it
// need not be told twice, unless clients are answered before the verdict. So a transaction that comes by itself
// costs one round trip to Redis on such a network and two on a slower one, and one in a burst far less than one.
// When Redis fails, each relay knows its own transactions.
//
// # Words
//
//	confirmed nonce  the next nonce after all that are known to be spent
//	proof            what shows that a nonce is spent: a receipt of an executed transaction
//	promise          a hash that a client was given before a node had the transaction
package pending
