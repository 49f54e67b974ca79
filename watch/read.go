package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
	"lockstep/watch/decode"
	"lockstep/watch/source"
)

// Errors of readers.
var (
	ErrNotFound = errors.New("there is no such watch")
	ErrCursor   = errors.New("this is no cursor that an answer of this listener had")
)

// State is how far a watch is.
type State struct {
	Name      string   `json:"name"`
	Chain     uint64   `json:"chain"`
	Start     uint64   `json:"start" doc:"First block."`
	End       *uint64  `json:"end,omitempty" doc:"Last block; none: the watch goes on."`
	Blocks    float64  `json:"blocksPerSecond" doc:"Blocks read a second since this process was last asked, a minute at the most; 0 when it is asked for the first time."`
	Found     float64  `json:"eventsPerSecond" doc:"Events handed on a second, likewise."`
	Left      int64    `json:"eta,omitempty" doc:"Seconds until it has caught up, at that speed; none while it has."`
	Done      bool     `json:"done" doc:"All up to its last block is read, and cannot be replaced any more."`
	Depth     string   `json:"depth" doc:"How far below the head an event is handed on: a number of blocks, or finalized."`
	Factory   string   `json:"factory,omitempty"`
	Events    []string `json:"events"`
	Sinks     []string `json:"sinks" doc:"Their kinds; where they are may be a secret."`
	Contracts int64    `json:"contracts" doc:"Those that are followed, the factory not counted."`
	Block     uint64   `json:"block" doc:"Highest block up to which all its contracts are read."`
	Head      uint64   `json:"head" doc:"The chain's newest block that any endpoint has shown to the fleet."`
	Safe      uint64   `json:"safe" doc:"Highest block that cannot be replaced any more."`
	Lag       uint64   `json:"lag" doc:"Blocks between head and block."`
	Owners    []Owner  `json:"owners" doc:"The processes that read its contracts."`
}

// Owner is a process that owns units of a watch.
type Owner struct {
	Instance string `json:"instance" doc:"None: nobody has them yet."`
	Factory  bool   `json:"factory,omitempty" doc:"It reads the factory."`
	Shards   int64  `json:"shards" doc:"Shards in which the watch has contracts."`
}

// Followed is a contract that a watch follows.
type Followed struct {
	Watch      string             `json:"watch"`
	Chain      uint64             `json:"chain"`
	Address    string             `json:"address"`
	Kind       string             `json:"kind" enum:"factory,given,child"`
	Status     string             `json:"status"`
	Fields     map[string]*string `json:"fields"`
	Discovered uint64             `json:"discoveredBlock"`
	Block      uint64             `json:"lastMonitoredBlock"`
	Unit       string             `json:"unit"`
	Messages   int64              `json:"messages" doc:"seq of its last message."`
}

// Node is a process of the fleet.
type Node struct {
	Instance   string `json:"instance"`
	Status     string `json:"status" enum:"active,stopping,dead"`
	Partition  int64  `json:"partition"`
	Partitions int64  `json:"partitions"`
	Heartbeat  int64  `json:"lastHeartbeat" doc:"Microseconds since 1970, by the database's clock."`
	Age        int64  `json:"heartbeatAge" doc:"Seconds since then."`
	Block      uint64 `json:"currentBlock"`
	Contracts  int64  `json:"contracts"`
	Leader     bool   `json:"leader" doc:"It owns a factory."`
	Version    string `json:"version"`
}

