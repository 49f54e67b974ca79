package lockstep_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// metricNames are the metrics of docs/METRICS.md with their labels.
func metricNames(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string][]string{"up": nil}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		known[row[1]] = append(known[row[1]], regexp.MustCompile(`\w+`).FindAllString(row[2], -1)...)
	}
	if len(known) < 100 {
		t.Fatalf("docs/METRICS.md has %d metrics", len(known))
	}
	return known
}

// metric finds the metric of a name in a query: a histogram has three names more.
func metric(known map[string][]string, name string) (labels []string, ok bool) {
	if labels, ok = known[name]; ok {
		return labels, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, has := strings.CutSuffix(name, suffix); has {
			if labels, ok = known[base]; ok {
				return append(slices.Clone(labels), "le"), true
			}
		}
	}
	return nil, false
}

var (
	queryText     = regexp.MustCompile(`"[^"]*"`)
	queryLabels   = regexp.MustCompile(`(?:\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\))|\{([^}]*)\}`)
	queryRange    = regexp.MustCompile(`\[[^\]]*\]`)
	queryName     = regexp.MustCompile(`\b[a-zA-Z_]\w*\b(\s*\()?`)
	queryVariable = regexp.MustCompile(`\$\w+`)
)

// checkQuery says what a query of Prometheus names that does not exist. It knows names and labels
// and pairs of brackets, not the whole language.
func checkQuery(known map[string][]string, query string) (wrong []string) {
	for _, pair := range []string{"()", "[]", "{}"} {
		if strings.Count(query, pair[:1]) != strings.Count(query, pair[1:]) {
			wrong = append(wrong, "brackets "+pair+" without a pair")
		}
	}
	bare := queryVariable.ReplaceAllString(queryText.ReplaceAllString(query, ""), "1")
	labels := []string{"instance", "job"} // of every target
	var named []string
	for _, m := range queryName.FindAllStringSubmatch(queryRange.ReplaceAllString(queryLabels.ReplaceAllString(bare, " "), ""), -1) {
		name := m[0]
		if m[1] != "" || slices.Contains([]string{"and", "or", "unless", "offset", "by", "on", "bool", "e"}, name) {
			continue
		}
		of, ok := metric(known, name)
		if !ok {
			wrong = append(wrong, "there is no metric "+name)
		}
		named, labels = append(named, name), append(labels, of...)
	}
	if len(named) == 0 {
		wrong = append(wrong, "it names no metric")
	}
	for _, m := range queryLabels.FindAllStringSubmatch(bare, -1) {
		for _, label := range regexp.MustCompile(`[a-zA-Z_]\w*`).FindAllString(m[1]+" "+m[2], -1) {
			if !slices.Contains(labels, label) {
				wrong = append(wrong, "no metric of it has a label "+label)
			}
		}
	}
	return wrong
}

// The check of queries finds what is wrong with one.
func TestCheckQuery(t *testing.T) {
	known := map[string][]string{"up": nil, "seconds": {"stage"}}
	for query, right := range map[string]bool{
		`up{job=~".*relay.*"} == 0`: true,
		`histogram_quantile(0.9, sum by (stage, le) (rate(seconds_bucket{stage="sent"}[$__rate_interval]))) > 1e10`: true,
		`up == 0 and on (instance) max_over_time(up[1d]) == 1`:                                                      true,
		`down == 0`: false, `up{stage="sent"}`: false, `sum by (phase) (seconds_sum)`: false, `rate(seconds_total[5m])`: false, `sum(up`: false, `1`: false,
	} {
		if wrong := checkQuery(known, query); (len(wrong) == 0) != right {
			t.Errorf("%s: %q", query, wrong)
		}
	}
}

// alertRule is a rule of a file of alerts.
type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alertRules reads all files of alerts.
func alertRules(t *testing.T) map[string]alertRule {
	t.Helper()
	files, err := filepath.Glob("docs/*-alerts.yml")
	if err != nil || len(files) < 3 {
		t.Fatalf("files of alerts: %q (%v)", files, err)
	}
	rules := map[string]alertRule{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var content struct {
			Groups []struct {
				Name  string      `yaml:"name"`
				Rules []alertRule `yaml:"rules"`
			} `yaml:"groups"`
		}
		decoder := yaml.NewDecoder(file)
		decoder.KnownFields(true)
		if err := decoder.Decode(&content); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		file.Close()
		for _, group := range content.Groups {
			for _, rule := range group.Rules {
				if _, twice := rules[rule.Alert]; twice {
					t.Errorf("%s: there are two alerts %s", name, rule.Alert)
				}
				rules[rule.Alert] = rule
			}
		}
	}
	return rules
}

