package watch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/secret"
	"lockstep/watch"
	"lockstep/watch/decode"
	"lockstep/watch/watchtest"
)

// TestEventBeforeItsContractIsAnnounced has a contract log in the transaction that makes it, before the factory does.
func TestEventBeforeItsContractIsAnnounced(t *testing.T) {
	c := watchtest.New(t, 3)
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, escrows(t, c.URL), "a", b)
	c.Commit() // 1
	c.EmitPair(watchtest.Emitter(1), watchtest.Input(released, watchtest.Word(common.Address{2}), watchtest.Number(7)),
		watchtest.Emitter(0), watchtest.Input(deployed, watchtest.Word(watchtest.Emitter(1)), watchtest.Number(9)))
	c.Commit() // 2
	want(t, b, "+"+short(1)+" Released@2", "+"+short(0)+" Deployed@2")
}

// tally is how many JSON-RPC calls an endpoint was sent, the items of batches one by one.
type tally struct {
	looks atomic.Int64 // that ask for the newest block: how many there are is a matter of time, not of blocks
	reads atomic.Int64 // all others
}

// counter is a proxy that counts the calls it forwards.
func counter(t *testing.T, target string) (string, *tally) {
	t.Helper()
	var calls tally
	u := must.Get(url.Parse(target))(t)
	proxy := httputil.NewSingleHostReverseProxy(u)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		looks := bytes.Count(body, []byte(`"latest"`)) + bytes.Count(body, []byte(`"finalized"`))
		calls.looks.Add(int64(looks))
		calls.reads.Add(int64(bytes.Count(body, []byte(`"method"`)) - looks))
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, &calls
}

