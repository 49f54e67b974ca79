package app_test

import (
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/apikey"
)

// sum adds the series that begin so; without a label they are those of one metric.
func sum(series map[string]float64, prefix string) (total float64) {
	whole := !strings.Contains(prefix, "{")
	for name, value := range series {
		if name == prefix || strings.HasPrefix(name, prefix) && (!whole || name[len(prefix)] == '{') {
			total += value
		}
	}
	return total
}

// step is a kind of trouble, and what the metrics are to tell of it: how the series begin that belong to a metric, and
// their sum. A negative number is a least one.
type step struct {
	what string
	do   func(t *testing.T, s *trouble)
	tell map[string]float64
}

// trouble is a relay whose surroundings fail, step by step.
type trouble struct {
	*relay
	server   *redistest.Server
	sender   *account
	keys     []string // API keys
	clients  []*rpc.Client
	events   *rpc.ClientSubscription
	late     chan answer
	release  func()
	promises *relay // another one, which answers before the verdict
}

// dialFrom opens a WebSocket connection as a client with that address. It may be closed at once.
func (s *trouble) dialFrom(t *testing.T, address string) *rpc.Client {
	t.Helper()
	client, err := rpc.DialOptions(t.Context(), "ws"+strings.TrimPrefix(s.url, "http"), rpc.WithHeader("X-Forwarded-For", address))
	if err != nil {
		return nil // refused before the handshake
	}
	t.Cleanup(client.Close)
	return client
}

const atLeast = -1

