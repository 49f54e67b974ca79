package watch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/watch/decode"
	"lockstep/watch/source"
	"lockstep/watch/watchtest"
)

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
	approved := must.Get(decode.Parse("Approved(address)"))(t)
	p := newClaimant(t, db, Plan{
		Chains:  []Chain{{ID: watchtest.ChainID, URLs: []secret.String{secret.String(c.URL)}, Finality: 4, MaxSpan: 100}},
		Watches: []Watch{{Name: "w", Chain: watchtest.ChainID, Addresses: []common.Address{watchtest.Emitter(1)}, Events: []*decode.Signature{approved}, Sinks: []string{"book"}}},
	}, "a")
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
