package lifecycle

import (
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// The names of steps.
const (
	Received  = "received"  // it has its place in line
	Queued    = "queued"    // it waits for its sender's turn
	Submitted = "submitted" // its bytes leave for a node
	Accepted  = "accepted"  // a node has it
	Consensus = "consensus" // the network executed it; the status says with what result
	Mirrored  = "mirror"    // the mirror node shows it in a block
	Rejected  = "rejected"  // it was never executed, and this attempt will not be
	Unknown   = "unknown"   // it left, and no verdict came in time; one may still come
)

// The statuses of a record.
const (
	StatusPending   = "pending"
	StatusSent      = "sent"
	StatusValidated = "validated"
	StatusRejected  = "rejected"
	StatusTimedOut  = "timedout"
)

// Step is one thing that happened to a transaction. Fields that say nothing are zero.
type Step struct {
	Name        string
	At          time.Time      // zero: now
	Sender      common.Address // it and its nonce are for a Journal
	Nonce       uint64
	Node        hedera.ID
	Attempt     int // from 1
	Transaction hedera.TransactionID
	Status      string // the network's response code
	Error       string // what the client was told
	// Spent says of a rejection that the sender's nonce was spent already, perhaps by
	// this very transaction on another way.
	Spent bool
}

// Record is what is known of a transaction, in the form clients get. Times are
// milliseconds since the Unix epoch.
type Record struct {
	Status        string  `json:"status"`
	Timestamp     int64   `json:"timestamp"`
	TransactionID string  `json:"transactionId,omitempty"`
	Error         string  `json:"error,omitempty"`
	HederaStatus  string  `json:"hederaStatus,omitempty"`
	NonceSpent    bool    `json:"nonceSpent,omitempty"` // rejected because its nonce was, perhaps by itself
	Steps         []Event `json:"steps,omitempty"`
}

// Event is a Step in a Record.
type Event struct {
	Step          string `json:"step"`
	Timestamp     int64  `json:"timestamp"`
	Node          string `json:"node,omitempty"`
	Attempt       int    `json:"attempt,omitempty"`
	TransactionID string `json:"transactionId,omitempty"`
	HederaStatus  string `json:"hederaStatus,omitempty"`
	Error         string `json:"error,omitempty"`
}

// The ranks of what a record says, by certainty. What has a lower rank does not replace
// what has a higher one.
const (
	rankOpen      = 1 // pending, and rejected: an attempt's end is not another's
	rankSent      = 2 // a node has it, or may have
	rankExecuted  = 3
	rankValidated = 4
)

// state is a record with its rank, as it is kept.
type state struct {
	Record
	Rank int `json:"rank"`
}

// statusOf is the status and the rank that a step gives.
func (s Step) statusOf() (status string, rank int) {
	switch s.Name {
	case Accepted:
		return StatusSent, rankSent
	case Consensus:
		return StatusSent, rankExecuted
	case Mirrored:
		return StatusValidated, rankValidated
	case Unknown:
		return StatusTimedOut, rankSent
	case Rejected:
		return StatusRejected, rankOpen
	default:
		return StatusPending, rankOpen
	}
}

// maxSteps bounds a record: further steps change its status and are not listed.
const maxSteps = 64

// after returns the state after a step. ok is false if the step changes nothing. The
// old state stays as it is.
func (old *state) after(step Step) (next *state, ok bool) {
	status, rank := step.statusOf()
	id := ""
	if !step.Transaction.IsZero() {
		id = step.Transaction.String()
	}
	switch {
	case old == nil || step.Name == Received && old.Status == StatusRejected:
		old = &state{}
	case rank >= old.Rank:
	case old.Rank == rankSent && id != "" && id == old.TransactionID: // the verdict on what was sent
	default:
		return old, false
	}
	at := step.At.UnixMilli()
	next = &state{Rank: rank, Record: old.Record}
	next.Status, next.Timestamp, next.Error, next.NonceSpent = status, at, step.Error, step.Spent
	if id != "" {
		next.TransactionID = id
	}
	if step.Status != "" || step.Name != Mirrored {
		next.HederaStatus = step.Status
	}
	event := Event{Step: step.Name, Timestamp: at, Attempt: step.Attempt, TransactionID: id, HederaStatus: step.Status, Error: step.Error}
	if !step.Node.IsZero() {
		event.Node = step.Node.String()
	}
	if len(old.Steps) < maxSteps {
		next.Steps = append(old.Steps[:len(old.Steps):len(old.Steps)], event)
	}
	return next, true
}
