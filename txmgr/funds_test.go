package txmgr_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/txmgr"
)

// give changes what an account has.
func (p *pool) give(account string, amount int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.money[account] += amount
}

func value(n int64) func(*txmgr.Request) {
	return func(r *txmgr.Request) { r.Value = big.NewInt(n) }
}

// says waits until an intent without a nonce says why it waits.
func (m *member) says(id, words string) {
	m.Helper()
	m.until("intent "+id+" says that it waits", func() bool { return strings.Contains(m.get(id).Waiting, words) })
	if got := m.get(id); got.Status != txmgr.StatusAccepted || got.Signer != "" {
		m.Errorf("intent %s is %s, of %q", id, got.Status, got.Signer)
	}
}

// TestNobodyCanPay: what no signer can pay for gets no nonce and says why. All others pass it, and it is executed when a signer
// has the money.
func TestNobodyCanPay(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	m := f.begin("one")
	m.give("bob.test", -poolMoney/2)
	dear := m.submit(value(2*poolMoney), func(r *txmgr.Request) { r.Gas = wireGas })
	absurd := m.submit(func(r *txmgr.Request) {
		r.Gas, r.Value = wireGas, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))
	})
	var ids []string
	for range 6 {
		ids = append(ids, m.submit())
	}
	for _, id := range ids {
		m.mined(id, txmgr.StatusConfirmed)
	}
	m.says(dear, "no signer can pay 2 COIN; the richest has ")
	m.says(absurd, "no signer can pay 1157000")
	m.give("alice.test", 3*poolMoney)
	m.mined(dear, txmgr.StatusConfirmed)
	m.once(append(ids, dear)...)
}

// TestCommittedMoney: what is on its way may take its money; nothing else is given to a signer that could not pay for both.
func TestCommittedMoney(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	m := f.begin("one")
	m.give("bob.test", -poolMoney)
	m.until("the balance is seen", func() bool { return m.broke("bob.test") })
	first, second, third := m.submit(value(poolMoney*4/10)), m.submit(value(poolMoney*4/10)), m.submit(value(poolMoney*4/10))
	if a, b := m.reaches(first, txmgr.StatusBroadcast), m.reaches(second, txmgr.StatusBroadcast); a.Signer != "alice.test" || b.Signer != "alice.test" {
		t.Errorf("the signers are %s and %s", a.Signer, b.Signer)
	}
	if committed := m.lane("alice.test").Committed.Int64(); committed < poolMoney*8/10 || committed > poolMoney*9/10 {
		t.Errorf("%d are committed", committed)
	}
	m.asksOn()
	if got := m.get(third); got.Signer != "" {
		t.Errorf("the third has a nonce of %s", got.Signer)
	}
	m.mine()
	m.says(third, "no signer can pay 0.4 COIN; the richest has 0.2 COIN")
	m.give("bob.test", poolMoney)
	if got := m.mined(third, txmgr.StatusConfirmed); got.Signer != "bob.test" {
		t.Errorf("%s paid", got.Signer)
	}
}

// TestMoneyThatLeft: what a signer could pay for when it got its nonce, and cannot when it is to be signed, is not signed.
func TestMoneyThatLeft(t *testing.T) {
	f := newFleet(t, "alice.test")
	open := f.lockKeys()
	m := f.begin("one")
	dear := m.submit(value(poolMoney * 9 / 10))
	m.reaches(dear, txmgr.StatusAssigned)
	m.give("alice.test", -poolMoney/2)
	m.until("that is seen", func() bool { return m.lane("alice.test").Balance.Int64() == poolMoney/2 })
	open.Store(true)
	m.until("it is judged", func() bool { return m.get(dear).Status == txmgr.StatusAccepted || len(m.get(dear).Attempts) > 0 })
	m.says(dear, "pay 0.9") // the owner says so of its signer, and then of all of them
	m.give("alice.test", poolMoney)
	m.mined(dear, txmgr.StatusConfirmed)
	m.once(dear)
}

