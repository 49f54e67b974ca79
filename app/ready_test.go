package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
	"lockstep/internal/outage"
	"lockstep/internal/redistest"
	"lockstep/internal/relay/apikey"
)

// report is what readiness says when there is something to say.
type report struct {
	http    int
	Status  string
	Reasons []struct {
		Upstream, Cause string
		Since           time.Time
		Fatal           bool
	}
}

// readiness asks for the report.
func (r *relay) readiness() (got report) {
	r.Helper()
	request := must.Get(http.NewRequestWithContext(r.Context(), http.MethodGet, r.url+"/health/readiness", nil))(r)
	request.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(request)
	must.Do(r, err)
	defer answer.Body.Close()
	must.Do(r, json.NewDecoder(answer.Body).Decode(&got))
	got.http = answer.StatusCode
	return got
}

// becomes waits for a report: looks are kept for a second.
func (r *relay) becomes(status string, upstreams ...string) (got report) {
	r.Helper()
	for end := time.Now().Add(generous); ; <-time.After(50 * time.Millisecond) {
		got = r.readiness()
		var names []string
		for _, reason := range got.Reasons {
			names = append(names, reason.Upstream)
		}
		if got.Status == status && strings.Join(names, " ") == strings.Join(upstreams, " ") {
			return got
		}
		if time.Now().After(end) {
			r.Fatalf("%+v, want %s for %s", got, status, upstreams)
		}
	}
}

// Readiness names what does not answer and since when, is DOWN for what the setting says, and
// the log has each change once.
func TestReadinessTellsTheTruth(t *testing.T) {
	w := newWorld(t)
	r := w.relay(t, "MIRROR_NODE_BREAKER_FAILURES=0")
	if got := r.becomes("OK"); got.http != http.StatusOK {
		t.Errorf("HTTP status %d", got.http)
	}
	var down atomic.Bool
	down.Store(true)
	w.spoilMirror(t, func(*http.Request) mirrorrest.Fault {
		if down.Load() {
			return mirrorrest.Fault{Status: http.StatusServiceUnavailable}
		}
		return mirrorrest.Fault{}
	})
	before := time.Now()
	got := r.becomes("DOWN", "mirror")
	if why := got.Reasons[0]; got.http != http.StatusServiceUnavailable || !why.Fatal || why.Cause == "" || why.Since.Before(before.Add(-time.Minute)) {
		t.Errorf("%+v", got)
	}
	if again := r.becomes("DOWN", "mirror"); !again.Reasons[0].Since.Equal(got.Reasons[0].Since) {
		t.Errorf("since %s, then since %s", got.Reasons[0].Since, again.Reasons[0].Since)
	}
	down.Store(false)
	r.becomes("OK")
	// A machine that stands still makes losses of its own; each has its line, and so has its end.
	changes := r.log.with("an upstream is")
	changes = slices.DeleteFunc(changes, func(line string) bool { return !strings.Contains(line, "upstream=mirror") })
	for i, line := range changes {
		if words := []string{outage.Lost, outage.Back}[i%2]; !strings.Contains(line, words) {
			t.Errorf("line %d is not %q: %s", i, words, changes)
		}
	}
	if len(changes) < 2 || len(changes)%2 != 0 {
		t.Errorf("%d lines: %s", len(changes), changes)
	}
}

