// Package secret keeps keys and tokens out of logs, error texts and dumps of the
// configuration: a String shows itself only to Reveal.
//
// # Words
//
//	reveal  to give the text itself; everything else shows that there is one
//	token   a random text that its owner shows, and of which only the hash is kept
package secret

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"strings"
)

const mask = "**********"

// String is text that must not be shown. Every way of printing or encoding it
// gives a mask; the empty String gives nothing, so that "not set" can be seen.
type String string

// Reveal returns the text itself, for the one place that needs it.
func (s String) Reveal() string { return string(s) }

// String returns the mask.
func (s String) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString returns the mask for %#v.
func (s String) GoString() string { return s.String() }

// MarshalText returns the mask, also for JSON.
func (s String) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes the text as it is.
func (s *String) UnmarshalText(text []byte) error {
	*s = String(text)
	return nil
}

// LogValue returns the mask for log/slog.
func (s String) LogValue() slog.Value { return slog.StringValue(s.String()) }

// OfFile returns what a file holds, without the space around it, or, if that is nothing, what is given otherwise.
func OfFile(file String, otherwise string) string {
	return cmp.Or(strings.TrimSpace(file.Reveal()), otherwise)
}

// Hash is the SHA-256 of a token. It may be kept where the token must not.
type Hash [sha256.Size]byte

// NewToken makes a token that nobody can guess: the prefix, and 32 random bytes as text.
func NewToken(prefix string) String {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	return String(prefix + base64.RawURLEncoding.EncodeToString(random))
}

// HashOf returns the hash of a token. It is good for tokens of NewToken alone: words that people choose can be guessed.
func HashOf(token string) Hash { return sha256.Sum256([]byte(token)) }
