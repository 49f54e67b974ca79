package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

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
