package ethrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"
)

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

// TimedOut reports whether an error is that an endpoint did not answer in time.
func TimedOut(err error) bool {
	answer, is := errors.AsType[*Error](err)
	return is && answer != nil && answer.silent
}
