package devnet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/upstream"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// adder is the init code of a contract that adds what it is called with to its slot 0, and returns the sum.
const adder = "600e8060095f395ff3" + "5f355f5401805f555f5260205ff3"

// forked is a world whose mirror node is served, and how it fails.
type forked struct {
	*world
	url   string
	down  atomic.Int32 // the status of all answers; 0: it works
	hangs chan struct{}
	asked atomic.Int64
	posts atomic.Int64 // requests that are neither GET nor a call
	at    atomic.Value // newest path
}

// origin makes a network with things in it, and serves its mirror node.
func origin(t *testing.T) *forked {
	t.Helper()
	f := &forked{world: newWorld(t, 5, false), hangs: make(chan struct{})}
	close(f.hangs)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		f.at.Store(r.URL.Path)
		if r.Method != http.MethodGet && r.URL.Path != "/api/v1/contracts/call" {
			f.posts.Add(1)
		}
		select {
		case <-f.hangs:
		case <-r.Context().Done():
			return
		}
		if status := f.down.Load(); status != 0 {
			http.Error(rw, "gone fishing", int(status))
			return
		}
		f.mirror.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// deploy makes a contract from its init code.
func (w *world) deploy(initcode string) *history.Record {
	w.t.Helper()
	rec := w.submit(0, core.BodyOf(&hapi.ContractCreateTransactionBody{
		InitcodeSource: &hapi.ContractCreateTransactionBody_Initcode{Initcode: common.FromHex(initcode)}, Gas: 300_000,
		AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
	}))
	w.must(rec)
	return rec
}

func (w *world) add(to common.Address, n int64) *history.Record {
	w.t.Helper()
	rec := w.call(0, to, 0, words("", big.NewInt(n)))
	w.must(rec)
	return rec
}

// sum is what the contract has, as a call tells.
func (w *world) sum(of common.Address) int64 { w.t.Helper(); return w.evm(of, words("", new(big.Int))) }

// fork is a second network that goes on from the first one.
func (f *forked) fork(cfg upstream.Config) (*world, *Network) {
	f.t.Helper()
	if cfg.URL == "" {
		cfg.URL = f.url
	}
	n := must.Get(New(f.t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Fork: cfg}))(f.t)
	f.t.Cleanup(n.Close)
	w := *f.world
	w.starts += 1 << 20 // ids of its own
	w.use(n)
	return &w, n
}

func (w *world) get(path string) (status int, body string) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.mirror.ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/api/v1/"+path, nil))
	return answer.Code, strings.TrimSpace(answer.Body.String())
}

