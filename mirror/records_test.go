package mirror

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// answers is a node that gives one answer after the other, the last one for ever.
func answers(t *testing.T, bodies ...string) (*node, *atomic.Int32) {
	n := newNode(t)
	asked := new(atomic.Int32)
	n.handler = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, bodies[min(int(asked.Add(1)), len(bodies))-1])
	}
	return n, asked
}

var (
	immature = resultJSON(`"transaction_index":0`, `"transaction_index":null`)
	refused  = resultJSON(`"transaction_index":0`, `"transaction_index":null`, `"block_number":17`, `"block_number":null`, `"SUCCESS"`, `"WRONG_NONCE"`)
	// It used gas, and its block is not known yet.
	ranAsRefused = resultJSON(`"transaction_index":0`, `"transaction_index":null`, `"block_number":17`, `"block_number":null`, `"SUCCESS"`, `"INVALID_SOLIDITY_ADDRESS"`)
	// A record that knows its block, and no place in it, says by itself that nothing ran.
	refusedByRecord = resultJSON(`"transaction_index":0`, `"transaction_index":null`, `"gas_used":21000`, `"gas_used":0`, `"SUCCESS"`, `"INVALID_SIGNATURE"`, `"status":"0x1"`, `"status":"0x0"`)
	// The name of the status may stand in the error message alone, in hex.
	refusedInHex = resultJSON(`"transaction_index":0`, `"transaction_index":null`, `"error_message":null`, `"error_message":"0x57524f4e475f4e4f4e4345"`)
)

