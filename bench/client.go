package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"golang.org/x/sync/errgroup"

	"lockstep/internal/sleep"
)

const (
	clientConnections = 16
	clientTimeout     = 30 * time.Second
	readAttempts      = 5
	limitedAttempts   = 12 // of a rate-limited target: windows of limits are long
	longestReadPause  = 5 * time.Second
)

// client asks a target about chain state. It is safe for concurrent use; calls beyond
// its connections wait.
type client struct {
	ids atomic.Uint64

	mu     sync.Mutex
	links  []link   // the last one is asked; those before it broke
	others []string // where to ask when that one breaks, too
}

// newClient asks rawURL, and one of the others from the moment on when a connection to it breaks.
func newClient(ctx context.Context, rawURL string, others ...string) (*client, error) {
	l, err := dialReads(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	return &client{links: []link{l}, others: others}, nil
}

func dialReads(ctx context.Context, rawURL string) (link, error) {
	u, err := parseURL(rawURL, targetSchemes...)
	if err != nil {
		return nil, err
	}
	conns := clientConnections
	if overWS(u) {
		conns = 1 // calls share it, and relays count connections
	}
	l, err := dial(ctx, rawURL, linkOptions{conns: conns, timeout: clientTimeout})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", hostOf(rawURL), err)
	}
	return l, nil
}

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.links {
		l.close()
	}
}

// current is the link to ask, and its number.
func (c *client) current() (link, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.links[len(c.links)-1], len(c.links)
}

// elsewhere goes on to the next target that can be reached, unless somebody has left link number already.
func (c *client) elsewhere(ctx context.Context, number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.links) == number && len(c.others) > 0 {
		next := c.others[0]
		c.others = c.others[1:]
		if l, err := dialReads(ctx, next); err == nil {
			c.links = append(c.links, l)
		}
	}
}

// read calls a method that changes nothing, and again if the target was busy or the
// connection failed.
func (c *client) read(ctx context.Context, result any, method string, params ...any) error {
	pause := 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		_, number := c.current()
		err := c.call(ctx, result, method, params...)
		if broken := (transportError{}); errors.As(err, &broken) && !rateLimited(err) && !errors.Is(err, errClosed) && ctx.Err() == nil {
			c.elsewhere(ctx, number)
		}
		allowed := readAttempts
		if rateLimited(err) {
			allowed = limitedAttempts
		}
		if err == nil || attempt >= allowed || !worthRetry(err) || ctx.Err() != nil {
			return err
		}
		sleep.For(ctx, pause)
		pause = min(2*pause, longestReadPause)
	}
}

// worthRetry tells failures that may pass from verdicts: those of the transport, and the codes by which relays report a rate limit or trouble behind them.
func worthRetry(err error) bool {
	if errors.Is(err, errClosed) {
		return false
	}
	var verdict *rpcError
	if !errors.As(err, &verdict) {
		return true
	}
	switch verdict.Code {
	case -32005, -32020, -32603, -32605:
		return true
	}
	return false
}

func rateLimited(err error) bool {
	var verdict *rpcError
	if errors.As(err, &verdict) {
		return verdict.Code == -32005 || verdict.Code == -32605
	}
	var status statusError
	return errors.As(err, &status) && status == http.StatusTooManyRequests
}

// call sends one request and decodes its result.
func (c *client) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	args, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	id := c.ids.Add(1)
	answer := make(chan reply, 1)
	target, _ := c.current()
	target.send(ctx, &exchange{
		body: callBody(nil, id, method, args),
		ids:  []uint64{id},
		lane: int(id % clientConnections),
		done: func(r reply) { answer <- r },
	})
	select {
	case r := <-answer:
		if err := decodeResult(r, id, result); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

func decodeResult(r reply, id uint64, result any) error {
	switch {
	case r.err != nil:
		return transportError{r.err}
	case len(r.messages) != 1:
		return errNotJSONRPC
	}
	m := r.messages[0]
	if m.Error != nil {
		return m.Error
	}
	if r.status != http.StatusOK {
		return statusError(r.status)
	}
	if got, ok := m.id(); !ok || got != id {
		return errors.New("the answer has another id")
	}
	return json.Unmarshal(m.Result, result)
}

func (c *client) quantity(ctx context.Context, method string, params ...any) (*big.Int, error) {
	var v hexutil.Big
	if err := c.read(ctx, &v, method, params...); err != nil {
		return nil, err
	}
	return (*big.Int)(&v), nil
}

// nonce is the number of transactions of addr that are executed.
func (c *client) nonce(ctx context.Context, addr common.Address) (uint64, error) {
	var v hexutil.Uint64
	err := c.read(ctx, &v, "eth_getTransactionCount", addr, "latest")
	return uint64(v), err
}

func (c *client) balance(ctx context.Context, addr common.Address) (*big.Int, error) {
	return c.quantity(ctx, "eth_getBalance", addr, "latest")
}

// A receipt is where a transaction landed. Relays of Hedera can also show one for a
// transaction that consensus refused.
type receipt struct {
	Block  hexutil.Uint64 `json:"blockNumber"`
	Index  hexutil.Uint64 `json:"transactionIndex"`
	Status hexutil.Uint64 `json:"status"`
}

// receipt returns nil if the chain does not know the transaction (yet).
func (c *client) receipt(ctx context.Context, hash common.Hash) (*receipt, error) {
	var r *receipt
	err := c.read(ctx, &r, "eth_getTransactionReceipt", hash)
	var told *rpcError
	if errors.As(err, &told) && told.Code == codeRejected {
		return nil, nil
	}
	return r, err
}

// codeRejected is what relays of Hedera answer, instead of no receipt, for a transaction
// that was refused before it was executed.
const codeRejected = -32003

// blockHashes lists the transactions of a block; nil if there is no such block.
func (c *client) blockHashes(ctx context.Context, number uint64) ([]common.Hash, error) {
	var b *struct {
		Transactions []common.Hash `json:"transactions"`
	}
	err := c.read(ctx, &b, "eth_getBlockByNumber", hexutil.Uint64(number), false)
	if err != nil || b == nil {
		return nil, err
	}
	return b.Transactions, nil
}

// each runs f for 0 … n-1 with bounded concurrency and returns the first failure, after
// which no new f starts.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(clientConnections)
	for i := 0; i < n && within.Err() == nil; i++ {
		group.Go(func() error {
			if within.Err() != nil {
				return nil
			}
			return f(within, i)
		})
	}
	return cmp.Or(group.Wait(), ctx.Err())
}
