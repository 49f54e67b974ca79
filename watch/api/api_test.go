package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/access"
	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/watch"
	"lockstep/watch/api"
	"lockstep/watch/decode"
	"lockstep/watch/watchtest"
)

const (
	deployed = "Deployed(address,uint256)"
	approved = "Approved(address)"
	released = "Released(address,uint256)"
)

// book is a sink that remembers. While it is full it takes nothing.
type book struct {
	mu             sync.Mutex
	messages       []watch.Message
	full           bool
	asked, refused int // batches
}

func (b *book) Publish(_ context.Context, batch []watch.Message) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.full {
		b.refused++
		return slices.Repeat([]error{errors.New("the book is full")}, len(batch))
	}
	b.messages = append(b.messages, batch...)
	return make([]error, len(batch))
}

func (b *book) Close() {}

func (b *book) all() []watch.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.messages)
}

// world is a process of watchers with its listener, and a chain.
type world struct {
	t     *testing.T
	chain *watchtest.Chain
	db    *ledger.DB
	keys  *access.Keys
	book  *book
	url   string
	stop  func()

	endpoints []secret.String // of the chain; the first process begins with the first of them
}

func signature(t *testing.T, text string) *decode.Signature {
	t.Helper()
	return must.Get(decode.Parse(text))(t)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := ledgertest.Open(t, watch.Schema, access.Schema)
	chain := watchtest.New(t, 4)
	return &world{t: t, chain: chain, db: db, keys: access.New(db, "", ""), book: &book{}, endpoints: []secret.String{secret.String(chain.URL)}}
}

// run starts the process. Emitter 0 is the factory.
func (w *world) run(events ...string) { w.url, w.stop = w.process("a", events...) }

// process starts a process of the fleet, and returns where its listener is.
func (w *world) process(name string, events ...string) (url string, stop func()) {
	w.t.Helper()
	t := w.t
	plan := watch.Plan{
		Chains: []watch.Chain{{ID: watchtest.ChainID, URLs: w.endpoints, Finality: 2, MaxSpan: 3, Dev: new(bool)}},
		Watches: []watch.Watch{{
			Name: "escrows", Chain: watchtest.ChainID, Sinks: []string{"book:secret-place"},
			Factory: &watch.Factory{Address: watchtest.Emitter(0), Event: signature(t, "Deployed(address indexed escrow, uint256 amount)"), Child: "escrow"},
			Fields:  []watch.Field{{Name: "amount", Event: "Deployed", Arg: "amount"}},
			Status:  watch.Status{Initial: "active", On: map[string]string{}},
		}},
	}
	for _, e := range events {
		plan.Watches[0].Events = append(plan.Watches[0].Events, signature(t, e))
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	// However slow the machine is, the process keeps its units: it reads each block once, and hands each message on once.
	service := must.Get(watch.New(watch.Config{Plan: plan, Instance: name, Version: "test", Lease: lease.Options{TTL: 10 * time.Minute}}, watch.Deps{DB: w.db, Log: log, Sinks: func(string) (watch.Sink, error) { return w.book, nil }}))(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(service.Collectors()...)
	surface := api.New(api.Deps{Watchers: service, Keys: w.keys, Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), Version: "test", Log: log})
	must.Do(t, surface.Listen(t.Context(), "127.0.0.1:0", false))
	return "http://" + surface.Addr(), must.Run(t, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return service.Run(ctx) })
		group.Go(func() error { return surface.Run(ctx) })
		return group.Wait()
	})
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) ask(method, path string, header ...string) answer {
	w.t.Helper()
	request := must.Get(http.NewRequestWithContext(w.t.Context(), method, w.url+path, nil))(w.t)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
		request.Header.Set(header[i], header[i+1])
	}
	got := must.Get(http.DefaultClient.Do(request))(w.t)
	defer func() { _ = got.Body.Close() }()
	body := must.Get(io.ReadAll(got.Body))(w.t)
	return answer{got.StatusCode, got.Header, string(body)}
}

// page is what any of the lists may have.
type page struct {
	Watches   []watch.State
	Contracts []watch.Followed
	Events    []watch.Told
	Nodes     []watch.Node
	Sinks     []watch.SinkState
	Backfills []watch.Backfill
	Cursor    string
}

