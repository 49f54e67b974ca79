package secret

import (
	"log/slog"
	"strings"
)

// URL is a URL, or several of them separated by commas. Names, passwords, paths and queries
// may all hold a key, so printing and encoding it shows the scheme and the host alone.
type URL string

// Reveal returns the text itself.
func (u URL) Reveal() string { return string(u) }

// String returns the scheme and the host of each URL.
func (u URL) String() string {
	items := strings.Split(string(u), ",")
	for i, item := range items {
		items[i] = hostOnly(item)
	}
	return strings.Join(items, ",")
}

// hostOnly cuts a URL down to scheme://host:port. What is no URL is a mask.
func hostOnly(item string) string {
	text := strings.TrimSpace(item)
	if text == "" {
		return ""
	}
	scheme := ""
	if i := strings.Index(text, "://"); i >= 0 {
		scheme, text = text[:i+len("://")], text[i+len("://"):]
	}
	if end := strings.IndexAny(text, "/?#"); end >= 0 {
		text = text[:end]
	}
	host := text[strings.LastIndexByte(text, '@')+1:]
	if host == "" || strings.ContainsFunc(scheme+host, strange) {
		return mask
	}
	return scheme + host
}

// strange tells characters that are in no scheme and no host.
func strange(r rune) bool {
	plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !plain && !strings.ContainsRune("+-._:/[]", r)
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
