package rpc

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Limiter decides whether an address may call a method now. It must answer
// quickly and rather allow than fail.
type Limiter interface {
	Allow(ctx context.Context, ip, method string) bool
}

// tierOf returns the tier that established relays put a method in; 0 is the
// default tier.
func tierOf(method string) int {
	switch method {
	case "eth_call", "eth_hashrate", "eth_maxPriorityFeePerGas", "eth_mining", "eth_sendRawTransaction", "eth_sendRawTransactionSync",
		"eth_sendTransaction", "eth_sign", "eth_signTransaction", "eth_submitHashrate", "eth_submitWork",
		"eth_syncing", "debug_traceCall", "debug_traceTransaction", "debug_traceBlockByNumber", "debug_traceBlockByHash":
		return 1
	case "admin_config", "web3_clientVersion", "web3_sha3", "net_listening", "net_version", "net_peerCount":
		return 3
	case "eth_accounts", "eth_blobBaseFee", "eth_blockNumber", "eth_chainId", "eth_coinbase",
		"eth_createAccessList", "eth_estimateGas", "eth_feeHistory", "eth_gasPrice", "eth_getBalance",
		"eth_getBlockByHash", "eth_getBlockByNumber", "eth_getBlockReceipts",
		"eth_getBlockTransactionCountByHash", "eth_getBlockTransactionCountByNumber", "eth_getCode",
		"eth_getFilterChanges", "eth_getFilterLogs", "eth_getLogs", "eth_getProof", "eth_getStorageAt",
		"eth_getTransactionByBlockHashAndIndex", "eth_getTransactionByBlockNumberAndIndex",
		"eth_getTransactionByHash", "eth_getTransactionCount", "eth_getTransactionReceipt",
		"eth_getUncleByBlockHashAndIndex", "eth_getUncleByBlockNumberAndIndex",
		"eth_getUncleCountByBlockHash", "eth_getUncleCountByBlockNumber", "eth_getWork",
		"eth_newBlockFilter", "eth_newFilter", "eth_newPendingTransactionFilter", "eth_protocolVersion",
		"eth_simulateV1", "eth_uninstallFilter":
		return 2
	}
	return 0
}

// MethodLimit returns how many calls of the method one address may make per
// window.
func (c *RateLimitConfig) MethodLimit(method string) int {
	switch tierOf(method) {
	case 1:
		return c.Tier1
	case 2:
		return c.Tier2
	case 3:
		return c.Tier3
	}
	return c.Default
}

// maxWindows bounds the memory of a WindowLimiter to some tens of megabytes.
const maxWindows = 100_000

// WindowLimiter counts calls in memory, in fixed windows per address and method
// that begin with the first call. It holds a bounded number of windows: beyond
// that the one used least recently is forgotten, in favour of its client.
type WindowLimiter struct {
	config RateLimitConfig

	mu      sync.Mutex
	windows *lru.Cache[windowKey, window] // guarded by mu
}

type windowKey struct{ ip, method string }

type window struct {
	ends  time.Time
	calls int
}

// NewWindowLimiter makes a limiter for one process.
func NewWindowLimiter(c RateLimitConfig) *WindowLimiter {
	windows, err := lru.New[windowKey, window](maxWindows)
	if err != nil {
		panic(err) // only a size below 1 fails
	}
	return &WindowLimiter{config: c, windows: windows}
}

// Allow counts a call and reports whether it is within the limit.
func (l *WindowLimiter) Allow(_ context.Context, ip, method string) bool {
	now := time.Now()
	key := windowKey{ip, method}
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.windows.Get(key)
	if !ok || !now.Before(w.ends) {
		w = window{ends: now.Add(l.config.Window.Duration())}
	}
	w.calls++
	l.windows.Add(key, w)
	return w.calls <= l.config.MethodLimit(method)
}
