package bench

import (
	"syscall"
	"time"
)

// nap sleeps for a short time with the precision of the kernel. The timers of the Go
// runtime may be a millisecond late on an idle machine, which turns requests that should
// be a millisecond apart into pairs.
func nap(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&ts, nil) // a signal ends it early; the caller looks at the clock
}
