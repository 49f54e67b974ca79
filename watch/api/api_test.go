package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/access"
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
	service := must.Get(watch.New(watch.Config{Plan: plan, Instance: name, Version: "test", LeaseTTL: 10 * time.Minute}, watch.Deps{DB: w.db, Log: log, Sinks: func(string) (watch.Sink, error) { return w.book, nil }}))(t)
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
	if !slices.Equal(state.Owners, []watch.Owner{{Instance: "a", Factory: true, Shards: 3}}) || state.Name != "escrows" || state.Contracts != 3 || !slices.Equal(state.Sinks, []string{"book"}) || state.Factory != watchtest.Emitter(0).Hex() {
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
	if strings.Contains(w.ask("GET", "/metrics").body+w.ask("GET", "/v1/watches").body, "secret-place") {
		t.Error("a sink's place is told")
	}

	// The newest events come newest first, and who reads on from there misses nothing.
	p := w.get("/v1/events?newest=true&limit=2")
	if want := []string{"Approved@4", "Deployed@3"}; !slices.Equal(names(p.Events), want) {
		t.Errorf("%v, want %v", names(p.Events), want)
	}
	w.approve(2)
	w.chain.Commit() // 5
	w.until("the next one", func() (bool, string) {
		next := w.get("/v1/events?cursor=" + p.Cursor)
		return slices.Equal(names(next.Events), []string{"Approved@5"}), fmt.Sprint(names(next.Events))
	})
	two := watchtest.Emitter(2).Hex()
	for filter, want := range map[string]string{
		"address=" + two: "[Approved@5]", "argument=" + strings.ToLower(two): "[Deployed@2]", "argument=" + url.QueryEscape("escrow="+two): "[Deployed@2]",
		"argument=" + url.QueryEscape("amount="+two): "[]", "argument=nobody": "[]", "watch=another": "[]",
	} {
		list, newest := names(w.get("/v1/events?"+filter).Events), names(w.get("/v1/events?newest=true&"+filter).Events)
		if fmt.Sprint(list) != want || fmt.Sprint(newest) != want {
			t.Errorf("%s: %v and %v, want %s", filter, list, newest, want)
		}
	}
	for _, wrong := range []string{"newest=true&cursor=1", "cursor=x"} {
		if a := w.ask("GET", "/v1/events?"+wrong); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", wrong, a.status)
		}
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
	w.book.setFull(false)
	w.until("nothing waits", func() (bool, string) {
		sink = w.get("/v1/sinks").Sinks[0]
		return sink.Backlog == 0 && sink.Failing == 0 && sink.Error == "", fmt.Sprintf("%+v", sink)
	})

	w.book.setFull(true)
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

// read takes events of a stream until there are enough, and calls ready once it is open. It returns them, and the id of the last one.
func (w *world) read(path, last string, count int, ready func()) (events []string, at string, err error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		return nil, "", err
	}
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	for len(events) < count && lines.Scan() {
		ready() // the first line is a greeting
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			at = id
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e watch.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return nil, "", err
			}
			events = append(events, e.Event+" "+string(e.Args))
		}
	}
	return events, at, nil
}

// TestStreamTellsEveryReader has many readers wait for what comes. Each is told of everything, in one order, and who reads on is told of the rest,
// also by the next process; what others have in the outbox of the same database is not theirs.
func TestStreamTellsEveryReader(t *testing.T) {
	const readers, deployments = 20, 3
	w := newWorld(t)
	w.run(approved)
	var opened, done sync.WaitGroup
	got := make([][]string, readers)
	for i := range readers {
		opened.Add(1)
		done.Go(func() {
			ready := sync.OnceFunc(opened.Done)
			defer ready()
			var err error
			if got[i], _, err = w.read("/v1/events/stream?cursor=0", "", deployments, ready); err != nil {
				t.Error(err)
			}
		})
	}
	opened.Wait()
	for n := range deployments {
		must.Do(t, w.db.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Emit(t.Context(), ledger.Event{Topic: "another", Subject: "s", Kind: "k", Body: "{}"})
		}))
		w.deploy(n + 1)
		w.chain.Commit()
	}
	done.Wait()
	for i := range got {
		if len(got[i]) != deployments || !slices.Equal(got[i], got[0]) {
			t.Errorf("reader %d got %v, the first one %v", i, got[i], got[0])
		}
	}
	first, at, err := w.read("/v1/events/stream?cursor=0", "", 1, func() {})
	must.Do(t, err)
	w.stop()
	w.run(approved)
	rest, _, err := w.read("/v1/events/stream", at, deployments-1, func() {})
	if err != nil || !slices.Equal(append(first, rest...), got[0]) {
		t.Errorf("%v, and behind that %v, %v", first, rest, err)
	}
}

