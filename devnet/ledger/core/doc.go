// Package core handles a transaction: it finds what the transaction is about, charges for it, has the service of its kind do
// it, and brings what that changed into the state, with a record.
//
// A service is the handler of one kind of transactions, and what a node finds wrong with them by itself. Services
// are in packages of their own, which fill [Network.Services]; core knows none of them. Whoever has to handle a transaction of any
// kind (a schedule, a contract's call of a system contract) asks [Handling.Serve].
//
// What accounts, contracts, tokens and topics have in common is here, too: how they are found, whose keys agree, memos, terms and
// stakes (entity.go).
package core
