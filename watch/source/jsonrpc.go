package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// jsonRPC reads from an endpoint that speaks Ethereum JSON-RPC.
type jsonRPC struct {
	calls func(n int)                                // counts items sent
	dial  func(context.Context) (*rpc.Client, error) // of a WebSocket, nil for HTTP

	mu        sync.Mutex
	client    *rpc.Client // nil before a WebSocket's first call
	unbatched bool        // it takes no batches
}

func newJSONRPC(u *url.URL, cfg Config, calls func(int)) (*jsonRPC, error) {
	j := &jsonRPC{calls: calls}
	if u.Scheme == "ws" || u.Scheme == "wss" {
		j.dial = func(ctx context.Context) (*rpc.Client, error) {
			return rpc.DialOptions(ctx, u.String(), rpc.WithWebsocketMessageSizeLimit(cfg.MaxResponse))
		}
		return j, nil
	}
	var err error
	j.client, err = rpc.DialOptions(context.Background(), u.String(), rpc.WithHTTPClient(&http.Client{ //nolint:forbidigo // HTTP clients connect at the first call: nothing waits here
		Timeout:   cfg.Timeout,
		Transport: limited{http.DefaultTransport.(*http.Transport).Clone(), cfg.MaxResponse},
		// The URL names the host, no answer does.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	return j, err
}

// connected returns the client. A WebSocket is opened at the first call; when it breaks, the client opens another at the next one.
func (j *jsonRPC) connected(ctx context.Context) (*rpc.Client, error) {
	j.mu.Lock()
	client := j.client
	j.mu.Unlock()
	if client != nil {
		return client, nil
	}
	fresh, err := j.dial(ctx)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.client != nil { // another call was faster
		fresh.Close()
		return j.client, nil
	}
	j.client = fresh
	return fresh, nil
}

func (j *jsonRPC) call(ctx context.Context, into any, method string, args ...any) error {
	client, err := j.connected(ctx)
	if err != nil {
		return err
	}
	return client.CallContext(ctx, into, method, args...)
}

func (j *jsonRPC) callBatch(ctx context.Context, calls []rpc.BatchElem) error {
	client, err := j.connected(ctx)
	if err != nil {
		return err
	}
	return client.BatchCallContext(ctx, calls)
}

func (j *jsonRPC) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.client != nil {
		j.client.Close()
	}
}

// limited is a transport whose answers have a maximum of bytes.
type limited struct {
	next http.RoundTripper
	max  int64
}

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err == nil {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: l.max}
	}
	return resp, err
}

type limitedBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func (j *jsonRPC) chainID(ctx context.Context) (id uint64, said bool, err error) {
	var number hexutil.Uint64
	j.calls(1)
	err = j.call(ctx, &number, "eth_chainId")
	return uint64(number), err == nil, err
}

func (j *jsonRPC) number(ctx context.Context) (uint64, error) {
	var number hexutil.Uint64
	j.calls(1)
	err := j.call(ctx, &number, "eth_blockNumber")
	return uint64(number), err
}

func (j *jsonRPC) block(ctx context.Context, tag string) (Block, error) {
	return j.header(ctx, "eth_getBlockByNumber", tag)
}

func (j *jsonRPC) blockByHash(ctx context.Context, hash common.Hash) (Block, error) {
	return j.header(ctx, "eth_getBlockByHash", hash)
}

func (j *jsonRPC) header(ctx context.Context, method string, which any) (Block, error) {
	var h *header
	j.calls(1)
	if err := j.call(ctx, &h, method, which, false); err != nil {
		return Block{}, err
	}
	if !h.there() {
		return Block{}, ErrNotFound
	}
	return h.block(), nil
}

// header is what is read of a block.
type header struct {
	Number     *hexutil.Uint64 `json:"number"`
	Hash       *common.Hash    `json:"hash"`
	ParentHash common.Hash     `json:"parentHash"`
	Timestamp  hexutil.Uint64  `json:"timestamp"`
	Bloom      types.Bloom     `json:"logsBloom"`

	Transactions []json.RawMessage `json:"transactions"`
}

// there tells whether the endpoint has the block: a pending one has no number or hash.
func (h *header) there() bool { return h != nil && h.Number != nil && h.Hash != nil }

func (h *header) block() Block {
	return Block{Number: uint64(*h.Number), Hash: *h.Hash, Parent: h.ParentHash, Time: uint64(h.Timestamp)}
}

