package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/internal/sleep"
	"lockstep/watch/decode"
	"lockstep/watch/source"
	"lockstep/watch/watchtest"
)

func approvals(t *testing.T, url string) Plan {
	t.Helper()
	approved := must.Get(decode.Parse("Approved(address)"))(t)
	return Plan{
		Chains:  []Chain{{ID: watchtest.ChainID, URLs: []secret.String{secret.String(url)}, Finality: 4, MaxSpan: 100}},
		Watches: []Watch{{Name: "w", Chain: watchtest.ChainID, Addresses: []common.Address{watchtest.Emitter(1)}, Events: []*decode.Signature{approved}, Sinks: []string{"book"}}},
	}
}

// pastless is a chain whose endpoint does not have its first block, says that a given block is final, and fails at will.
type pastless struct {
	chainReader
	final  uint64
	broken uint64 // this block is not read
}

func (p *pastless) Block(ctx context.Context, number uint64) (source.Block, error) {
	switch number {
	case 0:
		return source.Block{}, source.ErrNotFound
	case p.broken:
		return source.Block{}, source.ErrUnavailable
	}
	return p.chainReader.Block(ctx, number)
}

func (p *pastless) Finalized(ctx context.Context) (source.Block, error) { return p.Block(ctx, p.final) }

// TestFinalityLagsFar: the way from what is final to the head is gone in parts that a failure leaves alone. Meanwhile what is final is read, and the
// lag is that behind the head.
func TestFinalityLagsFar(t *testing.T) {
	const blocks, final = 2*walk + 40, 20
	c := watchtest.New(t, 2)
	for n := 1; n <= blocks; n++ {
		if n == 10 || n == blocks {
			c.Emit(watchtest.Emitter(1), "Approved(address)", watchtest.Word(watchtest.Emitter(1)))
			c.Commit()
			continue
		}
		c.Backend.Commit()
	}
	p := newClaimant(t, ledgertest.Open(t), approvals(t, c.URL), "a")
	p.cfg.ReadyLag = 100
	chain := &pastless{chainReader: p.head.source, final: final}
	p.worker.source, p.head.source = chain, chain
	p.claim(t)
	p.look(t)
	if p.head.head != final+walk {
		t.Fatalf("the first part goes to block %d", p.head.head)
	}
	p.step(t)
	stored := func() int { return must.Get(ledgertest.One[int](t, p.db, "SELECT COUNT(*) FROM chain_events"))(t) }
	if lag := must.Measure(t, p.metrics.lag).Of("watch_lag_blocks"); stored() != 1 || lag != blocks-final-walk {
		t.Errorf("after the first part there are %d events, and the lag is %v", stored(), lag)
	}
	if is := p.Condition(t.Context()); !slices.ContainsFunc(is.Reasons, func(text string) bool { return strings.Contains(text, "blocks behind chain") }) {
		t.Errorf("it is ready: %+v", is)
	}
	chain.broken = final + walk + 10
	if _, err := p.head.advance(t.Context()); err == nil {
		t.Error("a block that is not read is passed over")
	}
	chain.broken = 0
	if err := p.head.load(t.Context()); err != nil || p.head.head != final+walk {
		t.Errorf("after a failure the way begins at block %d: %v", p.head.head, err)
	}
	p.look(t)
	p.look(t)
	p.step(t)
	if lag := must.Measure(t, p.metrics.lag).Of("watch_lag_blocks"); p.head.head != blocks || stored() != 2 || lag != 0 {
		t.Errorf("in the end the head is %d, there are %d events, and the lag is %v", p.head.head, stored(), lag)
	}
}

