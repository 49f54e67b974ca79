package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// fenced runs fn in a write transaction under an owner's term.
func (s *Store) fenced(ctx context.Context, f lease.Fence, fn func(tx *ledger.Tx, now int64) error) error {
	return s.db.WriteAt(ctx, func(tx *ledger.Tx, now int64) error {
		if err := f.Check(ctx, tx); err != nil {
			return err
		}
		return fn(tx, now)
	})
}

// owned is fenced with the lane's row locked.
func (s *Store) owned(ctx context.Context, f lease.Fence, chain, signer string, fn func(tx *ledger.Tx, now int64, lane *txmgr.Lane) error) error {
	return s.fenced(ctx, f, func(tx *ledger.Tx, now int64) error {
		lane, err := laneRow(ctx, tx, chain, signer)
		if err != nil {
			return err
		}
		return fn(tx, now, lane)
	})
}

// Assign gives intents slots.
func (s *Store) Assign(ctx context.Context, f lease.Fence, chain, signer string, list []txmgr.Placing) ([]txmgr.Assignment, error) {
	var done []txmgr.Assignment
	err := s.owned(ctx, f, chain, signer, func(tx *ledger.Tx, now int64, lane *txmgr.Lane) error {
		done = nil
		if !lane.Enabled || lane.Draining || lane.Halted != "" || !lane.Known || locked(lane, now) {
			return nil
		}
		if killed, err := laneKilled(ctx, tx, lane); err != nil || killed {
			return err
		}
		intents, err := intentsByID(ctx, tx, each(list, func(p txmgr.Placing) string { return p.Intent }))
		if err != nil {
			return err
		}
		free, err := freeSlots(ctx, tx, lane, len(list), tx.ForUpdate())
		if err != nil {
			return err
		}
		var slots []*txmgr.Slot
		var changed []*txmgr.Intent
		for _, p := range list {
			id := p.Intent
			i := intents[id]
			if i == nil || i.Status != txmgr.StatusAccepted {
				continue
			}
			slot := &txmgr.Slot{Chain: chain, Signer: signer, Nonce: lane.NextNonce}
			if len(free) > 0 {
				slot, free = free[0], free[1:]
			} else {
				lane.NextNonce++
			}
			lane.Assigned++
			slot.Holder, slot.Intent, slot.Reservation, slot.AssignedAt, slot.SentAt = txmgr.HolderIntent, id, "", now, 0
			slot.Cost = p.Cost
			i.Status, i.Signer, i.Nonce, i.Era, i.Waiting = txmgr.StatusAssigned, signer, slot.Nonce, lane.Era, ""
			slots, changed = append(slots, slot), append(changed, i)
			done = append(done, txmgr.Assignment{Intent: i, Slot: *slot})
		}
		if len(done) == 0 {
			return nil
		}
		if err := saveLane(ctx, tx, lane); err != nil {
			return err
		}
		if err := saveSlots(ctx, tx, lane, slots...); err != nil {
			return err
		}
		return saveIntents(ctx, tx, now, changed...)
	})
	return done, err
}

func laneKilled(ctx context.Context, tx *ledger.Tx, lane *txmgr.Lane) (bool, error) {
	kills, err := killsOf(ctx, tx)
	return txmgr.LaneKilled(kills, lane.Chain, lane.Signer), err
}

// held is owned with the slot of a nonce, which must be its holder's and not consumed.
func (s *Store) held(ctx context.Context, f lease.Fence, want txmgr.Slot, holder txmgr.Holder, fn func(tx *ledger.Tx, now int64, lane *txmgr.Lane, slot *txmgr.Slot) error) error {
	return s.owned(ctx, f, want.Chain, want.Signer, func(tx *ledger.Tx, now int64, lane *txmgr.Lane) error {
		found, err := slotsByNonce(ctx, tx, lane, []uint64{want.Nonce})
		if err != nil {
			return err
		}
		slot := found[want.Nonce]
		if slot == nil || slot.Holder != holder || slot.Consumed != "" || slot.Final {
			return txmgr.ErrStale
		}
		return fn(tx, now, lane, slot)
	})
}

