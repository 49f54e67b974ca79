package secret

import (
	"log/slog"
	"strings"
)

// URL is a URL, or several of them separated by commas, that may hold names and
// passwords. Printing and encoding it masks those, and leaves the rest.
type URL string

// Reveal returns the text itself.
func (u URL) Reveal() string { return string(u) }

// String returns the text without what stands before the @ of each URL.
func (u URL) String() string {
	items := strings.Split(string(u), ",")
	for i, item := range items {
		items[i] = withoutUser(item)
	}
	return strings.Join(items, ",")
}

func withoutUser(item string) string {
	start := 0
	if i := strings.Index(item, "://"); i >= 0 {
		start = i + len("://")
	}
	host, _, _ := strings.Cut(item[start:], "/")
	at := strings.LastIndexByte(host, '@')
	if at < 0 {
		return item
	}
	return item[:start] + mask + item[start+at:]
}

// GoString returns the masked text for %#v.
func (u URL) GoString() string { return u.String() }

// MarshalText returns the masked text, also for JSON.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText takes the text as it is.
func (u *URL) UnmarshalText(text []byte) error {
	*u = URL(text)
	return nil
}

// LogValue returns the masked text for log/slog.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }
