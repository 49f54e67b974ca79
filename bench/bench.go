package bench

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/sleep"
)

const (
	// partialBudget bounds what a stopped run may still ask the chain.
	partialBudget = 10 * time.Second
	partialQuiet  = 2 * time.Second
)

// Run measures the target.
//
// The end of ctx is not an error: what was measured until then is reported, marked
// partial, within seconds. An error means that the configuration is wrong, or that the target
// could not be used at all.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	r, err := open(ctx, cfg.withDefaults())
	if err == nil {
		defer r.state.close()
		err = r.measure(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return Report{}, fmt.Errorf("bench: %w", err)
	}
	r.report.Partial = r.report.Partial || ctx.Err() != nil
	return r.report, nil
}

// run is one measurement.
type run struct {
	Config
	state  *client
	log    *consensusLog // nil without one
	fees   fees
	report Report

	senders  []*sender
	txs      []transfer
	block    uint64     // the latest one before the load
	nonces   []uint64   // the latest seen of each sender
	receipts []*receipt // by transaction
}

// open reads what a run is made of.
func open(ctx context.Context, cfg Config) (r *run, err error) {
	others := slices.DeleteFunc(slices.Clone(cfg.URLs), func(url string) bool { return url == cfg.StateURL })
	r = &run{
		Config: cfg, state: newClient(append([]string{cfg.StateURL}, others...)),
		senders: deriveSenders(cfg.Funder, cfg.Seed, cfg.Senders),
		report: Report{Started: time.Now().UTC(), Planned: cfg.Senders * cfg.Count, Load: LoadShape{
			Senders: cfg.Senders, Count: cfg.Count, SpacingMS: millis(cfg.Spacing), Sticky: cfg.Sticky, ShuffleWindow: cfg.ShuffleWindow, Seed: cfg.Seed,
		}},
	}
	for _, u := range cfg.URLs {
		r.report.Hosts = append(r.report.Hosts, hostOf(u))
	}
	if r.fees, err = readFees(ctx, r.state); err != nil {
		return r, err
	}
	r.report.ChainID = r.fees.chainID
	if cfg.ConsensusLog != "" {
		r.log, err = newConsensusLog(cfg.ConsensusLog)
	}
	return r, err
}

// measure funds, signs, sends and asks the chain.
func (r *run) measure(ctx context.Context) error {
	if err := r.fund(ctx); err != nil {
		return fmt.Errorf("fund: %w", err)
	}
	err := each(ctx, len(r.senders), func(ctx context.Context, i int) (err error) {
		r.senders[i].start, err = r.state.nonce(ctx, r.senders[i].addr)
		return err
	})
	if err != nil {
		return err
	}
	if err := r.sign(ctx); err != nil {
		return err
	}
	if err := r.mark(ctx); err != nil {
		return err
	}
	plan := schedule(r.Config)
	links, err := openLinks(ctx, r.Config, plan)
	defer func() { closeLinks(links) }()
	if err != nil {
		return err
	}
	if r.Before != nil {
		if err := r.Before(ctx); err != nil {
			return err
		}
	}
	r.send(ctx, plan, links)
	if r.After != nil {
		if err := r.After(ctx); err != nil {
			return err
		}
	}
	closeLinks(links)
	r.conclude(ctx)
	return nil
}

// mark remembers where the chain is before the load.
func (r *run) mark(ctx context.Context) error {
	if r.log != nil {
		_, err := r.log.follow(ctx, func(logEntry) {})
		return err
	}
	number, err := r.state.quantity(ctx, "eth_blockNumber")
	if err == nil {
		r.block = number.Uint64()
	}
	return err
}

// conclude asks the chain about the load. What was measured stays worth reporting if the
// chain cannot be asked, so a failure goes into the report.
func (r *run) conclude(ctx context.Context) {
	if ctx.Err() != nil {
		r.Settle = min(r.Settle, partialQuiet)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), partialBudget)
		defer cancel()
	}
	if chain, err := r.verify(ctx); err != nil {
		r.report.ChainError = err.Error()
	} else {
		r.report.Chain = &chain
	}
}

// fees is what every transaction of a run offers.
type fees struct {
	chainID *big.Int
	cap     *big.Int // maxFeePerGas, weibar
	tip     *big.Int // maxPriorityFeePerGas, weibar; Hedera ignores it
}

// readFees asks the target for its chain and price.
func readFees(ctx context.Context, state *client) (fees, error) {
	chainID, err := state.quantity(ctx, "eth_chainId")
	if err != nil {
		return fees{}, err
	}
	price, err := state.quantity(ctx, "eth_gasPrice")
	if err != nil {
		return fees{}, err
	}
	f := fees{chainID: chainID, cap: new(big.Int).Add(price, new(big.Int).Rsh(price, 2)), tip: new(big.Int)}
	// Not every relay has the method; without a tip every Hedera relay accepts too.
	tipCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if tip, err := state.quantity(tipCtx, "eth_maxPriorityFeePerGas"); err == nil && tip.Cmp(f.cap) <= 0 {
		f.tip = tip
	}
	return f, nil
}

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

