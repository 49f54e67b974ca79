package watch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

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

func gauge(t *testing.T, g prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	must.Do(t, g.Write(&m))
	return m.GetGauge().GetValue()
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
	if lag := gauge(t, p.metrics.lag.WithLabelValues(chainLabel(watchtest.ChainID))); stored() != 1 || lag != blocks-final-walk {
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
	if lag := gauge(t, p.metrics.lag.WithLabelValues(chainLabel(watchtest.ChainID))); p.head.head != blocks || stored() != 2 || lag != 0 {
		t.Errorf("in the end the head is %d, there are %d events, and the lag is %v", p.head.head, stored(), lag)
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
		age, pace := s.metrics.headAge.WithLabelValues("5"), s.metrics.blockTime.WithLabelValues("5")
		if n := strings.Count(said.String(), "several are due"); !stands || n != 1 || gauge(t, age) != 121 || gauge(t, pace) != 12 {
			t.Errorf("stands %v, said %d times, age %v, pace %v", stands, n, gauge(t, age), gauge(t, pace))
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
