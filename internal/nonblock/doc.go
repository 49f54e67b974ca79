// Package nonblock reads and writes connections of TCP by system calls that the Go
// scheduler is not told of.
//
// # Why
//
// The scheduler counts on every system call to block, and has a thread look, every 20 µs
// if need be, for calls from which it should take the processor away. The sockets of
// package net never block: who finds nothing to read waits in the poller. But a call that
// copies a long answer takes longer than 20 µs, and so does any on a busy machine. Then
// the thread keeps looking, takes processors away and has them given back: that alone was
// a sixth of a loaded relay's processor time.
//
// # Use
//
//	conn := nonblock.New(tcp)
//	n, err := conn.Read(p)
//	n, err = conn.WriteBoth(head, body)
//
// Deadlines and Close work as ever, and errors say the same as those of package net. What
// is different: one goroutine at a time may read, and one may write; and the collector
// waits for a call that has begun, so that one takes 256 KB at most.
//
// It is so on Linux. On other systems, and under the race detector, which has to see the
// calls, connections are what they are.
package nonblock