// TestPoorIntentEnds: an intent that nobody can pay ends when its time is over, or when it is as old as others are cancelled at.
func TestPoorIntentEnds(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.BumpAfter, f.settings.CancelAfter = envx.Millis(time.Second), envx.Millis(time.Second)
	m := f.begin("one")
	dear := value(2 * poolMoney)
	gas := func(r *txmgr.Request) { r.Gas = wireGas }
	old := m.submit(dear, gas)
	kept := m.submit(dear, gas, keepTrying)
	short := m.submit(dear, gas, keepTrying, func(r *txmgr.Request) { r.ValidUntil = time.Now().Add(time.Hour).UnixMicro() })
	m.says(short, "no signer can pay 2 COIN")
	m.exec("UPDATE intents SET valid_until = 1 WHERE id = $1", short)
	if got := m.reaches(old, txmgr.StatusFailed); got.Class != "funds" || !strings.HasPrefix(got.Message, "no signer can pay 2 COIN") {
		t.Errorf("it failed with %+v", got.Failure)
	}
	if got := m.reaches(short, txmgr.StatusExpired); !strings.Contains(got.Message, "no signer can pay 2 COIN") {
		t.Errorf("it expired with %+v", got.Failure)
	}
	m.says(kept, "no signer can pay")
}

// TestSimulatedFromWhoCanPay: a call is tried from a signer that could send it. What nobody can pay is accepted, and waits.
func TestSimulatedFromWhoCanPay(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	m := f.begin("one")
	must.Do(t, operated("alice.test", txmgr.Operation{Enabled: new(false), Reason: "rotated"})(m))
	m.give("alice.test", -poolMoney)
	m.until("it is swept", func() bool { return m.broke("alice.test") })
	if got := m.mined(m.submit(value(1000)), txmgr.StatusConfirmed); got.Signer != "bob.test" {
		t.Errorf("%s sent it", got.Signer)
	}
	m.says(m.submit(value(2*poolMoney)), "no signer can pay 2 COIN")
}

// TestHeadPatience: a head of the line that is refused for good gives way. If no node ever took it, its nonce goes to another
// transaction; else a transaction takes its place. It ends with the node's words in both cases.
func TestHeadPatience(t *testing.T) {
	for name, row := range map[string]struct {
		class txmgr.Class
		lost  bool // every other answer is
		want  txmgr.Status
	}{
		"funds":               {class: txmgr.ClassFunds, want: txmgr.StatusFailed},
		"over a cap":          {class: txmgr.ClassOverCap, want: txmgr.StatusFailed},
		"unknown answer":      {class: txmgr.ClassAmbiguous, want: txmgr.StatusCancelled},
		"funds, now and then": {class: txmgr.ClassFunds, lost: true, want: txmgr.StatusCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			f.settings.HeadPatience, f.settings.ResendAfter = envx.Millis(5*poll), envx.Millis(poll)
			m := f.begin("one")
			first := request(keepTrying)
			offers := 0
			m.refusing(func(tx wireTx) *txmgr.SendError {
				if string(tx.Data) == string(first.Data) {
					if offers++; row.lost && offers%2 == 0 {
						return &txmgr.SendError{Class: txmgr.ClassTransport, Text: "timeout"}
					}
					return &txmgr.SendError{Class: row.class, Text: "the node's own words"}
				}
				return nil
			})
			intent := must.Get(m.m.Submit(t.Context(), first))(t)
			var ids []string
			for range 4 {
				ids = append(ids, m.submit())
			}
			for _, id := range ids {
				m.mined(id, txmgr.StatusConfirmed)
			}
			if got := m.mined(intent.ID, row.want); got.Class != row.class || !strings.Contains(got.Message, "the node's own words") {
				t.Errorf("it ended with %+v", got.Failure)
			}
			m.once(ids...)
			if m.ran()[string(first.Data)] != 0 {
				t.Error("it was executed")
			}
		})
	}
}

// TestPatienceOutlivesOwners: the time of a head that is refused goes on when its owner changes, even if none lives as long.
func TestPatienceOutlivesOwners(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.HeadPatience, f.settings.ResendAfter = envx.Millis(2*time.Second), envx.Millis(poll)
	var offers atomic.Int64
	f.refusing(func(wireTx) *txmgr.SendError {
		offers.Add(1)
		return &txmgr.SendError{Class: txmgr.ClassFunds, Text: "the node's own words"}
	})
	m := f.begin("first")
	id := m.submit(keepTrying)
	failed := func() bool { return f.get(id).Status == txmgr.StatusFailed }
	for n := 0; !failed(); n++ {
		if n > 200 {
			t.Fatal("it never gives way")
		}
		before := offers.Load()
		f.until("the head is refused by an owner", func() bool { return offers.Load() > before+1 || failed() })
		m.stop()
		m = f.start(fmt.Sprintf("owner %d", n))
	}
	if got := f.get(id); got.Class != txmgr.ClassFunds {
		t.Errorf("it ended with %+v", got.Failure)
	}
}

