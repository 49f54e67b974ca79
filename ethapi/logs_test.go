package ethapi

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
)

// rangeWindow is the time from block 10 to block 17.
const rangeWindow = "timestamp=gte:1767225586.000000001&timestamp=lte:1767225601.999999999"

// indexes are the logIndex of each log of an answer.
func indexes(t *testing.T, r response) []string {
	t.Helper()
	var logs []struct{ BlockNumber, LogIndex string }
	unmarshal(t, r, &logs)
	all := []string{}
	for _, l := range logs {
		all = append(all, l.BlockNumber+":"+l.LogIndex)
	}
	return all
}

func TestLogs(t *testing.T) {
	relay, block := populated(t)
	a, b := hexutil.Encode(contract[:]), tokenLog
	hash := block[0].Hash().Hex()
	at := func(number, index int, address string) member {
		return logJSON(hash, address, "0x", 0, index, number, transferID)
	}
	any := rangeWindow + "&limit=100&order=desc"
	relay.node.set("contracts/results/logs?"+any, logList(at(10, 0, a), at(11, 0, b), at(17, 0, a), at(17, 1, b)))
	relay.node.set("contracts/"+a+"/results/logs?"+any, logList(at(10, 0, a), at(17, 0, a)))
	relay.node.set("contracts/"+b+"/results/logs?"+any, logList(at(11, 0, b), at(17, 1, b)))
	topic := "&topic0=" + transferID[2:]
	relay.node.set("contracts/results/logs?"+rangeWindow+topic+"&limit=100&order=desc", logList(at(11, 0, b)))
	three := logJSON(hash, a, "0x", 0, 0, 17, transferID, transferID, transferID)
	relay.node.set("contracts/results/logs?"+rangeWindow+topic+"&topic0=5&topic2=0&limit=100&order=desc", logList(three))

	all := []string{"0xa:0x0", "0xb:0x0", "0x11:0x0", "0x11:0x1"}
	ofA := []string{"0xa:0x0", "0x11:0x0"}
	const zero, five = `"0x0000000000000000000000000000000000000000000000000000000000000000"`, `"0x0000000000000000000000000000000000000000000000000000000000000005"`
	for filter, want := range map[string][]string{
		`{"fromBlock":"0xa","toBlock":"latest"}`: all,
		`{"fromBlock":"0xa"}`:                    all,
		`{"fromBlock":"earliest","toBlock":null,"address":null,"topics":null,"blockHash":null}`: all,
		`{"fromBlock":"0xa","toBlock":"0x11","address":[]}`:                                     all,
		`{"fromBlock":"0xa","toBlock":"0x11","topics":[]}`:                                      all,
		`{"fromBlock":"0xa","toBlock":"0x11","topics":[null]}`:                                  all,
		`{"fromBlock":"0xa","address":"` + a + `"}`:                                             ofA,
		// An address that is named twice is asked for once.
		`{"fromBlock":"0xa","address":["` + a + `","` + strings.ToUpper(a[2:]) + `"]}`:         nil,
		`{"fromBlock":"0xa","address":["` + a + `","0x` + strings.ToUpper(a[2:]) + `"]}`:       ofA,
		`{"fromBlock":"0xa","address":["` + a + `","` + b + `"]}`:                              all,
		`{"fromBlock":"0xa","address":"` + common.Address{}.Hex() + `"}`:                       {},
		`{"fromBlock":"0xa","topics":["` + transferID + `"]}`:                                  {"0xb:0x0"},
		`{"fromBlock":"0xa","topics":[["` + transferID + `",` + five + `],null,` + zero + `]}`: {"0x11:0x0"},
		// A null among alternatives matches anything.
		`{"fromBlock":"0xa","topics":[["` + transferID + `",null]]}`: all,
		// Before the mirror node's first block there is nothing.
		`{"fromBlock":"0x1","toBlock":"0x11"}`: all,
		`{"fromBlock":"0x1","toBlock":"0x9"}`:  {},
		// One block.
		`{}`:                                {"0x11:0x0", "0x11:0x1"},
		`{"blockHash":"` + blockHash + `"}`: {"0x11:0x0", "0x11:0x1"},
		`{"blockHash":"` + blockHash + `","address":"` + a + `"}`: {"0x11:0x0"},
		`{"fromBlock":"0x10","toBlock":"0x10"}`:                   {},
	} {
		got := relay.call("eth_getLogs", "["+filter+"]")
		if want == nil {
			if got.Error == nil {
				t.Errorf("%s gives %s", filter, got)
			}
			continue
		}
		if diff := cmp.Diff(want, indexes(t, got)); diff != "" {
			t.Errorf("%s: %s", filter, diff)
		}
	}
}

