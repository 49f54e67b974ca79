package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

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
