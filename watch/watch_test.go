package watch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/secret"
	"lockstep/watch"
	"lockstep/watch/decode"
	"lockstep/watch/watchtest"
)

const (
	deployed = "Deployed(address,uint256)"
	approved = "Approved(address)"
	released = "Released(address,uint256)"
)

// book is a sink that remembers. A process that loses its lease between a message and the note of it hands the message on again: the book
// has it once.
type book struct {
	t        *testing.T
	mu       sync.Mutex
	messages []watch.Message
	bodies   map[string]string // by contract and number
}

func (b *book) Publish(_ context.Context, batch []watch.Message) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bodies == nil {
		b.bodies = map[string]string{}
	}
	for _, m := range batch {
		key := fmt.Sprint(m.Address, m.Seq)
		body, known := b.bodies[key]
		if known && body != string(m.Body) {
			b.t.Errorf("message %d about %s came as %s and as %s", m.Seq, m.Address, body, m.Body)
		}
		if !known {
			b.bodies[key] = string(m.Body)
			b.messages = append(b.messages, m)
		}
	}
	return make([]error, len(batch))
}

func (b *book) Close() {}

func (b *book) all() []watch.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.messages)
}

// lines tells the messages in short: "+" or "-", contract, event, block.
func (b *book) lines() []string {
	var list []string
	for _, m := range b.all() {
		sign := "+"
		if m.Removed {
			sign = "-"
		}
		list = append(list, fmt.Sprintf("%s%s %s@%d", sign, m.Address[len(m.Address)-4:], m.Event.Event, m.BlockNumber))
	}
	return list
}

func signature(t *testing.T, text string) *decode.Signature {
	t.Helper()
	return must.Get(decode.Parse(text))(t)
}

// escrows is a plan: emitter 0 is the factory.
func escrows(t *testing.T, url string) watch.Plan {
	return watch.Plan{
		Chains: []watch.Chain{{ID: watchtest.ChainID, URLs: []secret.String{secret.String(url)}, Finality: 8, MaxSpan: 100}},
		Watches: []watch.Watch{{
			Name: "escrows", Chain: watchtest.ChainID,
			Factory: &watch.Factory{Address: watchtest.Emitter(0), Event: signature(t, "Deployed(address indexed escrow, uint256 amount)"), Child: "escrow"},
			Events:  []*decode.Signature{signature(t, approved), signature(t, released)},
			Fields:  []watch.Field{{Name: "amount", Event: "Deployed", Arg: "amount"}},
			Status:  watch.Status{Initial: "active", On: map[string]string{"Released": "released"}},
			Sinks:   []string{"book"},
		}},
	}
}

// start runs a process of the fleet inside this one. Stopping it is graceful.
func start(t *testing.T, db *ledger.DB, plan watch.Plan, name string, sink watch.Sink) (stop func()) {
	t.Helper()
	_, stop = service(t, db, plan, name, sink)
	return stop
}

func service(t *testing.T, db *ledger.DB, plan watch.Plan, name string, sink watch.Sink) (s *watch.Service, stop func()) {
	t.Helper()
	// However slow the machine is, a process that runs keeps its units.
	s = must.Get(watch.New(watch.Config{Plan: plan, Instance: name, Version: "test", LeaseTTL: 2 * time.Minute}, watch.Deps{
		DB: db, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Sinks: func(string) (watch.Sink, error) { return sink, nil },
	}))(t)
	return s, must.Run(t, s.Run)
}

// want waits until these lines have been told. Their order counts for each contract: there is none between contracts.
func want(t *testing.T, b *book, lines ...string) {
	t.Helper()
	watchtest.Until(t, strings.Join(lines, ", "), func() (bool, error) {
		return len(b.lines()) >= len(lines), fmt.Errorf("%s", cmp.Diff(byContract(lines), byContract(b.lines())))
	})
	if diff := cmp.Diff(byContract(lines), byContract(b.lines())); diff != "" {
		t.Fatal(diff)
	}
	seqs := map[string]int64{}
	for _, m := range b.all() {
		if seqs[m.Address]++; m.Seq != seqs[m.Address] {
			t.Errorf("%s has message %d where %d is next", m.Address, m.Seq, seqs[m.Address])
		}
	}
}

func byContract(lines []string) map[string][]string {
	m := map[string][]string{}
	for _, line := range lines {
		m[line[1:5]] = append(m[line[1:5]], line)
	}
	return m
}

func short(n int) string { a := watchtest.Emitter(n).Hex(); return a[len(a)-4:] }