func TestLogErrors(t *testing.T) {
	relay, _ := populated(t, func(s *settings) { s.API.LogsBlockRange = 5 })
	topics := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"`+transferID+`",`, n), ",") }
	var addresses []string
	for i := range 1001 {
		addresses = append(addresses, fmt.Sprintf(`"0x%040x"`, i+1))
	}
	relay.expect(
		[3]string{"eth_getLogs", `[{"fromBlock":"0x11","toBlock":"0xa"}]`, "-32602 invalid block range params"},
		[3]string{"eth_getLogs", `[{"toBlock":"0xa"}]`, "-32602 invalid block range params"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x11","toBlock":"earliest"}]`, "-32602 invalid block range params"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x64","toBlock":"0x63"}]`, "-32602 invalid block range params"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x64"}]`, "-32602 block range extends beyond current head block: requested 100, head 17"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x12","toBlock":"latest"}]`, "-32602 block range extends beyond current head block: requested 18, head 17"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0x12","toBlock":"0x13"}]`, "-32602 block range extends beyond current head block: requested 19, head 17"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0xf","toBlock":"0x3e7"}]`, "-32602 block range extends beyond current head block: requested 999, head 17"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0xa"}]`, "-32000 Exceeded maximum block range: 5"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0xa","address":["` + tokenLog + `","` + longZero + `"]}]`, "-32000 Exceeded maximum block range: 5"},
		[3]string{"eth_getLogs", `[{"fromBlock":"0xa","address":["` + tokenLog + `"]}]`, "[]"}, // exempt
		[3]string{"eth_getLogs", `[{"topics":[` + topics(5) + `]}]`, "-32602 invalid argument 0: exceed max topics: at most 4"},
		[3]string{"eth_getLogs", `[{"topics":[null,[` + topics(101) + `]]}]`, "-32602 invalid argument 1: Topic 1 exceeds maximum nested length of 100"},
		[3]string{"eth_getLogs", `[{"address":[` + strings.Join(addresses, ",") + `]}]`, "-32602 invalid argument 0: exceed max addresses: 1001 of at most 1000"},
		[3]string{"eth_getLogs", `[{"blockHash":"` + blockHash + `","toBlock":"0x1"}]`, "-32602 invalid argument 0: Can't use both blockHash and toBlock/fromBlock"},
	)
	// Blocks that are more than seven days apart.
	old := blockJSON(12)
	old["timestamp"] = member{"from": "1766000000.000000000", "to": "1766000001.000000000"}
	relay.node.set("blocks/12", text(old))
	relay.expect([3]string{"eth_getLogs", `[{"fromBlock":"0xc"}]`, "-32004 The provided fromBlock and toBlock contain timestamps that exceed the maximum allowed duration of 7 days (604800 seconds): fromBlock: 0xc (1766000000.000000000), toBlock: 0x11 (1767225600.000000001)"})
	// Records that stay incomplete.
	log := logJSON(synthetic, tokenLog, "0x", 0, 0, 17)
	log["index"] = nil
	relay.node.set("contracts/results/logs?"+window+"&limit=100&order=desc", logList(log))
	relay.expect([3]string{"eth_getLogs", `[{}]`, "-32015 Dependent service returned immature records"})
}

// grow makes block number the head, with one log of the contract in it.
func (n *mirrorNode) grow(number int) {
	block := blockJSON(number)
	span := block["timestamp"].(member)
	log := logJSON(synthetic, hexutil.Encode(contract[:]), "0x", 0, 0, number, transferID)
	n.set("blocks?limit=1&order=desc", listOf("blocks", block))
	n.set(fmt.Sprintf("blocks/%d", number), text(block))
	single := fmt.Sprintf("timestamp=gte:%s&timestamp=lte:%s", span["from"], span["to"])
	n.set("contracts/results/logs?"+single+"&limit=100&order=desc", logList(log))
}

func (r *relay) filter(method, params string) string {
	r.t.Helper()
	var id string
	answer := r.call(method, params)
	if answer.Error != nil {
		r.t.Fatal(answer)
	}
	must.Do(r.t, json.Unmarshal(answer.Result, &id))
	return id
}

func (r *relay) changes(id string) response {
	r.t.Helper()
	return r.call("eth_getFilterChanges", `["`+id+`"]`)
}

