// Package envx holds the types that settings are read into when the plain Go
// types read the established spellings wrong: durations whose bare numbers are
// milliseconds, and lists that may be JSON arrays.
//
// Each type implements encoding.TextUnmarshaler, which is all the loader asks for,
// and encoding.TextMarshaler, so that a configuration prints as it may be written.
package envx

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Millis is a duration setting. A bare integer is milliseconds, as every
// established *_MS name expects; "1.5s" and "2m" work too. It is never negative.
type Millis time.Duration

// Duration converts to the standard type.
func (m Millis) Duration() time.Duration { return time.Duration(m) }

// UnmarshalText reads an integer number of milliseconds or a Go duration.
func (m *Millis) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	d, err := time.ParseDuration(s)
	if n, numErr := strconv.ParseInt(s, 10, 64); numErr == nil {
		if n > int64(time.Duration(1<<63-1)/time.Millisecond) {
			return fmt.Errorf("%q is too long a time", s)
		}
		d, err = time.Duration(n)*time.Millisecond, nil
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration: want milliseconds, or a number with a unit such as 1.5s", s)
	}
	*m = Millis(d)
	return nil
}

// MarshalText writes whole milliseconds, or a Go duration when there is a rest.
func (m Millis) MarshalText() ([]byte, error) {
	if d := time.Duration(m); d%time.Millisecond != 0 {
		return []byte(d.String()), nil
	}
	return strconv.AppendInt(nil, time.Duration(m).Milliseconds(), 10), nil
}

// Strings is a list setting: a JSON array of strings or numbers, or words
// separated by commas. Empty text is the empty list.
type Strings []string

// UnmarshalText reads either form.
func (l *Strings) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if !strings.HasPrefix(s, "[") {
		*l = nil
		for word := range strings.SplitSeq(s, ",") {
			if word = strings.TrimSpace(word); word != "" {
				*l = append(*l, word)
			}
		}
		return nil
	}
	var items []any
	decoder := json.NewDecoder(strings.NewReader(s))
	decoder.UseNumber()
	if err := decoder.Decode(&items); err != nil {
		return fmt.Errorf("%q is not a JSON array", s)
	}
	*l = make(Strings, 0, len(items))
	for _, item := range items {
		switch v := item.(type) {
		case string:
			*l = append(*l, v)
		case json.Number:
			*l = append(*l, v.String())
		default:
			return fmt.Errorf("%q holds something that is neither text nor number", s)
		}
	}
	return nil
}

// MarshalText writes the words separated by commas.
func (l Strings) MarshalText() ([]byte, error) { return []byte(strings.Join(l, ",")), nil }

// ChainID is a chain id setting, decimal or 0x-hexadecimal.
type ChainID uint64

// UnmarshalText reads either form.
func (c *ChainID) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%q is not a chain id: want a positive number, decimal or 0x-hexadecimal", s)
	}
	*c = ChainID(n)
	return nil
}

// MarshalText writes 0x-hexadecimal.
func (c ChainID) MarshalText() ([]byte, error) { return []byte(c.Hex()), nil }

// Hex returns the 0x form that JSON-RPC uses.
func (c ChainID) Hex() string { return "0x" + strconv.FormatUint(uint64(c), 16) }