func (w *world) get(path string) page {
	w.t.Helper()
	var p page
	a := w.ask("GET", path)
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != http.StatusOK {
		w.t.Fatalf("%s: %d %s", path, a.status, a.body)
	}
	return p
}

func (w *world) until(what string, holds func() (bool, string)) {
	w.t.Helper()
	watchtest.Until(w.t, what, func() (bool, error) {
		ok, text := holds()
		return ok, errors.New(text)
	})
}

// noted waits until the process has noted that the sink has all messages.
func (w *world) noted() {
	w.t.Helper()
	watchtest.Until(w.t, "the sink's position is stored", func() (bool, error) {
		waiting, err := ledgertest.One[int](w.t, w.db, "SELECT COUNT(*) FROM outbox o LEFT JOIN sink_cursors c ON c.unit = o.subject WHERE o.id > COALESCE(c.position, 0)")
		return err == nil && waiting == 0, errors.Join(fmt.Errorf("%d messages", waiting), err)
	})
}

func (w *world) deploy(n int) {
	w.chain.Emit(watchtest.Emitter(0), deployed, watchtest.Word(watchtest.Emitter(n)), watchtest.Number(int64(100*n)))
}

func (w *world) approve(n int) {
	w.chain.Emit(watchtest.Emitter(n), approved, watchtest.Word(common.Address{1}))
}

func (w *world) release(n int) {
	w.chain.Emit(watchtest.Emitter(n), released, watchtest.Word(common.Address{2}), watchtest.Number(5))
}

func names(list []watch.Told) (names []string) {
	for _, m := range list {
		names = append(names, fmt.Sprintf("%s@%d", m.Event.Event, m.BlockNumber))
	}
	return names
}

