package diff

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// maxLine bounds a line of the input; relays refuse bodies of a few megabytes.
const maxLine = 32 << 20

// request is one line of the input.
type request struct {
	line    int               // of the input, from 1
	body    []byte            // as it is sent
	method  string            // of a single request; "batch", or "invalid" for what is no request
	methods map[string]string // of a batch, by id as it is spelt; nil otherwise
}

// Methods of what is not a single request.
const (
	batchMethod   = "batch"
	invalidMethod = "invalid"
)

// envelope is a request as far as it matters here.
type envelope struct {
	Version json.RawMessage `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  *string         `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
}

func (e envelope) name() string {
	if e.Method == nil {
		return invalidMethod
	}
	return *e.Method
}

// readRequests yields the requests of the input one after another. An error is the
// last thing it yields.
func readRequests(in io.Reader) iter.Seq2[request, error] {
	return func(yield func(request, error) bool) {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxLine)
		n := 0
		for lines.Scan() {
			n++
			r, err := parseLine(n, bytes.TrimSpace(lines.Bytes()))
			if err != nil {
				yield(request{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if r.body != nil && !yield(r, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(request{}, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

// parseLine returns a request without a body for a line that is none.
func parseLine(n int, line []byte) (request, error) {
	text, verbatim := bytes.CutPrefix(line, []byte(">>"))
	switch {
	case verbatim:
		return classify(n, bytes.Clone(bytes.TrimSpace(text))), nil
	case len(line) == 0, line[0] == '#', bytes.HasPrefix(line, []byte("//")), bytes.HasPrefix(line, []byte("<<")):
		return request{}, nil
	case !json.Valid(line):
		return request{}, errors.New(`not JSON; a request that is meant to be wrong goes behind ">> "`)
	case line[0] == '[':
		return classify(n, bytes.Clone(line)), nil
	}
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil || e.Method == nil {
		return request{}, errors.New(`want a request: {"method": …, "params": […]}`)
	}
	if e.Version != nil || e.ID != nil {
		return classify(n, bytes.Clone(line)), nil
	}
	e.Version, e.ID = json.RawMessage(`"2.0"`), fmt.Appendf(nil, "%d", n)
	body, err := json.Marshal(e)
	return request{line: n, body: body, method: *e.Method}, err
}

// classify finds out what a body asks for.
func classify(n int, body []byte) request {
	r := request{line: n, body: body, method: invalidMethod}
	var one envelope
	var many []envelope
	switch {
	case json.Unmarshal(body, &one) == nil:
		r.method = one.name()
	case json.Unmarshal(body, &many) == nil:
		r.method = batchMethod
		r.methods = make(map[string]string, len(many))
		for _, e := range many {
			r.methods[string(e.ID)] = e.name()
		}
	}
	return r
}

// writes tells whether the request changes something.
func (r request) writes() bool {
	if changes(r.method) {
		return true
	}
	for _, m := range r.methods {
		if changes(m) {
			return true
		}
	}
	return false
}

func changes(method string) bool {
	return strings.HasPrefix(method, "eth_send") || strings.HasPrefix(method, "admin_") || strings.HasPrefix(method, "personal_")
}

// excerpt is the beginning of the body, for people. It contains nothing that a terminal
// would take for a command.
func (r request) excerpt() string { return printable(r.body, 160) }
