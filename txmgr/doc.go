// Package txmgr sends transactions that the server signs, each exactly once, with a
// definite fate, however many callers, processes, crashes and bad answers there are.
//
// # How it works
//
// Callers hand over an intent. Every step is a row of the ledger before it is an act:
//
//	accept   intent, idempotency key and budget hold, in one transaction
//	assign   the owner of a signer gives the intent a slot: the next nonce
//	sign     outside of any transaction; a key may be far away
//	commit   every signed attempt is stored before a byte of it leaves
//	send     in nonce order; an answer that was lost leaves the attempt unknown
//	receipts every hash that was ever signed for a slot is asked for
//	settle   when the block is deep enough: budget, successors, final
//
// One process owns a signer (internal/lease). It first recovers, which means that it runs
// the same loop on what the ledger holds: a slot without attempts is signed, an attempt
// that may not have left is sent again with the same bytes. The loop keeps no state of its own
// between rounds, so that a restart, a takeover and an ordinary round are one path.
//
//	intent:   accepted → assigned → signed → broadcast ⇄ unknown → mined → confirmed | reverted
//	              │          │                     └ reorg: mined → broadcast, same bytes
//	              └ cancelled | expired | failed     └ dropped: a foreign transaction owns the slot → accepted again
//	attempt:  signed → sent | unknown | refused → replaced | mined
//
// # Rules
//
// An intent gets a second nonce only if no attempt of it was ever signed, or a foreign
// transaction is proven to own its slot for good, or the chain's driver proves that no
// attempt can ever execute. An unknown answer stays unknown until proof. Whoever cannot be
// sure of the ledger does not sign: a lost lease, a restored database, a chain that was
// reset all halt signing.
//
// # Words
//
// Chain: a driver and its traits. Signer: an account and key that we can sign with. Lane: one
// (chain, signer) with its nonces, the unit of ownership; a caller's own address is a lane
// without a key. Pool: a named set of signers. Intent: what a caller wants, once. Slot: one
// nonce of one lane. Attempt: one signed transaction for a slot. Reservation: a slot that a
// caller holds who signs for itself. Owner: the process that may assign and send, with a
// term. Fate: what became of an intent. Head of the line: a lane's lowest slot that is not
// consumed. Fill: a transaction to oneself that consumes a slot nobody else will.
package txmgr
