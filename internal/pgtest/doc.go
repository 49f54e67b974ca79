// Package pgtest runs real PostgreSQL servers for tests. Each listens on a free port of the
// loopback interface, keeps its cluster in a temporary directory and ends with the test. A
// server can be killed, paused and started again on the same port and cluster. Pooled puts a
// pgbouncer in transaction mode before it.
//
// PostgreSQL refuses to run as root; there its programs run as the user postgres, or nobody.
// The programs must be installed; a test that needs them fails without them, rather than pass
// for nothing.
//
// # Words
//
//	database cluster  the files of a server, as PostgreSQL calls them
package pgtest
