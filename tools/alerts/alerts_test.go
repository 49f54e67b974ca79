package alerts

import (
	"log/slog"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

// rules reads all files of alerts as Prometheus does.
func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	files, err := filepath.Glob("../../docs/*-alerts.yml")
	if err != nil || len(files) < 3 {
		t.Fatalf("files of alerts: %q, %v", files, err)
	}
	found := map[string]rulefmt.Rule{}
	for _, file := range files {
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		for _, err := range errs {
			t.Errorf("%s: %v", file, err)
		}
		if groups == nil {
			t.Fatalf("%s has no groups", file)
		}
		for _, group := range groups.Groups {
			for _, rule := range group.Rules {
				if _, twice := found[rule.Alert]; twice {
					t.Errorf("%s: there are two alerts %s", file, rule.Alert)
				}
				found[rule.Alert] = rule
			}
		}
	}
	return found
}

// fires evaluates a rule every minute over series that have a sample every minute, and reports
// whether it fires at any time: its expression then has had one and the same result for as long as it says.
func fires(t *testing.T, rule rulefmt.Rule, series storage.Queryable, last time.Duration) bool {
	t.Helper()
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	since := map[string]time.Duration{}
	fired := false
	for at := time.Duration(0); at <= last; at += time.Minute {
		query, err := engine.NewInstantQuery(t.Context(), series, nil, rule.Expr, time.Unix(0, 0).UTC().Add(at))
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		if err != nil {
			t.Fatalf("%s: %v", rule.Alert, err)
		}
		now := map[string]time.Duration{}
		for _, sample := range vector {
			key := sample.Metric.String()
			now[key] = at
			if before, known := since[key]; known {
				now[key] = before
			}
			fired = fired || at-now[key] >= time.Duration(rule.For)
		}
		since = now
		query.Close()
	}
	return fired
}

// one is a signer's labels, relay those of a relay, and the mirrors those of two mirror nodes that it asks.
const (
	one       = `chain="1",signer="0xa",instance="m1"`
	relay     = `job="lockstep-relay",instance="r1"`
	mirrorOne = relay + `,upstream="one",service="rest"`
	mirrorTwo = relay + `,upstream="two",service="rest"`
)

// A try has series, a sample a minute, under which an alert fires, and such under which it stays quiet.
type try struct{ fires, quiet []string }

