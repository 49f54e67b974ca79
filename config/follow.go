package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// follow raises defaults of ours that would undercut what was set. Whoever allows each sender 90 ℏ does not expect an address to be stopped at 30.
func (c *Config) follow(values map[string]string) {
	unset := func(name string) bool { return values[name] == "" }
	if unset("HBAR_RATE_LIMIT_BASIC_PER_IP") && c.Limit.Basic < c.Limit.Basic*10 {
		c.Limit.PerIP = max(c.Limit.PerIP, c.Limit.Basic*10)
	}
	if unset("SIMULATION_GAS_CAP") {
		c.API.Simulation.Gas = max(c.API.Simulation.Gas, c.Precheck.MaxGasLimit)
	}
	if unset("TXPOOL_MAX_ENTRIES") {
		c.Pool.MaxEntries = max(c.Pool.MaxEntries, c.Submit.MaxInProgress)
	}
	if unset("LOCK_MAX_QUEUE_PER_SENDER") {
		c.Lock.MaxQueue = max(c.Lock.MaxQueue, c.RPC.Batch.MaxSize)
	}
}

// doubts are settings that could be meant so, and hardly ever are.
func (c *Config) doubts() (list []string) {
	doubt := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	chains := map[string]uint64{"mainnet": 295, "testnet": 296, "previewnet": 297}
	network, mirror := strings.ToLower(strings.TrimSpace(c.Consensus.Network)), publicMirror(c.Mirror.URL.Reveal())
	own := uint64(c.Server.ChainID)
	switch id, named := chains[network]; {
	case named && id != own:
		doubt("CHAIN_ID is %d, and HEDERA_NETWORK=%s has %d", own, network, id)
	case !named && chains[mirror] != 0 && chains[mirror] != own:
		doubt("CHAIN_ID is %d, and MIRROR_NODE_URL is that of %s, which has %d", own, mirror, chains[mirror])
	}
	if chains[network] != 0 && mirror != "" && mirror != network {
		doubt("HEDERA_NETWORK is %s, and MIRROR_NODE_URL is that of %s", network, mirror)
	}
	const shortest = 500 * time.Millisecond
	for _, limit := range []struct {
		name  string
		value time.Duration
	}{
		{"SDK_REQUEST_TIMEOUT", c.Consensus.RequestTimeout.Duration()},
		{"SDK_GRPC_DEADLINE", c.Consensus.AttemptTimeout.Duration()},
		{"MIRROR_NODE_TIMEOUT", c.Mirror.Timeout.Duration()},
		{"SERVER_REQUEST_TIMEOUT_MS", c.RPC.HTTP.RequestTimeout.Duration()},
	} {
		if limit.value > 0 && limit.value < shortest {
			doubt("%s is %v, in which hardly anybody answers; a number without a unit counts milliseconds", limit.name, limit.value)
		}
	}
	return list
}

// publicMirror is the network of one of Hedera's public mirror nodes, or empty.
func publicMirror(address string) string {
	first, _, _ := strings.Cut(address, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil {
		return ""
	}
	name, found := strings.CutSuffix(strings.ToLower(u.Hostname()), ".mirrornode.hedera.com")
	if !found {
		return ""
	}
	return strings.TrimSuffix(name, "-public")
}

// WarnOfDoubts tells a log of settings that are hardly meant so.
func WarnOfDoubts(log *slog.Logger, doubts []string) {
	for _, d := range doubts {
		log.Warn("settings that hardly go together", "doubt", d)
	}
}
