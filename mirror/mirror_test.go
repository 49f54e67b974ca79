package mirror

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/secret"
)

// node is a scripted mirror node: answers by path and query below /api/v1/, and what
// was asked for.
type node struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]string
	handler http.HandlerFunc // for what answers does not hold
	asked   []string
}

func newNode(t *testing.T) *node {
	n := &node{answers: make(map[string]string)}
	n.Server = httptest.NewServer(http.HandlerFunc(n.serve))
	t.Cleanup(n.Close)
	return n
}

func (n *node) serve(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.RequestURI(), "/api/v1/")
	n.mu.Lock()
	n.asked = append(n.asked, path)
	answer, ok := n.answers[path]
	handler := n.handler
	n.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case ok:
		fmt.Fprint(w, answer)
	case handler != nil:
		handler(w, r)
	default:
		notFound(w, r)
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	fail(w, http.StatusNotFound, `{"_status":{"messages":[{"message":"Not found"}]}}`)
}

func fail(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func (n *node) set(path, answer string) {
	n.mu.Lock()
	n.answers[path] = answer
	n.mu.Unlock()
}

// requests returns what was asked for since the last call.
func (n *node) requests() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	asked := n.asked
	n.asked = nil
	return asked
}

// defaults are the settings as an empty environment gives them.
func defaults(t testing.TB) Config {
	t.Helper()
	return must.Get(env.ParseAsWithOptions[Config](env.Options{Environment: map[string]string{}}))(t)
}

func connect(t testing.TB, url string, change ...func(*Config)) *Client {
	t.Helper()
	return connectOver(t, nil, url, change...)
}

// connectOver is connect over a transport; nil is the one of every client.
func connectOver(t testing.TB, transport http.RoundTripper, url string, change ...func(*Config)) *Client {
	t.Helper()
	config := defaults(t)
	config.URL = secret.URL(url)
	config.RetryDelay, config.Timeout = 0, envx.Millis(patience)
	for _, c := range change {
		c(&config)
	}
	client := must.Get(New(config, Options{Log: slog.New(slog.DiscardHandler), Transport: transport}))(t)
	t.Cleanup(client.fetch.CloseIdleConnections)
	return client
}

const (
	blockHash  = "0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
	parentHash = "0xa102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
	tail       = "aabbccddeeff00112233445566778899" // what follows the 32 bytes of a block hash
	txHash     = "0xdd02030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"
	sender     = "0x00000000000000000000000000000000000003f2"
	receiver   = "0x05fba803be258049a27b820088bab1cad2058871"
)

func blockJSON(number int) string {
	return fmt.Sprintf(`{"count":3,"gas_used":21000,"hapi_version":"0.75.0","hash":"%s%s","logs_bloom":"0x","name":"x.rcd.gz","number":%d,
		"previous_hash":"%s%s","size":489,"timestamp":{"from":"1767225600.000000001","to":"1767225601.999999999"}}`, blockHash, tail, number, parentHash, tail)
}

func blocksJSON(next string, numbers ...int) string {
	var items []string
	for _, n := range numbers {
		items = append(items, blockJSON(n))
	}
	return `{"blocks":[` + strings.Join(items, ",") + `],"links":{"next":` + next + `}}`
}

// resultJSON is a contract result with some members replaced; an empty
// replacement removes nothing.
func resultJSON(changes ...string) string {
	text := `{"address":"` + receiver + `","amount":10000000000000000000000,"bloom":"0x` + strings.Repeat("00", 256) + `","call_result":"0x","contract_id":"0.0.1003",
		"created_contract_ids":[],"error_message":null,"from":"` + sender + `","function_parameters":"0xa9059cbb","gas_consumed":21000,"gas_limit":30000,
		"gas_used":21000,"timestamp":"1767225600.000000001","to":"` + receiver + `","hash":"` + txHash + `","block_hash":"` + blockHash + tail + `",
		"block_number":17,"logs":[{"address":"` + receiver + `","bloom":"0x00","contract_id":"0.0.1003","data":"0x0102","index":4,"topics":["` + txHash + `"]}],
		"result":"SUCCESS","transaction_index":0,"state_changes":[{"address":"0x","slot":"0x0","value_read":"0x1"}],"status":"0x1","failed_initcode":null,
		"access_list":[{"address":"` + receiver + `","storage_keys":["0x01"]}],
		"authorization_list":[{"chain_id":"0x12a","address":"` + receiver + `","nonce":7,"y_parity":1,"r":"0x0a","s":"0x0b"}],
		"block_gas_used":21000,"chain_id":"0x12a","gas_price":"0x","max_fee_per_gas":"0xa54f4c3c00","max_priority_fee_per_gas":"0x1",
		"r":"0x01","s":"0x02","type":2,"v":1,"nonce":5}`
	for i := 0; i+1 < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			panic("nothing to replace: " + changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	return text
}

func address(text string) common.Address { return common.HexToAddress(text) }

// patience is how long a test waits for what must happen; machines that test are busy.
const patience = 2 * time.Minute

// held is a node whose answers wait until they are released.
func held(t *testing.T, body string) (n *node, arrived chan string, release chan struct{}) {
	n = newNode(t)
	arrived, release = make(chan string, 100), make(chan struct{})
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.RequestURI()
		select {
		case <-release:
			fmt.Fprint(w, body)
		case <-r.Context().Done():
			arrived <- "gone"
		}
	}
	return n, arrived, release
}

