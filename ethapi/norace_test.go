//go:build !race

package ethapi

const raceDetector = false
