//go:build !race

package locksim_test

const usualSeeds, repeatedSeeds = 1200, 120