// The Helm chart has the alert rules of docs: a chart reads no file outside of its folder.
func TestChartHasTheAlerts(t *testing.T) {
	if read(t, "packaging/helm/lockstep/files/relay-alerts.yml") != read(t, "docs/relay-alerts.yml") {
		t.Error("packaging/helm/lockstep/files/relay-alerts.yml is not docs/relay-alerts.yml: run make generate")
	}
}

// Every alert asks for metrics and labels that docs/METRICS.md has, and says how bad it is.
func TestAlertsKnowTheMetrics(t *testing.T) {
	known := metricNames(t)
	for name, rule := range alertRules(t) {
		for _, wrong := range checkQuery(known, rule.Expr) {
			t.Errorf("%s: %s: %s", name, wrong, rule.Expr)
		}
		if !slices.Contains([]string{"warning", "critical"}, rule.Labels["severity"]) || rule.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", name, rule.Labels["severity"], rule.Annotations["summary"])
		}
	}
}

// The alerts that a fleet must not be without are there, with the thresholds that their users agreed on.
func TestAlertsThatMustBeThere(t *testing.T) {
	rules := alertRules(t)
	for name, part := range map[string]string{
		"WatchNoLeader": "2m", "WatchHeartbeatOld": "> 300", "WatchLag": "> 100", "WatchDuplicates": "0.01",
		"TxmSignerLowBalance": "", "TxmQueueHigh": "", "TxmHeadStuck": "", "TxmNonceGap": "", "TxmFailureRate": "", "TxmNoOwner": "", "TxmOperatorWrong": "", "TxmOperatorBalanceLow": "1e10",
		"RelayLaneStuck": "", "RelayMirrorOut": "", "RelayNodesOut": "", "RelayRedisOut": "", "RelayOperatorBalanceLow": "", "RelayBudgetSpent": "",
	} {
		if rule, ok := rules[name]; !ok || !strings.Contains(rule.Expr+" for "+rule.For, part) {
			t.Errorf("%s (%v) does not have %q", name, ok, part)
		}
	}
}

// The runbook has a section for each alert, and for nothing else.
func TestRunbookHasEveryAlert(t *testing.T) {
	text, err := os.ReadFile("docs/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(string(text), -1)
	var told []string
	for _, s := range sections {
		told = append(told, s[1])
		_, body, _ := strings.Cut(string(text), s[0]+"\n")
		body, _, _ = strings.Cut(body, "\n#")
		if !strings.Contains(body, "**Means:** ") || !strings.Contains(body, "**Do:** ") {
			t.Errorf("%s says not what it means and what to do", s[1])
		}
	}
	slices.Sort(told)
	if want := slices.Sorted(maps.Keys(alertRules(t))); !slices.Equal(told, want) {
		t.Errorf("the runbook has %q, the files of alerts %q", told, want)
	}
}

// What the runbook says to write with systemctl edit is a part of a unit: systemd ignores a line without a section. The
// variable is one that the unit uses.
func TestRunbookEditsTheUnit(t *testing.T) {
	text, err := os.ReadFile("docs/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile("packaging/lockstep.service")
	if err != nil {
		t.Fatal(err)
	}
	recipes := strings.Split(string(text), "systemctl edit lockstep`")[1:]
	if len(recipes) == 0 {
		t.Fatal("no recipe")
	}
	for _, recipe := range recipes {
		m := regexp.MustCompile("(?s)^[^`]*`systemctl restart lockstep`:\\s+```ini\\s+\\[Service\\]\\s+Environment=(\\w+)=\\w+\\s+```").FindStringSubmatch(recipe)
		if m == nil || !strings.Contains(string(unit), "$"+m[1]) {
			t.Errorf("not a part of a unit: %.200s", recipe)
		}
	}
}

// Documents for operators name settings that exist.
func TestOperatorsDocumentsKnowTheSettings(t *testing.T) {
	settings, err := os.ReadFile("docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"docs/RUNBOOK.md", "docs/MIGRATION.md", "SECURITY.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, setting := range regexp.MustCompile("`([A-Z][A-Z0-9]*_[A-Z0-9_]+)[=`]").FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(string(settings), "`"+setting[1]+"`") { // in a row, or in what is said before the rows
				t.Errorf("%s: there is no setting %s", name, setting[1])
			}
		}
	}
}

// Every query of a dashboard asks for metrics and labels that docs/METRICS.md has, and every legend
// for labels that its query leaves.
func TestDashboardsKnowTheMetrics(t *testing.T) {
	files, err := filepath.Glob("docs/*-dashboard.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %q (%v)", files, err)
	}
	known := metricNames(t)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Title  string
			Panels []struct {
				ID          int
				Type, Title string
				GridPos     struct{ H, W, X, Y int }
				Targets     []struct{ Expr, LegendFormat string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ids := map[int]bool{}
		for _, p := range board.Panels {
			if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: %q: its id or its place is taken", name, p.Title)
			}
			ids[p.ID] = true
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: the panel %q is empty", name, p.Title)
			}
			for _, target := range p.Targets {
				for _, wrong := range checkQuery(known, target.Expr) {
					t.Errorf("%s: %q: %s: %s", name, p.Title, wrong, target.Expr)
				}
				by := regexp.MustCompile(`by \(([^)]*)\)`).FindStringSubmatch(target.Expr)
				for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat, -1) {
					if by != nil && !slices.Contains(strings.Split(by[1], ", "), label[1]) {
						t.Errorf("%s: %q: the query leaves no label %s", name, p.Title, label[1])
					}
				}
			}
		}
	}
}

