package txmgr

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// parallelSigns bounds how many signatures are asked for at once; a key may be far away.
const parallelSigns = 8

// sendBatch bounds what is offered in one call.
const sendBatch = 100

// praisePause is how long one success is observed for all.
const praisePause = time.Second

// order is one attempt that is wanted.
type order struct {
	slot    *LineSlot
	intent  *Intent // nil for a fill
	purpose Purpose
	fees    Fees
	behind  string // Draft.Behind
}

// signNew signs every slot that nothing is signed for, stores the attempts and sends them.
func (w *worker) signNew(ctx context.Context, line *Line) (bool, error) {
	var list []order
	inLine, ahead := w.c.Traits().InLine(), (*LineSlot)(nil)
	for _, slot := range line.Slots {
		if slot.Consumed != "" || slot.Final {
			continue
		}
		if inLine && (len(list) > 0 || ahead != nil && !taken(ahead)) {
			break // the next one leaves when an endpoint has taken those before it
		}
		behind := ""
		if inLine && ahead != nil {
			behind = newest(ahead).Tag
		}
		ahead = slot
		switch {
		case slot.Holder == HolderIntent && len(slot.Intents) > 0 && !hasAttempt(slot, slot.Slot.Intent):
			intent := slot.Intents[0]
			if intent.ID != slot.Slot.Intent || intent.Status != StatusAssigned {
				continue
			}
			if over(intent, line.Now) {
				if err := w.tooLate(ctx, intent); err != nil {
					return false, err
				}
				continue
			}
			list = append(list, order{slot: slot, intent: intent, purpose: PurposeIntent, behind: behind})
		case slot.Holder == HolderFill && !hasPurpose(slot, PurposeFill):
			list = append(list, order{slot: slot, purpose: PurposeFill})
		}
	}
	list, err := w.alive(ctx, list)
	if err != nil || len(list) == 0 {
		return false, err
	}
	market, err := w.m.Fees(ctx, w.c.ID())
	if err != nil {
		return false, err
	}
	for n := range list {
		list[n].fees = w.openingFees(list[n], market)
	}
	if list, err = w.affordable(ctx, line, list); err != nil || len(list) == 0 {
		return false, err
	}
	return true, w.issue(ctx, list)
}

// alive looks at the kill switches last thing before a signature, and returns the orders that none
// of them covers. An intent whose pool is switched off gives its nonce to another one, or to a fill:
// those behind it must not wait.
func (w *worker) alive(ctx context.Context, list []order) ([]order, error) {
	if len(list) == 0 || w.killed(ctx) {
		return nil, nil
	}
	kept := list[:0]
	for _, o := range list {
		if o.intent == nil || w.kills[PoolScope(o.intent.Chain, o.intent.Pool)] == "" {
			kept = append(kept, o)
			continue
		}
		err := w.m.store.Release(ctx, w.lease.Fence(), o.intent.ID, "the kill switch of its pool is on")
		if err != nil && !errors.Is(err, ErrStale) {
			return nil, err
		}
	}
	return kept, nil
}

// current returns the newest attempt of a slot that counts, or nil. An attempt that every node has refused does not count
// once its intent has failed.
func current(slot *LineSlot) *Attempt {
	for n := len(slot.Attempts) - 1; n >= 0; n-- {
		a := slot.Attempts[n]
		dead := a.State == AttemptRefused && !a.Ambiguous
		if !dead || a.Purpose == PurposeFill || intentOf(slot, a.Intent) != nil {
			return a
		}
	}
	return nil
}

// newest returns the newest attempt of a slot that is not consumed, nil if there is none that
// may still be executed.
func newest(slot *LineSlot) *Attempt {
	if a := current(slot); a != nil && a.State != AttemptReplaced {
		return a
	}
	return nil
}

// taken reports whether an endpoint has said that it has the newest attempt of a slot.
func taken(slot *LineSlot) bool {
	a := newest(slot)
	return a != nil && a.State == AttemptSent
}

// hasAttempt reports whether an intent has an attempt in a slot that may still be executed.
func hasAttempt(slot *LineSlot, intent string) bool {
	return slices.ContainsFunc(slot.Attempts, func(a *Attempt) bool {
		return a.Intent == intent && a.Purpose != PurposeFill && a.State != AttemptReplaced
	})
}

func hasPurpose(slot *LineSlot, p Purpose) bool {
	return slices.ContainsFunc(slot.Attempts, func(a *Attempt) bool { return a.Purpose == p })
}

