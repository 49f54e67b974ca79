package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/outage"
	"lockstep/internal/relay/capacity"
)

// upstream is one of the mirror nodes.
type upstream struct {
	name string // host and port, for logs and metrics: a path may hold a key
	rest *address
	web3 *address      // may be the same
	head atomic.Uint64 // the highest block that any of its answers named
	latencies
}

// address is where one of the two interfaces of a mirror node is.
type address struct {
	base string // …/api/v1/, as the next
	breaker
	slots  *slots // of the host, which both interfaces may share
	outage *outage.Log
}

// Service is one of the two interfaces of a mirror node.
type Service int

// The interfaces.
const (
	// REST tells the present and the past.
	REST Service = iota
	// Web3 simulates calls and replays transactions.
	Web3
)

func (s Service) String() string { return [...]string{"rest", "web3"}[s] }

func (u *upstream) address(s Service) *address {
	if s == Web3 {
		return u.web3
	}
	return u.rest
}

// knows notes that the mirror node has a block.
func (u *upstream) knows(number uint64) { raise(&u.head, number) }

// raise makes a number at least as high as another.
func raise(n *atomic.Uint64, to uint64) {
	for {
		now := n.Load()
		if to <= now || n.CompareAndSwap(now, to) {
			return
		}
	}
}

// maxUpstreams bounds the list: each is asked for its newest block every second.
const maxUpstreams = 16

// upstreams reads the addresses. There is one web3 address for each mirror node, in the same order, or one for
// all, or none.
func (c *Config) upstreams() ([]*upstream, error) {
	rests, err := baseURLs(c.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("MIRROR_NODE_URL: %w", err)
	}
	if len(rests) == 0 {
		return nil, errors.New("MIRROR_NODE_URL is not set; it says where the mirror node is, such as https://testnet.mirrornode.hedera.com")
	}
	web3s, err := baseURLs(c.Web3URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("MIRROR_NODE_URL_WEB3: %w", err)
	}
	if n := len(web3s); n > 1 && n != len(rests) {
		return nil, fmt.Errorf("MIRROR_NODE_URL_WEB3: want one URL, or one for each of the %d of MIRROR_NODE_URL", len(rests))
	}
	addresses, hosts := make(map[string]*address), make(map[string]*slots)
	open := func(u *url.URL) *address {
		base := u.String() + APIPrefix
		if hosts[u.Host] == nil {
			hosts[u.Host] = newSlots(c.MaxSockets)
		}
		if addresses[base] == nil {
			addresses[base] = &address{base: base, breaker: breaker{limit: c.BreakerFailures, pause: c.BreakerPause.Duration()}, slots: hosts[u.Host]}
		}
		return addresses[base]
	}
	names := make(map[string]int)
	all := make([]*upstream, len(rests))
	for i, u := range rests {
		up := &upstream{name: u.Host, rest: open(u), web3: open(u)}
		if names[u.Host]++; names[u.Host] > 1 {
			up.name = fmt.Sprintf("%s#%d", u.Host, names[u.Host])
		}
		if len(web3s) > 0 {
			up.web3 = open(web3s[min(i, len(web3s)-1)])
		}
		all[i] = up
	}
	return all, nil
}

// logOutages logs the loss of an address, and its return.
func logOutages(all []*upstream, log *slog.Logger) {
	add := func(a *address, name, consequence string, several bool) {
		if a.outage != nil {
			return // several mirror nodes share it
		}
		a.outage = &outage.Log{Logger: log, Upstream: "mirror", Name: name, Level: slog.LevelError, Consequence: consequence}
		if several {
			a.outage.Level, a.outage.Consequence = slog.LevelWarn, "other mirror nodes are asked in its place"
		}
	}
	for _, u := range all {
		add(u.rest, u.name, "reads fail, and so do transactions that need them", len(all) > 1)
	}
	for _, u := range all {
		add(u.web3, u.name+" (web3)", "calls and estimates fail", len(all) > 1 && u.web3 != all[0].web3)
	}
}

func baseURLs(text string) (all []*url.URL, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		u, err := baseURL(item)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	if len(all) > maxUpstreams {
		return nil, fmt.Errorf("more than %d URLs", maxUpstreams)
	}
	return all, nil
}

