package source_test

import (
	"context"
	"errors"
	"log/slog"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
	"lockstep/watch/source"
	"lockstep/watch/watchtest"
)

var (
	emitter  = watchtest.Emitter(1)
	emitter2 = watchtest.Emitter(2)
	ping     = crypto.Keccak256Hash([]byte("Ping()"))
	pong     = crypto.Keccak256Hash([]byte("Pong()"))
)

// chain is a node whose contracts log events without arguments.
type chain struct{ *watchtest.Chain }

func newChain(t *testing.T) *chain { return &chain{watchtest.New(t, 3)} }

// emit puts a log of each given event into one new block.
func (c *chain) emit(to common.Address, events ...common.Hash) {
	for _, e := range events {
		c.send(to, e)
	}
	c.Commit()
}

// emitAll puts a log of each given contract into one new block.
func (c *chain) emitAll(events map[common.Address]common.Hash) {
	for to, e := range events {
		c.send(to, e)
	}
	c.Commit()
}

func (c *chain) send(to common.Address, e common.Hash) {
	c.Transact(to, 100_000, new(big.Int), logging(e))
}

// logging is the call data that makes a contract log an event; the topic behind the first is zero.
func logging(e common.Hash) []byte { return append(e[:], make([]byte, 32)...) }

func pool(t *testing.T, c source.Config, deps source.Deps) *source.Pool {
	t.Helper()
	if c.ChainID == 0 {
		c.ChainID = watchtest.ChainID
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute // a good endpoint answers in time on any machine
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	p := must.Get(source.New(c, deps))(t)
	t.Cleanup(p.Close)
	return p
}

func following(addresses ...common.Address) source.Query {
	q := source.Query{Addresses: map[common.Address]struct{}{}, Events: []common.Hash{ping, pong}}
	for _, a := range addresses {
		q.Addresses[a] = struct{}{}
	}
	return q
}

// TestOneOfThreeEndpoints has a good endpoint behind two bad ones: nothing may be missed whatever they do.
func TestOneOfThreeEndpoints(t *testing.T) {
	c := newChain(t)
	for range 5 {
		c.emit(emitter, ping)
	}
	good := c.URL
	for name, spoil := range map[string]spoiler{
		"answers empty":              {empty: true},
		"lags":                       {lag: 3},
		"limits ranges":              {refuse: "query exceeds max block range 1", above: 1},
		"limits in other words":      {refuse: "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range", above: 1},
		"limits in a code":           {refuse: "limit exceeded", above: 1},
		"limits by results":          {refuse: "query returned more than 10000 results", above: 1},
		"limits in a way of its own": {refuse: "bitte weniger", above: 1},
		"refuses everything":         {refuse: "no", above: 0},
		"limits by status":           {status: 413, above: 1},
		"is a broken proxy":          {status: 502},
		"is busy":                    {status: 429},
		"serves another chain":       {chain: 5},
		"never answers":              {hang: true},
		"sends garbage":              {garbage: true},
		"sends without end":          {endless: true},
		"knows no batches":           {unbatched: true},
		"names logs twice":           {double: true},
		"has no filters":             {bloomless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			urls := []string{spoil.proxy(t, good), spoil.proxy(t, good), good}
			if spoil.empty { // two liars who agree are believed
				urls[1] = good
			}
			cfg := source.Config{URLs: urls, MaxResponse: 1 << 20}
			if spoil.hang {
				cfg.Timeout = 2 * time.Second
			}
			p := pool(t, cfg, source.Deps{})
			// answered asks until there is an answer: on a busy machine the good endpoint, too, may be late where the time is short.
			answered := func(what string, ask func() error) {
				t.Helper()
				watchtest.Until(t, what, func() (bool, error) {
					err := ask()
					if err != nil && (!spoil.hang || !errors.Is(err, source.ErrUnavailable)) {
						t.Fatal(err)
					}
					return err == nil, err
				})
			}
			var all []source.Log
			for from := uint64(1); from <= 5; {
				var logs []source.Log
				var last source.Block
				answered("the logs of a range", func() (err error) {
					logs, last, err = p.LogsOfRange(t.Context(), from, 5, following(emitter))
					return err
				})
				all = append(all, logs...)
				from = last.Number + 1
			}
			if len(all) != 5 {
				t.Errorf("range: %d logs of 5", len(all))
			}
			var last source.Block
			var logs []source.Log
			answered("a block", func() (err error) { last, err = p.Block(t.Context(), 5); return err })
			answered("the logs of a block", func() (err error) {
				logs, err = p.LogsOfBlock(t.Context(), last, following(emitter))
				return err
			})
			if len(logs) != 1 {
				t.Errorf("block: %d logs of 1", len(logs))
			}
		})
	}
}

