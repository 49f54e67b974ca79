//go:build !race

package watch_test

const slowdown = 1
