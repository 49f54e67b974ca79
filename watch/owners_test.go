package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/internal/sleep"
	"lockstep/watch/decode"
	"lockstep/watch/source"
	"lockstep/watch/watchtest"
)

// claimant is a process that believes that all units and the head are its own, whatever leases say.
type claimant struct {
	*Service
	worker *worker
	head   *headFollower
}

func newClaimant(t *testing.T, db *ledger.DB, plan Plan, name string) *claimant {
	t.Helper()
	s := must.Get(New(Config{Plan: plan, Instance: name}, Deps{DB: db, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Sinks: func(string) (Sink, error) { return nil, nil }}))(t)
	must.Do(t, s.prepare(t.Context()))
	t.Cleanup(func() { s.chains[watchtest.ChainID].Close() })
	s.fleet.reign = name + "/1"
	chain := plan.Chains[0]
	return &claimant{Service: s, worker: s.worker(chain), head: &headFollower{chain: chain, source: s.chains[chain.ID], db: db, owner: name, log: s.log}}
}

// claim makes all there is this process's, as taking the leases does.
func (c *claimant) claim(t *testing.T) {
	t.Helper()
	err := c.db.Write(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE cursors SET owner = $1", c.fleet.owner())
		return err
	})
	must.Do(t, errors.Join(err, c.worker.load(t.Context()), c.head.load(t.Context())))
}

// look has the head read, and step does all there is to do.
func (c *claimant) look(t *testing.T) {
	t.Helper()
	must.Get(c.head.advance(t.Context()))(t)
}

