package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"math/big"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// Prove stores which transactions used slots of one lane.
func (s *Store) Prove(ctx context.Context, f lease.Fence, list []txmgr.Proof) error {
	if len(list) == 0 {
		return nil
	}
	return s.owned(ctx, f, list[0].Slot.Chain, list[0].Slot.Signer, func(tx *ledger.Tx, now int64, lane *txmgr.Lane) error {
		c, err := casesOf(ctx, tx, lane, each(list, func(p txmgr.Proof) uint64 { return p.Slot.Nonce }))
		if err != nil {
			return err
		}
		next := lane.ChainNonce
		for _, p := range list {
			one := c[p.Slot.Nonce]
			if one == nil || one.slot.Final {
				continue
			}
			if p.Attempt == nil {
				err = one.foreign(ctx, tx, p)
			} else {
				err = one.mined(ctx, tx, p)
			}
			if err != nil {
				return err
			}
			if one.slot.Consumed != "" {
				next = max(next, p.Slot.Nonce+1)
			}
		}
		if err := noteNonce(ctx, tx, lane, next); err != nil {
			return err
		}
		return c.save(ctx, tx, now, lane)
	})
}

// noteNonce notes what proofs say of a lane's nonce in the chain, which is asked for itself only now and then.
func noteNonce(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, next uint64) error {
	if next == lane.ChainNonce {
		return nil
	}
	lane.ChainNonce = next
	return saveLane(ctx, tx, lane)
}

// slotCase is a slot with all that is decided with it.
type slotCase struct {
	slot     *txmgr.Slot
	attempts []*txmgr.Attempt
	intents  []*txmgr.Intent
	changed  bool
}

type cases map[uint64]*slotCase

func casesOf(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, want []uint64) (cases, error) {
	slots, err := slotsByNonce(ctx, tx, lane, want)
	if err != nil {
		return nil, err
	}
	c := cases{}
	args := []any{lane.Chain, lane.Era, lane.Signer}
	for nonce, slot := range slots {
		c[nonce] = &slotCase{slot: slot}
		args = append(args, int64(nonce))
	}
	if len(c) == 0 {
		return c, nil
	}
	in := ledger.List(4, len(c))
	attempts, err := attemptsWhere(ctx, tx, "chain = $1 AND era = $2 AND signer = $3 AND nonce IN "+in, args...)
	if err != nil {
		return nil, err
	}
	for _, a := range attempts {
		c[a.Nonce].attempts = append(c[a.Nonce].attempts, a)
	}
	intents, err := intentsWhere(ctx, tx, "chain = $1 AND era = $2 AND signer = $3 AND nonce IN "+in+" AND NOT final ORDER BY seq"+tx.ForUpdate(), args...)
	if err != nil {
		return nil, err
	}
	for _, i := range intents {
		if i.Status != txmgr.StatusAccepted {
			c[i.Nonce].intents = append(c[i.Nonce].intents, i)
		}
	}
	return c, nil
}

func (c cases) save(ctx context.Context, tx *ledger.Tx, now int64, lane *txmgr.Lane) error {
	var slots []*txmgr.Slot
	var attempts []*txmgr.Attempt
	var intents []*txmgr.Intent
	for _, one := range c {
		if one.changed {
			slots, attempts, intents = append(slots, one.slot), append(attempts, one.attempts...), append(intents, one.intents...)
		}
	}
	if err := saveSlots(ctx, tx, lane, slots...); err != nil {
		return err
	}
	if err := saveAttempts(ctx, tx, attempts); err != nil {
		return err
	}
	byID := map[string]*txmgr.Intent{}
	for _, i := range intents {
		byID[i.ID] = i
	}
	return saveIntents(ctx, tx, now, sorted(byID)...)
}

