package submit

import (
	"context"
	"errors"

	"lockstep/consensus"
	"lockstep/eth"
	"lockstep/hedera"
	"lockstep/internal/hapi"
	"lockstep/lock"
)

// lockError translates what package lock answers to Enter and Wait.
func lockError(err error) error {
	var full *lock.QueueFullError
	switch {
	case errors.As(err, &full):
		return eth.ErrQueueFull(full.Length)
	case errors.Is(err, lock.ErrClosed):
		return eth.ErrShuttingDown()
	case errors.Is(err, lock.ErrLost):
		return eth.ErrTurnLost()
	default:
		return eth.ErrRequestTimeout() // the caller gave up waiting
	}
}

// sentAnyway returns the transaction that a failed submission may have left at a
// node, or nil when it certainly left none.
func sentAnyway(err error) Pending {
	var sent *consensus.SentError
	if errors.As(err, &sent) {
		return sent.Pending
	}
	return nil
}

// predecessorOpen tells whether a transaction waited in vain for the verdict on the one
// before it, whose node is out. Who is queued behind it would wait in vain, too.
func predecessorOpen(err error) bool {
	var unavailable *consensus.NodeUnavailableError
	return errors.As(err, &unavailable)
}

// submissionError translates what package consensus answers to Submit when nothing
// was accepted anywhere. The type of the error says what is certain; this keeps it.
func (s *Submitter) submissionError(err error) verdict {
	var refused *consensus.StatusError
	var client *eth.Error
	switch {
	case errors.As(err, &client): // the budget's
		return verdict{outcome: NotSent, err: client}
	case errors.Is(err, lock.ErrLost): // whatever a node had said before
		return verdict{outcome: NotSent, err: eth.ErrTurnLost()}
	case errors.As(err, &refused):
		return verdict{
			outcome: Rejected, status: refused.Status, hasStatus: true,
			transaction: refused.TransactionID, node: refused.Node,
			err: s.refusal(refused.Status),
		}
	case errors.Is(err, consensus.ErrNoOperator):
		return verdict{outcome: NotSent, err: eth.ErrReadOnly()}
	case errors.Is(err, consensus.ErrClosed):
		return verdict{outcome: NotSent, err: eth.ErrShuttingDown()}
	default:
		return verdict{outcome: NotSent, err: eth.ErrNoNode()}
	}
}

// refusal is the client's error for a node's precheck answer.
func (s *Submitter) refusal(status hedera.Status) error {
	if s.rejects[status] {
		return eth.ErrRejected(status.String(), "")
	}
	return eth.ErrConsensusNode(status.String(), int(status), "the consensus node did not accept the transaction")
}

// noReceipt is the verdict on an accepted transaction that the network does not
// know. A node may drop what it accepted if it falls behind; once the transaction's
// validity is over that is certain.
func (s *Submitter) noReceipt(e *Entry, v verdict, err error) verdict {
	if errors.Is(err, consensus.ErrReceiptNotFound) {
		v.outcome, v.err = Rejected, eth.ErrRejected("RECEIPT_NOT_FOUND", "the network never executed it; send it again")
		return v
	}
	v.outcome, v.err = Unknown, eth.ErrUnknownOutcome(e.tx.Hash(), v.transaction.String())
	return v
}

// aboutPayer tells the receipt statuses about the operator or the envelope, not about
// what the transaction did: the sender's nonce is not spent.
func aboutPayer(status hedera.Status) bool {
	switch status {
	case hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE,
		hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE,
		hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND,
		hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED,
		hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE,
		hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION,
		hapi.ResponseCodeEnum_TRANSACTION_EXPIRED,
		hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE,
		hapi.ResponseCodeEnum_WRONG_CHAIN_ID,
		hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT,
		hapi.ResponseCodeEnum_ACCESS_LIST_UNSUPPORTED,
		hapi.ResponseCodeEnum_CONTRACT_FILE_EMPTY,
		hapi.ResponseCodeEnum_FILE_DELETED:
		return true
	default:
		return false
	}
}

// statusSet reads the names of HEDERA_SPECIFIC_REVERT_STATUSES; none means the
// built-in list.
func statusSet(names []string) (map[hedera.Status]bool, error) {
	if len(names) == 0 {
		names = hedera.NeverExecuted()
	}
	set := make(map[hedera.Status]bool, len(names))
	var errs []error
	for _, name := range names {
		status, ok := hedera.ParseStatus(name)
		if !ok {
			errs = append(errs, errors.New("HEDERA_SPECIFIC_REVERT_STATUSES: no such status: "+name))
		}
		set[status] = true
	}
	return set, errors.Join(errs...)
}

// rejection is the client's error for a receipt status that means "refused before
// execution". A wrong nonce is told in the words clients know, if the sender's
// nonce can be had.
func (s *Submitter) rejection(ctx context.Context, turn *turn, e *Entry, status hedera.Status) error {
	if status == hapi.ResponseCodeEnum_WRONG_NONCE {
		s.metrics.wrongNonce.WithLabelValues(turn.strategy()).Inc()
		if err := s.wrongNonce(ctx, e); err != nil {
			return err
		}
	}
	return eth.ErrRejected(status.String(), "")
}

func (s *Submitter) wrongNonce(ctx context.Context, e *Entry) error {
	if s.cfg.SkipLookUps {
		return nil
	}
	s.chain.Changed(e.tx.From())
	account, found, err := s.chain.Account(ctx, e.tx.From())
	if err != nil || !found {
		return nil //nolint:nilerr // the generic words will do
	}
	var told *eth.Error
	switch nonce := e.tx.Nonce(); {
	case nonce < account.Nonce:
		told = eth.ErrNonceTooLow(nonce, account.Nonce)
	case nonce > account.Nonce:
		told = eth.ErrNonceTooHigh(nonce, account.Nonce)
	default:
		return nil // it was wrong when it arrived and would be right now
	}
	told.Data = map[string]any{"hederaStatus": hapi.ResponseCodeEnum_WRONG_NONCE.String()}
	return told
}
