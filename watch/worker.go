package watch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/watch/source"
)

// unit is a part of the work that this process owns, and how far it is.
type unit struct {
	name   string
	next   uint64 // first block that was not read
	parent string // hash of the block before it; "" where it is not known
	// checked is the highest block that was read when it could not be replaced any more.
	checked uint64
	fork    int64 // reorganisations that it has taken into account
}

// worker advances all units of one chain that this process owns, together: one query names the contracts of them all, one
// transaction writes what was found. It is used by one goroutine.
type worker struct {
	chain   Chain
	watches map[string]*Watch
	source  chainReader
	db      *ledger.DB
	reign   func() string // the name that is in the cursors of this process's units now
	node    string        // for people
	log     *slog.Logger
	metrics *metrics
	changed func(units []string) // new messages of theirs wait in the outbox
	trouble func(what string, err error) (tell bool)
	behind  func(blocks uint64) // how far its units are behind

	owner     string // that name when they were read: the fence of all that is written
	units     map[string]*unit
	contracts map[contractKey]*contract // of the units, by watch and address
	ahead     *ahead                    // nil: nothing is read ahead
	perCommit int                       // events that one transaction may write
	tables    map[tableKey]*eventTable
	filling   bool // there may be stored events that are not in the tables of their watch yet
	progress  progress
	passed    time.Time       // when the second pass had nothing left
	waiting   map[string]bool // watches of depth 0 of which events may wait, since their depth was another
	rules     map[*Watch]*rules
}

const (
	// blocksPerStep is how many blocks one step reads by their hashes.
	blocksPerStep = 16
	// fetchers is how many of them are read at a time.
	fetchers = 4
)

// load reads the units and their contracts again.
func (w *worker) load(ctx context.Context) error {
	w.dropAhead()
	w.owner = w.reign()
	w.waiting = map[string]bool{}
	for name := range w.watches {
		w.waiting[name] = true
	}
	return w.db.Read(ctx, func(tx *ledger.Tx) error {
		w.units, w.contracts = map[string]*unit{}, map[contractKey]*contract{}
		if err := w.loadTables(ctx, tx); err != nil {
			return err
		}
		err := tx.Query(ctx, "SELECT unit, next_block, parent, fork, checked FROM cursors WHERE chain = $1 AND owner = $2", []any{int64(w.chain.ID), w.owner}, func(r ledger.Row) error {
			var u unit
			var checked int64
			err := r.Scan(&u.name, &u.next, &u.parent, &u.fork, &checked)
			u.checked = uint64(max(checked, 0)) // block 0 has no logs
			w.units[u.name] = &u
			return err
		})
		if err != nil || len(w.units) == 0 {
			return err
		}
		return w.queryContracts(ctx, tx, "chain = $1 AND removed = 0", []any{int64(w.chain.ID)}, w.take)
	})
}

// take adds a contract if its unit is ours.
func (w *worker) take(c *contract) {
	if _, ours := w.units[c.unit]; ours {
		w.contracts[c.key()] = c
	}
}

// position is how far a contract is.
func (w *worker) position(c *contract) uint64 {
	if c.merged {
		return w.units[c.unit].next
	}
	return c.next
}

// step does what there is to do once. It tells whether there may be more.
func (w *worker) step(ctx context.Context) (more bool, err error) {
	if len(w.units) == 0 {
		w.metrics.lag.DeleteLabelValues(chainLabel(w.chain.ID)) // whoever owns the units tells
		w.behind(0)
		return false, nil
	}
	lowest := w.lowest()
	var state chainState
	known := false
	err = w.db.Read(ctx, func(tx *ledger.Tx) error {
		if state, known, err = readChain(ctx, tx, w.chain.ID, lowest); err != nil || !known {
			return err
		}
		return w.queryContracts(ctx, tx, "chain = $1 AND merged = 0 AND removed = 0", []any{int64(w.chain.ID)}, func(c *contract) {
			if _, known := w.contracts[c.key()]; !known {
				w.take(c)
			}
		})
	})
	if err != nil || !known || state.head == 0 && len(state.blocks) == 0 {
		return false, err // nobody has read the head yet
	}
	w.chain.anchor(w.source, state)
	for _, u := range w.units {
		if u.fork < state.fork {
			return true, w.rollBack(ctx, state)
		}
	}
	lowest = w.lowest()
	lag := state.lag(lowest)
	w.metrics.lag.WithLabelValues(chainLabel(w.chain.ID)).Set(float64(lag))
	w.behind(lag)
	w.progress.logNow(ctx, w.log, w.chain.ID, lowest, max(state.head, state.best), w.positions)
	if lowest > state.head {
		for _, rest := range []func(context.Context, chainState) (bool, error){w.mature, w.refresh, w.fillTables, w.backfill, w.secondPass} {
			if more, err := rest(ctx, state); more || err != nil {
				return more, err
			}
		}
		return false, nil
	}
	span := w.plan(lowest, state)
	if span.blocks == nil && span.to < span.from {
		return false, nil
	}
	if !w.continues(span) {
		return true, w.restart(ctx, state)
	}
	found, last, err := w.fetch(ctx, span)
	if err != nil {
		return false, err
	}
	w.readAhead(ctx, span, last, state.safe)
	return true, w.commitAll(ctx, state, span, found, last)
}

