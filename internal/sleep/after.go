package sleep

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter is how long the header of that name asks a client to wait: seconds, also with a fraction as some servers
// write them, or a date. It is 0 if there is none that can be read, and never more than longest: whoever is asked to
// wait for a month has work to do.
func RetryAfter(header string, now time.Time, longest time.Duration) (wait time.Duration) {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.ParseFloat(header, 64); err == nil && seconds > 0 {
		wait = time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longest)
}