func TestListsAndPages(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 3; n++ {
		w.deploy(n)
		w.chain.Commit() // 1 to 3
	}
	w.approve(1)
	w.chain.Commit() // 4
	w.run(approved)
	w.until("four events", func() (bool, string) {
		p := w.get("/v1/events")
		return len(p.Events) == 4, fmt.Sprint(names(p.Events))
	})
	w.until("the watch is at the head", func() (bool, string) {
		s := w.get("/v1/watches").Watches[0]
		return s.Block == 4 && s.Head == 4 && s.Lag == 0, fmt.Sprintf("%+v", s)
	})
	state := w.get("/v1/watches").Watches[0]
	if state.Name != "escrows" || state.Contracts != 3 || !slices.Equal(state.Sinks, []string{"book"}) || state.Factory != watchtest.Emitter(0).Hex() {
		t.Errorf("watch %+v", state)
	}

	// Page by page it is the same list.
	var contracts []string
	for cursor := ""; ; {
		p := w.get("/v1/contracts?watch=escrows&limit=1&cursor=" + cursor)
		for _, c := range p.Contracts {
			contracts = append(contracts, c.Address+" "+c.Kind+" "+amount(c))
		}
		if cursor = p.Cursor; cursor == "" || len(contracts) > 10 {
			break
		}
	}
	want := []string{watchtest.Emitter(0).Hex() + " factory "}
	for n := 1; n <= 3; n++ {
		want = append(want, fmt.Sprintf("%s child %d00", watchtest.Emitter(n).Hex(), n))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, contracts); diff != "" {
		t.Error(diff)
	}
	var events []watch.Told
	for cursor := ""; ; {
		p := w.get("/v1/events?limit=1&cursor=" + cursor)
		if len(p.Events) == 0 || len(events) > 10 {
			break
		}
		events, cursor = append(events, p.Events...), p.Cursor
	}
	if diff := cmp.Diff(w.get("/v1/events").Events, events); diff != "" || len(events) != 4 {
		t.Errorf("%d events, %s", len(events), diff)
	}
	if p := w.get("/v1/events?address=" + watchtest.Emitter(1).Hex()); len(p.Events) != 1 || p.Events[0].Event.Event != "Approved" {
		t.Errorf("of one contract: %+v", p.Events)
	}
	if p := w.get("/v1/events?watch=other"); len(p.Events) != 0 {
		t.Errorf("of another watch: %+v", p.Events)
	}
	node := w.get("/v1/nodes").Nodes[0]
	if node.Instance != "a" || node.Status != "active" || !node.Leader {
		t.Errorf("node %+v", node)
	}
	err := w.db.Write(t.Context(), func(tx *ledger.Tx) error { // it owned the factory when it was killed
		_, err := tx.Exec(t.Context(), "INSERT INTO nodes (instance_id, owner, status, partition_number, total_partitions, last_heartbeat, current_block, contracts, leader, version, plan, created_at, updated_at) SELECT 'killed', 'killed/1', status, 0, 1, 1, 1, 1, 1, version, plan, 1, 1 FROM nodes")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	nodes := w.get("/v1/nodes").Nodes
	if len(nodes) != 2 || nodes[1].Instance != "killed" || nodes[1].Status != "dead" || nodes[1].Leader || !nodes[0].Leader {
		t.Errorf("nodes %+v", nodes)
	}
	w.until("readiness", func() (bool, string) {
		a := w.ask("GET", "/health/readiness")
		return a.status == http.StatusOK && strings.Contains(a.body, `"ready":true`), a.body
	})
	var metrics string
	for _, line := range []string{"relayer_events_published 4", "relayer_is_leader 1", "total_active_instances 1", "leader_election_count 1", "event_deduplication_hits 0", fmt.Sprintf("watch_lag_blocks{chain=\"%d\"} 0", watchtest.ChainID)} {
		w.until("a line of the metrics: "+line, func() (bool, string) {
			metrics = w.ask("GET", "/metrics").body
			return strings.Contains(metrics, "\n"+line+"\n"), ""
		})
	}
	if strings.Contains(metrics, "secret-place") || strings.Contains(w.ask("GET", "/v1/watches").body, "secret-place") {
		t.Error("a sink's place is told")
	}
}

func TestStreamResumes(t *testing.T) {
	w := newWorld(t)
	w.deploy(1)
	w.chain.Commit()
	w.run(approved)
	w.until("the first event", func() (bool, string) { return len(w.get("/v1/events").Events) == 1, "" })
	// read takes events of a stream until there are enough.
	read := func(path, last string, count int) (ids, kinds []string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil))(t)
		if last != "" {
			request.Header.Set("Last-Event-ID", last)
		}
		got := must.Get(http.DefaultClient.Do(request))(t)
		defer func() { _ = got.Body.Close() }()
		lines := bufio.NewScanner(got.Body)
		at := ""
		for len(kinds) < count && lines.Scan() {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				at = id
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e watch.Event
				must.Do(t, json.Unmarshal([]byte(data), &e))
				ids, kinds = append(ids, at), append(kinds, e.Event)
			}
		}
		return ids, kinds
	}
	ids, kinds := read("/v1/events/stream?cursor=0", "", 1)
	if !slices.Equal(kinds, []string{"Deployed"}) {
		t.Fatalf("%v", kinds)
	}
	w.approve(1)
	w.chain.Commit()
	more, kinds := read("/v1/events/stream", ids[0], 1)
	if !slices.Equal(kinds, []string{"Approved"}) {
		t.Fatalf("behind the first: %v", kinds)
	}
	w.stop()
	w.run(approved)
	w.approve(1)
	w.chain.Commit()
	if _, kinds := read("/v1/events/stream", more[0], 1); !slices.Equal(kinds, []string{"Approved"}) {
		t.Fatalf("after a restart: %v", kinds)
	}
	if _, kinds := read("/v1/events/stream?cursor=0", "", 3); !slices.Equal(kinds, []string{"Deployed", "Approved", "Approved"}) {
		t.Fatalf("from the beginning: %v", kinds)
	}
}

