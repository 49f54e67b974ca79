package watch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
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
	"lockstep/internal/secret"
	"lockstep/watch"
	"lockstep/watch/watchtest"
)

const good = `
chains:
  - {id: 31337, urls: [http://127.0.0.1:8545], finality: 32}
watches:
  - name: escrows
    chain: 31337
    start: 5
    depth: finalized
    factory: {address: "0x5FbDB2315678afecb367f032d93F642f64180aa3", event: "Made(address indexed escrow, uint256 amount)", child: escrow}
    events: ["Approved(address)"]
    abi: {escrow.json: [Released]}
    fields: {amount: Made.amount}
    status: {initial: open, Released: released}
    sinks: [stdout]
`

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("escrow.json", `{"abi":[{"type":"event","name":"Released","inputs":[{"name":"to","type":"address","indexed":true},{"name":"amount","type":"uint256"}]},{"type":"event","name":"Other","inputs":[]}]}`)
	plan := must.Get(watch.ReadFile(write("watch.yaml", good)))(t)
	w := plan.Watches[0]
	got := []string{w.Name, w.Depth.String(), w.Events[0].String(), w.Events[1].String(), w.Status.Initial, w.Status.On["Released"], w.Factory.Event.String()}
	if diff := cmp.Diff([]string{"escrows", "finalized", "Approved(address)", "Released(address,uint256)", "open", "released", "Made(address,uint256)"}, got); diff != "" {
		t.Error(diff)
	}
	if len(w.Events) != 2 || w.Start != 5 || plan.Chains[0].Finality != 32 {
		t.Errorf("%+v", plan)
	}
}

// TestDocumentedFiles reads the files that docs/WATCH.md shows whole.
func TestDocumentedFiles(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "docs", "WATCH.md")))(t)
	dir := t.TempDir()
	abi := `[{"type":"event","name":"Refunded","inputs":[{"name":"to","type":"address","indexed":true}]},{"type":"function","name":"pay","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}]}]`
	must.Do(t, os.WriteFile(filepath.Join(dir, "escrow.json"), []byte(abi), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "treasury.txt"), []byte("0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69 # ours\n"), 0o600))
	files := 0
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.HasPrefix(block, "chains:") {
			continue
		}
		files++
		if _, err := watch.Read([]byte(block), filepath.Join(dir, "watch.yaml")); err != nil {
			t.Errorf("%s\n%v", block, err)
		}
	}
	if files < 2 {
		t.Errorf("%d files", files)
	}
}

// says looks for what an error has to tell, all at once.
func says(t *testing.T, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("nobody says %q:\n%v", want, err)
		}
	}
}

// TestAllMistakesAtOnce has a file with many mistakes: each is told with its line.
func TestAllMistakesAtOnce(t *testing.T) {
	_, err := watch.Read([]byte(`chains:
  - {id: abc, urls: [http://127.0.0.1:8545], poll: 2h}
watches:
  - name: one
    chian: 31337
    depth: deep
    factory: {address: "0x12", event: "Made(nothing)", child: escrow}
  - name: two
    events: [Approved(address]
    fields: {amount: Made}
    abi: missing.json
`), "watch.yaml")
	says(t, err,
		"watch.yaml:2: id must be a number", "watch.yaml:2: poll is a time like 2s, at most 1m", `watch.yaml:5: a watch has no setting "chian"`, "watch.yaml:6:", `watch.yaml:7: "0x12" is not an address`, "watch.yaml:7: signature", "watch.yaml:9: signature",
		"watch.yaml:10: a field is written as", "watch.yaml:11: open missing.json",
	)
	_, err = watch.Read([]byte("chains:\n  - {id: 1, urls: [http://x]}\nwatches:\n  - {name: a, chain: 1}\n  - {name: b, chain: 2, events: [A()]}\n"), "watch.yaml")
	says(t, err, "watch.yaml:4: watch a: it follows nothing", "watch.yaml:4: watch a: it names no events", "watch.yaml:5: watch b: chain 2 is not described")

	// What is wrong with the whole is told together with that, but not what only follows from it.
	_, err = watch.Read([]byte(`chains:
  - {id: 1, urls: ["htp://user:hunter2@host"]}
watches:
  - name: bad name!
    chain: 2
    events: [A()]
    addresses: ["0xfac0000000000000000000000000000000000001"]
    sinks: [pigeon, "redis://host", "webhook:ftp://host"]
  - {name: b, chain: 1, factory: {address: "0xfac0000000000000000000000000000000000001", event: "Made(address child)", child: kid}}
  - {name: b, chain: 1, evnts: [A()]}
  - {name: c, chain: 1, events: [A()], sinks: ["slack+none:https://x", "telegram:https://x/bot1:hunter2/sendMessage", "pagerduty:https://x?severity=bad&routing_key=hunter2"]}
templates:
  ours: "{{printf .event}}"
  a b: x
`), "watch.yaml")
	says(t, err,
		"watch.yaml:2: an endpoint's URL", `watch.yaml:4: watch "bad name!": a name has`, "watch.yaml:4: watch bad name!: chain 2 is not described", `watch.yaml:8: sink "pigeon" is not known`,
		"watch.yaml:8: sink redis: want a URL with the name", "watch.yaml:8: sink webhook: want", "watch.yaml:9: watch b: the factory's event Made has no argument kid", `watch.yaml:10: a watch has no setting "evnts"`,
		"watch.yaml:10: watch b is described twice", "watch.yaml:11: sink slack:x: there is no template none", "watch.yaml:11: sink telegram: the URL lacks ?chat_id=", "watch.yaml:11: sink pagerduty: severity is one of",
		"watch.yaml:13: template ours: a template cannot call printf", `watch.yaml:14: template "a b": a name has`,
	)
	if err != nil && (strings.Contains(err.Error(), "watch b: it follows nothing") || strings.Contains(err.Error(), "hunter2")) {
		t.Errorf("a mistake is told twice, or a password: %v", err)
	}
}