// A breaker stops requests to an address that does not answer.
//
//	closed     every request goes through
//	open       after so many failures in a row: none does, for a pause
//	half-open  when the pause is over: one does. If it fails the next pause is longer.
//
// Any success closes it, also of a request that began before it opened. A failure of a request that began before
// the last success says nothing of the time since: after a hang, requests still run out of time when all is well.
type breaker struct {
	limit int           // failures that open it; 0: it never opens
	pause time.Duration // the first one

	mu       sync.Mutex
	failures int       // guarded by mu; in a row
	since    time.Time // guarded by mu; of the first of them
	well     time.Time // guarded by mu; of the last success
	until    time.Time // guarded by mu; no request before that while it is open
	last     error     // guarded by mu; the newest failure
	asked    time.Time // guarded by mu; the address wants no request before
	refusal  error     // guarded by mu; the answer that said so
}

// breakerState is the state of a breaker, as its metric shows it.
type breakerState int

const (
	stateClosed breakerState = iota
	stateHalfOpen
	stateOpen
)

// longestPause bounds a later pause, in doublings of the first.
const longestPause = 4

// enter asks to make a request. If none may go through, the error is what went wrong last.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.asked) {
		return b.refusal
	}
	if b.closed() {
		return nil
	}
	if now.Before(b.until) {
		return b.last
	}
	b.until = now.Add(b.length()) // this request is the try; others wait for its result
	return nil
}

// healthy tells whether a request would go through without being a try.
func (b *breaker) healthy(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed() && !now.Before(b.asked)
}

// closed is called with mu held.
func (b *breaker) closed() bool { return b.limit == 0 || b.failures < b.limit }

// length is called with mu held.
func (b *breaker) length() time.Duration {
	return jitter(b.pause << min(max(b.failures-b.limit, 0), longestPause))
}

func (b *breaker) succeeded(now time.Time) {
	b.mu.Lock()
	b.failures, b.last, b.well = 0, nil, now
	b.mu.Unlock()
}

// blink is how long failures in a row do not count as an outage yet while the breaker is closed.
const blink = 2 * time.Second

// failed notes the failure of a request that began then, and tells whether the address is out: the breaker is
// open, or nothing but failures came for longer than a blink.
func (b *breaker) failed(began, now time.Time, err error) (out bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if began.Before(b.well) {
		return false
	}
	if b.failures == 0 {
		b.since = now
	}
	b.failures++
	b.last = err
	if b.closed() {
		return now.Sub(b.since) > blink
	}
	b.until = now.Add(b.length())
	return true
}

// throttled notes that the address wants no requests for a while.
func (b *breaker) throttled(until time.Time, refusal error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until.After(b.asked) {
		b.asked, b.refusal = until, refusal
	}
}

// resumes returns when the address may be asked again after it throttled, and whether nothing else stops requests
// to it.
func (b *breaker) resumes() (at time.Time, well bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked, b.closed()
}

func (b *breaker) state(now time.Time) breakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed() && !now.Before(b.asked):
		return stateClosed
	case now.Before(b.until) || now.Before(b.asked):
		return stateOpen
	default:
		return stateHalfOpen
	}
}

// UpstreamStatus is the state of a mirror node, as far as requests have shown it.
type UpstreamStatus struct {
	Name string // host and port
	Head uint64 // the highest block that it named; 0: none yet
	Err  error  // why one of its addresses takes no requests; nil if all do
}

// Upstreams returns the state of each mirror node, in the order of MIRROR_NODE_URL.
func (f *Fetcher) Upstreams() []UpstreamStatus {
	now := time.Now()
	all := make([]UpstreamStatus, len(f.upstreams))
	for i, u := range f.upstreams {
		all[i] = UpstreamStatus{Name: u.name, Head: u.head.Load()}
		for _, d := range []*address{u.rest, u.web3} {
			if err := d.trouble(now); err != nil {
				all[i].Err = err
			}
		}
	}
	return all
}

// trouble returns what stops requests to an address: its last failure, or its own wish; nil if nothing does.
func (b *breaker) trouble(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.closed():
		return b.last
	case now.Before(b.asked):
		return b.refusal
	}
	return nil
}

// retryBudget bounds repetitions to a share of the requests, because many repetitions would make an outage worse.
// Every request puts its share in; every repetition, change to another mirror node and hedge takes one out.
type retryBudget struct {
	share float64

	mu    sync.Mutex
	spent float64 // guarded by mu; of the reserve
}

