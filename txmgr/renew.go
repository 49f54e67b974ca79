package txmgr

import (
	"context"
	"slices"
	"time"
)

// renew goes on with a slot whose newest attempt can never be executed under its tag, by the
// chain's own record or because its time is over. The intent ends if no tag can help; it is
// accepted again if no endpoint ever may have had its bytes, or if it is the bytes that are
// over; otherwise it is issued again with its nonce: bytes that have left may be executed one
// day, so their intent keeps their nonce.
func (w *worker) renew(ctx context.Context, line *Line, slot *LineSlot, found lookups) (bool, error) {
	a := newest(slot)
	if a == nil || slot.Holder != HolderIntent || a.Intent != slot.Slot.Intent {
		return false, nil
	}
	answer, _ := found.at(a)
	refused := answer.Refused
	if refused == nil {
		expired, err := w.c.Expired(ctx, Signed{Hash: a.Hash, Raw: a.Raw, Tag: a.Tag})
		if err != nil || !expired {
			return false, err
		}
	}
	w.suspicious = w.suspicious || refused != nil
	switch {
	case refused != nil && (refused.Class == ClassFatal || refused.Class == ClassFunds):
		return true, w.void(ctx, slot, &Failure{Class: refused.Class, Message: refused.Text})
	case w.c.Traits().Validity == ValidPayload && a.Purpose == PurposeRaw:
		return true, w.void(ctx, slot, &Failure{Class: "expired", Message: "what its caller signed is not valid any more"})
	case w.c.Traits().Validity == ValidPayload:
		return true, w.void(ctx, slot, nil)
	case refused == nil && neverLeft(slot) && a.Purpose != PurposeRaw:
		return true, w.void(ctx, slot, nil)
	case line.Now < a.SignedAt+renewPause(a.Version).Microseconds() || !w.m.c.Enabled || w.killed(ctx):
		return false, nil
	}
	return w.reissue(ctx, slot, a, refused)
}

// neverLeft reports whether endpoints have refused every attempt of a slot, so that nobody has
// its bytes.
func neverLeft(slot *LineSlot) bool {
	return !slices.ContainsFunc(slot.Attempts, func(a *Attempt) bool {
		return a.State != AttemptRefused && a.State != AttemptReplaced || a.Ambiguous
	})
}

// void takes an intent out of its slot, whose attempts are void for ever. With a reason it has
// failed.
func (w *worker) void(ctx context.Context, slot *LineSlot, why *Failure) error {
	return w.m.store.Requeue(ctx, w.lease.Fence(), slot.Slot.Intent, why)
}

// renewPause grows with the number of attempts: what a chain refuses again and again costs
// whoever pays for it.
func renewPause(version int) time.Duration { return 500 * time.Millisecond << min(version, 9) }

// reissue stores an attempt for the intent and the nonce of one that is void, and sends it. It
// reports whether it did.
func (w *worker) reissue(ctx context.Context, slot *LineSlot, old *Attempt, refused *Refusal) (bool, error) {
	if !w.lease.Trusted(w.m.c.SendTimeout.Duration()) {
		return false, nil
	}
	next, err := w.again(ctx, slot, old)
	if err != nil || next == nil {
		return false, err
	}
	if refused != nil {
		w.log.Warn("the chain refused a transaction", "nonce", slot.Nonce, "hash", old.Hash, "tag", old.Tag, "reason", refused.Text)
	}
	return true, w.commit(ctx, next)
}

// again returns the same bytes under a new tag. If the price has risen above what they offer,
// it signs the same call with the same nonce for the new price: the chain executes one of both. Nil
// while a cap does not allow that; the intent then says that it waits.
func (w *worker) again(ctx context.Context, slot *LineSlot, old *Attempt) (*Attempt, error) {
	market, err := w.m.Fees(ctx, w.c.ID())
	if err != nil {
		return nil, err
	}
	if market.BaseFee != nil && old.Fees.Max.Cmp(market.BaseFee) < 0 {
		o, err := w.repriced(ctx, slot, old, market)
		if err != nil || o == nil {
			return nil, err
		}
		signed, err := w.sign(ctx, []order{*o})
		if err != nil {
			return nil, err
		}
		w.m.at(ctx, PointSigned, w.c.ID(), w.signer)
		return signed[0], nil
	}
	signed, err := w.c.Renew(ctx, Signed{Hash: old.Hash, Raw: old.Raw, Tag: old.Tag}, "")
	if err != nil {
		return nil, err
	}
	next := *old
	next.Tag, next.Version, next.State, next.Ambiguous = signed.Tag, nextVersion(slot), AttemptSigned, false
	next.SentAt, next.Offers, next.RefusedAt, next.Failure = 0, 0, 0, Failure{}
	return &next, nil
}
