package bench

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/gorilla/websocket"

	"lockstep/internal/must"
)

// fakeChain is a chain and a relay in one, kept in memory: it recovers senders, moves
// balances, enforces nonces and remembers in which order transactions came. The zero
// knobs are a perfect relay, which holds a transaction back until its nonce is next.
type fakeChain struct {
	chainID *big.Int
	funder  *ecdsa.PrivateKey

	// Knobs, set before the load. Each is asked about the n-th nonce of a sender.
	unordered  bool                    // a nonce that is not next is refused at once
	optimistic bool                    // unordered, and the refused ones are answered with a hash
	receiptAll bool                    // refused transactions get receipts, as relays of Hedera can give
	receiptErr bool                    // what has no receipt gets an error, as established relays answer for refused ones
	swap       func(nonce uint64) bool // arrives only after the next nonce did
	lose       func(nonce uint64) bool // answered with its hash, then forgotten; a perfect relay waits for it
	repeat     func(nonce uint64) bool // stands in two blocks
	regret     func(nonce uint64) bool // executed, but answered with an error
	mute       func(nonce uint64) bool // never answered, never executed
	garble     func(nonce uint64) bool // answered with another hash
	sockets    chan struct{}           // room for WebSocket connections; nil: no limit

	mu       sync.Mutex
	changed  *sync.Cond
	seen     map[seenKey]bool
	nonces   map[common.Address]uint64
	balances map[common.Address]*big.Int
	blocks   [][]common.Hash
	receipts map[common.Hash]map[string]any
	log      []map[string]any
	methods  map[string]int
	arrivals []arrival
	quit     chan struct{}
	gone     bool

	server *httptest.Server
}

type seenKey struct {
	sender common.Address
	nonce  uint64
}

type arrival struct {
	sender common.Address
	nonce  uint64
	host   string
}

func newFakeChain(t *testing.T) *fakeChain {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	f := &fakeChain{
		chainID: big.NewInt(298), funder: key,
		seen: map[seenKey]bool{}, nonces: map[common.Address]uint64{}, balances: map[common.Address]*big.Int{},
		blocks: [][]common.Hash{{}}, receipts: map[common.Hash]map[string]any{}, methods: map[string]int{},
		quit: make(chan struct{}),
	}
	f.changed = sync.NewCond(&f.mu)
	f.balances[crypto.PubkeyToAddress(key.PublicKey)] = new(big.Int).Exp(big.NewInt(10), big.NewInt(30), nil)
	f.server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.mu.Lock()
		f.gone = true
		f.mu.Unlock()
		close(f.quit)
		f.changed.Broadcast()
		f.server.Close()
	})
	return f
}

func (f *fakeChain) wsURL() string { return "ws" + strings.TrimPrefix(f.server.URL, "http") }

func (f *fakeChain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == consensusPath:
		f.serveLog(w, r)
	case websocket.IsWebSocketUpgrade(r):
		f.serveWS(w, r)
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if answer := f.answer(body, r); answer != nil {
			_, _ = w.Write(answer)
		} else {
			panic(http.ErrAbortHandler)
		}
	}
}