func TestContractResult(t *testing.T) {
	tests := map[string]struct {
		bodies   []string
		asked    int32 // by three reads
		err      error
		complete bool
		refused  bool
	}{
		"complete":        {[]string{resultJSON()}, 1, nil, true, false},
		"completes":       {[]string{immature, immature, resultJSON()}, 3, nil, true, false},
		"stays immature":  {[]string{immature}, 12, ErrImmature, false, false},
		"refused":         {[]string{refused}, 3, nil, false, true},
		"refused, in hex": {[]string{refusedInHex}, 3, nil, false, true},
		"refused, itself": {[]string{refusedByRecord}, 3, nil, false, true},
		"run, by its gas": {[]string{ranAsRefused}, 12, ErrImmature, false, false},
	}
	for name, test := range tests {
		n, asked := answers(t, test.bodies...)
		client := connect(t, n.URL, func(c *Config) { c.ImmatureAttempts = 4 })
		for range 3 {
			r, err := client.ContractResult(t.Context(), common.HexToHash(txHash))
			if !errors.Is(err, test.err) || r == nil || r.Complete() != test.complete || client.Refused(r) != test.refused {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		if asked.Load() != test.asked {
			t.Errorf("%s: %d requests, want %d", name, asked.Load(), test.asked)
		}
	}
}

func TestContractResultNotFound(t *testing.T) {
	n := newNode(t)
	client := connect(t, n.URL)
	if _, err := client.ContractResult(t.Context(), common.HexToHash(txHash)); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	id := hedera.TransactionID{Payer: hedera.Entity(2), ValidStart: hedera.Timestamp{Seconds: 5, Nanos: 6}}
	n.set("contracts/results/0.0.2-5-000000006?hbar=false", immature)
	if r, err := client.ContractResultByID(t.Context(), id); err != nil || r.Complete() {
		t.Errorf("%v, %v", r, err)
	}
}

func TestBlockResults(t *testing.T) {
	window := "contracts/results?timestamp=gte:1767225600.000000001&timestamp=lte:1767225601.999999999&limit=100&order=asc&hbar=false"
	results := func(items ...string) string {
		return `{"results":[` + strings.Join(items, ",") + `],"links":{"next":null}}`
	}
	var block Block
	must.Do(t, unmarshal([]byte(blockJSON(17)), &block))
	n := newNode(t)
	client := connect(t, n.URL, func(c *Config) { c.ImmatureAttempts = 2 })
	n.set(window, results(resultJSON(), immature))
	if _, err := client.BlockResults(t.Context(), &block); !errors.Is(err, ErrImmature) || len(n.requests()) != 2 {
		t.Errorf("immature: %v", err)
	}
	n.set(window, results(resultJSON(), refused, refusedByRecord, resultJSON(`"transaction_index":0`, `"transaction_index":1`)))
	for range 2 {
		all, err := client.BlockResults(t.Context(), &block)
		if err != nil || len(all) != 2 || *all[1].Index != 1 {
			t.Errorf("%v, %v", all, err)
		}
	}
	result := new(ContractResult)
	must.Do(t, unmarshal([]byte(resultJSON()), result))
	if all, err := client.BlockResultsOf(t.Context(), result); err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	if asked := n.requests(); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
	client.Forget()
	// Less gas than the block used is not all of it, and not for ever.
	byNumber := "contracts/results?block.number=17&limit=100&order=asc&hbar=false"
	n.set(byNumber, results())
	if all, err := client.BlockResultsOf(t.Context(), result); err != nil || len(all) != 0 {
		t.Errorf("none yet: %v, %v", all, err)
	}
	n.set(byNumber, results(resultJSON()))
	if all, err := client.BlockResultsOf(t.Context(), result); err != nil || len(all) != 1 {
		t.Errorf("after Forget: %v, %v", all, err)
	}
	client.Forget()
	n.set("blocks/17", blockJSON(17))
	result.BlockGas = nil
	if all, err := client.BlockResultsOf(t.Context(), result); err != nil || len(all) != 2 {
		t.Errorf("with a record that does not tell the gas of its block: %v, %v", all, err)
	}
}

// Of a new block, one of several mirror nodes behind an address may know a part, or nothing. It is asked for again, and never kept.
func TestPartsOfANewBlock(t *testing.T) {
	var block Block
	must.Do(t, unmarshal([]byte(blockJSON(17)), &block))
	block.To = hedera.FromNanos(time.Now().UnixNano())
	block.GasUsed = 2 * 21000
	list := func(items ...string) string {
		return `{"results":[` + strings.Join(items, ",") + `],"links":{"next":null}}`
	}
	second := resultJSON(`"transaction_index":0`, `"transaction_index":1`)
	none, part, whole := list(), list(resultJSON()), list(resultJSON(), second)
	for name, test := range map[string]struct {
		bodies []string
		want   int
		err    error
	}{
		"all at last":  {[]string{none, part, whole}, 2, nil},
		"only a part":  {[]string{part}, 0, ErrImmature},
		"nothing":      {[]string{none}, 0, ErrImmature},
		"all and more": {[]string{list(resultJSON(), second, second)}, 3, nil},
	} {
		n, asked := answers(t, test.bodies...)
		client := connect(t, n.URL, func(c *Config) { c.ImmatureAttempts = 4 })
		all, err := client.BlockResults(t.Context(), &block)
		if !errors.Is(err, test.err) || err == nil && len(all) != test.want {
			t.Errorf("%s: %d results, %v", name, len(all), err)
		}
		before := asked.Load()
		if _, _ = client.BlockResults(t.Context(), &block); (asked.Load() == before) != (test.err == nil) {
			t.Errorf("%s: asked %d times, and then %d", name, before, asked.Load())
		}
	}
}

// Logs of a large block are read in parts. Those that do not make the block's bloom are not kept.
func TestPartOfTheLogsIsNotKept(t *testing.T) {
	var block Block
	must.Do(t, unmarshal([]byte(blockJSON(17)), &block))
	var bloom types.Bloom
	bloom.Add(common.HexToAddress(receiver).Bytes())
	bloom.Add(common.HexToHash("0x05").Bytes())
	bloom.Add(common.HexToHash("0x06").Bytes())
	block.Bloom = bloom[:]
	other := strings.Replace(logJSON("1", "0"), `["0x05"]`, `["0x06"]`, 1)
	list := func(items ...string) string {
		return `{"logs":[` + strings.Join(items, ",") + `],"links":{"next":null}}`
	}
	n, asked := answers(t, list(), list(logJSON("0", "0")), list(other, logJSON("0", "0")))
	client := connect(t, n.URL)
	for _, want := range []int{0, 1, 2, 2} {
		if all, err := client.BlockLogs(t.Context(), &block, LogsQuery{}); err != nil || len(all) != want {
			t.Errorf("%d logs, %v; want %d", len(all), err, want)
		}
	}
	if asked.Load() != 3 {
		t.Errorf("asked %d times", asked.Load())
	}
	// A new block that shows logs is not told without any.
	block.To = hedera.FromNanos(time.Now().UnixNano())
	for _, test := range []struct {
		bodies []string
		want   int
		err    error
	}{{[]string{list(), list(), list(logJSON("0", "0"))}, 1, nil}, {[]string{list()}, 0, ErrImmature}} {
		n, _ := answers(t, test.bodies...)
		all, err := connect(t, n.URL, func(c *Config) { c.ImmatureAttempts = 4 }).BlockLogs(t.Context(), &block, LogsQuery{})
		if len(all) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%d logs, %v", len(all), err)
		}
	}
}

func logJSON(index, transaction string) string {
	return `{"address":"` + receiver + `","bloom":"0x00","contract_id":"0.0.5","data":"0x0102","index":` + index + `,"topics":["0x05"],"block_hash":"` +
		blockHash + tail + `","block_number":17,"root_contract_id":null,"timestamp":"1767225600.000000001","transaction_hash":"` + txHash + `","transaction_index":` + transaction + `}`
}

func TestLogs(t *testing.T) {
	page := func(next string, items ...string) string {
		return `{"logs":[` + strings.Join(items, ",") + `],"links":{"next":` + next + `}}`
	}
	n := newNode(t)
	client := connect(t, n.URL, func(c *Config) { c.ImmatureAttempts = 2 })
	to := address(receiver)
	q := LogsQuery{
		Address: &to,
		Period:  Period{hedera.Timestamp{Seconds: 1}, hedera.Timestamp{Seconds: 2}},
		Topics:  [4][]common.Hash{{common.HexToHash("0x05"), {}}, nil, {common.HexToHash(txHash)}},
	}
	path := "contracts/" + receiver + "/results/logs?timestamp=gte:1.000000000&timestamp=lte:2.000000000&topic0=5&topic0=0&topic2=" + txHash[2:] + "&limit=100&order=desc"
	n.set(path, page(`"/api/v1/contracts/`+receiver+`/results/logs?p=2"`, logJSON("1", "1")))
	n.set("contracts/"+receiver+"/results/logs?p=2", page("null", logJSON("0", "1")))
	logs, err := client.Logs(t.Context(), q)
	if err != nil || len(logs) != 2 {
		t.Fatalf("%v, %v; asked %q", logs, err, n.requests())
	}
	want := &Log{
		Log: eth.Log{
			Address: to, Topics: []common.Hash{common.HexToHash("0x05")}, Data: []byte{1, 2}, Index: 1, TxHash: common.HexToHash(txHash), TxIndex: 1,
			BlockHash: common.HexToHash(blockHash), BlockNumber: 17, BlockTime: 1767225600,
		},
		Timestamp: hedera.Timestamp{Seconds: 1767225600, Nanos: 1}, complete: true,
	}
	if diff := cmp.Diff(want, logs[1], cmp.AllowUnexported(Log{})); diff != "" {
		t.Error(diff)
	}
	// Nothing is older than the first log of the first block.
	for first, asks := range map[uint64]int{16: 2, 17: 1} {
		q := q
		q.FirstBlock = first
		n.set(path, page(`"/api/v1/contracts/`+receiver+`/results/logs?p=2"`, logJSON("1", "1")+","+logJSON("0", "1")))
		n.requests()
		if _, err := client.Logs(t.Context(), q); err != nil || len(n.requests()) != asks {
			t.Errorf("a page that ends with the first log of block 17, from %d on: %v", first, err)
		}
	}
	for _, incomplete := range []string{logJSON("null", "1"), logJSON("1", "null")} {
		n.set("contracts/"+receiver+"/results/logs?p=2", page("null", incomplete))
		if _, err := client.Logs(t.Context(), q); !errors.Is(err, ErrImmature) {
			t.Errorf("immature: %v", err)
		}
	}
	n.requests()
	byHash := LogsQuery{Transaction: new(common.HexToHash(txHash))}
	if logs, err := client.Logs(t.Context(), byHash); err != nil || len(logs) != 0 {
		t.Errorf("unknown transaction: %v, %v", logs, err)
	}
	if asked := n.requests(); len(asked) != 1 || asked[0] != "contracts/results/logs?transaction.hash="+txHash+"&limit=100&order=desc" {
		t.Errorf("asked %q", asked)
	}
}

func accountJSON(id int, alias string, nonce string) string {
	return fmt.Sprintf(`{"account":"0.0.%d","alias":null,"balance":{"balance":9007199254740993,"timestamp":"1767225602.000000000","tokens":[{"token_id":"0.0.7","balance":1}]},
		"created_timestamp":"1767225500.000000000","delegation_address":"0x","deleted":false,"ethereum_nonce":%s,"evm_address":"%s","key":{"_type":"ED25519","key":"ab"},
		"receiver_sig_required":true,"transactions":[],"links":{"next":null}}`, id, nonce, alias)
}

func TestAccount(t *testing.T) {
	n := newNode(t)
	n.set("accounts/"+receiver+"?transactions=false", accountJSON(1010, receiver, "5"))
	a, err := connect(t, n.URL).Account(t.Context(), address(receiver))
	if err != nil || a.ID != hedera.Entity(1010) || a.Balance != 9007199254740993 || !a.BalanceKnown || *a.Nonce != 5 || a.Delegation != nil || !a.ReceiverSignature || a.Address != address(receiver) {
		t.Errorf("%+v, %v", a, err)
	}
	for _, unknown := range []string{`null`, `{}`} {
		n.set("accounts/"+receiver+"?transactions=false", `{"account":"0.0.1010","balance":`+unknown+`}`)
		if a, err := connect(t, n.URL).Account(t.Context(), address(receiver)); err != nil || a.BalanceKnown {
			t.Errorf("with the balance %s: %+v, %v", unknown, a, err)
		}
	}
}

func TestAlias(t *testing.T) {
	n := newNode(t)
	n.set("accounts/0.0.1010?transactions=false", accountJSON(1010, receiver, "5"))
	n.set("accounts/0.0.1011?transactions=false", accountJSON(1011, "", "null"))
	n.set("tokens/0.0.1012", `{"created_timestamp":"1.000000000"}`)
	n.fail("accounts/0.0.1014?transactions=false")
	client := connect(t, n.URL)
	longZero := func(num int64) common.Address { return hedera.Entity(num).LongZero() }
	tests := []struct {
		name          string
		address, want common.Address
		asked         int // by two look-ups
	}{
		{"an alias already", address(receiver), address(receiver), 0},
		{"an entity of the network's own", longZero(0x167), longZero(0x167), 0},
		{"an account with an alias", longZero(1010), address(receiver), 1},
		{"an account without", longZero(1011), longZero(1011), 1},
		{"a token", longZero(1012), longZero(1012), 2},
		{"nothing, so far", longZero(1013), longZero(1013), 4},
	}
	for _, test := range tests {
		for range 2 {
			if got, err := client.Alias(t.Context(), test.address); err != nil || got != test.want {
				t.Errorf("%s: %s, %v", test.name, got, err)
			}
		}
		if asked := n.requests(); len(asked) != test.asked {
			t.Errorf("%s: asked %q", test.name, asked)
		}
	}
	// A failure is not an answer.
	if _, err := client.Alias(t.Context(), longZero(1014)); err == nil {
		t.Error("a failure passes for an address")
	}
}

// fail answers a path with status 500.
func (n *node) fail(path string) {
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.RequestURI(), path) {
			fail(w, 500, "")
			return
		}
		notFound(w, r)
	}
}

