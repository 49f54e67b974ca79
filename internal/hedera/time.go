package hedera

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Timestamp is an instant in consensus time, with nanosecond precision.
type Timestamp struct {
	Seconds int64
	Nanos   int32 // 0 … 999,999,999
}

// TimestampOf converts a time of this process.
func TimestampOf(t time.Time) Timestamp {
	return Timestamp{Seconds: t.Unix(), Nanos: int32(t.Nanosecond())}
}

// FromNanos converts nanoseconds since the Unix epoch.
func FromNanos(ns int64) Timestamp {
	return Timestamp{Seconds: ns / 1e9, Nanos: int32(ns % 1e9)}
}

// UnixNano returns nanoseconds since the Unix epoch.
func (t Timestamp) UnixNano() int64 { return t.Seconds*1e9 + int64(t.Nanos) }

// Time converts to UTC.
func (t Timestamp) Time() time.Time { return time.Unix(t.Seconds, int64(t.Nanos)).UTC() }

// IsZero tells whether the timestamp is unset.
func (t Timestamp) IsZero() bool { return t == Timestamp{} }

// Compare orders timestamps: -1, 0 or +1.
func (t Timestamp) Compare(u Timestamp) int {
	if c := cmp.Compare(t.Seconds, u.Seconds); c != 0 {
		return c
	}
	return cmp.Compare(t.Nanos, u.Nanos)
}

// String returns seconds.nanos with all nine decimals, as the mirror node writes it.
func (t Timestamp) String() string {
	return strconv.FormatInt(t.Seconds, 10) + "." + nineDigits(t.Nanos)
}

// ParseTimestamp reads seconds[.fraction]. A short fraction is padded on the
// right, so that "1.5" is one and a half seconds.
func ParseTimestamp(text string) (Timestamp, error) {
	whole, fraction, dotted := strings.Cut(text, ".")
	seconds, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || len(fraction) > 9 || dotted && fraction == "" {
		return Timestamp{}, errTimestamp(text)
	}
	if !dotted {
		return Timestamp{Seconds: int64(seconds)}, nil
	}
	nanos, err := strconv.ParseUint(fraction+strings.Repeat("0", 9-len(fraction)), 10, 31)
	if err != nil {
		return Timestamp{}, errTimestamp(text)
	}
	return Timestamp{Seconds: int64(seconds), Nanos: int32(nanos)}, nil
}

// errTimestamp copies the text, so that who reads one does not allocate it for this.
func errTimestamp(text string) error {
	return fmt.Errorf("timestamp %q: want seconds.nanos", strings.Clone(text))
}

func nineDigits(nanos int32) string {
	s := strconv.FormatInt(int64(nanos), 10)
	return "000000000"[min(len(s), 9):] + s
}