// FillSlot makes a free slot one to be filled.
func (s *Store) FillSlot(ctx context.Context, f lease.Fence, want txmgr.Slot, cause string) error {
	return s.held(ctx, f, want, txmgr.HolderFree, func(tx *ledger.Tx, now int64, lane *txmgr.Lane, slot *txmgr.Slot) error {
		slot.Holder, slot.Intent, slot.AssignedAt, slot.SentAt, slot.Cost = txmgr.HolderFill, cause, now, 0, nil
		return saveSlots(ctx, tx, lane, slot)
	})
}

// Abandon frees a nonce that somebody else's transaction waited for.
func (s *Store) Abandon(ctx context.Context, f lease.Fence, want txmgr.Slot) error {
	return s.held(ctx, f, want, txmgr.HolderForeign, func(tx *ledger.Tx, now int64, lane *txmgr.Lane, slot *txmgr.Slot) error {
		slot.Holder = txmgr.HolderFree
		if err := saveSlots(ctx, tx, lane, slot); err != nil {
			return err
		}
		if err := audit(ctx, tx, now, f.Owner, "nonce.abandoned", want.Chain+"/"+want.Signer, fmt.Sprintf(`{"nonce":%d}`, want.Nonce)); err != nil {
			return err
		}
		return trim(ctx, tx, lane)
	})
}

// Commit stores signed attempts.
func (s *Store) Commit(ctx context.Context, f lease.Fence, list []*txmgr.Attempt) ([]*txmgr.Attempt, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var stored []*txmgr.Attempt
	err := s.owned(ctx, f, list[0].Chain, list[0].Signer, func(tx *ledger.Tx, now int64, lane *txmgr.Lane) error {
		stored = nil
		if lane.Halted != "" {
			return fmt.Errorf("%w: %s", txmgr.ErrHalted, lane.Halted)
		}
		if err := tx.CheckIdentity(ctx); err != nil {
			return err // what was committed before may be missing here
		}
		kills, err := killsOf(ctx, tx)
		if err != nil || txmgr.LaneKilled(kills, lane.Chain, lane.Signer) {
			return err
		}
		slots, err := slotsByNonce(ctx, tx, lane, each(list, nonceOf))
		if err != nil {
			return err
		}
		intents, err := intentsByID(ctx, tx, each(list, intentOf))
		if err != nil {
			return err
		}
		var changed []*txmgr.Intent
		for _, a := range list {
			slot, i := slots[a.Nonce], intents[a.Intent]
			if slot == nil || !fits(a, slot, i) {
				continue
			}
			if i != nil && i.Status == txmgr.StatusAssigned && kills[txmgr.PoolScope(i.Chain, i.Pool)] != "" {
				continue
			}
			a.State, a.SignedAt, a.Term = txmgr.AttemptSigned, now, f.Term
			slot.Signed, slot.Cost = true, dearest(slot.Cost, a, i)
			stored = append(stored, a)
			if i != nil && a.Purpose != txmgr.PurposeFill {
				if i.Status == txmgr.StatusAssigned {
					i.Status = txmgr.StatusSigned
				}
				i.Hash, i.Waiting = a.Hash, ""
				changed = append(changed, i)
			}
		}
		if len(stored) == 0 {
			return nil
		}
		if err := saveSlots(ctx, tx, lane, values(slots)...); err != nil {
			return err
		}
		if err := insertAttempts(ctx, tx, lane, stored); err != nil {
			return err
		}
		return saveIntents(ctx, tx, now, changed...)
	})
	return stored, err
}

// dearest is what a slot may cost when it has one attempt more: any of them may be the one that is executed.
func dearest(cost *big.Int, a *txmgr.Attempt, i *txmgr.Intent) *big.Int {
	var value *big.Int
	if i != nil && a.Purpose != txmgr.PurposeFill && a.Purpose != txmgr.PurposeCancel {
		value = i.Value
	}
	if most := txmgr.MostOf(value, a.Gas, a.Fees.Max); cost == nil || most.Cmp(cost) > 0 {
		return most
	}
	return cost
}

// fits reports whether an attempt still belongs into its slot.
func fits(a *txmgr.Attempt, slot *txmgr.Slot, i *txmgr.Intent) bool {
	if slot.Consumed != "" || slot.Final {
		return false
	}
	switch a.Purpose {
	case txmgr.PurposeFill:
		return slot.Holder == txmgr.HolderFill
	case txmgr.PurposeReplace, txmgr.PurposeCancel: // of the holder, or of what is to replace it
		return slot.Holder == txmgr.HolderIntent && i != nil && !i.Status.Ended() && i.Signer == slot.Signer && i.Nonce == slot.Nonce
	default:
		return slot.Holder == txmgr.HolderIntent && slot.Intent == a.Intent && i != nil && !i.Status.Ended()
	}
}