// batch sends calls together, so that one server answers them all, or one after the other where that is not possible.
func (j *jsonRPC) batch(ctx context.Context, calls []rpc.BatchElem) error {
	j.mu.Lock()
	unbatched := j.unbatched
	j.mu.Unlock()
	j.calls(len(calls))
	if !unbatched {
		err := j.callBatch(ctx, calls)
		if err == nil || !refusesBatches(err) {
			return err
		}
		j.mu.Lock()
		j.unbatched = true
		j.mu.Unlock()
		j.calls(len(calls))
	}
	for i := range calls {
		c := &calls[i]
		c.Error = j.call(ctx, c.Result, c.Method, c.Args...)
		var answered rpc.Error
		if c.Error != nil && !errors.As(c.Error, &answered) {
			return c.Error
		}
	}
	return nil
}

// refusesBatches tells whether an endpoint answered a batch as a whole, not its calls. A text that is no JSON is
// the answer of a proxy in trouble, not of a server that knows no batches.
func refusesBatches(err error) bool {
	var answered rpc.Error
	var wrong *json.UnmarshalTypeError
	return errors.As(err, &answered) || errors.As(err, &wrong)
}

// rawLog is a log on the wire.
type rawLog struct {
	Address     common.Address  `json:"address"`
	Topics      []common.Hash   `json:"topics"`
	Data        hexutil.Bytes   `json:"data"`
	BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	BlockHash   *common.Hash    `json:"blockHash"`
	TxHash      common.Hash     `json:"transactionHash"`
	Index       hexutil.Uint64  `json:"logIndex"`
	Time        hexutil.Uint64  `json:"blockTimestamp"`
	Removed     bool            `json:"removed"`
}

// logs asks for the logs of an extent, together with the header of its last block.
func (j *jsonRPC) logs(ctx context.Context, w extent, q Query) (answer, error) {
	maximum := maxLists
	if w.hash != nil {
		maximum = maxListsOfBlock
	}
	lists := addressLists(q.Addresses, maximum)
	pages := make([][]rawLog, len(lists))
	var last *header
	calls := make([]rpc.BatchElem, 0, len(lists)+1)
	for i, list := range lists {
		calls = append(calls, rpc.BatchElem{Method: "eth_getLogs", Args: []any{w.filter(list, q.Events)}, Result: &pages[i]})
	}
	if w.hash != nil {
		calls = append(calls, rpc.BatchElem{Method: "eth_getBlockByHash", Args: []any{*w.hash, false}, Result: &last})
	} else {
		calls = append(calls, rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(w.to), false}, Result: &last})
	}
	if err := j.batch(ctx, calls); err != nil {
		return answer{}, err
	}
	for _, c := range calls {
		if c.Error != nil {
			return answer{}, fmt.Errorf("%w: %s: %w", errRefused, c.Method, c.Error)
		}
	}
	if !last.there() {
		return answer{}, ErrNotFound
	}
	a := answer{last: last.block()}
	if w.hash != nil {
		a.blank = len(last.Transactions) == 0
		a.bloom = last.Bloom
	}
	for _, page := range pages {
		for i := range page {
			r := &page[i]
			if r.Removed {
				continue
			}
			if r.BlockNumber == nil || r.BlockHash == nil {
				return answer{}, errors.New("a log without a block")
			}
			if err := a.add(w, q, r.log()); err != nil {
				return answer{}, err
			}
		}
	}
	return a, nil
}

// log is what is kept of a log that has a block.
func (r *rawLog) log() Log {
	return Log{
		Address: r.Address, Topics: r.Topics, Data: r.Data, BlockNumber: uint64(*r.BlockNumber),
		BlockHash: *r.BlockHash, TxHash: r.TxHash, Index: uint64(r.Index), Time: uint64(r.Time),
	}
}

// addressLists cuts addresses into the lists that queries name; one nil list if they are too many.
func addressLists(set map[common.Address]struct{}, most int) [][]common.Address {
	if len(set) > addressesPerCall*most {
		return [][]common.Address{nil}
	}
	all := slices.SortedFunc(maps.Keys(set), func(a, b common.Address) int { return bytes.Compare(a[:], b[:]) })
	return slices.Collect(slices.Chunk(all, addressesPerCall))
}

func (w extent) filter(addresses []common.Address, events []common.Hash) map[string]any {
	f := map[string]any{"topics": [][]common.Hash{events}}
	if addresses != nil {
		f["address"] = addresses
	}
	if w.hash != nil {
		f["blockHash"] = *w.hash
	} else {
		f["fromBlock"], f["toBlock"] = hexutil.Uint64(w.from), hexutil.Uint64(w.to)
	}
	return f
}
