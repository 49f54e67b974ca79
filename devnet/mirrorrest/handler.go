package mirrorrest

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/facts"
)

// base is where the mirror node's API lives; links in answers start with it.
const base = "/api/v1/"

// maxBody bounds a request body: 128 KiB of call data is twice that in
// hex, and state overrides may carry some contracts' code.
const maxBody = 1 << 20

// Config is what the API needs.
type Config struct {
	// View returns the ledger as this mirror node knows it by now. It is called
	// once for each request; a mirror node that lags behind the network is one
	// whose View does. Required.
	View func() *ledger.View

	// Log receives what clients are not told about a failure. Required.
	Log *slog.Logger

	// Changed returns a channel that receives after there were new blocks, and a
	// function that ends it. Without it, requests for new blocks do not wait.
	Changed func() (changed <-chan struct{}, cancel func())

	// Closing, when it is closed, ends waits for new blocks: the server stops.
	Closing <-chan struct{}

	// Fault, where set, is asked about every request and may spoil its answer.
	Fault func(*http.Request) Fault

	// Origin, where set, answers about what was before the network began: it is a fork.
	Origin Origin
}

// New returns the HTTP handler of the whole API. Every answer is computed from the
// View of its moment; nothing is kept between requests.
func New(cfg Config) http.Handler {
	s := &server{Config: cfg, routes: table()}
	s.routes.add(http.MethodGet, "devnet/blocks", takes(single, params{"from": isExactCount, "wait": isExactCount}, s.followBlocks))
	return s
}

type server struct {
	Config
	routes routes
}

// A request is what a handler works on.
type request struct {
	*http.Request
	view   *ledger.View
	args   []string // the variable parts of the path
	status int      // of the answer; handlers change it for a success other than 200
	header http.Header
}

// self is the request's path as links repeat it.
func (r *request) self() string { return strings.TrimSuffix(r.URL.EscapedPath(), "/") }

// plain is an answer that is text rather than JSON.
type plain string

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r)
	allowEveryOrigin(w.Header())
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if s.Fault != nil {
		if w = s.spoil(w, r); w == nil {
			return
		}
	}
	handle, args := s.routes.find(r.Method, r.URL.EscapedPath())
	if handle == nil {
		s.write(w, http.StatusNotFound, notFound().body())
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.sayGeneration(w.Header()) // before the view: what comes from a history that is gone must say so
	req := &request{Request: r, view: s.View(), args: args, status: http.StatusOK, header: w.Header()}
	answer, err := s.answer(req, handle)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if out, ok := answer.(object); ok {
		if l, paged := out["links"].(links); paged && l.Next != nil {
			w.Header().Set("Link", "<"+*l.Next+`>; rel="next"`)
		}
	}
	s.write(w, req.status, answer)
}

// answer has the origin answer where it knows more.
func (s *server) answer(r *request, handle handler) (any, error) {
	if s.Origin == nil {
		return handle(r)
	}
	f := &forked{request: r, origin: s.Origin, handle: handle}
	return f.answer()
}

// A development chain's mirror is read by pages from anywhere.
func allowEveryOrigin(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "*")
}

// fail answers with a problem. The cause of an unforeseen one stays in the log; that
// the client went away is none.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	var p *problem
	if !errors.As(err, &p) {
		s.Log.ErrorContext(r.Context(), "mirror request failed", "path", r.URL.Path, "error", err)
		p = detailed(http.StatusInternalServerError, "")
	}
	s.write(w, p.status, p.body())
}

// recover keeps a fault in one request from ending the process.
func (s *server) recover(w http.ResponseWriter, r *http.Request) {
	if fault := recover(); fault != nil {
		if failed, ok := fault.(*facts.UpstreamError); ok {
			s.write(w, http.StatusServiceUnavailable, unavailable(failed).body())
			return
		}
		if fault == http.ErrAbortHandler { //nolint:errorlint // a recovered value, compared as net/http does
			panic(fault)
		}
		s.Log.ErrorContext(r.Context(), "mirror request panicked", "path", r.URL.Path, "panic", fault, "stack", string(debug.Stack()))
		s.write(w, http.StatusInternalServerError, detailed(http.StatusInternalServerError, "").body())
	}
}

func (s *server) write(w http.ResponseWriter, status int, answer any) {
	var body bytes.Buffer
	switch a := answer.(type) {
	case plain:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		body.WriteString(string(a))
	default:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false) // links keep their ampersands
		if err := encoder.Encode(answer); err != nil {
			s.Log.Error("mirror answer cannot be encoded", "error", err)
			status = http.StatusInternalServerError
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client is gone; nothing to tell it
}

// A problem is an answer other than success: the HTTP status and the messages
// of the body {"_status":{"messages":[…]}} that every endpoint shares.
type problem struct {
	status   int
	messages []message
}

// A message is one entry of a problem. Detail and Data are pointers because one
// family of endpoints always sends them, if only empty, and the other leaves
// them out.
type message struct {
	Message string  `json:"message"`
	Detail  *string `json:"detail,omitempty"`
	Data    *string `json:"data,omitempty"`
}

// Error joins the messages for a log line.
func (p *problem) Error() string {
	texts := make([]string, len(p.messages))
	for i, m := range p.messages {
		texts[i] = m.Message
	}
	return strings.Join(texts, ", ")
}

func (p *problem) body() object {
	return object{"_status": object{"messages": p.messages}}
}

// badRequest is a 400 whose entries carry nothing but their text.
func badRequest(texts ...string) *problem {
	p := &problem{status: http.StatusBadRequest}
	for _, t := range texts {
		p.messages = append(p.messages, message{Message: t})
	}
	return p
}

// invalidParameter is the 400 for a value that does not parse.
func invalidParameter(name string) *problem { return badRequest("Invalid parameter: " + name) }

// notFound is the 404 of the endpoints that read records.
func notFound() *problem {
	return &problem{status: http.StatusNotFound, messages: []message{{Message: "Not found"}}}
}

// detailed is an error of the endpoints that execute code or read the network's
// own tables: the reason phrase as the message and the cause as the detail.
func detailed(status int, details ...string) *problem {
	p := &problem{status: status}
	for _, d := range details {
		p.messages = append(p.messages, fullMessage(http.StatusText(status), d, ""))
	}
	return p
}

// fullMessage is an entry with all three keys present.
func fullMessage(text, detail, data string) message {
	return message{Message: text, Detail: &detail, Data: &data}
}