// States returns how far the watches of this process's plan are.
func (s *Service) States(ctx context.Context) ([]State, error) {
	list := make([]State, len(s.cfg.Plan.Watches))
	err := s.db.Read(ctx, func(tx *ledger.Tx) error {
		for i := range s.cfg.Plan.Watches {
			w := &s.cfg.Plan.Watches[i]
			st := State{Name: w.Name, Chain: w.Chain, Start: s.startOf(w), End: w.End, Depth: w.Depth.String(), Events: []string{}, Sinks: []string{}}
			if w.Factory != nil {
				st.Factory = addressText(w.Factory.Address)
				st.Events = append(st.Events, w.Factory.Event.String())
			}
			for _, e := range w.Events {
				st.Events = append(st.Events, e.String())
			}
			for _, t := range w.Transactions {
				st.Events = append(st.Events, t.String())
			}
			for _, spec := range w.Sinks {
				st.Sinks = append(st.Sinks, sinkKind(spec))
			}
			var next uint64
			var handed int64
			if _, err := tx.One(ctx, "SELECT CASE WHEN best > head THEN best ELSE head END, safe FROM watch_chains WHERE chain = $1", []any{int64(w.Chain)}, &st.Head, &st.Safe); err != nil {
				return err
			}
			_, err := tx.One(ctx, `SELECT COALESCE(SUM(CASE WHEN c.kind <> 'factory' THEN 1 ELSE 0 END), 0), COALESCE(MIN(CASE WHEN c.merged = 1 THEN u.next_block ELSE c.next_block END), 0), COALESCE(SUM(c.seq), 0)
				FROM contracts c JOIN cursors u ON u.unit = c.unit WHERE c.watch = $1 AND c.removed = 0`, []any{w.Name}, &st.Contracts, &next, &handed)
			if err != nil {
				return err
			}
			st.Block = max(next, 1) - 1
			goal := st.Head
			if w.End != nil {
				goal = min(goal, *w.End)
			}
			st.Lag = goal - min(goal, st.Block)
			is := stand{time.Now(), next, handed}
			blocks, events, left := is.speed(s.speeds.of(w.Name, is), st.Lag)
			st.Blocks, st.Found = math.Round(10*blocks)/10, math.Round(10*events)/10
			if st.Lag >= behind {
				st.Left = int64(math.Ceil(left.Seconds()))
			}
			st.Done = w.over(next) && st.Safe >= *w.End
			if st.Owners, err = ownersOf(ctx, tx, w.Name); err != nil {
				return err
			}
			list[i] = st
		}
		return nil
	})
	return list, err
}

// ownersOf returns the processes that own units of a watch, sorted.
func ownersOf(ctx context.Context, tx *ledger.Tx, watch string) ([]Owner, error) {
	list := []Owner{}
	err := tx.Query(ctx, `SELECT u.owner, COUNT(DISTINCT CASE WHEN c.kind = 'factory' THEN NULL ELSE c.unit END), MAX(CASE WHEN c.kind = 'factory' THEN 1 ELSE 0 END)
		FROM contracts c JOIN cursors u ON u.unit = c.unit WHERE c.watch = $1 AND c.removed = 0 GROUP BY u.owner`, []any{watch}, func(r ledger.Row) error {
		var owner string
		var o Owner
		var factory int
		if err := r.Scan(&owner, &o.Shards, &factory); err != nil {
			return err
		}
		o.Instance, o.Factory = instanceOf(owner), factory == 1
		if i := slices.IndexFunc(list, func(x Owner) bool { return x.Instance == o.Instance }); i >= 0 { // by two of its names
			list[i].Shards, list[i].Factory = list[i].Shards+o.Shards, list[i].Factory || o.Factory
			return nil
		}
		list = append(list, o)
		return nil
	})
	slices.SortFunc(list, func(a, b Owner) int { return strings.Compare(a.Instance, b.Instance) })
	return list, err
}

// instanceOf reads the process in what a cursor names as its owner: instance, boot id and a number. See fleet.take.
func instanceOf(owner string) string {
	for range 2 {
		owner = owner[:max(strings.LastIndexByte(owner, '/'), 0)]
	}
	return owner
}

// SinkState is how far a sink is.
type SinkState struct {
	Sink    string   `json:"sink" doc:"Its name: as the watch calls it, or its kind and host."`
	Kind    string   `json:"kind"`
	Watches []string `json:"watches"`
	Backlog int64    `json:"backlog" doc:"Messages of the whole fleet that it has not taken yet; a maximum of 10,000 are counted."`
	Oldest  int64    `json:"oldest,omitempty" doc:"When the oldest of those that were counted was stored: microseconds since 1970, by the database's clock."`
	Failing int64    `json:"failingSince,omitempty" doc:"Since when it has not taken what this process offers: microseconds since 1970."`
	Error   string   `json:"lastError,omitempty" doc:"Why; for callers with the role admin."`
}