func TestBalanceAt(t *testing.T) {
	at := hedera.Timestamp{Seconds: 1767225700}
	transaction := func(seconds int, amounts ...int) string {
		var transfers []string
		for _, amount := range amounts {
			transfers = append(transfers, fmt.Sprintf(`{"account":"0.0.1010","amount":%d,"is_approval":false},{"account":"0.0.2","amount":%d,"is_approval":false}`, amount, -amount))
		}
		return fmt.Sprintf(`{"consensus_timestamp":"%d.000000000","transfers":[%s]}`, seconds, strings.Join(transfers, ","))
	}
	account := func(balance int, known string, next string, transactions ...string) string {
		return fmt.Sprintf(`{"account":"0.0.1010","evm_address":"%s","balance":{"balance":%d,"timestamp":%s},"created_timestamp":"1767225500.000000000","transactions":[%s],"links":{"next":%s}}`,
			receiver, balance, known, strings.Join(transactions, ","), next)
	}
	between := func(after, until string) string {
		return "transactions?account.id=0.0.1010&timestamp=gt:" + after + "&timestamp=lte:" + until + "&limit=100&order=asc"
	}
	list := func(items ...string) string {
		return `{"transactions":[` + strings.Join(items, ",") + `],"links":{"next":null}}`
	}
	tests := map[string]struct {
		account string
		more    map[string]string
		want    hedera.Tinybar
	}{
		"known at that moment":          {account(100, `"1767225700.000000000"`, "null"), nil, 100},
		"time of balance not told":      {account(100, "null", "null", transaction(1767225699, 5)), nil, 100},
		"snapshot, and transfers since": {account(100, `"1767225600.000000000"`, "null", transaction(1767225700, 5, -1), transaction(1767225650, 10), transaction(1767225600, 1000)), nil, 114},
		"snapshot, nothing since":       {account(100, `"1767225600.000000000"`, `"/api/v1/x"`, transaction(1767225600, 1000)), nil, 100},
		"snapshot, more than a page since": {
			account(100, `"1767225600.000000000"`, `"/api/v1/x"`, transaction(1767225700, 5)),
			map[string]string{between("1767225600.000000000", "1767225700.000000000"): list(transaction(1767225650, 10), transaction(1767225700, 5))},
			115,
		},
		// The transaction at the moment itself has happened.
		"balance of later": {
			account(100, `"1767225800.000000000"`, "null", transaction(1767225700, 5)),
			map[string]string{between("1767225700.000000000", "1767225800.000000000"): list(transaction(1767225750, 30))},
			70,
		},
	}
	for name, test := range tests {
		n := newNode(t)
		n.set("accounts/"+receiver+"?timestamp=lte:1767225700.000000000&limit=100&order=desc", test.account)
		for path, body := range test.more {
			n.set(path, body)
		}
		if got, err := connect(t, n.URL).BalanceAt(t.Context(), address(receiver), at); err != nil || got != test.want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, test.want)
		}
	}
	n := newNode(t)
	client := connect(t, n.URL)
	n.set("accounts/"+receiver+"?timestamp=lte:1767225400.000000000&limit=100&order=desc", account(100, "null", "null"))
	for _, at := range []hedera.Timestamp{{Seconds: 1767225400}, {Seconds: 5}} {
		if _, err := client.BalanceAt(t.Context(), address(receiver), at); !errors.Is(err, ErrNotFound) {
			t.Errorf("before the account: %v", err)
		}
	}
}

