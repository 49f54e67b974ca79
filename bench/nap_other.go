//go:build !linux

package bench

import "time"

// nap sleeps for a short time.
func nap(d time.Duration) {
	<-time.After(d)
}
