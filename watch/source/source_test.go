package source_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
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
	c.ChainID = cmp.Or(c.ChainID, watchtest.ChainID)
	c.Timeout = cmp.Or(c.Timeout, time.Minute) // a good endpoint answers in time on any machine
	deps.Log = cmp.Or(deps.Log, slog.New(slog.DiscardHandler))
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

// TestLogsThatAreNoAnswer: two logs of a block have different places in it, every log has one, and none of a block that stands is removed. Logs that say
// otherwise are no answer: none of them may be passed over for it.
func TestLogsThatAreNoAnswer(t *testing.T) {
	c := newChain(t)
	c.emit(emitter, ping, pong) // 1
	c.emit(emitter2, ping)      // 2
	for what, liar := range map[string]spoiler{"one place for two": {within: true}, "no place": {placeless: true}, "removed": {taken: true}} {
		url := liar.proxy(t, c.URL)
		for _, alone := range []bool{true, false} {
			cfg := source.Config{URLs: []string{url}}
			if !alone {
				cfg.URLs = append(cfg.URLs, c.URL)
			}
			p := pool(t, cfg, source.Deps{})
			b := must.Get(p.Block(t.Context(), 1))(t)
			ofBlock, err1 := p.LogsOfBlock(t.Context(), b, following(emitter))
			ofRange, _, err2 := p.LogsOfRange(t.Context(), 1, 2, following(emitter))
			switch {
			case alone && (!errors.Is(err1, source.ErrUnavailable) || !errors.Is(err2, source.ErrUnavailable)):
				t.Errorf("%s, alone: %d and %d logs, %v, %v", what, len(ofBlock), len(ofRange), err1, err2)
			case !alone && (errors.Join(err1, err2) != nil || len(ofBlock) != 2 || len(ofRange) != 2):
				t.Errorf("%s, and an honest endpoint: %d and %d logs, %v, %v", what, len(ofBlock), len(ofRange), err1, err2)
			}
		}
	}
	p := pool(t, source.Config{URLs: []string{spoiler{ghosts: true}.proxy(t, c.URL)}}, source.Deps{})
	if logs, _, err := p.LogsOfRange(t.Context(), 1, 2, following(emitter)); err != nil || len(logs) != 2 {
		t.Errorf("with those of replaced blocks: %d logs, %v", len(logs), err)
	}
}

// TestLogsAreCutOff: an endpoint that leaves out what is beyond its limit, and says nothing, is asked for fewer blocks.
func TestLogsAreCutOff(t *testing.T) {
	c := newChain(t)
	for range 3 {
		c.EmitMany(emitter, 60, "Ping()", common.Hash{})
		c.Commit()
	}
	c.Commit() // 4
	for name, spoil := range map[string]spoiler{"the last ones": {cut: 100}, "the first ones": {cut: -100}, "honest": {}} {
		p := pool(t, source.Config{URLs: []string{spoil.proxy(t, c.URL)}}, source.Deps{})
		n := 0
		for from := uint64(0); from <= 4; {
			logs, last, err := p.LogsOfRange(t.Context(), from, 4, following(emitter))
			if err != nil {
				t.Fatal(err)
			}
			n, from = n+len(logs), last.Number+1
		}
		if n != 180 {
			t.Errorf("%s: %d logs of 180", name, n)
		}
	}
}