func deploy(c *watchtest.Chain, child int, amount int64) {
	c.Emit(watchtest.Emitter(0), deployed, watchtest.Word(watchtest.Emitter(child)), watchtest.Number(amount))
}

func approve(c *watchtest.Chain, n int) {
	c.Emit(watchtest.Emitter(n), approved, watchtest.Word(common.Address{1}))
}

func release(c *watchtest.Chain, n int, amount int64) {
	c.Emit(watchtest.Emitter(n), released, watchtest.Word(common.Address{2}), watchtest.Number(amount))
}

func TestChildrenOfAFactory(t *testing.T) {
	c := watchtest.New(t, 4)
	approve(c, 1) // before it is announced: not followed yet
	c.Commit()    // 1
	deploy(c, 1, 100)
	approve(c, 1)
	c.Commit() // 2
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, escrows(t, c.URL), "a", b)
	want(t, b, "+"+short(0)+" Deployed@2", "+"+short(1)+" Approved@2")
	deploy(c, 2, 200)
	c.Commit() // 3
	approve(c, 2)
	release(c, 1, 5)
	c.Commit() // 4
	want(t, b, "+"+short(0)+" Deployed@2", "+"+short(1)+" Approved@2", "+"+short(0)+" Deployed@3", "+"+short(2)+" Approved@4", "+"+short(1)+" Released@4")
	if is, err := ledgertest.One[string](t, db, "SELECT status || ' ' || amount FROM escrow_registry WHERE address = $1", watchtest.Emitter(1).Hex()); err != nil || is != "released 100" {
		t.Fatalf("%q, %v", is, err)
	}
	for _, view := range []ledger.SQL{ // of the older service
		"processed_events WHERE event_type = 'Released' AND processed_by_instance = 'a' AND processed_at > 0 AND event_id LIKE '0x%:%'",
		"escrow_records WHERE status = 'released' AND amount = '100' AND created_at <= updated_at",
		"relayer_instances WHERE instance_id = 'a' AND status = 'active' AND partition_number = 0 AND total_partitions = 1 AND last_heartbeat > 0",
	} {
		if n, err := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM "+view); err != nil || n != 1 {
			t.Errorf("%d rows of %s, %v", n, view, err)
		}
	}
}

// TestChildrenFoundWhileOthersAreReadAhead: what is read ahead names the contracts that were known then. A child that is found
// meanwhile misses nothing.
func TestChildrenFoundWhileOthersAreReadAhead(t *testing.T) {
	const children = 6
	c := watchtest.New(t, children+1)
	var lines []string
	block := 0
	tell := func(n int, event string) { lines = append(lines, fmt.Sprintf("+%s %s@%d", short(n), event, block)) }
	for n := 1; n <= children; n++ {
		block++
		deploy(c, n, 1)
		tell(0, "Deployed")
		c.Commit()
		for range 3 {
			block++
			for known := 1; known <= n; known++ {
				approve(c, known)
				tell(known, "Approved")
			}
			c.Commit()
		}
	}
	for range 10 { // so that all of it is final
		c.Commit()
	}
	plan := escrows(t, c.URL)
	plan.Chains[0].MaxSpan = 2
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, plan, "a", b)
	want(t, b, lines...)
}

func TestReorganisationTakesBackAndReplaces(t *testing.T) {
	c := watchtest.New(t, 4)
	deploy(c, 1, 100)
	c.Commit() // 1
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, escrows(t, c.URL), "a", b)
	want(t, b, "+"+short(0)+" Deployed@1")
	deploy(c, 2, 200)
	c.Commit() // 2
	approve(c, 2)
	c.Commit() // 3
	release(c, 1, 5)
	c.Commit() // 4
	first := []string{"+" + short(0) + " Deployed@1", "+" + short(0) + " Deployed@2", "+" + short(2) + " Approved@3", "+" + short(1) + " Released@4"}
	want(t, b, first...)
	c.Reorg(3, true) // of depth 3, across the discovery of contract 2
	first = append(first, "-"+short(1)+" Released@4", "-"+short(2)+" Approved@3", "-"+short(0)+" Deployed@2")
	want(t, b, first...)
	registered := func() []string {
		return ledgertest.List[string](t, db, "SELECT address || ' ' || status FROM escrow_registry ORDER BY address")
	}
	if diff := cmp.Diff([]string{watchtest.Emitter(1).Hex() + " active"}, registered()); diff != "" {
		t.Fatal(diff)
	}
	approve(c, 2) // not followed any more
	c.Commit()    // 6
	deploy(c, 2, 300)
	approve(c, 1)
	c.Commit() // 7
	approve(c, 2)
	c.Commit() // 8
	want(t, b, append(first, "+"+short(0)+" Deployed@7", "+"+short(1)+" Approved@7", "+"+short(2)+" Approved@8")...)
	if diff := cmp.Diff([]string{watchtest.Emitter(1).Hex() + " active", watchtest.Emitter(2).Hex() + " active"}, registered()); diff != "" {
		t.Fatal(diff)
	}
}

