// Package txmgr sends transactions that the server signs, each exactly once, with a
// definite fate, however many callers, processes, crashes and bad answers there are.
//
// # How it works
//
// Callers hand over an intent. Every step is a row of the ledger before it is an act:
//
//	accept   intent, idempotency key and budget hold, in one transaction
//	assign   the owner of a signer gives the intent a slot: the lowest free nonce, else the next
//	sign     outside of any transaction; a key may be far away
//	commit   every signed attempt is stored before a byte of it leaves
//	send     in nonce order; an answer that was lost leaves the attempt unknown
//	receipts every hash that was ever signed for a slot is asked for
//	settle   when the block is deep enough: budget, successors, final
//
// One process owns a signer (internal/lease), for a term. It needs no recovery of its own after it has taken the lease: the
// ordinary loop signs slots that have no attempt, and sends again, with the same bytes, what may not have left. The
// loop keeps nothing between rounds that the ledger needs, so that a restart, a takeover and an ordinary round are one path.
//
// Before bytes leave, their attempt is in the ledger, written under the owner's term, and the lease is trusted for longer than
// a send may take (offer). A process that stood still wakes with an old term and without trust: it stores and sends nothing
// more, and another one has gone on with the same bytes. A kill switch stops signing, not the resending of what is signed.
//
//	manager.go, admit.go  what callers ask for; reserve.go their nonces
//	run.go                which signers this process owns; lane.go one signer's round: what may be signed, and what gets a slot
//	sign.go               sign, commit, send; renew.go where what was signed expires
//	follow.go             receipts and proofs; stuck.go what is stuck: replace, cancel, fill
//	reconcile.go          the chain's nonce and identity against the ledger's; pool.go which signer an intent gets
//	store.go, chain.go    what the manager needs of a ledger (sqlstore) and of a chain (ethchain, hederachain, nearchain)
//
//	intent:   accepted → assigned → signed → broadcast ⇄ unknown → mined → confirmed | reverted
//	              │          │                     └ reorg: mined → broadcast, same bytes
//	              └ cancelled | expired | failed     └ dropped: a foreign transaction owns the slot → accepted again
//	attempt:  signed → sent | unknown | refused → replaced | mined
//
// # Rules
//
// An intent gets a second nonce only if no attempt of it was ever signed, or a foreign
// transaction is proven to own its slot finally, or the chain's driver proves that no
// attempt can ever execute. An unknown answer stays unknown until proof. Whoever cannot be
// sure of the ledger does not sign. A restored database and a chain that was reset halt a signer until an operator
// reconciles; a lost lease ends this process's part in it.
//
// # Words
//
//	chain              a driver and its traits
//	signer             an account and key that we can sign with
//	manager's lane     one (chain, signer) with its nonces, the unit of ownership; a caller's own address is one
//	                   without a key
//	signer pool        a named set of signers
//	intent             what a caller wants, once
//	nonce slot         one nonce of one lane
//	signed attempt     one signed transaction for a slot
//	nonce reservation  a slot that a caller holds who signs for itself
//	owner              the process that may assign and send; see package internal/lease
//	term               the number of an ownership; a write under an old one changes nothing; see package
//	                   internal/lease
//	ownership fence    a lease's name, owner and term, which each write of an owner carries; see package
//	                   internal/lease
//	fate               what became of an intent
//	head of the line   a lane's lowest slot that is not consumed
//	fill               a transaction to oneself that consumes a slot nobody else will
package txmgr
