package diff

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

// GenerateConfig says what Generate asks for.
type GenerateConfig struct {
	From         Endpoint
	Blocks       int // the newest blocks of the chain; 20
	Transactions int // maximum of transactions of each block; 20
}

const maxGenerated = 100_000 // blocks

// block is what Generate needs of a block.
type block struct {
	Hash         string
	Transactions []struct {
		Hash, From, To, Input, Value string
	}
}

// Generate writes requests for what a relay has in its newest blocks: the blocks, their
// transactions, receipts and logs, the accounts in them at that time, and their calls
// once more as eth_call. At the end come requests that fail, for the errors' sake. All
// name blocks by number or hash, so that they mean the same later.
func Generate(ctx context.Context, c GenerateConfig, out io.Writer) error {
	c.Blocks = cmp.Or(c.Blocks, 20)
	c.Transactions = cmp.Or(c.Transactions, 20)
	if c.Blocks < 0 || c.Blocks > maxGenerated || c.Transactions < 0 {
		return fmt.Errorf("want 1 to %d blocks and no negative number of transactions", maxGenerated)
	}
	if err := checkURL(c.From.URL); err != nil {
		return err
	}
	p := newPeer("the relay", c.From, Config{Timeout: defaultTimeout, MaxAnswer: defaultMaxAnswer, Concurrency: 1})
	defer p.http.CloseIdleConnections()
	head, err := p.head(ctx)
	if err != nil {
		return err
	}
	g := &generator{out: bufio.NewWriter(out)}
	for _, method := range []string{"eth_chainId", "net_version", "eth_syncing", "eth_accounts", "eth_gasPrice", "eth_maxPriorityFeePerGas"} {
		g.ask(method)
	}
	first := uint64(0)
	if n := uint64(c.Blocks); head >= n {
		first = head - n + 1
	}
	for n := first; n <= head; n++ {
		var b *block
		if err := p.call(ctx, &b, "eth_getBlockByNumber", hexutil.EncodeUint64(n), true); err != nil {
			return err
		}
		if b != nil {
			g.block(hexutil.EncodeUint64(n), b, c.Transactions)
		}
	}
	g.failures(hexutil.EncodeUint64(head))
	return g.out.Flush()
}

type generator struct{ out *bufio.Writer }

// ask writes one request.
func (g *generator) ask(method string, params ...any) {
	if params == nil {
		params = []any{}
	}
	_ = json.NewEncoder(g.out).Encode(struct { // Flush has the error
		Method string `json:"method"`
		Params []any  `json:"params"`
	}{method, params})
}

func (g *generator) block(number string, b *block, most int) {
	g.ask("eth_getBlockByNumber", number, false)
	g.ask("eth_getBlockByNumber", number, true)
	g.ask("eth_getBlockByHash", b.Hash, false)
	g.ask("eth_getBlockTransactionCountByNumber", number)
	g.ask("eth_getBlockTransactionCountByHash", b.Hash)
	g.ask("eth_getBlockReceipts", number)
	g.ask("eth_getLogs", map[string]string{"fromBlock": number, "toBlock": number})
	g.ask("eth_getLogs", map[string]string{"blockHash": b.Hash})
	g.ask("eth_feeHistory", "0x1", number, []int{25, 75})
	seen := map[string]bool{"": true}
	for i, tx := range b.Transactions {
		if i == most {
			break
		}
		index := hexutil.EncodeUint64(uint64(i))
		g.ask("eth_getTransactionByHash", tx.Hash)
		g.ask("eth_getTransactionReceipt", tx.Hash)
		g.ask("eth_getTransactionByBlockNumberAndIndex", number, index)
		g.ask("eth_getTransactionByBlockHashAndIndex", b.Hash, index)
		for _, address := range []string{tx.From, tx.To} {
			if !seen[address] {
				g.account(address, number)
			}
			seen[address] = true
		}
		if tx.To != "" {
			g.ask("eth_call", map[string]string{"from": tx.From, "to": tx.To, "data": tx.Input, "value": tx.Value}, number)
		}
	}
}

func (g *generator) account(address, number string) {
	g.ask("eth_getBalance", address, number)
	g.ask("eth_getTransactionCount", address, number)
	g.ask("eth_getCode", address, number)
	g.ask("eth_getStorageAt", address, "0x0", number)
}

// failures are requests that no relay can answer well.
func (g *generator) failures(head string) {
	const nobody = "0x00000000000000000000000000000000000fffff"
	unknown := "0x" + fmt.Sprintf("%064x", 0xdead)
	g.ask("eth_getBlockByNumber", "0x7fffffff", false)
	g.ask("eth_getBlockByHash", unknown, false)
	g.ask("eth_getTransactionByHash", unknown)
	g.ask("eth_getTransactionReceipt", unknown)
	g.ask("eth_getBalance", nobody, head)
	g.ask("eth_getBalance")
	g.ask("eth_getBalance", "0x1", "latest")
	g.ask("eth_getBlockByNumber", head)
	g.ask("eth_getBlockByNumber", "first", false)
	g.ask("eth_getLogs", map[string]string{"fromBlock": head, "toBlock": "0x0"})
	g.ask("eth_getProof", nobody, []string{}, head)
	g.ask("eth_noSuchMethod")
	g.ask("eth_subscribe", "newHeads")
}

