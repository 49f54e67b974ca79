package ethrpc

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/internal/outage"
)

// Endpoint is one URL and what is known of it. It is safe for concurrent use.
type Endpoint struct {
	cfg   *Config
	name  string
	url   *url.URL
	log   outage.Log
	lags  outage.Log                            // of its head
	pool  *Client                               // whose it is
	other func(context.Context) (uint64, error) // asks for its head, if it speaks something else

	mu       sync.Mutex // guards what follows; no question is asked under it
	client   *rpc.Client
	ours     bool // it has shown that it serves the chain since it failed last
	failures int
	until    time.Time // it rests
	soon     time.Time // when its rest is over if no other endpoint is of use
	closed   bool      // it is not to be asked at all meanwhile
	since    time.Time // of the first failure in a row; zero after an answer
	last     *Error    // the last failure, nil after an answer
	cap      int       // calls that a batch may have
	tooMany  int       // calls of the smallest batch that was refused
	head     head
	told     time.Time                    // when it told its head last
	behind   time.Time                    // since when it has lacked what others had; zero: it has not
	compared *anchor                      // what it was asked for last
	shown    common.Hash                  // its block in that place; zero: none
	open     map[*seen]context.CancelFunc // exchanges that wait for an answer
	gone     bool                         // it was closed, and fails for that
	heard    time.Time                    // when the first of them began, or, if that was later, when something was answered
}

// The rest after a failure. One that closes an endpoint is longer at first: a limit is not over in a quarter of a second.
const (
	firstRest, firstClosed = 250 * time.Millisecond, time.Second
	longestRest            = 30 * time.Second
	longestAlone           = 4 * time.Second // while no other endpoint is of use: nobody else would notice that it is well
)

// maxBatch is the longest batch that is ever sent.
const maxBatch = 100

// Name tells endpoints apart in logs and errors: a number, and the host.
func (e *Endpoint) Name() string { return e.name }

// Streams reports whether the endpoint can announce blocks by itself.
func (e *Endpoint) Streams() bool { return e.url.Scheme == "ws" || e.url.Scheme == "wss" }

// Down returns since when every question has failed, and the last failure; zero and nil if it answered last.
func (e *Endpoint) Down() (since time.Time, last *Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.since, e.last
}

// Rests reports whether the endpoint is to be asked last, and whether it is not to be asked at all. One that is silent is asked last
// until it answers or its questions have failed.
func (e *Endpoint) Rests() (resting, closed bool) {
	e.mu.Lock()
	now := time.Now()
	resting, closed = e.silent(now) || now.Before(e.until), e.closed && now.Before(e.until)
	over := !now.Before(e.soon)
	e.mu.Unlock()
	return resting, closed && (!over || e.pool.servedWithout(e))
}

// Do asks this endpoint alone. Each call has its answer afterwards, or the error that is returned: an *Error of a Class that is about the
// endpoint. While a limit or a refusal of the endpoint makes it rest, or many have asked it and it is silent, nothing is sent.
func (e *Endpoint) Do(ctx context.Context, calls ...*Call) error {
	for _, c := range calls {
		c.clear()
	}
	e.leave()
	if rest := e.unasked(); rest != nil {
		for _, c := range calls {
			c.err = rest
		}
		return rest
	}
	err := e.answer(ctx, calls)
	for _, c := range calls {
		if err == nil && c.err == nil && c.Method == "eth_chainId" {
			err = e.sameChain(c)
		}
		if err == nil {
			err = e.sameFork(c)
		}
	}
	if err == nil {
		e.well(ctx)
		for _, c := range calls {
			if c.err != nil && c.err.Class == Missing {
				e.pause()
			}
		}
		e.learnHead(ctx, calls)
		return nil
	}
	for _, c := range calls {
		if c.err == nil && c.result == nil {
			c.err = err
		}
	}
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.failed(ctx, err)
	}
	return err
}