// mined records that one of our attempts used the slot.
func (c *slotCase) mined(ctx context.Context, tx *ledger.Tx, p txmgr.Proof) error {
	var winner *txmgr.Attempt
	for _, a := range c.attempts {
		if a.Hash == p.Attempt.Hash && a.Tag == p.Attempt.Tag {
			winner = a
		}
	}
	if winner == nil {
		return fmt.Errorf("%w: attempt %s is not of slot %d", txmgr.ErrStale, p.Attempt.Hash, c.slot.Nonce)
	}
	c.changed = true
	c.slot.Consumed, c.slot.Block, c.slot.BlockHash, c.slot.Final = winner.Hash, p.Block, p.BlockHash, p.Final
	for _, a := range c.attempts {
		switch {
		case a == winner:
			a.State, a.Failure = txmgr.AttemptMined, txmgr.Failure{}
		case p.Final:
			a.State = txmgr.AttemptReplaced
		case a.State == txmgr.AttemptMined: // a reorganisation chose another one
			a.State = txmgr.AttemptSent
		}
	}
	receipt := *p.Receipt
	receipt.Final = p.Final
	for _, i := range c.intents {
		decide(i, winner, &receipt, c.attempts)
		i.Final = p.Final
		if !p.Final {
			continue
		}
		cost := new(big.Int)
		if i.ID == winner.Intent {
			cost = receipt.Cost()
		}
		if err := settle(ctx, tx, i, cost); err != nil {
			return err
		}
	}
	if p.Final && winner.Purpose == txmgr.PurposeFill {
		if winner.Intent == "" {
			return chargeReserved(ctx, tx, winner, receipt.Cost())
		}
		return charge(ctx, tx, winner.Intent, receipt.Cost())
	}
	return nil
}

// decide gives an intent the status that follows from the attempt that was mined.
func decide(i *txmgr.Intent, winner *txmgr.Attempt, receipt *txmgr.Receipt, attempts []*txmgr.Attempt) {
	i.Waiting = ""
	mine := i.ID == winner.Intent
	switch {
	case mine && winner.Purpose == txmgr.PurposeCancel:
		i.Status, i.Hash, i.Receipt = txmgr.StatusCancelled, winner.Hash, receipt
		for _, a := range attempts { // what nodes had against it is why nobody waited any longer
			if !i.Cancel && a.Intent == i.ID && a.Purpose != txmgr.PurposeCancel && a.Class != "" {
				i.Failure = a.Failure
			}
		}
	case mine && !receipt.Final:
		i.Status, i.Hash, i.Receipt = txmgr.StatusMined, winner.Hash, receipt
	case mine && receipt.Success:
		i.Status, i.Hash, i.Receipt = txmgr.StatusConfirmed, winner.Hash, receipt
	case mine:
		i.Status, i.Hash, i.Receipt = txmgr.StatusReverted, winner.Hash, receipt
		i.Failure = txmgr.Failure{Class: "reverted", Message: whyFailed(receipt)}
	case i.Replaces != "":
		i.Status = txmgr.StatusCancelled
		i.Failure = txmgr.Failure{Class: "superseded", Message: "another transaction of its slot was mined"}
	default:
		i.Status = txmgr.StatusReplaced
	}
}

func whyFailed(receipt *txmgr.Receipt) string {
	const text = "the transaction was executed and failed"
	if receipt.Reason == "" {
		return text
	}
	return text + ": " + receipt.Reason
}

// foreign records that somebody else's transaction used the slot for ever.
func (c *slotCase) foreign(ctx context.Context, tx *ledger.Tx, p txmgr.Proof) error {
	if !p.Final {
		return nil
	}
	c.changed = true
	held := c.slot.Reservation
	c.slot.Holder, c.slot.Consumed, c.slot.Block, c.slot.BlockHash, c.slot.Final = txmgr.HolderForeign, p.Foreign, p.Block, p.BlockHash, true
	for _, a := range c.attempts {
		a.State = txmgr.AttemptReplaced
	}
	if held != "" {
		if _, err := tx.Exec(ctx, "UPDATE reservations SET status = 'used', hash = $2 WHERE id = $1 AND status = 'held'", held, p.Foreign); err != nil {
			return err
		}
	}
	for n, i := range c.intents {
		last := n == len(c.intents)-1
		switch {
		case i.Kind == txmgr.KindRaw:
			i.Status, i.Final = txmgr.StatusFailed, true
			i.Failure = txmgr.Failure{Class: txmgr.ClassNonceUsed, Message: "another transaction used its nonce: " + p.Foreign}
		case i.Cancel:
			i.Status, i.Final = txmgr.StatusCancelled, true
		case !last:
			i.Status, i.Final = txmgr.StatusReplaced, true
		default:
			requeue(i, "another transaction used its nonce: "+p.Foreign)
			continue
		}
		if err := settle(ctx, tx, i, new(big.Int)); err != nil {
			return err
		}
	}
	return nil
}