// maxBacklog bounds how many waiting messages are counted.
const maxBacklog = 10_000

// Sinks returns how far the sinks of this process's plan are.
func (s *Service) Sinks(ctx context.Context) ([]SinkState, error) {
	list := make([]SinkState, len(s.publishers))
	err := s.db.Read(ctx, func(tx *ledger.Tx) error {
		for i, p := range s.publishers {
			watches := sortedKeys(p.watches)
			st := SinkState{Sink: p.id, Kind: p.kind, Watches: watches}
			if _, err := tx.One(ctx, `SELECT COUNT(*), COALESCE(MIN(at), 0) FROM (SELECT o.at FROM cursors u LEFT JOIN sink_cursors k ON k.sink = $1 AND k.unit = u.unit
				JOIN outbox o ON o.subject = u.unit AND o.id > COALESCE(k.position, 0)
				WHERE o.topic = $2 AND o.kind IN `+ledger.List(4, len(watches))+` LIMIT $3) AS waiting`, append([]any{p.id, topic, int64(maxBacklog)}, ledger.Args(watches)...), &st.Backlog, &st.Oldest); err != nil {
				return err
			}
			st.Failing, st.Error = s.deaf.of(p.trouble())
			list[i] = st
		}
		return nil
	})
	return list, err
}

// Contracts returns contracts in the order of watch and address, and the cursor of the next page, "" at the end. An empty watch means all.
func (s *Service) Contracts(ctx context.Context, watch, status, cursor string, limit int) (list []Followed, next string, err error) {
	afterWatch, afterAddress, ok := strings.Cut(cursor, "/")
	if cursor != "" && (!ok || !namePattern.MatchString(afterWatch)) {
		return nil, "", ErrCursor
	}
	list, err = ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]Followed, error) {
		return ledger.All(ctx, tx, `SELECT c.watch, c.chain, c.address, c.kind, c.status, c.fields, c.discovered_block, (CASE WHEN c.merged = 1 THEN u.next_block ELSE c.next_block END), c.unit, c.seq
			FROM contracts c JOIN cursors u ON u.unit = c.unit
			WHERE c.removed = 0 AND (c.watch > $1 OR c.watch = $1 AND c.address > $2) AND ($3 = '' OR c.watch = $3) AND ($4 = '' OR c.status = $4)
			ORDER BY c.watch, c.address LIMIT $5`, []any{afterWatch, afterAddress, watch, status, int64(limit)}, func(r ledger.Row) (f Followed, err error) {
			var fields string
			if err := r.Scan(&f.Watch, &f.Chain, &f.Address, &f.Kind, &f.Status, &fields, &f.Discovered, &f.Block, &f.Unit, &f.Messages); err != nil {
				return f, err
			}
			f.Block = max(f.Block, 1) - 1
			err = json.Unmarshal([]byte(fields), &f.Fields)
			return f, err
		})
	})
	list = append([]Followed{}, list...) // a list in JSON, also without any
	if err == nil && len(list) == limit {
		last := list[len(list)-1]
		next = last.Watch + "/" + last.Address
	}
	return list, next, err
}

// Nodes returns the processes that have ever been of the fleet, the newest heartbeat first.
func (s *Service) Nodes(ctx context.Context) ([]Node, error) {
	list, err := ledger.ReadOf(ctx, s.db, func(tx *ledger.Tx) ([]Node, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return nil, err
		}
		return ledger.All(ctx, tx, "SELECT instance_id, status, partition_number, total_partitions, last_heartbeat, current_block, contracts, leader, version FROM nodes ORDER BY last_heartbeat DESC, instance_id LIMIT 1000", nil, func(r ledger.Row) (n Node, err error) {
			var leader int
			err = r.Scan(&n.Instance, &n.Status, &n.Partition, &n.Partitions, &n.Heartbeat, &n.Block, &n.Contracts, &leader, &n.Version)
			n.Age = max(now-n.Heartbeat, 0) / 1e6
			if n.Status == "active" && now-n.Heartbeat > deadAfter.Microseconds() {
				n.Status = "dead" // it was killed
			}
			n.Leader = leader == 1 && n.Status != "dead"
			return n, err
		})
	})
	return append([]Node{}, list...), err // a list in JSON, also without any
}

