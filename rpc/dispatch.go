package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/clientip"
	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/apikey"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/telemetry"
)

// unknownMethod stands for every name that is not in the table, in labels and in limits: clients choose those
// names, so their number has no bound.
const unknownMethod = "unknown"

// answerGrace is the time after the time-out in which a call may still answer itself, since a handler that
// watches its context gives a better error.
const answerGrace = time.Second

// Options are what a Dispatcher works with besides its settings.
type Options struct {
	Logger  *slog.Logger // required
	Metrics *Metrics     // required
	Keys    *apikey.Ring // nil: keys mean nothing
	// Allow decides whether an address may call a method now; nil: always. Of IPv6 it is asked for a whole /64, as capacity.ClientOf
	// writes it. It must answer quickly, and allow the call rather than fail.
	Allow func(ctx context.Context, ip, method string) bool
	// StoreType is the label of where calls are counted.
	StoreType string
	// Spend adds an amount to what the holder of an API key has used of something in this minute, unless that would be more than
	// the limit; then it adds nothing and returns false. It must answer quickly, too. nil: keys have no limit.
	Spend func(ctx context.Context, holder, what string, amount, limit int) bool
	// Unknown is the answer to a method that is not in the table, or not on this transport;
	// served says whether the transport serves its namespace. nil: method not found.
	Unknown func(name string, t Transport, served bool) *eth.Error
	// NotInBatches are the methods that are refused inside batches. Profile hiero only.
	NotInBatches []string
	// Notification is the method of the notifications that subscribers get; needed where methods send any.
	Notification string
	// Memory bounds what requests hold; nil: no limit.
	Memory *capacity.Memory
	// Heavy gives permits to calls that have a Weight; nil: all run at once.
	Heavy *capacity.Permits
	// Processors gives permits to work that keeps a processor busy; nil: all runs at once.
	Processors *capacity.Permits
	// Tracer begins the span of each request; nil: there are none.
	Tracer *telemetry.Tracer
}

// Dispatcher runs calls against a method table. It is shared by the HTTP and the
// WebSocket server and safe for concurrent use.
type Dispatcher struct {
	config    Config
	methods   map[string]*route
	endpoints [2]endpoint // by Transport
	log       *slog.Logger
	metrics   *Metrics
	allow     func(ctx context.Context, ip, method string) bool
	keys      *apikey.Ring
	quota     func(ctx context.Context, holder, what string, amount, limit int) bool
	unknown   func(name string, t Transport, served bool) *eth.Error
	memory    *capacity.Memory
	heavy     *capacity.Permits
	// processors are shared with simulations.
	processors *capacity.Permits
	tracer     *telemetry.Tracer
	proxies    clientip.Networks
	admission  *admission
	notice     string // what begins each notification
	storeType  string

	httpInFlight, wsInFlight prometheus.Gauge
}

// route is a row of the method table with its settings.
type route struct {
	*Method
	served    [2]bool // by Transport
	batchable bool
}

// endpoint is how one transport treats requests.
type endpoint struct {
	transport     Transport
	apis          map[string]bool
	batchEnabled  bool
	batchMax      int
	batchDisabled fault
}

// NewDispatcher checks the settings and prepares the table for them.
func NewDispatcher(c Config, r *Registry, o Options) (*Dispatcher, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d := &Dispatcher{
		config:  c,
		methods: make(map[string]*route, len(r.methods)),
		log:     o.Logger,
		metrics: o.Metrics,
		allow:   o.Allow,
		keys:    o.Keys,
		quota:   o.Spend,
		unknown: o.Unknown,
		memory:  o.Memory,
		heavy:   o.Heavy, processors: o.Processors,
		tracer:    o.Tracer,
		proxies:   c.Proxies(),
		admission: newAdmission(&c, o.Metrics),
		notice:    noticeHead(o.Notification),
		storeType: o.StoreType,

		httpInFlight: o.Metrics.inFlight.WithLabelValues(TransportHTTP.String()),
		wsInFlight:   o.Metrics.inFlight.WithLabelValues(TransportWebSocket.String()),
	}
	if d.tracer == nil {
		d.tracer = telemetry.Disabled()
	}
	if d.unknown == nil {
		d.unknown = func(name string, _ Transport, _ bool) *eth.Error { return eth.ErrMethodNotFound(name) }
	}
	d.endpoints = [2]endpoint{
		{TransportHTTP, apis(c.HTTP.APIs), c.Batch.Enabled, c.Batch.MaxSize, batchDisabled()},
		{TransportWebSocket, apis(c.WebSocket.APIs), c.WebSocket.BatchEnabled, c.WebSocket.BatchMaxSize, wsBatchDisabled()},
	}
	var disallowed map[string]bool
	if c.Profile == ProfileHiero {
		disallowed = set(o.NotInBatches)
	}
	for name, m := range r.methods {
		api := Namespace(name)
		d.methods[name] = &route{
			Method: m,
			served: [2]bool{
				d.endpoints[TransportHTTP].apis[api] && !m.WebSocketOnly,
				d.endpoints[TransportWebSocket].apis[api],
			},
			batchable: !disallowed[name],
		}
	}
	return d, nil
}

