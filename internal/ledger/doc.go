// Package ledger opens the SQL database that the transaction manager and the event watchers
// write their state to, and gives it the same rules whichever database it is.
//
//	sqlite:lockstep.db     a file: WAL, one writer at a time, synchronous=FULL
//	memory:                SQLite in memory, for development; it ends with the process
//	postgres://…           PostgreSQL 13 or newer, also behind a transaction-mode pooler
//
// # Rules
//
// Committed means durable. A write transaction of PostgreSQL sets synchronous_commit itself,
// and Open refuses a server that runs without fsync. A commit whose answer was lost is an
// UncertainError: it may have been committed or not, and the caller reads before it goes on.
//
// Every answer has a limit. A transaction whose statement or commit PostgreSQL does not answer within half a minute fails with
// ErrNoAnswer, so that nobody waits for a server that died without a word.
//
// One clock. Every expiry is judged by Tx.Now, which is the database server's clock.
//
// No session state. Nothing depends on which connection a statement runs on: there are no
// session locks and no prepared statements that outlive a transaction. LISTEN has a connection
// of its own and carries hints alone (Notify).
//
// One text for both databases. Queries use $1, $2 … and the part of SQL that SQLite and
// PostgreSQL share. Tx.ForUpdate, ForShare and SkipLocked give the row locks of PostgreSQL
// and nothing on SQLite, where a write transaction is alone.
//
// # Words
//
//	schema     the migrations of one room, with a version table of its own
//	outbox     rows that a transaction leaves for readers of the stream
//	sequencer  what gives each outbox row its cursor, once its transaction has committed, so that
//	           cursors become visible in order; SQLite's only writer gives them itself
//	identity   what tells this database from an older copy of it (see Identity)
package ledger
