package ethchain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"lockstep/internal/outage"
)

// maxAnswer bounds what is read from an endpoint.
const maxAnswer = 32 << 20

// endpoint is one URL.
type endpoint struct {
	name   string
	url    string
	client *http.Client
	outage.Rest
}

// transportError says that a question, or its answer, was lost.
type transportError struct{ err error }

// dialError says that there was no connection for a question to leave by.
type dialError struct{ text string }

func (e *dialError) Error() string { return e.text }

// unsent reports whether a question has certainly not left.
func unsent(err error) bool {
	var dial *dialError
	return errors.As(err, &dial)
}

func (e *transportError) Error() string { return e.err.Error() }
func (e *transportError) Unwrap() error { return e.err }

// callError is an answer that is an error.
type callError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func (e *callError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type reply struct {
	ID     *int            `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *callError      `json:"error"`
}

// question is one call of a batch, with what came of it.
type question struct {
	method string
	params []any
	result json.RawMessage
	err    error
}

func ask(method string, params ...any) *question { return &question{method: method, params: params} }

// into decodes the result; a result of null leaves the target as it is and is false.
func (q *question) into(target any) (bool, error) {
	if q.err != nil {
		return false, q.err
	}
	if len(q.result) == 0 || string(q.result) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(q.result, target); err != nil {
		return false, &transportError{fmt.Errorf("%s: %w", q.method, err)}
	}
	return true, nil
}

// batch asks several questions in one HTTP request. Each gets its result or error; those
// without an answer get a transportError. The error returned is the transport's.
func (e *endpoint) batch(ctx context.Context, list ...*question) error {
	err := e.exchange(ctx, list)
	if err == nil {
		e.Well()
		return nil
	}
	for _, q := range list {
		if q.result == nil && q.err == nil {
			q.err = &transportError{err}
		}
	}
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.Failed()
	}
	return &transportError{err}
}

func (e *endpoint) exchange(ctx context.Context, list []*question) error {
	requests := make([]request, len(list))
	for n, q := range list {
		requests[n] = request{Version: "2.0", ID: n, Method: q.method, Params: q.params}
		if q.params == nil {
			requests[n].Params = []any{}
		}
	}
	var body []byte
	var err error
	if len(list) == 1 {
		body, err = json.Marshal(requests[0])
	} else {
		body, err = json.Marshal(requests)
	}
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("not a URL that can be asked")
	}
	post.Header.Set("Content-Type", "application/json")
	answer, err := e.client.Do(post)
	if err != nil {
		text := e.name + ": " + cause(err)
		var failed *net.OpError
		if errors.As(err, &failed) && failed.Op == "dial" {
			return &dialError{text}
		}
		return errors.New(text)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return errors.New(e.name + ": " + cause(err))
	}
	var replies []reply
	if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '[' {
		err = json.Unmarshal(text, &replies)
	} else {
		replies = make([]reply, 1)
		err = json.Unmarshal(text, &replies[0])
	}
	if err != nil || len(replies) == 1 && replies[0].Result == nil && replies[0].Error == nil {
		return fmt.Errorf("%s: HTTP %d without a JSON-RPC answer", e.name, answer.StatusCode)
	}
	return match(list, replies, e.name)
}

// match gives each question its reply. A single error without an id answers all.
func match(list []*question, replies []reply, name string) error {
	answered := make([]bool, len(list))
	for _, r := range replies {
		n := 0
		if r.ID != nil {
			n = *r.ID
		} else if r.Error != nil && len(replies) == 1 && len(list) > 1 {
			return errors.New(name + " refused a batch: " + r.Error.Message)
		}
		if n < 0 || n >= len(list) || answered[n] {
			continue
		}
		answered[n] = true
		if r.Error != nil {
			list[n].err = r.Error
		} else {
			list[n].result = r.Result
		}
	}
	for n := range list {
		if !answered[n] {
			return errors.New(name + " left out an answer")
		}
	}
	return nil
}

// cause is an error's text without the URL that net/http puts before it.
func cause(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// order returns the endpoints as they should be asked.
func (c *Chain) order() []*endpoint { return outage.Order(c.endpoints) }

// one asks questions of one endpoint, going to the next when it does not answer.
func (c *Chain) one(ctx context.Context, list ...*question) (*endpoint, error) {
	var errs []error
	for _, e := range c.order() {
		for _, q := range list {
			q.result, q.err = nil, nil
		}
		part, cancel := context.WithTimeout(ctx, c.timeout)
		err := e.batch(part, list...)
		cancel()
		if err == nil {
			return e, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}
