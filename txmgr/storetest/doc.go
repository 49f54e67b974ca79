// Package storetest is the contract of a transaction manager's store as tests. Every store
// passes it: SQLite in memory, SQLite in a file, PostgreSQL.
//
// # Words
//
//	store  what keeps the manager's ledger: a txmgr.Store
package storetest
