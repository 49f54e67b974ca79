package txtrace

import (
	"time"

	"lockstep/hedera"
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
	At          time.Time // zero: now
	Node        hedera.ID
	Attempt     int // from 1
	Transaction hedera.TransactionID
	Status      string // the network's response code
	Error       string // what the client was told
}

// Record is what is known of a transaction, in the form clients get. Times are
// milliseconds since the Unix epoch.
type Record struct {
	Status        string  `json:"status"`
	Timestamp     int64   `json:"timestamp"`
	TransactionID string  `json:"transactionId,omitempty"`
	Error         string  `json:"error,omitempty"`
	HederaStatus  string  `json:"hederaStatus,omitempty"`
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