// requeue makes an intent accepted again. Its attempts stay with the slot that they were for.
func requeue(i *txmgr.Intent, why string) {
	i.Status, i.Signer, i.Nonce, i.Era, i.Hash, i.Receipt, i.Waiting = txmgr.StatusAccepted, "", 0, 0, "", nil, why
}

// Unmine takes back what a reorganisation has undone.
func (s *Store) Unmine(ctx context.Context, f lease.Fence, list []txmgr.Slot) error {
	if len(list) == 0 {
		return nil
	}
	return s.owned(ctx, f, list[0].Chain, list[0].Signer, func(tx *ledger.Tx, now int64, lane *txmgr.Lane) error {
		c, err := casesOf(ctx, tx, lane, each(list, func(s txmgr.Slot) uint64 { return s.Nonce }))
		if err != nil {
			return err
		}
		next := lane.ChainNonce
		for nonce, one := range c {
			if one.slot.Final || one.slot.Consumed == "" {
				continue
			}
			one.changed, next = true, min(next, nonce)
			one.slot.Consumed, one.slot.Block, one.slot.BlockHash = "", 0, ""
			for _, a := range one.attempts {
				if a.State == txmgr.AttemptMined {
					a.State = txmgr.AttemptSent
				}
			}
			for _, i := range one.intents {
				i.Status, i.Receipt, i.Failure, i.Waiting = txmgr.StatusBroadcast, nil, txmgr.Failure{}, "its block was reorganised away"
			}
		}
		if err := noteNonce(ctx, tx, lane, next); err != nil {
			return err
		}
		return c.save(ctx, tx, now, lane)
	})
}

// End gives an intent without a transaction in the chain a fate.
func (s *Store) End(ctx context.Context, f lease.Fence, id string, status txmgr.Status, why txmgr.Failure) error {
	return s.fenced(ctx, f, func(tx *ledger.Tx, now int64) error {
		return end(ctx, tx, now, id, status, why)
	})
}

// Release gives back the slot of an intent that nothing was signed for.
func (s *Store) Release(ctx context.Context, f lease.Fence, id, why string) error {
	return s.fenced(ctx, f, func(tx *ledger.Tx, now int64) error {
		i, lane, err := lockedIntent(ctx, tx, "", id)
		if err != nil {
			return err
		}
		if i.Status != txmgr.StatusAssigned || lane == nil {
			return txmgr.ErrStale
		}
		if err := freeSlot(ctx, tx, lane, i.Nonce, id); err != nil {
			return err
		}
		requeue(i, clip(why))
		return saveIntents(ctx, tx, now, i)
	})
}

// end frees the slot of an intent and ends the intent. It locks the lane before the intent.
func end(ctx context.Context, tx *ledger.Tx, now int64, id string, status txmgr.Status, why txmgr.Failure) error {
	i, lane, err := lockedIntent(ctx, tx, "", id)
	if err != nil {
		return err
	}
	if i.Final {
		return txmgr.ErrStale
	}
	if lane != nil {
		if err := freeSlot(ctx, tx, lane, i.Nonce, id); err != nil {
			return err
		}
	}
	i.Status, i.Final, i.Waiting = status, true, ""
	if why.Class != "" {
		i.Failure = txmgr.Failure{Class: why.Class, Message: clip(why.Message)}
	}
	if err := settle(ctx, tx, i, new(big.Int)); err != nil {
		return err
	}
	return saveIntents(ctx, tx, now, i)
}