// continues tells whether the blocks of a span follow what its units have read.
func (w *worker) continues(s span) bool {
	for _, name := range s.units {
		u := w.units[name]
		for _, b := range s.blocks {
			if b.Number == u.next && u.parent != "" && u.parent != b.Parent.Hex() {
				return false
			}
		}
	}
	return true
}

// lowest is the position that is furthest behind.
func (w *worker) lowest() uint64 {
	lowest := ^uint64(0)
	for _, u := range w.units {
		lowest = min(lowest, u.next)
	}
	for _, c := range w.contracts {
		if !c.merged {
			lowest = min(lowest, c.next)
		}
	}
	return lowest
}

// span is the blocks of one step, and who takes part in it: the units and contracts whose position is among them.
type span struct {
	from, to  uint64
	blocks    []source.Block // the blocks themselves, where they can still be replaced
	final     bool           // they cannot
	logs      bool           // nothing but logs is read of them, once more
	units     []string
	contracts []*contract
}

// plan chooses the blocks of the next step. Below what is safe it is a long range, whose end is where somebody else stands who is
// not near; above it some single blocks, read by their hashes.
func (w *worker) plan(lowest uint64, state chainState) span {
	s := span{from: lowest}
	longest := w.longest()
	near := lowest // who stands up to here takes part from the start
	if lowest <= state.safe {
		s.final = true
		s.to = min(lowest+longest-1, state.safe)
		near = lowest + longest/4
	} else {
		s.to = min(lowest+blocksPerStep-1, state.head)
	}
	for _, u := range w.units {
		if u.next > near {
			s.to = min(s.to, u.next-1)
		}
	}
	if lowest > state.safe {
		for n := s.from; n <= s.to; n++ {
			b, known := state.blocks[n]
			if !known {
				break
			}
			s.blocks = append(s.blocks, b)
		}
		s.to = s.from + uint64(len(s.blocks)) - 1
	}
	for _, u := range w.units {
		if u.next <= s.to {
			s.units = append(s.units, u.name)
		}
	}
	slices.Sort(s.units)
	for _, c := range w.contracts {
		if w.position(c) <= s.to {
			s.contracts = append(s.contracts, c)
		}
	}
	return s
}

// read asks for the events of a span. It may run while another span is written.
func (w *worker) read(ctx context.Context, s span) ([]*occurrence, source.Block, error) {
	logs, last, err := w.readLogs(ctx, s)
	if err != nil {
		return nil, last, err
	}
	calls, err := w.readCalls(ctx, s, last.Number)
	if err != nil {
		return nil, last, err
	}
	return inOrder(w.match(ctx, s.contracts, logs), calls), last, nil
}

func (w *worker) readLogs(ctx context.Context, s span) ([]source.Log, source.Block, error) {
	q := queryOf(s.contracts, s.from)
	q.Again = s.logs
	if s.blocks == nil {
		return w.source.LogsOfRange(ctx, s.from, s.to, q)
	}
	logs, err := ofBlocks(ctx, s.blocks, func(ctx context.Context, b source.Block) ([]source.Log, error) {
		return w.source.LogsOfBlock(ctx, b, q)
	})
	return logs, s.blocks[len(s.blocks)-1], err
}