// apis are the namespaces that a transport serves.
func apis(configured []string) map[string]bool {
	m := set(configured)
	m[namespaceRPC] = true
	return m
}

func set(items []string) map[string]bool {
	m := make(map[string]bool, len(items))
	for _, item := range items {
		m[item] = true
	}
	return m
}

// longText is the length in bytes from which parsing a body needs a permit, like other work that keeps a processor
// busy. It is longer than any transaction, so that permits do not change the order of transactions.
const longText = 300_000

// awaitPermit waits for the permit to parse a long body. Other bodies need none, and get nil.
func (d *Dispatcher) awaitPermit(ctx context.Context, r *Request, body []byte) (*capacity.Permit, error) {
	if len(body) < longText || d.processors == nil {
		return nil, nil
	}
	return d.processors.Enter(ctx, r.holding, 1, false)
}

// admit checks a call before any handler sees it: the envelope, the rules of batches, the namespace, the rate
// limit, the table, the parameters. If it returns a fault, that is the answer.
func (d *Dispatcher) admit(ctx context.Context, ex *exchange, c *call) (f fault, ok bool) {
	if !d.admitEnvelope(c) {
		return known(eth.ErrInvalidRequest), false
	}
	e := d.methods[string(c.method)]
	c.route = e
	switch {
	case e != nil && ex.batch && !e.batchable:
		return notInBatch(e.Name), false
	case e == nil || !e.served[ex.endpoint.transport]:
		return d.unserved(ctx, ex, c), false
	}
	if f, ok := d.limitCaller(ctx, ex, e); !ok {
		return f, false
	}
	raw := c.message.params
	if ex.endpoint.transport == TransportWebSocket && raw.Null() {
		raw = nil // the TypeScript relay ignores the difference here
	}
	c.params.set(raw)
	if err := c.params.validate(e.Method, d.config.Profile == ProfileEthereum); err != nil {
		return known(err), false
	}
	return fault{}, true
}

// admitEnvelope sets the call's id and reports whether the envelope is that of a call.
func (d *Dispatcher) admitEnvelope(c *call) bool {
	if !c.object {
		return false
	}
	if !c.id.Present() {
		switch {
		case d.config.RequestIDOptional:
			c.id = jsonx.Value(`"0"`)
		case d.config.Profile == ProfileEthereum && c.version && c.hasMethod:
			c.notification = true
			return true
		default:
			return false
		}
	}
	return c.validID() && c.version && c.hasMethod
}

// unserved answers a method that is not in the table or not on this transport.
// Misspelt calls count against the limit like all others.
func (d *Dispatcher) unserved(ctx context.Context, ex *exchange, c *call) fault {
	name := string(c.method)
	c.route = nil
	if !ex.endpoint.apis[Namespace(name)] {
		return known(d.unknown(name, ex.endpoint.transport, false))
	}
	if h := ex.request.holder; h != nil {
		if f, ok := d.spend(ctx, h, name, 1); !ok {
			return f
		}
	} else if !d.allowed(ctx, ex, unknownMethod) {
		return known(eth.ErrRateLimited(name))
	}
	if e := d.methods[name]; e != nil && e.WebSocketOnly && d.config.Profile == ProfileEthereum {
		return fault{code: eth.CodeMethodNotFound, message: "notifications not supported"}
	}
	return known(d.unknown(name, ex.endpoint.transport, true))
}