// cases are those of the alerts of the manager and of the watchers.
var cases = map[string]try{
	"TxmSignerLowBalance": {
		fires: []string{"load 1m\n txm_signer_balance_wei{" + one + "} 5e16x60\n txm_signer_enabled{" + one + "} 1x60"},
		quiet: []string{
			"load 1m\n txm_signer_balance_wei{" + one + "} 5e17x60\n txm_signer_enabled{" + one + "} 1x60",
			"load 1m\n txm_signer_balance_wei{" + one + "} 5e16x60\n txm_signer_enabled{" + one + "} 0x60",
			"load 1m\n txm_signer_balance_wei{" + one + "} 5e16x3 5e17x57\n txm_signer_enabled{" + one + "} 1x60",
		},
	},
	"TxmSignerDisabled": {
		fires: []string{"load 1m\n txm_signer_enabled{" + one + "} 0x60"},
		quiet: []string{"load 1m\n txm_signer_enabled{" + one + "} 1x60", "load 1m\n txm_signer_enabled{" + one + "} 0x10 1x50"},
	},
	"TxmQueueHigh": {
		fires: []string{"load 1m\n txm_queue_depth{chain=\"1\",instance=\"m1\"} 500x60\n txm_queue_depth{chain=\"1\",instance=\"m2\"} 0x60"},
		quiet: []string{"load 1m\n txm_queue_depth{chain=\"1\"} 499x60", "load 1m\n txm_queue_depth{chain=\"1\"} 500x4 0x56"},
	},
	"TxmHeadStuck": {
		fires: []string{
			"load 1m\n txm_signer_oldest_pending_seconds{" + one + "} 0+60x60",
			// Another signer of the chain goes on.
			"load 1m\n txm_signer_oldest_pending_seconds{" + one + "} 0+60x60\n txm_signer_oldest_pending_seconds{chain=\"1\",signer=\"0x2\"} 1x60\n txm_intents_total{chain=\"1\",status=\"confirmed\"} 0+1x60",
		},
		quiet: []string{
			"load 1m\n txm_signer_oldest_pending_seconds{" + one + "} 300x60",
			"load 1m\n txm_signer_oldest_pending_seconds{" + one + "} 0x60",
		},
	},
	"TxmNonceGap": {
		fires: []string{"load 1m\n txm_signer_nonce_gap{" + one + "} 1x60"},
		quiet: []string{"load 1m\n txm_signer_nonce_gap{" + one + "} 0x60", "load 1m\n txm_signer_nonce_gap{" + one + "} 0 1 0x60"},
	},
	"TxmNonceDrift": {
		fires: []string{"load 1m\n txm_signer_nonce_drift{" + one + "} 2x60", "load 1m\n txm_signer_nonce_drift{" + one + "} 0x10 1 0x49"},
		quiet: []string{"load 1m\n txm_signer_nonce_drift{" + one + "} 0x60"},
	},
	"TxmFailureRate": {
		fires: []string{"load 1m\n txm_intents_total{chain=\"1\",status=\"failed\"} 0+2x60\n txm_intents_total{chain=\"1\",status=\"accepted\"} 0+10x60"},
		quiet: []string{
			"load 1m\n txm_intents_total{chain=\"1\",status=\"failed\"} 0+1x60\n txm_intents_total{chain=\"1\",status=\"accepted\"} 0+100x60",
			"load 1m\n txm_intents_total{chain=\"1\",status=\"accepted\"} 0+100x60",
		},
	},
	"TxmSendErrors": {
		fires: []string{"load 1m\n txm_send_errors_total{chain=\"1\",class=\"transport\"} 0+120x60"},
		quiet: []string{"load 1m\n txm_send_errors_total{chain=\"1\",class=\"transport\"} 0+30x60", "load 1m\n txm_send_errors_total{chain=\"1\",class=\"nonce_used\"} 0+120x60"},
	},
	"TxmNoOwner": {
		fires: []string{"load 1m\n txm_signer_owned{" + one + "} 0x60\n txm_signer_owned{chain=\"1\",signer=\"0xa\",instance=\"m2\"} 0x60"},
		quiet: []string{"load 1m\n txm_signer_owned{" + one + "} 0x60\n txm_signer_owned{chain=\"1\",signer=\"0xa\",instance=\"m2\"} 1x60"},
	},
	"TxmWebhooksDead": {
		fires: []string{"load 1m\n txm_webhook_deliveries_total{result=\"dead\"} 0x30 1x30"},
		quiet: []string{"load 1m\n txm_webhook_deliveries_total{result=\"dead\"} 4x60\n txm_webhook_deliveries_total{result=\"delivered\"} 0+1x60"},
	},
	"TxmOperatorWrong": {
		fires: []string{"load 1m\n txm_operator_ok{chain=\"295\",instance=\"m1\"} 0x60"},
		quiet: []string{"load 1m\n txm_operator_ok{chain=\"295\",instance=\"m1\"} 1x60"},
	},
	"TxmOperatorBalanceLow": {
		fires: []string{"load 1m\n txm_operator_balance_tinybars{chain=\"295\",accountId=\"0.0.2\"} 9e9x60"},
		quiet: []string{
			"load 1m\n txm_operator_balance_tinybars{chain=\"295\",accountId=\"0.0.2\"} 2e10x60",
			"load 1m\n txm_operator_balance_tinybars{chain=\"295\",accountId=\"0.0.2\"} 9e9x3 2e10x57",
		},
	},
	"TxmEndpointFails": {
		fires: []string{"load 1m\n txm_endpoint_up{chain=\"1\",endpoint=\"2\",instance=\"m1\"} 0x60\n txm_endpoint_up{chain=\"1\",endpoint=\"1\",instance=\"m1\"} 1x60"},
		quiet: []string{"load 1m\n txm_endpoint_up{chain=\"1\",endpoint=\"2\",instance=\"m1\"} 0x5 1x55"},
	},
	"TxmDown": {
		fires: []string{"load 1m\n up{job=\"lockstep-txm\",instance=\"m1\"} 1x10 0x50"},
		quiet: []string{"load 1m\n up{job=\"lockstep-txm\",instance=\"m1\"} 1x60\n up{job=\"other\",instance=\"m1\"} 0x60"},
	},
	"WatchNoLeader": {
		fires: []string{"load 1m\n relayer_is_leader{instance=\"w1\"} 0x60\n relayer_is_leader{instance=\"w2\"} 0x60"},
		quiet: []string{"load 1m\n relayer_is_leader{instance=\"w1\"} 0x60\n relayer_is_leader{instance=\"w2\"} 1x60"},
	},
	"WatchHeartbeatOld": {
		fires: []string{"load 1m\n relayer_last_heartbeat_age 301x60"}, quiet: []string{"load 1m\n relayer_last_heartbeat_age 300x60"},
	},
	"WatchHeadStands": {
		fires: []string{"load 1m\n watch_head_age_seconds{chain=\"5\"} 61x60\n watch_block_seconds{chain=\"5\"} 12x60"},
		quiet: []string{
			"load 1m\n watch_head_age_seconds{chain=\"5\"} 60x60\n watch_block_seconds{chain=\"5\"} 12x60",
			"load 1m\n watch_head_age_seconds{chain=\"5\"} 9x60\n watch_block_seconds{chain=\"5\"} 0.25x60",
			"load 1m\n watch_head_age_seconds{chain=\"31337\"} 3600x60",
		},
	},
	"WatchEndpointFails": {
		fires: []string{"load 1m\n watch_endpoint_up{chain=\"5\",endpoint=\"2\",instance=\"w1\"} 0x60\n watch_endpoint_up{chain=\"5\",endpoint=\"1\",instance=\"w1\"} 1x60"},
		quiet: []string{"load 1m\n watch_endpoint_up{chain=\"5\",endpoint=\"2\",instance=\"w1\"} 0x60\n watch_endpoint_up{chain=\"5\",endpoint=\"2\",instance=\"w2\"} 1x60"},
	},
	"WatchDoubt": {
		fires: []string{"load 1m\n watch_doubts_total{chain=\"5\"} 0x30 1+1x30"},
		quiet: []string{"load 1m\n watch_doubts_total{chain=\"5\"} 3x60"},
	},
	"WatchLag": {fires: []string{"load 1m\n watch_lag_blocks 101x60"}, quiet: []string{"load 1m\n watch_lag_blocks 100x60"}},
	"WatchDuplicates": {
		fires: []string{"load 1m\n event_deduplication_hits 0+2x60\n relayer_events_published 0+100x60"},
		quiet: []string{"load 1m\n event_deduplication_hits 0+1x60\n relayer_events_published 0+200x60"},
	},
	"WatchSinkFails": {
		fires: []string{"load 1m\n watch_sink_failures_total{instance=\"w1\",sink=\"kafka\"} 0+1x60\n watch_sink_seconds_count{instance=\"w1\",sink=\"kafka\"} 0+1x60"},
		quiet: []string{
			// Now and then.
			"load 1m\n watch_sink_failures_total{instance=\"w1\",sink=\"kafka\"} 0 0 0 0 1+0x8 2+0x8 3+0x8 4+0x20\n watch_sink_seconds_count{instance=\"w1\",sink=\"kafka\"} 0+1x60",
			// Another sink of the process has no trouble, and this one is asked nothing more.
			"load 1m\n watch_sink_failures_total{instance=\"w1\",sink=\"kafka\"} 0+1x60\n watch_sink_seconds_count{instance=\"w1\",sink=\"kafka\"} 7x60\n watch_sink_seconds_count{instance=\"w1\",sink=\"redis\"} 0+1x60",
		},
	},
	"WatchReorganised": {
		fires: []string{"load 1m\n watch_reorgs_total{instance=\"w1\"} 0+1x60"},
		quiet: []string{"load 1m\n watch_reorgs_total{instance=\"w1\"} 500x30 519x30", "load 1m\n watch_reorgs_total{instance=\"w1\"} 0+0.3x60"},
	},
	"WatchUndecoded": {
		fires: []string{"load 1m\n watch_undecoded_total{instance=\"w1\"} 0x30 1x30"},
		quiet: []string{"load 1m\n watch_undecoded_total{instance=\"w1\"} 3x60"},
	},
	"WatchSettled": {
		fires: []string{"load 1m\n watch_settled_total{instance=\"w1\",sink=\"nats\"} 0x30 1x30"},
		quiet: []string{"load 1m\n watch_settled_total{instance=\"w1\",sink=\"nats\"} 3x60"},
	},
	"WatchRepaired": {
		fires: []string{"load 1m\n watch_repaired_total{instance=\"w1\"} 0x30 1x30"},
		quiet: []string{"load 1m\n watch_repaired_total{instance=\"w1\"} 3x60"},
	},
	"WatchOlderPlan": {
		fires: []string{"load 1m\n watch_plan_current{instance=\"w1\"} 0x60"},
		quiet: []string{"load 1m\n watch_plan_current{instance=\"w1\"} 1x60"},
	},
	"WatchDown": {fires: []string{"load 1m\n up{job=\"watch\"} 0x60"}, quiet: []string{"load 1m\n up{job=\"watch\"} 1x60"}},
}

