package api_test

import (
	"context"
	"errors"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient/simulated"

	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/ethchain"
	"lockstep/watch/watchtest"
)

// simchain is go-ethereum's own node in this process behind its driver. It mines a block after each batch of sends.
type simchain struct {
	*ethchain.Chain
	node   *simulated.Backend
	mu     sync.Mutex  // one block at a time
	pooled atomic.Bool // what is sent waits for mine
	away   atomic.Bool // the node does not answer
}

func newChain(t *testing.T, funded ...common.Address) *simchain {
	t.Helper()
	alloc := types.GenesisAlloc{}
	for _, a := range funded {
		alloc[a] = types.Account{Balance: new(big.Int).Lsh(big.NewInt(1), 80)}
	}
	node, host := watchtest.Node(t, alloc)
	driver := must.Get(ethchain.New(ethchain.Config{ID: watchtest.ChainID, URLs: []string{"http://" + host}, Depth: new(uint64), InFlight: 64, Dev: new(false)}))(t)
	t.Cleanup(driver.Close)
	return &simchain{Chain: driver, node: node}
}

func (c *simchain) Head(ctx context.Context) (txmgr.Head, error) {
	if c.away.Load() {
		return txmgr.Head{}, errors.New("the node does not answer")
	}
	return c.Chain.Head(ctx)
}

func (c *simchain) Send(ctx context.Context, list []txmgr.Signed) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := c.Chain.Send(ctx, list)
	if !c.pooled.Load() {
		c.node.Commit()
	}
	return errs
}

// mine makes a block of what is in the pool.
func (c *simchain) mine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.node.Commit()
}

// executed are the transactions of an account that are in blocks, by nonce.
func (c *simchain) executed(t *testing.T, account common.Address) []*types.Transaction {
	t.Helper()
	var list []*types.Transaction
	for number := range must.Get(c.node.Client().BlockNumber(t.Context()))(t) + 1 {
		block := must.Get(c.node.Client().BlockByNumber(t.Context(), new(big.Int).SetUint64(number)))(t)
		for _, tx := range block.Transactions() {
			if from := must.Get(types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx))(t); from != account {
				continue
			}
			if tx.Nonce() != uint64(len(list)) {
				t.Errorf("nonce %d after %d transactions", tx.Nonce(), len(list))
			}
			list = append(list, tx)
		}
	}
	return list
}

// abroad sends a transaction that the manager does not know of.
func (c *simchain) abroad(t *testing.T, key string, nonce uint64, to common.Address, wei int64) {
	t.Helper()
	must.Do(t, c.node.Client().SendTransaction(t.Context(), transfer(key, nonce, to, wei, 1e11)))
	c.mine()
}

// transfer is a transaction that pays at most maxFee for a unit of gas.
func transfer(key string, nonce uint64, to common.Address, wei, maxFee int64) *types.Transaction {
	private, err := crypto.HexToECDSA(key)
	if err != nil {
		panic(err) // a constant of these tests
	}
	id := new(big.Int).SetUint64(watchtest.ChainID)
	return types.MustSignNewTx(private, types.LatestSignerForChainID(id), &types.DynamicFeeTx{
		ChainID: id, Nonce: nonce, GasTipCap: big.NewInt(min(1e9, maxFee)), GasFeeCap: big.NewInt(maxFee), Gas: 21000, To: &to, Value: big.NewInt(wei),
	})
}

// silent is another chain, whose node takes every question for its newest block and answers none while that of the first answers.
type silent struct{ *simchain }

func (silent) ID() string { return "1338" }

func (c silent) Head(ctx context.Context) (txmgr.Head, error) {
	if c.away.Load() {
		return c.simchain.Head(ctx)
	}
	<-ctx.Done()
	return txmgr.Head{}, ctx.Err()
}