// TestForkGoesOn: what the first network has is there in the second one, where it changes; the first one does not.
func TestForkGoesOn(t *testing.T) {
	first := origin(t)
	first.must(first.submit(0, core.BodyOf(&hapi.TokenMintTransactionBody{
		Token: first.art.TokenID(), Metadata: [][]byte{{1}, {2}},
	})))
	first.must(first.submit(0, core.BodyOf(&hapi.CryptoApproveAllowanceTransactionBody{
		TokenAllowances: []*hapi.TokenAllowance{{TokenId: first.coin.TokenID(), Owner: first.account(0), Spender: first.account(2), Amount: 77}},
		NftAllowances:   []*hapi.NftAllowance{{TokenId: first.art.TokenID(), Owner: first.account(0), Spender: first.account(2), ApprovedForAll: wrapperspb.Bool(true)}},
	})))
	created := first.deploy(adder)
	contract := created.Result.Address
	first.add(contract, 12)
	before := first.agree()

	second, n := first.fork(upstream.Config{})
	if got := second.ledger.View().LatestBlock().Number; got != before.block {
		t.Errorf("the fork begins at block %d, not %d", got, before.block)
	}
	if diff := cmp.Diff(before, second.agree(), cmp.AllowUnexported(told{})); diff != "" {
		t.Errorf("the fork differs (-first +fork)\n%s", diff)
	}
	if got := second.sum(contract); got != 12 {
		t.Errorf("the contract has %d", got)
	}
	owner, spender := second.address(0).Big(), second.address(2).Big()
	for name, v := range map[string]struct {
		to   hedera.ID
		data []byte
		want int64
	}{
		"allowance":        {second.coin, words("0xdd62ed3e", owner, spender), 77},
		"isApprovedForAll": {second.art, words("0xe985e9c5", owner, spender), 1},
		"totalSupply":      {second.art, words("0x18160ddd"), 2},
	} {
		if got := second.evm(v.to.LongZero(), v.data); got != v.want {
			t.Errorf("%s: %d, not %d", name, got, v.want)
		}
	}

	// Changes stay here.
	rec := second.add(contract, 3)
	if rec.Block != before.block+1 || second.sum(contract) != 15 || first.sum(contract) != 12 {
		t.Errorf("block %d; the fork has %d, the first network %d", rec.Block, second.sum(contract), first.sum(contract))
	}
	second.must(second.call(0, second.coin.LongZero(), 0, words("0xa9059cbb", second.address(1).Big(), big.NewInt(500))))
	second.must(second.call(2, second.art.LongZero(), 0, words("0x23b872dd", owner, second.address(1).Big(), big.NewInt(2)))) // transferFrom
	second.must(second.submit(0, core.BodyOf(&hapi.TokenMintTransactionBody{Token: second.art.TokenID(), Metadata: [][]byte{{3}}})))
	made := second.deploy(adder)
	if made.ContractID.Num < 1_000_000 || made.Result.Address == contract {
		t.Errorf("a new contract is %s at %s", made.ContractID, made.Result.Address)
	}
	if got := second.add(made.Result.Address, 4); got.Status != hapi.ResponseCodeEnum_SUCCESS || second.sum(made.Result.Address) != 4 {
		t.Errorf("the new contract has %d", second.sum(made.Result.Address))
	}
	second.agree()
	if diff := cmp.Diff(before, first.agree(), cmp.AllowUnexported(told{})); diff != "" {
		t.Errorf("the first network changed (-before +after)\n%s", diff)
	}
	if first.posts.Load() != 0 {
		t.Error("something was written to the first network")
	}

	// So do those of the first one.
	first.add(contract, 100)
	first.must(first.call(0, first.address(3), 5, nil))
	if second.sum(contract) != 15 {
		t.Errorf("the fork knows what came later: %d", second.sum(contract))
	}

	// Snapshots and a new beginning work on top of it.
	snapshot := second.ledger.Snapshot()
	kept := second.agree()
	second.add(contract, 10)
	if !second.ledger.Revert(snapshot) || second.sum(contract) != 15 {
		t.Errorf("after a revert %d", second.sum(contract))
	}
	if diff := cmp.Diff(kept, second.agree(), cmp.AllowUnexported(told{})); diff != "" {
		t.Errorf("after a revert (-want +got)\n%s", diff)
	}
	must.Do(t, second.ledger.Reset())
	if got := second.sum(contract); got != 12 || second.ledger.View().LatestBlock().Number != before.block {
		t.Errorf("after a reset %d, block %d", got, second.ledger.View().LatestBlock().Number)
	}
	second.add(contract, 1)
	if name, block, ok := n.Origin(); name != first.url || block != before.block || !ok {
		t.Errorf("a fork of %s, block %d", name, block)
	}
}

// TestForkAtABlock: state is that of the block that was asked for, and a call at an older one is the first network's.
func TestForkAtABlock(t *testing.T) {
	first := origin(t)
	contract := first.deploy(adder).Result.Address
	for range 3 {
		first.add(contract, 1)
	}
	two := first.ledger.View().LatestBlock().Number - 1
	second, _ := first.fork(upstream.Config{Block: &two})
	if got := second.sum(contract); got != 2 {
		t.Errorf("%d after the second addition", got)
	}
	second.add(contract, 40)
	for block, want := range map[int64]int64{two - 1: 1, two: 2, two + 1: 42} {
		var answer struct{ Result string }
		second.ask(http.MethodPost, "contracts/call", fmt.Sprintf(`{"to":%q,"data":"0x%x","block":"%d"}`, contract.Hex(), words("", new(big.Int)), block), &answer)
		if got := common.HexToHash(answer.Result).Big().Int64(); got != want {
			t.Errorf("at block %d: %d, not %d", block, got, want)
		}
	}
	none := two + 1000
	if _, err := New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Fork: upstream.Config{URL: first.url, Block: &none}}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("has no block %d", none)) {
		t.Errorf("a block that there is none of: %v", err)
	}
}

