package txmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// retryFirst is the pause before an attempt without a definite answer is offered again. It
// doubles up to the setting.
const retryFirst = 500 * time.Millisecond

// resend offers bytes again that are not mined: at once what another term left behind,
// after a pause what was refused or unknown, and in long intervals what was taken.
func (w *worker) resend(ctx context.Context, line *Line) error {
	if line.Lane.Halted != "" {
		return nil
	}
	var due []*LineSlot
	for _, slot := range line.Slots {
		if slot.Consumed != "" || slot.Final || slot.Nonce < line.Lane.ChainNonce {
			continue
		}
		if a := current(slot); a != nil && w.due(a, line.Now) {
			due = append(due, slot)
		}
	}
	list, err := w.spare(ctx, due)
	if err != nil {
		return err
	}
	return w.send(ctx, list)
}

func (w *worker) due(a *Attempt, now int64) bool {
	every := w.m.c.ResendAfter.Duration()
	left := a.State == AttemptUnknown || w.mayHaveLeft(a)
	if left && w.c.Traits().Patient() {
		return now-max(a.SentAt, a.SignedAt) >= every.Microseconds()
	}
	switch a.State {
	case AttemptSigned:
		return true
	case AttemptSent:
	case AttemptUnknown, AttemptRefused:
		pause := retryFirst << min(max(a.Offers-1, 0), 10)
		every = min(every, pause)
	default:
		return false
	}
	return now-a.SentAt >= every.Microseconds()
}

// unstick raises, cancels and replaces what is signed and not mined.
func (w *worker) unstick(ctx context.Context, line *Line) error {
	head := slices.IndexFunc(line.Slots, func(s *LineSlot) bool { return s.Consumed == "" && !s.Final })
	if head < 0 {
		return nil
	}
	giveWay, err := w.closing(ctx, line.Slots[head], line.Now)
	if err != nil {
		return err
	}
	if !w.c.Traits().Mempool {
		return w.signHigher(ctx, line)
	}
	for n, slot := range line.Slots {
		if slot.Consumed != "" || slot.Final {
			continue
		}
		if err := w.expire(ctx, slot, line.Now); err != nil {
			return err
		}
		if o := w.wanted(slot, line.Now, n == head, giveWay); o != nil {
			if err := w.raise(ctx, *o, n == head); err != nil {
				return err
			}
		}
	}
	return nil
}

// signHigher signs the head of the line again when the price has risen above what it offers and an endpoint
// refused it for that. It keeps its nonce, so that the chain executes one of both. Where attempts have a
// time, renew does this.
func (w *worker) signHigher(ctx context.Context, line *Line) error {
	at := slices.IndexFunc(line.Slots, func(s *LineSlot) bool { return s.Consumed == "" && !s.Final })
	if at < 0 || !w.c.Traits().Patient() {
		return nil
	}
	slot := line.Slots[at]
	a := newest(slot)
	if a == nil || a.Purpose != PurposeIntent || a.Class != ClassFeeTooLow {
		return nil
	}
	intent := intentOf(slot, a.Intent)
	market, err := w.m.Fees(ctx, w.c.ID())
	if err != nil || intent == nil {
		return err
	}
	price := market.BaseFee
	price = cmp.Or(price, market.Tips[intent.Speed].Max)
	if a.Fees.Max.Cmp(price) >= 0 {
		return nil // it is offered again as it is
	}
	o, err := w.repriced(ctx, slot, a, market)
	if err != nil || o == nil {
		return err
	}
	return w.issue(ctx, []order{*o})
}

// repriced is the call of an attempt again with its nonce, for a price that has risen. Nil while a cap does not allow that; the intent then
// says that it waits.
func (w *worker) repriced(ctx context.Context, slot *LineSlot, a *Attempt, market Market) (*order, error) {
	intent := intentOf(slot, a.Intent)
	if intent == nil {
		return nil, nil
	}
	fees, affordable := firstFees(intent, market, w.m.feeCap(w.c.ID()))
	if !affordable || a.Purpose == PurposeRaw {
		return nil, w.note(ctx, map[string]string{intent.ID: "fee_cap: the price is above what it offers, and it may not offer more"})
	}
	return &order{slot: slot, intent: intent, purpose: a.Purpose, fees: fees}, nil
}

