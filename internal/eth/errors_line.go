package eth

import "fmt"

// What a transaction is told that waited in its sender's line.

// ErrPredecessorMissing says: the transaction before this one was not executed in time, and this
// one certainly was not executed.
func ErrPredecessorMissing(nonce uint64) *Error {
	return newError(CodeServerError, "The transaction before nonce %d was not executed in time. This one was not executed; send it again.", nonce)
}

// ErrTurnTooLate says: others of the sender were before it for as long as it may wait, and it certainly was
// not executed.
func ErrTurnTooLate(nonce uint64) *Error {
	return newError(CodeServerError, "The turn of nonce %d did not come in time, behind others of this sender. Nothing was submitted; send it again.", nonce)
}

// ErrTooManyInProgress says: this process has as many transactions in progress, of all senders, as it may.
func ErrTooManyInProgress(inProgress int) *Error {
	return &Error{
		Code:    CodeServerError,
		Message: fmt.Sprintf("This relay has too many transactions in progress: %d. Nothing was submitted; try again later.", inProgress),
		Data:    map[string]any{"inProgress": inProgress},
	}
}

// ErrQueueFull says: the sender has as many transactions waiting here as it may.
func ErrQueueFull(waiting int) *Error {
	return &Error{
		Code:    CodeServerError,
		Message: fmt.Sprintf("Too many transactions of this sender are waiting: %d. Nothing was submitted; try again later.", waiting),
		Data:    map[string]any{"queueLength": waiting},
	}
}
