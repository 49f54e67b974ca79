//go:build !race

package locksim_test

const usualSeeds, repeatedSeeds = 3000, 120