// The compose file and what it mounts can be read, the files that it mounts are there, its relays
// get settings that exist, and Prometheus asks the relays on the port that they have.
func TestComposeFileFitsTogether(t *testing.T) {
	const dir = "packaging/compose"
	decode := func(name string, into any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var compose struct {
		Services map[string]struct {
			Image       string            `yaml:"image"`
			Profiles    []string          `yaml:"profiles"`
			Environment map[string]string `yaml:"environment"`
			Volumes     []string          `yaml:"volumes"`
			Ports       []string          `yaml:"ports"`
			DependsOn   []string          `yaml:"depends_on"`
			Configs     []struct{ Source, Target string }
		} `yaml:"services"`
		Volumes map[string]any `yaml:"volumes"`
	}
	decode("compose.yml", &compose)
	settings, err := os.ReadFile("docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range compose.Services {
		for setting := range service.Environment {
			if strings.HasPrefix(service.Image, "lockstep:") && !strings.Contains(string(settings), "| `"+setting+"` |") {
				t.Errorf("%s: there is no setting %s", name, setting)
			}
		}
		for _, other := range service.DependsOn {
			if _, ok := compose.Services[other]; !ok {
				t.Errorf("%s waits for %s, which is not there", name, other)
			}
		}
		for _, volume := range service.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if _, own := compose.Volumes[from]; own {
				continue
			}
			if info, err := os.Stat(filepath.Join(dir, from)); err != nil || info.IsDir() {
				t.Errorf("%s mounts %s: %v", name, from, err)
			}
		}
	}
	var prometheus struct {
		Rules  []string `yaml:"rule_files"`
		Scrape []struct {
			Job    string `yaml:"job_name"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
			Names []struct {
				Names []string
				Port  string
			} `yaml:"dns_sd_configs"`
			Password struct {
				User string `yaml:"username"`
				File string `yaml:"password_file"`
			} `yaml:"basic_auth"`
		} `yaml:"scrape_configs"`
	}
	decode("prometheus.yml", &prometheus)
	for _, rules := range prometheus.Rules {
		if !slices.ContainsFunc(compose.Services["prometheus"].Volumes, func(v string) bool { return strings.HasSuffix(v, ":"+rules+":ro") }) {
			t.Errorf("Prometheus reads %s, which is not mounted", rules)
		}
	}
	targets := prometheus.Scrape[0].Static[0].Targets
	for _, target := range targets {
		host, port, _ := strings.Cut(target, ":")
		relay, ok := compose.Services[host]
		if !ok || relay.Environment["SERVER_PORT"] != port || !strings.HasSuffix(relay.Ports[0], ":"+port) {
			t.Errorf("Prometheus asks %s, and the relay has the ports %q", target, relay.Ports)
		}
	}
	if len(targets) < 2 {
		t.Errorf("a fleet of %q", targets)
	}
	if hold := compose.Services["relay-1"].Environment["NONCE_GAP_HOLD_MS"]; hold == "" {
		t.Error("relays of a fleet wait for a predecessor as one relay does")
	}
	// The manager is there if somebody asks for it, and Prometheus asks it with its password.
	manager, asked := compose.Services["txm"], prometheus.Scrape[1]
	if !slices.Equal(manager.Profiles, []string{"txm"}) || !slices.Equal(compose.Services["postgres"].Profiles, []string{"txm"}) {
		t.Error("the manager or its database runs without the profile txm")
	}
	if !strings.Contains(asked.Job, "txm") || len(asked.Names) != 1 || !slices.Equal(asked.Names[0].Names, []string{"txm"}) ||
		manager.Environment["TXM_ADDRESS"] != "0.0.0.0:"+asked.Names[0].Port || asked.Password.User != manager.Environment["TXM_BASIC_USER"] {
		t.Errorf("Prometheus asks %+v, and the manager is %+v", asked, manager)
	}
	if own := compose.Services["prometheus"].Configs; len(own) != 1 || own[0].Target != asked.Password.File {
		t.Errorf("the manager's password is in %+v, and Prometheus reads %s", own, asked.Password.File)
	}
	for _, rules := range []string{"relay", "txm"} {
		board := rules + "-dashboard.json"
		if !slices.Contains(compose.Services["grafana"].Volumes, "../../docs/"+board+":/var/lib/grafana/dashboards/"+board+":ro") {
			t.Errorf("Grafana does not have %s", board)
		}
		if !slices.Contains(prometheus.Rules, "/etc/prometheus/"+rules+"-alerts.yml") {
			t.Errorf("Prometheus does not read the alerts of %s", rules)
		}
	}
	for _, name := range []string{"grafana/datasources.yml", "grafana/dashboards.yml"} {
		var provisioning struct {
			Version int `yaml:"apiVersion"`
		}
		if decode(name, &provisioning); provisioning.Version != 1 {
			t.Errorf("%s has the version %d", name, provisioning.Version)
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
	text, err := os.ReadFile("docs/MIGRATION.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Metrics\n")
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

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The unit's reload gives the service what /etc/lockstep/lockstep.env holds then: the service reads a copy, which the
// start and each reload make, and not the environment, which would be that of the start for ever.
func TestTheUnitReloadsItsSettings(t *testing.T) {
	unit := read(t, "packaging/lockstep.service")
	setting := func(name string) (values []string) {
		for _, m := range regexp.MustCompile("(?m)^"+name+"=(.*)$").FindAllStringSubmatch(unit, -1) {
			values = append(values, m[1])
		}
		return values
	}
	if slices.ContainsFunc(setting("EnvironmentFile"), func(file string) bool { return strings.Contains(file, "lockstep.env") }) {
		t.Error("the settings are in the environment, which no reload changes")
	}
	if !slices.Contains(setting("Environment"), "LOCKSTEP_ENV_FILE=/run/lockstep/lockstep.env") || !slices.Contains(setting("RuntimeDirectory"), "lockstep") {
		t.Error("the service does not read the copy")
	}
	copies, reloads := setting("ExecStartPre"), setting("ExecReload")
	if len(copies) != 1 || len(reloads) != 2 || reloads[0] != copies[0] || !strings.Contains(reloads[1], "-HUP") {
		t.Fatalf("before the start %q, at a reload %q", copies, reloads)
	}
	command, begins := strings.CutPrefix(copies[0], "+/bin/sh -c '") // as root, who alone reads the file
	command, ends := strings.CutSuffix(command, "'")
	if !begins || !ends {
		t.Fatalf("not a command of a shell: %s", copies[0])
	}
	dir := t.TempDir()
	etc, run := filepath.Join(dir, "etc"), filepath.Join(dir, "run")
	for _, d := range []string{etc, run} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	command = strings.NewReplacer("/etc/lockstep", etc, "/run/lockstep", run).Replace(command)
	for _, settings := range []string{"TIER_1_RATE_LIMIT=1\n", "TIER_1_RATE_LIMIT=2\n"} {
		if err := os.WriteFile(filepath.Join(etc, "lockstep.env"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, said)
		}
		copied := filepath.Join(run, "lockstep.env")
		info, err := os.Stat(copied)
		if err != nil || info.Mode().Perm() != 0o600 || read(t, copied) != settings {
			t.Errorf("the copy: %v, %v, %q", info, err, read(t, copied))
		}
	}
}
