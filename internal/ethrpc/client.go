package ethrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/outage"
)

// Config says which endpoints a Client asks.
type Config struct {
	ChainID uint64
	// URLs are of the form http, https, ws or wss, in the order in which they are asked.
	URLs []string
	// Timeout bounds each exchange; 0: 5 s.
	Timeout time.Duration
	// MaxResponse bounds the bytes of one answer; 0: 32 MB.
	MaxResponse int64
	// Log is told once when an endpoint is lost and once when it is back; nil: nobody is.
	Log *slog.Logger
	// Calls is told how many calls are about to be sent; may be nil.
	Calls func(n int)
	// Others are URLs, by their place in the list, that speak something else, for whoever asks them: they have a place in the order for
	// their head, and this is how it is asked for.
	Others map[int]func(context.Context) (uint64, error)

	transport func(u *url.URL) http.RoundTripper // in tests
}

// Client is one chain behind one or several endpoints. It is safe for concurrent use.
type Client struct {
	cfg       Config
	endpoints []*Endpoint
	compared  atomic.Int64 // when the heads were compared last
}

// errURL does not show the URL, which may hold a key.
var errURL = errors.New("an endpoint's URL is not of the form http://host, https://host, ws://host or wss://host")

// CheckURL tells whether an endpoint can have a URL.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return errURL
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss":
		return nil
	default:
		return errURL
	}
}

// New makes a client. It asks nothing yet.
func New(cfg Config) (*Client, error) {
	if cfg.ChainID == 0 || len(cfg.URLs) == 0 {
		return nil, errors.New("a chain needs its id and at least one URL")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.MaxResponse <= 0 {
		cfg.MaxResponse = 32 << 20
	}
	if cfg.Calls == nil {
		cfg.Calls = func(int) {}
	}
	c := &Client{cfg: cfg}
	for n, raw := range cfg.URLs {
		other := cfg.Others[n]
		if err := CheckURL(raw); err != nil && other == nil {
			return nil, err
		}
		u, err := url.Parse(raw)
		if err != nil {
			return nil, errURL
		}
		name := fmt.Sprintf("endpoint %d (%s) of chain %d", n+1, u.Host, cfg.ChainID)
		e := &Endpoint{
			cfg: &c.cfg, name: name, url: u, other: other, cap: maxBatch, tooMany: maxBatch + 1,
			log: outage.Log{Logger: cfg.Log, Upstream: "endpoint", Name: name, Consequence: "others of the chain are asked, if there are any", Level: slog.LevelWarn},
		}
		e.alone = func() bool { return !c.servedWithout(e) }
		c.endpoints = append(c.endpoints, e)
	}
	return c, nil
}

// Close ends the connections, and the calls that nobody waits for any more.
func (c *Client) Close() {
	for _, e := range c.endpoints {
		e.close()
	}
}

// All returns the endpoints in the order of their URLs.
func (c *Client) All() []*Endpoint { return c.endpoints }

// Order returns the endpoints as they should be asked: those that are well, those that lag, and those that rest. Those that are not to be
// asked at all now are left out.
func (c *Client) Order() []*Endpoint {
	list, _ := c.order()
	return list
}

// Everyone returns the endpoints in their order, with those that are not to be asked at all at the end: they say why, and are sent nothing.
func (c *Client) Everyone() []*Endpoint {
	list, left := c.order()
	return append(list, left...)
}

func (c *Client) order() (list, left []*Endpoint) {
	var well, behind, tired []*Endpoint
	for _, e := range c.endpoints {
		switch resting, closed := e.Rests(); {
		case closed:
			left = append(left, e)
		case resting:
			tired = append(tired, e)
		case c.behind(e):
			behind = append(behind, e)
		default:
			well = append(well, e)
		}
	}
	return slices.Concat(well, behind, tired), left
}

// servedWithout reports whether an endpoint other than the given one is of use: it answered last, or was not asked yet, and does not lag.
func (c *Client) servedWithout(e *Endpoint) bool {
	return slices.ContainsFunc(c.endpoints, func(other *Endpoint) bool {
		if other == e {
			return false
		}
		_, last := other.Down()
		return last == nil && !c.behind(other)
	})
}

// Do asks one endpoint, and the next one as long as what is answered is not about the calls. It returns the endpoint whose answers the calls
// have. If there is none, the error says of each what was wrong, and is an *Error of the first.
//
// An answer about which another endpoint may know better (a block that this one lacks, a text that nobody knows) counts when no other endpoint
// gives a better one. While an endpoint is silent the next one is asked too, of all calls, unless one of them may be a transaction.
func (c *Client) Do(ctx context.Context, calls ...*Call) (*Endpoint, error) {
	if asksHead(calls) {
		c.Compare(ctx)
	}
	var failures []error
	var second []*Call
	var by *Endpoint
	type outcome struct {
		calls []*Call
		err   error
	}
	blank, quiet := again(calls), (*Endpoint).Quiet
	if !onlyReads(calls) {
		quiet = never
	}
	for e, o := range InTurn(ctx, c.Everyone(), quiet, func(ctx context.Context, e *Endpoint) outcome {
		own := again(blank) // calls may have an answer by now
		return outcome{own, e.Do(ctx, own...)}
	}) {
		if o.err != nil {
			take(calls, o.calls)
			failures = append(failures, o.err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if !doubtful(o.calls) && (!asksHead(o.calls) || !c.behind(e)) {
			take(calls, o.calls)
			return e, nil
		}
		if by == nil {
			second, by = o.calls, e
		}
	}
	if by != nil {
		take(calls, second)
		return by, nil
	}
	return nil, errors.Join(failures...)
}

func doubtful(calls []*Call) bool {
	for _, c := range calls {
		if c.err != nil && c.err.Class.doubtful() && !c.Optional {
			return true
		}
	}
	return false
}

func asksHead(calls []*Call) bool {
	for _, c := range calls {
		if _, asked, _ := headOf(c); asked {
			return true
		}
	}
	return false
}

// Compare asks all endpoints for their heads, now and then when a head is asked for. An endpoint that is stuck would be asked for ever
// otherwise: it answers.
func (c *Client) Compare(ctx context.Context) {
	if len(c.endpoints) == 1 {
		return
	}
	now, last := time.Now().UnixNano(), c.compared.Load()
	if now-last < compareEvery.Nanoseconds() || !c.compared.CompareAndSwap(last, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(c.cfg.Timeout, 2*time.Second))
	defer cancel()
	var all sync.WaitGroup
	for _, e := range c.endpoints {
		if resting, _ := e.Rests(); !resting {
			all.Go(func() { e.askHead(ctx) })
		}
	}
	all.Wait()
}

// Trouble says why no endpoint can be asked, in words without secrets; "" if one answered last, or none was asked yet.
func (c *Client) Trouble() string {
	why := ""
	for _, e := range c.endpoints {
		_, last := e.Down()
		if last == nil {
			return ""
		}
		if why != "" {
			why += "; "
		}
		why += last.Error()
	}
	return why
}
