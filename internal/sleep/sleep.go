// Package sleep lets time pass between two tries or two looks, and ends early when nobody waits any more.
//
// # Words
//
//	pause  the time between two tries, or between two looks
package sleep

import (
	"context"
	"time"
)

// For waits for d, or until the context ends if that comes first. It returns false if the context has ended. With a d
// of 0 or less it does not wait.
func For(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
