// Package ethchain is the transaction manager's driver for any Ethereum JSON-RPC endpoint, or
// for several of one chain with failover.
//
// An endpoint that does not answer rests for a moment that doubles with each failure, and
// the next one is asked. Only failures of transport count; what a node says about a nonce
// or a fee is an answer. Questions whose parts must fit together, as a head and the receipts
// below it, go to one endpoint.
//
// # Chains without a pool
//
// A relay of Hedera speaks JSON-RPC too, but behind it is no pool: a nonce that is not the next one is
// refused, and may be charged. With Config.NoPool one transaction of a signer is on its way, nothing is
// bumped, cancelled or filled, and what proves a transaction's fate is that its nonce was used. Bytes
// that may have left go to no second endpoint, and are offered again only when the nonce has not moved.
// A failed receipt counts if the nonce was used in its block; the network keeps records of refused
// transactions as well.
//
// # Words
//
//	RPC endpoint  see package watch/source; in texts it has a number, since a URL may hold a key
//	rest          see package internal/outage; an endpoint at rest is asked only if no other is left
package ethchain
