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
	// Its blocks have no transactions; it has no receipts.
	callless, receiptless bool
}

type call struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

func (s spoiler) proxy(t *testing.T, node string) string {
	t.Helper()
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case s.hang:
			select {
			case <-done:
			case <-r.Context().Done():
			}
			return
		case s.garbage:
			io.WriteString(w, "<html>")
			return
		case s.endless:
			io.WriteString(w, `[{"jsonrpc":"2.0","id":1,"result":"`)
			for i := 0; i < 64 && r.Context().Err() == nil; i++ {
				w.Write(bytes.Repeat([]byte("0"), 1<<16))
			}
			return
		}
		var batch []call
		batched := json.Unmarshal(body, &batch) == nil
		if !batched {
			batch = make([]call, 1)
			json.Unmarshal(body, &batch[0])
		} else if s.unbatched {
			io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported"}}`)
			return
		}
		answers := make([]string, len(batch))
		for i, c := range batch {
			if s.status != 0 && (s.above == 0 || c.span() > s.above) {
				http.Error(w, "no", s.status)
				return
			}
			answers[i] = s.answer(t, node, c)
		}
		if batched {
			fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
		} else {
			io.WriteString(w, answers[0])
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) })
	return server.URL
}

// span is how many blocks a query for logs covers; 0 for other calls.
func (c call) span() uint64 {
	if c.Method != "eth_getLogs" {
		return 0
	}
	var f struct{ FromBlock, ToBlock hexutil.Uint64 }
	json.Unmarshal(c.Params[0], &f)
	return uint64(f.ToBlock-f.FromBlock) + 1
}

func (s spoiler) answer(t *testing.T, node string, c call) string {
	result := func(text string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, text) }
	switch {
	case s.chain != 0 && c.Method == "eth_chainId":
		return result(`"` + hexutil.EncodeUint64(s.chain) + `"`)
	case c.Method == "eth_getLogs" && (s.empty || s.mute && bytes.Contains(c.Params[0], []byte(`"address"`)) || s.once != nil && s.once.CompareAndSwap(false, true)):
		return result("[]")
	case s.refuse != "" && c.span() > s.above:
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32005,"message":%q}}`, c.ID, s.refuse)
	}
	if s.astray && strings.HasPrefix(c.Method, "eth_getBlockBy") {
		c.Method, c.Params = "eth_getBlockByNumber", []json.RawMessage{json.RawMessage(`"0x1"`), json.RawMessage("false")}
	}
	answer := forward(t, node, c)
	switch {
	case s.elsewhere && c.Method == "eth_getLogs":
		var logs struct{ Result []map[string]any }
		json.Unmarshal([]byte(answer), &logs)
		for _, l := range logs.Result {
			l["blockHash"] = common.Hash{1}
		}
		text, _ := json.Marshal(logs.Result)
		return result(string(text))
	case s.double && c.Method == "eth_getLogs":
		var logs struct{ Result []json.RawMessage }
		json.Unmarshal([]byte(answer), &logs)
		text, _ := json.Marshal(append(append([]json.RawMessage{}, logs.Result...), logs.Result...))
		return result(string(text))
	case s.more && c.Method == "eth_getLogs":
		var logs struct{ Result []map[string]any }
		json.Unmarshal([]byte(answer), &logs)
		for _, l := range logs.Result[:min(1, len(logs.Result))] {
			more := maps.Clone(l)
			more["address"], more["logIndex"] = "0x0000000000000000000000000000000000001001", "0x99"
			logs.Result = append(logs.Result, more)
		}
		text, _ := json.Marshal(logs.Result)
		return result(string(text))
	case s.receiptless && c.Method == "eth_getTransactionReceipt":
		return result("null")
	case (s.bloomless || s.callless) && strings.HasPrefix(c.Method, "eth_getBlock"):
		var block struct{ Result map[string]json.RawMessage }
		json.Unmarshal([]byte(answer), &block)
		if block.Result != nil && s.bloomless {
			block.Result["logsBloom"] = json.RawMessage(`"0x"`)
		} else if block.Result != nil {
			block.Result["transactions"] = json.RawMessage(`[]`)
		}
		text, _ := json.Marshal(block.Result)
		return result(string(text))
	}
	if s.lag == 0 {
		return answer
	}
	head := forwardHead(t, node) - s.lag
	switch c.Method {
	case "eth_blockNumber":
		return result(`"` + hexutil.EncodeUint64(head) + `"`)
	case "eth_getBlockByNumber":
		if string(c.Params[0]) == `"latest"` {
			c.Params[0] = json.RawMessage(`"` + hexutil.EncodeUint64(head) + `"`)
			return forward(t, node, c)
		}
		fallthrough
	case "eth_getBlockByHash":
		var b struct {
			Result struct{ Number hexutil.Uint64 }
		}
		json.Unmarshal([]byte(answer), &b)
		if uint64(b.Result.Number) > head {
			return result("null")
		}
	case "eth_getLogs":
		var logs struct {
			Result []map[string]json.RawMessage
		}
		json.Unmarshal([]byte(answer), &logs)
		kept := []map[string]json.RawMessage{}
		for _, l := range logs.Result {
			var number hexutil.Uint64
			json.Unmarshal(l["blockNumber"], &number)
			if uint64(number) <= head {
				kept = append(kept, l)
			}
		}
		text, _ := json.Marshal(kept)
		return result(string(text))
	}
	return answer
}

func forward(t *testing.T, node string, c call) string {
	params, _ := json.Marshal(c.Params)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, c.ID, c.Method, params)
	resp, err := http.Post(node, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(text))
}

func forwardHead(t *testing.T, node string) uint64 {
	var head struct{ Result hexutil.Uint64 }
	json.Unmarshal([]byte(forward(t, node, call{ID: json.RawMessage("1"), Method: "eth_blockNumber", Params: []json.RawMessage{}})), &head)
	return uint64(head.Result)
}

func containsAny(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}
