package ethchain

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

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
	GasAdded int           // per cent on top of an estimate; 0: 20
}

// Chain is a txmgr.Chain of Ethereum JSON-RPC endpoints.
type Chain struct {
	ethtx.Form
	id        uint64
	name      string
	traits    txmgr.Traits
	timeout   time.Duration
	added     uint64
	endpoints []*endpoint
}

var _ txmgr.Chain = (*Chain)(nil)

// New returns the driver. It asks nothing yet.
func New(c Config) (*Chain, error) {
	if c.ID == 0 || len(c.URLs) == 0 {
		return nil, errors.New("a chain needs its id and at least one URL")
	}
	development := c.ID == 31337 || c.ID == 1337
	depth, inFlight := uint64(12), 16
	if development {
		depth, inFlight = 0, 1000
	}
	traits := txmgr.Traits{Mempool: true}
	if c.NoPool {
		depth, inFlight = 0, 1
		traits = txmgr.Traits{Order: txmgr.OrderStrict}
	}
	if c.Depth != nil {
		depth = *c.Depth
	}
	if c.InFlight > 0 {
		inFlight = c.InFlight
	}
	if c.Timeout == 0 {
		c.Timeout = 5 * time.Second
	}
	if c.GasAdded == 0 {
		c.GasAdded = 20
	}
	traits.Depth, traits.InFlight = depth, inFlight
	out := &Chain{
		Form: ethtx.Form{ChainID: c.ID}, id: c.ID, name: strconv.FormatUint(c.ID, 10), timeout: c.Timeout, added: uint64(c.GasAdded),
		traits: traits,
	}
	for n, url := range c.URLs {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost, transport.Proxy = 32, nil
		out.endpoints = append(out.endpoints, &endpoint{
			name: fmt.Sprintf("endpoint %d of chain %d", n+1, c.ID), url: url, client: &http.Client{Transport: transport},
		})
	}
	return out, nil
}

// ID returns the chain's number in decimal.
func (c *Chain) ID() string { return c.name }

// Traits returns what the owner may rely on.
func (c *Chain) Traits() txmgr.Traits { return c.traits }

// Close closes idle connections.
func (c *Chain) Close() {
	for _, e := range c.endpoints {
		e.client.CloseIdleConnections()
	}
}

// Identity returns the chain's id and the hash of its first block, by one endpoint.
func (c *Chain) Identity(ctx context.Context) (string, error) {
	id, first := ask("eth_chainId"), ask("eth_getBlockByNumber", "0x0", false)
	if _, err := c.one(ctx, id, first); err != nil {
		return "", err
	}
	var number hexutil.Uint64
	var block header
	if _, err := id.into(&number); err != nil {
		return "", err
	}
	if uint64(number) != c.id {
		return "", fmt.Errorf("the endpoint serves chain %d, not %d", number, c.id)
	}
	found, err := first.into(&block)
	if err != nil {
		return "", err
	}
	if !found { // pruned; the chain's number alone tells
		return c.name, nil
	}
	return block.Hash.Hex(), nil
}

type header struct {
	Number    hexutil.Uint64 `json:"number"`
	Hash      common.Hash    `json:"hash"`
	Timestamp hexutil.Uint64 `json:"timestamp"`
	BaseFee   *hexutil.Big   `json:"baseFeePerGas"`
}

func (h header) head() txmgr.Head {
	return txmgr.Head{Number: uint64(h.Number), Hash: h.Hash.Hex(), Time: int64(h.Timestamp) * 1_000_000}
}

// Head returns the newest block.
func (c *Chain) Head(ctx context.Context) (txmgr.Head, error) {
	q := ask("eth_getBlockByNumber", "latest", false)
	if _, err := c.one(ctx, q); err != nil {
		return txmgr.Head{}, err
	}
	return headOf(q)
}

func headOf(q *question) (txmgr.Head, error) {
	var block header
	found, err := q.into(&block)
	if err == nil && !found {
		err = errors.New("the endpoint has no newest block")
	}
	return block.head(), err
}

// BlockHash returns the hash of the block at a height.
func (c *Chain) BlockHash(ctx context.Context, number uint64) (string, error) {
	q := ask("eth_getBlockByNumber", hexutil.Uint64(number), false)
	if _, err := c.one(ctx, q); err != nil {
		return "", err
	}
	var block header
	found, err := q.into(&block)
	var answer *callError
	if errors.As(err, &answer) && missing.MatchString(answer.Message) {
		return "", nil
	}
	if err != nil || !found {
		return "", err
	}
	return block.Hash.Hex(), nil
}

// missing matches what nodes say of a block that they do not have, or not any more. Most of them
// answer with null instead.
var missing = regexp.MustCompile(`(?i)pruned|(block|header) not found|unknown block`)

