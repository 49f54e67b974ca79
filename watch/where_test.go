package watch_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

// planOf reads a plan that follows emitter 1 of a chain.
func planOf(t *testing.T, url, text string, files map[string]string) watch.Plan {
	t.Helper()
	folder := t.TempDir()
	for name, content := range files {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	plan := must.Get(watch.Read([]byte("chains: [{id: 1337, urls: [\""+url+"\"], finality: 8, maxSpan: 100}]\nwatches:\n  - name: w\n    chain: 1337\n    addresses: [\""+watchtest.Emitter(1).Hex()+"\"]\n"+text), filepath.Join(folder, "watch.yaml")))(t)
	for i := range plan.Watches {
		plan.Watches[i].Sinks = []string{"book"}
	}
	return *plan
}

// TestWhere hands on what meets a condition, asks the node for no more where an indexed argument says so, and finds what another condition wants.
func TestWhere(t *testing.T) {
	c := watchtest.New(t, 2)
	var narrow, wide atomic.Int64
	endpoint := watchtest.Proxy(t, c.URL, func(c *watchtest.Call) {
		if c.Method == "eth_getLogs" && bytes.Contains(c.Params[0], []byte(watchtest.Word(common.Address{2}).Hex()[2:])) {
			narrow.Add(1)
		} else if c.Method == "eth_getLogs" {
			wide.Add(1)
		}
		c.Ask()
	})
	db, b := ledgertest.Open(t), &book{t: t}
	const events = "    events: [\"Released(address indexed to, uint256 amount)\"]\n"
	send := func(to byte, amount int64) {
		c.Emit(watchtest.Emitter(1), released, watchtest.Word(common.Address{to}), watchtest.Number(amount))
	}
	plan := planOf(t, endpoint, events+"    where: to in ours.txt && amount >= 7\n", map[string]string{"ours.txt": common.Address{2}.Hex() + "\n" + common.Address{3}.Hex()})
	send(2, 7)
	send(2, 6)
	send(4, 9)
	c.Commit() // 1
	stop := start(t, db, plan, "a", b)
	want(t, b, "+"+short(1)+" Released@1")
	send(3, 100)
	c.Commit() // 2
	told := []string{"+" + short(1) + " Released@1", "+" + short(1) + " Released@2"}
	want(t, b, told...)
	stop()
	if narrow.Load() == 0 || wide.Load() != 0 {
		t.Errorf("%d queries name the addresses, %d do not", narrow.Load(), wide.Load())
	}

	plan = planOf(t, endpoint, events+"    where: {Released: \"amount == 6 || amount > 50\"}\n", nil)
	if diff := cmp.Diff([]string{"w: other conditions Released(address,uint256): blocks 0 to 2 are read for its contracts by a backfill; sinks get what is new, actions do nothing about it"}, differences(t, db, plan)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	stop = start(t, db, plan, "a", b)
	told = append(told, "+"+short(1)+" Released@1")
	want(t, b, told...)
	stop()

	// None any more: the rest is found. One again: what was found stays.
	plan = planOf(t, endpoint, events, nil)
	stop = start(t, db, plan, "a", b)
	told = append(told, "+"+short(1)+" Released@1")
	want(t, b, told...)
	stop()
	plan = planOf(t, endpoint, events+"    where: amount < 0\n", nil)
	if got := differences(t, db, plan); len(got) != 1 || !strings.Contains(got[0], "a condition of Released(address,uint256), amount < 0: it counts for what is read from now on") {
		t.Error(got)
	}
}

func TestMistakesInConditions(t *testing.T) {
	const head = "chains: [{id: 1, urls: [http://x]}]\nwatches:\n  - name: w\n    chain: 1\n    addresses: [\"0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69\"]\n    events: [\"A(uint256 amount)\", \"B(address amount)\"]\n"
	for text, want := range map[string]string{
		"    where: amount >= 5\n":          "watch.yaml:7: where: column 8: amount is of type address, which is only compared with == and !=",
		"    where: {A: amount >= x}\n":     "watch.yaml:7: where: column 11: A(uint256) has no argument x",
		"    where: {C: amount >= 5}\n":     "watch.yaml:7: where: there is no event C among those of the watch",
		"    where: {A: amount in a.txt}\n": "a.txt: no such file",
		"    start: soon\n":                 `watch.yaml:7: start must be a block, latest, or a number like -1000 for so many blocks before that, not "soon"`,
		"    start: 9\n    end: 8\n":        "it ends at block 8 and begins at 9",
	} {
		_, err := watch.Read([]byte(head+text), filepath.Join(t.TempDir(), "watch.yaml"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestStartAndEnd: a start that counts from the newest block is settled once, and a watch that has read its last block says so. When that is moved, what is behind
// it is read.
func TestStartAndEnd(t *testing.T) {
	c := watchtest.New(t, 2)
	db, b := ledgertest.Open(t), &book{t: t}
	const events = "    events: [\"Approved(address)\"]\n"
	for range 5 {
		approve(c, 1)
		c.Commit()
	}
	plan := planOf(t, c.URL, events+"    start: -2\n    end: 6\n", nil)
	if got := differences(t, db, plan); !slices.Equal(got, []string{"w: new watch: it is read from the block that is 2 before the newest then to 6"}) {
		t.Error(got)
	}
	stop := start(t, db, plan, "a", b)
	told := []string{"+" + short(1) + " Approved@3", "+" + short(1) + " Approved@4", "+" + short(1) + " Approved@5"}
	want(t, b, told...)
	stop()
	for range 3 {
		approve(c, 1)
		c.Commit() // 6 to 8
	}
	if got := differences(t, db, planOf(t, c.URL, events+"    start: -2\n    end: 6\n", nil)); len(got) != 0 {
		t.Error(got)
	}
	for range 40 { // the chain says that blocks are final that are 32 deep
		c.Commit()
	}
	s, stop := service(t, db, plan, "a", b)
	told = append(told, "+"+short(1)+" Approved@6")
	want(t, b, told...)
	watchtest.Until(t, "the watch is done", func() (bool, error) {
		list, err := s.States(t.Context())
		return err == nil && list[0].Done && list[0].Lag == 0 && list[0].Start == 3 && *list[0].End == 6 &&
			slices.Equal(s.Condition(t.Context()).Done, []string{"watch w is done: it has read up to block 6, its end"}), err
	})
	stop()
	want(t, b, told...)
	plan = planOf(t, c.URL, events+"    start: -2\n    end: 7\n", nil)
	if diff := cmp.Diff([]string{"w: end 7 instead of 6: blocks 7 to 7 are read for its contracts by a backfill; sinks get what is new, actions do nothing about it"}, differences(t, db, plan)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	stop = start(t, db, plan, "a", b)
	told = append(told, "+"+short(1)+" Approved@7")
	want(t, b, told...)
	stop()
	plan = planOf(t, c.URL, events+"    start: 3\n", nil)
	start(t, db, plan, "a", b)
	want(t, b, append(told, "+"+short(1)+" Approved@8")...)
}

// TestAnonymousEvents have no topic of their own: a log of the contract with as many topics is one if it fits.
func TestAnonymousEvents(t *testing.T) {
	c := watchtest.New(t, 2)
	db, b := ledgertest.Open(t), &book{t: t}
	plan := planOf(t, c.URL, "    abi: {a.json: [Secret, Approved]}\n    where: {Secret: \"amount > 5\"}\n    tables: true\n", map[string]string{"a.json": `[
		{"type":"event","name":"Secret","anonymous":true,"inputs":[{"name":"id","type":"bytes32","indexed":true},{"name":"who","type":"address","indexed":true},{"name":"amount","type":"uint256"}]},
		{"type":"event","name":"Approved","inputs":[{"name":"by","type":"address","indexed":true}]},
		{"type":"event","name":"Other","anonymous":true,"inputs":[]}]`})
	if n := len(plan.Watches[0].Events); n != 2 {
		t.Fatalf("%d events", n)
	}
	start(t, db, plan, "a", b)
	secret := func(amount ...common.Hash) {
		c.Emit(watchtest.Emitter(1), "an id", watchtest.Word(common.Address{2}), amount...)
	}
	secret(watchtest.Number(7))
	secret(watchtest.Number(5))                      // the condition
	secret()                                         // does not fit
	secret(watchtest.Number(7), watchtest.Number(7)) // neither
	approve(c, 1)                                    // says which event it is
	c.Commit()                                       // 1
	secret(watchtest.Number(8))
	c.Commit() // 2
	want(t, b, "+"+short(1)+" Secret@1", "+"+short(1)+" Approved@1", "+"+short(1)+" Secret@2")
	m := b.all()[0]
	if m.Signature != "Secret(bytes32,address,uint256) anonymous" || m.Topic0 != "" || !strings.Contains(string(m.Args), `"amount":"7"`) {
		t.Errorf("%s", m.Body)
	}
	rows(t, db, "SELECT who, amount FROM event_w_secret ORDER BY block_number", common.Address{2}.Hex()+" 7", common.Address{2}.Hex()+" 8")
}