func TestStorage(t *testing.T) {
	key := common.HexToHash("0x01")
	state := func(slot string) string {
		return `{"state":[{"address":"` + receiver + `","contract_id":"0.0.5","slot":"` + slot + `","value":"0x2a"}],"links":{"next":"/api/v1/x"}}`
	}
	n := newNode(t)
	path := "contracts/" + receiver + "/state?slot=" + key.Hex() + "&limit=1&order=desc"
	past := "contracts/" + receiver + "/state?timestamp=5.000000000&slot=" + key.Hex() + "&limit=1&order=desc"
	client := connect(t, n.URL)
	for name, test := range map[string]struct {
		answer string
		want   common.Hash
	}{
		"written":     {state(key.Hex()), common.HexToHash("0x2a")},
		"short":       {state("0x1"), common.HexToHash("0x2a")},
		"not written": {`{"state":[],"links":{"next":null}}`, common.Hash{}},
	} {
		n.set(path, test.answer)
		n.set(past, test.answer)
		for _, at := range []hedera.Timestamp{{}, {Seconds: 5}} {
			if got, err := client.Storage(t.Context(), address(receiver), key, at); err != nil || got != test.want {
				t.Errorf("%s: %s, %v", name, got, err)
			}
		}
	}
	if got, err := client.Storage(t.Context(), address(sender), key, hedera.Timestamp{}); err != nil || got != (common.Hash{}) {
		t.Errorf("no contract: %s, %v", got, err)
	}
}

