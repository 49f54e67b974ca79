package txmgr

import (
	"cmp"
	"math/big"
	"slices"
	"time"

	"lockstep/internal/lease"
)

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