func TestDepthWaits(t *testing.T) {
	c := watchtest.New(t, 3)
	plan := escrows(t, c.URL)
	plan.Watches[0].Depth = watch.Depth{Blocks: 2}
	deploy(c, 1, 1)
	c.Commit() // 1
	approve(c, 1)
	c.Commit() // 2
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, plan, "a", b)
	c.Commit() // 3
	want(t, b, "+"+short(0)+" Deployed@1")
	c.Reorg(2, true) // blocks 2 and 3 are replaced by 2 to 4 before anybody was told of 2
	release(c, 1, 1)
	c.Commit() // 5
	c.Commit() // 6
	c.Commit() // 7
	want(t, b, "+"+short(0)+" Deployed@1", "+"+short(1)+" Released@5")
}

func TestUnitsMoveWithoutGapOrRepetition(t *testing.T) {
	const children = 40
	c := watchtest.New(t, children+1)
	db, b := ledgertest.Open(t), &book{t: t}
	plan := escrows(t, c.URL)
	for n := 1; n <= children; n++ {
		deploy(c, n, int64(n))
	}
	c.Commit()
	total := children
	step := func() {
		for n := 1; n <= children; n++ {
			approve(c, n)
		}
		c.Commit()
		total += children
	}
	stopA := start(t, db, plan, "a", b)
	step()
	stopB := start(t, db, plan, "b", b)
	step()
	start(t, db, plan, "c", b)
	step()
	stopA()
	step()
	stopB()
	step()
	watchtest.Until(t, "all events", func() (bool, error) {
		stored, err := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM processed_events")
		waiting, again := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM outbox o LEFT JOIN sink_cursors c ON c.unit = o.subject WHERE o.id > COALESCE(c.position, 0)")
		err = errors.Join(err, again)
		return err == nil && stored >= total && waiting == 0, errors.Join(fmt.Errorf("%d of %d stored, %d wait", stored, total, waiting), err)
	})
	stored, err := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM processed_events")
	if err != nil || stored != total {
		t.Fatalf("%d rows of %d, %v", stored, total, err)
	}
	ids, seqs := map[string]bool{}, map[string]int64{}
	for _, m := range b.all() {
		ids[m.Delivery] = true
		if seqs[m.Address]++; m.Seq != seqs[m.Address] {
			t.Errorf("%s: message %d where %d is next", m.Address, m.Seq, seqs[m.Address])
		}
	}
	if len(ids) != total {
		t.Errorf("%d of %d events", len(ids), total)
	}
}

func TestReorganisationThatKeepsTheTransactions(t *testing.T) {
	c := watchtest.New(t, 3)
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, escrows(t, c.URL), "a", b)
	deploy(c, 1, 100)
	c.Commit() // 1
	approve(c, 1)
	c.Commit() // 2
	told := []string{"+" + short(0) + " Deployed@1", "+" + short(1) + " Approved@2"}
	want(t, b, told...)
	c.Reorg(2, false) // both events are in block 1 now, that of the contract behind that of its factory
	told = append(told, "-"+short(1)+" Approved@2", "-"+short(0)+" Deployed@1", "+"+short(0)+" Deployed@1", "+"+short(1)+" Approved@1")
	want(t, b, told...)
}

// TestAnnouncedHeadsDie has a chain tell of its blocks over a WebSocket that breaks for good. Its blocks are asked for from then on, and
// nothing is missed.
func TestAnnouncedHeadsDie(t *testing.T) {
	c := watchtest.New(t, 2)
	line := watchtest.NewLine(t, c.WS)
	plan := escrows(t, c.URL)
	plan.Chains[0].URLs = append(plan.Chains[0].URLs, secret.String("ws://"+line.Addr))
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, plan, "a", b)
	deploy(c, 1, 100)
	c.Commit() // 1
	told := []string{"+" + short(0) + " Deployed@1"}
	want(t, b, told...)
	approve(c, 1)
	c.Commit() // 2
	told = append(told, "+"+short(1)+" Approved@2")
	want(t, b, told...)
	line.Cut()
	for n := 3; n < 6; n++ {
		approve(c, 1)
		c.Commit()
		told = append(told, fmt.Sprintf("+%s Approved@%d", short(1), n))
	}
	want(t, b, told...)
}