// A signature that is named later is read from the blocks that were read without it.
func TestBackfill(t *testing.T) {
	w := newWorld(t)
	w.deploy(1)
	w.chain.Commit() // 1
	w.approve(1)
	w.release(1)
	w.chain.Commit() // 2
	for range 6 {
		w.chain.Commit()
	}
	w.run(approved)
	w.until("block 8", func() (bool, string) {
		s := w.get("/v1/watches").Watches[0]
		return s.Block == 8, fmt.Sprintf("%+v", s)
	})
	w.noted() // else the next process hands them on again
	w.stop()
	w.run(approved, released)
	w.until("the event that is new in the plan is looked for by itself", func() (bool, string) {
		list := w.get("/v1/watches/escrows/backfills").Backfills
		return len(list) == 1 && list[0].Done && list[0].Messages == 1, fmt.Sprintf("%+v", list)
	})
	for path, status := range map[string]int{"/v1/watches/other/backfill?from=0": 404, "/v1/watches/escrows/backfill?from=0&to=9": 422, "/v1/watches/escrows/backfill?from=5&to=4": 422, "/v1/watches/escrows/backfill": 422} {
		if a := w.ask("POST", path); a.status != status || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	fill := func(path string, messages int64) {
		t.Helper()
		a, to := w.ask("POST", path), uint64(8)
		if strings.HasSuffix(path, "&to=0") { // block 0, and not all
			to = 0
		}
		var b watch.Backfill
		if err := json.Unmarshal([]byte(a.body), &b); err != nil || a.status != http.StatusAccepted || b.Units != 2 || b.To != to {
			t.Fatalf("%d %s", a.status, a.body)
		}
		w.until("the backfill is done", func() (bool, string) {
			list := w.get("/v1/watches/escrows/backfills").Backfills
			at := slices.IndexFunc(list, func(x watch.Backfill) bool { return x.ID == b.ID })
			return list[at].Done && list[at].Messages == messages, fmt.Sprintf("%+v", list)
		})
	}
	fill("/v1/watches/escrows/backfill?from=0&to=0", 0)
	fill("/v1/watches/escrows/backfill?from=0", 0) // it stands in the ledger by now
	fill("/v1/watches/escrows/backfill?from=0&repeat=true&act=true", 3)
	w.until("six messages", func() (bool, string) { return len(w.book.all()) == 6, fmt.Sprint(len(w.book.all())) })
	w.until("the events that were read again are counted", func() (bool, string) { // 2, 3 and 3
		metrics := w.ask("GET", "/metrics").body
		return strings.Contains(metrics, "\nevent_deduplication_hits 8\n"), metrics
	})
	seqs, deliveries := map[string]int64{}, map[string]int{}
	for i, m := range w.book.all() {
		if seqs[m.Address]++; m.Seq != seqs[m.Address] {
			t.Errorf("%s: message %d where %d is next", m.Address, m.Seq, seqs[m.Address])
		}
		deliveries[m.Delivery]++
		if marked := m.Backfill != nil; marked != (i >= 2) || marked && m.Backfill.Act != (i >= 3) {
			t.Errorf("message %d has the mark %+v", i, m.Backfill)
		}
	}
	if len(deliveries) != 3 {
		t.Errorf("deliveries %v", deliveries)
	}
}

// A sink that takes nothing is seen: since when, why, and how much waits for it. Why is for administrators.
func TestSinks(t *testing.T) {
	w := newWorld(t)
	w.book.full = true
	w.deploy(1)
	w.chain.Commit()
	w.approve(1)
	w.chain.Commit()
	w.run(approved)
	var sink watch.SinkState
	w.until("two messages wait", func() (bool, string) {
		sinks := w.get("/v1/sinks").Sinks
		sink = sinks[0]
		return len(sinks) == 1 && sink.Backlog == 2 && sink.Failing > 0, fmt.Sprintf("%+v", sinks)
	})
	if sink.Kind != "book" || sink.Error != "the book is full" || sink.Oldest == 0 || !slices.Equal(sink.Watches, []string{"escrows"}) || strings.Contains(sink.Sink, "secret-place") {
		t.Errorf("sink %+v", sink)
	}
	w.book.mu.Lock()
	w.book.full = false
	w.book.mu.Unlock()
	w.until("nothing waits", func() (bool, string) {
		sink = w.get("/v1/sinks").Sinks[0]
		return sink.Backlog == 0 && sink.Failing == 0 && sink.Error == "", fmt.Sprintf("%+v", sink)
	})

	w.book.mu.Lock()
	w.book.full = true
	w.book.mu.Unlock()
	w.approve(1)
	w.chain.Commit()
	w.until("it is full again", func() (bool, string) {
		sink = w.get("/v1/sinks").Sinks[0]
		return sink.Error != "", fmt.Sprintf("%+v", sink)
	})
	if _, _, err := w.keys.Create(t.Context(), "", access.RoleAdmin, ""); err != nil {
		t.Fatal(err)
	}
	_, reader := must.Get2(w.keys.Create(t.Context(), "", access.RoleRead, ""))(t)
	if a := w.ask("GET", "/v1/sinks", "Authorization", "Bearer "+reader.Reveal()); a.status != http.StatusOK || strings.Contains(a.body, "full") || !strings.Contains(a.body, "failingSince") {
		t.Errorf("a reader sees %s", a.body)
	}
}

// The newest events come newest first, and who reads on from there misses nothing.
func TestNewest(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 3; n++ {
		w.deploy(n)
		w.chain.Commit()
	}
	w.run(approved)
	w.until("three events", func() (bool, string) {
		p := w.get("/v1/events?newest=true")
		return len(p.Events) == 3, fmt.Sprint(names(p.Events))
	})
	p := w.get("/v1/events?newest=true&limit=2")
	if want := []string{"Deployed@3", "Deployed@2"}; !slices.Equal(names(p.Events), want) {
		t.Errorf("%v, want %v", names(p.Events), want)
	}
	w.approve(2)
	w.chain.Commit()
	w.until("the next one", func() (bool, string) {
		next := w.get("/v1/events?cursor=" + p.Cursor)
		return slices.Equal(names(next.Events), []string{"Approved@4"}), fmt.Sprint(names(next.Events))
	})
	if got := names(w.get("/v1/events?newest=true&address=" + watchtest.Emitter(2).Hex()).Events); !slices.Equal(got, []string{"Approved@4", "Deployed@2"}) && !slices.Equal(got, []string{"Approved@4"}) {
		t.Errorf("of one contract: %v", got)
	}
	for argument, want := range map[string]int{
		strings.ToLower(watchtest.Emitter(2).Hex()): 1, "escrow=" + watchtest.Emitter(2).Hex(): 1, "amount=" + watchtest.Emitter(2).Hex(): 0, "nobody": 0,
	} {
		list := w.get("/v1/events?argument=" + url.QueryEscape(argument)).Events
		newest := w.get("/v1/events?newest=true&argument=" + url.QueryEscape(argument)).Events
		if len(list) != want || len(newest) != want {
			t.Errorf("%s: %d and %d events, want %d", argument, len(list), len(newest), want)
		}
	}
	if got := w.get("/v1/events?newest=true&watch=another").Events; len(got) != 0 {
		t.Errorf("of another watch: %v", names(got))
	}
	if a := w.ask("GET", "/v1/events?newest=true&cursor=1"); a.status != http.StatusUnprocessableEntity {
		t.Errorf("newest behind a cursor: %d", a.status)
	}
}

// A watch names who reads it.
func TestOwners(t *testing.T) {
	w := newWorld(t)
	w.deploy(1)
	w.chain.Commit()
	w.run(approved)
	want := []watch.Owner{{Instance: "a", Factory: true, Shards: 1}}
	w.until("one process has all", func() (bool, string) {
		got := w.get("/v1/watches").Watches[0].Owners
		return slices.Equal(got, want), fmt.Sprintf("%+v", got)
	})
}

// every is one request for each operation, with the role it wants.
var every = []struct {
	role         access.Role
	method, path string
}{
	{access.RoleRead, "GET", "/v1/watches"},
	{access.RoleRead, "GET", "/v1/contracts"},
	{access.RoleRead, "GET", "/v1/events"},
	{access.RoleRead, "GET", "/v1/events/stream?cursor=x"},
	{access.RoleRead, "GET", "/v1/nodes"},
	{access.RoleRead, "GET", "/v1/sinks"},
	{access.RoleAdmin, "POST", "/v1/watches/x/backfill?from=0"},
	{access.RoleRead, "GET", "/v1/watches/x/backfills"},
	{access.RoleRead, "GET", "/metrics"},
}

func TestRoles(t *testing.T) {
	w := newWorld(t)
	_, admin := must.Get2(w.keys.Create(t.Context(), "", access.RoleAdmin, ""))(t)
	tokens := map[access.Role]string{access.RoleAdmin: admin.Reveal()}
	for _, role := range []access.Role{access.RoleRead, access.RoleSend} {
		_, token := must.Get2(w.keys.Create(t.Context(), "", role, ""))(t)
		tokens[role] = token.Reveal()
	}
	_, tenants := must.Get2(w.keys.Create(t.Context(), "acme", access.RoleAdmin, ""))(t)
	w.run(approved)
	paths := map[string]bool{}
	for _, op := range every {
		for name, header := range map[string]string{"nobody": "", "a stranger": "Bearer lsk_x", "basic": "Basic Y29yZTp4"} {
			if a := w.ask(op.method, op.path, "Authorization", header); a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s by %s: %d", op.method, op.path, name, a.status)
			}
		}
		if a := w.ask(op.method, op.path, "Authorization", "Bearer "+tenants.Reveal()); a.status != http.StatusForbidden {
			t.Errorf("%s %s by a tenant: %d", op.method, op.path, a.status)
		}
		for role, token := range tokens {
			a := w.ask(op.method, op.path, "Authorization", "Bearer "+token)
			if refused := a.status == http.StatusForbidden; refused == role.Includes(op.role) || a.status == http.StatusUnauthorized || a.status >= 500 {
				t.Errorf("%s %s by %s: %d %s", op.method, op.path, role, a.status, a.body)
			}
		}
		path, _, _ := strings.Cut(op.path, "?")
		paths[strings.ReplaceAll(path, "/x/", "/{id}/")] = true
	}
	var document struct {
		OpenAPI string
		Paths   map[string]any
	}
	if err := json.Unmarshal([]byte(w.ask("GET", "/openapi.json", "Authorization", "Bearer "+tokens[access.RoleRead]).body), &document); err != nil || !strings.HasPrefix(document.OpenAPI, "3.1") {
		t.Fatal(document.OpenAPI, err)
	}
	for path := range document.Paths {
		if !paths[path] {
			t.Errorf("the table of this test has no %s", path)
		}
	}
	if a := w.ask("GET", "/health/liveness"); a.status != http.StatusOK {
		t.Errorf("liveness: %d", a.status)
	}
}