// wanted decides whether a slot needs another attempt now; the head of the line may have to give way.
func (w *worker) wanted(slot *LineSlot, now int64, head, giveWay bool) *order {
	newest := current(slot)
	if newest == nil || slot.Holder != HolderIntent && slot.Holder != HolderFill {
		return nil
	}
	o := order{slot: slot, purpose: newest.Purpose, intent: intentOf(slot, newest.Intent)}
	if newest.Purpose == PurposeRaw {
		return nil // its caller alone can; see tellStuck
	}
	next, cancel := replacement(slot), w.cancels(slot, now, head)
	if head && giveWay && cancel == nil {
		cancel = o.intent
	}
	switch {
	case cancel != nil && !hasPurpose(slot, PurposeCancel):
		o.purpose, o.intent = PurposeCancel, cancel
	case cancel == nil && next != nil && !hasAttempt(slot, next.ID) && w.kills[PoolScope(next.Chain, next.Pool)] == "":
		o.purpose, o.intent = PurposeReplace, next
	case underpriced(newest):
		// It was refused for its fees: the market may take it higher.
	case head && slot.SentAt != 0 && now-newest.SignedAt >= w.m.c.BumpAfter.Duration().Microseconds():
	default:
		return nil
	}
	return &o
}

// cancels returns the intent for which a slot is to be cancelled, nil if there is none: the first that may
// be mined though its caller does not want it any more, or its time is over; or the holder, when the slot
// has waited for long and all of its intents allow that. A cancel ends all of them.
func (w *worker) cancels(slot *LineSlot, now int64, head bool) *Intent {
	tries := false
	for _, i := range slot.Intents {
		if hasAttempt(slot, i.ID) && (i.Cancel || over(i, now)) {
			return i
		}
		tries = tries || i.KeepTrying
	}
	if head && !tries && slot.SentAt != 0 && now-slot.SentAt >= w.m.c.CancelAfter.Duration().Microseconds() {
		return intentOf(slot, slot.Slot.Intent)
	}
	return nil
}

// over reports whether the time of an intent has passed.
func over(i *Intent, now int64) bool { return i.ValidUntil != 0 && i.ValidUntil <= now }

// expire ends replacements of a slot whose time passed before anything was signed for them.
func (w *worker) expire(ctx context.Context, slot *LineSlot, now int64) error {
	var ended []*Intent
	for _, i := range slot.Intents {
		if i.ID == slot.Slot.Intent || i.Kind != KindReplace || i.Status != StatusAssigned || !over(i, now) {
			continue
		}
		if err := w.tooLate(ctx, i); err != nil && !errors.Is(err, ErrStale) {
			return err
		}
		ended = append(ended, i)
	}
	slot.Intents = slices.DeleteFunc(slot.Intents, func(i *Intent) bool { return slices.Contains(ended, i) })
	return nil
}

func underpriced(a *Attempt) bool {
	return a.State == AttemptRefused && (a.Class == ClassFeeTooLow || a.Class == ClassSlotTaken && a.Version > 1)
}

func intentOf(slot *LineSlot, id string) *Intent {
	for _, i := range slot.Intents {
		if i.ID == id {
			return i
		}
	}
	return nil
}

// replacement returns the newest intent that wants the slot instead of its holder.
func replacement(slot *LineSlot) *Intent {
	for n := len(slot.Intents) - 1; n >= 0; n-- {
		if slot.Intents[n].Kind == KindReplace && slot.Intents[n].ID != slot.Slot.Intent {
			return slot.Intents[n]
		}
	}
	return nil
}

