package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"lockstep/internal/clip"
)

// ErrNotFound says that the mirror node knows no such thing.
var ErrNotFound = errors.New("not found")

// ErrTooLong says that an answer was longer than it may be. It is in the tree of an
// *Error.
var ErrTooLong = errors.New("the answer is longer than allowed")

// Statuses of an Error when there was no usable HTTP answer.
const (
	StatusTimeout    = http.StatusGatewayTimeout // no answer in time
	StatusUnreadable = http.StatusBadGateway     // an answer that cannot be read
	StatusNoAnswer   = 567                       // no connection, or one that broke
)

// errForeign says that a 404 comes from something in front of the mirror node, such as a gateway that has lost its way to
// it. It says nothing of what the mirror node knows.
var errForeign = errors.New("a 404 that is not the mirror node's")

// itsWord tells whether the body of an error has the form that all endpoints of a mirror node share.
func itsWord(body []byte) bool {
	var answer struct {
		Status *json.RawMessage `json:"_status"`
	}
	return len(body) <= longestError && json.Unmarshal(body, &answer) == nil && answer.Status != nil
}

// Error is a failed request. Its text holds what the mirror node said and names no
// host.
type Error struct {
	Status   int    // HTTP status, or StatusTimeout or StatusNoAnswer made here
	Message  string // what the mirror node said, else what happened
	Detail   string // more about it; may be empty
	Data     string // 0x-prefixed revert data of a call; may be empty
	Children []Message
	// Told: the mirror node itself said so, and not something in front of it or nobody.
	Told bool

	cause      error
	retryAfter time.Duration // how long the mirror node wants no requests
}

// Message is a further part of an error: the failure of an inner call.
type Message struct {
	Message, Detail, Data string
}

// Error is for logs and people. StatusNoAnswer is for clients that know it from the TypeScript relay; nobody said it here.
func (e *Error) Error() string {
	text := "mirror node: "
	if e.Status != StatusNoAnswer {
		text += fmt.Sprintf("%d ", e.Status)
	}
	text += e.Message
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Unwrap returns what went wrong below HTTP, if anything did.
func (e *Error) Unwrap() error { return e.cause }

const (
	longestError = 2 << 20 // bytes of the body of an error; a longer one is not read
	longestText  = 4096    // bytes of each text that goes into answers and logs
	maxChildren  = 64
)

// errorOf reads the body of an answer that is not a success. If the body says nothing, the status is the message.
func errorOf(status int, body []byte) *Error {
	e := &Error{Status: status, Message: fmt.Sprintf("Request failed with status code %d", status)}
	var answer struct {
		Status struct{ Messages []Message } `json:"_status"`
	}
	if len(body) > longestError || json.Unmarshal(body, &answer) != nil {
		return e
	}
	messages := answer.Status.Messages
	for len(messages) > 0 && messages[0].Message == "" {
		messages = messages[1:]
	}
	if len(messages) == 0 {
		return e
	}
	e.Told = true
	messages = messages[:min(len(messages), 1+maxChildren)]
	for i := range messages {
		messages[i].Message, messages[i].Detail = clip.Text(messages[i].Message, longestText), clip.Text(messages[i].Detail, longestText)
	}
	e.Message, e.Detail, e.Data = messages[0].Message, messages[0].Detail, messages[0].Data
	if len(messages) > 1 {
		e.Children = slices.Clone(messages[1:])
	}
	return e
}
