//go:build !linux

package lease

import "time"

// now returns the wall clock: what else goes on while a machine is suspended differs from
// system to system.
func now() time.Duration { return time.Duration(time.Now().UnixNano()) }
