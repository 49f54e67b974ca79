package ethchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/ethrpc"
	"lockstep/internal/outage"
	"lockstep/txmgr"
	"lockstep/txmgr/ethtx"
)

// Config is one chain's.
type Config struct {
	ID       uint64
	URLs     []string
	NoPool   bool          // the chain refuses all but the next nonce, as Hedera does behind its relays
	Depth    *uint64       // blocks on top that make a block final; nil: 0 without a pool and on development chains, else 12
	InFlight int           // 0: 16, what geth promises to keep; on development chains 1,000; without a pool 1
	Timeout  time.Duration // of one question; 0: 5 s
	GasAdded *int          // per cent on top of an estimate; nil: 20
	GasCap   uint64        // the most that a transaction may have; 0: what the chain allows
	MinTip   *big.Int      // what is tipped at least, per gas; nil: 0
	GasPrice *big.Int      // what is paid per gas whatever the market says, without a tip; nil: the market's
	Dev      *bool         // it may be reset without a word; nil: 31337 and 1337 are so
	Log      *slog.Logger  // of endpoints that are lost and back; may be nil
}

// Chain is a txmgr.Chain of Ethereum JSON-RPC endpoints.
type Chain struct {
	ethtx.Form
	name     string
	traits   txmgr.Traits
	added    uint64
	gasCap   uint64        // 0: none of the settings
	minTip   *big.Int      // nil: none
	price    *big.Int      // nil: the market's
	blockGas atomic.Uint64 // of the newest block that was seen; 0: not known
	client   *ethrpc.Client
	patience time.Duration // for silent endpoints

	mu      sync.Mutex           // guards what follows
	waiting map[string]time.Time // when a transaction without a receipt was looked for at the other endpoints, or first seen
	market  history

	anchored uint64 // the highest final block that was named
}

var (
	_ txmgr.Chain    = (*Chain)(nil)
	_ txmgr.Anchored = (*Chain)(nil)
)

// New returns the driver. It asks nothing yet.
func New(c Config) (*Chain, error) {
	if c.ID == 0 || len(c.URLs) == 0 {
		return nil, errors.New("a chain needs its id and at least one URL")
	}
	development := c.ID == 31337 || c.ID == 1337
	if c.Dev != nil {
		development = *c.Dev
	}
	depth, inFlight := uint64(12), 16
	if development {
		depth, inFlight = 0, 1000
	}
	traits := txmgr.Traits{Mempool: true, Dev: development}
	if c.NoPool {
		depth, inFlight = 0, 1
		traits = txmgr.Traits{Order: txmgr.OrderStrict, Dev: development}
	}
	traits.Unit = txmgr.Unit{Name: "ETH", Decimals: 18}
	if c.Depth != nil {
		depth = *c.Depth
	}
	if c.InFlight > 0 {
		inFlight = c.InFlight
	}
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	added := 20
	if c.GasAdded != nil {
		added = *c.GasAdded
	}
	if added < 0 || added > 1000 {
		return nil, errors.New("gasAdded: want 0 to 1000 per cent")
	}
	traits.Depth, traits.InFlight = depth, inFlight
	client, err := ethrpc.New(ethrpc.Config{ChainID: c.ID, URLs: c.URLs, Timeout: c.Timeout, Log: c.Log})
	if err != nil {
		return nil, err
	}
	return &Chain{
		Form: ethtx.Form{ChainID: c.ID}, name: strconv.FormatUint(c.ID, 10), added: uint64(added), gasCap: c.GasCap, minTip: c.MinTip, price: c.GasPrice, traits: traits, client: client, patience: patience,
		waiting: map[string]time.Time{},
	}, nil
}

// ID returns the chain's number in decimal.
func (c *Chain) ID() string { return c.name }

// Traits returns what the owner may rely on.
func (c *Chain) Traits() txmgr.Traits { return c.traits }

// Close ends connections.
func (c *Chain) Close() { c.client.Close() }

// Anchor has endpoints on another fork be asked for nothing, while any may have this block.
func (c *Chain) Anchor(number uint64, hash string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hash == "" {
		number = 0
	} else if number < c.anchored {
		return
	}
	c.anchored = number
	c.client.Anchor(number, common.HexToHash(hash))
}

// Trouble says why no endpoint answers.
func (c *Chain) Trouble() string { return c.client.Trouble() }

// Endpoints tells which of the endpoints fail.
func (c *Chain) Endpoints() (int, []outage.Failing) { return c.client.Endpoints() }

// Identity returns the chain's id and the hash of its first block, by one endpoint. One that serves another chain is not asked.
func (c *Chain) Identity(ctx context.Context) (string, error) {
	var block header
	which, first := ethrpc.Ask(nil, "eth_chainId"), ethrpc.Ask(&block, "eth_getBlockByNumber", "0x0", false)
	if _, err := c.client.Do(ctx, which, first); err != nil {
		return "", err
	}
	if _, err := which.Answer(); err != nil {
		return "", err
	}
	found, err := first.Found()
	if err != nil {
		return "", err
	}
	if !found { // pruned
		return c.name, nil
	}
	return block.Hash.Hex(), block.is(0)
}

