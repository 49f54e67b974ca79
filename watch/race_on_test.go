//go:build race

package watch_test

// slowdown is how many times fewer contracts a test has under the race detector, where SQLite, which is Go here, is slow.
const slowdown = 10