func troubles() []step {
	return []step{
		{"a method is called too often", func(t *testing.T, s *trouble) {
			for range 3 {
				s.call("net_listening")
			}
		}, map[string]float64{`rpc_relay_ip_rate_limit{methodName="net_listening",storeType="RedisRateLimit"}`: 2}},
		{"a key is used for what it must not do", func(t *testing.T, s *trouble) {
			as := func(key int, method string) int {
				status, _ := ask(t, http.MethodPost, s.url, rpcBody(method), "Authorization", "Bearer "+s.keys[key])
				return status
			}
			as(0, "net_version")
			must.Until(t, "the key has made its calls", func() bool { return as(0, "eth_chainId") == http.StatusTooManyRequests })
			as(1, "eth_chainId")
		}, map[string]float64{
			`lockstep_api_key_calls_total{key="shop"}`:                         atLeast,
			`lockstep_api_key_weight_total{key="shop"}`:                        atLeast,
			`lockstep_api_key_refused_calls_total{key="shop",reason="method"}`: 1,
			`lockstep_api_key_refused_calls_total{key="shop",reason="limit"}`:  1,
			`lockstep_api_key_refused_requests_total{reason="unknown"}`:        1,
		}},
		{"a nonce is missing", func(t *testing.T, s *trouble) {
			s.late = make(chan answer, 1)
			go func() { s.late <- s.send(s.sender.sign(s.sender.pay(1))) }()
		}, map[string]float64{
			"rpc_relay_tx_in_progress":           1,
			"rpc_relay_txpool_pending_count":     1,
			"rpc_relay_txpool_active_addresses":  1,
			"rpc_relay_requests_in_flight{trans": 1,
		}},
		{"the missing nonce comes, and the mirror node is slow to show it", func(t *testing.T, s *trouble) {
			first := s.sender.sign(s.sender.pay(0))
			if got := s.send(first); got.Error != nil {
				t.Fatal(got)
			}
			if got := <-s.late; got.Error != nil {
				t.Fatal(got)
			}
			s.faults(t, `[{"at":"mirror","path":"/contracts/results/`+first.Hash().Hex()+`","httpStatus":404}]`)
			go func() { s.late <- s.call("eth_getTransactionReceipt", first.Hash()) }()
			s.becomesSum(t, "lockstep_read_your_writes_waiting", 1)
			s.faults(t, `[]`)
			if got := <-s.late; got.Error != nil || string(got.Result) == "null" {
				t.Errorf("the receipt: %s", got)
			}
		}, map[string]float64{
			"rpc_relay_tx_in_progress":                                                 0,
			"rpc_relay_txpool_pending_count":                                           0,
			`lockstep_read_your_writes_total{end="answered"}`:                          1,
			"lockstep_read_your_writes_waiting":                                        0,
			`rpc_relay_cache_redis_operations_total{operation="get",result="miss"}`:    atLeast,
			`rpc_relay_cache_redis_operations_total{operation="put",result="done"}`:    atLeast,
			`rpc_relay_tx_outcomes_total{outcome="executed",status="SUCCESS"}`:         2,
			`rpc_relay_lock_acquisitions_total{status="success",strategy="redis"}`:     2,
			`rpc_relay_mirror_upstream_head{upstream=`:                                 atLeast,
			`rpc_relay_mirror_upstream_lag_blocks{upstream=`:                           0,
			`rpc_relay_mirror_upstream_state{service="`:                                0,
			"rpc_relay_mirror_unreadable_records_total":                                0,
			`rpc_relay_mirror_node_http_error_code_count{`:                             0, // absence is no failure
			`rpc_relay_mirror_repeated_requests_total{kind="retry"}`:                   0,
			`rpc_relay_hbar_rate_limit{methodName="eth_sendRawTransaction",mode="TRAN`: 0,
			`rpc_relay_consensus_node_errors_total{`:                                   0,
		}},
		{"consensus refuses a nonce that is right", func(t *testing.T, s *trouble) {
			s.faults(t, `[{"at":"submit","times":1,"outcome":"WRONG_NONCE"}]`)
			if got := s.send(s.sender.sign(s.sender.pay(2))); got.Error == nil || got.Error.Code != rejected {
				t.Errorf("refused: %s", got)
			}
			s.faults(t, `[]`)
			another := s.sender.pay(2)
			another.Value = big.NewInt(2e10)
			if got := s.send(s.sender.sign(another)); got.Error != nil {
				t.Error(got)
			}
		}, map[string]float64{
			`rpc_relay_wrong_nonce_errors_total{strategy="redis"}`:                 1,
			`rpc_relay_tx_outcomes_total{outcome="rejected",status="WRONG_NONCE"}`: 1,
			`rpc_relay_tx_outcomes_total{outcome="executed",status="`:              3,
		}},
		{"the mirror node fails once", func(t *testing.T, s *trouble) {
			address, failed := strings.ToLower(s.sender.address.Hex()), new(atomic.Bool)
			once := func(r *http.Request) mirrorrest.Fault {
				if strings.Contains(strings.ToLower(r.URL.String()), address) && failed.CompareAndSwap(false, true) {
					return mirrorrest.Fault{Status: http.StatusServiceUnavailable}
				}
				return mirrorrest.Fault{}
			}
			s.world.mirror.Store(&once)
			if got := s.call("eth_getBalance", s.sender.address, "latest"); got.Error != nil {
				t.Error(got)
			}
			s.world.mirror.Store(nil)
		}, map[string]float64{
			`rpc_relay_mirror_node_http_error_code_count{`:           1,
			`rpc_relay_mirror_repeated_requests_total{kind="retry"}`: 1,
		}},
		{"a request waits for the mirror node", func(t *testing.T, s *trouble) {
			held := make(chan struct{})
			hold := func(r *http.Request) mirrorrest.Fault {
				if strings.Contains(r.URL.Path, "/contracts/call") {
					<-held
				}
				return mirrorrest.Fault{}
			}
			s.world.mirror.Store(&hold)
			s.late = make(chan answer, 1)
			go func() {
				s.late <- s.call("eth_call", map[string]string{"to": s.sender.address.Hex(), "data": "0x" + strings.Repeat("00", 16<<10)}, "latest")
			}()
			s.release = func() { close(held) }
		}, map[string]float64{
			`rpc_relay_requests_in_flight{transport="http"}`: 1,
			"rpc_relay_request_memory_bytes":                 atLeast,
			"rpc_relay_request_memory_clients":               1,
		}},
		{"it is answered", func(t *testing.T, s *trouble) {
			s.release()
			<-s.late
			s.world.mirror.Store(nil)
		}, map[string]float64{
			`rpc_relay_requests_in_flight{transport="http"}`: 0,
			"rpc_relay_request_memory_bytes":                 0,
			"rpc_relay_request_memory_clients":               0,
		}},
		{"clients connect, more than may", func(t *testing.T, s *trouble) {
			for _, address := range []string{"192.0.2.1", "192.0.2.1"} {
				s.clients = append(s.clients, s.dialFrom(t, address))
			}
			s.becomesSum(t, "rpc_websocket_active_connections", 2)
			s.dialFrom(t, "192.0.2.1")
			s.becomesSum(t, "rpc_websocket_total_connection_limit_by_ip_enforced", 1)
			s.clients = append(s.clients, s.dialFrom(t, "192.0.2.2"))
			s.becomesSum(t, "rpc_websocket_active_connections", 3)
			s.dialFrom(t, "192.0.2.3")
		}, map[string]float64{
			"rpc_websocket_total_connection_limit_by_ip_enforced":  1,
			"rpc_websocket_total_connection_limit_enforced":        1,
			"rpc_websocket_total_connection_limit_by_ttl_enforced": 0,
			"rpc_websocket_active_connections":                     3,
			"rpc_websocket_slow_clients_total":                     0,
		}},
		{"a client hears of a block", func(t *testing.T, s *trouble) {
			heads := make(chan map[string]any, 100)
			var err error
			if s.events, err = s.clients[0].EthSubscribe(t.Context(), heads, "newHeads"); err != nil {
				t.Fatal(err)
			}
			if got := s.send(s.sender.sign(s.sender.pay(3))); got.Error != nil {
				t.Fatal(got)
			}
			<-heads
		}, map[string]float64{
			`rpc_websocket_active_subscriptions{tag="newHeads"}`:  1,
			"rpc_websocket_active_polls":                          1,
			"rpc_websocket_active_newheads_polls":                 1,
			`rpc_websocket_notifications_total{tag="newHeads"}`:   atLeast,
			`rpc_websocket_poll_received_results{tag="newHeads"}`: atLeast,
			"rpc_websocket_watch_block":                           atLeast,
			"rpc_websocket_watch_skipped_blocks_total":            0,
			"rpc_websocket_pending_dropped_total":                 0,
			`rpc_websocket_method_counter{method="eth_subscribe"`: 1,
		}},
		{"the mirror node is away", func(t *testing.T, s *trouble) {
			s.world.spoilMirror(t, func(*http.Request) mirrorrest.Fault { return mirrorrest.Fault{Status: http.StatusServiceUnavailable} })
			s.becomesSum(t, "rpc_websocket_watch_failures_total", atLeast)
			must.Until(t, "the mirror node is given up", func() bool {
				s.call("eth_getBalance", s.sender.address, "latest")
				return sum(s.scrape(), `rpc_relay_mirror_upstream_state{service="rest"`) > 0
			})
		}, map[string]float64{
			`rpc_relay_mirror_upstream_state{service="rest"`: atLeast,
			"rpc_websocket_watch_failures_total":             atLeast,
		}},
		{"it is back, and clients go", func(t *testing.T, s *trouble) {
			s.world.mirror.Store(nil)
			must.Until(t, "the mirror node is asked again", func() bool {
				s.call("eth_getBalance", s.sender.address, "latest")
				return sum(s.scrape(), `rpc_relay_mirror_upstream_state{service="rest"`) == 0
			})
			s.events.Unsubscribe()
			s.becomesSum(t, "rpc_websocket_active_polls", 0)
			for _, client := range s.clients {
				client.Close()
			}
		}, map[string]float64{
			"rpc_websocket_active_subscriptions{":             0,
			"rpc_websocket_active_newheads_polls":             0,
			"rpc_websocket_subscription_times_count":          1,
			"rpc_websocket_active_connections":                0,
			"rpc_websocket_connections_closed_total":          3,
			"rpc_websocket_connection_duration_seconds_count": 3,
		}},
		{"Redis is away", func(t *testing.T, s *trouble) {
			s.server.Kill()
			s.call("eth_gasPrice")
			ask(t, http.MethodPost, s.url, rpcBody("eth_chainId"), "Authorization", "Bearer "+s.keys[2])
			if got := s.send(s.sender.sign(s.sender.pay(4))); got.Error != nil {
				t.Error(got)
			}
			another := s.world.account(t)
			if got := s.promises.send(another.sign(another.pay(0))); got.Error != nil {
				t.Error(got)
			}
			s.promises.becomesSum(t, "lockstep_promises_late_total", 1)
			s.promises.becomesSum(t, "lockstep_promises_errors_total", atLeast)
			s.promises.becomesSum(t, "lockstep_promises_alone_total", 0)
			s.promises.becomesSum(t, "lockstep_promises_taken_over_total", 0)
		}, map[string]float64{
			`rpc_relay_rate_limit_store_failures{operation="eth_gasPrice",storeType="Redis"}`: 1,
			"lockstep_api_key_store_failures_total":                                           atLeast,
			"lockstep_limit_redis_errors_total":                                               atLeast,
			"lockstep_lock_redis_up":                                                          0,
			"lockstep_lock_fail_open_total":                                                   1,
			"rpc_relay_lock_redis_errors_total{":                                              atLeast,
			"rpc_relay_txpool_storage_errors_total{":                                          atLeast,
			`rpc_relay_tx_outcomes_total{outcome="executed",status="SUCCESS"}`:                5,
			"rpc_relay_method_panics_total{":                                                  0,
			"rpc_relay_method_abandoned_total{":                                               0,
			"rpc_relay_files_left_total":                                                      0,
			"rpc_relay_budget_refusals_total{":                                                0,
			"lockstep_costs_missed_total":                                                     0,
			"rpc_relay_connections_refused_total{":                                            0,
		}},
	}
}

