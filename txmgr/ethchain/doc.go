// Package ethchain is the transaction manager's driver for any Ethereum JSON-RPC endpoint, or
// for several of one chain with failover.
//
// What an endpoint says of itself (a limit, a key, trouble behind it) has the next one asked; what it says about a nonce or a fee is an answer.
// Package internal/ethrpc draws that line. Questions whose parts must fit together, as a head and the receipts below it, go to
// one endpoint. A revert counts when a second endpoint does not contradict it, and a transaction that stays without a receipt at one endpoint is
// looked for at the others.
//
// # Fees
//
// One absurd answer must not set what the manager pays. The base fee is the median of what fee history, newest header and gas price
// say, and that is the median over all endpoints and the last answers. Tips are the median of blocks that have transactions, and no more than
// three times what the node itself suggests. The market names a cap: twenty times what the last hour cost.
//
// # Chains without a pool
//
// A relay of Hedera speaks JSON-RPC too, but behind it is no pool: a nonce that is not the next one is
// refused, and may be charged. With Config.NoPool one transaction of a signer is on its way, nothing is
// bumped, cancelled or filled, and what proves a transaction's fate is that its nonce was used. Bytes
// that may have left go to no second endpoint, and are offered again only when the nonce has not moved.
// A failed receipt counts if the nonce was used in its block; the network keeps records of refused
// transactions as well.
package ethchain
