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

// settle waits for the verdict. The caller's wait may end before there is one: it
// is then told that the outcome is unknown, and the verdict is awaited without it.
func (s *Submitter) settle(ctx context.Context, lease *lock.Lease, e *Entry, t turn) (Result, bool) {
	r, until, waits := s.followForCaller(ctx, lease, e, t)
	if waits && time.Since(until) > standstill {
		// This process stood still, so nobody has looked.
		r, _, waits = s.followForCaller(ctx, lease, e, t)
	}
	if !waits {
		return s.conclude(ctx, e, t, r)
	}
	s.unclear(e, t.pending)
	e.noteAnswer(answerDoubt)
	s.background(e, func() {
		if _, over := s.conclude(ctx, e, t, e.stamp(s.follow(ctx, lease, e, t))); !over {
			e.run(ctx, nil)
		}
	})
	return r, true
}

// standstill is how late a wait ends in a process that stood still meanwhile.
const standstill = time.Second

// followForCaller is follow until the caller waits no longer. waits: there is no verdict yet, and no other reason to end.
func (s *Submitter) followForCaller(ctx context.Context, lease *lock.Lease, e *Entry, t turn) (r Result, until time.Time, waits bool) {
	until = time.Now().Add(s.waitTime)
	if at, ok := e.answerBy(); ok && at.Before(until) {
		until = at
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	r = e.stamp(s.follow(ctx, lease, e, t))
	return r, until, r.Outcome == Unknown && ctx.Err() != nil
}

// follow waits for the verdict of the network on a transaction that a node has, or may have.
func (s *Submitter) follow(ctx context.Context, lease *lock.Lease, e *Entry, t turn) Result {
	r := s.verdict(ctx, lease, e, t)
	if r.ran || r.Outcome == Unknown {
		return r
	}
	// Look again before anybody is told that it failed: a submission that vanished from its node may have been
	// executed after all.
	for i, former := range e.doubtful {
		if i == len(e.doubtful)-1 && former == t.pending {
			continue
		}
		receipt, err := former.Receipt(ctx)
		if err != nil && !errors.Is(err, consensus.ErrReceiptNotFound) {
			return s.noReceipt(e, offered(former), err)
		}
		if err != nil {
			continue
		}
		if was := s.judge(ctx, e, former, receipt); was.ran || was.Outcome == Unknown {
			return was
		}
	}
	return r
}

// safe returns what a client may be told if r says that the transaction was not executed. Only one node says that
// a former submission of it vanished, so this is not certain.
func (e *Entry) safe(ctx context.Context, r Result) Result {
	if len(e.doubtful) == 0 {
		return r
	}
	last := e.doubtful[len(e.doubtful)-1]
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	receipt, err := last.Receipt(ctx)
	if err != nil {
		was := e.stamp(offered(last))
		was.Err = eth.ErrUnknownOutcome(was.Hash, last.ID().String())
		return was
	}
	if was := e.s.judge(ctx, e, last, receipt); was.ran || was.Outcome == Unknown {
		return e.stamp(was)
	}
	return r
}

// lastLook is how long a receipt is looked for before the client is told that the outcome is not known.
const lastLook = 2 * time.Second

// verdict waits for the receipt, and reads it.
func (s *Submitter) verdict(ctx context.Context, lease *lock.Lease, e *Entry, t turn) Result {
	receipt, err := s.receipt(ctx, e, t)
	r := offered(t.pending)
	if errors.Is(err, errOvertaken) {
		r.Outcome, r.back = Rejected, backVanished
		r.Err = eth.ErrRejected("RECEIPT_NOT_FOUND", "a later transaction of the sender reached consensus before it")
		e.doubtful = append(e.doubtful, t.pending)
		return r
	}
	if err != nil {
		return s.noReceipt(e, r, err)
	}
	if r = s.judge(ctx, e, t.pending, receipt); r.Outcome == Rejected && r.Status == hapi.ResponseCodeEnum_WRONG_NONCE {
		return s.wrongNonce(ctx, lease, e, r)
	}
	return r
}

// judge tells what a receipt means. Some statuses have one meaning. Most failures can come from before the run and from
// within: a contract that destroys itself in favour of nobody has run, and ends as INVALID_SOLIDITY_ADDRESS. What these
// mean the record decides, and the name only if no record comes.
func (s *Submitter) judge(ctx context.Context, e *Entry, p Pending, receipt consensus.Receipt) Result {
	r := offered(p)
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
		if record, err := s.chain.Record(ctx, id); err == nil && record != RecordOpen {
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
func (s *Submitter) receipt(ctx context.Context, e *Entry, t turn) (consensus.Receipt, error) {
	if e.way == unordered || s.ordering.Recovery == 0 {
		return t.pending.Receipt(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel(nil)
	helpers.Go(func() {
		if s.vanished(ctx, e, t) {
			cancel(errOvertaken)
		}
	})
	if t.end == unclear {
		helpers.Go(func() { s.offerAgain(ctx, e, t.pending) })
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
func (s *Submitter) vanished(ctx context.Context, e *Entry, t turn) bool {
	denied := t.pending.Denied()
	if t.end == unclear {
		denied = nil // it is offered already
	}
	for overtaken := false; !overtaken; {
		select {
		case <-t.sent.Overtaken():
			overtaken = true
		case <-denied:
			denied = nil
			s.offerAgain(ctx, e, t.pending)
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
func (s *Submitter) offerAgain(ctx context.Context, e *Entry, p Pending) {
	submission := e.submission
	submission.BeforeSend = nil // the transaction has had its turn
	for sleep.For(ctx, askPace) && time.Since(p.ID().ValidStart.Time()) < offerLimit && e.answer.Load() != answerDoubt {
		if s.nodes.OfferAgain(ctx, submission, p) {
			return
		}
	}
}

// offerLimit is how old an id may be to be offered again: well within its validity.
const offerLimit = 100 * time.Second

// noReceipt is the result of an accepted transaction that the network does not know. A node that falls behind may
// drop what it accepted. Once the transaction's validity is over this is certain.
func (s *Submitter) noReceipt(e *Entry, r Result, err error) Result {
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
func (s *Submitter) wrongNonce(ctx context.Context, lease *lock.Lease, e *Entry, r Result) Result {
	s.metrics.wrongNonce.WithLabelValues(lease.Turn().Strategy).Inc()
	nonce := e.tx.Nonce()
	// A nonce that had certainly been reached is spent, though the mirror node may not show it yet.
	spent := func(current uint64) Result {
		r.nonceSpent, r.Err = true, nonceError(eth.ErrNonceTooLow(nonce, max(current, nonce+1)))
		return r
	}
	var account Account
	shown := !s.cfg.SkipLookUps
	if shown {
		s.chain.Changed(e.tx.From())
		now, found, err := s.chain.Account(ctx, e.tx.From())
		switch {
		case err == nil && !found:
			return r // the generic text is enough
		case err == nil:
			account = now
		default: // it went ahead of what its turn knew, which nothing has contradicted
			known, _ := e.facts.get(ctx)
			account.Nonce, shown = known.nonce, nonce > known.nonce
		}
	}
	switch {
	case !shown: // what the lane knew decides
		if e.standing == lock.Reached {
			return spent(0)
		}
	case nonce < account.Nonce:
		r.Err = nonceError(eth.ErrNonceTooLow(nonce, account.Nonce))
	case nonce > account.Nonce && e.standing == lock.Reached:
		return spent(account.Nonce)
	case nonce > account.Nonce:
		r.tooHigh, r.Err = true, nonceError(eth.ErrNonceTooHigh(nonce, account.Nonce))
	}
	if nonce < account.Nonce { // an equal nonce was wrong when it arrived and would be right now
		return r
	}
	switch {
	case e.standing == lock.InLine:
		r.back = backTooHigh
	case e.standing == lock.Uncertain && shown && s.ordering.Window > 0:
		e.ahead = &ahead{until: time.Now().Add(s.ordering.Late()), then: r}
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

// conclude tells all who need it the verdict on a transaction that a node may have had. It is not over if the
// transaction was certainly not executed and goes back to its line.
func (s *Submitter) conclude(ctx context.Context, e *Entry, t turn, r Result) (Result, bool) {
	s.spendings.settle(e.tx, r.ran)
	e.settleRisk(r)
	t.sent.Conclude(ctx, lock.Verdict{Reached: r.atConsensus, Executed: r.ran, TooHigh: r.tooHigh})
	s.chain.Changed(e.tx.From())
	if r.back != "" && e.goBack(r.back) {
		e.cost.settle(r)
		e.tellCharged(r)
		return Result{}, false
	}
	if r.back == backVanished {
		r = e.safe(ctx, r)
	}
	return s.finish(e, r), true
}

// finish gives everything back and records the final result, on every path.
func (s *Submitter) finish(e *Entry, r Result) Result {
	r = e.stamp(r)
	if !e.become(over) {
		return r
	}
	defer e.discard(r.ran)
	e.leave()
	e.cost.settle(r)
	e.tellCharged(r)
	e.risk.GiveBack() // if it had no verdict
	s.publish(e, r)
	s.keepOrRelease(e, r)
	s.logResult(e, r)
	return r
}