// TestAnEndpointOnAnotherFork: an endpoint that has another block where the chain's cannot be replaced any more proves nothing while another one may have that
// block, whatever else it says. If all have another one, that is the chain.
func TestAnEndpointOnAnotherFork(t *testing.T) {
	chain, fork := watchtest.New(t, 2), watchtest.New(t, 2)
	for range 20 {
		for _, c := range []*watchtest.Chain{chain, fork} {
			c.Emit(watchtest.Emitter(1), "Approved(address)", watchtest.Word(watchtest.Emitter(1)))
			c.Commit()
		}
	}
	for range 5 {
		fork.Backend.Commit()
	}
	var down atomic.Bool
	url := watchtest.Proxy(t, chain.URL, func(c *watchtest.Call) {
		if down.Load() {
			c.Status = http.StatusBadGateway
			return
		}
		c.Ask()
	})
	plan := approvals(t, url)
	plan.Chains[0].URLs = append(plan.Chains[0].URLs, secret.String(fork.URL))
	plan.Chains[0].Dev = new(bool)
	p := newClaimant(t, ledgertest.Open(t), plan, "a")
	p.head.source = &forgetful{chainReader: p.head.source, final: source.ErrNotFound} // what is final is 4 blocks deep
	p.claim(t)
	p.look(t)
	down.Store(true)
	if _, err := p.head.advance(t.Context()); !errors.Is(err, source.ErrUnavailable) {
		t.Errorf("the head: %v", err)
	}
	if _, err := p.worker.step(t.Context()); !errors.Is(err, source.ErrUnavailable) {
		t.Errorf("events: %v", err)
	}
	down.Store(false)
	watchtest.Until(t, "the first endpoint is asked again", func() (bool, error) {
		_, err := p.head.advance(t.Context())
		return err == nil, err
	})
	if p.head.best != 20 {
		t.Errorf("the highest block is %d, which is the other fork's", p.head.best)
	}
	p.step(t)
	const foreign = `SELECT COUNT(*) FROM chain_events e WHERE NOT EXISTS (SELECT 1 FROM watch_blocks b WHERE b.number = e.block_number AND b.hash = e.block_hash) AND block_number >= 16`
	if all, others := must.Get(ledgertest.One[int](t, p.db, "SELECT COUNT(*) FROM chain_events"))(t), must.Get(ledgertest.One[int](t, p.db, foreign))(t); all != 20 || others != 0 {
		t.Errorf("%d events of 20, %d of another fork", all, others)
	}
	plan.Chains[0].URLs = []secret.String{secret.String(fork.URL), secret.String(fork.WS)}
	again := newClaimant(t, p.db, plan, "b")
	again.head.source = &forgetful{chainReader: again.head.source, final: source.ErrNotFound}
	if err := again.head.load(t.Context()); !errors.Is(err, ErrReset) {
		t.Errorf("all endpoints are on the other fork: %v", err)
	}
}

// TestAnEndpointTurnsToAnotherFork: an endpoint that was compared with what is final, and serves another chain from one moment to the next, does not end the
// process while another one has what is final. Alone it does.
func TestAnEndpointTurnsToAnotherFork(t *testing.T) {
	chain, fork := watchtest.New(t, 2), watchtest.New(t, 2)
	emit := func(c *watchtest.Chain, blocks int) {
		for range blocks {
			c.Emit(watchtest.Emitter(1), "Approved(address)", watchtest.Word(watchtest.Emitter(1)))
			c.Commit()
		}
	}
	emit(chain, 20)
	emit(fork, 25)
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprintf("alone %v", alone), func(t *testing.T) {
			var turned atomic.Bool
			ask := func(c *watchtest.Call) { c.Ask() }
			nodes := []http.HandlerFunc{watchtest.Between(chain.URL, ask), watchtest.Between(fork.URL, ask)}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { nodes[bit(turned.Load())](w, r) }))
			defer server.Close()
			plan := approvals(t, server.URL)
			if !alone {
				plan.Chains[0].URLs = append(plan.Chains[0].URLs, secret.String(chain.URL))
			}
			plan.Chains[0].Dev = new(bool)
			p := newClaimant(t, ledgertest.Open(t), plan, "a")
			p.head.source = &forgetful{chainReader: p.head.source, final: source.ErrNotFound} // what is final is 4 blocks deep
			p.claim(t)
			p.look(t)
			p.look(t) // compares it with what is final
			turned.Store(true)
			_, err := p.head.advance(t.Context())
			if alone {
				if !errors.Is(err, ErrDeepFork) {
					t.Errorf("the only endpoint has another chain: %v", err)
				}
				return
			}
			if !errors.Is(err, errTurned) {
				t.Errorf("one endpoint has another chain: %v", err)
			}
			newest := chain.Commit()
			watchtest.Until(t, "the other endpoint's block is read", func() (bool, error) {
				_, err := p.head.advance(t.Context())
				return p.head.blocks[21].Hash == newest, err
			})
		})
	}
}