// TestBlockIsCutOff: where the number of a block's logs may be a limit, the block's receipts tell whether it is one. Of an endpoint that has none, the logs are
// what it says.
func TestBlockIsCutOff(t *testing.T) {
	c := newChain(t)
	c.EmitMany(emitter, 70, "Ping()", common.Hash{})
	c.EmitMany(emitter, 70, "Ping()", common.Hash{})
	c.send(emitter2, ping)
	c.Commit() // 1
	c.EmitMany(emitter, 100, "Ping()", common.Hash{})
	c.Commit() // 2
	for name, of := range map[string]struct {
		spoil spoiler
		want  int // of the first block
	}{
		"the last ones":                            {spoiler{cut: 100}, 140},
		"the first ones":                           {spoiler{cut: -100}, 140},
		"and has no method for a whole block":      {spoiler{cut: 100, oneByOne: true}, 140},
		"and has no receipts":                      {spoiler{cut: 100, receiptless: true}, 100},
		"and refuses the method as if for a limit": {spoiler{cut: 100, stingy: true}, 100},
		"honest": {spoiler{}, 140},
	} {
		p := pool(t, source.Config{URLs: []string{of.spoil.proxy(t, c.URL)}}, source.Deps{})
		for number, want := range map[uint64]int{1: of.want, 2: 100} {
			var ofBlock, ofRange []source.Log
			watchtest.Until(t, "the logs", func() (bool, error) {
				b, err := p.Block(t.Context(), number)
				if err == nil {
					ofBlock, err = p.LogsOfBlock(t.Context(), b, following(emitter))
				}
				if err == nil {
					ofRange, _, err = p.LogsOfRange(t.Context(), number, number, following(emitter))
				}
				if err != nil && !of.spoil.stingy {
					t.Fatal(name, err)
				}
				return err == nil, err
			})
			if len(ofBlock) != want || len(ofRange) != want {
				t.Errorf("%s, block %d: %d and %d logs of %d", name, number, len(ofBlock), len(ofRange), want)
			}
		}
	}
}

// TestOneBlockIsLeftOut: an endpoint has logs of a range, and leaves those of one block out. The blocks' filters give it away, if the configuration says that
// they are asked for; then another endpoint's answer counts, or there is none.
func TestOneBlockIsLeftOut(t *testing.T) {
	c := newChain(t)
	for range 4 {
		c.emit(emitter, ping)
	}
	liar := spoiler{forgets: 2}.proxy(t, c.URL)
	for what, of := range map[string]struct {
		urls    []string
		headers bool
		want    int
		doubt   bool
	}{
		"alone": {[]string{liar}, true, 0, true},
		"alone, and the headers aren't asked for": {[]string{liar}, false, 3, false}, // docs/WATCH.md says so
		"and an honest endpoint":                  {[]string{liar, c.URL}, true, 4, false},
		"honest":                                  {[]string{c.URL}, true, 4, false},
	} {
		p := pool(t, source.Config{URLs: of.urls, Headers: of.headers}, source.Deps{})
		if logs, _, err := p.LogsOfRange(t.Context(), 1, 4, following(emitter)); len(logs) != of.want || errors.Is(err, source.ErrDoubt) != of.doubt {
			t.Errorf("%s: %d logs of %d, %v", what, len(logs), of.want, err)
		}
	}
}

// TestAnotherFork: an endpoint that has another block where the chain's cannot be replaced any more is not asked.
func TestAnotherFork(t *testing.T) {
	c, fork := newChain(t), newChain(t)
	for range 3 {
		c.emit(emitter, ping)
		fork.emit(emitter, ping, pong)
	}
	p := pool(t, source.Config{URLs: []string{fork.URL, c.URL}}, source.Deps{})
	p.Anchor(must.Get(pool(t, source.Config{URLs: []string{c.URL}}, source.Deps{}).Block(t.Context(), 2))(t))
	p.Anchor(source.Block{Number: 1, Hash: common.Hash{1}}) // an older one says no more
	if logs, _, err := p.LogsOfRange(t.Context(), 1, 3, following(emitter)); err != nil || len(logs) != 3 {
		t.Errorf("%d logs, %v", len(logs), err)
	}
}