func TestLogFilter(t *testing.T) {
	relay, _ := populated(t)
	expect := func(id string, want ...string) {
		t.Helper()
		if want == nil {
			want = []string{}
		}
		if diff := cmp.Diff(want, indexes(t, relay.changes(id))); diff != "" {
			t.Error(diff)
		}
	}
	fromNow := relay.filter("eth_newFilter", `[{}]`)
	fromNumber := relay.filter("eth_newFilter", `[{"fromBlock":"0x11"}]`)
	until18 := relay.filter("eth_newFilter", `[{"toBlock":"0x12"}]`)
	ofHash := relay.filter("eth_newFilter", `[{"blockHash":"`+blockHash+`","address":"`+contract.Hex()+`"}]`)
	expect(fromNow)                            // what was before the filter is not new
	expect(fromNumber, "0x11:0x0", "0x11:0x1") // unless it was named
	expect(ofHash, "0x11:0x0")
	expect(ofHash)
	relay.node.grow(18)
	expect(fromNow, "0x12:0x0")
	expect(fromNow)
	expect(until18, "0x12:0x0")
	relay.node.grow(19)
	expect(fromNow, "0x13:0x0")
	expect(until18)
	// All logs of a filter begin at the block in which it was made.
	both := "timestamp=gte:1767225600.000000001&timestamp=lte:1767225603.999999999"
	log := func(n int) member { return logJSON(synthetic, tokenLog, "0x", 0, 0, n) }
	relay.node.set("contracts/results/logs?"+both+"&limit=100&order=desc", logList(log(17), log(18)))
	if diff := cmp.Diff([]string{"0x11:0x0", "0x12:0x0"}, indexes(t, relay.call("eth_getFilterLogs", `["`+until18+`"]`))); diff != "" {
		t.Error(diff)
	}
	// Ids are numbers: leading zeros say nothing.
	expect("0x000" + fromNow[2:])
	relay.expect(
		[3]string{"eth_uninstallFilter", `["` + fromNow + `"]`, "true"},
		[3]string{"eth_uninstallFilter", `["` + fromNow + `"]`, "false"},
		[3]string{"eth_getFilterChanges", `["` + fromNow + `"]`, "-32001 filter not found"},
		[3]string{"eth_getFilterLogs", `["` + fromNow + `"]`, "-32001 filter not found"},
		[3]string{"eth_newFilter", `[{"fromBlock":"0x13","toBlock":"0x12"}]`, "-32602 invalid block range params"},
	)
}