// standing is a chain whose head is shown, and when.
type standing struct {
	chainReader
	number uint64
	at     time.Time
}

func (s *standing) Highest() (uint64, time.Time) { return s.number, s.at }

// TestTheHeadStands: a head that five blocks should have followed is said to stand, once, and the lag grows by the clock.
func TestTheHeadStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		s := &Service{metrics: newMetrics(), log: slog.New(slog.NewTextHandler(&said, nil))}
		chain := &standing{number: 30, at: time.Now()}
		f := &headFollower{chain: Chain{ID: 5}, source: chain, head: 30, blocks: map[uint64]source.Block{20: {Number: 20, Time: 1000}, 30: {Number: 30, Time: 1120}}}
		stands := false
		look := func(after time.Duration) {
			sleep.For(t.Context(), after)
			f.compare(28) // by an endpoint that is behind
			stands = s.noteHead(t.Context(), f, stands)
		}
		look(59 * time.Second)
		if stands || said.Len() > 0 || f.best != 30 {
			t.Errorf("best %d, stands %v: %s", f.best, stands, said.String())
		}
		look(2 * time.Second)
		look(time.Minute)
		told := must.Measure(t, s.metrics.headAge, s.metrics.blockTime)
		if n := strings.Count(said.String(), "several are due"); !stands || n != 1 || told["watch_head_age_seconds 5"] != 121 || told["watch_block_seconds 5"] != 12 {
			t.Errorf("stands %v, said %d times, %v", stands, n, told)
		}
		state := chainState{head: 28, best: f.best, bestAt: f.bestAt.UnixMicro(), pace: f.blockTime().Milliseconds()}
		if lag := state.lag(29); lag != 2+10 {
			t.Errorf("who has read up to block 28 is %d behind", lag)
		}
		chain.number, chain.at = 31, time.Now()
		look(time.Second)
		if stands || !strings.Contains(said.String(), "new blocks again") || len(s.deaf.list(0)) > 0 {
			t.Errorf("stands %v: %s", stands, said.String())
		}
		f.chain.ID = 31337
		look(time.Hour)
		if stands {
			t.Error("a developer's chain owes nobody a block")
		}
	})
}

// restarted is a chain whose endpoint shows other heads than it did.
type restarted struct {
	chainReader
	head uint64 // 0: as before
}

func (r *restarted) Head(ctx context.Context) (source.Block, error) {
	if r.head == 0 {
		return r.chainReader.Head(ctx)
	}
	return source.Block{Number: r.head, Hash: hash{byte(r.head)}}, nil
}

func (r *restarted) Highest() (uint64, time.Time) {
	if r.head == 0 {
		return r.chainReader.Highest()
	}
	return r.head, time.Now()
}

