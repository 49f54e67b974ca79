package rpc

import (
	"context"

	"lockstep/internal/relay/apikey"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/telemetry"
)

// Transport is the way a call came in.
type Transport uint8

// The transports.
const (
	TransportHTTP Transport = iota
	TransportWebSocket
)

func (t Transport) String() string {
	if t == TransportWebSocket {
		return "ws"
	}
	return "http"
}

// Request describes the HTTP request or WebSocket message that a call came with. All items of a batch share one.
type Request struct {
	// ID appears in log lines and, in the profile hiero, in error messages.
	ID string
	// IP is the client's address as text, without port.
	IP string
	// Transport is the way it came in.
	Transport Transport
	// Conn is the WebSocket connection, nil over HTTP.
	Conn Notifier

	holding *capacity.Holding
	holder  *apikey.Holder // of the API key; nil: none came with it
	span    telemetry.Span
}

// Notifier is the connection of a WebSocket client, for methods that send to it
// after their answer. Its methods never block.
type Notifier interface {
	// Notify queues a notification of a subscription. false means that the connection is closed already, or now
	// because the client reads too slowly.
	Notify(subscription string, e *Event) bool
	// TooSlow closes the connection as Notify does when there is no room.
	TooSlow()
	// OnClose calls f, in a goroutine of its own, when the connection has ended, perhaps at once.
	OnClose(f func())
	// Done is closed when the connection ends.
	Done() <-chan struct{}
}

// Answer is a result with work to do after it, such as sending the notifications that must not come before it.
type Answer struct {
	// Result is what the handler would return otherwise.
	Result any
	// Encoded, if not nil, is called once when Result is not needed any more: it was
	// encoded, or could not be.
	Encoded func()
	// Sent, if not nil, is called exactly once: with true after the answer was queued for the
	// client, or with false when the client will not get it, because time ran out,
	// the connection ended, or the call wanted none. It must not block.
	Sent func(sent bool)
}

// requestContext carries a Request. It is a context of its own because every
// call needs one: context.WithValue would cost two allocations more.
type requestContext struct {
	context.Context
	request Request
	holding capacity.Holding // of the request
}

// open gives the request a holding.
func (c *requestContext) open(d *Dispatcher) {
	c.holding.Begin(d.memory, c.request.IP)
	c.request.holding = &c.holding
}

type requestKey struct{}

func (c *requestContext) Value(key any) any {
	switch key {
	case requestKey{}:
		return &c.request
	case capacity.Key{}:
		return c.request.holding
	}
	return c.Context.Value(key)
}

// FromContext returns the Request of the call that the context belongs to; ok is
// false outside of one.
func FromContext(ctx context.Context) (r Request, ok bool) {
	p, ok := ctx.Value(requestKey{}).(*Request)
	if !ok {
		return Request{}, false
	}
	return *p, true
}

// WithRequest returns a context that carries r. It is for calling handlers
// without a server.
func WithRequest(ctx context.Context, r Request) context.Context {
	ctx, _ = withRequest(ctx, r)
	return ctx
}

func withRequest(ctx context.Context, r Request) (*requestContext, *Request) {
	c := &requestContext{Context: ctx, request: r}
	return c, &c.request
}

// usableRequestID reports whether a client's request id may go into headers, logs
// and messages: not empty, not long, plain printable ASCII.
func usableRequestID(id string) bool {
	const longest = 128
	if id == "" || len(id) > longest {
		return false
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