// A poll reads no more than one query may, and the next one goes on there.
func TestLogFilterCatchesUp(t *testing.T) {
	relay, _ := populated(t, func(s *settings) { s.API.LogsBlockRange = 1 })
	id := relay.filter("eth_newFilter", `[{}]`)
	for number := 18; number <= 20; number++ {
		relay.node.grow(number)
	}
	two := "timestamp=gte:1767225602.000000001&timestamp=lte:1767225605.999999999"
	log := func(n int) member { return logJSON(synthetic, tokenLog, "0x", 0, 0, n) }
	relay.node.set("contracts/results/logs?"+two+"&limit=100&order=desc", logList(log(18), log(19)))
	for _, want := range [][]string{{"0x12:0x0", "0x13:0x0"}, {"0x14:0x0"}, {}} {
		if diff := cmp.Diff(want, indexes(t, relay.changes(id))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestFailedPollLosesNothing(t *testing.T) {
	relay, _ := populated(t)
	id := relay.filter("eth_newFilter", `[{}]`)
	relay.node.grow(18)
	path := "contracts/results/logs?timestamp=gte:1767225602.000000001&timestamp=lte:1767225603.999999999&limit=100&order=desc"
	good := relay.node.answers[path]
	relay.node.fail(path, 500, "")
	if got := relay.changes(id); got.Error == nil {
		t.Fatalf("%s", got)
	}
	relay.node.set(path, good.body)
	if got := indexes(t, relay.changes(id)); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestBlockFilter(t *testing.T) {
	relay, _ := populated(t)
	id := relay.filter("eth_newBlockFilter", `[]`)
	relay.expect([3]string{"eth_getFilterChanges", `["` + id + `"]`, "[]"})
	relay.node.grow(19)
	relay.node.set("blocks?block.number=gte:18&block.number=lte:19&limit=100&order=asc", listOf("blocks", blockJSON(18), blockJSON(19)))
	hash := func(n int) string { return blockJSON(n)["hash"].(string)[:66] }
	relay.expect(
		[3]string{"eth_getFilterChanges", `["` + id + `"]`, fmt.Sprintf(`["%s","%s"]`, hash(18), hash(19))},
		[3]string{"eth_getFilterChanges", `["` + id + `"]`, "[]"},
		[3]string{"eth_getFilterLogs", `["` + id + `"]`, "-32001 filter not found"},
		[3]string{"eth_uninstallFilter", `["` + id + `"]`, "true"},
	)
}

func TestFiltersCanBeOff(t *testing.T) {
	relay, _ := populated(t, func(s *settings) { s.API.Filters = false })
	for method, params := range map[string]string{
		"eth_newFilter": `[{}]`, "eth_newBlockFilter": `[]`, "eth_getFilterLogs": `["0x1"]`, "eth_getFilterChanges": `["0x1"]`, "eth_uninstallFilter": `["0x1"]`,
	} {
		relay.expect([3]string{method, params, "-32601 Unsupported JSON-RPC method"})
	}
}

// A contract that leaves a hundred logs, the numbers from 100 down to 1.
const hundredLogs = "6064" + "5b" + "80600052" + "60206000a0" + "6001900380" + "600257" + "00"

// More than ten thousand logs come whole, once and in order, over more than a hundred
// pages of the mirror node; where they are more than may be read, the error says so.
func TestManyLogs(t *testing.T) {
	n := newNetwork(t, 0)
	loud := n.receipt(n.dynamic(0, nil, 0, 500_000, initCode(hundredLogs))).ContractAddress
	const calls = 102
	var last *types.Transaction
	for i := range uint64(calls) {
		last = n.dynamic(i+1, &loud, 0, 500_000, nil)
	}
	n.receipt(last)
	for name, filter := range map[string]string{
		"any address":                           `{"fromBlock":"earliest"}`,
		"one address":                           fmt.Sprintf(`{"fromBlock":"earliest","address":"%s"}`, loud),
		"two addresses, of which one is silent": fmt.Sprintf(`{"fromBlock":"earliest","address":["%s","%s"]}`, loud, n.sender),
	} {
		var logs []types.Log
		unmarshal(t, n.call("eth_getLogs", `[`+filter+`]`), &logs)
		if len(logs) != 100*calls {
			t.Errorf("%s: %d logs, want %d", name, len(logs), 100*calls)
			continue
		}
		for i, l := range logs {
			ordered := i == 0 || l.BlockNumber > logs[i-1].BlockNumber || l.BlockNumber == logs[i-1].BlockNumber && l.Index == logs[i-1].Index+1
			if want := 100 - i%100; !ordered || int(l.Index) != i%100 || common.BytesToHash(l.Data).Big().Int64() != int64(want) {
				t.Fatalf("%s: log %d is %+v", name, i, l)
			}
		}
	}
	n.relay = newRelay(t, n.node, func(s *settings) { s.Mirror.MaxLogPages = 100 })
	n.expect([3]string{"eth_getLogs", `[{"fromBlock":"earliest"}]`, "-32011 Exceeded maximum mirror node pagination count: 100"})
	n.relay = newRelay(t, n.node, func(s *settings) { s.API.LogsBlockRange = 100 })
	n.expect([3]string{"eth_getLogs", `[{"fromBlock":"earliest"}]`, "-32000 Exceeded maximum block range: 100"})
}

// archive is a real ledger whose blocks are full, behind a real mirror node interface.
// It is made while time stands still, so that a block holds what it is to hold however
// slow the machine is.
type archive struct {
	ledger *ledger.Ledger
	node   http.Handler
	hashes []common.Hash // of all transactions, block after block
	size   int           // transactions of a block
}

func newArchive(t *testing.T, blocks, size int) *archive {
	t.Helper()
	a := &archive{size: size}
	synctest.Test(t, func(t *testing.T) {
		const blockTime = 2 * time.Second
		var err error
		if a.ledger, err = ledger.New(ledger.Config{BlockTime: blockTime, HistoryBytes: 1 << 32}); err != nil {
			t.Fatal(err)
		}
		go func() { _ = a.ledger.Run(t.Context()) }()
		n := newSender(t, a.ledger)
		const senders = 10 // have an alias
		receiver := new(devaccounts.All()[senders-1].EVMAddress())
		for block := range blocks {
			for i := range size {
				if n.key, err = crypto.HexToECDSA(devaccounts.All()[i%senders].PrivateKey); err != nil {
					t.Fatal(err)
				}
				nonce := uint64(block*((size-1-i%senders)/senders+1) + i/senders)
				tx := n.dynamic(nonce, receiver, 1, 30_000, []byte("sixteen bytes of"))
				a.hashes = append(a.hashes, tx.Hash())
			}
			<-time.After(blockTime + time.Millisecond) // less than makes a block without transactions
			synctest.Wait()
		}
	})
	if head := a.ledger.View().LatestBlock().Number; head != int64(blocks) {
		t.Fatalf("%d blocks, want %d", head, blocks)
	}
	a.node = mirrorrest.New(mirrorrest.Config{View: a.ledger.View, Log: slog.New(slog.DiscardHandler)})
	return a
}

// ask makes a call and returns the answer's text.
func ask(t testing.TB, url, method, params string) string {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	answer := must.Get(http.Post(url, "application/json", strings.NewReader(body)))(t)
	defer answer.Body.Close()
	text := new(strings.Builder)
	text.Grow(int(max(answer.ContentLength, 0)))
	must.Get(io.Copy(text, answer.Body))(t)
	return text.String()
}

// Who goes through a chain makes three requests for a full block and two for a receipt:
// senders are known by their signatures, and prices by those around them.
func TestRequestsOfAScan(t *testing.T) {
	const blocks = 50
	a := newArchive(t, blocks, 20)
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.RequestURI())
		mu.Unlock()
		a.node.ServeHTTP(w, r)
	}))
	defer server.Close()
	check := func(what string, most int, scan func(url string)) {
		t.Helper()
		asked = nil
		scan(newRelay(t, &mirrorNode{Server: server}).url)
		const beforehand = 3 // prices
		if len(asked) > most*blocks+beforehand {
			t.Errorf("%d %s took %d requests: %.2000s", blocks, what, len(asked), strings.Join(asked, "\n"))
		}
	}
	check("blocks", 3, func(url string) {
		for i := range blocks {
			if text := ask(t, url, "eth_getBlockByNumber", fmt.Sprintf(`["0x%x",true]`, i+1)); strings.Count(text, `"blockHash"`) != a.size {
				t.Fatal(text)
			}
		}
	})
	check("receipts", 2, func(url string) {
		for i := range blocks {
			if text := ask(t, url, "eth_getTransactionReceipt", fmt.Sprintf(`["%s"]`, a.hashes[i*a.size+7])); !strings.Contains(text, `"status":"0x1"`) {
				t.Fatal(text)
			}
		}
	})
}

