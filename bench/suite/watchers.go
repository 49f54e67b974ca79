package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
	"lockstep/watch"
)

// What the rows of watchers are about.
const (
	followed      = 10_000 // contracts of the row of calls
	callBlocks    = 30
	catchUpBlocks = 3000
	catchUpEach   = 100 // events of each of those blocks
	perBlock      = 200 // events a second, in the row of latency
	latencyBlocks = 40
	eventStream   = "events"
)

// watchers is a fleet of `lockstep watch` on an eventChain.
type watchers struct {
	l        *lab
	chain    *eventChain
	database string
	file     string
	members  map[string]*process
	ports    map[string]string
	db       *ledger.DB // opened when it is needed first
}

// watchers prepares a fleet and starts none. Sink and endpoint are as in watch.yaml; an empty sink is none.
func (l *lab) watchers(chain *eventChain, database, sink string, urls ...string) (*watchers, error) {
	l.started++
	w := &watchers{l: l, chain: chain, database: database, file: filepath.Join(l.dir, fmt.Sprintf("%03d-watch.yaml", l.started)), members: map[string]*process{}, ports: map[string]string{}}
	sinks := "[]"
	if sink != "" {
		sinks = fmt.Sprintf("[%q]", sink)
	}
	text := fmt.Sprintf(`
chains:
  - {id: %d, urls: [%s], finality: 64}
watches:
  - name: bench
    chain: %d
    factory: {address: %q, event: %q, child: child}
    events: [%q]
    sinks: %s
`, eventsChain, strings.Join(urls, ", "), eventsChain, eventFactory.Hex(), madeEvent, paidEvent, sinks)
	return w, os.WriteFile(w.file, []byte(text), 0o600)
}

// start starts a process and waits until its listener answers.
func (w *watchers) start(ctx context.Context, name string) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	p, err := w.l.start("watch-"+name, append([]string{
		"DATABASE_URL=" + w.database, "WATCH_FILE=" + w.file, "INSTANCE_ID=" + name, "WATCH_LOOPBACK_TOKEN=false", "WATCH_ADDRESS=127.0.0.1:" + port, "PRETTY_LOGS_ENABLED=false",
	}, w.l.settings...), w.l.program, "watch")
	if err != nil {
		return err
	}
	w.members[name], w.ports[name] = p, port
	return poll(ctx, startLimit, 10*time.Millisecond, func() error {
		if !p.alive() {
			return &fatal{fmt.Errorf("%s ended:\n%s", name, p.tail())}
		}
		_, err := w.state(ctx, name)
		return err
	})
}

func (w *watchers) close() {
	for _, p := range w.members {
		p.kill()
	}
	if w.db != nil {
		_ = w.db.Close() // it was read only
	}
}

