package treetest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"lockstep/internal/must"
)

// Documents for operators name settings that exist.
func TestOperatorsDocumentsKnowTheSettings(t *testing.T) {
	settings := read(t, "docs/CONFIG.md")
	for _, name := range []string{"docs/RUNBOOK.md", "docs/MIGRATION.md", "SECURITY.md"} {
		text := read(t, name)
		for _, setting := range regexp.MustCompile("`([A-Z][A-Z0-9]*_[A-Z0-9_]+)[=`]").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(settings, "`"+setting[1]+"`") { // in a row, or in what is said before the rows
				t.Errorf("%s: there is no setting %s", name, setting[1])
			}
		}
	}
}

// peerMetrics are the metrics of the TypeScript relay with their labels, as its /metrics shows them; those of its
// process are left out.
func peerMetrics() map[string][]string {
	facts := map[string][]string{}
	for _, row := range []struct{ names, labels string }{
		{"rpc_relay_method_response rpc_relay_mirror_response rpc_relay_mirror_node_http_error_code_count", "method statusCode"},
		{"rpc_relay_method_result", "method statusCode isPartOfBatch"},
		{"rpc_relay_consensus_node_errors_total", "status_name"},
		{"rpc_relay_consensusnode_response rpc_relay_consensusnode_gasfee", "mode type status"},
		{"rpc_relay_eth_executions", "method"},
		{"rpc_relay_client_service", "transactions errors"},
		{"rpc_relay_wrong_nonce_errors_total", "strategy"},
		{"rpc_relay_operator_balance", "mode type accountId"},
		{"rpc_relay_cache rpc_relay_hbar_rate_remaining rpc_relay_hbar_rate_total_limit", ""},
		{"rpc_cache_service_methods_counter", "callingMethod cacheType method"},
		{"rpc_relay_hbar_rate_limit", "mode methodName"},
		{"rpc_relay_ip_rate_limit", "methodName storeType"},
		{"rpc_relay_rate_limit_store_failures", "storeType operation"},
		{"unique_spending_plans_counter_basic unique_spending_plans_counter_extended unique_spending_plans_counter_privileged unique_spending_plans_counter_operator", ""},
		{"average_spending_plan_amount_spent_gauge_basic average_spending_plan_amount_spent_gauge_extended", ""},
		{"average_spending_plan_amount_spent_gauge_privileged average_spending_plan_amount_spent_gauge_operator", ""},
		{"rpc_relay_lock_wait_time_seconds rpc_relay_lock_hold_duration_seconds rpc_relay_lock_waiting_txns", "strategy"},
		{"rpc_relay_lock_timeout_releases_total rpc_relay_lock_active_count rpc_relay_lock_queue_rejoins_total", "strategy"},
		{"rpc_relay_lock_acquisitions_total", "strategy status"},
		{"rpc_relay_lock_zombie_cleanups_total rpc_relay_txpool_pending_count rpc_relay_txpool_active_addresses", ""},
		{"rpc_relay_lock_redis_errors_total rpc_relay_txpool_operations_total", "operation"},
		{"rpc_relay_txpool_storage_errors_total", "operation backend"},
		{"rpc_relay_worker_task_duration_seconds rpc_relay_worker_tasks_completed_total", "function"},
		{"rpc_relay_worker_task_failures_total", "function error_type"},
		{"rpc_relay_worker_queue_wait_time_milliseconds rpc_relay_worker_pool_utilization rpc_relay_worker_active_threads rpc_relay_worker_queue_size", ""},
		{"rpc_websocket_method_counter rpc_websocket_message_duration_miliseconds", "method"},
		{"rpc_websocket_method_by_ip_counter", "ip method"},
		{"rpc_websocket_messages_received_total rpc_websocket_connections_established_total rpc_websocket_connections_closed_total", ""},
		{"rpc_websocket_connection_duration_seconds rpc_websocket_active_connections rpc_websocket_cpu_usage_percentage", ""},
		{"rpc_websocket_active_connections_per_ip rpc_websocket_total_connection_limit_by_ip_enforced", "ip"},
		{"rpc_websocket_total_connection_limit_enforced rpc_websocket_total_connection_limit_by_ttl_enforced", ""},
		{"rpc_websocket_active_polls rpc_websocket_active_newheads_polls rpc_websocket_subscription_times", ""},
		{"rpc_websocket_poll_received_results", "subId tag"},
	} {
		for _, name := range strings.Fields(row.names) {
			facts[name] = strings.Fields(row.labels)
		}
	}
	return facts
}

// docs/MIGRATION.md names each metric of the TypeScript relay that is missing here or has other labels, and no other.
func TestMigrationTellsTheMetrics(t *testing.T) {
	text := read(t, "docs/MIGRATION.md")
	_, section, _ := strings.Cut(text, "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	told := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			told[name[1]] = true
		}
	}
	relay, _, _ := strings.Cut(read(t, "docs/METRICS.md"), "\n## ")
	here := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(relay, -1) {
		here[row[1]] = regexp.MustCompile(`\w+`).FindAllString(row[2], -1)
	}
	for name, labels := range peerMetrics() {
		ours, ok := here[name]
		slices.Sort(ours)
		slices.Sort(labels)
		if same := ok && slices.Equal(ours, labels); same == told[name] {
			t.Errorf("%s has the labels %q there and %q here (known: %v); docs/MIGRATION.md tells of a difference: %v", name, labels, ours, ok, told[name])
		}
		delete(told, name)
	}
	for name := range told {
		t.Errorf("docs/MIGRATION.md tells of %s, which is no metric of the TypeScript relay", name)
	}
}

// What users read, beside the tables that are generated and what is for the curious (docs/internals), can be read in an afternoon.
func TestDocumentsAreShort(t *testing.T) {
	const most = 25_000
	names := []string{"README.md"}
	for _, folder := range []string{"docs", "docs/guides"} {
		files := must.Get(filepath.Glob(filepath.Join(root, folder, "*.md")))(t)
		for _, file := range files {
			if !slices.Contains([]string{"CONFIG.md", "METHODS.md", "METRICS.md"}, filepath.Base(file)) {
				names = append(names, folder+"/"+filepath.Base(file))
			}
		}
	}
	words := 0
	for _, name := range names {
		for word := range strings.FieldsSeq(read(t, name)) {
			if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
				words++
			}
		}
	}
	if words > most || len(names) < 15 {
		t.Errorf("%d documents have %d words, want no more than %d", len(names), words, most)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(text)
}
