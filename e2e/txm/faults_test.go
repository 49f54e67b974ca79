package txm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"
)

// wire is a call as it travels.
type wire struct {
	Version string `json:"jsonrpc"`
	ID      any    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

// fault answers in the place of a node, or changes what the node says. It returns false if it does neither.
type fault func(p *proxy, w http.ResponseWriter, r *http.Request, calls []wire, batch bool) bool

// faults are the ways in which an endpoint is of no use, without being gone.
var faults = map[string]fault{
	"429": status(http.StatusTooManyRequests, ""),
	"429 with JSON-RPC": func(_ *proxy, w http.ResponseWriter, _ *http.Request, calls []wire, batch bool) bool {
		w.WriteHeader(http.StatusTooManyRequests)
		refuse(w, calls, batch, -32000, "nonce too low")
		return true
	},
	"401":              status(http.StatusUnauthorized, "Must be authenticated!"),
	"502":              status(http.StatusBadGateway, "<html>Bad Gateway</html>"),
	"-32005":           refusing(-32005, "daily request count exceeded, request rate limited"),
	"-32603":           refusing(-32603, "Internal error"),
	"header not found": refusing(-32000, "header not found"),
	"no backends":      refusing(-32011, "no backends available for method"),
	"batches of 3":     batchesOf(3),
	"batches of 10":    batchesOf(10),
	"no batches":       batchesOf(1),
	"absurd fees": changing(map[string]any{
		"eth_feeHistory": map[string]any{"oldestBlock": "0x1", "baseFeePerGas": []string{"0x38d7ea4c68000", "0x38d7ea4c68000"}, "gasUsedRatio": []float64{0.5}, "reward": [][]string{{"0x38d7ea4c68000", "0x38d7ea4c68000", "0x38d7ea4c68000"}}},
		"eth_gasPrice":   "0x38d7ea4c68000",
	}),
	"another chain": changing(map[string]any{"eth_chainId": "0x1"}),
	"no receipts":   changing(map[string]any{"eth_getTransactionReceipt": nil}),
	"half open": func(p *proxy, _ http.ResponseWriter, r *http.Request, _ []wire, _ bool) bool {
		select {
		case <-p.end:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	},
	"dead":  func(*proxy, http.ResponseWriter, *http.Request, []wire, bool) bool { panic(http.ErrAbortHandler) },
	"stuck": stuck,
}

func status(code int, text string) fault {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request, _ []wire, _ bool) bool {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
		return true
	}
}

func refusing(code int, text string) fault {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request, calls []wire, batch bool) bool {
		refuse(w, calls, batch, code, text)
		return true
	}
}

func refuse(w io.Writer, calls []wire, batch bool, code int, text string) {
	list := make([]map[string]any, len(calls))
	for n, c := range calls {
		list[n] = map[string]any{"jsonrpc": "2.0", "id": c.ID, "error": map[string]any{"code": code, "message": text}}
	}
	reply(w, list, batch)
}

func reply(w io.Writer, list []map[string]any, batch bool) {
	var answer any = list
	if !batch {
		answer = list[0]
	}
	_ = json.NewEncoder(w).Encode(answer) // the asker may have gone
}

func batchesOf(most int) fault {
	return func(_ *proxy, w http.ResponseWriter, _ *http.Request, calls []wire, _ bool) bool {
		if len(calls) <= most {
			return false
		}
		refuse(w, calls[:1], false, -32600, "batch too large")
		return true
	}
}

// changing hands calls on and puts other results in the place of some methods'.
func changing(results map[string]any) fault {
	return func(p *proxy, w http.ResponseWriter, _ *http.Request, calls []wire, batch bool) bool {
		list, err := p.node(calls)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		for n, c := range calls {
			if result, other := results[c.Method]; other {
				list[n] = map[string]any{"jsonrpc": "2.0", "id": c.ID, "result": result}
			}
		}
		reply(w, list, batch)
		return true
	}
}