// Each upstream by itself, and what the setting makes of it.
func TestReadinessBySetting(t *testing.T) {
	w := newWorld(t)
	nobody := `HEDERA_NETWORK={"127.0.0.1:1":"0.0.3"}`
	redis := []string{"REDIS_ENABLED=true", "REDIS_URL=redis://127.0.0.1:1"}
	locks := []string{"REDIS_ENABLED=true", "REDIS_URL=" + redistest.Start(t).URL(), "LOCK_REDIS_URL=redis://127.0.0.1:1", "ENABLE_NONCE_ORDERING=true"}
	for name, test := range map[string]struct {
		settings []string
		status   string
		out      []string
	}{
		"no node":                                {[]string{nobody}, "DOWN", []string{"nodes"}},
		"no node, and no matter":                 {[]string{nobody, "READINESS_FAILS_WITHOUT=mirror"}, "DEGRADED", []string{"nodes"}},
		"no node, and none needed":               {[]string{nobody, "READ_ONLY=true", "COST_METRICS_ENABLED=false"}, "OK", nil},
		"no Redis":                               {redis, "DEGRADED", []string{"redis"}},
		"no Redis of the locks":                  {locks, "DEGRADED", []string{"lock_redis"}},
		"no Redis of the locks, and it matters":  {append([]string{"READINESS_FAILS_WITHOUT=lock_redis"}, locks...), "DOWN", []string{"lock_redis"}},
		"no Redis of the locks, and none needed": {append(slices.Clone(locks), "ENABLE_NONCE_ORDERING=false"), "OK", nil},
		"no Redis, and it matters":               {append([]string{"READINESS_FAILS_WITHOUT=redis"}, redis...), "DOWN", []string{"redis"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.relay(t, test.settings...)
			// A scrape looks by itself: nobody asks for readiness before.
			must.Until(t, "a scraper sees which upstreams are out", func() bool {
				var out []string
				for name, up := range r.scrape() {
					if rest, found := strings.CutPrefix(name, `lockstep_upstream_up{upstream="`); found && up == 0 {
						out = append(out, strings.TrimSuffix(rest, `"}`))
					}
				}
				return slices.Equal(out, test.out)
			})
			got := r.becomes(test.status, test.out...)
			if want := map[bool]int{true: http.StatusServiceUnavailable, false: http.StatusOK}[test.status == "DOWN"]; got.http != want {
				t.Errorf("HTTP status %d, want %d", got.http, want)
			}
			for _, why := range got.Reasons { // anybody may read it
				if why.Cause != "connection refused" {
					t.Errorf("%s: the cause is %q", why.Upstream, why.Cause)
				}
			}
		})
	}
}

// Nodes that take a connection and then take nothing are told of, by readiness, the metric and the log. They do not make a relay
// unready: it would be the same at every other one.
func TestReadinessOfNodesThatTakeNothing(t *testing.T) {
	w := newWorld(t)
	r := w.relay(t)
	r.becomes("OK")
	for rule, cause := range map[string]string{
		`{"at":"receipt","status":"PLATFORM_NOT_ACTIVE"}`: "the nodes answer PLATFORM_NOT_ACTIVE",
		`{"at":"receipt","grpc":"UNAVAILABLE"}`:           "it does not answer; the log of the relay has the cause",
	} {
		must.Do(t, w.rules.Set([]byte("["+rule+"]")))
		got := r.becomes("DEGRADED", "nodes")
		if got.http != http.StatusOK || got.Reasons[0].Fatal || got.Reasons[0].Cause != cause {
			t.Errorf("%s: %+v", rule, got)
		}
		must.Until(t, "a scraper sees it", func() bool { return r.scrape()[`lockstep_upstream_up{upstream="nodes"}`] == 0 })
		if lines := r.log.with("name=all"); len(lines) == 0 {
			t.Errorf("%s: no line in the log", rule)
		}
		must.Do(t, w.rules.Set([]byte("[]")))
		r.becomes("OK")
	}
}