// unasked is why nothing is sent now, or nil.
func (e *Endpoint) unasked() *Error {
	if _, closed := e.Rests(); closed {
		if _, last := e.Down(); last != nil { // another answer may have come
			return atRest(last)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silent(time.Now()) && len(e.open) >= maxOpen {
		return &Error{Class: Unsent, Endpoint: e.name, Text: "it is silent, and many questions wait for it"}
	}
	return nil
}

func (e *Endpoint) answer(ctx context.Context, calls []*Call) *Error {
	e.mu.Lock()
	ours := e.ours
	e.mu.Unlock()
	if !ours {
		if err := e.checkChain(ctx); err != nil {
			return err
		}
	}
	if err := e.onFork(ctx); err != nil {
		return err
	}
	refused := 0 // calls of a batch that was refused just now
	for len(calls) > 0 {
		n := min(len(calls), e.batchSize(len(calls)))
		if refused > 0 {
			n = min(n, max(refused/2, 1))
		}
		whole, err := e.exchange(ctx, calls[:n])
		switch {
		case err == nil:
			if !tooMuch(calls[:n]) { // then it was not the number of calls
				e.took(n, refused)
			}
			refused, calls = 0, calls[n:]
		case whole && n > 1 && err.refusesBatch():
			refused = n
			for _, c := range calls[:n] {
				c.clear()
			}
		default:
			return err
		}
	}
	return nil
}

func tooMuch(calls []*Call) bool {
	return slices.ContainsFunc(calls, func(c *Call) bool { return c.err != nil && c.err.Class == TooMuch })
}

// atRest makes of its last failure what an endpoint at rest would have answered: certainly nothing was sent.
func atRest(last *Error) *Error {
	rest := *last
	rest.silent, rest.after = false, 0
	if rest.Class != WrongChain && rest.Class != OtherFork {
		rest.Class = Limited
	}
	return &rest
}

// refusesBatch reports whether a smaller batch may be taken by an endpoint that did not answer the calls of a batch one by one.
func (e *Error) refusesBatch() bool {
	if batchWords.MatchString(e.Text) {
		return true
	}
	switch e.Status {
	case 400, 404, 405, 411, 413, 414, 415, 422, 500, 501:
		return true
	case 401, 402, 403, 407, 429, 502, 503, 504:
		return false
	}
	return e.Class != Limited && e.Class != Denied && e.Class != Lost && e.Class != Unsent
}

// batchSize returns how many of some calls go into one batch: what is known to be taken, or, while more is wanted, half the way from there to what
// was refused.
func (e *Endpoint) batchSize(want int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if want > e.cap && e.cap+1 < e.tooMany {
		return (e.cap + e.tooMany) / 2
	}
	return e.cap
}

// took remembers that a batch was taken, and one before it was not. Only then was it its size.
func (e *Endpoint) took(n, refused int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if refused > n {
		e.tooMany = min(e.tooMany, refused)
		e.cap = min(e.cap, n)
	}
	if e.tooMany <= maxBatch {
		e.cap = min(max(e.cap, n), e.tooMany-1)
	}
}

// exchange sends some calls at once. whole tells that what failed was the exchange, not one of its calls.
func (e *Endpoint) exchange(ctx context.Context, calls []*Call) (whole bool, failure *Error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	note := &seen{batch: len(calls) > 1, part: e.hears}
	e.begin(note, cancel)
	defer func() { e.end(note, ctx.Err() == nil) }()
	client, err := e.connected(ctx, note)
	if err != nil {
		return true, undialled(e.name, err)
	}
	ctx = context.WithValue(ctx, seenKey{}, note)
	e.cfg.Calls(len(calls))
	if len(calls) == 1 {
		c := calls[0]
		err := client.CallContext(ctx, &c.result, c.Method, c.Args...)
		return true, e.settle(c, err, note, client)
	}
	batch := make([]rpc.BatchElem, len(calls))
	for n, c := range calls {
		batch[n] = rpc.BatchElem{Method: c.Method, Args: c.Args, Result: &c.result}
	}
	if err := client.BatchCallContext(ctx, batch); err != nil {
		return true, e.failure(err, note, client)
	}
	missing := 0
	for n, c := range calls {
		if errors.Is(batch[n].Error, rpc.ErrMissingBatchResponse) {
			missing++
			continue
		}
		if err := e.settle(c, batch[n].Error, note, client); err != nil {
			// Of a batch that is too long some answer each call with the same words.
			return batchWords.MatchString(err.Text), err
		}
		if c.err != nil && tooLongBatch.MatchString(c.err.Text) {
			return true, c.err
		}
	}
	if missing > 0 {
		return missing == len(calls) || missing == len(calls)-1, &Error{Class: Broken, Endpoint: e.name, Status: note.status, Text: "it left out an answer of a batch"}
	}
	return false, nil
}

// settle gives a call its answer. The error is about the endpoint.
func (e *Endpoint) settle(c *Call, err error, note *seen, client *rpc.Client) *Error {
	switch {
	case err == nil:
		if err := c.decode(); err != nil {
			return &Error{Class: Broken, Endpoint: e.name, Text: clip("its answer to " + c.Method + " cannot be read: " + err.Error())}
		}
		return nil
	case errors.Is(err, rpc.ErrNoResult): // neither a result nor an error
		return &Error{Class: Broken, Endpoint: e.name, Status: note.status, Text: "an answer without a result"}
	}
	answer := e.failure(err, note, client)
	if c.Method == "eth_getLogs" && answer.vague() {
		answer.Class = TooMuch // fewer blocks may succeed, and nothing else would find that out
	}
	if answer.Class.AboutEndpoint() {
		return answer
	}
	c.err = answer
	return nil
}

// failure makes an Error of what go-ethereum's client returned.
func (e *Endpoint) failure(err error, note *seen, client *rpc.Client) *Error {
	var answered rpc.Error
	var status rpc.HTTPError
	out := &Error{Endpoint: e.name, Status: note.status, after: note.after}
	switch {
	case errors.As(err, &answered):
		out.Code, out.Text = answered.ErrorCode(), clip(answered.Error())
		if with, ok := errors.AsType[rpc.DataError](err); ok {
			out.Data = dataText(with.ErrorData())
		}
		out.Class = Judge(note.status, out.Code, out.Text, out.Data)
	case errors.As(err, &status) || note.whole != nil:
		if note.whole != nil {
			out.Code, out.Text, out.Data = note.whole.Code, note.whole.Message, note.whole.Data
		}
		if out.Class = Judge(note.status, out.Code, out.Text, out.Data); !out.Class.AboutEndpoint() && out.Class != TooMuch && (note.batch || out.Code == 0) {
			out.Class = Broken // it has answered none of the calls
		}
	case isJSON(err):
		out.Class, out.Text = Broken, "its answer is no JSON-RPC"
	case errors.Is(err, errTooLong):
		out.Class, out.Text, out.Status = TooMuch, errTooLong.Error(), 0
	default:
		out = lost(e.name, err)
		if out.silent && e.Streams() {
			e.hangUp(client) // half open, perhaps: the next call dials
		}
	}
	return out
}

func isJSON(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind)
}

// Subscribe has a WebSocket endpoint send what it announces to a channel, after it has shown that it serves the chain.
func (e *Endpoint) Subscribe(ctx context.Context, channel any, args ...any) (*rpc.ClientSubscription, error) {
	if err := e.Do(ctx); err != nil { // asks for the chain
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	client, err := e.connected(ctx, &seen{})
	if err != nil {
		return nil, undialled(e.name, err)
	}
	e.cfg.Calls(1)
	sub, err := client.EthSubscribe(ctx, channel, args...)
	if err != nil {
		return nil, e.failure(err, &seen{}, client)
	}
	return sub, nil
}

// checkChain asks which chain the endpoint serves: at first, and whenever it is back.
func (e *Endpoint) checkChain(ctx context.Context) *Error {
	q := Ask(nil, "eth_chainId")
	_, err := e.exchange(ctx, []*Call{q})
	switch {
	case err != nil:
		return err
	case q.err != nil:
		return &Error{Class: Broken, Endpoint: e.name, Code: q.err.Code, Status: q.err.Status, Text: "which chain it serves: " + q.err.Text}
	}
	if err := e.sameChain(q); err != nil {
		return err
	}
	e.mu.Lock()
	e.ours = true
	e.mu.Unlock()
	return nil
}

// connected returns the client for an exchange. A WebSocket is dialled at the first call, and again after it was hung up or left.
func (e *Endpoint) connected(ctx context.Context, x *seen) (*rpc.Client, error) {
	e.mu.Lock()
	client := e.client
	x.client = client
	e.mu.Unlock()
	if client != nil {
		return client, nil
	}
	fresh, err := e.dial(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		e.client = fresh
	} else { // another call was faster
		fresh.Close()
	}
	x.client = e.client
	return x.client, nil
}

func (e *Endpoint) dial(ctx context.Context) (*rpc.Client, error) {
	if e.Streams() {
		return rpc.DialOptions(ctx, e.url.String(), rpc.WithWebsocketMessageSizeLimit(e.cfg.MaxResponse))
	}
	var transport http.RoundTripper
	if e.cfg.transport != nil {
		transport = e.cfg.transport(e.url)
	} else {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = 32
		transport = own
	}
	return rpc.DialOptions(ctx, e.url.String(), rpc.WithHTTPClient(&http.Client{
		Transport:     watching{transport, e.cfg.MaxResponse},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the URL names the host, no answer does
	}))
}

// hangUp closes a WebSocket.
func (e *Endpoint) hangUp(client *rpc.Client) {
	e.mu.Lock()
	if e.client == client {
		e.client, e.ours = nil, false
	}
	e.mu.Unlock()
	client.Close()
}

func (e *Endpoint) close() {
	e.mu.Lock()
	client := e.client
	e.client = nil
	e.gone = true
	for _, cancel := range e.open {
		cancel()
	}
	e.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

// failed has the endpoint rest, longer with each failure in a row. Those of questions that were under way when it began to rest are one failure:
// what many ask at once fails no more often than what one asks.
func (e *Endpoint) failed(ctx context.Context, err *Error) {
	now := time.Now()
	e.mu.Lock()
	again := !now.Before(e.soon)
	if e.gone || !again && (e.closed || !err.Class.closed()) {
		e.mu.Unlock()
		return
	}
	if e.since.IsZero() {
		e.since = now
	}
	e.closed = err.Class.closed()
	first := firstRest
	if e.closed {
		first = firstClosed
	}
	rest := min(first<<min(e.failures, 10), longestRest)
	e.until, e.soon = now.Add(max(rest, err.after)), now.Add(max(min(rest, longestAlone), err.after))
	if again {
		e.failures++
	}
	e.ours, e.last = false, err
	if err.Class == OtherFork || err.Class == WrongChain {
		e.head, e.behind = head{}, time.Time{} // it was another chain's
	}
	e.mu.Unlock()
	e.log.Down(ctx, err)
}

// well ends the rest.
func (e *Endpoint) well(ctx context.Context) {
	e.mu.Lock()
	e.failures, e.until, e.soon, e.closed, e.since, e.last = 0, time.Time{}, time.Time{}, false, time.Time{}, nil
	e.mu.Unlock()
	e.log.Up(ctx)
}

// pause has an endpoint that lacks a place of the chain come last for a moment.
func (e *Endpoint) pause() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = time.Now().Add(firstRest)
}