// stuck is a node that takes transactions and has seen no block since the fault began.
func stuck(p *proxy, w http.ResponseWriter, _ *http.Request, calls []wire, batch bool) bool {
	asked := slices.Clone(calls)
	for n := range asked {
		asked[n].Params = slices.Clone(asked[n].Params)
		for i, param := range asked[n].Params {
			if param == "latest" {
				asked[n].Params[i] = p.frozen
			}
		}
	}
	list, err := p.node(asked)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	top, _ := strconv.ParseUint(p.frozen[2:], 16, 64)
	for n, c := range asked {
		result, _ := list[n]["result"].(map[string]any)
		number, _ := result["blockNumber"].(string)
		switch {
		case c.Method == "eth_blockNumber":
			list[n] = map[string]any{"jsonrpc": "2.0", "id": c.ID, "result": p.frozen}
		case len(number) > 2:
			if at, err := strconv.ParseUint(number[2:], 16, 64); err == nil && at > top {
				list[n] = map[string]any{"jsonrpc": "2.0", "id": c.ID, "result": nil}
			}
		}
	}
	reply(w, list, batch)
	return true
}

// node asks the node one call after the other.
func (p *proxy) node(calls []wire) ([]map[string]any, error) {
	list := make([]map[string]any, len(calls))
	for n, c := range calls {
		body, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		answer, err := http.Post(p.target, "application/json", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		err = json.NewDecoder(answer.Body).Decode(&list[n])
		_ = answer.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	return list, nil
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

func (p *proxy) sickness() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sick
}

// suffers lets the fault answer.
func (p *proxy) suffers(w http.ResponseWriter, r *http.Request, body []byte) bool {
	f := p.sickness()
	if f == nil {
		return false
	}
	var calls []wire
	batch := json.Unmarshal(body, &calls) == nil
	if !batch {
		calls = make([]wire, 1)
		if json.Unmarshal(body, &calls[0]) != nil {
			return false
		}
	}
	w.Header().Set("Content-Type", "application/json")
	return f(p, w, r, calls, batch)
}

// TestFaultsOfOneEndpoint has each class of fault strike one of two endpoints in the middle of a burst: whichever it is, everything is executed once,
// nobody is told that a transaction would fail, and nothing is paid for a lie.
func TestFaultsOfOneEndpoint(t *testing.T) {
	t.Parallel()
	chain := startAnvil(t, "--block-time", "1")
	nodes := []*proxy{startProxy(t, chain.url), startProxy(t, chain.url)}
	n := txmNode{
		Ledger: fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir()), Chain: 31337, URLs: []string{nodes[0].url, nodes[1].url}, Keys: devKeys[:2], Instance: "node",
		Timeout: 2 * time.Second, Lease: 6 * time.Second, Resend: time.Second, Reconcile: time.Second, Depth: 1,
	}
	c := newCaller(t, n)
	n.start(t)
	c.many(4)
	c.settled()
	for turn, name := range slices.Sorted(maps.Keys(faults)) {
		struck := nodes[turn%2]
		began := time.Now()
		c.many(8)
		struck.sicken(faults[name])
		c.many(12)
		c.settled()
		struck.sicken(nil)
		t.Logf("%s at endpoint %d: settled after %v", name, turn%2+1, time.Since(began).Round(100*time.Millisecond))
	}
	c.audit(chain.url)
	c.sameBytes()
	if n := c.count("SELECT count(*) FROM intents WHERE status NOT IN ('confirmed', 'mined')"); n != 0 {
		t.Errorf("%d intents have another end than their execution:\n%s", n, c.open())
	}
	limit := new(big.Int).SetUint64(1_000_000_000_000)
	for id := range c.ids {
		for _, a := range c.get(id).Attempts {
			if a.Fees.Max.Cmp(limit) > 0 {
				t.Errorf("%s was offered for %v wei", id, a.Fees.Max)
			}
		}
	}
}