func TestGasPriceAt(t *testing.T) {
	n := newNode(t)
	var changes atomic.Int64
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		at, err := hedera.ParseTimestamp(strings.TrimPrefix(r.URL.Query().Get("timestamp"), "lte:"))
		if err != nil || at.Seconds > time.Now().Unix() {
			t.Errorf("asked for %v: %v", at, err)
		}
		if change := changes.Load(); change > 0 {
			at.Seconds = max(0, min(1, at.Seconds-change+1)) * hour
		}
		fmt.Fprintf(w, `{"fees":[{"gas":%d,"transaction_type":"EthereumTransaction"}]}`, 71+at.Seconds/3600)
	}
	client := connect(t, n.URL)
	price := func(seconds int64, want hedera.Tinybar, asks int) {
		t.Helper()
		got, err := client.GasPriceAt(t.Context(), hedera.Timestamp{Seconds: seconds, Nanos: 5})
		if asked := n.requests(); err != nil || got != want || len(asked) != asks {
			t.Errorf("at %d: %d, %v; want %d; asked %q", seconds, got, err, want, asked)
		}
	}
	price(1000, 71, 1)
	price(1009, 71, 0) // within precision
	price(2000, 71, 1) // for the end of the hour
	price(1500, 71, 0) // between two of one price
	price(3500, 71, 0)
	price(5000, 72, 1)
	price(6000, 72, 1)
	price(500, 71, 1) // for the beginning of the hour
	price(10, 71, 0)
	price(7200, 73, 1)
	price(7210, 73, 1)
	for at := int64(7220); at < 7200+3600; at += 10 { // a whole hour
		price(at, 73, 0)
	}
	price(72_000+1800, 91, 1) // far from everything, then on both sides of it
	price(72_000+1000, 91, 1)
	price(72_000+3000, 91, 1)
	price(72_000+10, 91, 0)
	now := time.Now()
	must.Get(client.GasPriceAt(t.Context(), hedera.TimestampOf(now.Add(-20*time.Second))))(t)
	must.Get(client.GasPriceAt(t.Context(), hedera.TimestampOf(now)))(t)
	// An hour in which the price changes.
	changes.Store(100_000*3600 + 1800)
	for seconds, want := range map[int64]hedera.Tinybar{0: 71, 600: 71, 1790: 71, 1800: 72, 1810: 72, 3590: 72, 1200: 71, 2400: 72} {
		if got, err := client.GasPriceAt(t.Context(), hedera.Timestamp{Seconds: 100_000*3600 + seconds}); err != nil || got != want {
			t.Errorf("%d seconds into an hour in which the price changes: %d, %v; want %d", seconds, got, err, want)
		}
	}
}