// priced gives an order fees that every earlier attempt's node takes as a replacement. Nil
// when a cap does not allow it; the intent then says that it waits.
func (w *worker) priced(ctx context.Context, o order, head bool) (*order, error) {
	market, err := w.m.Fees(ctx, w.c.ID())
	if err != nil {
		return nil, err
	}
	speed, limit := SpeedFast, w.m.feeCap(w.c.ID())
	if o.intent != nil && o.purpose != PurposeCancel {
		speed = o.intent.Speed
		limit = lower(o.intent.MaxFee, limit)
		if o.intent.MaxFee == nil {
			limit = lower(limit, w.m.ceiling(w.c.ID(), market.Tips[speed].Max))
		}
	} else if o.intent != nil && !head {
		limit = lower(o.intent.MaxFee, limit) // at the head alone a cancel may cost more
	}
	old := Fees{}
	for _, a := range o.slot.Attempts {
		old.Max, old.Tip = higher(old.Max, a.Fees.Max), higher(old.Tip, a.Fees.Tip)
	}
	fees, ok := replacementFees(old, market.Tips[speed], limit)
	if !ok {
		if o.intent == nil {
			return nil, nil
		}
		why := w.m.capped(o.intent, market.Tips[o.intent.Speed].Max, true)
		a := current(o.slot)
		refused := firmly(a) && a.Class != ClassFeeTooLow // then that is why it waits
		if o.intent.Waiting == why || refused {
			return nil, nil
		}
		return nil, w.note(ctx, map[string]string{o.intent.ID: why})
	}
	o.fees = fees
	return &o, nil
}

// The beginnings of Intent.Waiting that other reasons leave alone.
const (
	StuckPrefix   = "stuck: "   // its caller alone can help
	ForeignPrefix = "foreign: " // somebody else's transaction used its nonce, in a block that is not final
)

// tellStuck tells the caller of a transaction that we cannot raise what a replacement needs.
func (w *worker) tellStuck(ctx context.Context, line *Line) error {
	at := slices.IndexFunc(line.Slots, func(s *LineSlot) bool { return s.Consumed == "" && !s.Final })
	if at < 0 || !w.c.Traits().Mempool {
		return nil
	}
	slot := line.Slots[at]
	a := current(slot)
	if a == nil {
		return nil
	}
	// What every endpoint refuses for its fees was never sent: its age is that of its acceptance.
	intent := intentOf(slot, a.Intent)
	if a.Purpose != PurposeRaw || intent == nil || line.Now-a.SignedAt < w.m.c.BumpAfter.Duration().Microseconds() ||
		strings.HasPrefix(intent.Waiting, StuckPrefix) {
		return nil
	}
	market, err := w.m.Fees(ctx, w.c.ID())
	if err != nil {
		return err
	}
	if firmly(a) && a.Class != ClassFeeTooLow { // a higher price would not help
		return w.m.store.Stuck(ctx, w.lease.Fence(), intent.ID, fmt.Sprintf("nonce %d is refused: %s", slot.Nonce, a.Message), Fees{})
	}
	fees, _ := replacementFees(a.Fees, market.Tips[SpeedStandard], nil)
	text := fmt.Sprintf("nonce %d needs maxFeePerGas %s", slot.Nonce, fees.Max)
	if fees.Tip != nil {
		text += " and maxPriorityFeePerGas " + fees.Tip.String()
	}
	return w.m.store.Stuck(ctx, w.lease.Fence(), intent.ID, text, fees)
}

// fill consumes free slots that later ones wait behind.
func (w *worker) fill(ctx context.Context, line *Line) error {
	if !w.c.Traits().Mempool || !line.Lane.Ours {
		return nil
	}
	signedAbove := false
	for n := len(line.Slots) - 1; n >= 0; n-- {
		slot := line.Slots[n]
		switch {
		case slot.Consumed != "" || slot.Final:
			signedAbove = true
		case slot.Signed && slot.Holder != HolderFree:
			signedAbove = true
		case slot.Holder == HolderFree && signedAbove:
			cause := ""
			if len(slot.Attempts) > 0 {
				cause = slot.Attempts[len(slot.Attempts)-1].Intent
			}
			if err := w.m.store.FillSlot(ctx, w.lease.Fence(), slot.Slot, cause); err != nil {
				return err
			}
			slot.Holder, slot.Slot.Intent = HolderFill, cause
		}
	}
	return nil
}
