package submit

import (
	"context"
	"errors"

	"lockstep/consensus"
	"lockstep/eth"
	"lockstep/hedera"
	"lockstep/limit"
)

// cost is what a transaction may cost the payer.
type cost struct {
	ip          string             // of who asks
	reservation *limit.Reservation // nil: none, or off
}

// whoAsks notes whose budget a transaction counts against.
func (s *Submitter) whoAsks(ctx context.Context, e *Entry) {
	if s.budget.On() && s.clientIP != nil {
		e.cost.ip = s.clientIP(ctx)
	}
}

// reserve sets aside what a submission is expected to cost, or returns the client's
// error. It is the last thing before the submission, so that what cannot be sent anyway
// holds nothing.
func (s *Submitter) reserve(ctx context.Context, e *Entry, known known, submission consensus.Submission) error {
	if !s.budget.On() {
		return nil
	}
	var price hedera.Tinybar // 0: not known
	if !s.cfg.SkipLookUps {
		price, _ = hedera.TinybarOf(known.GasPrice)
	}
	offered, _ := hedera.TinybarOf(e.tx.GasPrice())
	reservation, ok := s.budget.Reserve(ctx, limit.Spending{
		Sender: e.tx.From(), IP: e.cost.ip, Method: "eth_sendRawTransaction",
		Amount: limit.EthereumCost(price, offered, e.tx.Gas(), submission.MaxGasAllowance),
	})
	if !ok {
		return eth.ErrHbarLimited()
	}
	e.cost.reservation = reservation
	return nil
}

// reserveFile sets aside what it is expected to cost to put call data into a file, or
// returns the client's error.
func (s *Submitter) reserveFile(ctx context.Context, e *Entry, digits int) (cost, error) {
	if !s.budget.On() {
		return cost{}, nil
	}
	reservation, ok := s.budget.Reserve(ctx, limit.Spending{
		Sender: e.tx.From(), IP: e.cost.ip, Method: "eth_sendRawTransaction",
		Amount: s.budget.FileCost(ctx, digits, s.rules.FileChunkSize),
	})
	if !ok {
		return cost{}, eth.ErrHbarLimited()
	}
	return cost{reservation: reservation}, nil
}

// stored ends the reservation for a file that could not be made. One that was made is
// paid for until it is deleted.
func (c *cost) stored(file File, err error) {
	var failed *consensus.ReceiptError
	var refused *consensus.StatusError
	var unsent *consensus.NotSentError
	var unavailable *consensus.NodeUnavailableError
	switch {
	case file != nil:
	case errors.As(err, &failed):
		c.reservation.Settle(failed.TransactionID)
	case errors.As(err, &refused), errors.As(err, &unsent), errors.As(err, &unavailable):
		c.reservation.Release()
	default: // nobody can say
		c.reservation.Settle()
	}
}

// settle ends the reservation. Only what reached consensus is charged; where that is not
// known, the network will tell, or the estimate stays.
func (c *cost) settle(v verdict) {
	switch {
	case !v.reached && v.outcome != Unknown:
		c.reservation.Release()
	case v.transaction.IsZero():
		c.reservation.Settle()
	default:
		c.reservation.Settle(v.transaction)
	}
}
