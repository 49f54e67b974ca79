package submit

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/limit"
	"lockstep/internal/telemetry"
)

// cost is what a transaction may cost the payer.
type cost struct {
	ip          string             // of who asks
	reservation *limit.Reservation // nil: none, or off
}

// Asker is the request with which a transaction came, for the log.
type Asker struct {
	ID     string // of the request
	Client string // its address, as far as the log may show it
}

// whoAsks notes who asks, and whose budget a transaction counts against.
func (s *Submitter) whoAsks(ctx context.Context, e *Entry) {
	e.traceID = telemetry.TraceID(ctx)
	e.asker = s.whose(ctx)
	if s.budget.On() {
		e.cost.ip = s.clientIP(ctx)
	}
}

// reserve sets aside the expected cost of a submission, or returns the client's error. It comes last before the
// submission, so that a transaction that cannot be sent reserves nothing.
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

// reserveFile sets aside the expected cost of putting call data into a file, or returns the client's error.
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

// stored ends the reservation for a file that could not be made. The reservation for a file that was made lasts
// until the file is deleted.
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
	default: // nobody knows the cost
		c.reservation.Settle()
	}
}

// settle ends the reservation. Only what reached consensus is charged. If that is not known, the network tells
// later, or the estimate stays.
func (c *cost) settle(r Result) {
	switch {
	case !r.atConsensus && r.Outcome != Unknown:
		c.reservation.Release()
	case r.TransactionID.IsZero():
		c.reservation.Settle()
	default:
		c.reservation.Settle(r.TransactionID)
	}
}

// giveBack ends what was set aside for a turn in which nothing was sent. The next turn sets its own aside.
func (e *Entry) giveBack() {
	e.cost.reservation.Release()
	e.risk.GiveBack()
	e.risk = nil
}

// TellNobody is a Deps.Charged for those who do not want to know.
func TellNobody(common.Hash, ...hedera.TransactionID) {}

// tellCharged reports the transactions that reached consensus.
func (e *Entry) tellCharged(r Result) {
	if r.atConsensus && !r.TransactionID.IsZero() {
		e.s.charged(e.tx.Hash(), r.TransactionID)
	}
}