// freeSlot takes a slot from an intent if it is the slot's holder. Another intent that wants the slot
// gets it. Without one it is free, and the end of the line moves back over free slots that nothing was
// ever signed for.
func freeSlot(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane, nonce uint64, id string) error {
	found, err := slotsByNonce(ctx, tx, lane, []uint64{nonce})
	if err != nil {
		return err
	}
	slot := found[nonce]
	if slot == nil || slot.Intent != id || slot.Consumed != "" {
		return nil
	}
	heir, err := ledger.First(intentsWhere(ctx, tx, "chain = $1 AND era = $2 AND signer = $3 AND nonce = $4 AND NOT final AND status <> $5 AND id <> $6 ORDER BY seq LIMIT 1",
		lane.Chain, lane.Era, lane.Signer, int64(nonce), string(txmgr.StatusAccepted), id))
	if err != nil {
		return err
	}
	if heir != nil {
		slot.Intent = heir.ID
		return saveSlots(ctx, tx, lane, slot)
	}
	slot.Holder, slot.Intent, slot.Reservation = txmgr.HolderFree, "", ""
	if err := saveSlots(ctx, tx, lane, slot); err != nil {
		return err
	}
	return trim(ctx, tx, lane)
}

// trim deletes free, never signed slots at the end of the line.
func trim(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane) error {
	before := lane.NextNonce
	for lane.NextNonce > 0 {
		n, err := tx.Exec(ctx, `DELETE FROM slots WHERE chain = $1 AND era = $2 AND signer = $3 AND nonce = $4 AND holder = 'free'
			AND NOT signed AND consumed = '' AND NOT final`, lane.Chain, lane.Era, lane.Signer, int64(lane.NextNonce-1))
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		lane.NextNonce--
	}
	if lane.NextNonce == before {
		return nil
	}
	return saveLane(ctx, tx, lane)
}

// Requeue takes an intent out of its slot whose attempts can never execute.
func (s *Store) Requeue(ctx context.Context, f lease.Fence, id string, failed *txmgr.Failure) error {
	return s.fenced(ctx, f, func(tx *ledger.Tx, now int64) error {
		held, lane, err := lockedIntent(ctx, tx, "", id)
		switch {
		case err != nil:
			return err
		case lane == nil:
			return txmgr.ErrStale
		}
		c, err := casesOf(ctx, tx, lane, []uint64{held.Nonce})
		if err != nil {
			return err
		}
		one := c[held.Nonce]
		if one == nil || one.slot.Intent != id || one.slot.Consumed != "" {
			return txmgr.ErrStale
		}
		one.changed = true
		one.slot.Holder, one.slot.Intent = txmgr.HolderFree, ""
		for _, a := range one.attempts {
			a.State = txmgr.AttemptReplaced
		}
		for _, i := range one.intents {
			if i.ID != id {
				continue
			}
			switch {
			case failed != nil:
				i.Status, i.Final, i.Waiting = txmgr.StatusFailed, true, ""
				i.Failure = txmgr.Failure{Class: failed.Class, Message: clip(failed.Message)}
			case i.Cancel:
				i.Status, i.Final, i.Waiting = txmgr.StatusCancelled, true, ""
			default:
				requeue(i, "its attempts can never execute")
				continue
			}
			if err := settle(ctx, tx, i, new(big.Int)); err != nil {
				return err
			}
		}
		return c.save(ctx, tx, now, lane)
	})
}

// Foreign notes nonces that somebody else used before a slot was made for them.
func (s *Store) Foreign(ctx context.Context, f lease.Fence, chain, signer string, list []txmgr.Consumer, first uint64) error {
	return s.owned(ctx, f, chain, signer, func(tx *ledger.Tx, now int64, lane *txmgr.Lane) error {
		if lane.NextNonce != first {
			return txmgr.ErrStale
		}
		slots := make([]*txmgr.Slot, len(list))
		for n, c := range list {
			slots[n] = &txmgr.Slot{
				Nonce: first + uint64(n), Holder: txmgr.HolderForeign, Consumed: c.Hash, Block: c.Block, BlockHash: c.BlockHash, Final: true, AssignedAt: now,
			}
		}
		if err := saveSlots(ctx, tx, lane, slots...); err != nil {
			return err
		}
		lane.NextNonce += uint64(len(list))
		if err := saveLane(ctx, tx, lane); err != nil {
			return err
		}
		return audit(ctx, tx, now, f.Owner, "nonce.foreign", chain+"/"+signer, fmt.Sprintf(`{"first":%d,"count":%d}`, first, len(list)))
	})
}