// TestAFileOfRealLife has anchors, several ABIs of which one has an anonymous event, overloads and named sinks, and mistakes that look right.
func TestAFileOfRealLife(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.json": `[{"type":"event","name":"Paid","inputs":[{"name":"amount","type":"uint256"}]},{"type":"event","name":"Secret","anonymous":true,"inputs":[]}]`,
		"b.json": `{"abi":[{"type":"event","name":"Made","inputs":[]},{"type":"event","name":"Lost","inputs":[]}]}`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	path := filepath.Join(folder, "watch.yaml")
	plan, err := watch.Read([]byte(`
chains: [{id: 1, urls: [http://x]}]
watches:
  - &base
    name: one
    chain: 1
    addresses: &all ["0x05FbA803Be258049A27B820088bab1cAD2058871", "0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"]
    events: ["Paid(uint256,address)"]
    abi: [a.json, b.json: [Made]]
    fields: {amount: "Paid(uint256, address).arg0"}
    status: {initial: open, "Paid(uint)": paid}
    sinks: ["orders=webhook:https://h/a?token=1", stdout]
  - {<<: *base, name: two, addresses: *all}
`), path)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range plan.Watches {
		if len(w.Events) != 3 || len(w.Addresses) != 2 || w.Fields[0].Event != "Paid(uint256,address)" || w.Status.On["Paid(uint256)"] != "paid" {
			t.Errorf("%+v", w)
		}
	}
	_, err = watch.Read([]byte(`
chains: [{id: 1, urls: [http://x]}]
watches:
  - {name: a, chain: 1, events: [A()], events: [B()], addresses: ["0x05FbA803Be258049A27B820088bab1cAD2058872"]}
  - {name: b, chain: 1, addresses: ["0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"], abi: {a.json: [Secret]}}
  - {name: c, chain: 1, addresses: ["0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"], events: [A()], sinks: ["webhook:https://h/one", "webhook:https://h/two"]}
`), path)
	says(t, err, `:4: "events" is set twice`, ":4: 0x05FbA803Be258049A27B820088bab1cAD2058872 has a checksum that does not fit", ":6: two sinks are called webhook:h")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("watches: [[1]]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if plan, err := watch.Read(text, filepath.Join(t.TempDir(), "watch.yaml")); err == nil && plan.Validate() != nil {
			t.Error("a plan was read that is not valid")
		}
	})
}

// TestOlderEnvironment reads the settings of older services alone.
func TestOlderEnvironment(t *testing.T) {
	s := watch.Settings{
		ChainID: 31337, URLs: []secret.String{"http://127.0.0.1:8545"}, Factory: "0x5FbDB2315678afecb367f032d93F642f64180aa3", Depth: "0", PubSubProject: "p", PubSubTopic: "events",
		FactoryEvent: "EscrowDeployed(address indexed escrow, address indexed payer, address indexed payee, uint256 amount)", Events: "Approved(address),Released(address,uint256),Refunded(address,uint256)",
	}
	plan, err := s.Plan()
	if err != nil {
		t.Fatal(err)
	}
	w := plan.Watches[0]
	if w.Factory.Child != "escrow" || len(w.Events) != 3 || len(w.Fields) != 3 || w.Status.On["Refunded"] != "refunded" || w.Sinks[0] != "pubsub:p/events" {
		t.Errorf("%+v", w)
	}
	_, err = (&watch.Settings{Factory: "x", FactoryEvent: "(", Events: "A(", Depth: "deep", Partitions: -1}).Plan()
	if err == nil || strings.Count(err.Error(), "\n") != 5 {
		t.Errorf("not all six mistakes are told: %v", err)
	}
}

