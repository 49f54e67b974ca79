package app_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet"
	"lockstep/internal/hedera"
	"lockstep/internal/redistest"
)

// slowChain has some time to consensus, so that a burst has many transactions at its node without a verdict.
func slowChain(c *devnet.Config) { c.ConsensusLatency = 150 * time.Millisecond }

// volley is what one sender sends, all at once.
type volley []shot

type shot struct {
	nonce uint64
	value *big.Int // nil: a tinybar
	share int64    // of what its sender has; 0: value
	relay int
	after time.Duration // in the attack
}

func shots(n int, shot func(i int) shot) (v volley) {
	for i := range n {
		v = append(v, shot(i))
	}
	return v
}

// fire sends a volley and counts the answers by their codes.
func (v volley) fire(t *testing.T, sender *account, relays []*relay) map[int]int {
	t.Helper()
	codes := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, s := range v {
		all.Go(func() {
			<-time.After(s.after)
			code := relays[s.relay%len(relays)].code(sender, s.nonce, ordinary, func(data *types.DynamicFeeTx) {
				switch {
				case s.share > 0:
					data.Value = (sender.balance / hedera.Tinybar(s.share)).Weibar()
				case s.value != nil:
					data.Value = s.value
				}
			})
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	all.Wait()
	return codes
}

// Whatever one sender sends through two relays, the network refuses no more of it for its nonce, at the
// operator's cost, than WRONG_NONCE_BUDGET says; and an honest burst of 500 is executed whole. A lane recovers for
// 5 s only, so that the attacks end soon.
func TestWrongNonceAttacks(t *testing.T) {
	t.Parallel()
	const budget, size = 10, 60
	attacks := map[string]volley{
		"far ahead":   shots(size, func(i int) shot { return shot{nonce: uint64(1000 + 3*i), relay: i} }),
		"just ahead":  shots(size, func(i int) shot { return shot{nonce: uint64(1 + i), relay: i} }),
		"alternating": shots(size, func(i int) shot { return shot{nonce: uint64(i/2 + i%2*500), relay: i / 2} }),
		"gap filled late": shots(size, func(i int) shot {
			if i == 0 {
				return shot{after: 400 * time.Millisecond}
			}
			return shot{nonce: uint64(i), relay: i}
		}),
		"gaps filled late elsewhere": shots(size, func(i int) shot {
			return shot{nonce: uint64(i), relay: i, after: time.Duration(1-i%2) * 500 * time.Millisecond}
		}),
		"replaced":          shots(size, func(i int) shot { return shot{value: big.NewInt(int64(i+1) * 1e10), relay: i} }),
		"replaced in a row": shots(size, func(i int) shot { return shot{nonce: uint64(i / 4), value: big.NewInt(int64(i+1) * 1e10), relay: i} }),
		"backwards":         shots(size, func(i int) shot { return shot{nonce: uint64(size - 1 - i), relay: i} }),
		"more than it has": shots(size, func(i int) shot {
			return shot{nonce: uint64(i), share: 20}
		}),
		"more than it has, through two": shots(size, func(i int) shot {
			return shot{nonce: uint64(i), share: 20, relay: i}
		}),
	}
	shuffled := shots(size, func(i int) shot { return shot{nonce: uint64(i), relay: i} })
	rand.Shuffle(size, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	attacks["shuffled"] = shuffled
	for _, ordered := range []bool{true, false} {
		t.Run(fmt.Sprintf("ordered %v", ordered), func(t *testing.T) {
			t.Parallel()
			w, server := newWorld(t, slowChain), redistest.Start(t)
			settings := []string{
				fmt.Sprintf("ENABLE_NONCE_ORDERING=%v", ordered), "NONCE_RECOVERY_MS=5000",
				"REDIS_ENABLED=true", "REDIS_URL=" + server.URL(),
			}
			relays := []*relay{w.costly(t, settings...), w.costly(t, settings...)}
			for name, attack := range attacks {
				t.Run(name, func(t *testing.T) {
					sender, before, began := w.account(t), operatorBalance(t, w.net), time.Now()
					codes := attack.fire(t, sender, relays)
					paid := (before - operatorBalance(t, w.net)) / refusalFee
					t.Logf("answers %v, paid for %d, next nonce %d", codes, paid, w.nonce(t, sender))
					if most := budgetSince(began, budget); paid > most {
						t.Errorf("the operator paid for %d rejections, want at most %d; answers %v", paid, most, codes)
					}
				})
			}
		})
	}
	t.Run("honest burst", func(t *testing.T) {
		t.Parallel()
		const burst = 500
		w, server := newWorld(t, slowChain), redistest.Start(t)
		settings := []string{"ENABLE_NONCE_ORDERING=true", "REDIS_ENABLED=true", "REDIS_URL=" + server.URL(), aBurst}
		relays := []*relay{w.costly(t, settings...), w.costly(t, settings...)}
		before := operatorBalance(t, w.net)
		codes := shots(burst, func(i int) shot { return shot{nonce: uint64(i), relay: i} }).fire(t, w.account(t), relays)
		if paid := (before - operatorBalance(t, w.net)) / refusalFee; codes[fine] != burst || paid != 0 {
			t.Errorf("answers to an honest burst of %d: %v; the operator paid for %d", burst, codes, paid)
		}
		for _, r := range relays {
			if n := r.scrape()["lockstep_wrong_nonce_budget_refusals_total"]; n != 0 {
				t.Errorf("the budget refused %v of it", n)
			}
		}
	})
}
