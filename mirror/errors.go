package mirror

import (
	"errors"
	"fmt"

	"lockstep/mirror/fetch"
)

// What can go wrong with any request; see package fetch.
var (
	ErrNotFound = fetch.ErrNotFound
	ErrTooLong  = fetch.ErrTooLong
)

// Statuses of an Error when there was no usable HTTP answer; see package fetch.
const (
	StatusTimeout    = fetch.StatusTimeout
	StatusUnreadable = fetch.StatusUnreadable
	StatusNoAnswer   = fetch.StatusNoAnswer
)

// Error is a failed request, and Message a further part of it.
type (
	Error   = fetch.Error
	Message = fetch.Message
)

// ErrImmature says that a record was still incomplete at the end of the wait.
var ErrImmature = errors.New("immature record")

// PagesError says that a list has more pages than may be read.
type PagesError struct {
	Limit int // pages that were read
}

func (e *PagesError) Error() string {
	return fmt.Sprintf("mirror node: more than %d pages", e.Limit)
}