func TestNetwork(t *testing.T) {
	n := newNode(t)
	n.set("network/exchangerate", `{"current_rate":{"cent_equivalent":12,"expiration_time":1767229200,"hbar_equivalent":1},"next_rate":{"cent_equivalent":15,"expiration_time":2,"hbar_equivalent":2},"timestamp":"1.000000000"}`)
	n.set("schedules/0.0.9", `{"schedule_id":"0.0.9","consensus_timestamp":"8.000000001"}`)
	n.set("transactions/0.0.2-5-000000006", `{"transactions":[{"transaction_id":"0.0.2-5-000000006","name":"ETHEREUMTRANSACTION","result":"SUCCESS","charged_tx_fee":3,"nonce":0,"scheduled":true,"entity_id":"0.0.9","consensus_timestamp":"6.000000000","transfers":[]}]}`)
	client := connect(t, n.URL)
	rates, err := client.ExchangeRates(t.Context())
	if diff := cmp.Diff(&ExchangeRates{ExchangeRate{12, 1, 1767229200}, ExchangeRate{15, 2, 2}}, rates); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if s, err := client.Schedule(t.Context(), hedera.Entity(9)); err != nil || s.At != (hedera.Timestamp{Seconds: 8, Nanos: 1}) {
		t.Errorf("%v, %v", s, err)
	}
	id := hedera.TransactionID{Payer: hedera.Entity(2), ValidStart: hedera.Timestamp{Seconds: 5, Nanos: 6}}
	list, err := client.Transactions(t.Context(), id)
	if err != nil || len(list) != 1 || list[0].Fee != 3 || list[0].Name != "ETHEREUMTRANSACTION" || !list[0].Scheduled || list[0].Entity != hedera.Entity(9) {
		t.Errorf("%v, %v", list, err)
	}
}