// TestAnotherEndpointFirst: who reads blocks once more hears another endpoint than the first time, if there is one that does not rest.
func TestAnotherEndpointFirst(t *testing.T) {
	c := newChain(t)
	for range 4 {
		c.emit(emitter, ping)
	}
	liar := spoiler{forgets: 2}.proxy(t, c.URL)
	again := following(emitter)
	again.Again = true
	for what, of := range map[string]struct {
		second string
		want   int
	}{"well": {c.URL, 4}, "in trouble": {spoiler{status: 502}.proxy(t, c.URL), 3}} {
		p := pool(t, source.Config{URLs: []string{liar, of.second}}, source.Deps{})
		for q, want := range map[*source.Query]int{new(following(emitter)): 3, &again: of.want} {
			if logs, _, err := p.LogsOfRange(t.Context(), 1, 4, *q); err != nil || len(logs) != want {
				t.Errorf("%s, again %v: %d logs of %d, %v", what, q.Again, len(logs), want, err)
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

// Whatever is asked, an endpoint that accepts the question and says nothing has the next one asked; and whoever has an empty answer that its block
// can explain does not wait for a second opinion of such an endpoint. The test would not end otherwise.
func TestSilentEndpoint(t *testing.T) {
	c := newChain(t)
	for range 3 {
		c.emit(emitter, ping)
	}
	silent := func(t *testing.T) string { return spoiler{hang: true}.proxy(t, c.URL) }
	empty := func(t *testing.T) string { return spoiler{once: &atomic.Bool{}}.proxy(t, c.URL) } // its first list of logs
	good := func(*testing.T) string { return c.URL }
	at := must.Get(pool(t, source.Config{URLs: []string{c.URL}}, source.Deps{}).Block(t.Context(), 2))(t)
	type urls []func(*testing.T) string
	for name, row := range map[string]struct {
		urls urls
		ask  func(t *testing.T, p *source.Pool) (found int, err error)
		want int
	}{
		"a block": {urls{silent, good}, func(t *testing.T, p *source.Pool) (int, error) {
			b, err := p.Block(t.Context(), 2)
			return int(b.Number), err
		}, 2},
		"transactions": {urls{silent, good}, func(t *testing.T, p *source.Pool) (int, error) {
			list, err := p.TransactionsOfRange(t.Context(), 1, 3, func(*source.Transaction) bool { return true })
			return len(list), err
		}, 3},
		"logs of a block":                    {urls{silent, good}, logsOf(at), 1},
		"logs of a range":                    {urls{silent, good}, logsUpTo(3), 3},
		"a second opinion of a block":        {urls{empty, silent}, logsOf(at), 1},
		"the other opinion, asked first":     {urls{silent, empty}, logsOf(at), 1},
		"the third one's opinion of a range": {urls{empty, silent, good}, logsUpTo(3), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := source.Config{Timeout: time.Hour}
			for _, url := range row.urls {
				cfg.URLs = append(cfg.URLs, url(t))
			}
			if found, err := row.ask(t, pool(t, cfg, source.Deps{})); err != nil || found != row.want {
				t.Errorf("%d, %v; want %d", found, err, row.want)
			}
		})
	}
}

func logsOf(b source.Block) func(*testing.T, *source.Pool) (int, error) {
	return func(t *testing.T, p *source.Pool) (int, error) {
		logs, err := p.LogsOfBlock(t.Context(), b, following(emitter))
		return len(logs), err
	}
}

func logsUpTo(last uint64) func(*testing.T, *source.Pool) (int, error) {
	return func(t *testing.T, p *source.Pool) (int, error) {
		logs, _, err := p.LogsOfRange(t.Context(), 1, last, following(emitter))
		return len(logs), err
	}
}

// Nothing comes any more through a WebSocket, and nobody says so. If there is nobody else who can answer, it is dialled again.
func TestHalfOpenWebSocket(t *testing.T) {
	c := newChain(t)
	c.emit(emitter, ping)
	for name, url := range map[string]string{"another endpoint answers": c.URL, "nobody else does": spoiler{status: http.StatusBadGateway}.proxy(t, c.URL)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := watchtest.NewLine(t, c.URL)
			p := pool(t, source.Config{Timeout: time.Hour, URLs: []string{"ws://" + line.Addr, url}}, source.Deps{})
			at, err := p.Block(t.Context(), 1)
			if err != nil || line.Hang() == 0 {
				t.Fatalf("nothing went through the WebSocket: %v", err)
			}
			if found, err := logsOf(at)(t, p); err != nil || found != 1 {
				t.Errorf("%d logs, %v", found, err)
			}
			if url != c.URL {
				return
			}
			line.Hang()
			if _, err := p.Block(t.Context(), 99); !errors.Is(err, source.ErrNotFound) {
				t.Errorf("a block that nobody has: %v", err)
			}
		})
	}
}

// wholeTransactions holds what is read of blocks as a whole, by hash and by number, with what came of each.
func wholeTransactions(t *testing.T, c served) {
	p := poolOf(t, c, source.Deps{})
	before := headOf(t, p).Number
	c.emit(emitter, ping, pong)
	c.emit(emitter)
	c.emit(emitter2, ping)
	head := headOf(t, p)
	all := func(*source.Transaction) bool { return true }
	toFirst := func(tx *source.Transaction) bool { return tx.To != nil && *tx.To == emitter }
	list, err := p.TransactionsOfRange(t.Context(), before+1, head.Number, toFirst)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, event := range []common.Hash{ping, pong} {
		tx := &list[i]
		if tx.Index != uint64(i) || !bytes.Equal(tx.Input, logging(event)) || tx.BlockNumber != before+1 || tx.From != c.sender() || tx.Failed || tx.GasUsed == 0 || tx.Value.Sign() != 0 || tx.Time == 0 || tx.Hash == (common.Hash{}) {
			t.Errorf("%+v", tx)
		}
	}
	list, err = p.TransactionsOfBlock(t.Context(), head, all)
	if err != nil || len(list) != 1 || list[0].BlockHash != head.Hash || *list[0].To != emitter2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := p.TransactionsOfBlock(t.Context(), source.Block{Number: head.Number, Hash: common.Hash{1}}, all); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("an unknown block: %v", err)
	}
	if _, err := p.TransactionsOfRange(t.Context(), head.Number, head.Number+1, all); !errors.Is(err, source.ErrNotFound) {
		t.Errorf("a block that is not there yet: %v", err)
	}
}

