//go:build race

package lock

// slowdown is how many times fewer senders a test has under the race detector, which makes a burst so slow
// on a busy machine that the process itself stands still for longer than its heartbeat may.
const slowdown = 4
