package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// A default of ours does not undercut what was set.
func TestDefaultsFollowWhatWasSet(t *testing.T) {
	for given, want := range map[string]string{
		"HBAR_RATE_LIMIT_BASIC=9000000000":   "HBAR_RATE_LIMIT_BASIC_PER_IP=90000000000",
		"HBAR_RATE_LIMIT_BASIC=1":            "HBAR_RATE_LIMIT_BASIC_PER_IP=3000000000",
		"MAX_TRANSACTION_GAS_LIMIT=99000000": "SIMULATION_GAS_CAP=99000000",
		"MAX_TRANSACTIONS_IN_PROGRESS=99000": "TXPOOL_MAX_ENTRIES=99000",
		"BATCH_REQUESTS_MAX_SIZE=5000":       "LOCK_MAX_QUEUE_PER_SENDER=5000",
		"BATCH_REQUESTS_MAX_SIZE=10":         "LOCK_MAX_QUEUE_PER_SENDER=1024",
		"LOCK_MAX_QUEUE_PER_SENDER=0":        "LOCK_MAX_QUEUE_PER_SENDER=0",
	} {
		name, value, _ := strings.Cut(want, "=")
		for _, own := range []string{"", name + "=7"} {
			if own != "" && strings.HasPrefix(given, name) {
				continue
			}
			if own != "" {
				value = "7"
			}
			c, err := Load(enough(given, own))
			if err != nil {
				t.Fatal(given, err)
			}
			for _, s := range c.Effective() {
				if s.Name == name && s.Value != value {
					t.Errorf("with %s %s it is %s, want %s", given, own, s.Value, value)
				}
			}
		}
	}
}

func TestDoubts(t *testing.T) {
	for given, want := range map[string]string{
		"": "",
		"HEDERA_NETWORK=testnet CHAIN_ID=296 MIRROR_NODE_URL=https://testnet.mirrornode.hedera.com":          "",
		"HEDERA_NETWORK=mainnet CHAIN_ID=0x127 MIRROR_NODE_URL=https://mainnet-public.mirrornode.hedera.com": "",
		"HEDERA_NETWORK=Testnet":              "CHAIN_ID is 298, and HEDERA_NETWORK=testnet has 296",
		"HEDERA_NETWORK=mainnet CHAIN_ID=296": "CHAIN_ID is 296, and HEDERA_NETWORK=mainnet has 295",
		"HEDERA_NETWORK=testnet CHAIN_ID=296 MIRROR_NODE_URL=https://mainnet.mirrornode.hedera.com": "HEDERA_NETWORK is testnet, and MIRROR_NODE_URL is that of mainnet",
		"MIRROR_NODE_URL=https://previewnet.mirrornode.hedera.com":                                  "CHAIN_ID is 298, and MIRROR_NODE_URL is that of previewnet, which has 297",
		"SDK_REQUEST_TIMEOUT=10":       "SDK_REQUEST_TIMEOUT is 10ms",
		"SERVER_REQUEST_TIMEOUT_MS=60": "SERVER_REQUEST_TIMEOUT_MS is 60ms",
		"MIRROR_NODE_TIMEOUT=10":       "MIRROR_NODE_TIMEOUT is 10ms",
		"SDK_GRPC_DEADLINE=10":         "SDK_GRPC_DEADLINE is 10ms",
	} {
		c, err := Load(enough(strings.Fields(given)...))
		if err != nil {
			t.Fatal(given, err)
		}
		if got := strings.Join(c.Doubts, "; "); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
}

// No number may be negative, unless that means something, and some not 0 either.
func TestNumbersHaveBounds(t *testing.T) {
	parts := []string{"RATE_LIMIT_DISABLED=false", "JUMBO_TX_ENABLED=false", "HBAR_RATE_LIMIT_TINYBAR=1", "REDIS_ENABLED=true", "TX_STATUS_TRACING=true"}
	positive := "LIMIT_DURATION HBAR_RATE_LIMIT_DURATION FILE_APPEND_CHUNK_SIZE MIRROR_NODE_HTTP_KEEP_ALIVE_MSECS ETH_GET_LOGS_BLOCK_RANGE_LIMIT FEE_HISTORY_MAX_RESULTS SDK_REQUEST_TIMEOUT SDK_MAX_ATTEMPTS MIRROR_NODE_TIMEOUT MIRROR_NODE_HTTP_MAX_SOCKETS"
	for _, s := range collect(reflect.ValueOf(Config{}), "") {
		switch s.value.Interface().(type) {
		case envx.Millis, hedera.Tinybar, int, int64, uint64, float64:
		default:
			continue
		}
		_, negative := Load(enough(append(parts, s.name+"=-1")...))
		if meant := s.name == "WS_INPUT_SIZE_LIMIT" || s.name == "TX_STATUS_TRACING_TTL_MS"; (negative == nil) != meant { // no limit
			t.Errorf("%s=-1: %v", s.name, negative)
		}
		for _, bound := range []struct {
			tag  string
			past int64
		}{{"min", -1}, {"max", 1}} {
			text := s.tag.Get(bound.tag)
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				text = strconv.FormatInt(n+bound.past, 10)
			} else if d, err := time.ParseDuration(text); err == nil {
				text = (d + time.Duration(bound.past)).String()
			}
			if _, past := Load(enough(append(parts, s.name+"="+text)...)); text != "" && (past == nil || !strings.Contains(past.Error(), s.name+": must be")) {
				t.Errorf("%s=%s: %v", s.name, text, past)
			}
		}
		if _, zero := Load(enough(append(parts, s.name+"=0")...)); zero == nil && slices.Contains(strings.Fields(positive), s.name) {
			t.Errorf("%s=0 is taken", s.name)
		}
	}
}

// New settings are told apart: those that a running relay takes, and those that need a new start; the
// latter stay different until then.
func TestChangedSettings(t *testing.T) {
	was := must.Get(Load(enough("TIER_1_RATE_LIMIT=5", "LOG_LEVEL=info")))(t)
	next := must.Get(Load(enough("TIER_1_RATE_LIMIT=7", "LOG_LEVEL=debug", "SERVER_PORT=1", "ADMIN_TOKEN=x")))(t)
	for _, want := range [][]string{{"LOG_LEVEL", "TIER_1_RATE_LIMIT"}, nil} {
		atOnce, restart := was.Changed(next)
		slices.Sort(atOnce)
		if !slices.Equal(atOnce, want) || !slices.Equal(restart, []string{"SERVER_PORT", "ADMIN_TOKEN"}) {
			t.Errorf("at once %q, after a new start %q", atOnce, restart)
		}
		was.Take(next)
	}
	if was.RPC.RateLimit.Tier1 != 7 || was.Log.Level != "debug" || was.Server.Port == 1 || was.Server.AdminToken != "" {
		t.Errorf("taken: %+v, %+v", was.RPC.RateLimit, was.Log)
	}
}
