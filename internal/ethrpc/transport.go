package ethrpc

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/internal/sleep"
)

// maxErrorBody bounds what is read of an answer that is not the one that was hoped for.
const maxErrorBody = 64 << 10

// seen is what the transport saw of one HTTP exchange, which go-ethereum's client does not hand on.
type seen struct {
	status int
	after  time.Duration
	batch  bool // several calls were sent
	whole  *wireError
	part   func() // is told of each part of the answer; may be nil
	begun  time.Time
	client *rpc.Client // the connection, once there is one; guarded by the endpoint
}

type seenKey struct{}

// wireError is the error of a JSON-RPC answer, or what providers send in its place.
type wireError struct {
	Code    int
	Message string
	Data    string
}

// watching is a transport that notes what it sees, bounds answers, and hands JSON-RPC answers on whatever their HTTP status is: some relays
// send "nonce too low" with 400.
type watching struct {
	next http.RoundTripper
	max  int64
}

// RoundTrip implements http.RoundTripper.
func (w watching) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	note, _ := r.Context().Value(seenKey{}).(*seen)
	if note == nil {
		note = &seen{}
	}
	note.status, note.after = answer.StatusCode, sleep.RetryAfter(answer.Header.Get("Retry-After"), time.Now(), longestAfter)
	body := &bounded{ReadCloser: answer.Body, left: w.max, part: note.part}
	answer.Body = body
	good := answer.StatusCode >= 200 && answer.StatusCode < 300
	if good && !note.batch {
		return answer, nil
	}
	buffered := bufio.NewReaderSize(body, 512)
	first := firstByte(buffered)
	answer.Body = struct {
		io.Reader
		io.Closer
	}{buffered, body}
	switch {
	case first == '[':
		answer.StatusCode = http.StatusOK // each of its answers is judged by itself, with the status
	case first == '{' || !good:
		text, err := io.ReadAll(io.LimitReader(buffered, maxErrorBody))
		if err != nil {
			return nil, errors.Join(err, body.Close())
		}
		note.whole = parseError(text)
		if !note.batch && first == '{' && note.whole != nil && note.whole.Code != 0 {
			answer.StatusCode = http.StatusOK
		}
		answer.Body = struct {
			io.Reader
			io.Closer
		}{bytes.NewReader(text), body}
	}
	return answer, nil
}

// firstByte looks at the first byte that is no space; 0 if there is none.
func firstByte(r *bufio.Reader) byte {
	for n := 1; n <= 64; n++ {
		peeked, _ := r.Peek(n)
		if len(peeked) < n {
			return 0
		}
		if c := peeked[n-1]; !strings.ContainsRune(" \t\r\n", rune(c)) {
			return c
		}
	}
	return 0
}

// bounded is a body with a maximum of bytes.
type bounded struct {
	io.ReadCloser
	left int64
	part func()
}

var errTooLong = errors.New("the answer is too long")

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); n > 0 && b.part != nil {
		b.part()
	}
	return n, err
}

// longestAfter bounds the pause that an endpoint may ask for: a quota of a month would end the work.
const longestAfter = 5 * time.Minute

// parseError reads the error of an answer: {"error":{…}}, {"error":"…"}, {"message":"…"}, or plain text. It returns nil if there is nothing
// of the kind, as in the page of a balancer.
func parseError(text []byte) *wireError {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] == '<' {
		return nil
	}
	if text[0] != '{' {
		if text[0] == '[' {
			return nil
		}
		return &wireError{Message: clip(string(text))}
	}
	var body struct {
		Error   json.RawMessage `json:"error"`
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(text, &body) != nil {
		return nil
	}
	out := &wireError{Message: body.Message}
	var inner struct {
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
		Data    any             `json:"data"`
	}
	switch {
	case json.Unmarshal(body.Error, &inner) == nil && (inner.Message != "" || inner.Code != nil):
		out.Message, body.Code = inner.Message, inner.Code
		out.Data = dataText(inner.Data)
	case json.Unmarshal(body.Error, &out.Message) == nil:
	}
	_ = json.Unmarshal(body.Code, &out.Code) // a code that is no number says nothing
	if out.Message == "" && out.Code == 0 {
		return nil
	}
	out.Message = clip(out.Message)
	return out
}

// maxData bounds the data of an error that is kept: the output of a contract.
const maxData = 64 << 10

// dataText returns an error's data if it is a text, or has one: hardhat and ganache put the output into an object.
func dataText(data any) string {
	switch d := data.(type) {
	case string:
		if len(d) <= maxData {
			return d
		}
	case map[string]any:
		for _, name := range []string{"data", "output", "result", "message"} {
			if text, ok := d[name].(string); ok && len(text) <= maxData {
				return text
			}
		}
	}
	return ""
}

// lost makes an Error of what a transport said, unless it is one.
func lost(name string, err error) *Error {
	if known, is := errors.AsType[*Error](err); is {
		known := *known
		known.Endpoint = cmp.Or(known.Endpoint, name)
		return &known
	}
	out := &Error{Class: Lost, Endpoint: name, Text: clip(cause(err)), silent: errors.Is(err, context.DeadlineExceeded)}
	if unsent(err) {
		out.Class = Unsent
	}
	return out
}

// handshake finds the HTTP status in what go-ethereum says of a WebSocket that was refused.
var handshake = regexp.MustCompile(`HTTP status (\d{3})`)

// undialled makes an Error of a connection that was not made.
func undialled(name string, err error) *Error {
	out := &Error{Class: Unsent, Endpoint: name, Text: clip(cause(err))}
	if found := handshake.FindStringSubmatch(out.Text); found != nil {
		out.Status, _ = strconv.Atoi(found[1])
		if class := Judge(out.Status, 0, "", ""); class.closed() {
			out.Class = class
		}
	}
	return out
}

// unsent reports whether there was no connection for a question to leave by.
func unsent(err error) bool {
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	var name *net.DNSError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &cert) || errors.As(err, &name)
}

// cause is an error's text without the URL that net/http puts before it.
func cause(err error) string {
	if withURL, is := errors.AsType[*url.Error](err); is {
		err = withURL.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("the connection was closed by the other end: %v", err)
	}
	return err.Error()
}