// Told is a message in the order of the stream.
type Told struct {
	Cursor int64 `json:"cursor"`
	Event
}

// news wakes who waits for newer messages of the stream. One goroutine looks for them, however many wait.
type news struct {
	readers atomic.Int64

	mu      sync.Mutex
	cursor  int64
	changed chan struct{} // closed when the cursor is another
}

func newNews() *news { return &news{changed: make(chan struct{})} }

// next returns what is closed when the cursor is another.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

func (n *news) set(cursor int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cursor != n.cursor {
		n.cursor = cursor
		close(n.changed)
		n.changed = make(chan struct{})
	}
}

// sequence gives committed messages their cursors in the stream, and tells the readers of new ones. Other processes of the fleet give
// cursors, too, so it looks now and then.
func (s *Service) sequence(ctx context.Context) error {
	for ctx.Err() == nil {
		given, err := s.db.Sequence(ctx)
		if err == nil && s.news.readers.Load() > 0 {
			var cursor int64
			if cursor, err = s.Newest(ctx); err == nil {
				s.news.set(cursor)
			}
		}
		if err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
			s.log.WarnContext(ctx, "the stream's cursors are not given", "error", err)
		}
		if given > 0 && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-s.emitted:
		case <-time.After(2 * idlePoll):
		}
	}
	return ctx.Err()
}

// messagesLimit bounds one reading of the ledger for a stream.
const messagesLimit = 20 * time.Second

// Stream is like Messages, and waits for messages where there are none. When the context ends first, it returns none and no error.
func (s *Service) Stream(ctx context.Context, after int64, watch, address string, limit int) (list []Told, next int64, err error) {
	s.news.readers.Add(1)
	defer s.news.readers.Add(-1)
	for {
		changed := s.news.next() // before the ledger is read: what comes from then on closes it
		read, cancel := context.WithTimeout(context.WithoutCancel(ctx), messagesLimit)
		list, next, err = s.Messages(read, after, watch, address, "", limit)
		cancel()
		if err != nil || next > after {
			return list, next, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, after, nil
		}
	}
}

// Messages returns what was handed to the sinks, behind a cursor, in an order that never changes: who reads on from the last cursor
// misses nothing. An empty watch, address or argument (see Told.has) means all. The cursor that comes with it goes on where this page ends.
func (s *Service) Messages(ctx context.Context, after int64, watch, address, argument string, limit int) (list []Told, next int64, err error) {
	next = after
	rows, err := s.db.Events(ctx, topic, after, limit)
	if err != nil {
		return nil, after, err
	}
	if len(rows) > 0 {
		next = rows[len(rows)-1].Cursor
		rows = slices.DeleteFunc(rows, func(row ledger.Event) bool { return watch != "" && row.Kind != watch })
	}
	list, err = told(rows, address, argument)
	return list, next, err
}

// told reads messages, and keeps those that are about a contract and have a value.
func told(rows []ledger.Event, address, argument string) ([]Told, error) {
	list := []Told{}
	for _, row := range rows {
		one := Told{Cursor: row.Cursor}
		if err := json.Unmarshal([]byte(row.Body), &one.Event); err != nil {
			return nil, fmt.Errorf("a message of the outbox: %w", err)
		}
		if one.has(address, argument) {
			list = append(list, one)
		}
	}
	return list, nil
}

// has tells whether a message is about a contract and has a value among its arguments: "value", or "name=value" of the one of that name. Letters may be small or
// large. Empty texts mean any.
func (t *Told) has(address, argument string) bool {
	if address != "" && !strings.EqualFold(t.Address, address) {
		return false
	}
	if argument == "" {
		return true
	}
	args, err := decode.FromJSON(t.Args)
	if err != nil {
		return false
	}
	name, value, named := strings.Cut(argument, "=")
	if v, there := args[name]; named && there {
		return holds(v, value)
	}
	return holds(args, argument)
}

