// Package ethchain is the transaction manager's driver for any Ethereum JSON-RPC endpoint, or
// for several of one chain with failover.
//
// An endpoint that does not answer rests for a moment that doubles with each failure, and
// the next one is asked. Only failures of transport count; what a node says about a nonce
// or a fee is an answer. Questions whose parts must fit together, as a head and the receipts
// below it, go to one endpoint.
//
// # Words
//
//	endpoint  one URL, called by its number in texts, since a URL may hold a key
//	rest      the time in which an endpoint is asked only if no other is left
package ethchain
