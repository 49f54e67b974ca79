// Package app puts the relay together and runs it. wire.go is the map: every
// constructor call, in order of dependency, on one screen. app.go is its life:
// listen, run, and stop in the order in which nothing is lost:
//
//  1. report not ready, serve on for SHUTDOWN_DRAIN_DELAY_MS, and close each connection after its next answer
//  2. stop accepting, finish what clients wait for
//  3. wait for the verdict on every transaction that a node accepted
//  4. hand the senders' locks over, close connections
//
// Nothing below app starts a goroutine at construction, registers a metric or reads
// a setting by itself.
//
// # Words
//
//	wire       make all parts and tie them together; nothing runs yet
//	ready      able to take a transaction now: the listeners are open, and what it needs answers
//	drain      finish what was begun, and begin nothing
//	backstage  what runs until the last transaction has its verdict, after the listeners are closed
//	mirrorReceipts    the mirror node, when it is asked for the outcome of a transaction that no consensus node can tell
//	managed    of an account: the transaction manager gives out its nonces, so that raw transactions are refused
package app