// recorded answers as another handler did the first time, without the work.
type recorded struct {
	handler http.Handler
	mu      sync.Mutex
	answers map[string][]byte // guarded by mu
}

func (h *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	body := h.answers[r.URL.RequestURI()]
	h.mu.Unlock()
	if body == nil {
		recorder := httptest.NewRecorder()
		h.handler.ServeHTTP(recorder, r)
		body = recorder.Body.Bytes()
		h.mu.Lock()
		h.answers[r.URL.RequestURI()] = body
		h.mu.Unlock()
	}
	_, _ = w.Write(body)
}

func (h *recorded) size() (bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.answers {
		bytes += len(body)
	}
	return bytes
}

// A block of ten thousand transactions is shown whole. What that takes of memory is in
// proportion to the answers that are read and written.
func TestBigBlock(t *testing.T) {
	transactions := 10_000
	if testing.Short() || raceDetector {
		transactions = 1000
	}
	a := newArchive(t, 1, transactions)
	node := &recorded{handler: a.node, answers: make(map[string][]byte)}
	server := httptest.NewServer(node)
	defer server.Close()
	relay := newRelay(t, &mirrorNode{Server: server}, func(s *settings) {
		s.API.MaxFullTransactions = transactions + 1
		s.Mirror.CacheEntries = 0
	})
	read := func() string { return ask(t, relay.url, "eth_getBlockByNumber", `["0x1",true]`) }
	read() // what is made once is made now
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	text := read()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if got := strings.Count(text, `"blockHash"`); got != transactions {
		t.Fatalf("%d transactions: %.200s", got, text)
	}
	allocated, through := int(after.TotalAlloc-before.TotalAlloc), node.size()+len(text)
	t.Logf("%d bytes read and %d answered in %s; %d allocated", node.size(), len(text), took, allocated)
	if most := 14 * through; allocated > most {
		t.Errorf("%d bytes were allocated for %d that went through", allocated, through)
	}
}