func TestCacheBounds(t *testing.T) {
	c := newCache[int, string](3, 100)
	for i := range 5 {
		c.put(i, "x", 10)
	}
	if _, ok := c.get(1); ok || c.size() != 3 {
		t.Errorf("%d entries", c.size())
	}
	c.put(9, "huge", 26) // more than a quarter
	if _, ok := c.get(9); ok {
		t.Error("an entry displaces the rest")
	}
	for i := range 5 {
		c.put(2, "x", int64(20+i)) // replaced, not added
	}
	if c.bytes != 44 {
		t.Errorf("%d bytes", c.bytes)
	}
	d := newCache[int, string](1000, 100)
	for i := range 50 {
		d.put(i, "x", 20)
	}
	if d.size() != 5 || d.bytes != 100 {
		t.Errorf("%d entries of %d bytes", d.size(), d.bytes)
	}
	d.purge()
	if d.size() != 0 || d.bytes != 0 {
		t.Errorf("after purge %d entries of %d bytes", d.size(), d.bytes)
	}
	off := newCache[int, string](0, 100)
	off.put(1, "x", 1)
	if _, ok := off.get(1); ok || off.size() != 0 {
		t.Error("a cache that is off keeps something")
	}
	off.purge()
}

// traceNode answers by path what the mirror node would of one transaction.
func traceNode(t *testing.T, bodies map[string]string) (*Client, *[]string) {
	t.Helper()
	n := newNode(t)
	asked := new([]string)
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.RequestURI(), "/api/v1/")
		*asked = append(*asked, path)
		body, ok := bodies[path]
		if !ok {
			notFound(w, r)
			return
		}
		fmt.Fprint(w, body)
	}
	return connect(t, n.URL), asked
}