// TestAHeadBelowWhatIsFinal: an endpoint that reads the chain anew, or serves another one, has a new block all the time. As long as all of them are below
// what was final nothing is read, so the head is not read, and stands; it is not a chain that is followed to its end. That a balancer
// has a node that is behind is no news of the other one either.
func TestAHeadBelowWhatIsFinal(t *testing.T) {
	c := watchtest.New(t, 2)
	for range 40 {
		c.Backend.Commit()
	}
	p := newClaimant(t, ledgertest.Open(t), approvals(t, c.URL), "a")
	chain := &restarted{chainReader: &pastless{chainReader: p.head.source, final: 30}}
	p.head.source = chain
	p.head.chain.Dev = new(false)
	p.claim(t)
	p.look(t)
	shown := p.head.bestAt
	for number := uint64(5); number < 20; number += 5 {
		chain.head = number
		if fresh, err := p.head.advance(t.Context()); fresh || !errors.Is(err, errBehind) {
			t.Errorf("head %d: %v, %v", number, fresh, err)
		}
	}
	for number := uint64(36); number < 40; number++ {
		chain.head = number
		p.head.compare(number)
	}
	if p.head.best != 40 || !p.head.bestAt.Equal(shown) {
		t.Errorf("the highest head is %d, and was shown %v after block 40", p.head.best, p.head.bestAt.Sub(shown))
	}
	chain.head = 0
	if _, err := p.head.advance(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAPlanWhoseProcessesAreGone: a process that was started with an older plan goes on when nobody lives who has the newest; one that has run since
// before does not take the fleet back.
func TestAPlanWhoseProcessesAreGone(t *testing.T) {
	c := watchtest.New(t, 3)
	db := ledgertest.Open(t)
	one, two := approvals(t, c.URL), approvals(t, c.URL)
	two.Watches[0].Addresses = []common.Address{watchtest.Emitter(2)}
	balance := func(p *claimant) bool {
		t.Helper()
		must.Do(t, p.fleet.balance(t.Context()))
		return !p.older.Load()
	}
	before := newClaimant(t, db, one, "before")
	newClaimant(t, db, two, "new")
	late := newClaimant(t, db, one, "late")
	if balance(before) || balance(late) {
		t.Fatal("the older plan counts while a process has the newest")
	}
	must.Do(t, db.Write(t.Context(), func(tx *ledger.Tx) error {
		_, err := tx.Exec(t.Context(), "UPDATE nodes SET last_heartbeat = 0 WHERE instance_id = 'new'")
		return err
	}))
	if balance(before) {
		t.Error("a process that the newest plan found running took the fleet back")
	}
	if !balance(late) || !balance(before) {
		t.Error("nobody follows anything")
	}
}

// TestAnotherChain: endpoints that serve another chain end the process, with the name of the setting.
func TestAnotherChain(t *testing.T) {
	c := watchtest.New(t, 1)
	plan := approvals(t, c.URL)
	plan.Chains[0].ID, plan.Chains[0].Setting, plan.Watches[0].Chain = 298, "CHAIN_ID", 298
	s, err := New(Config{Plan: plan, Instance: "a"}, Deps{DB: ledgertest.Open(t), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Sinks: func(string) (Sink, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context())
	if !errors.Is(err, source.ErrWrongChain) || !strings.Contains(err.Error(), "CHAIN_ID is 298") || !strings.Contains(err.Error(), "serves chain 1337") {
		t.Error(err)
	}
}

// flood is a chain of ten events in each block, which costs nothing to read.
type flood struct {
	chainReader
	contract common.Address
	event    common.Hash
}

func (f *flood) LogsOfRange(_ context.Context, from, to uint64, _ source.Query) (logs []source.Log, last source.Block, err error) {
	for n := from; n <= to; n++ {
		for i := range uint64(10) {
			logs = append(logs, source.Log{
				Address: f.contract, Topics: []common.Hash{f.event, common.BytesToHash(f.contract[:])}, Data: common.LeftPadBytes([]byte{byte(n >> 8), byte(n), byte(i)}, 32),
				BlockNumber: n, BlockHash: common.BigToHash(common.Big1), TxHash: common.Hash{byte(i)}, Index: 10*n + i, Time: 1 + n,
			})
		}
	}
	return logs, source.Block{Number: to, Hash: common.BigToHash(common.Big1)}, nil
}

// BenchmarkCatchUp decodes events of a long past and writes them to a file of SQLite, with and without tables of their own.
func BenchmarkCatchUp(b *testing.B) {
	for _, tables := range []bool{false, true} {
		b.Run(fmt.Sprintf("tables=%v", tables), func(b *testing.B) {
			db := ledgertest.Open(b)
			released := must.Get(decode.Parse("Released(address indexed to, uint256 amount)"))(b)
			contract := common.HexToAddress("0x5FbDB2315678afecb367f032d93F642f64180aa3")
			plan := Plan{
				Chains:  []Chain{{ID: 5, URLs: []secret.String{"http://127.0.0.1:1"}, MaxSpan: 1000}},
				Watches: []Watch{{Name: "w", Chain: 5, Addresses: []common.Address{contract}, Events: []*decode.Signature{released}, Sinks: []string{"book"}, Tables: tables}},
			}
			s, err := New(Config{Plan: plan, Instance: "a"}, Deps{DB: db, Log: slog.New(slog.DiscardHandler), Sinks: func(string) (Sink, error) { return nil, nil }})
			if err == nil {
				err = s.prepare(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			s.fleet.reign = "a/1"
			w := s.worker(plan.Chains[0])
			w.source = &flood{w.source, contract, released.Selector}
			must.Do(b, db.Write(b.Context(), func(tx *ledger.Tx) error {
				if _, err := tx.Exec(b.Context(), "UPDATE cursors SET owner = $1", s.fleet.owner()); err != nil {
					return err
				}
				_, err := tx.Exec(b.Context(), "INSERT INTO watch_chains (chain, genesis, head, safe, says, fork, best, best_at, pace, owner) VALUES (5, '', 1000000, 1000000, 1, 0, 1000000, 0, 0, '')")
				return err
			}))
			must.Do(b, w.load(b.Context()))
			defer w.dropAhead()
			events := 0
			for b.Loop() {
				before := w.lowest()
				must.Get(w.step(b.Context()))(b)
				events += int(10 * (w.lowest() - before))
			}
			rows := events
			if tables {
				rows, err = ledgertest.One[int](b, db, "SELECT COUNT(*) FROM event_w_released")
			}
			if err != nil || rows != events {
				b.Errorf("%d rows of %d events, %v", rows, events, err)
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// TestPace counts the questions for a chain whose blocks come every two seconds, and how late each block is seen.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 2 * time.Second
		start := time.Now()
		var p pace
		var seen, asked int
		var latest time.Duration
		for seen < 60 {
			sleep.For(t.Context(), p.wait())
			asked++
			block := int(time.Since(start) / interval)
			if block == seen {
				continue
			}
			seen = block
			if block == 20 { // it knows the pace by now
				asked, latest = 0, 0
			}
			latest = max(latest, time.Since(start)-time.Duration(block)*interval)
			p.seen(uint64(block))
		}
		if latest > 60*time.Millisecond {
			t.Errorf("a block was seen %v late", latest)
		}
		if each := float64(asked) / 40; each > 6 {
			t.Errorf("%.1f questions for each block", each)
		}
		t.Logf("%.1f questions for each block, %v late at most", float64(asked)/40, latest)
	})
}

// TestIdlePace counts the questions for a chain that has stopped making blocks: ten a second if they came at once, one in two seconds if they came
// every twelve, so that with those for what is final and for the blocks there is less than one call a second; and as few as the plan wants.
func TestIdlePace(t *testing.T) {
	for _, c := range []struct {
		interval, least time.Duration
		most            int
	}{{30 * time.Millisecond, 0, 105}, {12 * time.Second, 0, 6}, {30 * time.Millisecond, 5 * time.Second, 2}} {
		interval, most := c.interval, c.most
		synctest.Test(t, func(t *testing.T) {
			p := pace{least: c.least}
			for n := range 60 {
				p.seen(uint64(n))
				sleep.For(t.Context(), interval)
			}
			p.seen(60)
			asked := 0
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); asked++ {
				sleep.For(t.Context(), p.wait())
			}
			if asked > most || p.idle() > max(2*time.Second, c.least) { // the latter where blocks are announced
				t.Errorf("%d questions in ten seconds of a chain with blocks every %v", asked, interval)
			}
		})
	}
}