// TestForkReadsHistoryThrough: blocks, results, transactions and events from before the fork are the first
// network's, also in lists that go on after it, whatever their pages and order.
func TestForkReadsHistoryThrough(t *testing.T) {
	first := origin(t)
	contract := first.deploy(adder).Result.Address
	transfer := func(w *world) *history.Record {
		rec := w.call(0, w.coin.LongZero(), 0, words("0xa9059cbb", w.address(1).Big(), big.NewInt(1)))
		w.must(rec)
		return rec
	}
	old := transfer(first.world)
	first.add(contract, 1)
	number := first.ledger.View().LatestBlock().Number
	second, _ := first.fork(upstream.Config{})
	later := first.add(contract, 1) // of the first network alone
	recent := transfer(second)
	second.add(contract, 2)

	for _, path := range []string{
		"blocks/0", fmt.Sprintf("blocks/%d", number), fmt.Sprintf("blocks/%d", number-1),
		"contracts/results/" + old.EthereumHash.Hex(), "contracts/results/" + old.EthereumHash.Hex() + "/actions",
		"transactions/" + old.ID.Mirror(), fmt.Sprintf("contracts/results?block.number=%d", old.Block),
		"accounts/" + first.parties[0].ID.String() + "?transactions=false&timestamp=lte:" + old.Consensus.String(),
		fmt.Sprintf("contracts/results/logs?timestamp=gte:%s&timestamp=lte:%s&order=asc", old.Consensus, old.Consensus),
	} {
		_, want := first.get(path)
		if status, got := second.get(path); status != http.StatusOK || got != want {
			t.Errorf("%s: %d %s, not %s", path, status, got, want)
		}
	}
	for _, path := range []string{"contracts/results/" + later.EthereumHash.Hex(), "transactions/" + later.ID.Mirror(), fmt.Sprintf("blocks/0x%x", hashOf(first.world, number+1))} {
		if status, got := second.get(path); status != http.StatusNotFound {
			t.Errorf("%s of after the fork: %d %s", path, status, got)
		}
	}
	if status, _ := second.get("contracts/results/" + recent.EthereumHash.Hex()); status != http.StatusOK {
		t.Errorf("a result of the fork: %d", status)
	}
	// A contract sees the hash of a block of before the fork, when it runs and when it is traced.
	hasher := second.deploy("600c600c600039600c6000f3" + "60003540600052" + "60206000f3").Result.Address
	asked := second.call(0, hasher, 0, words("", big.NewInt(number-1)))
	trace, err := second.ledger.View().Opcodes(t.Context(), asked, evm.OpcodeOptions{})
	if want := hashOf(first.world, number-1); err != nil || !bytes.Equal(asked.Result.Output, want) || !bytes.Equal(trace.ReturnValue, want) {
		t.Errorf("hash %x, traced %+v, %v, want %x", asked.Result.Output, trace, err, want)
	}
	for list, c := range map[string]struct {
		field    string
		old, new int // rows of either side
	}{
		"blocks":                 {"number", int(number) + 1, 4},
		"contracts/results":      {"timestamp", 3, 4},
		"contracts/results/logs": {"timestamp", len(rowsOf(t, first.world, "contracts/results/logs", "logs", "timestamp", "timestamp=lte:"+old.Consensus.String()+"&timestamp=gte:1")), 1},
	} {
		member := list[strings.LastIndex(list, "/")+1:]
		for _, order := range []string{"asc", "desc"} {
			for _, limit := range []int{1, 2, 3, 100} {
				rows := rowsOf(t, second, list, member, c.field, fmt.Sprintf("order=%s&limit=%d", order, limit))
				if len(rows) != c.old+c.new {
					t.Errorf("%s, %s, pages of %d: %d rows, not %d: %s", list, order, limit, len(rows), c.old+c.new, rows)
				}
			}
		}
	}
}

func hashOf(w *world, number int64) []byte {
	b, _ := w.ledger.View().BlockByNumber(number)
	return b.Hash[:32]
}

// rowsOf follows the pages of a list and returns a field of each row.
func rowsOf(t *testing.T, w *world, list, member, field, query string) (rows []string) {
	t.Helper()
	next := list + "?" + query
	for range 200 {
		status, body := w.get(next)
		var page map[string]json.RawMessage
		var found []map[string]any
		var links struct{ Next string }
		if status != http.StatusOK || json.Unmarshal([]byte(body), &page) != nil || json.Unmarshal(page[member], &found) != nil || json.Unmarshal(page["links"], &links) != nil {
			t.Fatalf("%s: %d %s", next, status, body)
		}
		for _, row := range found {
			rows = append(rows, fmt.Sprint(row[field]))
		}
		if links.Next == "" {
			return rows
		}
		next = strings.TrimPrefix(links.Next, "/api/v1/")
	}
	t.Fatalf("%s: no end", list)
	return nil
}

