//go:build !race

package lock

const slowdown = 1