// TestDoubtAlone: where a block's filter names what is followed, one endpoint's empty list is believed only if all logs of the block make
// up the filter.
func TestDoubtAlone(t *testing.T) {
	c := newChain(t)
	c.emit(emitter, ping)
	liar := pool(t, source.Config{URLs: []string{spoiler{empty: true}.proxy(t, c.URL)}}, source.Deps{})
	b, err := liar.Block(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if logs, err := liar.LogsOfBlock(t.Context(), b, following(emitter)); !errors.Is(err, source.ErrUnavailable) {
		t.Errorf("%d logs, %v", len(logs), err)
	}
	mixed := newChain(t) // its filter names the contract and the event, of two logs, neither of which is meant
	mixed.emitAll(map[common.Address]common.Hash{emitter: {1}, emitter2: ping})
	for name, url := range map[string]string{"honest": mixed.URL, "of a chain with logs that no filter names": (spoiler{more: true}).proxy(t, mixed.URL)} {
		honest := pool(t, source.Config{URLs: []string{url}}, source.Deps{})
		if b, err = honest.Block(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if logs, err := honest.LogsOfBlock(t.Context(), b, following(emitter)); err != nil || len(logs) != 0 {
			t.Errorf("%s: a filter that names both by chance: %d logs, %v", name, len(logs), err)
		}
	}
}

// TestDoubtAloneOfARange: the last block of a range comes with its filter. Where that names what is followed and the answer does not, the block
// has to explain it; a range without logs is asked for twice where nobody else can be asked.
func TestDoubtAloneOfARange(t *testing.T) {
	c := newChain(t)
	c.emit(emitter, ping) // 1
	liar := pool(t, source.Config{URLs: []string{spoiler{empty: true}.proxy(t, c.URL)}}, source.Deps{})
	if logs, _, err := liar.LogsOfRange(t.Context(), 0, 1, following(emitter)); !errors.Is(err, source.ErrDoubt) {
		t.Errorf("%d logs, %v", len(logs), err)
	}
	c.emit(emitter2, ping) // 2
	flaky := pool(t, source.Config{URLs: []string{spoiler{once: &atomic.Bool{}}.proxy(t, c.URL)}}, source.Deps{})
	if logs, last, err := flaky.LogsOfRange(t.Context(), 0, 2, following(emitter)); err != nil || len(logs) != 1 || last.Number != 2 {
		t.Errorf("%d logs up to block %d, %v", len(logs), last.Number, err)
	}
}

// TestOldBlocksAlone: an endpoint that nobody can be asked beside says twice that a range of blocks has nothing. If it has forgotten what blocks of that
// age have logged, the last block gives it away, whoever's log that is; if it leaves out only what is asked for, the headers do.
func TestOldBlocksAlone(t *testing.T) {
	c := newChain(t)
	c.emit(emitter, ping)  // 1
	c.emit(emitter2, ping) // 2
	for _, of := range []struct {
		what    string
		spoil   spoiler
		headers bool
		doubt   bool
	}{
		{"it has forgotten old logs", spoiler{empty: true}, false, true},
		{"it leaves logs out", spoiler{mute: true}, true, true},
		{"it leaves logs out, and the headers aren't asked for", spoiler{mute: true}, false, false}, // docs/WATCH.md says so
	} {
		p := pool(t, source.Config{URLs: []string{of.spoil.proxy(t, c.URL)}, Headers: of.headers}, source.Deps{})
		if logs, _, err := p.LogsOfRange(t.Context(), 0, 2, following(emitter)); errors.Is(err, source.ErrDoubt) != of.doubt || len(logs) > 0 {
			t.Errorf("%s: %d logs, %v", of.what, len(logs), err)
		}
	}
	nothing := source.Query{Addresses: map[common.Address]struct{}{{9}: {}}, Events: []common.Hash{ping}}
	for _, spoil := range []spoiler{{}, {bloomless: true}} {
		p := pool(t, source.Config{URLs: []string{spoil.proxy(t, c.URL)}, Headers: true}, source.Deps{})
		if logs, last, err := p.LogsOfRange(t.Context(), 0, 2, nothing); err != nil || len(logs) > 0 || last.Number != 2 {
			t.Errorf("honest: %d logs to %d, %v", len(logs), last.Number, err)
		}
	}
}

// TestAnotherBlock: a log names the block that it is in, and a block the hash or the number that it was asked for by. One that does not is no answer,
// whoever else can be asked; those of a range carry the hashes and the times of their blocks.
func TestAnotherBlock(t *testing.T) {
	c := newChain(t)
	for range 3 {
		c.emit(emitter, ping)
		c.emit(emitter2, ping) // so that the last block of the range has no log that is asked for
	}
	honest := pool(t, source.Config{URLs: []string{c.URL}}, source.Deps{})
	for what, liar := range map[string]spoiler{"logs": {elsewhere: true}, "headers": {astray: true}} {
		url := liar.proxy(t, c.URL)
		for _, of := range []struct {
			urls  []string
			alone bool
		}{{[]string{url}, true}, {[]string{url, c.URL}, false}} {
			p := pool(t, source.Config{URLs: of.urls}, source.Deps{})
			logs, last, err := p.LogsOfRange(t.Context(), 1, 6, following(emitter))
			switch {
			case of.alone && (err == nil || len(logs) > 0):
				t.Errorf("%s, alone: %+v, %v", what, logs, err)
			case !of.alone && (err != nil || len(logs) != 3 || last.Number != 6):
				t.Errorf("%s, and an honest endpoint: %+v to %d, %v", what, logs, last.Number, err)
			}
			for _, l := range logs {
				if b, err := honest.Block(t.Context(), l.BlockNumber); err != nil || l.BlockHash != b.Hash || l.Time != b.Time {
					t.Errorf("%s: %+v, the block is %+v, %v", what, l, b, err)
				}
			}
			if !liar.astray {
				continue
			}
			want := must.Get(honest.Block(t.Context(), 6))(t)
			byNumber, err1 := p.Block(t.Context(), 6)
			byHash, err2 := p.BlockByHash(t.Context(), want.Hash)
			_, err3 := p.LogsOfBlock(t.Context(), want, following(emitter2))
			if of.alone && (err1 == nil || err2 == nil || err3 == nil) {
				t.Errorf("alone: %+v, %v; %+v, %v; %v", byNumber, err1, byHash, err2, err3)
			}
			if !of.alone && (errors.Join(err1, err2, err3) != nil || byNumber != want || byHash != want) {
				t.Errorf("and an honest endpoint: %+v, %v; %+v, %v; %v", byNumber, err1, byHash, err2, err3)
			}
		}
	}
}

// TestAnotherEndpointIsAhead: what another endpoint showed three seconds ago is the head.
func TestAnotherEndpointIsAhead(t *testing.T) {
	t.Parallel()
	c := newChain(t)
	for range 6 {
		c.Commit()
	}
	p := pool(t, source.Config{URLs: []string{spoiler{lag: 5}.proxy(t, c.URL), c.URL}}, source.Deps{})
	watchtest.Until(t, "the head of the one that is ahead", func() (bool, error) {
		head, err := p.Head(t.Context())
		return head.Number == 6, err
	})
}

func TestCancelledContext(t *testing.T) {
	c := newChain(t)
	p := pool(t, source.Config{URLs: []string{c.URL}}, source.Deps{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Head(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
