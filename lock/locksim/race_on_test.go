//go:build race

package locksim_test

// Under the race detector everything takes ten times as long.
const usualSeeds, repeatedSeeds = 120, 30
