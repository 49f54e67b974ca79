// Package redistest runs real Redis servers for tests: one server, a cluster of three, with replicas
// or without, or a Sentinel with a master and a replica. Each listens on a free port of the loopback
// interface, keeps its files in a temporary directory and ends with the test.
//
// Servers can be killed, stopped, paused and started again on the same port, which is
// how tests ask what happens when Redis goes away.
//
// The redis-server program (7.0 or newer) must be installed; a test that needs it fails
// without it, rather than pass for nothing.
//
// # Words
//
//	Redis Cluster  three servers that share the keys
//	stopped        of a server: the process is stopped, so that it answers nothing and its connections live
package redistest