// openingFees are the first attempt's. A slot whose earlier bytes may still wait somewhere
// pays as a replacement does.
func (w *worker) openingFees(o order, market Market) Fees {
	intent := o.intent
	if intent == nil {
		intent = &Intent{Request: Request{Speed: SpeedFast}}
	}
	fees, ok := firstFees(intent, market, w.m.feeCap(w.c.ID()))
	if !ok { // the market rose since it was assigned: it waits in the pool, visibly
		fees = Fees{Max: lower(intent.MaxFee, w.m.feeCap(w.c.ID()))}
		if market.BaseFee != nil && !intent.Extra.OnePrice {
			fees.Tip = lower(lower(market.Tips[intent.Speed].Tip, intent.MaxTip), fees.Max)
		}
	}
	return fees
}

// issue signs, stores and sends attempts.
func (w *worker) issue(ctx context.Context, list []order) error {
	if !w.lease.Trusted(w.m.c.SendTimeout.Duration()) {
		return errors.New("the lease cannot be trusted long enough to sign")
	}
	attempts, err := w.sign(ctx, list)
	if len(attempts) == 0 {
		return err
	}
	w.m.at(ctx, PointSigned, w.c.ID(), w.signer)
	return errors.Join(err, w.commit(ctx, attempts...))
}

// commit stores attempts, and sends those that were.
func (w *worker) commit(ctx context.Context, attempts ...*Attempt) error {
	stored, err := w.m.store.Commit(ctx, w.lease.Fence(), attempts)
	if err != nil {
		return err
	}
	w.m.at(ctx, PointStored, w.c.ID(), w.signer)
	return w.send(ctx, stored)
}

