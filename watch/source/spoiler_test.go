package source_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/watch/watchtest"
)

// spoiler is a proxy before a real node that answers as bad endpoints do.
type spoiler struct {
	empty     bool   // no logs, ever
	lag       uint64 // does not know the newest blocks
	refuse    string // answers queries for logs of more than `above` blocks with this error
	status    int    // or with this HTTP status
	above     uint64
	chain     uint64
	hang      bool
	garbage   bool
	endless   bool
	unbatched bool
	double    bool         // names every log twice
	once      *atomic.Bool // the first list of logs is empty
	bloomless bool         // its blocks have an empty filter
	mute      bool         // no logs of the contracts that a query names
	more      bool         // a block has a log that its filter doesn't name
	elsewhere bool         // its logs are of a block that nobody knows
	astray    bool         // whatever block is asked for, it has the first one
	within    bool         // counts logs within their transactions
	placeless bool         // does not say which place a log has
	taken     bool         // calls all of its logs removed
	ghosts    bool         // has the logs of replaced blocks, too, and calls those removed
	cut       int          // leaves out the logs behind so many, or, if it is negative, before so many, and says nothing
	// Its blocks have no transactions; it has no receipts.
	callless, receiptless bool
	statusless            bool   // its receipts don't say whether the transaction failed
	stingy                bool   // it says of the receipts of a block that it is asked too often
	oneByOne              bool   // it has receipts of transactions, and not of a whole block
	forgets               uint64 // leaves the logs of this block out of lists of several blocks
}

func (s spoiler) proxy(t *testing.T, node string) string {
	t.Helper()
	done := make(chan struct{})
	next := watchtest.Between(node, s.answer)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case s.hang:
			select {
			case <-done:
			case <-r.Context().Done():
			}
		case s.garbage:
			io.WriteString(w, "<html>")
		case s.endless:
			io.WriteString(w, `[{"jsonrpc":"2.0","id":1,"result":"`)
			for i := 0; i < 64 && r.Context().Err() == nil; i++ {
				w.Write(bytes.Repeat([]byte("0"), 1<<16))
			}
		case s.unbatched && bytes.HasPrefix(body, []byte("[")):
			io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported"}}`)
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			next(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	return server.URL
}

// span is how many blocks a query for logs covers; 0 for other calls.
func span(c *watchtest.Call) uint64 {
	if c.Method != "eth_getLogs" {
		return 0
	}
	var f struct{ FromBlock, ToBlock hexutil.Uint64 }
	json.Unmarshal(c.Params[0], &f)
	return uint64(f.ToBlock-f.FromBlock) + 1
}

func (s spoiler) answer(c *watchtest.Call) {
	logs, block := c.Method == "eth_getLogs", strings.HasPrefix(c.Method, "eth_getBlockBy")
	switch {
	case s.status != 0 && (s.above == 0 || span(c) > s.above):
		c.Status = s.status
		return
	case s.chain != 0 && c.Method == "eth_chainId":
		c.Say(hexutil.Uint64(s.chain))
		return
	case logs && (s.empty || s.mute && bytes.Contains(c.Params[0], []byte(`"address"`)) || s.once != nil && s.once.CompareAndSwap(false, true)):
		c.Say([]int{})
		return
	case s.refuse != "" && span(c) > s.above:
		c.Error = fmt.Appendf(nil, `{"code":-32005,"message":%q}`, s.refuse)
		return
	case s.receiptless && (c.Method == "eth_getTransactionReceipt" || c.Method == "eth_getBlockReceipts"):
		c.Say(nil)
		return
	case s.stingy && c.Method == "eth_getBlockReceipts":
		c.Error = json.RawMessage(`{"code":-32005,"message":"upgrade your plan"}`)
		return
	case s.oneByOne && c.Method == "eth_getBlockReceipts":
		c.Error = json.RawMessage(`{"code":-32601,"message":"the method eth_getBlockReceipts does not exist/is not available"}`)
		return
	case s.astray && block:
		c.Method, c.Params = "eth_getBlockByNumber", []json.RawMessage{json.RawMessage(`"0x1"`), json.RawMessage("false")}
	}
	var head uint64
	if s.lag > 0 {
		latest := *c
		latest.Method, latest.Params = "eth_blockNumber", []json.RawMessage{}
		latest.Ask()
		var n hexutil.Uint64
		json.Unmarshal(latest.Result, &n)
		head = uint64(n) - s.lag
		if c.Method == "eth_getBlockByNumber" && string(c.Params[0]) == `"latest"` {
			c.Params[0] = fmt.Appendf(nil, `"0x%x"`, head)
		}
	}
	c.Ask()
	switch {
	case s.statusless && c.Method == "eth_getTransactionReceipt":
		var r map[string]json.RawMessage
		json.Unmarshal(c.Result, &r)
		delete(r, "status")
		c.Say(r)
	case logs && (s.within || s.placeless || s.taken || s.ghosts):
		var all []map[string]any
		json.Unmarshal(c.Result, &all)
		for _, l := range all {
			switch {
			case s.within:
				l["logIndex"] = "0x0"
			case s.placeless:
				l["logIndex"] = nil
			case s.taken:
				l["removed"] = true
			case s.ghosts:
				ghost := maps.Clone(l)
				ghost["removed"], ghost["blockHash"] = true, common.Hash{7}
				all = append(all, ghost)
			}
		}
		c.Say(all)
	case logs && s.cut != 0:
		var all []json.RawMessage
		json.Unmarshal(c.Result, &all)
		if s.cut > 0 {
			c.Say(all[:min(len(all), s.cut)])
		} else {
			c.Say(all[max(len(all)+s.cut, 0):])
		}
	case logs && (s.elsewhere || s.double || s.more || s.lag > 0 || s.forgets > 0 && span(c) > 1):
		var all, list []map[string]any
		json.Unmarshal(c.Result, &all)
		list = []map[string]any{}
		for i, l := range all {
			if s.elsewhere {
				l["blockHash"] = common.Hash{1}
			}
			number, _ := hexutil.DecodeUint64(fmt.Sprint(l["blockNumber"]))
			if (s.lag == 0 || number <= head) && (s.forgets == 0 || number != s.forgets) {
				list = append(list, l)
			}
			if s.more && i == 0 {
				more := maps.Clone(l)
				more["address"], more["logIndex"] = "0x0000000000000000000000000000000000001001", "0x99"
				list = append(list, more)
			}
		}
		if s.double {
			list = append(list, list...)
		}
		c.Say(list)
	case s.lag > 0 && c.Method == "eth_blockNumber":
		c.Say(hexutil.Uint64(head))
	case block && (s.bloomless || s.callless || s.lag > 0):
		var b map[string]json.RawMessage
		json.Unmarshal(c.Result, &b)
		var number hexutil.Uint64
		if json.Unmarshal(b["number"], &number); b == nil || s.lag > 0 && uint64(number) > head {
			c.Say(nil)
			return
		}
		if s.bloomless {
			b["logsBloom"] = json.RawMessage(`"0x"`)
		}
		if s.callless {
			b["transactions"] = json.RawMessage(`[]`)
		}
		c.Say(b)
	}
}