func (f *fakeChain) serveLog(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.Atoi(r.URL.Query().Get("since"))
	if err != nil {
		http.Error(w, "since", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	page := f.log[min(since, len(f.log)):]
	page = page[:min(len(page), 7)] // several pages, even in small tests
	_ = json.NewEncoder(w).Encode(map[string]any{"entries": append([]map[string]any{}, page...)})
}

func (f *fakeChain) serveWS(w http.ResponseWriter, r *http.Request) {
	if f.sockets != nil {
		select {
		case f.sockets <- struct{}{}:
			defer func() { <-f.sockets }()
		case <-f.quit:
			return
		}
	}
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	var writing sync.Mutex
	for {
		_, body, err := conn.ReadMessage()
		if err != nil {
			return
		}
		go func() {
			answer := f.answer(body, r)
			writing.Lock()
			defer writing.Unlock()
			if answer != nil {
				_ = conn.WriteMessage(websocket.TextMessage, answer)
			}
		}()
	}
}

type fakeCall struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// answer returns nil for a request that gets none.
func (f *fakeChain) answer(body []byte, r *http.Request) []byte {
	var c fakeCall
	if json.Unmarshal(body, &c) != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}`)
	}
	result, rpcErr, answered := f.call(c, r)
	if !answered {
		return nil
	}
	reply := map[string]any{"jsonrpc": "2.0", "id": c.ID}
	if rpcErr != nil {
		reply["error"] = map[string]any{"code": rpcErr.Code, "message": rpcErr.Message}
	} else {
		reply["result"] = result
	}
	out, _ := json.Marshal(reply)
	return out
}

func (f *fakeChain) call(c fakeCall, r *http.Request) (result any, rpcErr *rpcError, answered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.methods[c.Method]++
	address := func() (a common.Address) { _ = json.Unmarshal(c.Params[0], &a); return a }
	switch c.Method {
	case "eth_chainId":
		return (*hexutil.Big)(f.chainID), nil, true
	case "eth_gasPrice":
		return hexutil.Uint64(1000), nil, true
	case "eth_estimateGas":
		return hexutil.Uint64(21_000), nil, true
	case "eth_blockNumber":
		return hexutil.Uint64(len(f.blocks) - 1), nil, true
	case "eth_getTransactionCount":
		return hexutil.Uint64(f.nonces[address()]), nil, true
	case "eth_getBalance":
		return (*hexutil.Big)(f.balanceOf(address())), nil, true
	case "eth_getTransactionReceipt":
		var hash common.Hash
		_ = json.Unmarshal(c.Params[0], &hash)
		if f.receiptErr && f.receipts[hash] == nil {
			return nil, &rpcError{-32003, "Transaction rejected: WRONG_NONCE"}, true
		}
		return f.receipts[hash], nil, true
	case "eth_getBlockByNumber":
		var n hexutil.Uint64
		_ = json.Unmarshal(c.Params[0], &n)
		if int(n) >= len(f.blocks) {
			return nil, nil, true
		}
		return map[string]any{"transactions": f.blocks[n]}, nil, true
	case "eth_sendRawTransaction":
		var raw hexutil.Bytes
		_ = json.Unmarshal(c.Params[0], &raw)
		return f.submit(raw, r)
	}
	return nil, &rpcError{-32601, "Method not found"}, true
}

func (f *fakeChain) balanceOf(a common.Address) *big.Int {
	if f.balances[a] == nil {
		f.balances[a] = new(big.Int)
	}
	return f.balances[a]
}

func is(knob func(uint64) bool, nonce uint64) bool { return knob != nil && knob(nonce) }

// submit takes one raw transaction; the caller holds mu.
func (f *fakeChain) submit(raw []byte, r *http.Request) (any, *rpcError, bool) {
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(raw); err != nil {
		return nil, &rpcError{-32602, "Invalid transaction"}, true
	}
	from, err := types.Sender(types.LatestSignerForChainID(f.chainID), tx)
	if err != nil {
		return nil, &rpcError{-32602, "Invalid signature"}, true
	}
	nonce := tx.Nonce()
	load := from != crypto.PubkeyToAddress(f.funder.PublicKey)
	if load {
		f.arrivals = append(f.arrivals, arrival{from, nonce, r.Host})
	}
	f.seen[seenKey{from, nonce}] = true
	f.changed.Broadcast()
	switch {
	case !load:
	case is(f.mute, nonce):
		f.mu.Unlock()
		<-f.quit
		f.mu.Lock()
		return nil, nil, false
	case is(f.lose, nonce):
		return tx.Hash(), nil, true
	case is(f.swap, nonce):
		f.await(func() bool { return f.seen[seenKey{from, nonce + 1}] && f.recorded(from, nonce+1) })
	}
	if !f.await(func() bool { return f.turn(from, nonce) }) {
		return nil, nil, false
	}
	return f.consensus(tx, from, load)
}

// turn tells whether a transaction may go to consensus: in a perfect relay when its
// nonce is next, otherwise when consensus has seen the one before. This keeps the order
// that the knobs ask for on a machine that is busy.
func (f *fakeChain) turn(from common.Address, nonce uint64) bool {
	if !f.unordered && !f.optimistic {
		return f.nonces[from] >= nonce
	}
	before := nonce
	for before > 0 && (before == nonce || is(f.swap, before)) {
		before--
	}
	return before == nonce || f.recorded(from, before) || is(f.swap, nonce)
}

// await waits for a condition; false if the test is over.
func (f *fakeChain) await(ready func() bool) bool {
	for !ready() && !f.gone {
		f.changed.Wait()
	}
	return !f.gone
}

func (f *fakeChain) recorded(from common.Address, nonce uint64) bool {
	for _, e := range f.log {
		if e["sender"] == from && e["nonce"] == nonce {
			return true
		}
	}
	return false
}

// consensus executes tx or refuses it; the caller holds mu.
func (f *fakeChain) consensus(tx *types.Transaction, from common.Address, load bool) (any, *rpcError, bool) {
	defer f.changed.Broadcast()
	nonce := tx.Nonce()
	if expected := f.nonces[from]; nonce != expected {
		f.record(tx, from, wrongNonceStatus)
		if f.receiptAll {
			f.receipts[tx.Hash()] = f.place(tx.Hash(), 0)
		}
		if f.optimistic {
			return tx.Hash(), nil, true
		}
		return nil, &rpcError{-32000, fmt.Sprintf("Nonce too high. Provided nonce: %d, current nonce: %d", nonce, expected)}, true
	}
	cost := new(big.Int).Mul(tx.GasFeeCap(), new(big.Int).SetUint64(tx.Gas()))
	cost.Add(cost, tx.Value())
	if f.balanceOf(from).Cmp(cost) < 0 {
		return nil, &rpcError{-32000, "Insufficient funds for transfer"}, true
	}
	f.balanceOf(from).Sub(f.balanceOf(from), cost)
	f.balanceOf(*tx.To()).Add(f.balanceOf(*tx.To()), tx.Value())
	f.nonces[from]++
	f.record(tx, from, "SUCCESS")
	f.receipts[tx.Hash()] = f.place(tx.Hash(), 1)
	if load {
		if is(f.repeat, nonce) {
			f.blocks = append(f.blocks, []common.Hash{tx.Hash()})
		}
		if is(f.regret, nonce) {
			return nil, &rpcError{-32603, "timeout exceeded after 0xabcdef1234"}, true
		}
		if is(f.garble, nonce) {
			return common.Hash{1}, nil, true
		}
	}
	return tx.Hash(), nil, true
}

func (f *fakeChain) record(tx *types.Transaction, from common.Address, status string) {
	f.log = append(f.log, map[string]any{"sequence": len(f.log), "sender": from, "nonce": tx.Nonce(), "hash": tx.Hash(), "status": status})
}

// place puts a transaction into a block, three to a block.
func (f *fakeChain) place(hash common.Hash, status uint64) map[string]any {
	if len(f.blocks[len(f.blocks)-1]) >= 3 {
		f.blocks = append(f.blocks, nil)
	}
	last := len(f.blocks) - 1
	f.blocks[last] = append(f.blocks[last], hash)
	return map[string]any{
		"blockNumber":      hexutil.Uint64(last),
		"transactionIndex": hexutil.Uint64(len(f.blocks[last]) - 1),
		"status":           hexutil.Uint64(status),
	}
}
