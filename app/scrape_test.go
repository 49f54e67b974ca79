package app_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/node"
	"lockstep/internal/hapi"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

func (r *relay) scrape() map[string]float64 {
	r.Helper()
	_, page := ask(r.T, http.MethodGet, r.url+"/metrics", "")
	return must.Scrape(r, page)
}

// happened is what TestEveryMetricTellsWhatHappened expects of series, by their names with labels.
func happened() map[string]float64 {
	return map[string]float64{
		`rpc_relay_method_response_count{method="eth_chainId",statusCode="200"}`:                                                2,
		`rpc_relay_method_response_count{method="unknown",statusCode="400"}`:                                                    1,
		`rpc_relay_method_response_count{method="batch_request",statusCode="200"}`:                                              1,
		`rpc_relay_method_response_count{method="eth_getTransactionReceipt",statusCode="200"}`:                                  1,
		`rpc_relay_method_response_count{method="eth_sendRawTransaction",statusCode="200"}`:                                     3,
		`rpc_relay_method_response_count{method="eth_sendRawTransaction",statusCode="400"}`:                                     2,
		`rpc_relay_method_result_count{isPartOfBatch="true",method="eth_chainId",statusCode="200"}`:                             1,
		`rpc_relay_method_result_count{isPartOfBatch="true",method="unknown",statusCode="-32601"}`:                              1,
		`lockstep_rpc_errors_total{code="-32601",method="unknown",transport="http"}`:                                            2,
		`lockstep_rpc_errors_total{code="-32000",method="eth_sendRawTransaction",transport="http"}`:                             1,
		`lockstep_rpc_errors_total{code="-32003",method="eth_sendRawTransaction",transport="http"}`:                             1,
		`rpc_relay_eth_executions{method="eth_sendRawTransaction"}`:                                                             4,
		`rpc_relay_tx_outcomes_total{outcome="executed",status="SUCCESS"}`:                                                      3,
		`rpc_relay_consensusnode_response_count{mode="TRANSACTION",status="SUCCESS",type="EthereumTransaction"}`:                3,
		`rpc_relay_consensusnode_gasfee_count{mode="TRANSACTION",status="SUCCESS",type="EthereumTransaction"}`:                  3,
		`rpc_relay_consensusnode_response_count{mode="TRANSACTION",status="MAX_GAS_LIMIT_EXCEEDED",type="EthereumTransaction"}`: 1,
		`rpc_relay_consensusnode_gasfee_count{mode="TRANSACTION",status="MAX_GAS_LIMIT_EXCEEDED",type="EthereumTransaction"}`:   1,
		`rpc_relay_tx_outcomes_total{outcome="rejected",status="MAX_GAS_LIMIT_EXCEEDED"}`:                                       1,
		`lockstep_lane_holes_total`:                                              1, // the refused nonce was not used
		`rpc_relay_consensus_attempts_total{result="accepted"}`:                  4,
		`rpc_relay_consensus_node_healthy{node="0.0.3"}`:                         1,
		`rpc_relay_lock_acquisitions_total{status="success",strategy="redis"}`:   4,
		`rpc_relay_lock_acquisitions_total{status="success",strategy="local"}`:   0,
		`rpc_relay_lock_hold_duration_seconds_count{strategy="redis"}`:           4,
		`rpc_relay_lock_wait_time_seconds_count{strategy="redis"}`:               4,
		`rpc_relay_txpool_operations_total{operation="add"}`:                     4,
		`rpc_relay_txpool_operations_total{operation="remove"}`:                  4,
		`rpc_websocket_active_connections`:                                       1,
		`rpc_websocket_active_connections_per_ip`:                                1,
		`rpc_websocket_connections_established_total`:                            1,
		`rpc_websocket_messages_received_total`:                                  1,
		`rpc_websocket_method_counter{method="eth_chainId"}`:                     1,
		`rpc_websocket_message_duration_miliseconds_count{method="eth_chainId"}`: 1,
		`lockstep_ordering_enabled`:                                              1,
		`lockstep_ordering_window_seconds`:                                       2,
		`lockstep_lanes{state="idle"}`:                                           1,
		`lockstep_lock_redis_up`:                                                 1,
		`lockstep_upstream_up{upstream="mirror"}`:                                1,
		`lockstep_upstream_up{upstream="nodes"}`:                                 1,
		`lockstep_upstream_up{upstream="redis"}`:                                 1,
		`rpc_relay_client_service{errors="",transactions=""}`:                    0,
	}
}

