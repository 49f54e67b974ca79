package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
)

// The events of the chain that watchers are measured on: a factory's, and those of its children.
const (
	madeEvent   = "Made(address indexed child, uint256 amount)"
	paidEvent   = "Paid(address indexed by, uint256 amount)"
	eventsChain = 4242 // id
)

var (
	madeTopic    = crypto.Keccak256Hash([]byte("Made(address,uint256)"))
	paidTopic    = crypto.Keccak256Hash([]byte("Paid(address,uint256)"))
	eventFactory = common.HexToAddress("0xfac0000000000000000000000000000000000001")
)

// child is the n-th contract of the factory.
func child(n int) common.Address {
	return common.BytesToAddress(crypto.Keccak256(big.NewInt(int64(n)).Bytes())[:20])
}

// eventChain has blocks with logs and nothing else, answers without delay, and counts what it is asked.
type eventChain struct {
	url, ws string
	calls   atomic.Int64
	server  *http.Server
	rpc     *rpc.Server

	mu     sync.RWMutex // guards all below
	blocks []*eventBlock
	byHash map[common.Hash]*eventBlock
	logs   int
	wake   chan struct{} // closed when there is another block
}

// eventBlock is a block, ready to be sent.
type eventBlock struct {
	number  uint64
	hash    common.Hash
	header  json.RawMessage
	logs    []eventLog
	visible time.Time
}

type eventLog struct {
	address common.Address
	topic   common.Hash
	text    json.RawMessage
}

func newEventChain(ctx context.Context) (*eventChain, error) {
	c := &eventChain{byHash: map[common.Hash]*eventBlock{}, wake: make(chan struct{}), rpc: rpc.NewServer()}
	c.rpc.SetBatchLimits(1000, 1<<30)
	if err := c.rpc.RegisterName("eth", &eventCalls{c}); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", c.rpc)
	mux.Handle("/ws", c.rpc.WebsocketHandler([]string{"*"}))
	c.server = &http.Server{Handler: mux, ReadHeaderTimeout: startLimit}
	c.url, c.ws = "http://"+l.Addr().String(), "ws://"+l.Addr().String()+"/ws"
	go func() { _ = c.server.Serve(l) }() // until close
	c.block()
	return c, nil
}

func (c *eventChain) close() {
	c.rpc.Stop()
	_ = c.server.Close() // nobody asks any more
}

// made and paid are logs for the next block.
func made(n int) eventLog {
	return eventLog{address: eventFactory, topic: madeTopic, text: words(common.BytesToHash(child(n).Bytes()), n)}
}

func paid(n, amount int) eventLog {
	return eventLog{address: child(n), topic: paidTopic, text: words(common.BytesToHash(eventFactory.Bytes()), amount)}
}

// words are a topic and a word of data.
func words(topic common.Hash, amount int) json.RawMessage {
	text, _ := json.Marshal([]common.Hash{topic, common.BigToHash(big.NewInt(int64(amount)))}) // of plain values
	return text
}

// block makes a block of some logs, and tells when it could be seen.
func (c *eventChain) block(logs ...eventLog) *eventBlock {
	c.mu.Lock()
	defer c.mu.Unlock()
	number := uint64(len(c.blocks))
	b := &eventBlock{number: number, hash: crypto.Keccak256Hash(fmt.Appendf(nil, "block %d", number))}
	var parent common.Hash
	if number > 0 {
		parent = c.blocks[number-1].hash
	}
	stamp := hexutil.Uint64(time.Now().Unix())
	transactions := make([]common.Hash, 0, len(logs))
	for i, l := range logs {
		var parts []common.Hash
		_ = json.Unmarshal(l.text, &parts) // our own
		tx := crypto.Keccak256Hash(fmt.Appendf(nil, "transaction %d of block %d", i, number))
		transactions = append(transactions, tx)
		l.text = encoded(map[string]any{
			"address": l.address, "topics": []common.Hash{l.topic, parts[0]}, "data": parts[1], "blockNumber": hexutil.Uint64(number), "blockHash": b.hash, "transactionHash": tx,
			"transactionIndex": hexutil.Uint64(i), "logIndex": hexutil.Uint64(i), "blockTimestamp": stamp, "removed": false,
		})
		b.logs = append(b.logs, l)
	}
	var bloom types.Bloom
	for i := range bloom {
		bloom[i] = 0xff
	}
	b.header = encoded(map[string]any{
		"number": hexutil.Uint64(number), "hash": b.hash, "parentHash": parent, "timestamp": stamp, "logsBloom": bloom, "transactions": transactions,
	})
	c.blocks, c.byHash[b.hash], c.logs = append(c.blocks, b), b, c.logs+len(logs)
	b.visible = time.Now()
	close(c.wake)
	c.wake = make(chan struct{})
	return b
}

