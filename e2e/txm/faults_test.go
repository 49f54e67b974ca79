package txm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/watch/watchtest"
)

// fault answers in the place of a node, or changes what the node says.
type fault func(p *proxy, c *watchtest.Call)

// faults are the ways in which an endpoint is of no use, without being gone. What each answer means internal/ethrpc tries one by one.
var faults = map[string]fault{
	"429":              func(_ *proxy, c *watchtest.Call) { c.Status = http.StatusTooManyRequests },
	"401":              func(_ *proxy, c *watchtest.Call) { c.Status = http.StatusUnauthorized },
	"502":              func(_ *proxy, c *watchtest.Call) { c.Status = http.StatusBadGateway },
	"-32005":           refusing(-32005, "daily request count exceeded, request rate limited"),
	"-32603":           refusing(-32603, "Internal error"),
	"header not found": refusing(-32000, "header not found"),
	"no backends":      refusing(-32011, "no backends available for method"),
	"batches of 3":     batchesOf(3),
	"no batches":       batchesOf(1),
	"absurd fees": changing(map[string]any{
		"eth_feeHistory": map[string]any{"oldestBlock": "0x1", "baseFeePerGas": []string{"0x38d7ea4c68000", "0x38d7ea4c68000"}, "gasUsedRatio": []float64{0.5}, "reward": [][]string{{"0x38d7ea4c68000", "0x38d7ea4c68000", "0x38d7ea4c68000"}}},
		"eth_gasPrice":   "0x38d7ea4c68000",
	}),
	"another chain": changing(map[string]any{"eth_chainId": "0x1"}),
	"no receipts":   changing(map[string]any{"eth_getTransactionReceipt": nil}),
	"half open":     (*proxy).lost,
	"dead":          func(*proxy, *watchtest.Call) { panic(http.ErrAbortHandler) },
	"stuck":         stuck,
}

func refusing(code int, text string) fault {
	return func(_ *proxy, c *watchtest.Call) { c.Error = fmt.Appendf(nil, `{"code":%d,"message":%q}`, code, text) }
}

func batchesOf(most int) fault {
	return func(_ *proxy, c *watchtest.Call) {
		if c.Together > most {
			c.Status = http.StatusRequestEntityTooLarge
		} else {
			c.Ask()
		}
	}
}

// changing hands calls on and puts other results in the place of some methods'.
func changing(results map[string]any) fault {
	return func(_ *proxy, c *watchtest.Call) {
		if result, other := results[c.Method]; other {
			c.Say(result)
		} else {
			c.Ask()
		}
	}
}

// stuck is a node that takes transactions and has seen no block since the fault began.
func stuck(p *proxy, c *watchtest.Call) {
	frozen, method := fmt.Appendf(nil, "%q", p.frozen), c.Method
	for n, param := range c.Params {
		if string(param) == `"latest"` {
			c.Params[n] = frozen
		}
	}
	c.Ask()
	var in struct {
		BlockNumber *hexutil.Uint64
	}
	_ = json.Unmarshal(c.Result, &in) // else it is in no block
	top := hexutil.MustDecodeUint64(p.frozen)
	switch {
	case method == "eth_blockNumber":
		c.Result = bytes.Clone(frozen)
	case in.BlockNumber != nil && uint64(*in.BlockNumber) > top:
		c.Say(nil)
	}
}

// sicken gives the endpoint a fault, nil for none.
func (p *proxy) sicken(f fault) {
	var head string
	_ = callRPC(p.target, "eth_blockNumber", &head) // of a node that is down nothing is asked
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick, p.frozen = f, head
	if head == "" {
		p.sick = nil
	}
}