// lowerHead asks both relays for their head.
func lowerHead(ctx context.Context, a, b *peer) (uint64, error) {
	headA, err := a.head(ctx)
	if err != nil {
		return 0, err
	}
	headB, err := b.head(ctx)
	return min(headA, headB), err
}

// pin replaces "latest" in the parameters of a request, or of each of a batch, by the
// number of a block. What is no request stays as it is.
func pin(r request, head uint64) request {
	if !bytes.Contains(r.body, []byte(`"latest"`)) || !json.Valid(r.body) {
		return r
	}
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	var body any
	if decoder.Decode(&body) != nil {
		return r
	}
	number := hexutil.EncodeUint64(head)
	switch body := body.(type) {
	case map[string]any:
		pinParams(body, number)
	case []any:
		for _, item := range body {
			if call, ok := item.(map[string]any); ok {
				pinParams(call, number)
			}
		}
	}
	if text, err := json.Marshal(body); err == nil {
		r.body = text
	}
	return r
}

func pinParams(call map[string]any, number string) {
	if params, ok := call["params"]; ok {
		call["params"] = pinValue(params, number)
	}
}

func pinValue(v any, number string) any {
	switch v := v.(type) {
	case string:
		if v == "latest" {
			return number
		}
	case []any:
		for i := range v {
			v[i] = pinValue(v[i], number)
		}
	case map[string]any:
		for key := range v {
			v[key] = pinValue(v[key], number)
		}
	}
	return v
}

// maxLine bounds a line of the input; relays refuse bodies of a few megabytes.
const maxLine = 32 << 20

// request is one line of the input.
type request struct {
	line    int               // of the input, from 1
	body    []byte            // as it is sent
	method  string            // of a single request; "batch", or "invalid" for what is no request
	methods map[string]string // of a batch, by id as it is spelt; nil otherwise
}

// Methods of what is not a single request.
const (
	batchMethod   = "batch"
	invalidMethod = "invalid"
)

// envelope is a request as far as it matters here.
type envelope struct {
	Version json.RawMessage `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  *string         `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
}

func (e envelope) name() string {
	if e.Method == nil {
		return invalidMethod
	}
	return *e.Method
}

// readRequests yields the requests of the input one after another. An error is the
// last thing it yields.
func readRequests(in io.Reader) iter.Seq2[request, error] {
	return func(yield func(request, error) bool) {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxLine)
		n := 0
		for lines.Scan() {
			n++
			r, err := parseLine(n, bytes.TrimSpace(lines.Bytes()))
			if err != nil {
				yield(request{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if r.body != nil && !yield(r, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(request{}, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

// parseLine returns a request without a body for a line that is none.
func parseLine(n int, line []byte) (request, error) {
	text, verbatim := bytes.CutPrefix(line, []byte(">>"))
	switch {
	case verbatim:
		return classify(n, bytes.Clone(bytes.TrimSpace(text))), nil
	case len(line) == 0, line[0] == '#', bytes.HasPrefix(line, []byte("//")), bytes.HasPrefix(line, []byte("<<")):
		return request{}, nil
	case !json.Valid(line):
		return request{}, errors.New(`not JSON; a request that is meant to be wrong goes behind ">> "`)
	case line[0] == '[':
		return classify(n, bytes.Clone(line)), nil
	}
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil || e.Method == nil {
		return request{}, errors.New(`want a request: {"method": …, "params": […]}`)
	}
	if e.Version != nil || e.ID != nil {
		return classify(n, bytes.Clone(line)), nil
	}
	e.Version, e.ID = json.RawMessage(`"2.0"`), fmt.Appendf(nil, "%d", n)
	body, err := json.Marshal(e)
	return request{line: n, body: body, method: *e.Method}, err
}

// classify finds out what a body asks for.
func classify(n int, body []byte) request {
	r := request{line: n, body: body, method: invalidMethod}
	var one envelope
	var many []envelope
	switch {
	case json.Unmarshal(body, &one) == nil:
		r.method = one.name()
	case json.Unmarshal(body, &many) == nil:
		r.method = batchMethod
		r.methods = make(map[string]string, len(many))
		for _, e := range many {
			r.methods[string(e.ID)] = e.name()
		}
	}
	return r
}

// writes tells whether the request changes something.
func (r request) writes() bool {
	if changes(r.method) {
		return true
	}
	for _, m := range r.methods {
		if changes(m) {
			return true
		}
	}
	return false
}

func changes(method string) bool {
	return strings.HasPrefix(method, "eth_send") || strings.HasPrefix(method, "admin_") || strings.HasPrefix(method, "personal_")
}

// excerpt is the beginning of the body, for people. It contains nothing that a terminal
// would take for a command.
func (r request) excerpt() string { return printable(r.body, 160) }