type header struct {
	Number    hexutil.Uint64 `json:"number"`
	Hash      common.Hash    `json:"hash"`
	Timestamp hexutil.Uint64 `json:"timestamp"`
	BaseFee   *hexutil.Big   `json:"baseFeePerGas"`
	GasLimit  hexutil.Uint64 `json:"gasLimit"`
}

// is refuses an answer that is not the block of a number: signing would halt for what looks like a block that was replaced.
func (h header) is(number uint64) error {
	if uint64(h.Number) != number || h.Hash == (common.Hash{}) {
		return fmt.Errorf("the answer for block %d is no block, or block %d", number, uint64(h.Number))
	}
	return nil
}

func (h header) head() txmgr.Head {
	return txmgr.Head{Number: uint64(h.Number), Hash: h.Hash.Hex(), Time: int64(h.Timestamp) * 1_000_000}
}

// Head returns the newest block.
func (c *Chain) Head(ctx context.Context) (txmgr.Head, error) {
	block, err := one[header](ctx, c, "eth_getBlockByNumber", "latest", false)
	return block.head(), err
}

// one asks any endpoint for what there has to be.
func one[T any](ctx context.Context, c *Chain, method string, params ...any) (value T, err error) {
	q := ethrpc.Ask(&value, method, params...)
	if _, err := c.client.Do(ctx, q); err != nil {
		return value, err
	}
	return value, q.Need()
}

// BlockHash asks one endpoint. The head is asked first, so that it is no newer.
func (c *Chain) BlockHash(ctx context.Context, number, above uint64) (string, error) {
	var head hexutil.Uint64
	var block header
	newest := ethrpc.Ask(&head, "eth_blockNumber")
	q := ethrpc.Ask(&block, "eth_getBlockByNumber", hexutil.Uint64(number), false)
	questions := []*ethrpc.Call{newest, q}
	if above == 0 {
		questions = questions[1:]
	}
	if _, err := c.client.Do(ctx, questions...); err != nil {
		return "", err
	}
	if above > 0 {
		if err := newest.Need(); err != nil || uint64(head) < number+above {
			return "", err
		}
	}
	if found, err := q.Found(); err != nil || !found {
		return "", err
	}
	return block.Hash.Hex(), block.is(number)
}

// Nonces asks one endpoint. The head is asked first, so that the nonce is no older.
func (c *Chain) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	var block header
	var next hexutil.Uint64
	head := ethrpc.Ask(&block, "eth_getBlockByNumber", "latest", false)
	latest := ethrpc.Ask(&next, "eth_getTransactionCount", account, "latest")
	if _, err := c.client.Do(ctx, head, latest); err != nil {
		return txmgr.Nonces{}, err
	}
	if err := errors.Join(head.Need(), latest.Need()); err != nil {
		return txmgr.Nonces{}, err
	}
	return txmgr.Nonces{Latest: uint64(next), Head: block.head()}, nil
}

// patience is how long a new signer waits for an endpoint that does not answer: it may know of transactions that nobody else does.
const patience = 30 * time.Second

// HighestPending asks every endpoint. One that has not answered for half a minute is passed over: it delays a signer's first start, but not for
// ever.
func (c *Chain) HighestPending(ctx context.Context, account string) (latest, pending uint64, err error) {
	var silent error
	answers := 0
	for _, e := range c.client.All() {
		var next, nonce hexutil.Uint64
		q := ethrpc.Ask(&nonce, "eth_getTransactionCount", account, "pending")
		after := ethrpc.Ask(&next, "eth_getTransactionCount", account, "latest") // no older than what waits
		if err := e.Do(ctx, q, after); err != nil {
			since, _ := e.Down()
			if since.IsZero() || time.Since(since) < c.patience {
				return 0, 0, fmt.Errorf("%w; it may know of transactions that nobody else does, and is waited for, for %v", err, patience)
			}
			silent = err
			continue
		}
		switch found, err := q.Answer(); {
		case err != nil && ethrpc.ClassOf(err) != ethrpc.Unsupported && ethrpc.ClassOf(err) != ethrpc.Malformed: // it does not count its pool
			return 0, 0, err
		case err == nil && !found:
			return 0, 0, fmt.Errorf("%s names no nonce", e.Name())
		}
		if err := after.Need(); err != nil {
			return 0, 0, err
		}
		answers++
		latest, pending = max(latest, uint64(next)), max(pending, uint64(nonce))
	}
	if answers == 0 {
		return 0, 0, silent
	}
	return latest, pending, nil
}

// Balance returns the account's wei.
func (c *Chain) Balance(ctx context.Context, account string) (*big.Int, error) {
	wei, err := one[hexutil.Big](ctx, c, "eth_getBalance", account, "latest")
	return wei.ToInt(), err
}

// Delegated reports whether the account's code is a delegation (EIP-7702).
func (c *Chain) Delegated(ctx context.Context, account string) (bool, error) {
	code, err := one[hexutil.Bytes](ctx, c, "eth_getCode", account, "latest")
	return len(code) == 23 && code[0] == 0xef && code[1] == 1 && code[2] == 0, err
}