// TestTransactionsOfALiar: a block that used gas and names no transaction, a receipt that is not there yet, and one that does not say whether the transaction failed, prove
// nothing; another endpoint is asked.
func TestTransactionsOfALiar(t *testing.T) {
	c := newChain(t)
	c.emit(emitter, ping)
	for what, liar := range map[string]spoiler{"no transactions": {callless: true}, "no receipts": {receiptless: true}, "no status": {statusless: true}} {
		all := func(*source.Transaction) bool { return true }
		url := liar.proxy(t, c.URL)
		alone := pool(t, source.Config{URLs: []string{url}}, source.Deps{})
		if list, err := alone.TransactionsOfBlock(t.Context(), headOf(t, alone), all); err == nil {
			t.Errorf("%s: %+v", what, list)
		}
		both := pool(t, source.Config{URLs: []string{url, c.URL}}, source.Deps{})
		list, err := both.TransactionsOfBlock(t.Context(), headOf(t, both), all)
		if err != nil || len(list) != 1 {
			t.Errorf("%s, and an honest endpoint: %+v, %v", what, list, err)
		}
	}
}

// TestNewHeadsAreAnnounced follows a WebSocket endpoint's new heads over a line that is cut: it is known that they are not announced
// meanwhile, and they are again when the line is mended. The endpoint answers calls, too.
func TestNewHeadsAreAnnounced(t *testing.T) {
	c := watchtest.New(t, 1)
	line := watchtest.NewLine(t, c.WS)
	p := pool(t, source.Config{ChainID: watchtest.ChainID, URLs: []string{"ws://" + line.Addr}}, source.Deps{})
	woken := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Announce(ctx, func() { woken <- struct{}{} })
	}()
	isAnnounced := func(want bool) {
		t.Helper()
		watchtest.Until(t, fmt.Sprintf("announced: %v", want), func() (bool, error) { return p.Announced() == want, nil })
	}
	heads := func(want uint64) {
		t.Helper()
		watchtest.Until(t, "the head", func() (bool, error) {
			head, err := p.Head(t.Context())
			return head.Number == want, errors.Join(err, fmt.Errorf("head %d", head.Number))
		})
	}
	isAnnounced(true)
	<-woken // the subscription itself
	c.Commit()
	<-woken
	heads(1)
	line.Cut()
	isAnnounced(false)
	c.Commit()
	line.Mend()
	isAnnounced(true)
	<-woken // what came meanwhile may have been missed
	heads(2)
	c.Commit()
	<-woken
	cancel()
	<-ended
	isAnnounced(false)
}