// RequestCancel ends an intent without a signed attempt, or marks it for its owner.
func (s *Store) RequestCancel(ctx context.Context, tenant, id string) (*txmgr.Intent, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (*txmgr.Intent, error) {
		i, lane, err := lockedIntent(ctx, tx, tenant, id)
		if err != nil {
			return nil, err
		}
		switch i.Status {
		case txmgr.StatusAccepted, txmgr.StatusAssigned:
			if err := end(ctx, tx, now, id, txmgr.StatusCancelled, txmgr.Failure{}); err != nil {
				return nil, err
			}
			return ledger.First(intentsWhere(ctx, tx, "id = $1", id))
		case txmgr.StatusSigned, txmgr.StatusBroadcast, txmgr.StatusUnknown:
			if i.Kind == txmgr.KindRaw || lane == nil || !lane.Ours {
				return nil, txmgr.ErrNotPossible
			}
			if i.Cancel {
				return i, nil
			}
			i.Cancel = true
			return i, saveIntents(ctx, tx, now, i)
		case txmgr.StatusCancelled:
			return i, nil
		default:
			return nil, fmt.Errorf("%w: %s", txmgr.ErrTooLate, i.Status)
		}
	})
}

// lockedIntent locks an intent's lane, if it has one, and then the intent.
func lockedIntent(ctx context.Context, tx *ledger.Tx, tenant, id string) (*txmgr.Intent, *txmgr.Lane, error) {
	seen, err := ledger.First(intentsWhere(ctx, tx, "id = $1 AND ($2 = '' OR tenant = $2)", id, tenant))
	if err != nil || seen == nil {
		return nil, nil, cmp.Or(err, txmgr.ErrNotFound)
	}
	var lane *txmgr.Lane
	if seen.Signer != "" {
		if lane, err = laneRow(ctx, tx, seen.Chain, seen.Signer); err != nil {
			return nil, nil, err
		}
	}
	locked, err := intentsByID(ctx, tx, []string{id})
	if err != nil {
		return nil, nil, err
	}
	i := locked[id]
	if i == nil || i.Signer != seen.Signer {
		return nil, nil, txmgr.ErrStale
	}
	return i, lane, nil
}

// AcceptReplacement stores an intent that takes the place of another.
func (s *Store) AcceptReplacement(ctx context.Context, tenant, old string, intent *txmgr.Intent) (*txmgr.Intent, error) {
	return ledger.WriteOf(ctx, s.db, func(tx *ledger.Tx, now int64) (*txmgr.Intent, error) {
		i, lane, err := lockedIntent(ctx, tx, tenant, old)
		if err != nil {
			return nil, err
		}
		if err := checkKills(ctx, tx, intent); err != nil {
			return nil, err
		}
		earlier, err := claimKey(ctx, tx, now, intent)
		if err != nil || earlier != nil {
			return earlier, err
		}
		intent.Status, intent.Signer, intent.Nonce, intent.Era = txmgr.StatusAccepted, "", 0, 0
		signed := false
		switch i.Status {
		case txmgr.StatusAccepted:
		case txmgr.StatusAssigned, txmgr.StatusSigned, txmgr.StatusBroadcast, txmgr.StatusUnknown:
			if i.Kind == txmgr.KindRaw || lane == nil || !lane.Ours {
				return nil, txmgr.ErrNotPossible
			}
			intent.Status, intent.Signer, intent.Nonce, intent.Era = txmgr.StatusAssigned, i.Signer, i.Nonce, i.Era
			signed = i.Status != txmgr.StatusAssigned
		default:
			return nil, fmt.Errorf("%w: %s", txmgr.ErrTooLate, i.Status)
		}
		if err := claimOnce(ctx, tx, []*txmgr.Intent{intent}); err != nil {
			return nil, err
		}
		if err := enter(ctx, tx, now, intent); err != nil {
			return nil, err
		}
		if signed {
			return intent, nil // which of both is mined decides
		}
		return intent, end(ctx, tx, now, old, txmgr.StatusReplaced, txmgr.Failure{})
	})
}
