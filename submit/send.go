package submit

import (
	"context"
	"math/big"

	"lockstep/consensus"
	"lockstep/eth"
	"lockstep/hedera"
)

// submit hands the transaction to the sender's node. While the verdict on the
// lane's previous transaction is open, only the node that has it will do: two
// nodes do not keep order between them. If that node is out, the previous verdict
// is awaited first, still in the turn, and then any node will do.
func (s *Submitter) submit(turn *turn, e *Entry, known known, raw []byte, callData *hedera.ID) (Pending, error) {
	submission := consensus.Submission{
		Ethereum:   raw,
		CallData:   callData,
		Sender:     e.tx.From(),
		MaxFee:     s.maxFee(known.GasPrice),
		BeforeSend: turn.check,
		Offered:    s.offered(e),
	}
	if subsidy, ok := s.subsidyOf(e.tx); ok {
		submission.Payer, submission.MaxGasAllowance = subsidy.Payer, subsidy.Allowance
	}
	if err := s.reserve(turn.ctx, e, known, submission); err != nil {
		return nil, err
	}
	s.metrics.executions.Inc()
	id, node, open := turn.predecessor()
	if !open {
		return s.nodes.Submit(turn.ctx, submission)
	}
	submission.Node, submission.SameNodeOnly = node, true
	submission.Free = func(ctx context.Context) error {
		// Half of the time that the turn, and the submission, may last: the rest is for the
		// submission itself.
		ctx, cancel := context.WithTimeout(ctx, min(s.ordering.MaxHold.Duration(), s.patience)/2)
		defer cancel()
		return s.nodes.Await(ctx, id, node)
	}
	return s.nodes.Submit(turn.ctx, submission)
}

// subsidyOf tells who pays for the transaction's gas in its sender's stead.
func (s *Submitter) subsidyOf(tx *eth.Tx) (consensus.Subsidy, bool) {
	if s.subsidy == nil {
		return consensus.Subsidy{}, false
	}
	return s.subsidy(tx.To())
}

// maxFee is the most the operator pays for one transaction: the network's price
// for the largest gas limit. A price below a tinybar counts as one.
func (s *Submitter) maxFee(gasPrice *big.Int) hedera.Tinybar {
	price, ok := hedera.TinybarOf(gasPrice)
	if !ok {
		price = hedera.Hbar // absurdly dear: far above any network's price
	}
	return max(price, 1) * hedera.Tinybar(s.rules.MaxGasLimit)
}

// follow waits for the verdict of the network on an accepted transaction.
func (s *Submitter) follow(ctx context.Context, turn *turn, e *Entry, pending Pending) verdict {
	receipt, err := pending.Receipt(ctx)
	v := verdict{transaction: pending.ID(), node: pending.Node()}
	if err != nil {
		return s.noReceipt(e, v, err)
	}
	v.status, v.hasStatus, v.reached = receipt.Status, true, true
	switch {
	case hedera.Succeeded(receipt.Status):
		v.outcome = Executed
	case aboutPayer(receipt.Status):
		v.outcome, v.err = Rejected, s.refusal(receipt.Status)
	case s.rejects[receipt.Status]:
		v.outcome = Rejected
		v.err = s.rejection(ctx, turn, e, receipt.Status)
	default:
		v.outcome = Reverted
	}
	return v
}