// sign returns the attempts up to the first that could not be signed.
func (w *worker) sign(ctx context.Context, list []order) ([]*Attempt, error) {
	key := w.m.key(w.signer)
	if key == nil {
		return nil, ErrUnknownSigner
	}
	attempts := make([]*Attempt, len(list))
	failures := make([]error, len(list))
	var group errgroup.Group
	group.SetLimit(parallelSigns)
	for n, o := range list {
		group.Go(func() error {
			attempts[n], failures[n] = w.signOne(ctx, key, o)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failures
	for n, err := range failures {
		if err != nil {
			text := "signing failed: " + err.Error()
			observed := w.m.store.Observe(ctx, w.lease.Fence(), w.c.ID(), w.signer, Observation{Failed: &text})
			if o := list[n]; o.intent != nil {
				observed = errors.Join(observed, w.note(ctx, map[string]string{o.intent.ID: text}))
			}
			return attempts[:n], errors.Join(fmt.Errorf("nonce %d: %w", list[n].slot.Nonce, err), observed)
		}
	}
	return attempts, nil
}

func (w *worker) signOne(ctx context.Context, key Key, o order) (*Attempt, error) {
	draft := Draft{Signer: w.signer, Nonce: o.slot.Nonce, Fees: o.fees, Behind: o.behind}
	cause := o.slot.Slot.Intent
	switch o.purpose {
	case PurposeCancel, PurposeFill:
		draft.Call = Call{From: w.signer, To: w.signer, Value: new(big.Int)}
		gas, err := w.selfGas(ctx)
		if err != nil {
			return nil, err
		}
		draft.Gas = gas
	default:
		draft.Call = Call{From: w.signer, To: o.intent.To, Value: o.intent.Value, Data: o.intent.Data, Gas: o.intent.Gas, Extra: o.intent.Extra}
	}
	if o.intent != nil {
		cause = o.intent.ID
	}
	unsigned, err := w.c.Prepare(ctx, draft)
	if err != nil {
		return nil, err
	}
	signature, err := key.Sign(ctx, unsigned.Bytes)
	if err != nil {
		return nil, err
	}
	signed, err := w.c.Seal(unsigned, signature)
	if err != nil {
		return nil, err
	}
	return &Attempt{
		Chain: w.c.ID(), Signer: w.signer, Nonce: o.slot.Nonce, Hash: signed.Hash, Version: nextVersion(o.slot), Intent: cause,
		Purpose: o.purpose, Raw: signed.Raw, Tag: signed.Tag, Fees: o.fees, Gas: draft.Gas, State: AttemptSigned,
	}, nil
}

func nextVersion(slot *LineSlot) int {
	if n := len(slot.Attempts); n > 0 {
		return slot.Attempts[n-1].Version + 1
	}
	return 1
}

// selfGas is the gas of a transaction to oneself: 21,000 where nothing is added to it.
func (w *worker) selfGas(ctx context.Context) (uint64, error) {
	s, err := w.c.Simulate(ctx, Call{From: w.signer, To: w.signer, Value: new(big.Int), State: "latest"})
	if err != nil || !s.Success || s.Gas == 0 {
		return 0, errors.Join(errors.New("the gas of a transaction to oneself is not known"), err)
	}
	return s.Gas, nil
}

// send offers stored attempts in order, and stores the answers. Those to one part are stored
// while the next one leaves.
func (w *worker) send(ctx context.Context, list []*Attempt) (err error) {
	stored := func() error { return nil }
	for len(list) > 0 && err == nil {
		part := list[:min(len(list), sendBatch)]
		list = list[len(part):]
		answers, failed := w.offer(ctx, part)
		err = errors.Join(stored(), failed)
		stored = w.record(ctx, answers)
	}
	return errors.Join(err, stored())
}

// offer gives attempts to the chain and returns its answers; none if nothing could leave.
func (w *worker) offer(ctx context.Context, list []*Attempt) ([]Answer, error) {
	limit := w.m.c.SendTimeout.Duration()
	if !w.lease.Trusted(limit) {
		return nil, errors.New("the lease cannot be trusted long enough to send")
	}
	answers := make([]Answer, len(list))
	signed := make([]Signed, len(list))
	for n, a := range list {
		answers[n] = Answer{Attempt: a, Ambiguous: w.offered[a.Hash] || w.mayHaveLeft(a)}
		signed[n] = Signed{Hash: a.Hash, Raw: a.Raw, Tag: a.Tag, Again: a.Offers > 0 || a.Ambiguous || answers[n].Ambiguous}
		w.offered[a.Hash] = true
	}
	sending, cancel := context.WithTimeout(ctx, limit)
	errs := w.c.Send(sending, signed)
	cancel()
	w.m.at(ctx, PointSent, w.c.ID(), w.signer)
	for n, err := range errs {
		answers[n].Class = ClassOf(err)
		if err != nil {
			answers[n].Text = err.Error()
			w.m.metrics.sendErrors.WithLabelValues(string(answers[n].Class)).Inc()
		}
	}
	return answers, nil
}

// mayHaveLeft reports whether another term may have offered bytes whose answer is not stored. What a caller
// signed has no term; nobody has offered it before this one if it was accepted since.
func (w *worker) mayHaveLeft(a *Attempt) bool {
	fresh := a.Purpose == PurposeRaw && a.Term == 0 && a.SignedAt > w.since
	return a.State == AttemptSigned && a.Term != w.lease.Term() && !fresh
}

// record begins to store answers. The function that it returns waits for the end of that, and
// draws the consequences.
func (w *worker) record(ctx context.Context, answers []Answer) func() error {
	done := make(chan error, 1)
	go func() { done <- w.m.store.Answered(context.WithoutCancel(ctx), w.lease.Fence(), answers) }()
	return func() error {
		if err := <-done; err != nil {
			return err
		}
		for _, answer := range answers {
			delete(w.offered, answer.Attempt.Hash)
		}
		if len(answers) == 0 {
			return nil
		}
		w.m.at(ctx, PointAnswered, w.c.ID(), w.signer)
		w.m.news.wake()
		return w.weigh(ctx, answers)
	}
}

// weigh draws what follows from answers for the lane and for intents that can never run.
func (w *worker) weigh(ctx context.Context, answers []Answer) error {
	var failed *string
	succeeded := false
	for _, answer := range answers {
		a := answer.Attempt
		switch answer.Class {
		case "", ClassKnown:
			succeeded = true
			if answer.Class == "" && a.Offers == 1 {
				w.m.stage("broadcast", a)
			}
		case ClassNonceUsed, ClassGap:
			w.suspicious = true
			w.m.metrics.invalidNonce.WithLabelValues(w.c.ID()).Inc()
		case ClassFatal:
			if err := w.fail(ctx, a, answer.Text); err != nil && !errors.Is(err, ErrStale) {
				return err
			}
		case ClassFunds, ClassTransport, ClassAmbiguous, ClassPoolPolicy, ClassOverCap, ClassFeeTooLow, ClassSlotTaken, ClassNotSent:
			failed = &answer.Text
		}
	}
	lane := Observation{Failed: failed, Succeeded: succeeded && failed == nil}
	switch {
	case failed != nil:
		w.succeeded = time.Time{}
	case !succeeded || time.Since(w.succeeded) < praisePause:
		return nil
	default:
		w.succeeded = time.Now()
	}
	return w.m.store.Observe(ctx, w.lease.Fence(), w.c.ID(), w.signer, lane)
}

// fail ends the intent of an attempt that was refused for ever, if no endpoint ever may have had any of
// its attempts.
func (w *worker) fail(ctx context.Context, a *Attempt, why string) error {
	if a.State != AttemptRefused || a.Purpose == PurposeFill || a.Purpose == PurposeCancel {
		return nil
	}
	t, err := w.m.store.Get(ctx, "", a.Intent)
	if err != nil {
		return err
	}
	for _, one := range t.Attempts {
		// What is replaced was for a nonce that it is proven not to have used.
		if one.State != AttemptRefused && one.State != AttemptReplaced {
			return nil
		}
	}
	return w.end(ctx, &t.Intent, StatusFailed, Failure{Class: ClassFatal, Message: why})
}
