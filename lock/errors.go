package lock

import (
	"errors"
	"strconv"
)

// Sentinels. All but ErrQueueFull can be the cause of a lease's context.
var (
	// ErrLost means the turn is over although the holder did not end it: the hold limit passed, or the lock
	// went to another. The holder must not send anything more on the strength of it.
	ErrLost = errors.New("the sender's lock was lost")
	// ErrReleased means the holder itself ended the turn.
	ErrReleased = errors.New("the sender's lock was released")
	// ErrLeft means the ticket gave up its place, by Leave or through its context.
	ErrLeft = errors.New("the place in the sender's queue was given up")
	// ErrClosed means the service has stopped.
	ErrClosed = errors.New("the lock service has stopped")
	// ErrQueueFull means that too many transactions of the sender wait already. See QueueFullError.
	ErrQueueFull = errors.New("the sender's queue is full")
	// ErrUnavailable means that Redis is needed for what was asked and does not answer. Taking a turn never
	// returns it: that fails open to the order inside the process.
	ErrUnavailable = errors.New("redis is unavailable")
)

// QueueFullError is an ErrQueueFull that tells how many were waiting.
type QueueFullError struct {
	Length int // transactions of the sender waiting in this process
}

// Error says that the queue is full, and its length.
func (e *QueueFullError) Error() string {
	return ErrQueueFull.Error() + ": " + strconv.Itoa(e.Length) + " waiting"
}

// Is makes errors.Is(err, ErrQueueFull) true.
func (e *QueueFullError) Is(target error) bool { return target == ErrQueueFull }
