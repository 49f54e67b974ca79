package app

import (
	"time"
)

// A machine that stands still for seconds is no upstream that does not answer.
func init() {
	announceTimeout, readyTimeout, readyWait, versionTimeout = time.Minute, time.Minute, time.Minute, time.Minute
	balanceTimeout, costTimeout = time.Minute, time.Minute
	checkAgain = 20 * time.Millisecond // a test that wants a second look does not wait for it
}