// TestADevelopersChainBeginsAnew: what was read of it is forgotten, and the chain is read from its first block.
func TestADevelopersChainBeginsAnew(t *testing.T) {
	first, second := watchtest.New(t, 3), watchtest.New(t, 3)
	var node atomic.Pointer[url.URL]
	serve := func(c *watchtest.Chain) {
		u := must.Get(url.Parse(c.URL))(t)
		node.Store(u)
	}
	serve(first)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(node.Load()) }})
	t.Cleanup(proxy.Close)
	plan := escrows(t, proxy.URL)
	plan.Watches = []watch.Watch{given(t, "one", 1), given(t, "two", 2)}
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, plan, "a", b)
	approve(first, 1)
	first.Commit() // 1
	for range 100 {
		first.Backend.Commit()
	}
	want(t, b, "+"+short(1)+" Approved@1")
	watchtest.Until(t, "block 1 is final", func() (bool, error) {
		first.Backend.Commit() // what is final is looked at with new blocks
		safe, err := ledgertest.One[int](t, db, "SELECT safe FROM watch_chains")
		return safe > 1, err
	})
	approve(second, 2)
	second.Commit() // 1
	serve(second)
	want(t, b, "+"+short(1)+" Approved@1", "+"+short(2)+" Approved@1")
}

// renamed is a node that says that it serves chain 5.
func renamed(t *testing.T, node string) string {
	return watchtest.Proxy(t, node, func(c *watchtest.Call) {
		if c.Ask(); c.Method == "eth_chainId" {
			c.Say("0x5")
		}
	})
}

// TestTwoChainsInOneFile follows a contract of one address on two chains. Each has its own events and its own blocks; one watch wants the logs as they
// are beside what they say, and one has no sinks, which is said.
func TestTwoChainsInOneFile(t *testing.T) {
	one, five := watchtest.New(t, 2), watchtest.New(t, 2)
	plan := must.Get(watch.Read(fmt.Appendf(nil, `
chains:
  - {id: %d, urls: [%q]}
  - {id: 5, urls: [%q]}
watches:
  - {name: one, chain: %d, addresses: [%q], events: [Approved(address)], sinks: [stdout], raw: true}
  - {name: five, chain: 5, addresses: [%q], events: [Approved(address)], sinks: ["webhook:http://127.0.0.1:1/"]}
  - {name: silent, chain: 5, addresses: [%q], events: [Approved(address)]}
`, watchtest.ChainID, one.URL, renamed(t, five.URL), watchtest.ChainID, watchtest.Emitter(1).Hex(), watchtest.Emitter(1).Hex(), watchtest.Emitter(1).Hex()), "watch.yaml"))(t)
	log, books := new(proctest.Tail), map[string]*book{}
	s := must.Get(watch.New(watch.Config{Plan: *plan, Instance: "a", LeaseTTL: 2 * time.Minute}, watch.Deps{
		DB: ledgertest.Open(t), Log: slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)), Sinks: func(spec string) (watch.Sink, error) {
			books[spec] = &book{t: t}
			return books[spec], nil
		},
	}))(t)
	if !log.Has("a watch has no sinks") || !log.Has("watch=silent") || log.Has("watch=five") {
		t.Error("that a watch has no sinks is not said")
	}
	must.Run(t, s.Run)
	five.Commit()
	approve(one, 1)
	one.Commit() // 1
	approve(five, 1)
	five.Commit() // 2
	stored := func() (list []string) {
		events, _ := must.Get2(s.Latest(t.Context(), "", "", "", 10))(t)
		for _, e := range events {
			list = append(list, fmt.Sprintf("%s of %d: Approved@%d, %d topics and data %q", e.Event.Watch, e.Event.Chain, e.BlockNumber, len(e.Topics), e.Data))
		}
		slices.Sort(list)
		return list
	}
	all := []string{
		`five of 5: Approved@2, 0 topics and data ""`,
		fmt.Sprintf(`one of %d: Approved@1, 2 topics and data "0x"`, watchtest.ChainID),
		`silent of 5: Approved@2, 0 topics and data ""`,
	}
	watchtest.Until(t, "the events of both chains", func() (bool, error) {
		list := stored()
		return slices.Equal(list, all), fmt.Errorf("%q", list)
	})
	watchtest.Until(t, "those with a sink are handed on", func() (bool, error) {
		n := 0
		for _, b := range books {
			n += len(b.all())
		}
		return n == 2, fmt.Errorf("%d messages", n)
	})
}
