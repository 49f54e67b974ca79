package submit

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/eth"
	"lockstep/hedera"
	"lockstep/txtrace"
)

// Pool is told which transactions are on their way: package txpool. It never blocks.
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
	// Latest is Proven for the whole fleet, or confirmed if that is more. It may ask Redis.
	Latest(ctx context.Context, sender common.Address, confirmed uint64) uint64
}

// Trace keeps what happened to a transaction: package txtrace. It never blocks.
type Trace interface {
	Record(hash common.Hash, step txtrace.Step)
}

// NoPool is a Pool that is switched off: it keeps nothing and knows nothing.
type NoPool struct{}

// Add implements Pool.
func (NoPool) Add(*eth.Tx) {}

// Accepted implements Pool.
func (NoPool) Accepted(*eth.Tx) {}

// Done implements Pool.
func (NoPool) Done(*eth.Tx, bool, bool) {}

// Proven implements Pool.
func (NoPool) Proven(common.Address) uint64 { return 0 }

// Latest implements Pool.
func (NoPool) Latest(_ context.Context, _ common.Address, confirmed uint64) uint64 {
	return confirmed
}

// noTrace is a Trace that is switched off.
type noTrace struct{}

func (noTrace) Record(common.Hash, txtrace.Step) {}

// received is the first that is told of a transaction.
func (s *Submitter) received(e *Entry) {
	s.trace.Record(e.tx.Hash(), txtrace.Step{Name: txtrace.Received, At: e.arrived})
	if e.ticket != nil {
		s.trace.Record(e.tx.Hash(), txtrace.Step{Name: txtrace.Queued})
	}
	s.pool.Add(e.tx)
}

// offered notes every attempt, for the trace.
func (s *Submitter) offered(e *Entry) func(hedera.ID, hedera.TransactionID) {
	attempt := 0
	return func(node hedera.ID, id hedera.TransactionID) {
		attempt++
		s.trace.Record(e.tx.Hash(), txtrace.Step{Name: txtrace.Submitted, Node: node, Attempt: attempt, Transaction: id})
	}
}

func (s *Submitter) acceptedBy(e *Entry, p Pending) {
	s.trace.Record(e.tx.Hash(), txtrace.Step{Name: txtrace.Accepted, Node: p.Node(), Transaction: p.ID()})
	s.pool.Accepted(e.tx)
}

// unclear notes that a client is told that the outcome is not known.
func (s *Submitter) unclear(e *Entry, p Pending) {
	s.trace.Record(e.tx.Hash(), txtrace.Step{Name: txtrace.Unknown, Node: p.Node(), Transaction: p.ID()})
}

// concluded spreads the final verdict.
func (s *Submitter) concluded(e *Entry, v verdict) {
	step := txtrace.Step{Name: v.step(), Node: v.node, Transaction: v.transaction, Spent: v.spent}
	if v.hasStatus {
		step.Status = v.status.String()
	}
	if v.err != nil {
		step.Error = v.err.Error()
	}
	s.trace.Record(e.tx.Hash(), step)
	spent := v.nonceSpent()
	s.pool.Done(e.tx, spent, !spent && (v.outcome == Unknown || v.outcome == Reverted))
}

// step names the verdict in a trace.
func (v verdict) step() string {
	switch v.outcome {
	case Executed, Reverted:
		return txtrace.Consensus
	case NotSent, Rejected:
		return txtrace.Rejected
	default:
		return txtrace.Unknown
	}
}
