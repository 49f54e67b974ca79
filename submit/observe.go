package submit

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
	"lockstep/internal/lifecycle"
)

// Pool is told which transactions are on their way: package pending. Its methods never block unless they say so.
type Pool interface {
	// Add says that a transaction is in line. Done follows, once.
	Add(tx *eth.Tx)
	// Accepted says that a consensus node has it.
	Accepted(tx *eth.Tx)
	// Done says that it has its verdict. spent: the network executed it, so that the
	// sender's next nonce is past it. perhaps: that is not known.
	Done(tx *eth.Tx, spent, perhaps bool)
	// Proven returns a sender's next nonce as far as this process has seen the network prove
	// it, or 0.
	Proven(sender common.Address) uint64
	// Follows tells whether all that comes before a transaction, from the sender's next nonce
	// on, is on its way, and nothing else with its nonce. It may ask Redis.
	Follows(ctx context.Context, tx *eth.Tx, next uint64) bool
	// Alone tells whether no other attempt at a transaction's nonce is on its way in this process.
	Alone(tx *eth.Tx) bool
	// Latest is Proven for the whole fleet, or confirmed if that is more. It may ask Redis.
	Latest(ctx context.Context, sender common.Address, confirmed uint64) uint64
}

// Trace keeps what happened to a transaction: package lifecycle. It never blocks.
type Trace interface {
	Record(hash common.Hash, step lifecycle.Step)
}

// received is the first that is told of a transaction.
func (s *Submitter) received(e *Entry) {
	s.trace.Record(e.tx.Hash(), lifecycle.Step{Name: lifecycle.Received, At: e.arrived})
	if e.way == direct {
		s.trace.Record(e.tx.Hash(), lifecycle.Step{Name: lifecycle.Queued})
	}
	s.pool.Add(e.tx)
}

// publish spreads the final result.
func (s *Submitter) publish(e *Entry, r Result) {
	step := lifecycle.Step{Name: r.step(), Node: r.Node, Transaction: r.TransactionID, Spent: r.nonceSpent, Status: r.status("")}
	if r.Err != nil {
		step.Error = r.Err.Error()
	}
	s.trace.Record(e.tx.Hash(), step)
	s.pool.Done(e.tx, r.ran, !r.ran && (r.Outcome == Unknown || r.Outcome == Reverted))
}

// step names the result in a trace.
func (r Result) step() string {
	switch r.Outcome {
	case Executed, Reverted:
		return lifecycle.Consensus
	case NotSent, Rejected:
		return lifecycle.Rejected
	default:
		return lifecycle.Unknown
	}
}