// state is how far the watch is, as a process tells.
func (w *watchers) state(ctx context.Context, name string) (watch.State, error) {
	var text string
	var body struct{ Watches []watch.State }
	if err := request(ctx, http.MethodGet, "http://127.0.0.1:"+w.ports[name]+"/v1/watches", "", &text); err != nil {
		return watch.State{}, err
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil || len(body.Watches) != 1 {
		return watch.State{}, fmt.Errorf("%s: %w", text, err)
	}
	return body.Watches[0], nil
}

// caughtUp waits until everything up to the chain's newest block was read.
func (w *watchers) caughtUp(ctx context.Context, name string, limit time.Duration) error {
	head, _ := w.chain.head()
	return poll(ctx, limit, 200*time.Millisecond, func() error {
		s, err := w.state(ctx, name)
		if err == nil && s.Block < head.number {
			err = fmt.Errorf("block %d of %d", s.Block, head.number)
		}
		return err
	})
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// family makes the factory announce children 1 to n, with a maximum of 500 in a block.
func (c *eventChain) family(n int) {
	for from := 1; from <= n; from += 500 {
		var logs []eventLog
		for i := from; i <= min(n, from+499); i++ {
			logs = append(logs, made(i))
		}
		c.block(logs...)
	}
}

// watchCalls counts what three processes ask while they follow 10,000 contracts.
func watchCalls(ctx context.Context, l *lab, t *table, runs int) error {
	t.want("calls per block, all processes", "", never(20, "20"), "30,001 (by arithmetic: one call per contract and event)")
	t.want("events that are missing", "", always(0, "0"), "")
	for range runs {
		if err := watchCallsOnce(ctx, l, t); err != nil {
			return err
		}
	}
	t.note(fmt.Sprintf("%d contracts, 3 processes on PostgreSQL, %d blocks a second apart with 20 events each; items of a batch count.", followed, callBlocks))
	return nil
}

func watchCallsOnce(ctx context.Context, l *lab, t *table) error {
	chain, err := newEventChain(ctx)
	if err != nil {
		return err
	}
	defer chain.close()
	pg, err := l.postgresServer(ctx)
	if err != nil {
		return err
	}
	defer pg.close()
	w, err := l.watchers(chain, pg.url, "", chain.url)
	if err != nil {
		return err
	}
	defer w.close()
	chain.family(followed)
	for _, name := range []string{"a", "b", "c"} {
		if err := w.start(ctx, name); err != nil {
			return err
		}
	}
	if err := w.caughtUp(ctx, "a", 2*time.Minute); err != nil {
		return err
	}
	before := chain.calls.Load()
	for n := range callBlocks {
		var logs []eventLog
		for i := range 20 {
			logs = append(logs, paid(1+(n*997+i*499)%followed, n))
		}
		chain.block(logs...)
		sleep.For(ctx, time.Second)
	}
	if err := w.caughtUp(ctx, "a", time.Minute); err != nil {
		return err
	}
	t.ours("calls per block, all processes", "", float64(chain.calls.Load()-before)/callBlocks)
	stored, err := w.stored(ctx)
	t.ours("events that are missing", "", float64(chain.logs-stored))
	return err
}

// stored counts the events in the ledger.
func (w *watchers) stored(ctx context.Context) (n int, err error) {
	err = w.ledger(ctx, func(tx *ledger.Tx) error {
		_, err := tx.One(ctx, "SELECT COUNT(*) FROM processed_events", nil, &n)
		return err
	})
	return n, err
}

// ledger reads what the processes have written.
func (w *watchers) ledger(ctx context.Context, read func(*ledger.Tx) error) error {
	if w.db == nil {
		db, err := ledger.Open(ctx, w.database)
		if err != nil {
			return err
		}
		w.db = db
	}
	return w.db.Read(ctx, read)
}

// watchCatchUp has one process read a long past.
func watchCatchUp(ctx context.Context, l *lab, t *table, runs int) error {
	t.want("into SQLite", "events/s", atLeast(20_000, "20,000"), "ponder, envio: 5,000–10,000 (published)")
	for range runs {
		if err := watchCatchUpOnce(ctx, l, t); err != nil {
			return err
		}
	}
	t.note(fmt.Sprintf("%d events in %d blocks, 1,000 contracts of a factory, from the start of the process; each event has its row, decoded, and its message in the outbox.", catchUpBlocks*catchUpEach, catchUpBlocks))
	return nil
}

func watchCatchUpOnce(ctx context.Context, l *lab, t *table) error {
	chain, err := newEventChain(ctx)
	if err != nil {
		return err
	}
	defer chain.close()
	chain.family(1000)
	for n := range catchUpBlocks {
		var logs []eventLog
		for i := range catchUpEach {
			logs = append(logs, paid(1+(n*31+i*7)%1000, n))
		}
		chain.block(logs...)
	}
	dir, err := os.MkdirTemp(l.dir, "sqlite-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	w, err := l.watchers(chain, "sqlite:"+filepath.Join(dir, "watch.db"), "", chain.url)
	if err != nil {
		return err
	}
	defer w.close()
	began := time.Now()
	if err := w.start(ctx, "a"); err != nil {
		return err
	}
	if err := w.caughtUp(ctx, "a", 5*time.Minute); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	if stored, err := w.stored(ctx); err != nil || stored != chain.logs {
		return fmt.Errorf("%d of %d events are stored: %w", stored, chain.logs, err)
	}
	t.ours("into SQLite", "events/s", float64(chain.logs)/took)
	t.ours("CPU of the process", "µs/event", w.members["a"].cpu()*1e6/float64(chain.logs))
	return nil
}

// watchLatency measures from a block that can be seen to its events in a Redis stream.
func watchLatency(ctx context.Context, l *lab, t *table, runs int) error {
	for _, how := range []string{"asking", "subscribed"} {
		t.want(how+", p50", "ms", atMost(50, "50"), "")
		t.want(how+", p99", "ms", atMost(250, "250"), "")
	}
	for range runs {
		for _, how := range []string{"asking", "subscribed"} {
			if err := watchLatencyOnce(ctx, l, t, how); err != nil {
				return err
			}
		}
	}
	t.note(fmt.Sprintf("%d blocks a second apart with %d events of 100 contracts each, one process on SQLite, a Redis stream; the endpoint answers without delay. subscribed: the endpoint is a WebSocket and tells of new heads.", latencyBlocks, perBlock))
	return nil
}

func watchLatencyOnce(ctx context.Context, l *lab, t *table, how string) error {
	chain, err := newEventChain(ctx)
	if err != nil {
		return err
	}
	defer chain.close()
	server, err := l.redis(ctx)
	if err != nil {
		return err
	}
	defer server.close()
	dir, err := os.MkdirTemp(l.dir, "sqlite-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	url := chain.url
	if how == "subscribed" {
		url = chain.ws
	}
	w, err := l.watchers(chain, "sqlite:"+filepath.Join(dir, "watch.db"), server.url()+"/"+eventStream, url)
	if err != nil {
		return err
	}
	defer w.close()
	chain.family(100)
	if err := w.start(ctx, "a"); err != nil {
		return err
	}
	if err := w.caughtUp(ctx, "a", time.Minute); err != nil {
		return err
	}
	const warm = 5 // blocks until the process knows how often there is one
	b := readBook(ctx, server)
	defer b.stop()
	visible := map[uint64]time.Time{}
	var last uint64
	for n := range warm + latencyBlocks {
		var logs []eventLog
		for i := range perBlock {
			logs = append(logs, paid(1+i%100, n))
		}
		made := chain.block(logs...)
		if last = made.number; n >= warm {
			visible[made.number] = made.visible
		}
		sleep.For(ctx, time.Second)
	}
	if err := b.until(ctx, chain.logs, time.Minute); err != nil {
		return err
	}
	var delays []float64
	for _, a := range b.all() {
		if since, measured := visible[a.event.BlockNumber]; measured {
			delays = append(delays, float64(a.at.Sub(since).Microseconds())/1000)
		}
	}
	slices.Sort(delays)
	if len(delays) != latencyBlocks*perBlock {
		return fmt.Errorf("%d of %d events, the last block is %d", len(delays), latencyBlocks*perBlock, last)
	}
	t.ours(how+", p50", "ms", delays[len(delays)/2])
	t.ours(how+", p99", "ms", delays[len(delays)*99/100])
	return nil
}

// handed is an event that came out of a sink.
type handed struct {
	event watch.Event
	at    time.Time
}

// eventBook reads a Redis stream as it grows.
type eventBook struct {
	stop context.CancelFunc

	mu   sync.Mutex
	list []handed
	err  error
}

func readBook(ctx context.Context, server *redisServer) *eventBook {
	ctx, stop := context.WithCancel(ctx)
	b := &eventBook{stop: stop}
	go func() {
		last := "0"
		for ctx.Err() == nil {
			streams, err := server.admin.XRead(ctx, &redis.XReadArgs{Streams: []string{eventStream, last}, Count: 1000, Block: time.Second}).Result()
			at := time.Now()
			b.mu.Lock()
			if err != nil && !errors.Is(err, redis.Nil) {
				b.err = err
			}
			for _, s := range streams {
				for _, m := range s.Messages {
					last = m.ID
					var e watch.Event
					text, _ := m.Values["event"].(string) // "" is no JSON
					b.err = errors.Join(b.err, json.Unmarshal([]byte(text), &e))
					b.list = append(b.list, handed{e, at})
				}
			}
			broken := b.err != nil
			b.mu.Unlock()
			if broken {
				return
			}
		}
	}()
	return b
}

func (b *eventBook) all() []handed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.list)
}

// until waits for a number of different events.
func (b *eventBook) until(ctx context.Context, n int, limit time.Duration) error {
	return poll(ctx, limit, 50*time.Millisecond, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.err != nil {
			return &fatal{b.err}
		}
		seen := map[string]bool{}
		for _, a := range b.list {
			seen[a.event.Delivery] = true
		}
		if len(seen) < n {
			return fmt.Errorf("%d of %d events were handed on", len(seen), n)
		}
		return nil
	})
}

// disorder counts events that came before an earlier one of their contract; repetitions do not count.
func (b *eventBook) disorder() (n int) {
	seen, seqs := map[string]bool{}, map[string]int64{}
	for _, a := range b.all() {
		if seen[a.event.Delivery] {
			continue
		}
		seen[a.event.Delivery] = true
		if a.event.Seq != seqs[a.event.Address]+1 {
			n++
		}
		seqs[a.event.Address] = a.event.Seq
	}
	return n
}

// id is the name that older consumers know an event by.
func (b *eventBlock) id(log int) string {
	var l struct {
		Hash string `json:"transactionHash"`
	}
	_ = json.Unmarshal(b.logs[log].text, &l) // our own
	return l.Hash + ":" + strconv.Itoa(log)
}