// TestForkWithoutUpstream: where the first network fails, whoever needs it is told so and nothing changes; what
// is known already goes on, and the rest does when it is back.
func TestForkWithoutUpstream(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		fail    func(*forked) (recover func())
		says    string
	}{
		"refuses": {time.Minute, func(f *forked) func() {
			f.down.Store(http.StatusServiceUnavailable)
			return func() { f.down.Store(0) }
		}, "gone fishing"},
		"is not where its gateway looks": {time.Minute, func(f *forked) func() {
			f.down.Store(http.StatusNotFound)
			return func() { f.down.Store(0) }
		}, "gone fishing"},
		"hangs": {3 * time.Second, func(f *forked) func() {
			f.hangs = make(chan struct{})
			return func() { close(f.hangs) }
		}, "no answer within 3s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := origin(t)
			known, unknown := first.deploy(adder).Result.Address, first.deploy(adder).Result.Address
			first.add(unknown, 5)
			number := first.ledger.View().LatestBlock().Number
			second, _ := first.fork(upstream.Config{Timeout: c.timeout})
			second.add(known, 1)
			block := second.ledger.View().LatestBlock().Number
			balance, _ := second.ledger.View().Account(second.parties[0].ID)

			recovered := c.fail(first)
			for _, path := range []string{
				"contracts/" + unknown.Hex(), fmt.Sprintf("blocks/%d", number-1), "contracts/results?order=asc",
			} {
				if status, body := second.get(path); status != http.StatusServiceUnavailable || !strings.Contains(body, c.says) || !strings.Contains(body, "the fork's upstream failed") {
					t.Errorf("%s: %d %s", path, status, body)
				}
			}
			outer, id := second.sign(0, 3, core.BodyOf(&hapi.ContractCallTransactionBody{
				ContractID: &hapi.ContractID{Contract: &hapi.ContractID_EvmAddress{EvmAddress: unknown[:]}}, Gas: 100_000,
			}))
			response, err := second.node.Submit(t.Context(), &hapi.Transaction{SignedTransactionBytes: outer})
			if err != nil || response.GetNodeTransactionPrecheckCode() != hapi.ResponseCodeEnum_BUSY {
				t.Errorf("%v, %v", response, err)
			}
			after, _ := second.ledger.View().Account(second.parties[0].ID)
			if second.ledger.View().LatestBlock().Number != block || len(second.ledger.View().RecordsByID(id)) != 0 || after.Balance != balance.Balance || after.Nonce != balance.Nonce {
				t.Error("something changed")
			}
			second.add(known, 1) // needs nobody
			if second.sum(known) != 2 {
				t.Errorf("the known contract has %d", second.sum(known))
			}
			recovered()
			if second.add(unknown, 1); second.sum(unknown) != 6 {
				t.Errorf("the contract that was not known has %d", second.sum(unknown))
			}
		})
	}
}

// TestForkOfNothing: what cannot be forked is an error that shows no path of the URL.
func TestForkOfNothing(t *testing.T) {
	for url, want := range map[string]string{
		"nonsense": "want the http:// or https:// URL", "http://127.0.0.1:1/secret": "http://127.0.0.1:1 blocks",
	} {
		_, err := New(t.Context(), Config{Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Fork: upstream.Config{URL: url}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
	block := int64(1)
	for _, cfg := range []Config{{Fork: upstream.Config{Block: &block}}, {Fork: upstream.Config{URL: "http://127.0.0.1:1"}, State: t.TempDir() + "/state"}} {
		cfg.Consensus, cfg.Mirror = "127.0.0.1:0", "127.0.0.1:0"
		if _, err := New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "--fork-url") {
			t.Errorf("%+v: %v", cfg.Fork, err)
		}
	}
}

// TestForkAgreesWithItself: random operations on a fork keep what everybody says of it the same, with a cache
// that has room for one fact, too, and the first network stays what it was.
func TestForkAgreesWithItself(t *testing.T) {
	for name, room := range map[string]int64{"plenty": 0, "one fact": 1} {
		t.Run(name, func(t *testing.T) {
			first := origin(t)
			first.kinds = map[history.Kind]int{}
			for range 60 {
				first.step()
			}
			before := first.agree()
			second, _ := first.fork(upstream.Config{CacheBytes: room})
			snapshot := second.ledger.Snapshot()
			began := second.agree()
			second.done = 0
			for i := range 80 {
				if second.step(); i%5 == 0 {
					second.agree()
				}
			}
			if second.done < 20 {
				t.Errorf("only %d operations succeeded", second.done)
			}
			if !second.ledger.Revert(snapshot) {
				t.Fatal("the ledger does not go back")
			}
			if diff := cmp.Diff(began, second.agree(), cmp.AllowUnexported(told{})); diff != "" {
				t.Errorf("after a revert (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(before, first.agree(), cmp.AllowUnexported(told{})); diff != "" {
				t.Errorf("the first network changed (-before +after)\n%s", diff)
			}
		})
	}
}
