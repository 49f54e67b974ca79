package bench

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
)

// Limits that keep the memory of a run bounded whatever the flags say.
const (
	maxTransactions = 1 << 20
	maxSenders      = 100_000
	maxConnections  = 16_384
)

// Config says what to send, to whom and how often. The zero value of a field
// means its default.
type Config struct {
	// URLs receive the load: http, https, ws or wss; all of them serve the same chain. User
	// information in a URL becomes basic authentication; nothing but scheme and host is ever printed.
	URLs []string
	// StateURL answers everything that is not load: fees, nonces, balances,
	// receipts, and the funding transactions. Empty: the first of URLs.
	// If it breaks, the others of URLs answer instead.
	StateURL string
	// ConsensusLog is the address of a development network's mirror node, which tells the order in
	// which consensus saw transactions. Empty: the order is taken from receipts and blocks.
	ConsensusLog string

	Senders int // accounts that send; default 1
	Count   int // transactions of each sender, consecutive nonces; default 100

	// Spacing is the time between two transactions of one sender; 0 sends as fast as
	// the connections take them. Senders are staggered evenly inside it.
	Spacing time.Duration
	// Sticky keeps each sender on one of the URLs. Otherwise consecutive transactions of
	// a sender go to the URLs in turn.
	Sticky bool
	// ShuffleWindow sends the transactions of a sender out of nonce order inside
	// consecutive windows of this many; 0 or 1 keeps nonce order. The permutation
	// depends on Seed alone.
	ShuffleWindow int

	// Connections bounds the open connections per URL. Default over HTTP: one for
	// each transaction; the maximum is 1,024. Default over WebSocket: one for each
	// sender, with a maximum of 8; a sender stays on its connection.
	Connections int

	// Funder pays the senders before the clock starts, and gets back what they transfer. Without
	// one they must have enough already, and send to themselves.
	Funder *ecdsa.PrivateKey
	// Seed makes the sender keys and the shuffling reproducible; default "lockstep".
	Seed string

	// Timeout is how long one request may take; default 65 s.
	Timeout time.Duration
	// Settle is how long the chain may make no progress before what is missing
	// counts as lost; default 15 s.
	Settle time.Duration

	// Before is called when everything is signed and connected, right before the clock starts, and
	// After right after the last answer, before the chain is asked anything. An error ends Run.
	Before, After func(ctx context.Context) error

	// Progress receives a line about each step that may take a while; nil for nothing.
	Progress io.Writer
}

// ParseKey reads a funder key: 32 bytes of hex, with or without 0x. The error never
// contains the key.
func ParseKey(s string) (*ecdsa.PrivateKey, error) {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(s), "0x"))
	if err != nil {
		return nil, errors.New("bench: the key is not 32 bytes of hex for secp256k1")
	}
	return key, nil
}

// withDefaults returns a copy with every default filled in.
func (c Config) withDefaults() Config {
	c.Senders = cmp.Or(c.Senders, 1)
	c.Count = cmp.Or(c.Count, 100)
	c.ShuffleWindow = cmp.Or(c.ShuffleWindow, 1)
	c.Seed = cmp.Or(c.Seed, "lockstep")
	c.Timeout = cmp.Or(c.Timeout, 65*time.Second)
	c.Settle = cmp.Or(c.Settle, 15*time.Second)
	if c.StateURL == "" && len(c.URLs) > 0 {
		c.StateURL = c.URLs[0]
	}
	return c
}

// Validate reports everything that is wrong with c at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("bench: "+format, args...))
		}
	}
	checkURL := func(what, u string, schemes ...string) {
		if _, err := parseURL(u, schemes...); err != nil {
			errs = append(errs, fmt.Errorf("bench: %s: %w", what, err))
		}
	}
	check(len(c.URLs) > 0, "rpc: no URL")
	for i, u := range c.URLs {
		checkURL(fmt.Sprintf("rpc: URL %d", i+1), u, targetSchemes...)
	}
	if len(c.URLs) > 0 && c.StateURL != c.URLs[0] {
		checkURL("state URL", c.StateURL, targetSchemes...)
	}
	if c.ConsensusLog != "" {
		checkURL("consensus log", c.ConsensusLog, "http", "https")
	}
	check(c.Senders >= 1 && c.Senders <= maxSenders, "senders: want 1 to %d, have %d", maxSenders, c.Senders)
	check(c.Count >= 1, "count: want 1 or more, have %d", c.Count)
	check(c.ShuffleWindow >= 1, "shuffle window: want 0 or more, have %d", c.ShuffleWindow)
	check(c.Connections >= 0 && c.Connections <= maxConnections, "connections: want 0 to %d, have %d", maxConnections, c.Connections)
	check(min(c.Spacing, c.Timeout, c.Settle) >= 0, "a duration is negative")
	check(c.Senders < 1 || c.Count <= maxTransactions/c.Senders, "senders × count: want %d transactions at most", maxTransactions)
	return errors.Join(errs...)
}

// tell writes a line about what the run does. A terminal that cannot be written to is no reason to stop measuring.
func (c Config) tell(format string, args ...any) {
	if c.Progress != nil {
		_, _ = fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// targetSchemes are those of the URLs of relays.
var targetSchemes = []string{"http", "https", "ws", "wss"}

func overWS(u *url.URL) bool { return u.Scheme == "ws" || u.Scheme == "wss" }

// parseURL accepts absolute URLs of the given schemes. Its errors do not repeat the
// URL, which may carry a password or an access key.
func parseURL(s string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case !slices.Contains(schemes, u.Scheme):
		return nil, fmt.Errorf("want one of %s", strings.Join(schemes, ", "))
	case u.Hostname() == "":
		return nil, errors.New("no host")
	}
	return u, nil
}

// hostOf is what may be printed of a URL: hosted endpoints keep keys in the path.
func hostOf(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "?"
	}
	return u.Scheme + "://" + u.Host
}