// TestRefusedBehindTheHead: what was refused as long as the head before it does not end with it. It is asked for once more when it is its turn.
func TestRefusedBehindTheHead(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.HeadPatience, f.settings.ResendAfter = envx.Millis(600*time.Millisecond), envx.Millis(500*time.Millisecond)
	m := f.begin("one")
	var filled atomic.Bool
	m.refusing(func(tx wireTx) *txmgr.SendError {
		if filled.Store(filled.Load() || len(tx.Data) == 0); filled.Load() {
			return nil
		}
		return &txmgr.SendError{Class: txmgr.ClassFunds, Text: "all before it may take too much"}
	})
	first, second := m.submit(keepTrying), m.submit(keepTrying)
	m.mined(second, txmgr.StatusConfirmed)
	m.reaches(first, txmgr.StatusFailed)
	m.once(second)
}

// TestOfferedAgainUnasked: what is signed is offered again although the chain does not answer what an owner asks beside that.
func TestOfferedAgainUnasked(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.settings.ResendAfter = envx.Millis(poll)
	m := f.begin("one")
	var offers atomic.Int64
	m.refusing(func(wireTx) *txmgr.SendError {
		offers.Add(1)
		return &txmgr.SendError{Class: txmgr.ClassPoolPolicy, Text: "the pool is full"}
	})
	id := m.submit()
	m.until("it is offered", func() bool { return offers.Load() > 0 })
	m.node.mute.Store(true)
	m.refusing(nil)
	m.until("it is offered again", func() bool { return m.at("alice.test", 0) != "" })
	m.node.mute.Store(false)
	m.mined(id, txmgr.StatusConfirmed)
}

// TestFirstBlockMissing: an endpoint that lacks the first block does not say that the chain is another one. One that has another first block does.
func TestFirstBlockMissing(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.dev = true
	tells := func(first string) {
		f.Helper()
		f.pool.mu.Lock()
		f.first = first
		before := f.named
		f.pool.mu.Unlock()
		f.until("the first block is asked for", func() bool {
			f.pool.mu.Lock()
			defer f.pool.mu.Unlock()
			return f.named > before+1
		})
	}
	m := f.begin("one")
	id := m.submit()
	m.reaches(id, txmgr.StatusBroadcast)
	for _, first := range []string{"pool", "", "pool", ""} {
		tells(first)
	}
	m.mined(id, txmgr.StatusConfirmed)
	if era := m.lane("alice.test").Era; era != 0 {
		t.Errorf("the chain has begun anew %d times", era)
	}
	m.exec("UPDATE chains SET identity = 'pool'") // whoever was asked first lacked it
	tells("")
	tells("another chain")
	m.until("it begins anew", func() bool { return m.lane("alice.test").Era == 1 })
}

// TestAnotherFirstBlock: the first block is remembered however blocks come, and a chain that has another one halts its signers, which readiness tells.
func TestAnotherFirstBlock(t *testing.T) {
	f := newFleet(t, "alice.test")
	m := f.begin("one")
	m.mined(m.submit(), txmgr.StatusConfirmed)
	for range 3 {
		f.pool.mu.Lock()
		before := f.named
		f.pool.mu.Unlock()
		f.mine()
		f.until("the first block is asked for", func() bool {
			f.pool.mu.Lock()
			defer f.pool.mu.Unlock()
			return f.named > before
		})
	}
	f.pool.mu.Lock()
	f.first = "another chain"
	f.pool.mu.Unlock()
	m.until("it is halted", func() bool { return strings.Contains(m.lane("alice.test").Halted, "its first block was") })
	m.until("readiness tells", func() bool {
		reasons := must.Get(m.m.Ready(t.Context()))(t)
		return len(reasons) == 1 && strings.Contains(reasons[0].Cause, "signers that cannot go on: 1")
	})
}

// TestChainWentBack: a chain whose nonce of a signer is below what was final halts it, with the way out. On a development
// chain the manager begins anew by itself.
func TestChainWentBack(t *testing.T) {
	for name, dev := range map[string]bool{"dev": true, "not dev": false} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "alice.test")
			f.dev = dev
			m := f.begin("one")
			if _, err := m.m.Reconcile(t.Context(), "pool", "alice.test", "test", txmgr.ReconcileOptions{Reset: true}); err == nil || !strings.Contains(err.Error(), "nothing to reset") {
				t.Errorf("a reset without a reason: %v", err)
			}
			for range 3 {
				m.mined(m.submit(), txmgr.StatusConfirmed)
			}
			m.pool.mu.Lock()
			m.next["alice.test"] = 1
			m.pool.mu.Unlock()
			if !dev {
				m.until("it is halted", func() bool { return strings.Contains(m.lane("alice.test").Halted, "the chain went back") })
				must.Get(m.m.Reconcile(t.Context(), "pool", "alice.test", "test", txmgr.ReconcileOptions{Reset: true}))(t)
			}
			m.until("it begins anew", func() bool { return m.lane("alice.test").Era == 1 })
			if got := m.mined(m.submit(), txmgr.StatusConfirmed); got.Nonce != 1 {
				t.Errorf("the next nonce is %d", got.Nonce)
			}
		})
	}
}

