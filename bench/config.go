package bench

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// Limits that keep the memory of a run bounded whatever the flags say.
const (
	maxRunBytes    = 512 << 20 // signed transactions and their bookkeeping
	bytesPerTx     = 320       // one plain transfer: raw bytes, hash, times
	maxSenders     = 100_000
	maxConnections = 16_384
	maxBatch       = 1_000
	maxRuns        = 1_000
)

// weibarPerTinybar is the smallest non-zero value a Hedera transaction can carry.
const weibarPerTinybar = 10_000_000_000

// A Target is one thing to measure: a relay, or several that serve the same chain.
type Target struct {
	// Name labels the target in the report. Empty: the hosts of URLs.
	Name string
	// URLs receive the load: http, https, ws or wss. User information in a URL
	// becomes basic authentication; nothing but scheme and host is ever printed.
	URLs []string
	// StateURL answers everything that is not load: fees, nonces, balances,
	// receipts, and the funding transactions. Empty: the first of URLs.
	// If it breaks, the others of URLs answer instead.
	StateURL string
	// ConsensusLog is the address of a network that tells the order in which
	// consensus saw transactions: GET <url>?since=N answers a page of entries
	// {sender, nonce, hash, node, status, time}, N being how many entries the
	// reader has. A URL without a path gets /devnet/consensus. Empty: the order is
	// taken from receipts and blocks.
	ConsensusLog string
}

// Config says what to send, to whom and how often. The zero value of a field
// means its default; amounts are weibar (10⁻¹⁸ ℏ, the wei of a Hedera relay).
type Config struct {
	Target
	// Compare is a second target. Runs of the two alternate, and the report gains
	// the ratios Target ÷ Compare of each pair of runs.
	Compare *Target

	Senders int // accounts that send; default 1
	Count   int // transactions of each sender in a run, consecutive nonces; default 100

	// Spacing is the time between two requests of one sender; 0 sends as fast as
	// the connections take them. Senders are staggered evenly inside it.
	Spacing time.Duration
	// Batch puts that many consecutive transactions of a sender into one JSON-RPC
	// batch; default 1, which sends no batches.
	Batch int
	// Sticky keeps each sender on one of the URLs. Otherwise consecutive requests of
	// a sender go to the URLs in turn.
	Sticky bool
	// ShuffleWindow sends the transactions of a sender out of nonce order inside
	// consecutive windows of this many; 0 or 1 keeps nonce order. The permutation
	// depends on Seed alone.
	ShuffleWindow int

	// Connections bounds the open connections per URL. Default over HTTP: one for
	// each request of the run; the maximum is 1,024. Default over WebSocket: one for each
	// sender, with a maximum of 8; a sender stays on its connection.
	Connections int
	// ConnPerRequest closes an HTTP connection after one request, as a client
	// without keep-alive does. Default: connections are reused.
	ConnPerRequest bool

	// To is the recipient; default the funder, or without one the sender itself.
	To *common.Address
	// Value is what each transaction transfers; default 1 tinybar.
	Value *big.Int
	// Data is the call data of each transaction; default none.
	Data []byte
	// Gas is the gas limit; default 21,000 for a plain transfer to the default
	// recipient, otherwise the target's estimate plus a fifth.
	Gas uint64
	// FeeCap is maxFeePerGas; default the target's eth_gasPrice plus a quarter.
	FeeCap *big.Int

	// Funder pays the senders before the clock starts. Without one they must have
	// enough already.
	Funder *ecdsa.PrivateKey
	// Seed makes the sender keys and the shuffling reproducible; default "lockstep".
	Seed string
	// FreshSenders uses other senders in every run, so that what one run left
	// behind in a relay cannot touch the next. It costs the funding of each.
	FreshSenders bool

	// Timeout is how long one request may take; default 65 s.
	Timeout time.Duration
	// Settle is how long the chain may make no progress before what is missing
	// counts as lost; default 15 s.
	Settle time.Duration
	// FundTimeout bounds the wait for one funding round; default 60 s.
	FundTimeout time.Duration

	Runs  int           // default 1
	Pause time.Duration // between runs; default none

	// Before is called in each run when everything is signed and connected, right before
	// the clock starts, and After right after the last answer, before the chain is asked
	// anything. Run 0 is the first; target is 0, or 1 for Compare. An error ends Run.
	Before, After func(ctx context.Context, target, run int) error

	// JSON makes Run write the Report as JSON instead of text.
	JSON bool
	// Progress receives a progress bar if it is a terminal, and elsewhere what the run waits for; nil for nothing.
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
	def(&c.Senders, 1)
	def(&c.Count, 100)
	def(&c.Batch, 1)
	def(&c.ShuffleWindow, 1)
	def(&c.Seed, "lockstep")
	def(&c.Timeout, 65*time.Second)
	def(&c.Settle, 15*time.Second)
	def(&c.FundTimeout, 60*time.Second)
	def(&c.Runs, 1)
	if c.Value == nil {
		c.Value = big.NewInt(weibarPerTinybar)
	}
	if c.To == nil && c.Funder != nil {
		to := crypto.PubkeyToAddress(c.Funder.PublicKey)
		c.To = &to
		if c.Gas == 0 && len(c.Data) == 0 {
			c.Gas = 21_000
		}
	}
	if c.To == nil && c.Gas == 0 && len(c.Data) == 0 {
		c.Gas = 21_000
	}
	c.Target = c.Target.withDefaults()
	if c.Compare != nil {
		t := c.Compare.withDefaults()
		c.Compare = &t
	}
	return c
}

