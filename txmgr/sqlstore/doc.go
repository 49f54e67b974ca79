// Package sqlstore keeps the transaction manager's ledger in SQL: SQLite in a file or in
// memory, and PostgreSQL, with the same text.
//
// Each method of txmgr.Store is one transaction. It locks rows in one order, so that
// transactions wait for each other and do not block each other for ever: the lease's row
// (shared), the lane's row, slots, attempts, intents, budgets. It reads rows under these locks,
// changes them in Go and writes them back in one statement a table.
//
// # Words
//
//	era  the number of a chain's life; it grows when the chain is found reset, so that
//	     slots of the old chain never meet those of the new one
package sqlstore