// A database that does not answer is a reason, and nothing but its name is told.
func TestNotReadyWithReasons(t *testing.T) {
	w := newWorld(t)
	w.run(approved)
	w.until("ready", func() (bool, string) {
		a := w.ask("GET", "/health/readiness")
		return a.status == http.StatusOK, a.body
	})
	w.stop()
	surface := api.New(api.Deps{Watchers: stranded(t), Keys: w.keys, Log: slog.New(slog.DiscardHandler)})
	must.Do(t, surface.Listen(t.Context(), "127.0.0.1:0", false))
	w.url = "http://" + surface.Addr()
	must.Run(t, surface.Run)
	a := w.ask("GET", "/health/readiness")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "the database does not answer") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := w.ask("GET", "/v1/nodes"); a.status < http.StatusInternalServerError || strings.Contains(a.body, "closed") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// stranded is a process whose database is gone.
func stranded(t *testing.T) *watch.Service {
	t.Helper()
	db := must.Get(ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "gone.db")))(t)
	plan := watch.Plan{
		Chains:  []watch.Chain{{ID: 1, URLs: []secret.String{"http://127.0.0.1:1"}}},
		Watches: []watch.Watch{{Name: "w", Chain: 1, Addresses: []common.Address{{1}}, Events: []*decode.Signature{signature(t, approved)}}},
	}
	service := must.Get(watch.New(watch.Config{Plan: plan, Instance: "s"}, watch.Deps{DB: db, Log: slog.New(slog.DiscardHandler)}))(t)
	must.Do(t, db.Close())
	return service
}

// amount is a contract's field, "" for none.
func amount(c watch.Followed) string {
	if text := c.Fields["amount"]; text != nil {
		return *text
	}
	return ""
}
