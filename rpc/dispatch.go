package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/clientip"
	"lockstep/internal/envx"
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

// Handler runs one call and returns its result or an error. jsonx.Append writes the result, mostly by
// encoding/json. An error with an ErrorCode() method is shown to the
// client, any other becomes -32603.
//
// The context carries the Request (FromContext) and ends when the request's time
// is up, when the client goes away, or when the server gives up draining.
type Handler func(ctx context.Context, p *Params) (any, error)

// EnterHandler is the first half of a call whose place in line is its place in
// the request. The dispatcher calls Enter for the items of a batch strictly in
// array order, and for the messages of one WebSocket connection in order of
// arrival; so it must not block. The Finish it returns runs later, concurrently
// with other calls, and may wait. If Enter returns an error, that is the answer.
//
// Neither Enter's parameters nor views of them may be kept for Finish: their memory
// is used for other requests by then.
//
// A Finish that was returned is always run exactly once, even if the client has gone, so that it can give back
// whatever Enter took.
//
// Over WebSocket, a two-phase call that is alone in its message is answered when its Finish has run, however long
// that takes: "request timeout" would be wrong for a call that is still in line. Its context ends with the
// connection, not with the time of other calls. A connection that has ended does not wait for it. In batches and
// over HTTP the time-out is that of all calls.
type EnterHandler func(ctx context.Context, p *Params) (Finish, error)

// Finish is the second half of a two-phase call.
type Finish interface {
	// Run returns the result, as a Handler does. It may wait.
	Run(ctx context.Context) (any, error)
}

// FinishFunc is a Finish that is only a function.
type FinishFunc func(ctx context.Context) (any, error)

// Run implements Finish.
func (f FinishFunc) Run(ctx context.Context) (any, error) { return f(ctx) }

// Patient is a Finish that tells when its turn has come. Where thousands of calls may wait, Run is called only
// then, so that they wait without a goroutine.
type Patient interface {
	Finish
	// Notify calls f, once and in a goroutine of its own, when Run would not wait for its turn any more, whatever
	// ended the wait. It must not block. If it returns false, f is not called, and Run is to be called at once.
	// ctx is the one that Run will get.
	Notify(ctx context.Context, f func()) bool
}

// Method is one row of the method table.
type Method struct {
	// Name as in the request, case-sensitive: "eth_chainId".
	Name string
	// Params are the rules for the positional parameters. More parameters than rules are an error.
	Params []Param
	// AnyParams accepts and ignores whatever the params member holds.
	AnyParams bool
	// Handler or Enter, exactly one of them.
	Handler Handler
	Enter   EnterHandler
	// Inline declares that the handler never waits for anything: no network, no
	// contended lock. It then runs in the goroutine that reads the request, without
	// a deadline, and must not keep views of its parameters.
	Inline bool
	// Weight is the load of a call on what is behind the server: the number of places that it takes among the
	// calls that run at the same time. A call with 0 takes none.
	Weight int
	// WebSocketOnly hides the method from HTTP, as for subscriptions.
	WebSocketOnly bool
}

// Registry is an immutable method table.
type Registry struct {
	methods map[string]*Method
}

// NewRegistry checks the rows and builds the table. All mistakes are reported at
// once.
func NewRegistry(methods ...Method) (*Registry, error) {
	r := &Registry{methods: make(map[string]*Method, len(methods))}
	var errs []error
	for _, m := range methods {
		if err := m.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		if _, twice := r.methods[m.Name]; twice {
			errs = append(errs, fmt.Errorf("method %s is declared twice", m.Name))
			continue
		}
		row := m
		r.methods[m.Name] = &row
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("method table: %w", err)
	}
	return r, nil
}

func (m *Method) check() error {
	switch {
	case m.Name == "":
		return errors.New("a method has no name")
	case (m.Handler == nil) == (m.Enter == nil):
		return fmt.Errorf("method %s needs either Handler or Enter", m.Name)
	case m.Inline && m.Enter != nil:
		return fmt.Errorf("method %s has two phases and cannot be inline", m.Name)
	case m.AnyParams && len(m.Params) > 0:
		return fmt.Errorf("method %s has rules for parameters and ignores them", m.Name)
	case len(m.Params) > maxParams:
		return fmt.Errorf("method %s has more than %d parameters", m.Name, maxParams)
	}
	optional := false
	for i, p := range m.Params {
		if p.Rule.Check == nil {
			return fmt.Errorf("method %s: parameter %d has no rule", m.Name, i)
		}
		if p.Required && optional {
			return fmt.Errorf("method %s: required parameter %d follows an optional one", m.Name, i)
		}
		optional = !p.Required
	}
	return nil
}