// The locks may have a Redis of their own: then nothing else is there, and nothing of theirs is where the rest is. It is shown by its own
// name wherever upstreams are shown, and no more when ordering is switched off.
func TestTheRedisOfTheLocks(t *testing.T) {
	w, rest, locks := newWorld(t), redistest.Start(t, "--maxmemory", "1"), redistest.Start(t)
	r, alice := w.relay(t, "TX_STATUS_TRACING=true", "REDIS_ENABLED=true", "REDIS_URL="+rest.URL(), "LOCK_REDIS_URL="+locks.URL(), "ENABLE_NONCE_ORDERING=true", "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_LOOPBACK_TOKEN=false"), w.account(t)
	const series = `lockstep_upstream_up{upstream="lock_redis"}`
	// A Redis that is full, or has become a replica, answers a PING.
	if got := r.becomes("DEGRADED", "redis"); got.Reasons[0].Cause != "Redis answers OOM" {
		t.Errorf("%+v", got)
	}
	must.Do(t, locks.Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	if got := r.becomes("DEGRADED", "redis", "lock_redis"); got.Reasons[1].Cause != "Redis answers READONLY" {
		t.Errorf("%+v", got)
	}
	must.Do(t, locks.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	r.becomes("DEGRADED", "redis")
	if up := r.scrape()[series]; up != 1 {
		t.Errorf("%s is %v", series, up)
	}
	r.app.Announce(t.Context())
	if lines := r.log.with("redis=\"single " + rest.Addr() + "; of the locks: single " + locks.Addr() + "\""); len(lines) != 1 {
		t.Errorf("%s", r.log.with("what this relay is"))
	}
	if got := r.send(alice.sign(alice.pay(0))); got.Error != nil {
		t.Errorf("with a full Redis beside that of the locks: %s", got)
	}
	keys := func(s *redistest.Server) []string { return s.Client().Keys(t.Context(), "*").Val() }
	ofLocks := keys(locks)
	if len(ofLocks) == 0 {
		t.Error("the locks have nothing in their Redis")
	}
	for i, key := range slices.Concat(ofLocks, keys(rest)) {
		if strings.HasPrefix(key, "lock:") != (i < len(ofLocks)) {
			t.Errorf("%s is in the wrong Redis", key)
		}
	}
	locks.Kill()
	r.becomes("DEGRADED", "redis", "lock_redis")
	if up := r.scrape()[series]; up != 0 {
		t.Errorf("%s is %v", series, up)
	}
	must.Until(t, "the log has the loss", func() bool {
		return slices.ContainsFunc(r.log.with(outage.Lost), func(line string) bool {
			return strings.Contains(line, "upstream=redis name=locks") && !strings.Contains(line, "READONLY") // which may have had a line before
		})
	})
	console := "http://" + r.app.AdminAddr()
	if state := firstEvent(t, console+"/ui/events"); !strings.Contains(state, `"kind":"lock_redis"`) || !strings.Contains(state, `"kind":"nodes"`) {
		t.Errorf("the console shows %s", state)
	}
	if code, text := ask(t, http.MethodPut, console+"/ordering", `{"enabled":false}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	r.becomes("DEGRADED", "redis")
	if up, there := r.scrape()[series]; there {
		t.Errorf("%s is %v", series, up)
	}
}

// firstEvent reads what a stream begins with.
func firstEvent(t *testing.T, url string) string {
	t.Helper()
	ctx, done := context.WithCancel(t.Context())
	defer done()
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, url, nil))(t)
	answer, err := http.DefaultClient.Do(request)
	must.Do(t, err)
	defer answer.Body.Close()
	text := bufio.NewReader(answer.Body)
	for {
		line := must.Get(text.ReadString('\n'))(t)
		if strings.HasPrefix(line, "data:") {
			return line
		}
	}
}

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

// While the mirror node fails, in whichever way, a sender whose lane is sure of its nonce goes on:
// its burst is executed whole, and so is what it, others and newcomers send right after the recovery.
func TestMirrorOutageInABurst(t *testing.T) {
	t.Parallel()
	const known, burst, after = 3, 40, 25
	for name, fault := range map[string]mirrorrest.Fault{
		"503":                   {Status: http.StatusServiceUnavailable},
		"429":                   {Status: http.StatusTooManyRequests},
		"429 with Retry-After":  {Status: http.StatusTooManyRequests, RetryAfter: time.Second},
		"no answer":             {Hang: true},
		"broken connections":    {Drop: true},
		"answers that are junk": {Garbage: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *devnet.Config) { c.ConsensusLatency = 20 * time.Millisecond })
			r, a, other := w.relay(t, "ENABLE_NONCE_ORDERING=true", "MIRROR_NODE_TIMEOUT=5000", aBurst), w.account(t), w.account(t)
			newcomer := w.account(t)
			for nonce := range uint64(known) {
				for _, who := range []*account{a, other} {
					if got := r.send(who.sign(who.pay(nonce))); got.Error != nil {
						t.Fatalf("nonce %d: %s", nonce, got)
					}
				}
			}
			together := func(who *account, first, count uint64, send func(*types.Transaction) answer) {
				var all sync.WaitGroup
				for nonce := first; nonce < first+count; nonce++ {
					all.Go(func() {
						if got := send(who.sign(who.pay(nonce))); got.Error != nil {
							t.Errorf("nonce %d: %s", nonce, got)
						}
					})
				}
				all.Wait()
			}
			// A relay on a busy machine may need a while to notice that the mirror node is back. Then it says that
			// nothing was sent, and clients send again.
			again := func(tx *types.Transaction) (got answer) {
				const upstream = -32020
				for end := time.Now().Add(generous); ; {
					if got = r.send(tx); got.Error == nil || got.Error.Code != upstream || time.Now().After(end) {
						return got
					}
				}
			}
			spoil := func(*http.Request) mirrorrest.Fault { return fault }
			w.mirror.Store(&spoil)
			together(a, known, burst, r.send)
			if got := w.nonce(t, a); got != known+burst {
				t.Errorf("%d of %d were executed while the mirror node was away", got-known, burst)
			}
			w.mirror.Store(nil)
			together(a, known+burst, after, r.send)
			together(newcomer, 0, after, again)
			together(other, known, after, again)
			executed := []int64{w.nonce(t, a) - known - burst, w.nonce(t, newcomer), w.nonce(t, other) - known}
			if diff := cmp.Diff([]int64{after, after, after}, executed); diff != "" {
				t.Errorf("executed after the recovery (-want +got)\n%s", diff)
			}
			if got := r.paid(); got != 0 {
				t.Errorf("%d rejections were paid for", got)
			}
			if r.scrape()["lockstep_submissions_with_stale_facts_total"] == 0 {
				t.Error("nothing went on with what was known")
			}
		})
	}
}

// A short failure of the network costs a burst time, and no transactions: everything is executed, none
// twice, and what the network refused, and was paid for, is bounded.
func TestBurstHeals(t *testing.T) {
	t.Parallel()
	const burst = 40
	quick := []string{"SDK_GRPC_DEADLINE=4000", "SDK_REQUEST_TIMEOUT=20000"}
	for name, test := range map[string]struct {
		rules    string
		settings []string
		paid     int // at most
	}{
		"undisturbed":                {rules: `[]`},
		"one transaction vanishes":   {rules: `[{"at":"submit","skip":5,"times":1,"vanish":true}]`, paid: burst - 6},
		"the node hangs on one":      {rules: `[{"at":"submit","skip":5,"times":1,"delay":"1h"}]`, settings: quick},
		"the node drops one":         {rules: `[{"at":"submit","skip":5,"times":1,"dropBefore":true}]`},
		"the answer to one is lost":  {rules: `[{"at":"submit","skip":5,"times":1,"dropAfter":true}]`},
		"one is executed late":       {rules: `[{"at":"submit","skip":5,"times":1,"delay":"8s"}]`, settings: quick},
		"consensus refuses one once": {rules: `[{"at":"submit","skip":5,"times":1,"outcome":"WRONG_NONCE"}]`, paid: burst - 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *devnet.Config) { c.ConsensusLatency = 100 * time.Millisecond })
			r, a := w.relay(t, append([]string{"ENABLE_NONCE_ORDERING=true", aBurst}, test.settings...)...), w.account(t)
			must.Do(t, w.rules.Set([]byte(test.rules)))
			begun := time.Now()
			var all sync.WaitGroup
			for nonce := range uint64(burst) {
				all.Go(func() {
					if got := r.send(a.sign(a.pay(nonce))); got.Error != nil {
						t.Errorf("nonce %d: %s", nonce, got)
					}
				})
			}
			all.Wait()
			t.Logf("all answered after %v", time.Since(begun).Round(10*time.Millisecond))
			if got := w.nonce(t, a); got != burst {
				t.Errorf("the network executed %d of %d", got, burst)
			}
			got := r.paid()
			t.Logf("%d rejections were paid for", got)
			// What consensus refused was executed all the same: it went back to its line.
			if back := sum(r.scrape(), "lockstep_tx_recovered_total{"); strings.Contains(test.rules, "WRONG_NONCE") && back == 0 {
				t.Error("no transaction is counted as gone back to its line")
			}
			if got > test.paid {
				t.Errorf("%d rejections were paid for, want at most %d", got, test.paid)
			}
		})
	}
}

// paid counts what the network refused at consensus for its nonce.
func (r *relay) paid() int {
	r.Helper()
	return int(sum(r.scrape(), "rpc_relay_wrong_nonce_errors_total"))
}

// lagging is a mirror node that shows what happened a while ago.
func lagging(c *devnet.Config) { c.MirrorLag = 1500 * time.Millisecond }

// Whoever asks right after sending, through this relay or another of the fleet, is told
// of the transaction although the mirror node does not show it yet; and nonces do not
// go back (P7), with ordering on or off.
func TestReadYourWrites(t *testing.T) {
	w := newWorld(t, lagging)
	redis := "REDIS_URL=" + redistest.Start(t).URL()
	for name, settings := range map[string][]string{
		"alone":   {},
		"ordered": {"ENABLE_NONCE_ORDERING=true"},
		"fleet":   {"REDIS_ENABLED=true", redis},
	} {
		t.Run(name, func(t *testing.T) {
			settings = append(settings, "READ_YOUR_WRITES_WAIT_MS=60000")
			told := w.relay(t, settings...)
			asked := told
			if name == "fleet" {
				asked = w.relay(t, settings...)
			}
			sender := w.account(t)
			var last common.Hash
			for nonce := range uint64(3) {
				tx := sender.sign(sender.pay(nonce))
				if got := told.send(tx); got.Error != nil {
					t.Fatal(got)
				}
				last = tx.Hash()
				asked.until("the nonces", func() bool {
					return asked.count(sender, "latest") == nonce+1 && asked.count(sender, "pending") == nonce+1
				})
			}
			var receipt types.Receipt
			if got := asked.call("eth_getTransactionReceipt", last); json.Unmarshal(got.Result, &receipt) != nil || receipt.TxHash != last {
				t.Errorf("receipt: %s", got)
			}
			if got := asked.call("eth_getTransactionByHash", last); !strings.Contains(string(got.Result), `"blockNumber":"0x`) {
				t.Errorf("transaction: %s", got)
			}
			if got := asked.count(sender, "latest"); got != 3 {
				t.Errorf("nonce %d after the receipt", got)
			}
		})
	}
}

