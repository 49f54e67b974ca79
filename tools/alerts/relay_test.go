package alerts

// relayCases are those of the relay's alerts.
var relayCases = map[string]try{
	"RelayDown": {
		fires: []string{"load 1m\n up{" + relay + "} 1x10 0x50"},
		quiet: []string{"load 1m\n up{" + relay + "} 1x60\n up{job=\"other\"} 0x60", "load 1m\n up{" + relay + "} 1x10 0x1 1x48"},
	},
	"RelayInternalErrors": {
		fires: []string{"load 1m\n lockstep_rpc_errors_total{" + relay + `,method="eth_call",code="-32603",transport="http"} 0+4x60` +
			"\n lockstep_rpc_errors_total{" + relay + `,method="eth_call",code="-32603",transport="ws"} 0+4x60`},
		quiet: []string{
			"load 1m\n lockstep_rpc_errors_total{" + relay + `,method="eth_call",code="-32603",transport="http"} 0+5x60`,
			"load 1m\n lockstep_rpc_errors_total{" + relay + `,method="eth_call",code="-32602",transport="http"} 0+600x60`,
		},
	},
	"RelayPanics": {
		fires: []string{
			"load 1m\n rpc_relay_method_panics_total{" + relay + `,method="eth_call"} 3x30 4x30`,
			// The first one: the method had no series before.
			"load 1m\n rpc_relay_method_panics_total{" + relay + `,method="eth_call"} _x30 1x30`,
		},
		quiet: []string{"load 1m\n rpc_relay_method_panics_total{" + relay + `,method="eth_call"} 0x60`},
	},
	"RelayOverloaded": {
		fires: []string{"load 1m\n rpc_relay_budget_refusals_total{" + relay + `,scope="all"} 0+66x60`},
		quiet: []string{
			"load 1m\n rpc_relay_budget_refusals_total{" + relay + `,scope="all"} 0+54x60`,
			"load 1m\n rpc_relay_budget_refusals_total{" + relay + `,scope="all"} 0x20 200x40`,
		},
	},
	"RelayConnectionsFull": {
		fires: []string{"load 1m\n rpc_relay_connections_refused_total{" + relay + `,limit="total"} 0+1x60`},
		quiet: []string{
			"load 1m\n rpc_relay_connections_refused_total{" + relay + `,limit="total"} 0x20 9x40`,
			"load 1m\n rpc_relay_connections_refused_total{" + relay + `,limit="address"} 0+5x60`,
		},
	},
	"RelayLaneStuck": {
		fires: []string{
			"load 1m\n rpc_relay_lock_waiting_txns{" + relay + `,strategy="redis"} 4x60` +
				"\n rpc_relay_lock_acquisitions_total{" + relay + `,strategy="redis",status="success"} 70x60` +
				"\n rpc_relay_lock_acquisitions_total{" + relay + `,strategy="redis",status="fail"} 0+3x60`,
		},
		quiet: []string{
			"load 1m\n rpc_relay_lock_waiting_txns{" + relay + `,strategy="redis"} 4x60` +
				"\n rpc_relay_lock_acquisitions_total{" + relay + `,strategy="redis",status="success"} 0+1x60`,
			"load 1m\n rpc_relay_lock_waiting_txns{" + relay + `,strategy="redis"} 0x60` +
				"\n rpc_relay_lock_acquisitions_total{" + relay + `,strategy="redis",status="success"} 70x60`,
		},
	},
	"RelayLaneWaitLong": {
		fires: []string{waits("0+10x60", "0+90x60", "0+100x60")},
		quiet: []string{
			waits("0+10x60", "0+98x60", "0+100x60"),         // one in fifty is slow
			waits("0x60", "0x60", "0x60"),                   // nobody waits
			waits("0x20 10x40", "0x20 50x40", "0x20 99x40"), // for a moment
		},
	},
	"RelayLanesRecover": {
		fires: []string{"load 1m\n lockstep_lane_holes_total{" + relay + "} 0+3x60"},
		quiet: []string{"load 1m\n lockstep_lane_holes_total{" + relay + "} 0+2x60", "load 1m\n lockstep_lane_holes_total{" + relay + "} 100x60"},
	},
	"RelayQueueFull": {
		fires: []string{"load 1m\n lockstep_lane_evicted_total{" + relay + "} 0x30 1x30"},
		quiet: []string{"load 1m\n lockstep_lane_evicted_total{" + relay + "} 9x60"},
	},
	"RelaySettingsDiffer": {
		fires: []string{"load 1m\n lockstep_ordering_settings_differ{" + relay + "} 0x10 1x50", "load 1m\n lockstep_ordering_settings_differ{" + relay + "} 2x10 1x50"},
		quiet: []string{"load 1m\n lockstep_ordering_settings_differ{" + relay + "} 0x10 1x8 0x42"},
	},
	"RelayLockLost": {
		fires: []string{"load 1m\n lockstep_lock_lost_total{" + relay + "} 0x30 1x30"},
		quiet: []string{"load 1m\n lockstep_lock_lost_total{" + relay + "} 9x60"},
	},
	"RelayWrongNonces": {
		fires: []string{outcomes("0+100x60") + "\n rpc_relay_wrong_nonce_errors_total{" + relay + `,strategy="redis"} 0+6x60`},
		quiet: []string{
			outcomes("0+100x60") + "\n rpc_relay_wrong_nonce_errors_total{" + relay + `,strategy="redis"} 0+4x60`,
			outcomes("0+100x60") + "\n rpc_relay_wrong_nonce_errors_total{" + relay + `,strategy="redis"} 0x20 60x40`,
		},
	},
	"RelayUnknownOutcomes": {
		fires: []string{outcomes("0+100x60") + "\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="unknown",status="none"} 0+6x60`},
		quiet: []string{
			outcomes("0+100x60") + "\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="unknown",status="none"} 0+5x60`,
			outcomes("0+100x60") + "\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="rejected",status="none"} 0+50x60`,
		},
	},
	"RelayMirrorOut": {
		fires: []string{
			"load 1m\n rpc_relay_mirror_upstream_state{" + mirrorOne + "} 0x10 2x50\n rpc_relay_mirror_upstream_state{" + mirrorTwo + "} 0x10 1x50",
		},
		quiet: []string{
			"load 1m\n rpc_relay_mirror_upstream_state{" + mirrorOne + "} 2x60\n rpc_relay_mirror_upstream_state{" + mirrorTwo + "} 0x60",
			"load 1m\n rpc_relay_mirror_upstream_state{" + mirrorOne + "} 0 2 0x60",
		},
	},
	"RelayMirrorDegraded": {
		fires: []string{"load 1m\n rpc_relay_mirror_upstream_state{" + mirrorOne + "} 2x60\n rpc_relay_mirror_upstream_state{" + mirrorTwo + "} 0x60"},
		quiet: []string{"load 1m\n rpc_relay_mirror_upstream_state{" + mirrorOne + "} 0x9 2x3 0x46"},
	},
	"RelayMirrorBehind": {
		fires: []string{"load 1m\n rpc_relay_mirror_upstream_lag_blocks{" + mirrorOne + "} 16x60\n rpc_relay_mirror_upstream_lag_blocks{" + mirrorTwo + "} 0x60"},
		quiet: []string{"load 1m\n rpc_relay_mirror_upstream_lag_blocks{" + mirrorOne + "} 15x60", "load 1m\n rpc_relay_mirror_upstream_lag_blocks{" + mirrorOne + "} 0x9 99x3 0x46"},
	},
	"RelayMirrorStandsStill": {
		fires: []string{"load 1m\n rpc_relay_mirror_upstream_head{" + mirrorOne + "} 100+30x20 700x40\n rpc_relay_mirror_upstream_head{" + mirrorTwo + "} 690x60"},
		quiet: []string{
			"load 1m\n rpc_relay_mirror_upstream_head{" + mirrorOne + "} 700x60\n rpc_relay_mirror_upstream_head{" + mirrorTwo + "} 100+30x60",
			"load 1m\n rpc_relay_mirror_upstream_head{" + mirrorOne + "} 0x60", // a network without blocks
		},
	},
	"RelayNodesOut": {
		fires: []string{
			nodes("1x10 0x50", "1x10 0x50", "0x60"),
			nodes("1x60", "1x60", "1x60") + "\n lockstep_upstream_up{" + relay + `,upstream="nodes"} 1x10 0x50`,
		},
		quiet: []string{
			nodes("0x60", "0x60", "1x60"), nodes("1x10 0 1x48", "0x60", "0x60"),
			nodes("1x60", "1x60", "1x60") + "\n lockstep_upstream_up{" + relay + `,upstream="nodes"} 1x10 0 1x48` +
				"\n lockstep_upstream_up{" + relay + `,upstream="mirror"} 0x60`,
		},
	},
	"RelayNodesDegraded": {
		fires: []string{nodes("0x60", "0x60", "1x60")},
		quiet: []string{nodes("0x60", "1x60", "1x60"), nodes("0x60", "1x9 0x8 1x42", "1x60")},
	},
	"RelayRedisOut": {
		fires: []string{
			redis("1x10 0x50", "1x10 0x50", "1x60"),
			redis("0x60", "0x60", "1x60"), // it never reached its Redis
			redis("0x60", "0x60", "0x60"), // nor needs it for an order
			redis("1x60", "0x60", "1x60"), // the locks cannot use it
			// It never reached the Redis of the locks.
			redis("1x60", "1x60", "1x60") + "\n lockstep_upstream_up{" + relay + `,upstream="lock_redis"} 0x60`,
		},
		quiet: []string{
			redis("1x60", "1x60", "1x60"),
			redis("1x60", "0x60", "0x60"), // ordering is off
			"load 1m\n lockstep_lock_redis_up{" + relay + "} 0x60\n lockstep_ordering_enabled{" + relay + "} 1x60" + // a relay that has none
				"\n lockstep_upstream_up{" + relay + `,upstream="mirror"} 0x60` +
				// Another relay has one.
				"\n lockstep_upstream_up{job=\"lockstep-relay\",instance=\"r2\",upstream=\"redis\"} 1x60",
			redis("1x10 0 1x48", "1x10 0 1x48", "1x60"),
		},
	},
	"RelayOrderNotShared": {
		fires: []string{"load 1m\n lockstep_lock_fail_open_total{" + relay + "} 0x30 1x30"},
		quiet: []string{"load 1m\n lockstep_lock_fail_open_total{" + relay + "} 40x60"},
	},
	"RelayChainWrong": {
		fires: []string{"load 1m\n lockstep_chain_id_ok{" + relay + "} 0x60"},
		quiet: []string{"load 1m\n lockstep_chain_id_ok{" + relay + "} 1x60"},
	},
	"RelayOperatorWrong": {
		fires: []string{"load 1m\n lockstep_operator_ok{" + relay + "} 0x60"},
		quiet: []string{"load 1m\n lockstep_operator_ok{" + relay + "} 1x60"},
	},
	"RelayOperatorRefused": {
		fires: []string{
			outcomes("0x60") + "\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="rejected",status="INVALID_SIGNATURE"} 0+1x60`,
			// Every transaction was refused from the start: there was no series before.
			"load 1m\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="rejected",status="INVALID_SIGNATURE"} _x10 1+2x50`,
			outcomes("0x60") + "\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="rejected",status="PAYER_ACCOUNT_NOT_FOUND"} 0+1x60`,
		},
		quiet: []string{
			// What a single client can cause, however often.
			outcomes("0x60") + "\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="rejected",status="WRONG_NONCE"} 0+100x60` +
				"\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="rejected",status="INSUFFICIENT_PAYER_BALANCE"} 0+100x60` +
				"\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="not_sent",status="none"} 0+100x60`,
			// Once, and never again.
			outcomes("0+10x60") + "\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="rejected",status="INVALID_SIGNATURE"} 0x30 2x30`,
			outcomes("0+100x60"),
		},
	},
	"RelayOperatorBalanceLow": {
		fires: []string{"load 1m\n rpc_relay_operator_balance{" + relay + `,accountId="0.0.2"} 9e9x60`},
		quiet: []string{"load 1m\n rpc_relay_operator_balance{" + relay + `,accountId="0.0.2"} 1e10x60`, "load 1m\n rpc_relay_operator_balance{" + relay + `,accountId="0.0.2"} 2e10x9 9e9x3 2e10x46`},
	},
	"RelayBudgetLow": {
		fires: []string{"load 1m\n rpc_relay_hbar_rate_remaining{" + relay + "} 19x60\n rpc_relay_hbar_rate_total_limit{" + relay + "} 100x60"},
		quiet: []string{
			"load 1m\n rpc_relay_hbar_rate_remaining{" + relay + "} 20x60\n rpc_relay_hbar_rate_total_limit{" + relay + "} 100x60",
			"load 1m\n rpc_relay_hbar_rate_remaining{" + relay + "} 0x60\n rpc_relay_hbar_rate_total_limit{" + relay + "} 0x60", // no budget at all
		},
	},
	"RelayBudgetSpent": {
		fires: []string{
			"load 1m\n rpc_relay_hbar_rate_limit{" + relay + `,mode="TRANSACTION",methodName="eth_sendRawTransaction"} 3x30 4x30`,
			// The first refusal: there was no series before.
			"load 1m\n rpc_relay_hbar_rate_limit{" + relay + `,mode="TRANSACTION",methodName="eth_sendRawTransaction"} _x30 1x30`,
		},
		quiet: []string{"load 1m\n rpc_relay_hbar_rate_limit{" + relay + `,mode="TRANSACTION",methodName="eth_sendRawTransaction"} 0x60`},
	},
	"RelayCostHigh": {
		fires: []string{
			"load 1m\n rpc_relay_consensusnode_response_sum{" + relay + `,mode="TRANSACTION"} 0+1e8x60` +
				"\n rpc_relay_consensusnode_response_sum{" + relay + `,mode="RECORD"} 0+1e8x60`,
		},
		quiet: []string{"load 1m\n rpc_relay_consensusnode_response_sum{" + relay + `,mode="TRANSACTION"} 5e11+1e8x60`},
	},
	"RelayFilesLeft": {
		fires: []string{"load 1m\n rpc_relay_files_left_total{" + relay + "} 0x30 1x30"},
		quiet: []string{"load 1m\n rpc_relay_files_left_total{" + relay + "} 9x60"},
	},
}

// waits are those for a turn: up to one second, up to ten, and all.
func waits(second, ten, all string) string {
	out := "load 1m"
	for le, samples := range map[string]string{"1": second, "10": ten, "30": all, "+Inf": all} {
		out += "\n rpc_relay_lock_wait_time_seconds_bucket{" + relay + `,strategy="redis",le="` + le + `"} ` + samples
	}
	return out
}

// outcomes are transactions that were executed.
func outcomes(samples string) string {
	return "load 1m\n rpc_relay_tx_outcomes_total{" + relay + `,outcome="executed",status="SUCCESS"} ` + samples
}

// redis is a relay that has one: whether it answers, whether the order is shared there, and whether ordering is on.
func redis(answers, shared, ordering string) string {
	return "load 1m\n lockstep_upstream_up{" + relay + `,upstream="redis"} ` + answers +
		"\n lockstep_lock_redis_up{" + relay + "} " + shared + "\n lockstep_ordering_enabled{" + relay + "} " + ordering
}

// nodes are three consensus nodes of a relay.
func nodes(samples ...string) string {
	out := "load 1m"
	for i, samples := range samples {
		out += "\n rpc_relay_consensus_node_healthy{" + relay + `,node="0.0.` + string(rune('3'+i)) + `"} ` + samples
	}
	return out
}