func (t Target) withDefaults() Target {
	if t.StateURL == "" && len(t.URLs) > 0 {
		t.StateURL = t.URLs[0]
	}
	if t.Name == "" {
		t.Name = strings.Join(hostsOf(t), "+")
	}
	return t
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
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
	errs = append(errs, c.Target.validate("rpc"))
	if c.Compare != nil {
		errs = append(errs, c.Compare.validate("compare"))
	}
	check(c.Senders >= 1 && c.Senders <= maxSenders, "senders: want 1 to %d, have %d", maxSenders, c.Senders)
	check(c.Count >= 1 && c.Count <= maxRunBytes/bytesPerTx, "count: want 1 or more, have %d", c.Count)
	check(c.Batch >= 1 && c.Batch <= maxBatch, "batch: want 1 to %d, have %d", maxBatch, c.Batch)
	check(c.Runs >= 1 && c.Runs <= maxRuns, "runs: want 1 to %d, have %d", maxRuns, c.Runs)
	check(c.ShuffleWindow >= 1, "shuffle window: want 0 or more, have %d", c.ShuffleWindow)
	check(c.Connections >= 0 && c.Connections <= maxConnections, "connections: want 0 to %d, have %d", maxConnections, c.Connections)
	check(c.Value.Sign() >= 0, "value: negative")
	check(c.FeeCap == nil || c.FeeCap.Sign() >= 0, "fee cap: negative")
	check(min(c.Spacing, c.Timeout, c.Settle, c.FundTimeout, c.Pause) >= 0, "a duration is negative")
	need := int64(c.Senders) * int64(c.Count) * int64(bytesPerTx+2*len(c.Data))
	check(need <= maxRunBytes, "senders × count needs %d MB in memory; the limit is %d MB", need>>20, maxRunBytes>>20)
	return errors.Join(errs...)
}

func (t Target) validate(flag string) error {
	var errs []error
	if len(t.URLs) == 0 {
		errs = append(errs, fmt.Errorf("bench: %s: no URL", flag))
	}
	check := func(what, u string) {
		if _, err := parseURL(u, targetSchemes...); err != nil {
			errs = append(errs, fmt.Errorf("bench: %s: %s: %w", flag, what, err))
		}
	}
	for i, u := range t.URLs {
		check(fmt.Sprintf("URL %d", i+1), u)
	}
	if len(t.URLs) > 0 && t.StateURL != t.URLs[0] {
		check("state URL", t.StateURL)
	}
	if t.ConsensusLog != "" {
		if _, err := parseURL(t.ConsensusLog, "http", "https"); err != nil {
			errs = append(errs, fmt.Errorf("bench: %s: consensus log: %w", flag, err))
		}
	}
	return errors.Join(errs...)
}

// targetSchemes are those of the URLs of relays.
var targetSchemes = []string{"http", "https", "ws", "wss"}

func overWS(u *url.URL) bool { return u.Scheme == "ws" || u.Scheme == "wss" }

// parseURL accepts absolute URLs of the given schemes. Its errors do not repeat the
// URL, which may carry a password or an access key.
func parseURL(s string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			if u.Hostname() == "" {
				return nil, errors.New("no host")
			}
			return u, nil
		}
	}
	return nil, fmt.Errorf("want one of %s", strings.Join(schemes, ", "))
}

// hostOf is what may be printed of a URL: hosted endpoints keep keys in the path.
func hostOf(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "?"
	}
	return u.Scheme + "://" + u.Host
}
