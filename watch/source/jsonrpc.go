package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/ethrpc"
)

// jsonRPC reads from an endpoint that speaks Ethereum JSON-RPC.
type jsonRPC struct{ *ethrpc.Endpoint }

// check does nothing: the client asks which chain it serves.
func (j jsonRPC) check(context.Context) error { return nil }

// one asks one question. What it says of the call, or of a block that it lacks, is an error too.
func (j jsonRPC) one(ctx context.Context, into any, method string, args ...any) error {
	q := ethrpc.Ask(into, method, args...)
	if err := j.Do(ctx, q); err != nil {
		return err
	}
	_, err := q.Found()
	return err
}

func (j jsonRPC) block(ctx context.Context, tag string) (Block, error) {
	return j.header(ctx, "eth_getBlockByNumber", tag)
}

func (j jsonRPC) blockByHash(ctx context.Context, hash common.Hash) (Block, error) {
	return j.header(ctx, "eth_getBlockByHash", hash)
}

func (j jsonRPC) header(ctx context.Context, method string, which any) (Block, error) {
	var h header
	err := j.one(ctx, &h, method, which, false)
	switch class := ethrpc.ClassOf(err); {
	case which == "finalized" && (class == ethrpc.Malformed || class == ethrpc.Unsupported):
		return Block{}, ErrNotFound // the chain has no such thing
	case err != nil:
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
	Bloom      bloom           `json:"logsBloom"`

	Transactions []json.RawMessage `json:"transactions"`
}

// bloom is a block's filter of addresses and topics. Some chains leave it out, or send "0x": then it is zero, and proves nothing.
type bloom types.Bloom

// UnmarshalJSON implements json.Unmarshaler.
func (b *bloom) UnmarshalJSON(text []byte) error {
	var raw hexutil.Bytes
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*b = bloom{}
	if len(raw) == len(b) {
		copy(b[:], raw)
	}
	return nil
}

// there tells whether the endpoint has the block: a pending one has no number or hash.
func (h *header) there() bool { return h != nil && h.Number != nil && h.Hash != nil }

func (h *header) block() Block {
	return Block{Number: uint64(*h.Number), Hash: *h.Hash, Parent: h.ParentHash, Time: uint64(h.Timestamp)}
}

// rawLog is a log on the wire.
type rawLog struct {
	Address     common.Address  `json:"address"`
	Topics      []common.Hash   `json:"topics"`
	Data        hexutil.Bytes   `json:"data"`
	BlockNumber *hexutil.Uint64 `json:"blockNumber"`
	BlockHash   *common.Hash    `json:"blockHash"`
	TxHash      common.Hash     `json:"transactionHash"`
	Index       *hexutil.Uint64 `json:"logIndex"`
	Removed     bool            `json:"removed"`
}

// logs asks for the logs of an extent, together with the header of its last block.
func (j jsonRPC) logs(ctx context.Context, w extent, q Query) (answer, error) {
	maximum := maxLists
	if w.hash != nil {
		maximum = maxListsOfBlock
	}
	lists := addressLists(q.Addresses, maximum)
	pages := make([][]rawLog, len(lists))
	var last header
	calls := make([]*ethrpc.Call, 0, len(lists)+1)
	for i, list := range lists {
		calls = append(calls, ethrpc.Ask(&pages[i], "eth_getLogs", w.filter(list, q.positions())))
	}
	if w.hash != nil {
		calls = append(calls, ethrpc.Ask(&last, "eth_getBlockByHash", *w.hash, false))
	} else {
		calls = append(calls, ethrpc.Ask(&last, "eth_getBlockByNumber", hexutil.Uint64(w.to), false))
	}
	if err := j.Do(ctx, calls...); err != nil {
		return answer{}, err
	}
	for _, c := range calls {
		switch found, err := c.Answer(); {
		case ethrpc.ClassOf(err) == ethrpc.Missing:
			return answer{}, ErrNotFound
		case err != nil:
			return answer{}, fmt.Errorf("%w: %s: %w", errRefused, c.Method, err)
		case !found && c.Method == "eth_getLogs":
			return answer{}, errNull
		}
	}
	if !last.there() {
		return answer{}, ErrNotFound
	}
	a := answer{last: last.block(), from: w.from, ends: endsOf(pages), inner: last.Transactions}
	a.bloom = types.Bloom(last.Bloom)
	if w.hash != nil {
		a.one, a.blank = true, len(last.Transactions) == 0
	}
	for _, page := range pages {
		if err := a.take(w, q, page); err != nil {
			return answer{}, err
		}
	}
	if w.hash == nil {
		return a, j.place(ctx, &a)
	}
	return a, nil
}

// place holds the logs of a range against the headers of their blocks, and gives them their times. Whoever asks by a block's hash knows the block; here the
// endpoint has named it, and its name is in the id of what is handed on.
func (j jsonRPC) place(ctx context.Context, a *answer) error {
	blocks := map[uint64]Block{a.last.Number: a.last}
	var numbers []uint64
	for _, list := range [][]Log{a.logs, a.gone} {
		for i := range list {
			if n := list[i].BlockNumber; n != a.last.Number {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(headerFetchers)
	for part := range slices.Chunk(slices.Compact(numbers), headersPerCall) {
		group.Go(func() error {
			headers, err := j.headers(ctx, part)
			mu.Lock()
			defer mu.Unlock()
			for i := range headers {
				blocks[part[i]] = headers[i].block()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range a.logs {
		l := &a.logs[i]
		b := blocks[l.BlockNumber]
		if l.BlockHash != b.Hash {
			return fmt.Errorf("a log of %w: %s in the place of block %d, which is %s", errAnother, l.BlockHash, b.Number, b.Hash)
		}
		l.Time = b.Time
	}
	for i := range a.gone {
		if l := &a.gone[i]; l.BlockHash == blocks[l.BlockNumber].Hash {
			return errGone
		}
	}
	return nil
}

// errNull means that an endpoint had no list of logs, not even an empty one.
var errNull = errors.New("null for a list of logs")

// take adds what is wanted of a list of logs.
func (a *answer) take(w extent, q Query, page []rawLog) error {
	for i := range page {
		r := &page[i]
		switch {
		case r.BlockNumber == nil || r.BlockHash == nil:
			return errors.New("a log without a block")
		case r.Index == nil:
			return errors.New("a log without its place in the block")
		case r.Removed && w.hash == nil: // some nodes have those of replaced blocks, too
			if l := r.log(); l.BlockNumber >= w.from && l.BlockNumber <= w.to && q.wants(&l) {
				a.gone = append(a.gone, l)
			}
			continue
		case r.Removed:
			return errGone
		}
		if err := a.add(w, q, r.log()); err != nil {
			return err
		}
		a.named++
	}
	return nil
}

// ends are the lowest and the highest block of which an answer has logs, whoever's they are, and how many each has.
type ends struct {
	low, high     uint64
	atLow, atHigh int
}

// endsOf returns the ends of lists of logs if one of them may have been cut off: it is as long as a limit might be. Most endpoints refuse a query that is beyond theirs; some
// leave out the rest without a word.
func endsOf(pages [][]rawLog) *ends {
	if !slices.ContainsFunc(pages, func(page []rawLog) bool { return roundNumber(len(page)) }) {
		return nil
	}
	e := &ends{low: ^uint64(0)}
	for _, page := range pages {
		for i := range page {
			if page[i].Removed {
				continue // named does not count it either
			}
			n := uint64(*page[i].BlockNumber)
			if n < e.low {
				e.low, e.atLow = n, 0
			}
			if n > e.high {
				e.high, e.atHigh = n, 0
			}
			e.atLow += bit(n == e.low)
			e.atHigh += bit(n == e.high)
		}
	}
	return e
}

// roundNumber tells whether a number of logs may be a limit: those that are known are multiples of 100, powers of two, and the page of a Hedera mirror node.
func roundNumber(n int) bool { return n == 25 || n == 50 || n >= 100 && (n%100 == 0 || n&(n-1) == 0) }

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// errGone means that an endpoint calls a log removed and has the log's block all the same. A log that is passed over for that may be lost.
var errGone = errors.New("it calls a log of a block removed, and has that block")

const (
	// headersPerCall is how many headers one batch asks for, and headerFetchers how many batches travel at a time.
	headersPerCall = 100
	headerFetchers = 4
)

// headers reads the headers of the blocks of some numbers.
func (j jsonRPC) headers(ctx context.Context, numbers []uint64) ([]header, error) {
	list := make([]header, len(numbers))
	calls := make([]*ethrpc.Call, len(list))
	for i, n := range numbers {
		calls[i] = ethrpc.Ask(&list[i], "eth_getBlockByNumber", hexutil.Uint64(n), false)
	}
	if err := j.Do(ctx, calls...); err != nil {
		return nil, err
	}
	for i, c := range calls {
		if _, err := c.Answer(); err != nil {
			return nil, err
		}
		switch {
		case !list[i].there():
			return nil, ErrNotFound
		case uint64(*list[i].Number) != numbers[i]:
			return nil, errAnother
		}
	}
	return list, nil
}

// everything asks for all logs of a block, of whatever contract.
func (j jsonRPC) everything(ctx context.Context, block common.Hash) (page []rawLog, err error) {
	err = j.one(ctx, &page, "eth_getLogs", map[string]any{"blockHash": block})
	return page, err
}

// receipts reads the logs of all receipts of a block. ErrNotFound means that the endpoint does not have them all.
func (j jsonRPC) receipts(ctx context.Context, of Block, transactions []json.RawMessage) (page []rawLog, err error) {
	type receipt struct {
		BlockHash common.Hash `json:"blockHash"`
		Logs      []rawLog    `json:"logs"`
	}
	var list []receipt
	err = j.one(ctx, &list, "eth_getBlockReceipts", hexutil.Uint64(of.Number))
	if ethrpc.ClassOf(err).AboutEndpoint() {
		return nil, err
	}
	if len(list) != len(transactions) { // some have those of a transaction alone
		list = make([]receipt, len(transactions))
		calls := make([]*ethrpc.Call, len(list))
		for i := range calls {
			calls[i] = ethrpc.Ask(&list[i], "eth_getTransactionReceipt", transactions[i])
		}
		for part := range slices.Chunk(calls, receiptsPerBatch) {
			switch err := j.answers(ctx, part); {
			case errors.Is(err, errRefused):
				return nil, ErrNotFound
			case err != nil:
				return nil, err
			}
		}
	}
	for i := range list {
		if list[i].BlockHash != of.Hash {
			return nil, ErrNotFound
		}
		page = append(page, list[i].Logs...)
	}
	return page, nil
}

// whole asks for all logs of a block, and keeps what is wanted. They are complete if they explain all of the block's bloom filter.
func (j jsonRPC) whole(ctx context.Context, w extent, q Query, b types.Bloom) (a answer, complete bool, err error) {
	page, err := j.everything(ctx, *w.hash)
	if err != nil {
		return answer{}, false, err
	}
	var sum types.Bloom
	for i := range page {
		sum.Add(page[i].Address[:])
		for _, topic := range page[i].Topics {
			sum.Add(topic[:])
		}
	}
	for i := range b { // some chains have logs that no filter names
		sum[i] &= b[i]
	}
	err = a.take(w, q, page)
	return a, sum == b, err
}

// log is what is kept of a log that has a block and a place in it.
func (r *rawLog) log() Log {
	return Log{
		Address: r.Address, Topics: r.Topics, Data: r.Data, BlockNumber: uint64(*r.BlockNumber),
		BlockHash: *r.BlockHash, TxHash: r.TxHash, Index: uint64(*r.Index),
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

func (w extent) filter(addresses []common.Address, topics [][]common.Hash) map[string]any {
	f := map[string]any{}
	if topics != nil {
		f["topics"] = topics
	}
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