// ofBlocks asks for each block by its hash, some at a time.
func ofBlocks[T any](ctx context.Context, blocks []source.Block, ask func(context.Context, source.Block) ([]T, error)) ([]T, error) {
	pages := make([][]T, len(blocks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(fetchers)
	for i, b := range blocks {
		group.Go(func() (err error) {
			pages[i], err = ask(ctx, b)
			return err
		})
	}
	err := group.Wait()
	return slices.Concat(pages...), err
}

// queryOf asks for all that contracts wait for, from a block on.
func queryOf(contracts []*contract, from uint64) source.Query {
	q := source.Query{Addresses: make(map[common.Address]struct{}, len(contracts))}
	events, asks := map[common.Hash]struct{}{}, map[*Watch]bool{}
	var narrow narrowing
	for _, c := range contracts {
		if c.account || c.watch.over(from) {
			continue
		}
		if _, known := asks[c.watch]; !known {
			selectors := c.watch.selectors()
			anonymous := c.watch.anonymous()
			q.All = q.All || anonymous
			asks[c.watch] = len(selectors) > 0 || anonymous
			for _, selector := range selectors {
				events[selector] = struct{}{}
			}
			narrow.take(c.watch)
		}
		if asks[c.watch] { // a query without events would ask for all
			q.Addresses[c.address] = struct{}{}
		}
	}
	q.Events = slices.SortedFunc(maps.Keys(events), func(a, b common.Hash) int { return a.Cmp(b) })
	for i, set := range narrow.topics {
		if !narrow.any[i] && len(set) <= maxTopics {
			q.Topics[i] = slices.SortedFunc(maps.Keys(set), func(a, b common.Hash) int { return a.Cmp(b) })
		}
	}
	return q
}

// maxTopics is how many values of one topic a query names.
const maxTopics = 200

// narrowing gathers what the conditions of all events of a query allow as its topics behind the first. Where one event allows any, so does the query.
type narrowing struct {
	topics [3]map[common.Hash]struct{}
	any    [3]bool
}

func (n *narrowing) take(w *Watch) {
	events := w.Events
	if w.Factory != nil {
		events = append(slices.Clone(events), w.Factory.Event)
	}
	for _, e := range events {
		allowed := map[int][]common.Hash{}
		if f := w.Where[e]; f != nil {
			allowed = f.Topics()
		}
		for i := range n.topics {
			list := allowed[i+1]
			n.any[i] = n.any[i] || len(list) == 0
			if n.topics[i] == nil {
				n.topics[i] = map[common.Hash]struct{}{}
			}
			for _, topic := range list {
				n.topics[i][topic] = struct{}{}
			}
		}
	}
}

// run steps for as long as the context lives and nothing ends it for ever.
func (w *worker) run(ctx context.Context, told *followedChain) error {
	defer w.dropAhead()
	stale := true // what is remembered is not what the ledger says
	for ctx.Err() == nil {
		select {
		case <-told.reload:
			stale = true
		default:
		}
		var more bool
		var err error
		if stale {
			err = w.load(ctx)
			more, stale = true, err != nil
		} else {
			more, err = w.step(ctx)
		}
		_, uncertain := errors.AsType[*ledger.UncertainError](err)
		switch {
		case errors.Is(err, errDeposed), errors.Is(err, errStale):
			stale = true
			continue
		case uncertain:
			stale = true
		}
		pause := idlePoll
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tell := w.trouble(fmt.Sprintf("blocks of chain %d are not read", w.chain.ID), err)
		doubt := err
		if errors.Is(err, source.ErrDoubt) {
			w.metrics.doubts.WithLabelValues(chainLabel(w.chain.ID)).Inc()
		} else {
			doubt = nil
		}
		w.trouble(fmt.Sprintf("an endpoint of chain %d leaves out events that the filter of their block names", w.chain.ID), doubt)
		if err != nil {
			if tell && !ledger.IsDown(err) {
				w.log.WarnContext(ctx, "blocks are not read; they will be later", "chain", w.chain.ID, "error", err)
			}
			pause = failurePause
		} else if more {
			continue
		}
		select {
		case <-ctx.Done():
		case <-told.wake:
		case <-time.After(pause):
		}
	}
	return ctx.Err()
}

const (
	// idlePoll is how soon a process looks for blocks that another one has found.
	idlePoll     = 50 * time.Millisecond
	failurePause = 500 * time.Millisecond
)

// restart sends units whose last block is not on the chain any more back to what is safe. It is for a reorganisation that no
// row tells of, which is not expected.
func (w *worker) restart(ctx context.Context, state chainState) error {
	w.log.WarnContext(ctx, "a unit's last block is not on the chain any more", "chain", w.chain.ID)
	return w.undo(ctx, state, state.safe)
}

// rollBack takes the reorganisations since a unit's last step into account.
func (w *worker) rollBack(ctx context.Context, state chainState) error {
	seen := state.fork
	for _, u := range w.units {
		seen = min(seen, u.fork)
	}
	ancestor, err := ledger.ReadOne[uint64](ctx, w.db, "SELECT COALESCE(MIN(ancestor), 0) FROM watch_forks WHERE chain = $1 AND id > $2", int64(w.chain.ID), seen)
	if err != nil {
		return fmt.Errorf("reorganisations: %w", err)
	}
	if err := w.undo(ctx, state, ancestor); err != nil {
		return err // the next step tries again
	}
	w.metrics.reorgs.Inc()
	return nil
}

// ahead is a long range that is read while the one before it is written. It is one range, not more, and nobody but the
// next step sees it: a step whose plan differs reads for itself.
type ahead struct {
	span   span
	cancel context.CancelFunc
	done   chan struct{} // closed when the rest is there
	found  []*occurrence
	last   source.Block
	err    error
}

// readAhead begins to read what follows a span that was read up to a block.
func (w *worker) readAhead(ctx context.Context, s span, last source.Block, safe uint64) {
	next := s
	next.from = last.Number + 1
	next.to = min(next.from+w.longest()-1, safe)
	if s.blocks != nil || next.from > next.to {
		return
	}
	a := &ahead{span: next, done: make(chan struct{})}
	ctx, a.cancel = context.WithCancel(ctx)
	w.ahead = a
	go func() {
		defer close(a.done)
		a.found, a.last, a.err = w.read(ctx, next)
	}()
}

// dropAhead ends what is read ahead, and returns when it has ended.
func (w *worker) dropAhead() {
	if w.ahead != nil {
		w.ahead.cancel()
		<-w.ahead.done
		w.ahead = nil
	}
}

// fetch reads the events of a span, unless they were read ahead. A long range may come out shorter.
func (w *worker) fetch(ctx context.Context, s span) ([]*occurrence, source.Block, error) {
	a := w.ahead
	if a == nil || !a.covers(s) {
		w.dropAhead()
		return w.read(ctx, s)
	}
	<-a.done
	w.dropAhead()
	return a.found, a.last, a.err
}

// covers tells whether what is read ahead is what a span begins with, for the same contracts.
func (a *ahead) covers(s span) bool {
	if s.blocks != nil || s.from != a.span.from || s.to < a.span.to || !slices.Equal(s.units, a.span.units) || len(s.contracts) != len(a.span.contracts) {
		return false
	}
	known := make(map[*contract]struct{}, len(s.contracts))
	for _, c := range a.span.contracts {
		known[c] = struct{}{}
	}
	return !slices.ContainsFunc(s.contracts, func(c *contract) bool { _, in := known[c]; return !in })
}

// shards is how many parts the contracts of a chain are divided into. It is fixed: a contract stays in its shard
// however many processes there are.
const shards = 1024

// Units are what one process owns at a time. Their names are the names of their leases.
func headUnit(chain uint64) string            { return fmt.Sprintf("head:%d", chain) }
func factoryUnit(watch string) string         { return "factory:" + watch }
func isFactory(unit string) bool              { return strings.HasPrefix(unit, "factory:") }
func shardUnit(chain uint64, n uint32) string { return fmt.Sprintf("shard:%d:%d", chain, n) }

// shardOf returns the shard of a contract. The number of shards is fixed, so a remainder is as stable as any other hash.
func shardOf(address common.Address) uint32 {
	sum := sha256.Sum256(address[:])
	return binary.BigEndian.Uint32(sum[:4]) % shards
}

// loadCap is how much more than its even share of the units a process may get.
const loadCap = 1.1

// assign gives each unit to one of the nodes: to the one that rendezvous hashing prefers, unless that has its share and a tenth
// more. When a node comes or goes, little more than its own share moves. Equal arguments give equal results in every process.
func assign(units, nodes []string) map[string]string {
	owners := make(map[string]string, len(units))
	if len(nodes) == 0 {
		return owners
	}
	room := int(math.Ceil(loadCap * float64(len(units)) / float64(len(nodes))))
	load := make(map[string]int, len(nodes))
	ordered := slices.Clone(units)
	slices.SortFunc(ordered, func(a, b string) int {
		return cmp.Or(cmp.Compare(lease.Score(a, ""), lease.Score(b, "")), strings.Compare(a, b))
	})
	for _, unit := range ordered {
		var best string
		var highest uint64
		for _, node := range nodes {
			if load[node] >= room {
				continue
			}
			if s := lease.Score(unit, node); best == "" || s > highest || s == highest && node < best {
				best, highest = node, s
			}
		}
		owners[unit] = best
		load[best]++
	}
	return owners
}

// pinned gives each shard to the partition of its number, for fleets that are divided by hand. Partitions count from 0.
func pinned(unit string, total int) (partition int, isShard bool) {
	var chain uint64
	var n uint32
	if _, err := fmt.Sscanf(unit, "shard:%d:%d", &chain, &n); err != nil {
		return 0, false
	}
	return int(n) % total, true
}

const (
	// behind is how many blocks a process is behind the head when it is catching up and not just reading.
	behind = 64
	// progressEvery is how often it tells then how far it is, and progressLines of how many watches: those that are furthest behind.
	progressEvery = 5 * time.Second
	progressLines = 8
)

// stand is how far a watch was at a time.
type stand struct {
	at     time.Time
	next   uint64 // first block that was not read for all its contracts
	events int64  // found so far
}

// speed is how fast a watch went from one stand to another, and how long it takes at that for a number of blocks.
func (s stand) speed(from stand, lag uint64) (blocks, events float64, left time.Duration) {
	took := s.at.Sub(from.at).Seconds()
	if took <= 0 || s.events < from.events { // what was found is counted anew
		return 0, 0, 0
	}
	blocks, events = float64(s.next-from.next)/took, float64(s.events-from.events)/took
	if blocks > 0 {
		left = time.Duration(float64(lag) / blocks * float64(time.Second))
	}
	return blocks, events, left
}

// progress tells people how far a process is while it catches up.
type progress struct {
	at     time.Time // when it looked last
	told   bool
	found  map[string]int64 // events by watch
	speeds speeds
}

// count notes events that were found of a watch.
func (p *progress) count(watch string, n int) {
	if p.found == nil {
		p.found = map[string]int64{}
	}
	p.found[watch] += int64(n)
}

// logNow is called with the next block to read and the head. It asks for the next block of each watch now and then.
func (p *progress) logNow(ctx context.Context, log *slog.Logger, chain, next, head uint64, watches func() map[string]uint64) {
	lagOf := func(next uint64) uint64 { return head + 1 - min(next, head+1) }
	now := time.Now()
	switch {
	case lagOf(next) < behind && p.told:
		log.InfoContext(ctx, "caught up", "chain", chain, "block", head)
		*p = progress{}
		return
	case lagOf(next) < behind:
		*p = progress{}
		return
	case now.Sub(p.at) < progressEvery:
		return
	}
	begins := p.at.IsZero()
	p.at, p.told = now, p.told || !begins
	is := watches()
	names := sortedKeys(is)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(is[a], is[b]) })
	for i, name := range names {
		stand, lag := stand{now, is[name], p.found[name]}, lagOf(is[name])
		blocks, events, left := stand.speed(p.speeds.of(name, stand), lag)
		if begins || i >= progressLines || lag < behind {
			continue
		}
		fields := []any{"chain", chain, "watch", name, "block", is[name], "lag", lag, "blocksPerSecond", int64(blocks), "eventsPerSecond", int64(events)}
		if left > 0 {
			fields = append(fields, "eta", left.Round(time.Second))
		}
		log.InfoContext(ctx, "catching up", fields...)
	}
}

// positions are the next blocks of the watches.
func (w *worker) positions() map[string]uint64 {
	list := map[string]uint64{}
	for _, c := range w.contracts {
		at, known := list[c.watch.Name]
		if next := w.position(c); !c.watch.over(next) && (!known || next < at) {
			list[c.watch.Name] = next
		}
	}
	return list
}

// speeds remembers how far the watches of the fleet were when somebody asked, to say how fast they are.
type speeds struct {
	mu  sync.Mutex
	all map[string][]stand
}

const (
	speedBack  = time.Minute // how far a speed looks back
	speedEvery = time.Second
)

// of notes where a watch is, and returns where it was: the longest ago that is not too long.
func (s *speeds) of(watch string, is stand) (was stand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string][]stand{}
	}
	list := slices.DeleteFunc(s.all[watch], func(x stand) bool { return is.at.Sub(x.at) > speedBack || x.next > is.next })
	if n := len(list); n == 0 || is.at.Sub(list[n-1].at) >= speedEvery {
		list = append(list, is)
	}
	s.all[watch] = list
	return list[0]
}