func encoded(v any) json.RawMessage {
	text, _ := json.Marshal(v) // of plain values
	return text
}

// head is the newest block, and what is closed when there is another.
func (c *eventChain) head() (*eventBlock, <-chan struct{}) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.blocks[len(c.blocks)-1], c.wake
}

// at is a block by its number or tag, nil for none. A block is final when it has 64 others above it.
func (c *eventChain) at(number rpc.BlockNumber) *eventBlock {
	c.mu.RLock()
	defer c.mu.RUnlock()
	top := len(c.blocks) - 1
	n := int(number)
	switch number {
	case rpc.LatestBlockNumber, rpc.PendingBlockNumber:
		n = top
	case rpc.FinalizedBlockNumber, rpc.SafeBlockNumber:
		n = max(0, top-64)
	case rpc.EarliestBlockNumber:
		n = 0
	default:
	}
	if n < 0 || n > top {
		return nil
	}
	return c.blocks[n]
}

// eventCalls are the methods of the chain.
type eventCalls struct{ c *eventChain }

// ChainId is eth_chainId.
func (e *eventCalls) ChainId() hexutil.Uint64 { e.c.calls.Add(1); return eventsChain } //nolint:revive // the protocol's name

// BlockNumber is eth_blockNumber.
func (e *eventCalls) BlockNumber() hexutil.Uint64 {
	e.c.calls.Add(1)
	b, _ := e.c.head()
	return hexutil.Uint64(b.number)
}

// GetBlockByNumber is eth_getBlockByNumber.
func (e *eventCalls) GetBlockByNumber(number rpc.BlockNumber, _ bool) json.RawMessage {
	e.c.calls.Add(1)
	return e.c.at(number).text()
}

// GetBlockByHash is eth_getBlockByHash.
func (e *eventCalls) GetBlockByHash(hash common.Hash, _ bool) json.RawMessage {
	e.c.calls.Add(1)
	e.c.mu.RLock()
	defer e.c.mu.RUnlock()
	return e.c.byHash[hash].text()
}

func (b *eventBlock) text() json.RawMessage {
	if b == nil {
		return json.RawMessage("null")
	}
	return b.header
}

// eventFilter is what eth_getLogs asks for.
type eventFilter struct {
	FromBlock *hexutil.Uint64  `json:"fromBlock"`
	ToBlock   *hexutil.Uint64  `json:"toBlock"`
	BlockHash *common.Hash     `json:"blockHash"`
	Address   []common.Address `json:"address"`
	Topics    [][]common.Hash  `json:"topics"`
}

var errFilter = errors.New("want blockHash, or fromBlock and toBlock")

// GetLogs is eth_getLogs.
func (e *eventCalls) GetLogs(f eventFilter) ([]json.RawMessage, error) {
	e.c.calls.Add(1)
	e.c.mu.RLock()
	defer e.c.mu.RUnlock()
	var blocks []*eventBlock
	switch {
	case f.BlockHash != nil && e.c.byHash[*f.BlockHash] != nil:
		blocks = []*eventBlock{e.c.byHash[*f.BlockHash]}
	case f.BlockHash == nil && f.FromBlock != nil && f.ToBlock != nil:
		top := uint64(len(e.c.blocks))
		blocks = e.c.blocks[min(uint64(*f.FromBlock), top):min(uint64(*f.ToBlock)+1, top)]
	default:
		return nil, errFilter
	}
	wanted := make(map[common.Address]bool, len(f.Address))
	for _, a := range f.Address {
		wanted[a] = true
	}
	topics := map[common.Hash]bool{}
	if len(f.Topics) > 0 {
		for _, t := range f.Topics[0] {
			topics[t] = true
		}
	}
	found := []json.RawMessage{}
	for _, b := range blocks {
		for _, l := range b.logs {
			if (f.Address == nil || wanted[l.address]) && (len(topics) == 0 || topics[l.topic]) {
				found = append(found, l.text)
			}
		}
	}
	return found, nil
}

// NewHeads is eth_subscribe("newHeads").
func (e *eventCalls) NewHeads(ctx context.Context) (*rpc.Subscription, error) {
	e.c.calls.Add(1)
	notifier, ok := rpc.NotifierFromContext(ctx)
	if !ok {
		return nil, rpc.ErrNotificationsUnsupported
	}
	sub := notifier.CreateSubscription()
	go func() {
		for {
			_, next := e.c.head()
			select {
			case <-sub.Err(): //nolint:errcheck // it is closed when the client is gone
				return
			case <-next:
			}
			b, _ := e.c.head()
			_ = notifier.Notify(sub.ID, b.header) // who is gone ends the subscription
		}
	}()
	return sub, nil
}
