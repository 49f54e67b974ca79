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
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
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

// noRedirect: a redirect could lead to a host that nobody configured.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// client asks a target about chain state. It is safe for concurrent use.
type client struct {
	http *http.Client

	mu   sync.Mutex
	urls []string    // the first is asked; those that broke come last
	conn *rpc.Client // to the first, once it was needed
}

// newClient asks the first of urls, and the next one from the moment on when a connection breaks.
func newClient(urls []string) *client {
	return &client{urls: urls, http: &http.Client{
		Transport:     &http.Transport{MaxConnsPerHost: clientConnections, MaxIdleConnsPerHost: clientConnections},
		CheckRedirect: noRedirect,
	}}
}

func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.Close()
	}
	c.http.CloseIdleConnections()
}

// current is the connection to ask, and whom it leads to.
func (c *client) current(ctx context.Context) (conn *rpc.Client, host string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		c.conn, err = rpc.DialOptions(ctx, c.urls[0], rpc.WithHTTPClient(c.http), rpc.WithWebsocketMessageSizeLimit(maxReplyBytes))
	}
	return c.conn, hostOf(c.urls[0]), err
}

// elsewhere goes on to the next target, unless somebody has left this connection already.
func (c *client) elsewhere(conn *rpc.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != conn {
		return
	}
	if conn != nil {
		conn.Close()
	}
	c.conn, c.urls = nil, append(c.urls[1:len(c.urls):len(c.urls)], c.urls[0])
}

// read calls a method that changes nothing, and again if the target was busy or the
// connection failed.
func (c *client) read(ctx context.Context, result any, method string, params ...any) error {
	pause := 100 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := c.call(ctx, result, method, params...)
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
	if verdict, ok := errors.AsType[*rpcError](err); ok {
		return verdict.Code == -32005 || verdict.Code == -32605
	}
	var status statusError
	return errors.As(err, &status) && status == http.StatusTooManyRequests
}

// call sends one request and decodes its result.
func (c *client) call(ctx context.Context, result any, method string, params ...any) error {
	within, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	conn, host, err := c.current(within)
	if err == nil {
		err = conn.CallContext(within, result, method, params...)
	}
	var status rpc.HTTPError
	var told rpc.Error
	var answer message
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status) && json.Unmarshal(status.Body, &answer) == nil && answer.Error != nil:
		return fmt.Errorf("%s: %w", method, answer.Error)
	case errors.As(err, &told):
		return fmt.Errorf("%s: %w", method, &rpcError{told.ErrorCode(), told.Error()})
	case errors.As(err, &status):
		err = statusError(status.StatusCode)
	}
	if ctx.Err() == nil && !rateLimited(err) {
		c.elsewhere(conn)
	}
	return fmt.Errorf("%s: %s: %w", method, host, transportError{err})
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
	if told, ok := errors.AsType[*rpcError](err); ok && told.Code == codeRejected {
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
