package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// errTooLong means that an answer had more bytes than allowed.
var errTooLong = errors.New("the answer is too long")

// endpoint is one URL and what is known of it.
type endpoint struct {
	name string                                     // host, for people: the rest of the URL may hold a key
	dial func(context.Context) (*rpc.Client, error) // of a WebSocket, nil for HTTP

	mu        sync.Mutex
	client    *rpc.Client   // nil before a WebSocket's first call
	chainSeen bool          // it serves the chain that it should
	unbatched bool          // it takes no batches
	span      uint64        // blocks that one query may cover
	rest      time.Duration // of the last rest; 0 after a success
	restUntil time.Time
}

func newEndpoint(raw string, cfg Config) (*endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, errScheme
	}
	e := &endpoint{name: u.Host, span: cfg.MaxSpan}
	switch u.Scheme {
	case "http", "https":
		e.client, err = rpc.DialOptions(context.Background(), raw, rpc.WithHTTPClient(&http.Client{ //nolint:forbidigo // HTTP clients connect at the first call: nothing waits here
			Timeout:   cfg.Timeout,
			Transport: limited{http.DefaultTransport.(*http.Transport).Clone(), cfg.MaxResponse},
			// The URL names the host, no answer does.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", u.Host, err)
		}
	case "ws", "wss":
		e.dial = func(ctx context.Context) (*rpc.Client, error) {
			return rpc.DialOptions(ctx, raw, rpc.WithWebsocketMessageSizeLimit(cfg.MaxResponse))
		}
	default:
		return nil, errScheme
	}
	return e, nil
}

var errScheme = errors.New("an endpoint's URL is not of the form http://host, https://host, ws://host or wss://host")

// connected returns the client. A WebSocket is opened at the first call; when it breaks, the client opens another at the next one.
func (e *endpoint) connected(ctx context.Context) (*rpc.Client, error) {
	e.mu.Lock()
	client := e.client
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
	if e.client != nil { // another call was faster
		fresh.Close()
		return e.client, nil
	}
	e.client = fresh
	return fresh, nil
}

func (e *endpoint) call(ctx context.Context, into any, method string, args ...any) error {
	client, err := e.connected(ctx)
	if err != nil {
		return err
	}
	return client.CallContext(ctx, into, method, args...)
}

func (e *endpoint) callBatch(ctx context.Context, calls []rpc.BatchElem) error {
	client, err := e.connected(ctx)
	if err != nil {
		return err
	}
	return client.BatchCallContext(ctx, calls)
}

func (e *endpoint) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != nil {
		e.client.Close()
	}
}

// limited is a transport whose answers have a maximum of bytes.
type limited struct {
	next http.RoundTripper
	max  int64
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err == nil {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: l.max}
	}
	return resp, err
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// named says of an error which endpoint it is about, without the URL, which may hold a key.
func (e *endpoint) named(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	return fmt.Errorf("%s: %w", e.name, err)
}

func (e *endpoint) rests() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.restUntil)
}

// failed has the endpoint rest, longer with each failure in a row.
func (e *endpoint) failed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rest = min(max(2*e.rest, firstRest), longestRest)
	e.restUntil = time.Now().Add(e.rest)
}

func (e *endpoint) succeeded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rest, e.restUntil = 0, time.Time{}
}

// checkChain asks an endpoint once which chain it serves.
func (p *Pool) checkChain(ctx context.Context, e *endpoint) error {
	e.mu.Lock()
	seen := e.chainSeen
	e.mu.Unlock()
	if seen {
		return nil
	}
	var id hexutil.Uint64
	p.calls(1)
	if err := e.call(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if uint64(id) != p.cfg.ChainID {
		return fmt.Errorf("it serves chain %d, not chain %d", uint64(id), p.cfg.ChainID)
	}
	e.mu.Lock()
	e.chainSeen = true
	e.mu.Unlock()
	return nil
}

// header is what is read of a block.
type header struct {
	Number     *hexutil.Uint64 `json:"number"`
	Hash       *common.Hash    `json:"hash"`
	ParentHash common.Hash     `json:"parentHash"`
	Timestamp  hexutil.Uint64  `json:"timestamp"`
	Bloom      types.Bloom     `json:"logsBloom"`

	Transactions []json.RawMessage `json:"transactions"`
}

// there tells whether the endpoint has the block: a pending one has no number or hash.
func (h *header) there() bool { return h != nil && h.Number != nil && h.Hash != nil }

func (h *header) block() Block {
	if !h.there() {
		return Block{}
	}
	return Block{Number: uint64(*h.Number), Hash: *h.Hash, Parent: h.ParentHash, Time: uint64(h.Timestamp)}
}

// single asks for one header.
func (p *Pool) single(ctx context.Context, e *endpoint, method string, args ...any) (*header, error) {
	var h *header
	p.calls(1)
	if err := e.call(ctx, &h, method, args...); err != nil {
		return nil, err
	}
	if !h.there() {
		return nil, ErrNotFound
	}
	return h, nil
}

func (p *Pool) blockNumber(ctx context.Context, e *endpoint) (uint64, error) {
	var number hexutil.Uint64
	p.calls(1)
	err := e.call(ctx, &number, "eth_blockNumber")
	return uint64(number), err
}

// batch sends calls together, so that one server answers them all, or one after the other where that is not possible.
func (p *Pool) batch(ctx context.Context, e *endpoint, calls []rpc.BatchElem) error {
	e.mu.Lock()
	unbatched := e.unbatched
	e.mu.Unlock()
	p.calls(len(calls))
	if !unbatched {
		err := e.callBatch(ctx, calls)
		if err == nil || !refusesBatches(err) {
			return err
		}
		e.mu.Lock()
		e.unbatched = true
		e.mu.Unlock()
		p.calls(len(calls))
	}
	for i := range calls {
		c := &calls[i]
		c.Error = e.call(ctx, c.Result, c.Method, c.Args...)
		var answered rpc.Error
		if c.Error != nil && !errors.As(c.Error, &answered) {
			return c.Error
		}
	}
	return nil
}

// refusesBatches tells whether an endpoint answered a batch as a whole, not its calls. A text that is no JSON is
// the answer of a proxy in trouble, not of a server that knows no batches.
func refusesBatches(err error) bool {
	var answered rpc.Error
	var wrong *json.UnmarshalTypeError
	return errors.As(err, &answered) || errors.As(err, &wrong)
}