// TestTenThousandContracts has three processes follow 10,000 contracts of a factory. The rows equal what one scan of the chain finds,
// and a block costs the endpoint few calls.
func TestTenThousandContracts(t *testing.T) {
	const children, blocks = 10_000 / slowdown, 10
	c := watchtest.New(t, children+1)
	for n := 1; n <= children; n++ {
		deploy(c, n, int64(n))
		if n%500 == 0 || n == children {
			c.Commit()
		}
	}
	endpoint, calls := counter(t, c.URL)
	db, b := ledgertest.Open(t), &book{t: t}
	plan := escrows(t, endpoint)
	for _, name := range []string{"a", "b", "c"} {
		start(t, db, plan, name, b)
	}
	caughtUp := func(total int) {
		watchtest.Until(t, "all events", func() (bool, error) {
			head, err := c.Client().BlockNumber(t.Context())
			if err != nil {
				return false, err
			}
			stored, err := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM processed_events")
			behind, again := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM escrow_registry WHERE last_monitored_block < $1", int64(head))
			err = errors.Join(err, again)
			return err == nil && stored >= total && behind == 0, errors.Join(fmt.Errorf("%d of %d stored, %d contracts are behind", stored, total, behind), err)
		})
	}
	caughtUp(children)
	watchtest.Until(t, "each process has its units", func() (bool, error) {
		owned, err := ledgertest.One[int](t, db, "SELECT COUNT(DISTINCT owner) FROM cursors")
		nobodys, again := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM cursors WHERE owner = ''")
		err = errors.Join(err, again)
		return err == nil && owned == 3 && nobodys == 0, errors.Join(fmt.Errorf("%d owners, %d units without one", owned, nobodys), err)
	})
	total, looks, reads := children, calls.looks.Load(), calls.reads.Load()
	for block := range blocks {
		for n := range 20 {
			approve(c, 1+(block*997+n*499)%children)
		}
		c.Commit()
		total += 20
		caughtUp(total)
	}
	// Each of three processes reads a block once, with two lists of addresses at most and one header: 9 calls. No block costs more,
	// however long it takes. A query that names the events alone needs one call instead of two.
	each := float64(calls.reads.Load()-reads) / blocks
	t.Logf("%.1f calls for each block, and %.1f looks for the next one", each, float64(calls.looks.Load()-looks)/blocks)
	if each > 9 {
		t.Errorf("%.1f calls for each block", each)
	}
	logs := must.Get(c.Client().FilterLogs(t.Context(), ethereum.FilterQuery{FromBlock: new(big.Int)}))(t)
	want := map[string][]string{}
	for _, l := range logs {
		want[l.Address.Hex()] = append(want[l.Address.Hex()], fmt.Sprintf("%s:%d", strings.ToLower(l.TxHash.Hex()), l.Index))
	}
	got := map[string][]string{}
	must.Do(t, db.Read(t.Context(), func(tx *ledger.Tx) error {
		return tx.Query(t.Context(), "SELECT contract_address, event_id FROM processed_events ORDER BY block_number, event_id", nil, func(r ledger.Row) error {
			var address, id string
			err := r.Scan(&address, &id)
			got[address] = append(got[address], id)
			return err
		})
	}))
	for _, list := range []map[string][]string{want, got} {
		for address := range maps.Keys(list) {
			slices.Sort(list[address])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// silenced is an endpoint that names no logs while it is told not to.
func silenced(t *testing.T, node string, silent *atomic.Bool) string {
	return watchtest.Proxy(t, node, func(c *watchtest.Call) {
		if c.Ask(); c.Method == "eth_getLogs" && silent.Load() {
			c.Say([]int{})
		}
	})
}

// TestADoubtIsSeenWhileItLasts has the only endpoint lie again and again: first about a range, then about a new block. As long as the filter of a block names what
// is followed and nobody explains it, readiness, the metric and the log say so, and no cursor moves; then the event is there, once.
func TestADoubtIsSeenWhileItLasts(t *testing.T) {
	c := watchtest.New(t, 2)
	var silent atomic.Bool
	silent.Store(true)
	db, b, log := ledgertest.Open(t), &book{t: t}, new(proctest.Tail)
	plan := escrows(t, silenced(t, c.URL, &silent))
	plan.Watches = []watch.Watch{given(t, "w", 1)}
	var first []string // some of them are final and read as a range, whichever of them is its end
	for n := 1; n <= 33; n++ {
		approve(c, 1)
		c.Commit()
		first = append(first, fmt.Sprintf("+%s Approved@%d", short(1), n))
	}
	s := must.Get(watch.New(watch.Config{Plan: plan, Instance: "a", LeaseTTL: 2 * time.Minute}, watch.Deps{
		DB: db, Log: slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)), Sinks: func(string) (watch.Sink, error) { return b, nil },
	}))(t)
	doubts := func() float64 { return must.Measure(t, s.Collectors()...).Of("watch_doubts_total") }
	must.Run(t, s.Run)
	const says = "an endpoint of chain 1337 leaves out events that the filter of their block names"
	degraded := func() bool {
		return slices.ContainsFunc(s.Condition(t.Context()).Degraded, func(what string) bool { return strings.HasPrefix(what, says) })
	}
	var told []string
	for i, news := range [][]string{first, {"+" + short(1) + " Approved@34"}} {
		before := doubts()
		watchtest.Until(t, "the doubt is seen", func() (bool, error) {
			return degraded() && doubts() > before+1 && log.Has("bloom filter names what is followed"), fmt.Errorf("%+v, %v doubts", s.Condition(t.Context()), doubts())
		})
		if list, err := s.States(t.Context()); err != nil || list[0].Block >= []uint64{1, 34}[i] || len(b.all()) != len(told) {
			t.Errorf("%+v, %v, and %v was handed on", list, err, b.lines())
		}
		silent.Store(false)
		told = append(told, news...)
		want(t, b, told...)
		watchtest.Until(t, "the doubt is over", func() (bool, error) { return !degraded(), fmt.Errorf("%+v", s.Condition(t.Context())) })
		silent.Store(true)
		approve(c, 1)
		c.Commit() // 34
	}
}

// TestTwoProcessesOfOneName: the second one gives the first the time of a lease to end, and then ends itself; the first works on.
func TestTwoProcessesOfOneName(t *testing.T) {
	c := watchtest.New(t, 2)
	db, b := ledgertest.Open(t), &book{t: t}
	plan := escrows(t, c.URL)
	plan.Watches = []watch.Watch{given(t, "w", 1)}
	start(t, db, plan, "a", b)
	approve(c, 1)
	c.Commit() // 1
	want(t, b, "+"+short(1)+" Approved@1")
	second := must.Get(watch.New(watch.Config{Plan: plan, Instance: "a", LeaseTTL: time.Second}, watch.Deps{
		DB: db, Log: slog.New(slog.DiscardHandler), Sinks: func(string) (watch.Sink, error) { return &book{t: t}, nil },
	}))(t)
	if err := second.Run(t.Context()); err == nil || errors.Is(err, t.Context().Err()) || !strings.Contains(err.Error(), `another living process has the INSTANCE_ID "a"`) {
		t.Errorf("the second one ends with %v", err)
	}
	approve(c, 1)
	c.Commit() // 2
	want(t, b, "+"+short(1)+" Approved@1", "+"+short(1)+" Approved@2")
}

// words are bytes as words of a log's data.
func words(data ...any) (list []common.Hash) {
	for _, d := range data {
		switch d := d.(type) {
		case int:
			list = append(list, watchtest.Number(int64(d)))
		case string:
			list = append(list, common.BytesToHash(common.RightPadBytes([]byte(d), 32)))
		}
	}
	return list
}

// TestWhatStrangersWrite has a factory announce a contract with a text that no database takes, and the contract log what cannot be
// decoded. All of it is handed on, and what follows, too.
func TestWhatStrangersWrite(t *testing.T) {
	ledgertest.Each(t, func(t *testing.T, db *ledger.DB) {
		c := watchtest.New(t, 2)
		b := &book{t: t}
		plan := escrows(t, c.URL)
		w := &plan.Watches[0]
		w.Factory.Event = signature(t, "Named(address indexed escrow, string payer, uint48 at)")
		w.Fields = []watch.Field{{Name: "payer", Event: "Named", Arg: "payer"}, {Name: "at", Event: "Named", Arg: "at"}, {Name: "amount", Event: "Released", Arg: "amount"}}
		w.Events = []*decode.Signature{signature(t, "Released(address indexed to, uint256 amount)"), signature(t, "Released(address indexed to)")}
		start(t, db, plan, "a", b)
		c.Emit(watchtest.Emitter(0), "Named(address,string,uint48)", watchtest.Word(watchtest.Emitter(1)), words(64, 1795372316, 3, "a\x00\xff")...)
		c.Emit(watchtest.Emitter(1), "Released(address,uint256)", watchtest.Word(watchtest.Emitter(1))) // without the amount
		c.Commit()
		c.Emit(watchtest.Emitter(1), "Released(address,uint256)", watchtest.Word(watchtest.Emitter(1)), words(7)...)
		c.Commit()
		told := []string{"+" + short(0) + " Named@1", "+" + short(1) + " Released@1", "+" + short(1) + " Released@2"}
		want(t, b, told...)
		fields := func() (status, text string) {
			for status, text := range must.Get(ledgertest.Pairs[string, string](t, db, "SELECT status, fields FROM contracts WHERE kind = 'child'"))(t) {
				return status, text
			}
			return "", ""
		}
		if status, text := fields(); status != "released" || text != `{"amount":"7","at":"1795372316","payer":"a\u0000�"}` {
			t.Errorf("the contract is %s, with %s", status, text)
		}
		for _, m := range b.all() {
			if m.Undecoded != (m.BlockNumber == 1 && m.Event.Event == "Released") {
				t.Errorf("%s", m.Body)
			}
			if m.Undecoded && (len(m.Topics) != 2 || m.Data != "0x" || m.Signature != "Released(address,uint256)" || m.Topics[0] != m.Topic0) {
				t.Errorf("%s", m.Body)
			}
			if m.Event.Event == "Named" && m.Hex["payer"] != "0x6100ff" {
				t.Errorf("%s", m.Body)
			}
		}
		c.Emit(watchtest.Emitter(1), "Released(address)", watchtest.Word(watchtest.Emitter(1)))
		c.Commit()
		want(t, b, append(told, "+"+short(1)+" Released@3")...)
		_, text := fields()
		var after map[string]*string
		if err := json.Unmarshal([]byte(text), &after); err != nil || after["amount"] != nil || after["at"] == nil {
			t.Errorf("%s, %v: an overload without the argument", text, err)
		}
	})
}

// picky is a sink that refuses the messages of one watch for a while, and those of another for ever.
type picky struct {
	mu    sync.Mutex
	times int
	got   map[string]int
}

func (p *picky) Publish(_ context.Context, batch []watch.Message) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := make([]error, len(batch))
	for i, m := range batch {
		switch {
		case m.Watch == "later" && p.times > 0:
			p.times--
			errs[i] = errors.New("not yet")
		case m.Watch == "never":
			errs[i] = fmt.Errorf("%w: it is \x00 too long", watch.ErrSettled)
		default:
			p.got[m.Watch]++
		}
	}
	return errs
}