// TestAlertsFire tries every alert in the cases that it is for, and in some that it is not for; no alert at all fires where
// there is nothing.
func TestAlertsFire(t *testing.T) {
	tries := maps.Clone(cases)
	maps.Copy(tries, relayCases)
	all := rules(t)
	for name, c := range tries {
		rule, ok := all[name]
		if !ok {
			t.Errorf("there is no alert %s", name)
			continue
		}
		for _, series := range c.fires {
			if !fires(t, rule, promqltest.LoadedStorage(t, series), time.Hour) {
				t.Errorf("%s does not fire on\n%s", name, series)
			}
		}
		for _, series := range c.quiet {
			if fires(t, rule, promqltest.LoadedStorage(t, series), time.Hour) {
				t.Errorf("%s fires on\n%s", name, series)
			}
		}
	}
	nothing := promqltest.LoadedStorage(t, "load 1m\n nothing 0x60")
	for name, rule := range all {
		if c := tries[name]; len(c.fires) == 0 || len(c.quiet) == 0 {
			t.Errorf("%s is tried in %d cases that it is for and %d that it is not for", name, len(c.fires), len(c.quiet))
		}
		if fires(t, rule, nothing, 10*time.Minute) {
			t.Errorf("%s fires where there is nothing", name)
		}
	}
}