func (c *claimant) step(t *testing.T) {
	t.Helper()
	for range 100 {
		more, err := c.worker.step(t.Context())
		if errors.Is(err, errStale) {
			err = c.worker.load(t.Context())
			more = true
		}
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
	t.Fatal("there is no end of what is to do")
}

// written is all that watchers write, as text.
func written(t *testing.T, db *ledger.DB) []string {
	t.Helper()
	var lines []string
	for _, table := range []string{"watch_chains", "watch_blocks", "watch_forks", "cursors", "contracts", "chain_events", "outbox", "sink_cursors", "backfills"} {
		rows := must.Get(db.SQL().QueryContext(t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2"))(t)
		columns := must.Get(rows.Columns())(t)
		for rows.Next() {
			values, places := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				places[i] = &values[i]
			}
			must.Do(t, rows.Scan(places...))
			lines = append(lines, fmt.Sprint(table, values))
		}
		must.Do(t, errors.Join(rows.Err(), rows.Close()))
	}
	return lines
}

// TestTwoOwnersTheOlderWritesNothing has two processes believe that the units are theirs. Whatever the older one does, it changes no row; the
// newer one does it.
func TestTwoOwnersTheOlderWritesNothing(t *testing.T) {
	chain := watchtest.New(t, 3)
	parse := func(text string) *decode.Signature {
		return must.Get(decode.Parse(text))(t)
	}
	plan := Plan{
		Chains: []Chain{{ID: watchtest.ChainID, URLs: []secret.String{secret.String(chain.URL)}, Finality: 8, MaxSpan: 100}},
		Watches: []Watch{{
			Name: "escrows", Chain: watchtest.ChainID, Depth: Depth{Blocks: 1}, Sinks: []string{"book"}, Status: Status{Initial: activeStatus, On: map[string]string{}},
			Factory: &Factory{Address: watchtest.Emitter(0), Event: parse("Deployed(address indexed escrow, uint256 amount)"), Child: "escrow"},
			Events:  []*decode.Signature{parse("Approved(address)")},
		}},
	}
	db := ledgertest.Open(t)
	older, newer := newClaimant(t, db, plan, "older"), newClaimant(t, db, plan, "newer")
	deploy := func(n int) {
		chain.Emit(watchtest.Emitter(0), "Deployed(address,uint256)", watchtest.Word(watchtest.Emitter(n)), watchtest.Number(1))
		chain.Commit()
	}
	approve := func(n int) {
		chain.Emit(watchtest.Emitter(n), "Approved(address)", watchtest.Word(common.Address{1}))
		chain.Commit()
	}
	deploy(1)
	older.claim(t)
	older.look(t)
	older.step(t)
	older.claim(t) // with the unit of the contract that was found
	older.step(t)

	// Each attempt is the older one's, while all is the newer one's already.
	refused := func(what string, attempt func(ctx context.Context) error) {
		t.Helper()
		before := written(t, db)
		err := attempt(t.Context())
		if diff := cmp.Diff(before, written(t, db)); diff != "" {
			t.Errorf("%s: the older owner wrote:\n%s", what, diff)
		}
		if !errors.Is(err, errDeposed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	stepOnce := func(ctx context.Context) error { _, err := older.worker.step(ctx); return err }
	grew := func(what string) {
		t.Helper()
		before := written(t, db)
		newer.step(t)
		if cmp.Equal(before, written(t, db)) {
			t.Errorf("%s: the newer owner wrote nothing, so that there was nothing to refuse", what)
		}
	}

	approve(1)
	newer.claim(t)
	refused("the head", func(ctx context.Context) error { _, err := older.head.advance(ctx); return err })
	newer.look(t)
	refused("new events", stepOnce)
	grew("new events")

	// What waits for its depth. The older one is made to have read as much as the newer one.
	deploy(2)
	older.claim(t)
	older.look(t)
	older.step(t)
	chain.Commit()
	newer.claim(t)
	newer.look(t)
	state := chainState{}
	must.Do(t, db.Read(t.Context(), func(tx *ledger.Tx) (err error) {
		state, _, err = readChain(t.Context(), tx, watchtest.ChainID, 0)
		return err
	}))
	refused("events that are deep enough", func(ctx context.Context) error {
		_, err := older.worker.mature(ctx, state)
		if err == nil && len(older.worker.units) > 0 { // it looks for its own events alone, of which there are none
			err = errDeposed
		}
		return err
	})
	grew("events that are deep enough")

	older.claim(t)
	older.step(t)
	chain.Reorg(2, true)
	newer.claim(t)
	newer.look(t)
	refused("a reorganisation", stepOnce)
	grew("a reorganisation")

	older.claim(t)
	older.look(t)
	older.step(t)
	must.Get(older.StartBackfill(t.Context(), Backfill{Watch: "escrows", Repeat: true}, 1))(t)
	fill, err := older.worker.nextFill(t.Context())
	if err != nil || fill == nil {
		t.Fatal(fill, err)
	}
	newer.claim(t)
	refused("a backfill", func(ctx context.Context) error { return older.worker.commitFill(ctx, fill, nil, 2) })
	grew("a backfill")

	refused("how far a sink is", func(ctx context.Context) error {
		if err := older.publishers[0].acknowledge(ctx, []waiting{{position: 1, unit: "factory:escrows"}}, nil); err != nil {
			return err
		}
		return errDeposed // it is not told: the newer one hands the message on again
	})
	before := written(t, db)
	if err := newer.publishers[0].acknowledge(t.Context(), []waiting{{position: 1, unit: "factory:escrows"}}, nil); err != nil || cmp.Equal(before, written(t, db)) {
		t.Errorf("the newer owner could not note how far a sink is: %v", err)
	}
}

func fleetOf(n int) []string {
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("relayer-%d", i)
	}
	return nodes
}

func allUnits() []string {
	units := []string{headUnit(1), factoryUnit("escrows")}
	for n := range uint32(shards) {
		units = append(units, shardUnit(1, n))
	}
	return units
}

func TestAssignIsEven(t *testing.T) {
	units := allUnits()
	for _, n := range []int{1, 2, 3, 9, 10} {
		load := map[string]int{}
		for _, node := range assign(units, fleetOf(n)) {
			load[node]++
		}
		if len(load) != n {
			t.Errorf("%d nodes: only %d have units", n, len(load))
		}
		for node, mine := range load {
			if float64(mine) > loadCap*float64(len(units))/float64(n)+1 {
				t.Errorf("%d nodes: %s has %d of %d units", n, node, mine, len(units))
			}
		}
	}
}

func TestOneNodeMoreMovesItsShare(t *testing.T) {
	units := allUnits()
	for _, c := range []struct{ from, to int }{{2, 3}, {3, 4}, {9, 10}, {10, 9}} {
		before, after := assign(units, fleetOf(c.from)), assign(units, fleetOf(c.to))
		moved := 0
		for _, u := range units {
			if before[u] != after[u] {
				moved++
			}
		}
		if limit := 1.5 / float64(max(c.from, c.to)) * float64(len(units)); float64(moved) > limit {
			t.Errorf("%d → %d nodes: %d of %d units move, want at most %.0f", c.from, c.to, moved, len(units), limit)
		}
	}
}

// TestTroubleIsToldAgain: the log has a line when something stops working, and another when the cause is another after a while.
func TestTroubleIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all troubles
		note := func(text string, want bool) {
			t.Helper()
			if got := all.note("a chain", errors.New(text)); got != want {
				t.Errorf("%s: a line is %v", text, got)
			}
		}
		note("one cause", true)
		note("another", false)
		sleep.For(t.Context(), toldAgain)
		note("one cause", false)
		note("another", true)
		note("a third", false)
		if since, why := all.of("a chain"); time.Since(time.UnixMicro(since)) != toldAgain || why != "a third" {
			t.Errorf("%d, %s", since, why)
		}
		all.note("a chain", nil)
		note("one cause", true)
	})
}