// reserve is how many repetitions a quiet relay may spend at once.
const reserve = 20

func (b *retryBudget) deposit() {
	b.mu.Lock()
	b.spent = max(b.spent-b.share, 0)
	b.mu.Unlock()
}

// take tells whether there is enough for a repetition.
func (b *retryBudget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.share == 0 || b.spent+1 > reserve {
		return false
	}
	b.spent++
	return true
}

// errNoSlot says that as many requests as are allowed are under way at a mirror node, and that none of them ended in
// time. The cause is in this process, not in the mirror node.
var errNoSlot = errors.New("too many requests to the mirror node at once")

// slots bounds the requests that are under way at one host. A request takes a slot before its time begins, so that
// waiting for a slot does not look like a mirror node that does not answer.
//
// A tenth of the slots is for sends alone: slow reads, such as simulations of long calls, may take all others for as
// long as they like, and a transaction is checked all the same. Among the reads each client has its fair share: one
// client alone leaves a quarter of the slots to others, and of those that wait goes first who has had least.
type slots struct {
	reads    *capacity.Permits // the order in which reads come to a slot for everybody
	open     chan struct{}     // has a token for each request in a slot for everybody
	reserved chan struct{}     // the same, of the slots for sends
}

// slot is that of one request, until free.
type slot struct {
	token  chan struct{}    // where its token is to be taken out again
	permit *capacity.Permit // nil: of a send
}

// reservedShare is the part of the slots that is for sends, and othersShare the part of the rest that one client leaves
// to other clients: one in so many.
const (
	reservedShare = 10
	othersShare   = 4
)

// newSlots makes slots for so many requests. At least one is for everybody.
func newSlots(number int) *slots {
	reserved := min((number+reservedShare-1)/reservedShare, number-1)
	open := number - reserved
	return &slots{
		reads: capacity.NewPermits(open, open-open/othersShare),
		open:  make(chan struct{}, open), reserved: make(chan struct{}, reserved),
	}
}

// take waits for a slot until the context ends. Of the sends who waits first has the next slot.
func (p *slots) take(ctx context.Context, c class) (got slot, waited bool, err error) {
	reserved := p.reserved
	if c != classSend {
		reserved = nil
		if got.permit, err = p.reads.Enter(ctx, capacity.FromContext(ctx), 1, false); err != nil {
			return slot{}, true, err
		}
		waited = got.permit.Waited()
	}
	for _, token := range []chan struct{}{p.open, reserved} {
		select {
		case token <- struct{}{}:
			got.token = token
			return got, waited, nil
		default:
		}
	}
	select {
	case p.open <- struct{}{}:
		got.token = p.open
	case reserved <- struct{}{}:
		got.token = reserved
	case <-ctx.Done():
		got.permit.Leave()
		return slot{}, true, ctx.Err()
	}
	return got, true, nil
}

// free gives a slot back.
func (p slot) free() {
	<-p.token
	p.permit.Leave()
}

// class is what a request to a mirror node is for.
type class int

const (
	classRead class = iota // an answer for a client
	classSend              // the submission of a transaction
)

func (c class) String() string { return [...]string{"read", "send"}[c] }

type classKey struct{}

// ForSend says that what is read under a context is for the submission of a transaction. Slots are reserved for such
// requests, and they do not wait for the same read of somebody else.
func ForSend(ctx context.Context) context.Context {
	return context.WithValue(ctx, classKey{}, classSend)
}

func classOf(ctx context.Context) class {
	c, _ := ctx.Value(classKey{}).(class)
	return c
}

// slot waits for a slot at a mirror node, as long as a request may take. A probe is like a send: whether a mirror
// node answers must be known when it is most asked.
func (f *Fetcher) slot(ctx context.Context, d *address, q Request) (slot, error) {
	c := classOf(ctx)
	if q.probe {
		c = classSend
	}
	timed, cancel := context.WithTimeoutCause(ctx, f.config.Timeout.Duration(), errNoSlot)
	defer cancel()
	got, waited, err := d.slots.take(timed, c)
	if waited {
		f.metrics.waited.WithLabelValues(c.String()).Inc()
	}
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil:
		return slot{}, ctx.Err()
	default:
		return slot{}, f.unanswered(ctx, errNoSlot)
	}
}