// Nonces asks one endpoint. The head is asked first, so that the nonce is no older.
func (c *Chain) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	head := ask("eth_getBlockByNumber", "latest", false)
	latest := ask("eth_getTransactionCount", account, "latest")
	if _, err := c.one(ctx, head, latest); err != nil {
		return txmgr.Nonces{}, err
	}
	at, err := headOf(head)
	if err != nil {
		return txmgr.Nonces{}, err
	}
	var next hexutil.Uint64
	found, err := latest.into(&next)
	if err == nil && !found {
		err = errors.New("the endpoint names no nonce")
	}
	return txmgr.Nonces{Latest: uint64(next), Head: at}, err
}

// HighestPending asks every endpoint.
func (c *Chain) HighestPending(ctx context.Context, account string) (uint64, error) {
	var highest uint64
	for _, e := range c.endpoints {
		q := ask("eth_getTransactionCount", account, "pending")
		part, cancel := context.WithTimeout(ctx, c.timeout)
		err := e.batch(part, q)
		cancel()
		if err != nil {
			return 0, err
		}
		var nonce hexutil.Uint64
		if _, err := q.into(&nonce); err != nil {
			return 0, err
		}
		highest = max(highest, uint64(nonce))
	}
	return highest, nil
}

// Balance returns the account's wei.
func (c *Chain) Balance(ctx context.Context, account string) (*big.Int, error) {
	q := ask("eth_getBalance", account, "latest")
	if _, err := c.one(ctx, q); err != nil {
		return nil, err
	}
	var wei hexutil.Big
	found, err := q.into(&wei)
	if err == nil && !found {
		err = errors.New("the endpoint names no balance")
	}
	return wei.ToInt(), err
}

// Delegated reports whether the account's code is a delegation (EIP-7702).
func (c *Chain) Delegated(ctx context.Context, account string) (bool, error) {
	q := ask("eth_getCode", account, "latest")
	if _, err := c.one(ctx, q); err != nil {
		return false, err
	}
	var code hexutil.Bytes
	_, err := q.into(&code)
	return len(code) == 23 && code[0] == 0xef && code[1] == 1 && code[2] == 0, err
}

// feeBlocks is how many blocks the fees are measured over.
const feeBlocks = 5

// Market returns fees from the last blocks: twice the next base fee, and tips at three
// percentiles.
func (c *Chain) Market(ctx context.Context) (txmgr.Market, error) {
	history := ask("eth_feeHistory", hexutil.Uint64(feeBlocks), "latest", []int{10, 50, 90})
	price := ask("eth_gasPrice")
	tip := ask("eth_maxPriorityFeePerGas")
	if _, err := c.one(ctx, history, price, tip); err != nil {
		return txmgr.Market{}, err
	}
	var blocks struct {
		BaseFees []*hexutil.Big   `json:"baseFeePerGas"`
		Rewards  [][]*hexutil.Big `json:"reward"`
	}
	_, historyErr := history.into(&blocks)
	market := txmgr.Market{Tips: map[string]txmgr.Fees{}, At: time.Now().UnixMicro()}
	if n := len(blocks.BaseFees); historyErr == nil && n > 0 && blocks.BaseFees[n-1] != nil && blocks.BaseFees[n-1].ToInt().Sign() > 0 {
		var least hexutil.Big
		_, _ = tip.into(&least) // not every endpoint names one
		market.BaseFee = blocks.BaseFees[n-1].ToInt()
		for column, speed := range []string{txmgr.SpeedSlow, txmgr.SpeedStandard, txmgr.SpeedFast} {
			t := mean(blocks.Rewards, column)
			if t.Sign() == 0 {
				t = new(big.Int).Set(least.ToInt())
			}
			most := new(big.Int).Lsh(market.BaseFee, 1)
			market.Tips[speed] = txmgr.Fees{Max: most.Add(most, t), Tip: t}
		}
		return market, nil
	}
	var wei hexutil.Big
	if found, err := price.into(&wei); err != nil || !found {
		return txmgr.Market{}, errors.Join(errors.New("the endpoint names no price"), err)
	}
	for speed, percent := range map[string]int64{txmgr.SpeedSlow: 100, txmgr.SpeedStandard: 110, txmgr.SpeedFast: 130} {
		p := new(big.Int).Mul(wei.ToInt(), big.NewInt(percent))
		market.Tips[speed] = txmgr.Fees{Max: p.Div(p, big.NewInt(100))}
	}
	return market, nil
}

func mean(rewards [][]*hexutil.Big, column int) *big.Int {
	sum, n := new(big.Int), int64(0)
	for _, block := range rewards {
		if column < len(block) && block[column] != nil && block[column].ToInt().Sign() > 0 {
			sum.Add(sum, block[column].ToInt())
			n++
		}
	}
	if n == 0 {
		return sum
	}
	return sum.Div(sum, big.NewInt(n))
}