// each is one thing of each element.
func each[T, K any](list []T, of func(T) K) []K {
	out := make([]K, len(list))
	for n, one := range list {
		out[n] = of(one)
	}
	return out
}

func nonceOf(a *txmgr.Attempt) uint64 { return a.Nonce }

func intentOf(a *txmgr.Attempt) string { return a.Intent }

// Answered stores what endpoints said to attempts of one lane.
func (s *Store) Answered(ctx context.Context, f lease.Fence, list []txmgr.Answer) error {
	if len(list) == 0 {
		return nil
	}
	attempts := each(list, func(a txmgr.Answer) *txmgr.Attempt { return a.Attempt })
	return s.owned(ctx, f, attempts[0].Chain, attempts[0].Signer, func(tx *ledger.Tx, now int64, lane *txmgr.Lane) error {
		slots, err := slotsByNonce(ctx, tx, lane, each(attempts, nonceOf))
		if err != nil {
			return err
		}
		intents, err := intentsByID(ctx, tx, each(attempts, intentOf))
		if err != nil {
			return err
		}
		changed := map[string]*txmgr.Intent{}
		for _, answer := range list {
			a := answer.Attempt
			judge(a, answer, now)
			slot := slots[a.Nonce]
			if slot != nil && slot.SentAt == 0 && a.State != txmgr.AttemptRefused {
				slot.SentAt = now
			}
			if i := intents[a.Intent]; i != nil && a.Purpose != txmgr.PurposeFill && follow(i, a, now) {
				changed[i.ID] = i
			}
		}
		if err := saveSlots(ctx, tx, lane, values(slots)...); err != nil {
			return err
		}
		if err := saveAttempts(ctx, tx, attempts); err != nil {
			return err
		}
		return saveIntents(ctx, tx, now, sorted(changed)...)
	})
}

// inOrder are the values of a map by their numbers.
func inOrder[K comparable, V any, N cmp.Ordered](m map[K]V, number func(V) N) []V {
	return slices.SortedFunc(maps.Values(m), func(a, b V) int { return cmp.Compare(number(a), number(b)) })
}

func values(m map[uint64]*txmgr.Slot) []*txmgr.Slot {
	return inOrder(m, func(s *txmgr.Slot) uint64 { return s.Nonce })
}

func sorted(m map[string]*txmgr.Intent) []*txmgr.Intent {
	return inOrder(m, func(i *txmgr.Intent) int64 { return i.Seq })
}

// judge moves an attempt on. What was once taken, or may have been, is never refused later.
func judge(a *txmgr.Attempt, answer txmgr.Answer, now int64) {
	a.Offers++
	a.SentAt = now
	a.Failure = txmgr.Failure{}
	if answer.Class != "" && answer.Class != txmgr.ClassKnown {
		a.Failure = txmgr.Failure{Class: answer.Class, Message: clip(answer.Text)}
	}
	switch {
	case answer.Class == "" || answer.Class == txmgr.ClassKnown:
		a.RefusedAt = 0
	case a.RefusedAt == 0 && answer.Class.Firm():
		a.RefusedAt = now
	}
	if a.State == txmgr.AttemptMined || a.State == txmgr.AttemptReplaced {
		return
	}
	a.Ambiguous = a.Ambiguous || answer.Ambiguous
	switch {
	case answer.Class == "" || answer.Class == txmgr.ClassKnown:
		a.State = txmgr.AttemptSent
	case a.State == txmgr.AttemptSent:
	case answer.Class.Certain() && !a.Ambiguous:
		a.State = txmgr.AttemptRefused
	default:
		a.State = txmgr.AttemptUnknown
		a.Ambiguous = true
	}
}

