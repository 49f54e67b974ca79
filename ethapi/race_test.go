//go:build race

package ethapi

// raceDetector: the tests run slowly, and with a bounded number of goroutines.
const raceDetector = true
