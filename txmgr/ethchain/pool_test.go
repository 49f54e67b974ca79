package ethchain

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestPool reads what an endpoint tells of its pool. What it does not tell is not guessed.
func TestPool(t *testing.T) {
	hash := func(n int) string { return fmt.Sprintf("0x%064x", n) }
	const refused = `"error":{"code":-32601,"message":"no such method"}`
	for name, row := range map[string]struct {
		count  string         // the answer about the nonce
		answer map[int]string // about transactions, by the number in their hash
		next   uint64
		held   []bool // nil: an error
	}{
		"one waits, one does not": {`"result":"0x7"`, map[int]string{1: `"result":{"hash":"` + hash(1) + `"}`, 2: `"result":null`}, 7, []bool{true, false}},
		"no count of the pool":    {refused, map[int]string{1: `"result":null`, 2: `"result":null`}, 0, []bool{false, false}},
		"not a number":            {`"result":"seven"`, map[int]string{1: `"result":null`, 2: `"result":null`}, 0, nil},
		"no transactions":         {`"result":"0x7"`, map[int]string{1: refused, 2: `"result":null`}, 0, nil},
		"another transaction":     {`"result":"0x7"`, map[int]string{1: `"result":{"hash":"` + hash(3) + `"}`, 2: `"result":null`}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var raw json.RawMessage
				if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
					return
				}
				type question struct {
					ID     int
					Method string
					Params []any
				}
				var questions []question
				if json.Unmarshal(raw, &questions) != nil {
					_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"0x5"}`) // which chain it serves
					return
				}
				replies := make([]string, len(questions))
				for n, q := range questions {
					answer := row.count
					switch {
					case q.Method == "eth_getTransactionByHash" && q.Params[0] == hash(1):
						answer = row.answer[1]
					case q.Method == "eth_getTransactionByHash" && q.Params[0] == hash(2):
						answer = row.answer[2]
					case q.Method != "eth_getTransactionCount" || q.Params[1] != "pending":
						t.Errorf("it asks %s of %v", q.Method, q.Params)
					}
					replies[n] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, q.ID, answer)
				}
				_, _ = io.WriteString(w, "["+strings.Join(replies, ",")+"]")
			}))
			defer server.Close()
			c := must.Get(New(Config{ID: 5, URLs: []string{server.URL}, Timeout: 2 * time.Minute}))(t)
			next, held, err := c.Pool(t.Context(), "0x00000000000000000000000000000000000000aa", []txmgr.Signed{{Hash: hash(1)}, {Hash: hash(2)}})
			if (err == nil) != (row.held != nil) || next != row.next || !slices.Equal(held, row.held) {
				t.Errorf("the next nonce is %d, held is %v, %v", next, held, err)
			}
		})
	}
}
