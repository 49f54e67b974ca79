package ethchain

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// TestPool reads what an endpoint tells of its pool. What it does not tell is not guessed.
func TestPool(t *testing.T) {
	hash := func(n int) string { return fmt.Sprintf("0x%064x", n) }
	transaction := func(n int) any { return map[string]string{"hash": hash(n)} }
	refused := errors.New("the method is not available")
	for name, row := range map[string]struct {
		count         any // the answer about the nonce, as the others: an error, or a result
		first, second any // about transactions
		next          uint64
		held          []bool // nil: an error
	}{
		"one waits, one does not": {"0x7", transaction(1), nil, 7, []bool{true, false}},
		"no count of the pool":    {refused, nil, nil, 0, []bool{false, false}},
		"not a number":            {"seven", nil, nil, 0, nil},
		"no transactions":         {"0x7", refused, nil, 0, nil},
		"another transaction":     {"0x7", transaction(3), nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			url := scripted(t, func(method string, params []any) (any, error) {
				answer := row.count
				switch {
				case method == "eth_getTransactionByHash" && params[0] == hash(1):
					answer = row.first
				case method == "eth_getTransactionByHash" && params[0] == hash(2):
					answer = row.second
				case method != counting || params[1] != "pending":
					t.Errorf("it asks %s of %v", method, params)
				}
				err, _ := answer.(error)
				return answer, err
			})
			c := must.Get(New(Config{ID: 5, URLs: []string{url}, Timeout: 2 * time.Minute}))(t)
			next, held, err := c.Pool(t.Context(), "0x00000000000000000000000000000000000000aa", []txmgr.Signed{{Hash: hash(1)}, {Hash: hash(2)}})
			if (err == nil) != (row.held != nil) || next != row.next || !slices.Equal(held, row.held) {
				t.Errorf("the next nonce is %d, held is %v, %v", next, held, err)
			}
		})
	}
}
