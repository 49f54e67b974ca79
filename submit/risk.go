package submit

import (
	"context"
	"time"

	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/sleep"
)

// What a sender can cost the operator by transactions that the network refuses. A transaction that is not known to be
// next needs one of its sender's risks before it is sent. One that is next when it is sent can only be refused if a
// transaction before it fails, or takes what it was to cost: see room.go.

// takeRisk takes one of the sender's risks if the network may refuse this transaction for its nonce: it is not the
// next one, or others have its nonce, too. Where nothing is looked up the network judges the nonce. takeRisk waits
// for a free risk while all earlier transactions are on their way. wait means that it waited for as long as a turn
// may take: the transaction goes back into its line. The error is the client's.
func (s *Submitter) takeRisk(ctx context.Context, e *Entry, expected uint64) (wait bool, err error) {
	mine := e.tx.Nonce()
	if s.cfg.SkipLookUps || s.nonces.Budget() == 0 || mine == expected && s.isAlone(e) {
		return false, nil
	}
	// In a line it waits in its turn: those behind it must not get the free one first.
	since, limit := time.Now(), s.awaitLimit()
	if e.way == unordered {
		since, limit = e.arrived, s.ordering.Recovery.Duration()
	}
	var looked time.Time
	for {
		near := mine < expected+uint64(s.nonces.Budget())
		if near && s.tryRisk(ctx, e, mine == expected) {
			return false, nil
		}
		if mine < expected {
			return false, tooRisky(mine, expected)
		}
		pace := freshness * time.Duration(1+min(mine-expected, maxPaced)/16)
		if looked.IsZero() || time.Since(looked) > pace {
			if !looked.IsZero() {
				if account, found, err := s.chain.Account(ctx, e.tx.From()); err == nil && found {
					expected = max(expected, account.Nonce)
				}
			}
			looked = time.Now()
			if mine >= expected && !s.pool.Follows(ctx, e.tx, expected) {
				if !near && s.tryRisk(ctx, e, false) { // nobody on the way needs it
					return false, nil
				}
				return false, tooRisky(mine, expected)
			}
		}
		if time.Since(since) > limit || !sleep.For(ctx, riskPace) {
			return e.way != unordered, tooRisky(mine, expected)
		}
		expected = max(expected, s.pool.Proven(e.tx.From()))
		switch {
		case mine < expected:
			return false, eth.ErrNonceTooLow(mine, expected)
		case mine == expected && s.isAlone(e):
			return false, nil
		}
	}
}

// isAlone tells whether nothing else can have taken the nonce of a transaction that is next. In a line nothing
// can. Without a line another relay may have the same nonce. So nothing is alone in a fleet, and in one relay what a
// sender with recent wrong nonces sends is not.
func (s *Submitter) isAlone(e *Entry) bool {
	return e.way != unordered || !s.nonces.Shared() && s.pool.Alone(e.tx) && !s.nonces.Watched(e.tx.From())
}

// tryRisk takes a risk, if one is free. Without a line the last ones are kept for transactions that are next.
func (s *Submitter) tryRisk(ctx context.Context, e *Entry, isNext bool) (ok bool) {
	spare := 0
	if e.way == unordered && !isNext {
		spare = s.nonces.Budget() / 4
	}
	e.risk, ok = s.nonces.Take(ctx, e.tx.From(), spare)
	return ok
}

// riskPace is how often a transaction that waits for a risk without a line looks. The mirror node is asked less
// often, and the more rarely the further off the nonce is, up to maxPaced nonces.
const (
	riskPace = 25 * time.Millisecond
	maxPaced = 1024
)

func tooRisky(mine, expected uint64) error {
	if mine > expected {
		return eth.ErrNonceTooHigh(mine, expected)
	}
	return eth.ErrWrongNonces()
}

// settleRisk applies the verdict: the risk is given back, unless the operator paid for a refusal that its sender
// caused. A transaction that was refused without a risk is charged one.
func (e *Entry) settleRisk(r Result) {
	switch {
	case !r.refusedForSender():
		e.risk.GiveBack()
	case e.risk == nil:
		e.s.nonces.Charge(e.tx.From())
	}
	if r.back == backVanished {
		e.s.nonces.Excuse(e.tx.From())
	}
	e.risk = nil
}

// refusedForSender tells whether consensus refused the transaction for a reason that its sender has in hand: the nonce,
// or what the sender has. The network says the latter as well when the operator has nothing left. Then nothing of
// anybody is executed, so it does no harm that senders are charged for it.
func (r Result) refusedForSender() bool {
	if !r.atConsensus || r.ran {
		return false
	}
	switch r.Status {
	case hapi.ResponseCodeEnum_WRONG_NONCE, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID,
		hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE:
		return true
	default:
		return false
	}
}
