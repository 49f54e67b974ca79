package submit

import (
	"context"
	"errors"
	"sync"
	"time"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/sleep"
	"lockstep/lock"
)

// settle waits for the verdict. The client's wait may end before there is one: it
// is then told that the outcome is unknown, and the verdict is awaited without it.
func (e *Entry) settle(ctx context.Context, t turn) (r Result, again bool) {
	r, until, waits := e.followForClient(ctx, t)
	if waits && time.Since(until) > standstill {
		// This process stood still, so nobody has looked.
		r, _, waits = e.followForClient(ctx, t)
	}
	if waits {
		e.traceDoubt(t.pending)
		e.reply(answerDoubt, r)
		r = e.follow(ctx, t)
	}
	return e.conclude(ctx, t, r)
}

// standstill is how late a wait ends in a process that stood still meanwhile.
const standstill = time.Second

// followForClient is follow until the client waits no longer. waits: there is no verdict yet, and no other reason to end.
func (e *Entry) followForClient(ctx context.Context, t turn) (r Result, until time.Time, waits bool) {
	until = time.Now().Add(e.s.WaitTime)
	if at, ok := e.answerBy(); ok && at.Before(until) {
		until = at
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	r = e.follow(ctx, t)
	return r, until, r.Outcome == Unknown && ctx.Err() != nil
}

// follow waits for the verdict of the network on a transaction that a node has, or may have.
func (e *Entry) follow(ctx context.Context, t turn) Result {
	receipt, err := e.receipt(ctx, t)
	switch {
	case errors.Is(err, errOvertaken):
		r := offered(t.pending)
		r.Outcome, r.back = Rejected, backVanished
		r.Err = eth.ErrRejected("RECEIPT_NOT_FOUND", "a later transaction of the sender reached consensus before it")
		e.doubtful = append(e.doubtful, t.pending)
		return e.unlessExecuted(ctx, r, t.pending)
	case err != nil:
		return e.unlessExecuted(ctx, e.noReceipt(t.pending, err), nil)
	}
	r := e.judge(ctx, t.pending, receipt)
	if r.Outcome == Rejected && r.Status == hapi.ResponseCodeEnum_WRONG_NONCE {
		r = e.wrongNonce(ctx, r)
	}
	return e.unlessExecuted(ctx, r, nil)
}

// unlessExecuted returns what a client may be told if r says that the transaction was not executed. A former submission
// of it vanished only as far as its node knows, so this is not certain: it looks again. latest is not asked: it has
// vanished just now.
func (e *Entry) unlessExecuted(ctx context.Context, r Result, latest Pending) Result {
	if r.ran || r.Outcome == Unknown {
		return r
	}
	for _, former := range e.doubtful {
		if former == latest {
			continue
		}
		receipt, err := former.Receipt(ctx)
		if errors.Is(err, consensus.ErrReceiptNotFound) {
			continue
		}
		was := e.noReceipt(former, err)
		if err == nil {
			was = e.judge(ctx, former, receipt)
		}
		if was.ran || was.Outcome == Unknown {
			return was
		}
	}
	return r
}

// lastLook is unlessExecuted before a transaction ends that is at no node any more.
func (e *Entry) lastLook(ctx context.Context, r Result) Result {
	const limit = 2 * time.Second // then its client is told that the outcome is not known
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return e.unlessExecuted(ctx, r, nil)
}

// judge tells what a receipt means. Some statuses have one meaning. Most failures can come from before the run and from
// within: a contract that destroys itself in favour of nobody has run, and ends as INVALID_SOLIDITY_ADDRESS. What these
// mean the record decides, and the name only if no record comes.
func (e *Entry) judge(ctx context.Context, p Pending, receipt consensus.Receipt) Result {
	s, r := e.s, offered(p)
	r.Status, r.atConsensus = receipt.Status, true
	payer := aboutPayer(r.Status)
	switch {
	case hedera.Succeeded(r.Status):
		r.Outcome, r.ran = Executed, true
		return r
	case e.provesRun(r.Status):
		r.Outcome, r.ran = Reverted, true
		return r
	case r.Status == hapi.ResponseCodeEnum_WRONG_NONCE && s.rejects[r.Status]:
		r.Outcome, r.Err = Rejected, eth.ErrRejected(r.Status.String(), "")
		return r
	}
	record := s.record(ctx, r.TransactionID)
	switch {
	case record == RecordRan:
		r.Outcome, r.ran = Reverted, true
	case record == RecordInBlock, !payer && !s.rejects[r.Status]:
		r.Outcome = Reverted
	case record == RecordOpen && (hedera.AlsoFromRun(r.Status) || ctx.Err() != nil):
		r.Err = eth.ErrUnknownOutcome(e.tx.Hash(), r.TransactionID.String())
	case payer && !s.rejects[r.Status]:
		r.Outcome, r.Err = Rejected, eth.ErrConsensusNode(r.Status.String(), int(r.Status), "the network refused it at consensus; it was not executed")
	default:
		r.Outcome, r.Err = Rejected, eth.ErrRejected(r.Status.String(), "")
	}
	return r
}

// provesRun tells whether a status proves that the transaction was run. With too little gas to begin with no node takes
// it, unless its call data is in a file: nodes do not read that before consensus.
func (e *Entry) provesRun(status hedera.Status) bool {
	return hedera.NonceSpent(status) && (status != hapi.ResponseCodeEnum_INSUFFICIENT_GAS || e.upload == nil)
}

// recordLimit is how long the mirror node may lag behind a receipt until the status has to say what became of the
// transaction.
const recordLimit = 10 * time.Second

// record waits until the mirror node's record tells what became of a transaction that reached consensus.
func (s *Submitter) record(ctx context.Context, id hedera.TransactionID) Record {
	if s.cfg.SkipLookUps {
		return RecordOpen
	}
	ctx, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	for {
		if record, err := s.Chain.Record(ctx, id); err == nil && record != RecordOpen {
			return record
		}
		if !sleep.For(ctx, askPace) {
			return RecordOpen
		}
	}
}

// errOvertaken: a later transaction of the sender has reached consensus through the same node, and
// the node has no receipt of this one.
var errOvertaken = errors.New("overtaken")

// receipt waits for the receipt. Meanwhile it offers the transaction again if its node never got it or has lost it, and
// looks for the proof that it vanished.
func (e *Entry) receipt(ctx context.Context, t turn) (consensus.Receipt, error) {
	if e.way == unordered || e.s.Ordering.Recovery == 0 {
		return t.pending.Receipt(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)
	helpers.Go(func() {
		if e.vanished(ctx, t) {
			cancel(errOvertaken)
		}
	})
	if t.unclear {
		helpers.Go(func() { e.offerAgain(ctx, t.pending) })
	}
	receipt, err := t.pending.Receipt(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errOvertaken) {
		err = errOvertaken
	}
	return receipt, err
}

// vanished waits for the proof that a transaction is not at its node any more, and will not reach
// consensus: a later one has, through the same node, which keeps the order. A query that fails
// proves nothing. A node that says before that it never heard of what it accepted was killed, and gets it again.
func (e *Entry) vanished(ctx context.Context, t turn) bool {
	denied := t.pending.Denied()
	if t.unclear {
		denied = nil // it is offered already
	}
	for overtaken := false; !overtaken; {
		select {
		case <-t.sent.Overtaken():
			overtaken = true
		case <-denied:
			denied = nil
			e.offerAgain(ctx, t.pending)
		case <-ctx.Done():
			return false
		}
	}
	for sleep.For(ctx, askPace) {
		if found, err := t.pending.Ask(ctx); err == nil {
			return !found
		}
	}
	return false
}

// askPace is the pace of questions about a transaction that may be lost.
const askPace = 250 * time.Millisecond

// offerAgain offers a transaction under the same id to the node that may have it, or had it, once that node says that it
// does not know it. A node takes no id twice, so if the first offer is still on its way there, one of the two is
// refused.
func (e *Entry) offerAgain(ctx context.Context, p Pending) {
	submission := *e.submission
	submission.BeforeSend = nil // the transaction has had its turn
	for sleep.For(ctx, askPace) && time.Since(p.ID().ValidStart.Time()) < offerLimit && e.answer.Load() != answerDoubt {
		if e.s.Nodes.OfferAgain(ctx, submission, p) {
			return
		}
	}
}

// offerLimit is how old an id may be to be offered again: well within its validity.
const offerLimit = 100 * time.Second

// noReceipt is the result of an accepted transaction that the network does not know. A node that falls behind may
// drop what it accepted. Once the transaction's validity is over this is certain.
func (e *Entry) noReceipt(p Pending, err error) Result {
	r := offered(p)
	if errors.Is(err, consensus.ErrReceiptNotFound) {
		r.Outcome, r.Err = Rejected, eth.ErrRejected("RECEIPT_NOT_FOUND", "the network never executed it; send it again")
		return r
	}
	r.Err = eth.ErrUnknownOutcome(e.tx.Hash(), r.TransactionID.String())
	return r
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

// wrongNonce completes the result of a transaction that the network refused for its nonce. The client gets the error
// text that it knows, if the sender's nonce can be looked up, or was before. A nonce that was too high, although it seemed to be
// next, goes back to its line: one before it is missing.
func (e *Entry) wrongNonce(ctx context.Context, r Result) Result {
	s, nonce, reached := e.s, e.tx.Nonce(), e.next.Standing == lock.Reached
	s.metrics.wrongNonce.WithLabelValues(e.lease.Turn().Strategy).Inc()
	var current uint64
	shown := !s.cfg.SkipLookUps
	if shown {
		s.Chain.Changed(e.tx.From())
		switch now, found, err := s.Chain.Account(ctx, e.tx.From()); {
		case err == nil && !found:
			return r // the generic text is enough
		case err == nil:
			current = max(now.Nonce, s.Pool.Proven(e.tx.From()))
		default: // it went ahead of what its turn knew, which nothing has contradicted
			current, shown = e.known.nonce, nonce > e.known.nonce
		}
	}
	switch {
	case reached && (!shown || nonce > current): // it is spent, though the mirror node may not show it yet
		r.nonceSpent, r.Err = true, nonceError(eth.ErrNonceTooLow(nonce, max(current, nonce+1)))
		return r
	case !shown: // what the lane knew decides
	case nonce < current:
		r.Err = nonceError(eth.ErrNonceTooLow(nonce, current))
	case nonce > current:
		r.tooHigh, r.Err = true, nonceError(eth.ErrNonceTooHigh(nonce, current))
	}
	if nonce < current { // an equal nonce was wrong when it arrived and would be right now
		return r
	}
	switch {
	case e.next.Standing == lock.InLine:
		r.back = backTooHigh
	case e.next.Standing == lock.Uncertain && shown && s.Ordering.Window > 0:
		e.ahead = &ahead{until: time.Now().Add(s.Ordering.Late()), then: r}
		e.ahead.then.atConsensus = false // it is charged for now, and not then
		r.back = backAhead
	}
	return r
}

// nonceError gives an error about a nonce the network's status as data.
func nonceError(err *eth.Error) *eth.Error {
	err.Data = map[string]any{"hederaStatus": hapi.ResponseCodeEnum_WRONG_NONCE.String()}
	return err
}

// conclude tells all who need it the verdict on a transaction that a node may have had. again: it was certainly not
// executed, and is back in its line.
func (e *Entry) conclude(ctx context.Context, t turn, r Result) (result Result, again bool) {
	e.s.spendings.settle(e.tx, r.ran)
	e.settleRisk(r)
	t.sent.Conclude(ctx, lock.Verdict{Reached: r.atConsensus, Executed: r.ran, TooHigh: r.tooHigh})
	e.s.Chain.Changed(e.tx.From())
	if r.back != "" && e.goBack(r.back) {
		e.settleCost(r)
		return Result{}, true
	}
	if r.back == backVanished {
		r = e.lastLook(ctx, r)
	}
	return r, false
}
