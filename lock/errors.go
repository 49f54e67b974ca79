package lock

import (
	"errors"
	"strconv"
)

// Sentinels. ErrLost, ErrReleased and ErrClosed can be the cause of a lease's context.
var (
	// ErrLost means the turn is over although the holder did not end it: the hold limit passed, or the lock went
	// to another. The holder must not send anything more.
	ErrLost = errors.New("the sender's lock was lost")
	// ErrReleased means the holder itself ended the turn.
	ErrReleased = errors.New("the sender's lock was released")
	// ErrLeft means the ticket gave up its place, by Leave or through its context.
	ErrLeft = errors.New("the place in the sender's queue was given up")
	// ErrInVain is the cause of ErrLeft when the limit given to WaitWithin or Notify has passed.
	ErrInVain = errors.New("the turn did not come in time")
	// ErrClosed means the service has stopped.
	ErrClosed = errors.New("the lock service has stopped")
	// ErrQueueFull means that too many transactions of the sender wait already. See QueueFullError.
	ErrQueueFull = errors.New("the sender's queue is full")
	// ErrUnavailable means that a call needs Redis, which does not answer. Taking a turn never returns it: the
	// order inside the process decides then.
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
