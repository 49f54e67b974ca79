//go:build !race

package locksim_test

const usualSeeds, repeatedSeeds = 1800, 120
