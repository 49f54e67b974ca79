package watch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/watch"
	"lockstep/watch/decode"
	"lockstep/watch/watchtest"
)

// given is a watch of one contract.
func given(t *testing.T, name string, emitter int) watch.Watch {
	return watch.Watch{
		Name: name, Chain: watchtest.ChainID, Addresses: []common.Address{watchtest.Emitter(emitter)}, Events: []*decode.Signature{signature(t, approved)},
		Status: watch.Status{Initial: "active"}, Sinks: []string{"book"},
	}
}

// differences are the lines that `lockstep watch plan` prints.
func differences(t *testing.T, db *ledger.DB, plan watch.Plan) (lines []string) {
	t.Helper()
	changes := must.Get(plan.Changes(t.Context(), db))(t)
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	return lines
}

// TestAWatchThatIsPutBack: what happened while it was out of the plan is read when it is put back, its factory's events and those of the
// contracts that it had, with numbers that have no gap.
func TestAWatchThatIsPutBack(t *testing.T) {
	c := watchtest.New(t, 5)
	db, b := ledgertest.Open(t), &book{t: t}
	both := escrows(t, c.URL)
	both.Watches = append(both.Watches, given(t, "other", 3))
	other := both
	other.Watches = both.Watches[1:]
	stop := start(t, db, both, "a", b)
	deploy(c, 1, 100)
	approve(c, 1)
	c.Commit() // 1
	told := []string{"+" + short(0) + " Deployed@1", "+" + short(1) + " Approved@1"}
	want(t, b, told...)
	stop()

	stop = start(t, db, other, "a", b)
	approve(c, 1)
	approve(c, 3)
	c.Commit() // 2
	deploy(c, 2, 100)
	approve(c, 3)
	c.Commit() // 3
	told = append(told, "+"+short(3)+" Approved@2", "+"+short(3)+" Approved@3")
	want(t, b, told...)
	stop()

	start(t, db, both, "a", b)
	approve(c, 2)
	c.Commit() // 4
	want(t, b, append(told, "+"+short(1)+" Approved@2", "+"+short(0)+" Deployed@3", "+"+short(2)+" Approved@4")...)
}