// namespaceRPC is the namespace of methods that list the others. Every transport that serves anything serves
// them.
const namespaceRPC = "rpc"

// Namespace is the part of a method's name before the first underscore; the whole name if there is none.
// rpc.discover has its name from the OpenRPC specification.
func Namespace(method string) string {
	if method == "rpc.discover" {
		return namespaceRPC
	}
	before, _, _ := strings.Cut(method, "_")
	return before
}

// MethodLimits says how often one address may call some methods per window, by a method's name or by
// how several names begin: debug_* means all methods of that namespace, each by itself.
type MethodLimits map[string]int

// UnmarshalText reads name=calls, separated by commas or as a JSON array of such strings.
func (l *MethodLimits) UnmarshalText(text []byte) error {
	var items envx.Strings
	if err := items.UnmarshalText(text); err != nil {
		return err
	}
	*l = nil
	limits := make(MethodLimits, len(items))
	for _, item := range items {
		name, calls, _ := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		limit, err := strconv.Atoi(strings.TrimSpace(calls))
		if err != nil || limit < 0 || !isMethodPattern(name) {
			return fmt.Errorf("%q is not a method with its calls per window, such as eth_getLogs=50 or debug_*=5", item)
		}
		if _, twice := limits[name]; twice {
			return fmt.Errorf("%s is there twice", name)
		}
		limits[name] = limit
	}
	if len(limits) > 0 {
		*l = limits
	}
	return nil
}

// isMethodPattern reports whether a name can be that of a method, or the beginning of one with a star.
func isMethodPattern(name string) bool {
	stem := strings.TrimSuffix(name, "*")
	return name != "" && strings.IndexFunc(stem, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// String returns the limits as they can be read again, in order of the names.
func (l MethodLimits) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%d", name, l[name])
	}
	return b.String()
}

// MarshalText returns what String does.
func (l MethodLimits) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// of returns the limit of a method: that of its name, or else that of the longest beginning.
func (l MethodLimits) of(method string) (limit int, ok bool) {
	if limit, ok = l[method]; ok || len(l) == 0 {
		return limit, ok
	}
	longest := -1
	for pattern, calls := range l {
		stem, many := strings.CutSuffix(pattern, "*")
		if many && len(stem) > longest && strings.HasPrefix(method, stem) {
			limit, ok, longest = calls, true, len(stem)
		}
	}
	return limit, ok
}

// IdleLimits returns the names and patterns in limits of methods that no method of the table has. The operator is
// told of them: they may be misspelt.
func (d *Dispatcher) IdleLimits(limits MethodLimits) []string {
	return slices.Sorted(maps.Keys(withoutMethods(d, maps.Clone(limits))))
}

// withoutMethods deletes from patterns what a method of the table fits.
func withoutMethods[M ~map[string]V, V any](d *Dispatcher, patterns M) M {
	for pattern := range patterns {
		stem, many := strings.CutSuffix(pattern, "*")
		for name := range d.methods {
			if name == pattern || many && strings.HasPrefix(name, stem) {
				delete(patterns, pattern)
				break
			}
		}
	}
	return patterns
}

// TierLimit returns how many calls of a method of the tier one address may make per window. Tier 0 has the
// methods that no other tier has.
func (c *RateLimitConfig) TierLimit(tier int) int {
	switch tier {
	case 1:
		return c.Tier1
	case 2:
		return c.Tier2
	case 3:
		return c.Tier3
	}
	return c.Default
}

// MethodLimit returns how many calls of a method of the tier one address may make per window: the limit that the
// method has for itself, or else that of its tier.
func (c *RateLimitConfig) MethodLimit(method string, tier int) int {
	if limit, ok := c.Methods.of(method); ok {
		return limit
	}
	return c.TierLimit(tier)
}
