package mirror

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrNotFound says that the mirror node knows no such thing.
var ErrNotFound = errors.New("not found")

// ErrImmature says that a record stayed incomplete for as long as was waited.
var ErrImmature = errors.New("immature record")

// ErrTooLong says that an answer was longer than it may be. It is in the tree of an
// *Error.
var ErrTooLong = errors.New("the answer is longer than allowed")

// Statuses of an Error when there was no usable HTTP answer.
const (
	StatusTimeout    = http.StatusGatewayTimeout // no answer in time
	StatusUnreadable = http.StatusBadGateway     // an answer that is not what was asked for
	StatusNoAnswer   = 567                       // no connection, or one that broke
)

// Error is a failed request. Its text holds what the mirror node said and names no
// host.
type Error struct {
	Status   int    // HTTP status, or StatusTimeout or StatusNoAnswer made here
	Message  string // what the mirror node said, else what happened
	Detail   string // more about it; may be empty
	Data     string // 0x-prefixed revert data of a call; may be empty
	Children []Message

	cause      error
	retryAfter time.Duration // the mirror node asked not to be asked for so long
}

// Message is a further part of an error: what failed in an inner call.
type Message struct {
	Message, Detail, Data string
}

func (e *Error) Error() string {
	if e.Detail != "" {
		return fmt.Sprintf("mirror node: %d %s: %s", e.Status, e.Message, e.Detail)
	}
	return fmt.Sprintf("mirror node: %d %s", e.Status, e.Message)
}

// Unwrap returns what went wrong below HTTP, if anything did.
func (e *Error) Unwrap() error { return e.cause }

// PagesError says that a list has more pages than may be read.
type PagesError struct {
	Limit int // pages that were read
}

func (e *PagesError) Error() string {
	return fmt.Sprintf("mirror node: more than %d pages", e.Limit)
}

// errorOf reads the body of an answer that is not a success. A body that says
// nothing leaves the status to speak.
func errorOf(status int, body []byte) *Error {
	e := &Error{Status: status}
	err := decode(body, func(r *reader) {
		r.object(func(key []byte) {
			if string(key) != "_status" {
				r.skip()
				return
			}
			r.object(func(key []byte) {
				if string(key) != "messages" {
					r.skip()
					return
				}
				r.array(func() bool {
					e.add(readMessage(r))
					return true
				})
			})
		})
	})
	if err != nil || e.Message == "" {
		*e = Error{Status: status, Message: fmt.Sprintf("Request failed with status code %d", status)}
	}
	return e
}

func readMessage(r *reader) (m Message) {
	r.object(func(key []byte) {
		switch string(key) {
		case "message":
			m.Message = clip(r.str())
		case "detail":
			m.Detail = clip(r.str())
		case "data":
			m.Data = r.str()
		default:
			r.skip()
		}
	})
	return m
}

func (e *Error) add(m Message) {
	const mostChildren = 64
	switch {
	case e.Message == "":
		e.Message, e.Detail, e.Data = m.Message, m.Detail, m.Data
	case len(e.Children) < mostChildren:
		e.Children = append(e.Children, m)
	}
}

// clip bounds text that ends up in answers and logs.
func clip(text string) string {
	const longest = 4096
	if len(text) > longest {
		return text[:longest]
	}
	return text
}