func TestCheckShowsABlock(t *testing.T) {
	c := watchtest.New(t, 3)
	deploy(c, 1, 5)
	c.Commit() // 1
	approve(c, 1)
	approve(c, 2) // nobody announced it
	c.Commit()    // 2
	plan := escrows(t, c.URL)
	for block, want := range map[uint64][]string{1: {"Deployed"}, 2: {"Approved"}} {
		events := must.Get(watch.Check(t.Context(), &plan, block, slog.New(slog.DiscardHandler)))(t)
		var got []string
		for _, e := range events {
			got = append(got, e.Event)
			if !json.Valid(e.Args) {
				t.Errorf("%+v", e)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("block %d: %s", block, diff)
		}
	}
}

func TestActionsAreChecked(t *testing.T) {
	const text = `
chains: [{id: 5, urls: [http://127.0.0.1:1]}]
watches:
  - name: w
    chain: 5
    addresses: ["0x05FbA803Be258049A27B820088bab1cAD2058871"]
    events: ["Asked(address who, uint256 amount)"]
    sinks: [SINK]
    actions:
      - {on: Asked, to: amount, call: "pay(uint256)", args: [amount]}
      - {on: Asked, call: "pay(uint256)", args: [who]}
      - {on: Never, call: "pay()"}
      - {on: Asked, call: "pay(uint256)"}
      - {on: Asked, call: "pay(string)", args: [who]}
      - {on: Asked, call: "pay(address)", args: [nobody]}
      - {on: Asked, call: pay}
`
	_, err := watch.Read([]byte(strings.ReplaceAll(text, "SINK", "manager:http://127.0.0.1:1")), "watch.yaml")
	says(t, err, "neither an address", "wants uint256", "two actions on Asked", "no such event", "needs a depth", "1 arguments, not 0", "string cannot be passed on", `nobody of Asked is ""`, "need parentheses")
	_, err = watch.Read([]byte(strings.ReplaceAll(text, "SINK", "stdout")), "watch.yaml")
	says(t, err, "no sink manager:URL")
}

// TestVariablesInTheFile: a value may come from the environment, stays one value whatever is in it, and is in no error.
func TestVariablesInTheFile(t *testing.T) {
	const text = `
chains: [{id: "${CHAIN:-5}", urls: ["${SCHEME}://host/${KEY}"]}]   # ${NOBODY} in a comment
watches:
  - name: a
    chain: "${CHAIN:-5}"
    start: ${BLOCK}
    addresses: ["0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"]
    events: [A()]
    status: {initial: "$${open}"}
`
	plan, err := watch.Read([]byte(text), "watch.yaml", "SCHEME=https", "KEY=it's: [", "BLOCK=12")
	if err != nil {
		t.Fatal(err)
	}
	if c, w := plan.Chains[0], plan.Watches[0]; c.ID != 5 || c.URLs[0].Reveal() != "https://host/it's: [" || w.Start != 12 || w.Status.Initial != "${open}" {
		t.Errorf("%+v", plan)
	}
	_, err = watch.Read([]byte(text), "watch.yaml", "KEY=hunter22", "BLOCK=hunter22", "SCHEME=hunter22")
	for _, want := range []string{"watch.yaml:2: an endpoint's URL", `watch.yaml:6: start must be a block, latest, or a number like -1000 for so many blocks before that, not "${BLOCK}"`} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("nobody says %q, or says more:\n%v", want, err)
		}
	}
	_, err = watch.Read([]byte(text), "watch.yaml", "BLOCK=1")
	says(t, err, "watch.yaml:2: ${SCHEME} is not set in the environment")
}

// TestWrongChecksumsAreRefused wherever an address is written.
func TestWrongChecksumsAreRefused(t *testing.T) {
	const wrong = "0x05FbA803Be258049A27B820088bab1cAD2058872"
	settings := watch.Settings{ChainID: 1, URLs: []secret.String{"http://x"}, Factory: wrong, FactoryEvent: "Made(address child)", Events: "A()", Depth: "0"}
	_, err := settings.Plan()
	says(t, err, "FACTORY_ADDRESS: "+wrong+" has a checksum that does not fit")
	_, err = watch.Read([]byte(`
chains: [{id: 1, urls: [http://x]}]
watches:
  - {name: a, chain: 1, depth: 1, addresses: ["0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"], events: [A()], sinks: ["manager:http://x"], actions: [{on: A, to: "`+wrong+`", call: a()}]}
`), "watch.yaml")
	says(t, err, "the action on A: "+wrong+" has a checksum that does not fit")
}

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
		says(t, err, want)
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
