package txmgr

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// FundsPrefix begins the words of Intent.Waiting that say that no signer can pay.
const FundsPrefix = string(ClassFunds) + ": "

// Unit is what amounts of a chain are told in to people.
type Unit struct {
	Name     string // such as ETH
	Decimals int    // of the smallest unit
}

// Text writes an amount with no more than four digits that count, which are enough to see what is missing.
func (u Unit) Text(amount *big.Int) string {
	digits := amount.String()
	if cut := len(digits) - 4; cut > 0 {
		digits = digits[:4] + strings.Repeat("0", cut)
	}
	if missing := u.Decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	whole, part := digits[:len(digits)-u.Decimals], strings.TrimRight(digits[len(digits)-u.Decimals:], "0")
	if part != "" {
		whole += "." + part
	}
	return strings.TrimSpace(whole + " " + u.Name)
}

// MostOf is the most that a transaction may take from its sender: a node takes it into its pool if the account has this
// besides what all before it may take.
func MostOf(value *big.Int, gas uint64, price *big.Int) *big.Int {
	most := new(big.Int)
	if price != nil {
		most.Mul(price, new(big.Int).SetUint64(gas))
	}
	if value != nil {
		most.Add(most, value)
	}
	return most
}

// holds reports whether a lane's account has an amount at all. What was never read may be there.
func (l *Lane) holds(cost *big.Int) bool {
	return cost == nil || l.Balance == nil || l.Balance.Cmp(cost) >= 0
}

// spare is what a lane's account has besides what its transactions on the way may take; nil if that was never read.
func (l *Lane) spare() *big.Int {
	if l.Balance == nil || l.Committed == nil {
		return l.Balance
	}
	return new(big.Int).Sub(l.Balance, l.Committed)
}

// poor says that none of the lanes that serve an intent has what it may cost, "" if one has.
func poor(q *Queued, serving []*Lane, unit Unit) string {
	var richest *big.Int
	for _, lane := range serving {
		if lane.holds(q.cost) {
			return ""
		}
		richest = higher(richest, lane.Balance)
	}
	return FundsPrefix + cannotPay(q.cost, richest, unit)
}

func cannotPay(cost, richest *big.Int, unit Unit) string {
	return fmt.Sprintf("no signer can pay %s; the richest has %s", unit.Text(cost), unit.Text(richest))
}

// endPoor ends intents of the queue that nobody could pay for as long as others try to be executed.
func (w *worker) endPoor(ctx context.Context, queue []*Queued, waiting map[string]string, now int64) error {
	for _, q := range queue {
		why, fresh := waiting[q.ID]
		if !fresh {
			why = q.Waiting
		}
		words, isPoor := strings.CutPrefix(why, FundsPrefix)
		if !isPoor || q.KeepTrying || now-q.Accepted < w.m.c.CancelAfter.Duration().Microseconds() {
			continue
		}
		delete(waiting, q.ID)
		if err := w.end(ctx, q.Intent, StatusFailed, Failure{Class: ClassFunds, Message: words}); err != nil && !errors.Is(err, ErrStale) {
			return err
		}
	}
	return nil
}

// affordable returns the orders that the signer can pay for beside what is on its way, and gives the nonces of the others
// back: what they were assigned for may have changed since.
func (w *worker) affordable(ctx context.Context, line *Line, list []order) ([]order, error) {
	if line.Lane.Balance == nil {
		return list, nil
	}
	left := new(big.Int).Set(line.Lane.Balance)
	for _, slot := range line.Slots {
		if slot.Consumed == "" && !slot.Final && slot.Cost != nil && !slices.ContainsFunc(list, func(o order) bool { return o.slot == slot }) {
			left.Sub(left, slot.Cost)
		}
	}
	kept := list[:0]
	for _, o := range list {
		if o.intent == nil {
			kept = append(kept, o)
			continue
		}
		cost := MostOf(o.intent.Value, o.intent.Gas, o.fees.Max)
		if left.Cmp(cost) >= 0 {
			left.Sub(left, cost)
			kept = append(kept, o)
			continue
		}
		unit := w.c.Traits().Unit
		why := FundsPrefix + fmt.Sprintf("its signer cannot pay %s beside what is on its way; it has %s", unit.Text(cost), unit.Text(line.Lane.Balance))
		if err := w.m.store.Release(ctx, w.lease.Fence(), o.intent.ID, why); err != nil && !errors.Is(err, ErrStale) {
			return nil, err
		}
	}
	return kept, nil
}

// paid notes what proofs may have taken from the balance since it was last read, and reads it again when that may matter.
func (w *worker) paid(ctx context.Context, line *Line) error {
	lane := line.Lane
	if !lane.Ours || lane.Balance == nil || w.spent.Sign() == 0 {
		return nil
	}
	if margin := new(big.Int).Lsh(w.spent, 3); margin.Cmp(lane.spare()) < 0 {
		return nil
	}
	balance, err := w.c.Balance(ctx, w.signer)
	if err != nil {
		return fmt.Errorf("the account's balance: %w", err)
	}
	w.spent.SetInt64(0)
	lane.Balance = balance
	return w.m.store.Observe(ctx, w.lease.Fence(), w.c.ID(), w.signer, Observation{Balance: balance})
}

// firmly reports whether the last answer to an attempt that nobody is known to have was a firm refusal.
func firmly(a *Attempt) bool {
	return a != nil && (a.State == AttemptRefused || a.State == AttemptUnknown) && a.Class.Firm()
}

// heading is since when a nonce is the head of the line, as this owner has seen, by the ledger's clock.
type heading struct {
	nonce uint64
	since int64
}

// closing reports whether the head of the line was refused for so long that it must give way: all behind it waits. For how long the ledger tells,
// whoever has asked; but the last refusal must be of this head, since what was in its way may have been why.
// An intent none of whose attempts anybody has ends with the words of the node; the nonce is free then. Otherwise true asks for a
// transaction that takes its place.
func (w *worker) closing(ctx context.Context, slot *LineSlot, now int64) (replace bool, err error) {
	if w.heads.since == 0 || w.heads.nonce != slot.Nonce {
		w.heads = heading{slot.Nonce, now}
	}
	a := current(slot)
	if !firmly(a) || slot.Holder != HolderIntent || a.Purpose != PurposeIntent && a.Purpose != PurposeReplace {
		return false, nil
	}
	if now-a.RefusedAt < w.m.c.HeadPatience.Duration().Microseconds() || a.Offers < 2 || a.SentAt < w.heads.since {
		return false, nil
	}
	if !neverLeft(slot) {
		return true, nil
	}
	w.log.Warn("the head of the line was refused for too long; it ends", "nonce", slot.Nonce, "hash", a.Hash, "class", a.Class, "reason", a.Message)
	for _, i := range slot.Intents {
		if err := w.end(ctx, i, StatusFailed, a.Failure); err != nil && !errors.Is(err, ErrStale) {
			return false, err
		}
	}
	slot.Holder, slot.Slot.Intent, slot.Intents = HolderFree, "", nil
	return false, nil
}
