package envx

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Millis is a duration that may be written as a bare number of milliseconds
// ("250", "60_000") or with units as time.ParseDuration reads them ("1m30s").
type Millis time.Duration

// Duration returns the setting as a time.Duration.
func (m Millis) Duration() time.Duration { return time.Duration(m) }

// String returns the duration with units.
func (m Millis) String() string { return time.Duration(m).String() }

// MarshalText returns the text form with units.
func (m Millis) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads either form. A bare number may be negative, for settings
// that give that a meaning.
func (m *Millis) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64); err == nil {
		if n > math.MaxInt64/int64(time.Millisecond) || n < math.MinInt64/int64(time.Millisecond) {
			return fmt.Errorf("duration of %s ms is out of range", s)
		}
		*m = Millis(time.Duration(n) * time.Millisecond)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is neither a number of milliseconds nor a duration such as 1m30s", s)
	}
	*m = Millis(d)
	return nil
}