func TestActions(t *testing.T) {
	hash := common.HexToHash(txHash)
	const first = `{"call_depth":0,"call_operation_type":"CALL","call_type":"CALL","caller":"0.0.1","from":"0x00000000000000000000000000000000000003f2",` +
		`"to":"0x00000000000000000000000000000000000003eb","gas":100,"gas_used":60,"index":0,"input":"0x01","result_data":"0x02","result_data_type":"OUTPUT","value":7}`
	const second = `{"call_depth":99999999,"call_operation_type":"CREATE","call_type":"CREATE","from":"0x00000000000000000000000000000000000003eb",` +
		`"to":null,"gas":10,"gas_used":9,"index":1,"input":null,"result_data":"0x494e53554646494349454e545f474153","result_data_type":"ERROR","value":0}`
	path := "contracts/results/" + hash.Hex() + "/actions"
	client, _ := traceNode(t, map[string]string{
		path + "?limit=100&order=asc":            `{"actions":[` + first + `],"links":{"next":"/api/v1/` + path + `?limit=100&order=asc&index=gt:0"}}`,
		path + "?limit=100&order=asc&index=gt:0": `{"actions":[` + second + `],"links":{"next":null}}`,
	})
	got := must.Get(client.Actions(t.Context(), hash))(t)
	receiver := hedera.Entity(1003).LongZero()
	want := []*Action{
		{Operation: "CALL", Class: "CALL", From: hedera.Entity(1010).LongZero(), To: &receiver, Value: 7, Gas: 100, GasUsed: 60, Input: []byte{1}, Outcome: "OUTPUT", Result: []byte{2}},
		{Depth: 99_999_999, Operation: "CREATE", Class: "CREATE", From: receiver, Gas: 10, GasUsed: 9, Outcome: OutcomeError, Result: []byte("INSUFFICIENT_GAS")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if none, err := client.Actions(t.Context(), common.Hash{1}); len(none) != 0 || err != nil {
		t.Errorf("of an unknown transaction: %v, %v", none, err)
	}
}

func TestStateChanges(t *testing.T) {
	hash := common.HexToHash(txHash)
	path := "contracts/results/" + hash.Hex() + "?hbar=false"
	client, _ := traceNode(t, map[string]string{path: `{"logs":[{"index":0}],"state_changes":[` +
		`{"address":"0x00000000000000000000000000000000000003eb","contract_id":"0.0.1003","slot":"0x1","value_read":"0x02","value_written":null},` +
		`{"address":"0x00000000000000000000000000000000000003eb","contract_id":"0.0.1003","slot":"0x2","value_read":"0x","value_written":"0x0"}],"x":1}`})
	got := must.Get(client.StateChanges(t.Context(), hash))(t)
	at := hedera.Entity(1003).LongZero()
	want := []StateChange{
		{Address: at, Slot: common.Hash{31: 1}, Read: common.Hash{31: 2}},
		{Address: at, Slot: common.Hash{31: 2}, Written: new(common.Hash)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := client.StateChanges(t.Context(), common.Hash{1}); !errors.Is(err, ErrNotFound) {
		t.Errorf("of an unknown transaction: %v", err)
	}
}

func TestContractInThePast(t *testing.T) {
	address := common.Address{0xc0, 0xff, 0xee}
	path := "contracts/" + lowerHex(address)
	const body = `{"contract_id":"0.0.1003","created_timestamp":"5.000000000","nonce":3,"bytecode":"0xaa","runtime_bytecode":"0xbb"}`
	client, _ := traceNode(t, map[string]string{
		path + "?timestamp=lte:9.000000000": body, path + "?timestamp=lte:4.999999999": body, path: body,
	})
	contract, err := client.ContractAt(t.Context(), address, hedera.Timestamp{Seconds: 9})
	if err != nil || *contract.Nonce != 3 || string(contract.Code) != "\xbb" {
		t.Errorf("%+v, %v", contract, err)
	}
	for _, at := range []hedera.Timestamp{{Seconds: 4, Nanos: 999_999_999}, {Seconds: 1}} {
		if contract, err := client.ContractAt(t.Context(), address, at); !errors.Is(err, ErrNotFound) {
			t.Errorf("at %s: %+v, %v", at, contract, err)
		}
	}
	made, err := client.Deployment(t.Context(), address)
	if diff := cmp.Diff(&Deployment{Init: []byte{0xaa}, Code: []byte{0xbb}}, made); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestOpcodes(t *testing.T) {
	hash := common.HexToHash(txHash)
	path := "contracts/results/" + hash.Hex() + "/opcodes?stack=true&memory=false&storage=true"
	const body = `{"address":"0x","contract_id":null,"failed":true,"gas":21064,"return_value":"0x2a","opcodes":[` +
		`{"depth":1,"gas":99,"gas_cost":3,"memory":null,"op":"PUSH1","pc":0,"reason":null,"stack":[],"storage":{}},` +
		`{"depth":1,"gas":96,"gas_cost":0,"memory":null,"op":"SSTORE","pc":2,"reason":"0x6f6f","stack":["0x1","02"],"storage":{"0x1":"0x2"}}]}`
	client, asked := traceNode(t, map[string]string{path: body})
	query := OpcodesQuery{Stack: true, Storage: true}
	got := must.Get(client.Opcodes(t.Context(), hash, query))(t)
	want := &Opcodes{Gas: 21064, Failed: true, Return: []byte{42}, Steps: []Step{
		{Op: "PUSH1", Gas: 99, Cost: 3, Depth: 1, Stack: []common.Hash{}, Storage: []Word{}},
		{PC: 2, Op: "SSTORE", Gas: 96, Depth: 1, Stack: []common.Hash{{31: 1}, {31: 2}}, Storage: []Word{{common.Hash{31: 1}, common.Hash{31: 2}}}, Reason: "0x6f6f"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	query.MaxBytes = int64(len(body)) - 1
	if _, err := client.Opcodes(t.Context(), hash, query); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long trace: %v", err)
	}
	if _, err := client.Opcodes(t.Context(), common.Hash{1}, query); !errors.Is(err, ErrNotFound) {
		t.Errorf("of an unknown transaction: %v", err)
	}
	if len(*asked) != 3 {
		t.Errorf("asked for %v", *asked)
	}
}