// TestChangesOfAPlan makes each change, and looks at what follows.
func TestChangesOfAPlan(t *testing.T) {
	c := watchtest.New(t, 8)
	db, b := ledgertest.Open(t), &book{t: t}
	var told []string
	var stop func()
	begin := func(plan watch.Plan, says ...string) {
		t.Helper()
		if stop != nil {
			stop()
		}
		if diff := cmp.Diff(says, differences(t, db, plan)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		stop = start(t, db, plan, "a", b)
	}
	tell := func(lines ...string) {
		t.Helper()
		told = append(told, lines...)
		want(t, b, told...)
	}
	release := func(n int) {
		c.Emit(watchtest.Emitter(n), released, watchtest.Word(watchtest.Emitter(n)), watchtest.Number(7))
	}

	plan := escrows(t, c.URL)
	w := &plan.Watches[0]
	w.Start, w.Events, w.Status, w.Fields = 2, w.Events[:1], watch.Status{Initial: "active"}, nil
	w.Addresses = []common.Address{watchtest.Emitter(4)}
	begin(plan, "escrows: new watch: it is read from block 2")
	approve(c, 4)
	c.Commit() // 1
	deploy(c, 1, 100)
	c.Commit() // 2
	release(1)
	release(4)
	c.Commit() // 3
	approve(c, 4)
	c.Commit() // 4
	tell("+"+short(0)+" Deployed@2", "+"+short(4)+" Approved@4")

	// An event more and an earlier start: what was passed over is read.
	plan = escrows(t, c.URL)
	w = &plan.Watches[0]
	w.Addresses, w.Fields, w.Status = []common.Address{watchtest.Emitter(4)}, nil, watch.Status{Initial: "active"}
	begin(plan, "escrows: start 0 instead of 2, new events Released(address,uint256): blocks 0 to 4 are read for its contracts by a backfill; sinks get what is new, actions do nothing about it")
	tell("+"+short(4)+" Approved@1", "+"+short(1)+" Released@3", "+"+short(4)+" Released@3")

	// Fields and statuses are worked out again.
	w.Fields, w.Status = []watch.Field{{Name: "amount", Event: "Released", Arg: "arg1"}}, watch.Status{Initial: "active", On: map[string]string{"Released": "done"}}
	begin(plan, "escrows: other fields or statuses: those of all its contracts are worked out again from the events that are stored")
	watchtest.Until(t, "the contracts are worked out again", func() (bool, error) {
		n, err := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM contracts WHERE status = 'done' AND amount = '7'")
		return n == 2, err
	})

	// Without its factory and with another address: the contract of the factory is followed as before.
	factory := w.Factory
	w.Factory, w.Addresses = nil, []common.Address{watchtest.Emitter(5)}
	begin(plan,
		"escrows: without the factory "+factory.Address.Hex()+": no contracts are added any more; those that it has announced are followed as before",
		"escrows: without the events Deployed(address,uint256): they are not read any more; those that were found stay",
		"escrows: new addresses "+watchtest.Emitter(5).Hex()+": they are read from block 0, or from where they were taken out",
		"escrows: without the addresses "+watchtest.Emitter(4).Hex()+": they are not followed any more; what was found stays. When one is put back, it goes on from here")
	deploy(c, 2, 100)
	approve(c, 1)
	approve(c, 4)
	approve(c, 5)
	c.Commit() // 5
	tell("+"+short(1)+" Approved@5", "+"+short(5)+" Approved@5")

	// Both put back.
	w.Factory, w.Addresses = factory, []common.Address{watchtest.Emitter(5), watchtest.Emitter(4)}
	begin(plan,
		"escrows: factory "+factory.Address.Hex()+": it is read from block 0",
		"escrows: new addresses "+watchtest.Emitter(4).Hex()+": they are read from block 0, or from where they were taken out")
	approve(c, 2)
	c.Commit() // 6
	tell("+"+short(0)+" Deployed@5", "+"+short(4)+" Approved@5", "+"+short(2)+" Approved@6")

	// A later start: what was read stays and is followed as before, and what is new begins there.
	approve(c, 3)
	approve(c, 1)
	c.Commit() // 7
	tell("+" + short(1) + " Approved@7")
	w.Start, w.Addresses = 8, append(w.Addresses, watchtest.Emitter(3))
	begin(plan,
		"escrows: start 8 instead of 0: what was read before that block stays; contracts that are new in the plan begin there",
		"escrows: new addresses "+watchtest.Emitter(3).Hex()+": they are read from block 8, or from where they were taken out")
	approve(c, 3)
	approve(c, 1)
	c.Emit(watchtest.Emitter(6), deployed, watchtest.Word(watchtest.Emitter(7)), watchtest.Number(1))
	c.Commit() // 8
	tell("+"+short(3)+" Approved@8", "+"+short(1)+" Approved@8")

	// Another factory: it is read from the start, and the contracts of the one before are followed, of which there will be no more.
	other := *factory
	other.Address, w.Factory = watchtest.Emitter(6), &other
	begin(plan, "escrows: factory "+other.Address.Hex()+" instead of "+factory.Address.Hex()+": the new one is read from block 8; the contracts of the other are followed as before")
	deploy(c, 6, 100)
	approve(c, 1)
	approve(c, 7)
	c.Commit() // 9
	tell("+"+short(6)+" Deployed@8", "+"+short(1)+" Approved@9", "+"+short(7)+" Approved@9")

	// What cannot be done is refused, and changes nothing.
	stop()
	bad := plan
	bad.Watches = slices.Clone(plan.Watches)
	bad.Chains, bad.Watches[0].Chain = append(slices.Clone(plan.Chains), watch.Chain{ID: 5, URLs: plan.Chains[0].URLs}), 5
	if lines := differences(t, db, bad); len(lines) != 1 || !strings.Contains(lines[0], "REFUSED") {
		t.Error(lines)
	}
	if lines := differences(t, db, plan); len(lines) != 0 {
		t.Error(lines)
	}
}

// TestAnOlderPlanOwnsNothing has a process start with a newer plan while another one runs. From then on that one moves no cursor; when
// it starts again with its own plan, it waits; with the newer one it takes part.
func TestAnOlderPlanOwnsNothing(t *testing.T) {
	c := watchtest.New(t, 5)
	db, b := ledgertest.Open(t), &book{t: t}
	older := escrows(t, c.URL)
	newer := older
	newer.Watches = append(slices.Clone(older.Watches), given(t, "other", 3))
	stop := start(t, db, older, "a", b)
	deploy(c, 1, 100)
	c.Commit() // 1
	told := []string{"+" + short(0) + " Deployed@1"}
	want(t, b, told...)
	start(t, db, newer, "b", b)
	plans := 0
	owners := func() (list []string) {
		plans = must.Get(ledgertest.One[int](t, db, "SELECT COUNT(*) FROM watch_plans"))(t)
		for _, owner := range ledgertest.List[string](t, db, "SELECT DISTINCT owner FROM cursors") {
			list = append(list, strings.SplitN(owner, "/", 2)[0])
		}
		return list
	}
	alone := func() {
		t.Helper()
		watchtest.Until(t, "the process with the newer plan owns all", func() (bool, error) {
			list := owners()
			if plans == 2 && slices.Contains(list, "a") { // not even for a moment
				t.Fatalf("the fleet follows the newer plan, and owners are %v", list)
			}
			return slices.Equal(list, []string{"b"}), fmt.Errorf("%v", list)
		})
	}
	alone()
	stop()
	old, stop := service(t, db, older, "a", b)
	alone()
	watchtest.Until(t, "the older process says why it does nothing", func() (bool, error) {
		reasons := old.Condition(t.Context()).Reasons
		return slices.ContainsFunc(reasons, func(why string) bool { return strings.Contains(why, "the fleet follows another plan") }), fmt.Errorf("%v", reasons)
	})
	if got, err := old.StartBackfill(t.Context(), watch.Backfill{Watch: "escrows"}, -1); !errors.Is(err, watch.ErrOlderPlan) {
		t.Errorf("the older process begins a backfill: %+v, %v", got, err)
	}
	approve(c, 1)
	approve(c, 3)
	c.Commit() // 2
	want(t, b, append(told, "+"+short(1)+" Approved@2", "+"+short(3)+" Approved@2")...)
	if list := owners(); slices.Contains(list, "a") {
		t.Errorf("owners are %v", list)
	}
	stop()
	again, _ := service(t, db, newer, "a", b)
	watchtest.Until(t, "both have units", func() (bool, error) {
		list := owners()
		return slices.Contains(list, "a") && slices.Contains(list, "b"), fmt.Errorf("%v", list)
	})
	watchtest.Until(t, "the process is ready again", func() (bool, error) {
		reasons := again.Condition(t.Context()).Reasons
		return len(reasons) == 0, fmt.Errorf("%v", reasons)
	})
	if _, err := again.StartBackfill(t.Context(), watch.Backfill{Watch: "escrows"}, -1); err != nil {
		t.Error(err)
	}
}

// TestReset: a chain that begins with another block stops its watchers; when what was read of it is forgotten, it is read from the beginning.
func TestReset(t *testing.T) {
	first, second := watchtest.New(t, 2), watchtest.New(t, 3)
	db, b := ledgertest.Open(t), &book{t: t}
	begin := func(c *watchtest.Chain) (stop func()) {
		plan := escrows(t, c.URL)
		plan.Watches = []watch.Watch{given(t, "w", 1)}
		plan.Watches[0].Tables = true
		return start(t, db, plan, "a", b)
	}
	stop := begin(first)
	approve(first, 1)
	first.Commit()
	told := []string{"+" + short(1) + " Approved@1"}
	want(t, b, told...)
	if err := watch.Reset(t.Context(), db, watchtest.ChainID); !errors.Is(err, watch.ErrAlive) {
		t.Error(err)
	}
	stop()
	must.Do(t, watch.Reset(t.Context(), db, watchtest.ChainID))
	rows(t, db, "SELECT block_hash FROM event_w_approved")
	b.mu.Lock()
	b.bodies, b.messages = nil, nil // numbers begin again
	b.mu.Unlock()
	begin(second)
	approve(second, 1)
	hash := second.Commit()
	want(t, b, told...)
	rows(t, db, "SELECT block_hash, seq FROM event_w_approved", hash.Hex()+" 1")
}

// TestASinkIsItsName: what changes in a URL and is a secret makes no other sink of it.
func TestASinkIsItsName(t *testing.T) {
	for text, name := range map[string]string{
		"stdout":                                "stdout",
		"webhook:https://h.example/a?token=one": "webhook:h.example",
		"webhook:https://h.example/b?token=two": "webhook:h.example",
		"orders=webhook:https://h.example/a":    "orders",
		"redis://user:pass@h:6379/stream":       "redis:h:6379/stream",
		"pubsub:project/topic":                  "pubsub:project/topic",
		"manager:http://h:7550":                 "manager:h:7550",
	} {
		if got := watch.SinkName(text); got != name {
			t.Errorf("%s is called %s, want %s", text, got, name)
		}
	}
}
