// Package ethtx makes and reads Ethereum transactions for drivers of the transaction manager:
// addresses, transactions before and after their signature, and transactions that a caller
// signed. Every chain whose transactions have Ethereum's form shares it: Ethereum's own
// endpoints, and Hedera, which wraps them.
//
// # Words
//
//	form   how transactions of one chain look, and its chain id
//	draft  a transaction before its signature
//	raw    the bytes of a signed transaction
package ethtx
