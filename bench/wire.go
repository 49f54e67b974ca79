package bench

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

// maxReplyBytes bounds one answer of a target.
const maxReplyBytes = 32 << 20

// A link carries JSON-RPC messages to one URL. Messages leave in the order of the
// send calls of one goroutine: this is what makes the load's nonce order a fact about
// the target and not about the generator.
type link interface {
	// send writes x to the wire and returns. x.done is called exactly once, from any
	// goroutine, possibly before send returns.
	send(ctx context.Context, x *exchange)
	// close drops the connections; what is unanswered fails with errClosed. It returns
	// when every done has been called.
	close()
}

// An exchange is one call and its answer.
type exchange struct {
	body  []byte
	id    uint64
	lane  int // a WebSocket link keeps the messages of a lane on one connection
	start time.Time
	done  func(reply)
}

// A reply is the answer to an exchange, or the reason why there is none.
type reply struct {
	message
	at  time.Time
	err error
}

// A message is one JSON-RPC response.
type message struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

// rpcError is the error object of a response.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%d %s", e.Code, printable(e.Message)) }

var (
	errClosed     = errors.New("cancelled before the answer")
	errTimeout    = errors.New("no answer in time")
	errNotJSONRPC = errors.New("the answer is not JSON-RPC")
	errTooLong    = errors.New("the answer is too long")
)

// statusError is an HTTP status whose body is not JSON-RPC.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("HTTP status %d", int(e)) }

// id returns the numeric id of m; ok is false for null and foreign ids.
func (m message) id() (id uint64, ok bool) {
	id, err := strconv.ParseUint(string(m.ID), 10, 64)
	return id, err == nil
}

// parseReply decodes a response.
func parseReply(body []byte) (m message, err error) {
	if err = json.Unmarshal(body, &m); err == nil && m.Result == nil && m.Error == nil {
		err = errNotJSONRPC
	}
	return m, err
}

// linkOptions say what a link is to have.
type linkOptions struct {
	conns   int // connections, all of them open when dial returns
	largest int // bytes of the largest message over HTTP
	timeout time.Duration
}

// dial opens a link to rawURL.
func dial(ctx context.Context, rawURL string, o linkOptions) (link, error) {
	u, err := parseURL(rawURL, targetSchemes...)
	if err != nil {
		return nil, err
	}
	if overWS(u) {
		return dialWS(ctx, u, o.conns, o.timeout)
	}
	return dialHTTP(ctx, u, o)
}

// transportError is a failure of the transport that may be shown: it has the name of its
// class for a message.
type transportError struct{ err error }

func (e transportError) Error() string { return transportClass(e.err) }
func (e transportError) Unwrap() error { return e.err }

// transportClass names a failure of the transport by its kind: a bounded set, and
// without the addresses that the messages of package net contain.
func transportClass(err error) string {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	var netErr net.Error
	var status statusError
	var closing *websocket.CloseError
	switch {
	case errors.As(err, &status), errors.Is(err, errNotJSONRPC), errors.Is(err, errTooLong):
		return err.Error()
	case errors.Is(err, errClosed), errors.Is(err, context.Canceled):
		return errClosed.Error()
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return errTimeout.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.As(err, &closing) && closing.Code != websocket.CloseAbnormalClosure: // which no server sends
		return fmt.Sprintf("WebSocket closed with code %d", closing.Code)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "connection closed without an answer"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "out of file descriptors here"
	case errors.As(err, &certificate), errors.As(err, &record):
		return "TLS refused"
	case errors.As(err, &dns):
		return "unknown host"
	}
	return "transport failure"
}
