// Package hedera is the vocabulary of the Hedera network: entity ids, transaction
// ids, consensus timestamps, the two units of money, operator keys and the groups
// of response codes that decide what an outcome means.
//
// It knows nothing of Ethereum transactions, sockets or settings. Everything here
// is a value: safe to copy, compare and use from many goroutines.
//
// Units are types. Tinybar (10⁻⁸ ℏ) is what the network counts in; weibar (10⁻¹⁸ ℏ)
// is what Ethereum clients see. One tinybar is 10¹⁰ weibar. units.go is the only
// place that converts between the two.
//
// # Words
//
//	entity       an account, contract, token, file or schedule; its id is shard.realm.number
//	payer        the account that is charged for a transaction; the transaction's id begins with it
//	operator     see package internal/operator
//	valid start  the moment in a transaction id; the network takes it for 120 s from then on
//	status       a response code of the network, as in hapi
//	long-zero    of an address: made of the entity number, behind 12 zero bytes
package hedera
