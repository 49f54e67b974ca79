package ethchain

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/watch/watchtest"
)

var errLost = errors.New("the answer is lost")

// scripted is an endpoint that answers each question by a function: a result, an error with a text, or
// errLost, for which it breaks the connection.
func scripted(t *testing.T, say func(method string, params []any) (any, error)) string {
	t.Helper()
	return watchtest.Proxy(t, "", func(c *watchtest.Call) {
		result, err := any("0x5"), error(nil)
		if c.Method != "eth_chainId" {
			params := make([]any, len(c.Params))
			for n := range params {
				must.Do(t, json.Unmarshal(c.Params[n], &params[n]))
			}
			result, err = say(c.Method, params)
		}
		switch {
		case errors.Is(err, errLost):
			panic(http.ErrAbortHandler)
		case err != nil:
			c.Error = must.Get(json.Marshal(map[string]any{"code": -32000, "message": err.Error()}))(t)
		default:
			c.Say(result)
		}
	})
}

func inLine(t *testing.T, urls ...string) *Chain {
	t.Helper()
	return must.Get(New(Config{ID: 5, URLs: urls, NoPool: true, Timeout: 2 * time.Minute}))(t)
}

// signedAt makes a transaction of a new account.
func signedAt(t *testing.T, c *Chain, nonce uint64) txmgr.Signed {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	from := crypto.PubkeyToAddress(key.PublicKey).Hex()
	call := txmgr.Call{From: from, To: from, Value: new(big.Int), Gas: 21000}
	unsigned := must.Get(c.Prepare(t.Context(), txmgr.Draft{Signer: from, Nonce: nonce, Call: call, Fees: txmgr.Fees{Max: big.NewInt(9), Tip: big.NewInt(1)}}))(t)
	signature := must.Get(crypto.Sign(crypto.Keccak256(unsigned.Bytes), key))(t)
	return must.Get(c.Seal(unsigned, signature))(t)
}

// hashed is the hash of the transaction that is sent.
func hashed(params []any) string {
	return crypto.Keccak256Hash(hexutil.MustDecode(params[0].(string))).Hex()
}

const (
	sending  = "eth_sendRawTransaction"
	counting = "eth_getTransactionCount"
)

// TestInLine: without a pool what may have left goes nowhere else, and nothing leaves behind what was
// not taken.
func TestInLine(t *testing.T) {
	const taken = "the transaction's hash"
	for name, row := range map[string]struct {
		first  func(method string) (any, error) // nil: nobody listens
		again  bool
		want   []txmgr.Class // of two transactions, nonces 7 and 8
		second int           // how many offers the second endpoint gets
	}{
		"taken":        {func(string) (any, error) { return taken, nil }, false, []txmgr.Class{"", ""}, 0},
		"null":         {func(string) (any, error) { return nil, nil }, false, []txmgr.Class{txmgr.ClassTransport, txmgr.ClassNotSent}, 0},
		"another hash": {func(string) (any, error) { return asked, nil }, false, []txmgr.Class{txmgr.ClassTransport, txmgr.ClassNotSent}, 0},
		"answer lost":  {func(string) (any, error) { return nil, errLost }, false, []txmgr.Class{txmgr.ClassTransport, txmgr.ClassNotSent}, 0},
		"gap":          {func(string) (any, error) { return nil, errors.New("nonce too high") }, false, []txmgr.Class{txmgr.ClassGap, txmgr.ClassNotSent}, 0},
		"nobody knows": {func(string) (any, error) { return nil, errors.New("something went wrong") }, false, []txmgr.Class{txmgr.ClassAmbiguous, txmgr.ClassNotSent}, 0},
		"busy":         {func(string) (any, error) { return nil, errors.New("busy") }, false, []txmgr.Class{"", ""}, 2},
		"nobody there": {nil, false, []txmgr.Class{"", ""}, 2},
		"again, open":  {func(method string) (any, error) { return map[string]any{counting: "0x7", sending: taken}[method], nil }, true, []txmgr.Class{"", ""}, 0},
		"again, used":  {func(method string) (any, error) { return map[string]any{counting: "0x9"}[method], nil }, true, []txmgr.Class{txmgr.ClassNonceUsed, txmgr.ClassNotSent}, 0},
		"again, seen": {func(method string) (any, error) {
			return map[string]any{counting: "0x9", "eth_getTransactionByHash": struct{}{}}[method], nil
		}, true, []txmgr.Class{txmgr.ClassKnown, txmgr.ClassKnown}, 0},
		"again, unsure": {func(string) (any, error) { return nil, errors.New("something went wrong") }, true, []txmgr.Class{txmgr.ClassNotSent, txmgr.ClassNotSent}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			first, offered := "http://127.0.0.1:1", 0
			if row.first != nil {
				first = scripted(t, func(method string, params []any) (any, error) {
					answer, err := row.first(method)
					if answer == taken {
						return hashed(params), err
					}
					return answer, err
				})
			}
			second := scripted(t, func(method string, params []any) (any, error) {
				if method == sending {
					offered++
				}
				return hashed(params), nil
			})
			c := inLine(t, first, second)
			list := []txmgr.Signed{signedAt(t, c, 7), signedAt(t, c, 8)}
			if row.again {
				list[0].Again, list[1].Again = true, true
			}
			var got []txmgr.Class
			for _, err := range c.Send(t.Context(), list) {
				got = append(got, txmgr.ClassOf(err))
			}
			if !slices.Equal(got, row.want) || offered != row.second {
				t.Errorf("the answers are %q, want %q; the second endpoint got %d offers, want %d", got, row.want, offered, row.second)
			}
		})
	}
}

// TestRefusedIsNoReceipt: without a pool a failed receipt counts only if the nonce was used in its
// block. A network may keep records of what it refused.
func TestRefusedIsNoReceipt(t *testing.T) {
	for name, row := range map[string]struct {
		status  string
		counts  map[string]string // by block
		receipt bool
		unknown bool
	}{
		"refused for its price":          {"0x0", map[string]string{"0x9": "0x7", "0xa": "0x7"}, false, false},
		"refused, executed before":       {"0x0", map[string]string{"0x9": "0x8", "0xa": "0x8"}, false, false},
		"reverted":                       {"0x0", map[string]string{"0x9": "0x7", "0xa": "0x8"}, true, false},
		"reverted among others":          {"0x0", map[string]string{"0x9": "0x5", "0xa": "0xa"}, true, false},
		"an old state is not to be had":  {"0x0", map[string]string{"0xa": "0x8"}, false, true},
		"a success needs no second look": {"0x1", nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var c *Chain
			var tx txmgr.Signed
			url := scripted(t, func(method string, params []any) (any, error) {
				switch method {
				case "eth_getBlockByNumber":
					return map[string]any{"number": "0x10", "hash": block, "timestamp": "0x1"}, nil
				case "eth_getTransactionReceipt":
					return map[string]any{"transactionHash": tx.Hash, "blockNumber": "0xa", "blockHash": block, "status": row.status, "gasUsed": "0x1"}, nil
				default:
					count, found := row.counts[params[1].(string)]
					if !found {
						return nil, errors.New("missing trie node")
					}
					return count, nil
				}
			})
			c = inLine(t, url)
			tx = signedAt(t, c, 7)
			_, list := must.Get2(c.Receipts(t.Context(), []txmgr.Signed{tx}))(t)
			if got := list[0]; (got.Receipt != nil) != row.receipt || (got.Err != nil) != row.unknown {
				t.Errorf("it is %+v, want a receipt: %t, unknown: %t", got, row.receipt, row.unknown)
			}
		})
	}
}

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
