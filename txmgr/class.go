package txmgr

import (
	"context"
	"errors"
	"fmt"
)

// Class is what an endpoint's answer to a transaction means.
type Class string

// The classes of answers.
const (
	ClassKnown      Class = "known"       // it has these very bytes already: as good as taken
	ClassSlotTaken  Class = "slot_taken"  // another payload waits at this nonce
	ClassNonceUsed  Class = "nonce_used"  // the nonce is consumed, by whom it does not say
	ClassGap        Class = "gap"         // a lower nonce is missing
	ClassFeeTooLow  Class = "fee_too_low" // refused for its fees
	ClassFunds      Class = "funds"       // the account cannot pay
	ClassFatal      Class = "fatal"       // no endpoint of this chain can ever execute it
	ClassPoolPolicy Class = "pool_policy" // this endpoint does not take it now
	ClassOverCap    Class = "over_cap"    // it is above a limit of this endpoint: of its fee, gas or size
	ClassTransport  Class = "transport"   // the answer, or the question, was lost
	ClassAmbiguous  Class = "ambiguous"   // an answer that nobody knows
	ClassNotSent    Class = "not_sent"    // certainly no byte left this process
)

// Certain reports whether the class proves that the endpoint did not take the bytes.
func (c Class) Certain() bool {
	switch c {
	case ClassSlotTaken, ClassFeeTooLow, ClassFunds, ClassFatal, ClassPoolPolicy, ClassOverCap, ClassNotSent, ClassGap:
		return true
	default:
		return false
	}
}

// Firm reports whether the class is a refusal of what a transaction is, which repeating does not change by itself.
func (c Class) Firm() bool {
	switch c {
	case ClassFunds, ClassFeeTooLow, ClassOverCap, ClassAmbiguous, ClassFatal:
		return true
	default:
		return false
	}
}

// SendError is an answer other than "taken".
type SendError struct {
	Class    Class
	Endpoint string // its name, never its URL, which may hold a secret
	Text     string
}

func (e *SendError) Error() string { return string(e.Class) + " (" + e.Endpoint + "): " + e.Text }

// ClassOf returns the class of an answer to Send; "" is "taken". An error of another type
// is ambiguous.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	if send, ok := errors.AsType[*SendError](err); ok {
		return send.Class
	}
	return ClassAmbiguous
}

// Errors that callers see. The surface maps them to answers.
var (
	ErrNotFound      = errors.New("not found")
	ErrIdempotency   = errors.New("the idempotency key was used for another request")
	ErrForgotten     = errors.New("the idempotency key was used for a transaction that is past its retention")
	ErrUnknownChain  = errors.New("no such chain")
	ErrUnknownSigner = errors.New("no such signer")
	ErrInvalid       = errors.New("invalid request")
	ErrTooLate       = errors.New("too late: its outcome is final already")
	ErrNotPossible   = errors.New("this chain has no such operation")
	ErrKilled        = errors.New("the kill switch is on")
	ErrBudget        = errors.New("the budget of the day does not allow it")
	ErrPolicy        = errors.New("a policy does not allow it")
	ErrWouldRevert   = errors.New("the transaction would fail")
	ErrUnavailable   = errors.New("a part that is needed to be sure does not answer")
	ErrNonceUnknown  = fmt.Errorf("%w: the account's nonce is not known yet", ErrUnavailable)
	ErrHalted        = errors.New("signing is halted until an operator reconciles")
	ErrReplayed      = errors.New("what it carries was handed over before, and may be executed once")
	ErrDuplicate     = errors.New("this transaction was handed over before")
	ErrNoReservation = errors.New("no such reservation, or it is over")
	ErrTooMany       = errors.New("too many reservations are outstanding")
	ErrLocked        = errors.New("another caller holds the lock")
)

// NonceConflict says that a caller's nonce is not the one that can be used.
type NonceConflict struct {
	Current   uint64 // the nonce that a reservation would get now
	Attempted uint64
	Retry     bool // another reservation and signature can help; not while another tenant holds the nonce
}

func (e *NonceConflict) Error() string { return "NONCE_CONFLICT" }

// InvalidError names what is wrong with a request. It is an ErrInvalid.
type InvalidError struct{ Field, Problem string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Problem }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, problem string) error { return &InvalidError{field, problem} }

// RevertError is a simulation that failed. It is an ErrWouldRevert.
type RevertError struct {
	Reason string
	Output []byte
}

func (e *RevertError) Error() string { return ErrWouldRevert.Error() + ": " + e.Reason }

// Is makes errors.Is(err, ErrWouldRevert) true.
func (e *RevertError) Is(target error) bool { return target == ErrWouldRevert }

// Faults is called at named points between two steps. It is set by tests of crashes, which
// end the process there; without it nothing happens.
type Faults func(ctx context.Context, point, chain, signer string)

// The points, in the order of one transaction.
const (
	PointAccepted = "accepted" // the intent is stored
	PointReserved = "reserved" // it has a slot
	PointSigned   = "signed"   // bytes exist in this process only
	PointStored   = "stored"   // they are in the ledger
	PointSent     = "sent"     // they have left; the answer is here, not stored
	PointAnswered = "answered" // the answer is stored
	PointMined    = "mined"    // a receipt is here, not stored
	PointRecorded = "recorded" // it is stored; the stream has not got it
	PointStreamed = "streamed" // the sequencer has given the event its cursor
)

// Points are all of them.
var Points = []string{
	PointAccepted, PointReserved, PointSigned, PointStored, PointSent, PointAnswered, PointMined, PointRecorded, PointStreamed,
}

// SetFaults sets what is called at the points. It must be called before Run.
func (m *Manager) SetFaults(f Faults) { m.hurt = f }

func (m *Manager) at(ctx context.Context, point, chain, signer string) {
	if m.hurt != nil {
		m.hurt(ctx, point, chain, signer)
	}
}
