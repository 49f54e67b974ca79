package txmgr

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"lockstep/internal/lease"
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

// eligiblePool reports whether a lane may serve an intent at all.
func eligiblePool(lane *Lane, intent *Intent) bool {
	if intent.Pin != "" {
		return lane.Signer == intent.Pin
	}
	return slices.Contains(lane.Pools, intent.Pool)
}

// call is what an intent's transaction does.
func (i *Intent) call() Call { return Call{To: i.To, Value: i.Value, Data: i.Data, Extra: i.Extra} }

// usable reports whether a lane may get new intents now ("" for yes), or why not.
func (c Config) usable(lane *Lane, kills map[string]string) string {
	switch why := lasting(lane, kills); {
	case !lane.Ours:
		return "its key is not here"
	case why != "":
		return why
	case !lane.Known:
		return "its nonce is not known yet"
	case lane.Unseen > c.staleAfter():
		return "stale: its owner has not seen the chain for a while"
	case c.ErrorStreak > 0 && lane.Streak >= c.ErrorStreak && lane.Pending > 0:
		// What is pending is offered again, and the first success ends the streak.
		return "errors in a row: " + lane.LastError
	default:
		return ""
	}
}

// PassedOver says why a signer gets no new intents, as far as this process knows: "" if it gets some, and of an account
// whose callers sign. kills are the switches that are on, as Kills returns them.
func (m *Manager) PassedOver(lane *Lane, kills map[string]string) string {
	why := m.c.usable(lane, kills)
	switch {
	case !lane.Ours:
		return ""
	case why != "":
		return why
	case !m.c.Enabled:
		return "RELAYER_ENABLED is false at the process that was asked"
	case lane.Owner == "":
		return "no process owns it at the moment"
	default:
		return ""
	}
}

// staleAfter is how long a lane is served for whose owner does not see its chain. An owner looks
// once in every interval of reconciliation, but not more often than it wakes.
func (c Config) staleAfter() time.Duration { return 3 * max(c.Reconcile, c.Poll).Duration() }

// window returns how many slots of a lane may be unconsumed. Where all behind a lost transaction
// are refused, and perhaps charged, the setting that is meant for every chain does not count.
func window(lane *Lane, traits Traits, setting int) int {
	switch {
	case lane.Delegated:
		return 1
	case setting > 0 && traits.Order != OrderStrict:
		return setting
	default:
		return max(traits.InFlight, 1)
	}
}

// candidate is a lane with what the plan has given it.
type candidate struct {
	*Lane
	room    int
	money   *big.Int        // that nothing on its way may take; nil: not known
	refused map[string]bool // intents that its key may not sign
}

// plan deals intents to lanes: the one with the least pending first, ties to the one that got
// its last slot the longest ago. lanes are all that are usable, also those of other
// processes, so that every owner comes to the same plan and takes its own part of it.
func plan(queue []*Queued, lanes []*candidate, kills map[string]string) map[string][]*Queued {
	dealt := map[string][]*Queued{}
	follows := map[string]string{} // orderKey → signer, within this plan
	for _, q := range queue {
		key := q.Tenant + "\x00" + q.OrderKey
		behind := q.Behind
		if signer, ok := follows[key]; ok && q.OrderKey != "" {
			behind = signer
		} else if q.Blocked {
			continue
		}
		if behind == blocked || kills[PoolScope(q.Chain, q.Pool)] != "" {
			if q.OrderKey != "" {
				follows[key] = blocked
			}
			continue
		}
		lane := pick(q, lanes, behind)
		if lane == nil {
			if q.OrderKey != "" {
				follows[key] = blocked
			}
			continue
		}
		lane.room--
		if lane.money != nil && q.cost != nil {
			lane.money = new(big.Int).Sub(lane.money, q.cost)
		}
		lane.Pending++
		lane.Assigned++
		dealt[lane.Signer] = append(dealt[lane.Signer], q)
		if q.OrderKey != "" {
			follows[key] = lane.Signer
		}
	}
	return dealt
}

// blocked stands for a signer that no lane has.
const blocked = "\x00blocked"

func pick(q *Queued, lanes []*candidate, behind string) *candidate {
	var fit []*candidate
	for _, lane := range lanes {
		if eligiblePool(lane.Lane, q.Intent) && !lane.refused[q.ID] && lane.holds(q.cost) && (behind == "" || behind == lane.Signer) {
			fit = append(fit, lane)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	if q.ShardKey != "" && q.Pin == "" && behind == "" {
		best := slices.MaxFunc(fit, func(a, b *candidate) int {
			return cmp.Compare(lease.Score(q.ShardKey, a.Signer), lease.Score(q.ShardKey, b.Signer))
		})
		fit = []*candidate{best}
	}
	fit = slices.DeleteFunc(fit, func(c *candidate) bool {
		return c.room <= 0 || c.money != nil && q.cost != nil && c.money.Cmp(q.cost) < 0
	})
	if len(fit) == 0 {
		return nil
	}
	return slices.MinFunc(fit, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.Pending, b.Pending), cmp.Compare(a.Assigned, b.Assigned), cmp.Compare(a.Signer, b.Signer))
	})
}