// limitCaller checks whether the caller may call a method now. A caller with a key has the limits of the key, any other
// those of its address.
func (d *Dispatcher) limitCaller(ctx context.Context, ex *exchange, e *route) (f fault, ok bool) {
	if h := ex.request.holder; h != nil {
		return d.admitHolder(ctx, h, e.Name, e.Weight)
	}
	if !d.allowed(ctx, ex, e.Name) {
		return known(eth.ErrRateLimited(e.Name)), false
	}
	return fault{}, true
}

// allowed counts a call of a client. Whoever has one address of IPv6 has all of its /64, so these count together.
func (d *Dispatcher) allowed(ctx context.Context, ex *exchange, method string) bool {
	if d.allow == nil || d.allow(ctx, capacity.ClientOf(ex.request.IP), method) {
		return true
	}
	d.metrics.rateLimited.WithLabelValues(method, d.storeType).Inc()
	return false
}

// produce runs a handler and returns the whole answer. A panic in the
// handler, or while its result is encoded, becomes an error of this one call.
func (d *Dispatcher) produce(r *Request, c *call, run func() (any, error)) (out []byte) {
	defer func() {
		if p := recover(); p != nil {
			out = d.faultAnswer(r, c, d.panicked(r, c, p))
		}
	}()
	result, err := run()
	if err != nil {
		return d.faultAnswer(r, c, d.fault(r, c, err))
	}
	if a, ok := result.(*Answer); ok {
		c.sent, result = a.Sent, a.Result
		if a.Encoded != nil {
			defer a.Encoded()
		}
	}
	out, err = r.encode(result)
	if err != nil {
		return d.faultAnswer(r, c, d.fault(r, c, err))
	}
	return appendTail(out, c.id)
}

// encode returns the beginning of an answer and its result. If the length of the result is known, its room is
// counted first.
func (r *Request) encode(result any) (out []byte, err error) {
	const small = 512 // not worth counting
	room, known := jsonx.Size(result)
	if known && room >= small {
		if err := r.holding.Take(room); err != nil {
			return nil, err
		}
	} else {
		room = 0
	}
	out, err = jsonx.Append(appendResultHead(make([]byte, 0, room+answerAround)), result)
	switch more := len(out) - room; {
	case err != nil:
		r.holding.Give(room)
	case more >= small:
		err = r.holding.Take(more)
	}
	return out, err
}

// answerAround is about the length of an answer without its result, in bytes.
const answerAround = 128

// panicked tells the operator of a panic, and tells the client as little as possible.
func (d *Dispatcher) panicked(r *Request, c *call, p any) fault {
	d.metrics.panics.WithLabelValues(c.name()).Inc()
	d.log.Error("handler panicked", "method", c.name(), "request_id", r.ID,
		"panic", p, "stack", string(debug.Stack()))
	return d.config.Profile.panicFault()
}

// fault translates a handler's error and tells the operator of unforeseen ones.
func (d *Dispatcher) fault(r *Request, c *call, err error) fault {
	f, unexpected := d.config.Profile.translate(err)
	if unexpected {
		d.log.Error("call failed unexpectedly", "method", c.name(), "request_id", r.ID, "error", err)
	}
	return f
}

// faultAnswer returns the whole answer of a call that failed.
func (d *Dispatcher) faultAnswer(r *Request, c *call, f fault) []byte {
	c.failure = f
	c.failed = true
	d.metrics.errors.WithLabelValues(c.name(), errorLabel(f.code), r.Transport.String()).Inc()
	dst := appendErrorObject(appendErrorHead(nil), f.code, d.text(r, f), f.data)
	return appendTail(dst, c.answerID())
}

// text is the message as the profile words it.
func (d *Dispatcher) text(r *Request, f fault) string {
	switch {
	case d.config.Profile == ProfileHiero:
		return "[Request ID: " + r.ID + "] " + f.message
	case f.ethereum != "":
		return f.ethereum
	}
	return f.message
}
