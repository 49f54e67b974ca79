package consensus

import (
	"errors"
	"fmt"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// ErrReceiptNotFound says that the validity of a transaction is over and the
// network knows no receipt of it: it was not executed and never will be.
var ErrReceiptNotFound = errors.New("no receipt, and the transaction is no longer valid")

// ErrReceiptExpired says that a receipt was asked for so late that the network no
// longer keeps it. The transaction's validity is long over, so its fate is settled,
// but not known here.
var ErrReceiptExpired = errors.New("the network no longer keeps receipts of that time")

// ErrInProgress says that a node has a transaction and no verdict on it yet.
var ErrInProgress = errors.New("the node has the transaction, and there is no verdict yet")

// ErrUnknownID says that a node knows nothing of a transaction id now: it never had it, or no
// longer, since receipts and records are kept for ReceiptKept. It may still arrive from another node.
var ErrUnknownID = errors.New("the node knows nothing of the transaction id")

// ErrNoAccount says that a node knows no account at an address.
var ErrNoAccount = errors.New("the node knows no such account")

// ErrNoOperator says that the client was built without an operator and the
// submission named no payer.
var ErrNoOperator = errors.New("no operator account is configured")

// ErrClosed says that the client is closed.
var ErrClosed = errors.New("consensus client is closed")

// StatusError is a node's refusal at its precheck. The transaction was not
// accepted by any node and nothing was executed or charged to its sender.
type StatusError struct {
	Status        hedera.Status
	Node          hedera.ID
	TransactionID hedera.TransactionID
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("node %s refused transaction %s: %s", e.Node, e.TransactionID, e.Status)
}

// NotNow tells whether a node's precheck status is about the node, which is busy or starting, and
// not about the transaction. A *StatusError of Submit with such a status means that the nodes said so
// for as long as a submission may take.
func NotNow(status hedera.Status) bool {
	switch status {
	case hapi.ResponseCodeEnum_BUSY, hapi.ResponseCodeEnum_PLATFORM_TRANSACTION_NOT_CREATED:
		return true
	default:
		return notANode(status) && status != hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT
	}
}

// NotSentError means that the message was handed to no connection: no node can
// have it. Err says why, for example what Submission.BeforeSend returned.
type NotSentError struct {
	Err error
}

// Error implements error.
func (e *NotSentError) Error() string { return "transaction not sent: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *NotSentError) Unwrap() error { return e.Err }

// NodeUnavailableError answers a submission with SameNodeOnly whose node cannot
// take it now. No node has the transaction.
type NodeUnavailableError struct {
	Node hedera.ID
	Err  error
}

// Error implements error.
func (e *NodeUnavailableError) Error() string {
	return fmt.Sprintf("node %s is unavailable: %v", e.Node, e.Err)
}

// Is reports whether the reason is target. The reason is kept from errors.As: a
// refusal such as BUSY inside is not the verdict on the submission.
func (e *NodeUnavailableError) Is(target error) bool { return errors.Is(e.Err, target) }

// DuplicateError answers Client.Offer when the node, or the network, knows the transaction id
// already: an earlier offer under it arrived. What this offer carried will not be executed. The
// earlier one may carry the same bytes, or, if somebody else drew the same id, others; the record
// of the id names the Ethereum transaction.
type DuplicateError struct {
	Pending *Pending // of the earlier offer
}

// Error implements error.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("node %s knows transaction %s already", e.Pending.Node(), e.Pending.ID())
}

// SentError means that the message left this process and no verdict came back.
// The transaction may be executed or not; Pending can be asked for its receipt.
type SentError struct {
	Pending *Pending
	Err     error
}

// Error implements error.
func (e *SentError) Error() string {
	return fmt.Sprintf("transaction %s was sent and its fate is unknown: %v", e.Pending.ID(), e.Err)
}

// Is reports whether what went wrong last is target. It is kept from errors.As, so
// that a refusal of a later attempt cannot pass for the verdict on the transaction.
func (e *SentError) Is(target error) bool { return errors.Is(e.Err, target) }
