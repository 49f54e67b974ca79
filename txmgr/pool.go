package txmgr

import (
	"context"
	"fmt"
	"strings"
)

// strangerWaits is what is said of a slot at whose nonce somebody else's transaction waits.
const strangerWaits = "another sender's transaction waits at this nonce"

// strangers tells which of some slots somebody else's transaction waits for, as the endpoint sees it
// that would be asked to take another one of ours. Nothing of ours is offered for such a slot but
// what was refused for it: the other one is executed and final one day, or gone.
func (w *worker) strangers(ctx context.Context, slots []*LineSlot) (map[uint64]bool, error) {
	found := map[uint64]bool{}
	pooled, ok := w.c.(Pooled)
	if !ok {
		for _, slot := range slots {
			found[slot.Nonce] = refusedTaken(slot)
		}
		return found, nil
	}
	for len(slots) > 0 {
		part := slots[:min(len(slots), lookBatch)]
		slots = slots[len(part):]
		var ask []Signed
		for _, slot := range part {
			for _, a := range slot.Attempts {
				ask = append(ask, Signed{Hash: a.Hash, Raw: a.Raw, Tag: a.Tag})
			}
		}
		next, held, err := pooled.Pool(ctx, w.signer, ask)
		if err != nil {
			return nil, fmt.Errorf("what waits in the pool: %w", err)
		}
		for _, slot := range part {
			ours := false
			for range slot.Attempts {
				ours = ours || held[0]
				held = held[1:]
			}
			// What waits behind a gap is not in the count; then a refusal tells.
			found[slot.Nonce] = !ours && (next > slot.Nonce || next < slot.Nonce && refusedTaken(slot))
		}
	}
	return found, nil
}

// refusedTaken reports whether another transaction stood in the way of a slot's newest attempt
// when it was last offered.
func refusedTaken(slot *LineSlot) bool {
	a := current(slot)
	return a != nil && a.Class == ClassSlotTaken
}

// spare takes those out of some slots that are due whose attempts the pool had once and has lost to
// somebody else's transaction: the same bytes could push that one out again. It notes them as refused.
func (w *worker) spare(ctx context.Context, due []*LineSlot) ([]*Attempt, error) {
	var had []*LineSlot
	if _, ok := w.c.(Pooled); ok {
		for _, slot := range due {
			if taken(slot) {
				had = append(had, slot)
			}
		}
	}
	lost, err := w.strangers(ctx, had)
	if err != nil {
		return nil, err
	}
	var list []*Attempt
	var answers []Answer
	for _, slot := range due {
		a := current(slot)
		if lost[slot.Nonce] {
			answers = append(answers, Answer{Attempt: a, Class: ClassSlotTaken, Text: strangerWaits})
		} else {
			list = append(list, a)
		}
	}
	if len(answers) == 0 {
		return list, nil
	}
	return list, w.record(ctx, answers)()
}

// raise issues an order for a slot that has attempts, unless somebody else's transaction waits there.
func (w *worker) raise(ctx context.Context, o order, head bool) error {
	lost, err := w.strangers(ctx, []*LineSlot{o.slot})
	if err != nil {
		return err
	}
	if lost[o.slot.Nonce] {
		return w.notePaused(ctx, o.slot)
	}
	priced, err := w.priced(ctx, o, head)
	if err != nil || priced == nil {
		return err
	}
	return w.issue(ctx, []order{*priced})
}

// notePaused says of a slot's intents that somebody else's transaction stands in their way.
func (w *worker) notePaused(ctx context.Context, slot *LineSlot) error {
	why := map[string]string{}
	for _, intent := range slot.Intents {
		if !strings.HasPrefix(intent.Waiting, string(ClassSlotTaken)) && !strings.HasPrefix(intent.Waiting, ForeignPrefix) {
			why[intent.ID] = string(ClassSlotTaken) + ": " + strangerWaits
		}
	}
	return w.note(ctx, why)
}