// happenedSomehow is what that test expects to be more than nothing, by how the names begin: it depends on the time or
// on the machine.
func happenedSomehow() []string {
	return []string{
		"go_", "rpc_relay_process_", "rpc_relay_nodejs_", "lockstep_build_info", "rpc_relay_connections",
		"rpc_relay_operator_balance", "rpc_relay_mirror_response", "rpc_relay_mirror_upstream", "rpc_relay_mirror_cache_entries", "rpc_relay_cache", "rpc_cache_service_methods_counter",
		"rpc_relay_tx_seconds", "rpc_relay_consensus_submit_seconds", "rpc_relay_consensus_receipt_seconds",
	}
}

// A scraper sees what happened, in every metric: what is not in the list is 0.
func TestEveryMetricTellsWhatHappened(t *testing.T) {
	w, server := newWorld(t), redistest.Start(t)
	r := w.relay(t, "ENABLE_NONCE_ORDERING=true", "NONCE_GAP_HOLD_MS=2000", "REDIS_ENABLED=true", "REDIS_URL="+server.URL(),
		"READ_YOUR_WRITES_WAIT_MS=60000",
		ofOperator[0], ofOperator[1], ofOperator[2])
	r.becomesSum(t, "lockstep_lock_redis_up", 1)
	sender, before := w.account(t), operatorBalance(t, w.net)
	for nonce := range uint64(3) {
		if got := r.send(sender.sign(sender.pay(nonce))); got.Error != nil {
			t.Fatal(got)
		}
	}
	for range 2 {
		r.call("eth_chainId")
	}
	r.call("eth_nonsense")
	r.call("eth_sendRawTransaction", "0x00")                               // no transaction
	r.call("eth_getTransactionReceipt", sender.sign(sender.pay(0)).Hash()) // the gas that it used is kept from now on
	w.spoilNode(t, node.Fault{Outcome: hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED})
	if got := r.send(sender.sign(sender.pay(3))); got.Error == nil {
		t.Fatal("the network refuses it")
	}
	answer, err := http.Post(r.url, "application/json", bytes.NewReader([]byte(`[`+rpcBody("eth_chainId")+`,`+rpcBody("eth_nonsense")+`]`)))
	must.Do(t, err)
	_ = answer.Body.Close()
	client := dial(t, r)
	must.Do(t, client.CallContext(t.Context(), new(string), "eth_chainId"))
	costs := func() float64 {
		sum := 0.0
		for name, value := range r.scrape() {
			if strings.HasPrefix(name, "rpc_relay_consensusnode_gasfee_count{mode=\"TRANSACTION\"") {
				sum += value
			}
		}
		return sum
	}
	must.Until(t, "the costs are known", func() bool { return costs() == 4 })

	exactly, something := happened(), happenedSomehow()
	got := r.scrape()
	for name, want := range exactly {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	isSum := func(name string) bool { return strings.HasSuffix(name[:len(name)-len(cutLabels(name))], "_sum") }
	strange := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		_, listed := exactly[name]
		known := slices.ContainsFunc(something, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		late := name == `rpc_relay_consensus_attempts_total{result="unsent"}` // the node was not connected in time
		if !listed && !known && !late && !isSum(name) && got[name] != 0 {
			strange[name] = got[name]
		}
	}
	if diff := cmp.Diff(map[string]float64{}, strange); diff != "" {
		t.Errorf("what happened to nobody's knowledge (-want +got):\n%s", diff)
	}
	for _, prefix := range something {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(name string) bool { return strings.HasPrefix(name, prefix) && got[name] > 0 }) {
			t.Errorf("%s… is nothing", prefix)
		}
	}
	var spent float64
	for name, value := range got {
		if strings.HasPrefix(name, "rpc_relay_consensusnode_response_sum") {
			spent += value
		}
	}
	if want := float64(before - operatorBalance(t, w.net)); spent != want {
		t.Errorf("transactions cost %v tinybars; the operator has %v less", spent, want)
	}
	if told, want := got[`rpc_relay_consensusnode_gasfee_sum{mode="TRANSACTION",status="SUCCESS",type="EthereumTransaction"}`], r.gasUsed(sender, 3); told != want || want == 0 {
		t.Errorf("gas %v, by the receipts %v", told, want)
	}
}

// gasUsed is what the first transactions of a sender used, by their receipts.
func (r *relay) gasUsed(sender *account, transactions uint64) (sum float64) {
	r.Helper()
	for nonce := range transactions {
		var receipt struct{ GasUsed hexutil.Uint64 }
		must.Do(r, json.Unmarshal(r.call("eth_getTransactionReceipt", sender.sign(sender.pay(nonce)).Hash()).Result, &receipt))
		sum += float64(receipt.GasUsed)
	}
	return sum
}

// cutLabels returns what follows a metric's name.
func cutLabels(series string) string {
	if i := strings.IndexByte(series, '{'); i >= 0 {
		return series[i:]
	}
	return ""
}
