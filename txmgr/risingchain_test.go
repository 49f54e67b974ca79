package txmgr_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"

	"lockstep/txmgr"
)

// rising is a chain in memory that is as unlike Ethereum as one may be: accounts have names,
// keys are ed25519, a nonce above the next one is executed and ends those below it, and a
// transaction names the block until which it can be executed. There are no fees and no pool.
type rising struct {
	wire
	mu       sync.Mutex
	money    map[string]int64
	used     map[string]uint64 // the highest nonce that an account has used
	executed []risingRecord
	blocks   uint64
	lose     int // how many of the next transactions are taken and never executed
	down     bool
	behind   uint64 // blocks that the endpoint does not show yet
	forked   uint64 // from this block on the chain has other blocks; 0: from none
	vain     int    // questions for blocks that the endpoint does not show
}

type risingRecord struct {
	tx    wireTx
	hash  string
	block uint64
}

// risingValid is how many blocks a transaction is valid.
const risingValid = 20

var errDown = errors.New("nobody answers")

func newRising(keys ...risingKey) *rising {
	c := &rising{wire: wire{map[string]ed25519.PublicKey{}}, money: map[string]int64{}, used: map[string]uint64{}, blocks: 1}
	for _, k := range keys {
		c.keys[k.name], c.money[k.name] = k.key.Public().(ed25519.PublicKey), 1_000_000_000
	}
	return c
}

// mine makes a block.
func (c *rising) mine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks++
}

// losing makes the chain lose the next transaction.
func (c *rising) losing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose = 1
}

func (c *rising) ask(ctx context.Context) (unlock func(), err error) {
	c.mu.Lock()
	if c.down || ctx.Err() != nil {
		c.mu.Unlock()
		return nil, errDown
	}
	return c.mu.Unlock, nil
}

func blockHash(n uint64) string {
	sum := sha256.Sum256(fmt.Append(nil, "block ", n))
	return hex.EncodeToString(sum[:])
}

// lags hides the newest blocks.
func (c *rising) lags(blocks uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = blocks
}

// askedInVain returns how often a block was asked for that is not shown.
func (c *rising) askedInVain() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.vain
}

// fork puts other blocks in the place of those from a number on; with 0 the old ones are back.
func (c *rising) fork(from uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forked = from
}

func (c *rising) hash(n uint64) string {
	if c.forked != 0 && n >= c.forked {
		return "other " + blockHash(n)
	}
	return blockHash(n)
}

func (c *rising) head() txmgr.Head {
	n := c.blocks - c.behind
	return txmgr.Head{Number: n, Hash: c.hash(n), Time: int64(n) * 1_000_000}
}

func (c *rising) ID() string { return "pool" }

func (c *rising) Traits() txmgr.Traits {
	return txmgr.Traits{Order: txmgr.OrderRising, Validity: txmgr.ValidPayload, InFlight: 4}
}

func (c *rising) Identity(ctx context.Context) (string, error) {
	return answered(ctx, c, func() string { return "the rising chain" })
}

func (c *rising) Head(ctx context.Context) (txmgr.Head, error) {
	return answered(ctx, c, func() txmgr.Head { return c.head() })
}

func (c *rising) BlockHash(ctx context.Context, number uint64) (string, error) {
	return answered(ctx, c, func() string {
		if number > c.blocks-c.behind {
			c.vain++
			return ""
		}
		return c.hash(number)
	})
}

func (c *rising) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	return answered(ctx, c, func() txmgr.Nonces { return txmgr.Nonces{Latest: c.used[account] + 1, Head: c.head()} })
}

func (c *rising) HighestPending(ctx context.Context, account string) (uint64, error) {
	n, err := c.Nonces(ctx, account)
	return n.Latest, err
}

func (c *rising) Balance(ctx context.Context, account string) (*big.Int, error) {
	return answered(ctx, c, func() *big.Int { return big.NewInt(c.money[account]) })
}

func (c *rising) Delegated(ctx context.Context, _ string) (bool, error) {
	return answered(ctx, c, func() bool { return false })
}

