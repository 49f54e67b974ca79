package app

import "time"

// A machine that stands still for seconds is no upstream that does not answer.
func init() {
	announceTimeout, readyTimeout, versionTimeout = time.Minute, time.Minute, time.Minute
	balanceTimeout, costTimeout = time.Minute, time.Minute
}