// TestKeyThatLeft: a signer whose key left the settings gets nothing new and gives back what it has not signed; what it has signed is
// followed. It serves again when the key is back.
func TestKeyThatLeft(t *testing.T) {
	f := newFleet(t, "alice.test", "bob.test")
	open := f.lockKeys()
	m := f.begin("one")
	open.Store(true)
	const gone = "alice.test"
	pin := func(r *txmgr.Request) { r.Pin = gone }
	signed := m.submit(pin)
	m.reaches(signed, txmgr.StatusBroadcast)
	open.Store(false)
	m.reaches(m.submit(pin), txmgr.StatusAssigned)
	var ids []string
	for range 4 {
		ids = append(ids, m.submit())
	}
	bob := []txmgr.Key{keyOf("bob.test")}
	must.Do(t, m.m.Reload(t.Context(), bob, map[string][]string{"vip": {"bob.test"}}))
	if lane := m.lane(gone); !lane.Absent || len(lane.Pools) != 0 || !strings.HasPrefix(m.m.PassedOver(lane, nil), "absent: ") {
		t.Errorf("the signer is %+v", lane)
	}
	for _, id := range ids {
		if got := m.mined(id, txmgr.StatusConfirmed); got.Signer != "bob.test" {
			t.Errorf("intent %s was sent by %s", id, got.Signer)
		}
	}
	m.mined(signed, txmgr.StatusConfirmed)
	pinned := m.submit(pin)
	m.says(pinned, "absent: ")
	if pools := m.lane("bob.test").Pools; len(pools) != 2 || pools[1] != "vip" {
		t.Errorf("the other one is in %v", pools)
	}
	must.Do(t, m.m.Reload(t.Context(), append(bob, keyOf(gone)), nil))
	m.mined(pinned, txmgr.StatusConfirmed)
	if pools := m.lane("bob.test").Pools; len(pools) != 1 {
		t.Errorf("the other one is still in %v", pools)
	}
}

// refusing is a guard that lets one tenant send nothing.
type refusing struct{ tenant string }

func (g refusing) Allow(_ context.Context, i *txmgr.Intent, _ txmgr.Cost) ([]txmgr.Hold, error) {
	if i.Tenant == g.tenant {
		return nil, txmgr.ErrPolicy
	}
	return nil, nil
}

// TestReservationsOfOurSigners: a nonce of a signer whose key is here is for those who may send, and no more are given than the signer may have
// on its way.
func TestReservationsOfOurSigners(t *testing.T) {
	f := newFleet(t, "alice.test")
	f.change = func(o *txmgr.Options) { o.Guard = refusing{"nobody"} }
	m := f.begin("one")
	if _, err := m.m.Acquire(t.Context(), "nobody", "pool", "alice.test"); !errors.Is(err, txmgr.ErrPolicy) {
		t.Errorf("a nonce for who may send nothing: %v", err)
	}
	if _, err := m.m.Lock(t.Context(), "nobody", "pool", "alice.test"); !errors.Is(err, txmgr.ErrPolicy) {
		t.Errorf("a lock for who may send nothing: %v", err)
	}
	given := 0
	for {
		_, err := m.m.Acquire(t.Context(), "t", "pool", "alice.test")
		if errors.Is(err, txmgr.ErrTooMany) {
			break
		}
		if given++; err != nil || given > 100 {
			t.Fatal(given, err)
		}
	}
	if given != 16 {
		t.Errorf("%d nonces are given out", given)
	}
}

// TestDeepQueue: what nobody can pay for lets all others pass, also where it is more than an owner looks at in one go.
func TestDeepQueue(t *testing.T) {
	f := newFleet(t, "alice.test")
	m := f.begin("one")
	var dear []txmgr.Request
	for range 500 {
		dear = append(dear, request(value(2*poolMoney), func(r *txmgr.Request) { r.Gas, r.Simulate = wireGas, "off" }))
	}
	for range 5 {
		must.Get(m.m.SubmitBatch(t.Context(), "", dear))(t)
	}
	m.mined(m.submit(), txmgr.StatusConfirmed)
}