// follow moves an intent on behind its attempt, and reports whether that changed it.
func follow(i *txmgr.Intent, a *txmgr.Attempt, now int64) bool {
	before, waiting, first := i.Status, i.Waiting, i.FirstSent
	switch i.Status {
	case txmgr.StatusSigned, txmgr.StatusUnknown, txmgr.StatusBroadcast:
		switch {
		case a.State == txmgr.AttemptSent:
			i.Status = txmgr.StatusBroadcast
			if a.Class == "" && !strings.HasPrefix(i.Waiting, txmgr.StuckPrefix) { // only a replacement helps it, not the same bytes
				i.Waiting = ""
			}
		case a.State == txmgr.AttemptUnknown && i.Status == txmgr.StatusSigned:
			i.Status = txmgr.StatusUnknown
		}
		taken := a.Class == txmgr.ClassSlotTaken
		failed := a.Class != "" && a.State != txmgr.AttemptSent && !strings.HasPrefix(i.Waiting, txmgr.StuckPrefix) // its caller is told once
		if failed || taken && !strings.HasPrefix(i.Waiting, txmgr.ForeignPrefix) {
			i.Waiting = string(a.Class) + ": " + a.Message
		}
	default:
		return false
	}
	if i.FirstSent == 0 && a.State != txmgr.AttemptRefused {
		i.FirstSent = now
	}
	return i.Status != before || i.Waiting != waiting || i.FirstSent != first
}

// Wait notes why intents do not move on.
func (s *Store) Wait(ctx context.Context, f lease.Fence, why map[string]string) error {
	return s.fenced(ctx, f, func(tx *ledger.Tx, now int64) error {
		intents, err := intentsByID(ctx, tx, slices.Collect(maps.Keys(why)))
		if err != nil {
			return err
		}
		changed := map[string]*txmgr.Intent{}
		for id, i := range intents {
			if text := clip(why[id]); !i.Status.Ended() && i.Waiting != text {
				i.Waiting = text
				changed[id] = i
			}
		}
		return saveIntents(ctx, tx, now, sorted(changed)...)
	})
}

// Stuck notes that a transaction its caller signed does not move, with an event of its own.
func (s *Store) Stuck(ctx context.Context, f lease.Fence, id, why string, fees txmgr.Fees) error {
	return s.fenced(ctx, f, func(tx *ledger.Tx, now int64) error {
		intents, err := intentsByID(ctx, tx, []string{id})
		if err != nil {
			return err
		}
		i := intents[id]
		if i == nil || i.Status.Ended() || strings.HasPrefix(i.Waiting, txmgr.StuckPrefix) {
			return nil
		}
		i.Waiting = clip(txmgr.StuckPrefix + why)
		if err := updateIntents(ctx, tx, now, []*txmgr.Intent{i}); err != nil {
			return err
		}
		body := noticeOf(i)
		if fees.Max != nil {
			body.Needs = &needs{MaxFee: fees.Max.String()}
		}
		if fees.Tip != nil {
			body.Needs.MaxTip = fees.Tip.String()
		}
		return tx.Emit(ctx, ledger.Event{Topic: topic, Subject: i.ID, Kind: "tx.stuck", Body: asJSON(&body), At: now})
	})
}

// claimOnce takes what intents carry and may be executed once. An earlier intent that ended without being executed
// gives way; any other keeps its claim, and ErrReplayed is returned.
func claimOnce(ctx context.Context, tx *ledger.Tx, list []*txmgr.Intent) error {
	type claim struct{ chain, name, intent string }
	var claims []claim
	for _, i := range list {
		for _, name := range i.Claims {
			claims = append(claims, claim{i.Chain, name, i.ID})
		}
	}
	// In one order everywhere, so that two callers cannot wait for each other.
	slices.SortFunc(claims, func(a, b claim) int { return cmp.Or(cmp.Compare(a.chain, b.chain), cmp.Compare(a.name, b.name)) })
	for _, c := range claims {
		n, err := tx.Exec(ctx, "INSERT INTO claims (chain, name, intent) VALUES ($1, $2, $3) ON CONFLICT (chain, name) DO NOTHING", c.chain, c.name, c.intent)
		if err == nil && n == 0 {
			n, err = tx.Exec(ctx, `UPDATE claims SET intent = $1 WHERE chain = $2 AND name = $3 AND intent IN
				(SELECT id FROM intents WHERE final AND status IN ('failed', 'cancelled', 'expired', 'replaced'))`, c.intent, c.chain, c.name)
		}
		if err != nil {
			return fmt.Errorf("store claims: %w", err)
		}
		if n == 0 {
			return fmt.Errorf("%w: %s", txmgr.ErrReplayed, c.name)
		}
	}
	return nil
}