// holds looks for a value in what package decode makes of arguments.
func holds(v any, value string) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			if holds(member, value) {
				return true
			}
		}
		return false
	case []any:
		return slices.ContainsFunc(v, func(entry any) bool { return holds(entry, value) })
	default:
		return strings.EqualFold(fmt.Sprint(v), value)
	}
}

// Latest returns the newest messages, newest first, and the cursor behind which newer ones will come. An empty watch or
// address means all; limit counts the messages that are looked at for an address or an argument.
func (s *Service) Latest(ctx context.Context, watch, address, argument string, limit int) (list []Told, cursor int64, err error) {
	rows, cursor, err := s.db.Latest(ctx, topic, watch, limit)
	if err != nil {
		return nil, 0, err
	}
	list, err = told(rows, address, argument)
	return list, cursor, err
}

// Newest is the cursor of the newest message.
func (s *Service) Newest(ctx context.Context) (int64, error) {
	return s.db.Newest(ctx)
}

// Check returns what a plan would hand on of one block, without a database: the children of factories are looked for from the first
// block on. Messages have no place in their contract's order.
func Check(ctx context.Context, plan *Plan, block uint64, log *slog.Logger) ([]Event, error) {
	var list []Event
	for _, chain := range plan.Chains {
		pool, err := chain.Source(source.Deps{Log: log})
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		c := checker{worker{chain: chain, source: pool, log: log, metrics: newMetrics(), rules: map[*Watch]*rules{}, units: map[string]*unit{}, contracts: map[contractKey]*contract{}}}
		for i := range plan.Watches {
			w := &plan.Watches[i]
			c.rules[w] = w.rules()
			if w.Chain == chain.ID && w.Since != "" {
				head, err := pool.Head(ctx)
				if err != nil {
					return nil, fmt.Errorf("chain %d: %w", chain.ID, err)
				}
				w.Start = w.settle(head.Number)
			}
			if w.Chain == chain.ID && block >= w.Start && !w.over(block) {
				if err := c.gather(ctx, w, block); err != nil {
					return nil, err
				}
			}
		}
		events, err := c.block(ctx, block)
		if err != nil {
			return nil, fmt.Errorf("block %d of chain %d: %w", block, chain.ID, err)
		}
		list = append(list, events...)
	}
	return list, nil
}

// checker is a worker without a ledger.
type checker struct{ worker }

func (c *checker) follow(n newContract) {
	found := &contract{watch: n.watch, address: n.address, text: addressText(n.address), factory: n.kind == kindFactory}
	if r := c.rules[n.watch]; r != nil && n.kind == kindGiven {
		_, found.account = r.accounts[n.address]
	}
	if c.contracts[found.key()] == nil {
		c.contracts[found.key()] = found
	}
}

// gather finds the contracts that a watch follows in a block.
func (c *checker) gather(ctx context.Context, w *Watch, block uint64) error {
	for _, n := range w.named() {
		c.follow(n)
	}
	if w.Factory == nil {
		return nil
	}
	factory := c.contracts[contractKey{w.Name, w.Factory.Address}]
	for from := w.Start; from <= block; {
		q := source.Query{Addresses: map[common.Address]struct{}{w.Factory.Address: {}}, Events: []common.Hash{w.Factory.Event.Selector}}
		logs, last, err := c.source.LogsOfRange(ctx, from, block, q)
		if err != nil {
			return fmt.Errorf("events of the factory: %w", err)
		}
		for _, child := range children(c.match(ctx, []*contract{factory}, logs)) {
			c.follow(child)
		}
		from = last.Number + 1
	}
	return nil
}

// block returns the events of all followed contracts in a block.
func (c *checker) block(ctx context.Context, number uint64) ([]Event, error) {
	b, err := c.source.Block(ctx, number)
	if err != nil {
		return nil, err
	}
	s := span{from: number, to: number, blocks: []source.Block{b}}
	for _, found := range c.contracts {
		s.contracts = append(s.contracts, found)
	}
	found, _, err := c.fetch(ctx, s)
	if err != nil {
		return nil, err
	}
	var list []Event
	for _, o := range found {
		o.incarnation = 1
		var e Event
		if err := json.Unmarshal([]byte(o.message(c.chain.ID, 0, false, 0).Body), &e); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}
