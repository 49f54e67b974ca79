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
package hedera