// scrape reads the metrics of a process.
func (w *world) scrape(url string) map[string]float64 {
	w.t.Helper()
	answer := must.Get(http.Get(url + "/metrics"))(w.t) //nolint:noctx // the process is stopped before the test ends
	defer func() { _ = answer.Body.Close() }()
	return must.Scrape(w.t, string(must.Get(io.ReadAll(answer.Body))(w.t)))
}

// gate is an endpoint that counts the JSON-RPC calls that it is sent. It hands them to a node, if it has one that it
// answers for.
type gate struct {
	calls atomic.Int64
	deaf  atomic.Bool // it refuses to look for logs
}

func (g *gate) start(t *testing.T, node string) secret.String {
	return secret.String(watchtest.Proxy(t, node, func(c *watchtest.Call) {
		g.calls.Add(1)
		if node == "" || g.deaf.Load() && c.Method == "eth_getLogs" {
			c.Status = http.StatusBadGateway
			return
		}
		c.Ask()
	}))
}

func (b *book) setFull(full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = full
}

// A scraper sees what happened, in every metric that docs/METRICS.md has of the watchers.
func TestEveryMetricTellsWhatHappened(t *testing.T) {
	w := newWorld(t)
	dead, alive := &gate{}, &gate{}
	w.endpoints = []secret.String{dead.start(t, ""), alive.start(t, w.chain.URL)}
	w.run(approved, released)
	var got map[string]float64
	is := func(series string, want float64) {
		t.Helper()
		w.until(fmt.Sprintf("%s is %v", series, want), func() (bool, string) {
			got = w.scrape(w.url)
			return got[series] == want, fmt.Sprint(got[series])
		})
	}
	chain, book := fmt.Sprintf(`{chain="%d"}`, watchtest.ChainID), fmt.Sprintf(`{sink="%s"}`, watch.SinkName("book:secret-place"))
	// Where the head has stood for ten seconds, the blocks that are due count as lag. A slow machine can take that long to look.
	lag := "watch_lag_blocks" + chain
	caughtUp := func() {
		t.Helper()
		newest := time.Now()
		w.until("all blocks are read", func() (bool, string) {
			if time.Since(newest) > 3*time.Second {
				newest = time.Now()
				w.chain.Commit()
			}
			got = w.scrape(w.url)
			return got[lag] == 0, fmt.Sprint(got[lag])
		})
	}

	// Two contracts are announced, and one of them tells something, while the sink takes nothing.
	w.book.setFull(true)
	w.deploy(1)
	w.chain.Commit() // 1
	w.deploy(2)
	w.chain.Commit() // 2
	w.approve(1)
	w.chain.Emit(watchtest.Emitter(1), released, watchtest.Word(watchtest.Emitter(2))) // the amount is missing
	w.chain.Commit()                                                                   // 3
	w.until("the sink refuses", func() (bool, string) {
		return w.scrape(w.url)["watch_sink_failures_total"+book] > 0, ""
	})
	w.book.setFull(false)
	is("relayer_events_published", 4)

	// Two blocks are replaced by three; the event in them is taken back.
	w.release(2)
	w.chain.Commit() // 4
	is("relayer_events_published", 5)
	w.chain.Reorg(1, true)
	is("relayer_events_published", 6)
	is("watch_reorgs_total", 1)

	// Nobody looks for logs while three blocks come.
	caughtUp()
	alive.deaf.Store(true)
	for range 3 {
		w.chain.Commit()
	}
	w.until("three blocks are not read", func() (bool, string) {
		got = w.scrape(w.url)
		return got[lag] >= 3, fmt.Sprint(got[lag])
	})
	alive.deaf.Store(false)
	caughtUp()

	// What stands in the ledger is read again: two contracts that were announced, and the two logs of one of them.
	is("watch_undecoded_total", 1)
	w.noted()
	if a := w.ask("POST", "/v1/watches/escrows/backfill?from=0"); a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	is("event_deduplication_hits", 4)

	is("relayer_escrows_monitored", 2)
	is("total_escrows_registered", 2)
	// What is read ahead and then not needed is given up, perhaps before the endpoint has it.
	const givenUp = 15
	before := float64(dead.calls.Load()) + float64(alive.calls.Load())
	got = w.scrape(w.url)
	calls, after := got["watch_rpc_calls_total"], float64(dead.calls.Load())+float64(alive.calls.Load())
	if before < 5*givenUp || calls < before || calls > after+givenUp {
		t.Errorf("%v calls are counted; the endpoints had %v before and %v after that", calls, before, after)
	}
	if float64(dead.calls.Load()) == 0 {
		t.Error("the dead endpoint was not asked")
	}
	w.book.mu.Lock()
	asked, refused, taken := float64(w.book.asked), float64(w.book.refused), float64(len(w.book.messages))
	w.book.mu.Unlock()
	const some = -1 // any number above zero
	expected := map[string]float64{
		"event_deduplication_hits":         4,
		"leader_election_count":            1,
		"relayer_blocks_processed":         some,
		"relayer_escrows_monitored":        2,
		"relayer_events_published":         taken,
		"relayer_is_leader":                1,
		"relayer_last_heartbeat_age":       some,
		"total_active_instances":           1,
		"total_escrows_registered":         2,
		lag:                                got[lag], // likewise
		"watch_reorgs_total":               1,
		"watch_rpc_calls_total":            some, // it was compared above
		"watch_sink_failures_total" + book: refused,
		"watch_sink_seconds_count" + book:  asked,
		"watch_sink_seconds_sum" + book:    some,
		"watch_undecoded_total":            1,
		"watch_settled_total" + book:       0,
		"watch_repaired_total":             0,
		"watch_plan_current":               1,
		"watch_head_age_seconds" + chain:   some,
		"watch_block_seconds" + chain:      some,
		"watch_doubts_total" + chain:       0,
		fmt.Sprintf(`watch_endpoint_up{chain="%d",endpoint="1"}`, watchtest.ChainID): 0,
		fmt.Sprintf(`watch_endpoint_up{chain="%d",endpoint="2"}`, watchtest.ChainID): 1,
	}
	for series, want := range expected {
		if value, ok := got[series]; !ok || value != want && (want != some || value <= 0) {
			t.Errorf("%s is %v (%v), want %v", series, value, ok, want)
		}
	}
	if head, err := w.chain.Client().BlockNumber(t.Context()); err != nil || got["relayer_blocks_processed"] < float64(head) {
		t.Errorf("%v blocks were read, and the chain has %d: %v", got["relayer_blocks_processed"], head, err)
	}
	for _, series := range slices.Sorted(maps.Keys(got)) {
		if _, ok := expected[series]; !ok {
			t.Errorf("nothing is expected of %s", series)
		}
	}
	for metric, labels := range documented(t) {
		first, _, _ := strings.Cut(labels, ",")
		if !slices.ContainsFunc(slices.Collect(maps.Keys(expected)), func(series string) bool {
			name, rest, _ := strings.Cut(series, "{")
			return (name == metric || name == metric+"_count") && (labels == "" || strings.HasPrefix(rest, first+"="))
		}) {
			t.Errorf("nothing is expected of %s", metric)
		}
	}

	// Another process comes, and goes. The two divide the contracts, and one of them owns the factory.
	second, stop := w.process("b", approved, released)
	w.until("the contracts are divided", func() (bool, string) {
		a, b := w.scrape(w.url), w.scrape(second)
		for series, want := range map[string]float64{"relayer_escrows_monitored": 2, "relayer_is_leader": 1, "total_active_instances": 4, "total_escrows_registered": 4} {
			if a[series]+b[series] != want {
				return false, fmt.Sprint(series, a[series], b[series])
			}
		}
		return true, ""
	})
	stop()
	is("total_active_instances", 1)
	is("relayer_is_leader", 1)
}

// documented reads the metrics of the watchers and their labels in docs/METRICS.md.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/METRICS.md"))(t)
	_, part, _ := strings.Cut(string(text), "\n## The watchers\n")
	part, _, _ = strings.Cut(part, "\n## ")
	found := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(part, -1) {
		found[row[1]] = strings.TrimSpace(row[2])
	}
	if len(found) < 15 {
		t.Fatalf("docs/METRICS.md has %d metrics of the watchers", len(found))
	}
	return found
}
