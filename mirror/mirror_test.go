package mirror

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/envx"
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
