package plainhttp

import "time"

// deadline is one of a connection. Setting it costs a good part of what serving a request
// does, so one that is about right stays.
type deadline struct {
	set func(time.Time) error
	at  time.Time // zero: none
}

// atLeast lets the deadline be a time-out from now, or a little later: a second, and for
// short time-outs less.
func (d *deadline) atLeast(now time.Time, timeout time.Duration) {
	if timeout <= 0 {
		if !d.at.IsZero() {
			d.exactly(time.Time{})
		}
		return
	}
	soonest := now.Add(timeout)
	latest := soonest.Add(min(time.Second, timeout/16))
	if d.at.Before(soonest) || d.at.After(latest) {
		d.exactly(latest)
	}
}

// exactly sets the deadline. The error, if any, is that of a connection that is closed.
func (d *deadline) exactly(t time.Time) {
	d.at = t
	_ = d.set(t)
}