// logf writes a line about what the run does. A terminal that cannot be written to is no reason to stop measuring.
func (c Config) logf(format string, args ...any) {
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

const (
	defaultHTTPConnections = 1024
	defaultWSConnections   = 8 // relays allow 10, and state is asked over one more
	// cancelGrace is how long a cancelled run waits for the answers on their way: they
	// make the partial report truer.
	cancelGrace = 2 * time.Second
	// callSize is more than the call of a transfer takes.
	callSize = 1 << 10
)

// openLinks connects to every URL of the target, before the clock starts.
func openLinks(ctx context.Context, c Config, plan []request) ([]link, error) {
	requests := make([]int, len(c.URLs))
	for _, r := range plan {
		requests[r.url]++
	}
	var links []link
	for i, raw := range c.URLs {
		u, err := parseURL(raw, targetSchemes...)
		if err != nil {
			return links, err
		}
		conns := c.Connections
		switch {
		case overWS(u) && conns == 0:
			conns = min(c.Senders, defaultWSConnections)
		case !overWS(u) && conns == 0:
			conns = max(1, min(defaultHTTPConnections, requests[i]))
		case !overWS(u):
			conns = max(1, min(conns, requests[i]))
		}
		l, err := dial(ctx, raw, linkOptions{conns: conns, largest: callSize, timeout: c.Timeout})
		if err != nil {
			return links, fmt.Errorf("connect to %s: %w", hostOf(raw), err)
		}
		links = append(links, l)
	}
	return links, nil
}

// send carries out plan and returns when every request has its answer, its time-out, or
// when ctx has ended and the answers on their way had their chance.
func (r *run) send(ctx context.Context, plan []request, links []link) {
	r.logf("sending %d transactions", r.report.Planned)
	runtime.GC() // the garbage of signing should not be collected while the clock runs

	var open sync.WaitGroup
	var lag Histogram
	start := time.Now()
	last, sent := start, 0
	for _, q := range plan {
		sleepUntil(ctx, start.Add(q.due))
		if ctx.Err() != nil {
			break
		}
		t := &r.txs[q.tx]
		id := uint64(q.tx) + 1
		x := &exchange{
			id: id, lane: q.sender,
			body: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"eth_sendRawTransaction","params":["0x%x"]}`, id, t.raw),
		}
		open.Add(1)
		x.done = func(rep reply) {
			t.answer(rep)
			t.took = rep.at.Sub(x.start)
			open.Done()
		}
		t.verdict = unanswered
		links[q.url].send(ctx, x)
		sent, last = sent+1, x.start
		lag.Record(x.start.Sub(start.Add(q.due)))
	}
	awaitAnswers(ctx, &open, links)
	r.report.count(r.txs, start)
	r.report.Sent, r.report.Lag, r.report.Partial = sent, &lag, sent < len(plan)
	r.report.OfferedTPS = rate(sent-1, last.Sub(start))
}

// answer judges what a target said of a transaction.
func (t *transfer) answer(rep reply) {
	t.at = rep.at
	var hash common.Hash
	switch {
	case rep.err != nil:
		t.class.message = transportClass(rep.err)
	case rep.Error != nil:
		t.verdict, t.class = refused, classKey{rep.Error.Code, normalise(rep.Error.Message)}
	case hash.UnmarshalJSON(rep.Result) != nil || hash != t.hash:
		t.class.message = "answered with something else than the hash"
	default:
		t.verdict = accepted
	}
}

// awaitAnswers returns when every request is answered. After the end of ctx it waits
// the grace and then drops the connections, which answers the rest.
func awaitAnswers(ctx context.Context, open *sync.WaitGroup, links []link) {
	all := make(chan struct{})
	go func() {
		open.Wait()
		close(all)
	}()
	select {
	case <-all:
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(cancelGrace)
	defer grace.Stop()
	select {
	case <-all:
		return
	case <-grace.C:
	}
	closeLinks(links)
	<-all
}

// sleepUntil waits for an instant precisely, or for the end of ctx less so.
func sleepUntil(ctx context.Context, at time.Time) {
	const imprecision = 2 * time.Millisecond
	sleep.For(ctx, time.Until(at)-imprecision)
	for ctx.Err() == nil {
		rest := time.Until(at)
		if rest <= 0 {
			return
		}
		nap(min(rest, imprecision))
	}
}

func closeLinks(links []link) {
	for _, l := range links {
		l.close()
	}
}