// forgetful is a chain whose endpoint does not tell of the logs of new blocks.
type forgetful struct {
	chainReader
	final error
}

func (f *forgetful) LogsOfBlock(context.Context, source.Block, source.Query) ([]source.Log, error) {
	return nil, nil
}

func (f *forgetful) Finalized(ctx context.Context) (source.Block, error) {
	if f.final != nil {
		return source.Block{}, f.final
	}
	return f.chainReader.Finalized(ctx)
}

// TestTheSecondPassFindsWhatWasNotTold: an event that no endpoint told of when its block was new is handed on when the block cannot be
// replaced any more.
func TestTheSecondPassFindsWhatWasNotTold(t *testing.T) {
	c := watchtest.New(t, 2)
	db := ledgertest.Open(t)
	p := newClaimant(t, db, approvals(t, c.URL), "a")
	p.worker.source, p.head.source = &forgetful{chainReader: p.worker.source}, &forgetful{chainReader: p.head.source, final: source.ErrNotFound}
	p.claim(t)
	messages := func() int {
		list, _ := must.Get2(p.Latest(t.Context(), "", "", "", 100))(t)
		return len(list)
	}
	c.Emit(watchtest.Emitter(1), "Approved(address)", watchtest.Word(watchtest.Emitter(1)))
	c.Commit()
	p.look(t)
	p.step(t)
	for range 6 {
		c.Backend.Commit()
		p.head.finalized = time.Time{}
		p.look(t)
		p.step(t)
	}
	must.Get(db.Sequence(t.Context()))(t)
	if n := messages(); n != 1 {
		t.Errorf("%d messages of one event", n)
	}
}

// TestFinalIsWhatTheChainSays: a call that fails says nothing, and a chain that has said what is final is not guessed about.
func TestFinalIsWhatTheChainSays(t *testing.T) {
	chain := &saying{}
	f := &headFollower{chain: Chain{ID: 1, Finality: 10}, source: chain}
	ask := func(number uint64, err error) (uint64, error) {
		chain.block, chain.err = source.Block{Number: number}, err
		f.finalized = time.Time{}
		safe, err := f.safeBlock(t.Context(), 100)
		if err == nil {
			f.safe = safe
		}
		return safe, err
	}
	broken := errors.New("broken")
	if safe, err := ask(0, broken); !errors.Is(err, broken) {
		t.Errorf("after a failed call block %d is final (%v)", safe, err)
	}
	if safe, err := ask(0, source.ErrNotFound); safe != 90 || err != nil {
		t.Errorf("without such a thing block %d is final (%v)", safe, err)
	}
	if safe, err := ask(95, nil); safe != 95 || err != nil {
		t.Errorf("said: 95, final: %d (%v)", safe, err)
	}
	f.safe = 20
	for _, fail := range []error{broken, source.ErrNotFound} {
		if safe, err := ask(0, fail); safe != 20 || err != nil {
			t.Errorf("%v: final: %d (%v)", fail, safe, err)
		}
	}
}

// saying is a chain that says what is final.
type saying struct {
	chainReader
	block source.Block
	err   error
}

func (s *saying) Finalized(context.Context) (source.Block, error) { return s.block, s.err }