func (p *picky) Close() {}

// TestARefusedMessageRepeatsNoOther: three watches of one contract have their messages in one queue. One is refused three times, one for
// ever, and the one behind them comes once.
func TestARefusedMessageRepeatsNoOther(t *testing.T) {
	c := watchtest.New(t, 2)
	db, sink := ledgertest.Open(t), &picky{times: 3, got: map[string]int{}}
	plan := escrows(t, c.URL)
	plan.Watches = []watch.Watch{given(t, "later", 1), given(t, "never", 1), given(t, "once", 1)}
	start(t, db, plan, "a", sink)
	approve(c, 1)
	c.Commit()
	watchtest.Until(t, "all is taken or settled", func() (bool, error) {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		settled, err := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM watch_settled")
		left, again := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM outbox o LEFT JOIN sink_cursors c ON c.unit = o.subject WHERE o.id > COALESCE(c.position, 0)")
		return sink.got["later"] == 1 && settled == 1 && left == 0, errors.Join(err, again, fmt.Errorf("%v, %d settled, %d left", sink.got, settled, left))
	})
	if sink.got["once"] != 1 || sink.got["never"] != 0 {
		t.Errorf("%v", sink.got)
	}
}

// TestAnEndpointThatFailsIsSeen: while one endpoint serves another chain, the other one does the work, and readiness, the metric and the log name it.
func TestAnEndpointThatFailsIsSeen(t *testing.T) {
	c := watchtest.New(t, 1)
	var another atomic.Bool
	another.Store(true)
	plan := escrows(t, c.URL)
	plan.Chains[0].URLs = append(plan.Chains[0].URLs, secret.String(watchtest.Proxy(t, c.URL, func(c *watchtest.Call) {
		if c.Ask(); c.Method == "eth_chainId" && another.Load() {
			c.Say("0x5")
		}
	})))
	plan.Watches = []watch.Watch{given(t, "w", 1)}
	log := new(proctest.Tail)
	s := must.Get(watch.New(watch.Config{Plan: plan, Instance: "a", LeaseTTL: 2 * time.Minute}, watch.Deps{
		DB: ledgertest.Open(t), Log: slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)), Sinks: func(string) (watch.Sink, error) { return &book{t: t}, nil },
	}))(t)
	must.Run(t, s.Run)
	seen := func() (in []string) {
		if slices.ContainsFunc(s.Condition(t.Context()).Degraded, func(what string) bool { return strings.HasPrefix(what, "chain 1337: endpoint 2 (wrong_chain) for ") }) {
			in = append(in, "readiness")
		}
		if told := must.Measure(t, s.Collectors()...); told["watch_endpoint_up 1337 1"] == 1 && told["watch_endpoint_up 1337 2"] == 0 {
			in = append(in, "metric")
		}
		if log.Has("it serves chain 5, not chain 1337") {
			in = append(in, "log")
		}
		return in
	}
	watchtest.Until(t, "it is seen", func() (bool, error) { return len(seen()) == 3, fmt.Errorf("seen in %v", seen()) })
	another.Store(false)
	watchtest.Until(t, "it is over", func() (bool, error) { return slices.Equal(seen(), []string{"log"}), fmt.Errorf("seen in %v", seen()) })
}