func (c *rising) Market(ctx context.Context) (txmgr.Market, error) {
	return answered(ctx, c, func() txmgr.Market { return marketOf(nil, txmgr.Fees{Max: new(big.Int)}) })
}

func (c *rising) Simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	return answered(ctx, c, func() txmgr.Simulation {
		if call.To == "broken" {
			return txmgr.Simulation{Reason: "it is broken"}
		}
		return txmgr.Simulation{Success: true, Gas: wireGas}
	})
}

func (c *rising) Prepare(ctx context.Context, d txmgr.Draft) (txmgr.Unsigned, error) {
	return answered(ctx, c, func() txmgr.Unsigned {
		tx := wireTx{From: d.Signer, To: d.To, Nonce: d.Nonce, Value: d.Value.Int64(), Data: d.Data, Until: c.blocks + risingValid}
		return txmgr.Unsigned{Bytes: tx.digest(), Form: tx}
	})
}

func (c *rising) Send(ctx context.Context, list []txmgr.Signed) []error {
	return c.each(ctx, c, list, func(tx wireTx) error {
		switch {
		case c.find(tx.hash()) != nil:
			return &txmgr.SendError{Class: txmgr.ClassKnown, Text: "executed before"}
		case tx.Until < c.blocks:
			return &txmgr.SendError{Class: txmgr.ClassPoolPolicy, Text: "it is not valid any more"}
		case tx.Nonce <= c.used[tx.From]:
			return &txmgr.SendError{Class: txmgr.ClassNonceUsed, Text: "a nonce must be above the highest"}
		case c.lose > 0:
			c.lose--
			return nil
		}
		c.used[tx.From] = tx.Nonce
		c.money[tx.From] -= tx.Value
		c.money[tx.To] += tx.Value
		c.blocks++
		c.executed = append(c.executed, risingRecord{tx, tx.hash(), c.blocks})
		return nil
	})
}

func (c *rising) find(hash string) *risingRecord {
	for n := range c.executed {
		if c.executed[n].hash == hash {
			return &c.executed[n]
		}
	}
	return nil
}

func (c *rising) Receipts(ctx context.Context, list []txmgr.Signed) (txmgr.Head, []txmgr.Lookup, error) {
	unlock, err := c.ask(ctx)
	if err != nil {
		return txmgr.Head{}, nil, err
	}
	defer unlock()
	out := make([]txmgr.Lookup, len(list))
	for n, s := range list {
		out[n] = txmgr.Lookup{Hash: s.Hash, Tag: s.Tag}
		if r := c.find(s.Hash); r != nil {
			out[n].Receipt = &txmgr.Receipt{Hash: r.hash, Block: r.block, BlockHash: c.hash(r.block), Success: true, GasUsed: 7, GasPrice: big.NewInt(1)}
		}
	}
	return c.head(), out, nil
}

func (c *rising) Consumer(ctx context.Context, account string, nonce uint64) (*txmgr.Consumer, error) {
	return answered(ctx, c, func() *txmgr.Consumer {
		for _, r := range c.executed { // in the order of their nonces
			if r.tx.From == account && r.tx.Nonce >= nonce {
				return &txmgr.Consumer{Hash: r.hash, Block: r.block, BlockHash: c.hash(r.block), Head: c.head()}
			}
		}
		return nil
	})
}

func (c *rising) Expired(ctx context.Context, s txmgr.Signed) (bool, error) {
	return answered(ctx, c, func() bool {
		tx, _, err := c.read(s.Raw)
		return err == nil && c.blocks > tx.Until && c.find(s.Hash) == nil
	})
}

// risingKey is an account's key.
type risingKey struct {
	name string
	key  ed25519.PrivateKey
}

func risingKeyOf(name string) risingKey {
	seed := sha256.Sum256([]byte(strings.Repeat(name, 3)))
	return risingKey{name, ed25519.NewKeyFromSeed(seed[:])}
}

func (k risingKey) Account() string { return k.name }

func (k risingKey) Sign(_ context.Context, unsigned []byte) ([]byte, error) {
	return ed25519.Sign(k.key, unsigned), nil
}