// faults replaces the faults of the network.
func (s *trouble) faults(t *testing.T, rules string) {
	t.Helper()
	must.Do(t, s.world.rules.Set([]byte(rules)))
}

// becomesSum waits until the series that begin so have a sum.
func (r *relay) becomesSum(t *testing.T, prefix string, want float64) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(generous); ; <-ticker.C {
		got := sum(r.scrape(), prefix)
		if got == want || want == atLeast && got > 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("%s is %v, want %v", prefix, got, want)
			return
		}
	}
}

// What goes wrong around a relay stands in its metrics, each thing in the one that is for it.
func TestTroubleIsTold(t *testing.T) {
	w := newWorld(t)
	s := &trouble{server: redistest.Start(t), sender: w.account(t)}
	var file strings.Builder
	for _, rights := range []string{"shop %s calls=2 methods=eth_chainId\n", "", "clock %s calls=9\n"} { // the second one is in no file
		key, line := must.Get2(apikey.New("key"))(t)
		s.keys = append(s.keys, key.Reveal())
		if _, hash, _ := strings.Cut(line, " "); rights != "" {
			fmt.Fprintf(&file, rights, hash)
		}
	}
	keys := filepath.Join(t.TempDir(), "keys.txt")
	must.Do(t, os.WriteFile(keys, []byte(file.String()), 0o600))
	shared := []string{"REDIS_ENABLED=true", "REDIS_URL=" + s.server.URL(), "ENABLE_NONCE_ORDERING=true", aBurst}
	s.relay = w.relay(t, append(shared, "RATE_LIMIT_DISABLED=false", "METHOD_RATE_LIMITS=net_listening=1", "TIER_1_RATE_LIMIT=1000000", "TIER_2_RATE_LIMIT=1000000", "LIMIT_DURATION=86400000", "API_KEYS_FILE="+keys,
		"HBAR_RATE_LIMIT_TINYBAR=100000000000", oneWindow, "READ_YOUR_WRITES_WAIT_MS=60000", "MIRROR_NODE_RETRIES=1", "MIRROR_NODE_RETRY_CODES=503", "MIRROR_NODE_RETRY_BUDGET=1", "WS_CONNECTION_LIMIT=3", "WS_CONNECTION_LIMIT_PER_IP=2")...)
	s.promises = w.relay(t, append(shared, "USE_ASYNC_TX_PROCESSING=true")...)
	s.becomesSum(t, "lockstep_lock_redis_up", 1)
	for _, step := range troubles() {
		step.do(t, s)
		for prefix, want := range step.tell {
			s.becomesSum(t, prefix, want)
		}
		if t.Failed() {
			t.Fatalf("after: %s", step.what)
		}
	}
}