func TestFreshHead(t *testing.T) {
	n := newNode(t)
	n.set(latestPath, blocksJSON("null", 17))
	client := connect(t, n.URL, func(c *Config) { c.Freshness = envx.Millis(time.Hour) })
	head := func(want uint64) {
		t.Helper()
		if block, err := client.LatestBlock(t.Context()); err != nil || block.Number != want {
			t.Errorf("head %v, %v; want %d", block, err, want)
		}
	}
	head(17)
	n.set(latestPath, blocksJSON("null", 18))
	head(17) // shared
	client.Invalidate()
	head(18) // a write happened
	n.set(latestPath, blocksJSON("null", 20))
	n.set("blocks/20", blockJSON(20))
	head(18)
	must.Get(client.BlockByNumber(t.Context(), 20))(t)
	head(20) // an answer told of a newer block
	if diff := cmp.Diff([]string{latestPath, latestPath, "blocks/20", latestPath}, n.requests()); diff != "" {
		t.Error(diff)
	}
}

func TestFreshnessEnds(t *testing.T) {
	n := newNode(t)
	n.set("network/fees", `{"fees":[{"gas":71,"transaction_type":"EthereumTransaction"}],"timestamp":"1.000000000"}`)
	client := connect(t, n.URL, func(c *Config) { c.Freshness = 0 })
	for range 3 {
		if fees, err := client.Fees(t.Context()); err != nil || fees.EthereumTransaction != 71 {
			t.Fatal(fees, err)
		}
	}
	if len(n.requests()) != 3 {
		t.Error("an interval of 0 shares what is not under way")
	}
}

// A read that began before a write must not serve a read that begins after it.
func TestInvalidateKeepsOutOfOldReads(t *testing.T) {
	n, arrived, release := held(t, `{"account":"0.0.1010","evm_address":"`+receiver+`","balance":{"balance":1},"ethereum_nonce":1}`)
	client := connect(t, n.URL)
	done := make(chan error, 2)
	read := func() { _, err := client.Account(t.Context(), address(receiver)); done <- err }
	go read()
	<-arrived
	client.Invalidate()
	go read()
	<-arrived // a request of its own
	close(release)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsAreNotShared(t *testing.T) {
	n := newNode(t)
	n.handler = func(w http.ResponseWriter, _ *http.Request) { fail(w, 500, "") }
	client := connect(t, n.URL, func(c *Config) { c.Freshness = envx.Millis(time.Hour) })
	if _, err := client.LatestBlock(t.Context()); err == nil {
		t.Fatal("no error")
	}
	n.set(latestPath, blocksJSON("null", 17))
	if block, err := client.LatestBlock(t.Context()); err != nil || block.Number != 17 {
		t.Errorf("%v, %v", block, err)
	}
}

// Those who ask for prices of one hour at the same time wait for the first of them, and
// then know more.
func TestPricesOfOneHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &blocked{answer: `{"fees":[{"gas":71,"transaction_type":"EthereumTransaction"}]}`, release: make(chan struct{})}
		client := transport.client(t)
		var callers sync.WaitGroup
		for i := range 30 {
			callers.Go(func() {
				price, err := client.GasPriceAt(t.Context(), hedera.Timestamp{Seconds: int64(3600 + 100*i)})
				if price != 71 || err != nil {
					t.Errorf("%d %v", price, err)
				}
			})
		}
		synctest.Wait()
		close(transport.release)
		callers.Wait()
		if asked := transport.asked.Load(); asked > 3 { // for the first of them, and for both ends of the hour
			t.Errorf("asked %d times", asked)
		}
	})
}