// The record of a transaction tells every step, in the words of established relays.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, sender := w.relay(t, "TX_STATUS_TRACING=true", "READ_YOUR_WRITES_WAIT_MS=200", "ENABLE_NONCE_ORDERING=true"), w.account(t)
	tx := sender.sign(sender.pay(0))
	if got := r.send(tx); got.Error != nil {
		t.Fatal(got)
	}
	if got := r.record(tx.Hash()); got.Status != "sent" || got.HederaStatus != "SUCCESS" || got.TransactionID == "" {
		t.Errorf("%+v", got)
	}
	if got := r.call("eth_getTransactionReceipt", tx.Hash()); got.String() == "null" {
		t.Error("no receipt")
	}
	got := r.record(tx.Hash())
	if want := []string{"received", "queued", "submitted", "accepted", "consensus", "mirror"}; got.Status != "validated" || !slices.Equal(got.steps(), want) {
		t.Errorf("%+v, want the steps %v", got, want)
	}
	// Sent again it is refused, and that says nothing of the first time.
	if again := r.send(tx); again.Error == nil {
		t.Errorf("sent twice: %s", again)
	}
	if got := r.record(tx.Hash()); got.Status != "validated" {
		t.Errorf("after it was sent again: %+v", got)
	}
}

// dial opens a WebSocket connection to a relay.
func dial(t *testing.T, r *relay) *rpc.Client {
	t.Helper()
	client := must.Get(rpc.DialContext(t.Context(), "ws"+strings.TrimPrefix(r.url, "http")))(t)
	t.Cleanup(client.Close)
	return client
}
