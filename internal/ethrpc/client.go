package ethrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
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
	anchor    atomic.Pointer[anchor]
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
			cfg: &c.cfg, pool: c, name: name, url: u, other: other, cap: maxBatch, tooMany: maxBatch + 1,
			log:  outage.Log{Logger: cfg.Log, Upstream: "endpoint", Name: name, Consequence: "others of the chain are asked, if there are any", Level: slog.LevelWarn},
			lags: outage.Log{Logger: cfg.Log, Upstream: "endpoint's head", Name: name, Consequence: "others of the chain are asked first", Level: slog.LevelWarn},
		}
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
		case !e.Behind().IsZero():
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
		return last == nil && other.Behind().IsZero()
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
		if !doubtful(o.calls) && (!asksHead(o.calls) || e.Behind().IsZero()) {
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
	return slices.ContainsFunc(calls, func(c *Call) bool { return c.err != nil && c.err.Class.doubtful() && !c.Optional })
}

func asksHead(calls []*Call) bool {
	return slices.ContainsFunc(calls, func(c *Call) bool {
		_, asked, _ := headOf(c)
		return asked
	})
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

// Endpoints returns how many endpoints there are, those whose last question failed for a reason that is about them, and those that lag behind others. Why is a Class, or "behind".
func (c *Client) Endpoints() (count int, failing []outage.Failing) {
	for n, e := range c.endpoints {
		if since, last := e.Down(); last != nil {
			failing = append(failing, outage.Failing{Number: n + 1, Why: string(last.Class), Since: since})
		} else if since := e.Behind(); !since.IsZero() && time.Since(since) >= lagTold {
			failing = append(failing, outage.Failing{Number: n + 1, Why: "behind", Since: since})
		}
	}
	return len(c.endpoints), failing
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

// Call is one question, and what came of it.
type Call struct {
	Method string
	Args   []any
	// Optional: an endpoint that does not have the method, or says something that nobody knows, has answered as well as any other would.
	Optional bool

	into   any
	result json.RawMessage
	err    *Error
}

// Ask makes a call. Its result is decoded into what a pointer points at, unless that is nil; what cannot be decoded counts as no
// answer, and the next endpoint is asked.
func Ask(into any, method string, args ...any) *Call {
	if args == nil {
		args = []any{}
	}
	return &Call{Method: method, Args: args, into: into}
}

// Answer reports whether the result is there and not null, or returns what the endpoint said of the call: an *Error.
func (c *Call) Answer() (found bool, err error) {
	if c.err != nil {
		return false, c.err
	}
	return !empty(c.result), nil
}

// Found is Answer of what an endpoint may lack: that is no error.
func (c *Call) Found() (bool, error) {
	if c.err != nil && c.err.Class == Missing {
		return false, nil
	}
	return c.Answer()
}

// Need is Answer of what has to be there.
func (c *Call) Need() error {
	found, err := c.Answer()
	if err == nil && !found {
		err = fmt.Errorf("%s: the endpoint has no answer", c.Method)
	}
	return err
}

// Raw is the result as it came.
func (c *Call) Raw() json.RawMessage { return c.result }

// Err is what the endpoint said of the call, or nil.
func (c *Call) Err() *Error { return c.err }

func empty(result json.RawMessage) bool { return len(result) == 0 || string(result) == "null" }

func (c *Call) clear() {
	c.result, c.err = nil, nil
	if c.into != nil {
		reflect.ValueOf(c.into).Elem().SetZero()
	}
}

// decode reads the result into its place.
func (c *Call) decode() error {
	if c.into == nil || empty(c.result) {
		return nil
	}
	return json.Unmarshal(c.result, c.into)
}

// again makes the calls anew for one of several endpoints, with places of their own for the results.
func again(calls []*Call) []*Call {
	list := make([]*Call, len(calls))
	for n, c := range calls {
		one := *c
		if c.into != nil {
			one.into = reflect.New(reflect.TypeOf(c.into).Elem()).Interface()
		}
		list[n] = &one
	}
	return list
}

// take gives calls the answers of those that were made anew.
func take(calls, from []*Call) {
	for n, c := range calls {
		c.result, c.err = from[n].result, from[n].err
		if c.into != nil {
			reflect.ValueOf(c.into).Elem().Set(reflect.ValueOf(from[n].into).Elem())
		}
	}
}

// Error is an answer that is an error, or that there was none.
type Error struct {
	Class    Class
	Endpoint string // its name
	Code     int    // of JSON-RPC; 0: there was none
	Status   int    // of HTTP; 0: none
	Text     string // the endpoint's own words, a maximum of 2 kB
	Data     string // of the error, if that is a text
	after    time.Duration
	silent   bool // the time of the call ran out
}

func (e *Error) Error() string {
	switch {
	case e.Status >= 300 && e.Text == "":
		return fmt.Sprintf("%s: HTTP %d", e.Endpoint, e.Status)
	case e.Status >= 300:
		return fmt.Sprintf("%s: HTTP %d: %s", e.Endpoint, e.Status, e.Text)
	case e.Code != 0:
		return fmt.Sprintf("%s: %s (%d)", e.Endpoint, e.Text, e.Code)
	default:
		return e.Endpoint + ": " + e.Text
	}
}

// ClassOf returns what an error means; Unknown if it is no answer, "" if it is nil.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	switch answer, is := errors.AsType[*Error](err); {
	case !is:
		return Unknown
	case answer == nil: // a Call's Err that is none
		return ""
	default:
		return answer.Class
	}
}

// TimedOut reports whether an endpoint did not answer in time, or says that it has run out of time itself.
func TimedOut(err error) bool {
	answer, is := errors.AsType[*Error](err)
	if !is || answer == nil {
		return false
	}
	return answer.silent || answer.Class == Broken && (answer.Status == 408 || answer.Status == 504 || answer.Status == 524 || timeWords.MatchString(answer.Text))
}
