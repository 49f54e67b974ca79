package api_test

import (
	"context"
	"errors"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/ethclient/simulated"
	"github.com/ethereum/go-ethereum/node"

	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/ethtx"
)

// simchain is go-ethereum's own node in this process, as a chain of the manager. It mines a
// block after each batch of sends.
type simchain struct {
	ethtx.Form
	backend *simulated.Backend
	mu      sync.Mutex // one block at a time
	sent    map[string]int
	pooled  atomic.Bool // what is sent waits for mine
	away    atomic.Bool // the node does not answer
}

func newChain(t *testing.T, funded ...common.Address) *simchain {
	t.Helper()
	alloc := types.GenesisAlloc{}
	for _, a := range funded {
		alloc[a] = types.Account{Balance: new(big.Int).Lsh(big.NewInt(1), 80)}
	}
	c := &simchain{Form: ethtx.Form{ChainID: 1337}, sent: map[string]int{}, backend: simulated.NewBackend(alloc, func(_ *node.Config, e *ethconfig.Config) {
		e.Miner.Recommit = time.Hour // else a busy machine's block goes without some of its transactions
	})}
	t.Cleanup(func() { c.backend.Close() })
	return c
}

func (c *simchain) ID() string { return "1337" }

func (c *simchain) Traits() txmgr.Traits {
	return txmgr.Traits{Mempool: true, InFlight: 64}
}

func (c *simchain) Identity(ctx context.Context) (string, error) { return c.BlockHash(ctx, 0) }

// Account keeps the form with a checksum, so that these tests can say Hex.
func (c *simchain) Account(text string) (string, error) {
	account, err := c.Form.Account(text)
	return common.HexToAddress(account).Hex(), err
}

func (c *simchain) Decode(raw []byte) (txmgr.Decoded, error) {
	d, err := c.Form.Decode(raw)
	for _, account := range []*string{&d.Signer, &d.From, &d.To} {
		if *account != "" {
			*account = common.HexToAddress(*account).Hex()
		}
	}
	return d, err
}

func (c *simchain) Head(ctx context.Context) (txmgr.Head, error) {
	if c.away.Load() {
		return txmgr.Head{}, errors.New("the node does not answer")
	}
	h, err := c.backend.Client().HeaderByNumber(ctx, nil)
	if err != nil {
		return txmgr.Head{}, err
	}
	return txmgr.Head{Number: h.Number.Uint64(), Hash: h.Hash().Hex(), Time: int64(h.Time) * 1e6}, nil
}

func (c *simchain) BlockHash(ctx context.Context, number uint64) (string, error) {
	h, err := c.backend.Client().HeaderByNumber(ctx, new(big.Int).SetUint64(number))
	if errors.Is(err, ethereum.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return h.Hash().Hex(), nil
}

func (c *simchain) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	head, err := c.Head(ctx)
	if err != nil {
		return txmgr.Nonces{}, err
	}
	latest, err := c.backend.Client().NonceAt(ctx, common.HexToAddress(account), nil)
	return txmgr.Nonces{Latest: latest, Head: head}, err
}

func (c *simchain) HighestPending(ctx context.Context, account string) (uint64, error) {
	return c.backend.Client().PendingNonceAt(ctx, common.HexToAddress(account))
}

func (c *simchain) Balance(ctx context.Context, account string) (*big.Int, error) {
	return c.backend.Client().BalanceAt(ctx, common.HexToAddress(account), nil)
}

func (c *simchain) Delegated(context.Context, string) (bool, error) { return false, nil }

func (c *simchain) Market(ctx context.Context) (txmgr.Market, error) {
	h, err := c.backend.Client().HeaderByNumber(ctx, nil)
	if err != nil {
		return txmgr.Market{}, err
	}
	m := txmgr.Market{BaseFee: h.BaseFee, Tips: map[string]txmgr.Fees{}, At: time.Now().UnixMicro()}
	for i, speed := range []string{txmgr.SpeedSlow, txmgr.SpeedStandard, txmgr.SpeedFast} {
		tip := big.NewInt(int64(i+1) * 1e9)
		m.Tips[speed] = txmgr.Fees{Tip: tip, Max: new(big.Int).Add(tip, new(big.Int).Lsh(h.BaseFee, 1))}
	}
	return m, nil
}

func message(call txmgr.Call) ethereum.CallMsg {
	msg := ethereum.CallMsg{From: common.HexToAddress(call.From), Value: call.Value, Data: call.Data, Gas: call.Gas}
	if call.To != "" {
		to := common.HexToAddress(call.To)
		msg.To = &to
	}
	return msg
}

func (c *simchain) Simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	gas, err := c.backend.Client().EstimateGas(ctx, message(call))
	if err != nil && strings.Contains(err.Error(), "revert") {
		return txmgr.Simulation{Reason: err.Error()}, nil
	}
	return txmgr.Simulation{Success: err == nil, Gas: gas}, err
}

func (c *simchain) Send(ctx context.Context, list []txmgr.Signed) []error {
	errs := make([]error, len(list))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, signed := range list {
		c.sent[signed.Hash]++
		var tx types.Transaction
		if err := tx.UnmarshalBinary(signed.Raw); err != nil {
			errs[i] = &txmgr.SendError{Class: txmgr.ClassFatal, Text: err.Error()}
			continue
		}
		if err := c.backend.Client().SendTransaction(ctx, &tx); err != nil {
			class := txmgr.ClassAmbiguous
			switch text := err.Error(); {
			case strings.Contains(text, "already known"):
				class = txmgr.ClassKnown
			case strings.Contains(text, "nonce too low"):
				class = txmgr.ClassNonceUsed
			}
			errs[i] = &txmgr.SendError{Class: class, Text: err.Error()}
		}
	}
	if !c.pooled.Load() {
		c.backend.Commit()
	}
	return errs
}

// mine makes a block of what is in the pool.
func (c *simchain) mine() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backend.Commit()
}

func (c *simchain) Receipts(ctx context.Context, list []txmgr.Signed) (txmgr.Head, []txmgr.Lookup, error) {
	head, err := c.Head(ctx)
	if err != nil {
		return head, nil, err
	}
	var found []txmgr.Lookup
	for _, signed := range list {
		r, err := c.backend.Client().TransactionReceipt(ctx, common.HexToHash(signed.Hash))
		look := txmgr.Lookup{Hash: signed.Hash}
		switch {
		case err == nil:
			look.Receipt = &txmgr.Receipt{
				Hash: signed.Hash, Block: r.BlockNumber.Uint64(), BlockHash: r.BlockHash.Hex(), Success: r.Status == 1, GasUsed: r.GasUsed, GasPrice: r.EffectiveGasPrice,
			}
		case !errors.Is(err, ethereum.NotFound):
			look.Err = err
		}
		found = append(found, look)
	}
	return head, found, nil
}

func (c *simchain) Consumer(ctx context.Context, account string, nonce uint64) (*txmgr.Consumer, error) {
	head, err := c.Head(ctx)
	if err != nil {
		return nil, err
	}
	for number := uint64(0); number <= head.Number; number++ {
		block, err := c.backend.Client().BlockByNumber(ctx, new(big.Int).SetUint64(number))
		if err != nil {
			return nil, err
		}
		for _, tx := range block.Transactions() {
			if from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(1337)), tx); err == nil && from.Hex() == account && tx.Nonce() == nonce {
				return &txmgr.Consumer{Hash: tx.Hash().Hex(), Block: number, BlockHash: block.Hash().Hex(), Head: head}, nil
			}
		}
	}
	return nil, nil
}

func (c *simchain) Expired(context.Context, txmgr.Signed) (bool, error) { return false, nil }

func (c *simchain) Renew(context.Context, txmgr.Signed, string) (txmgr.Signed, error) {
	return txmgr.Signed{}, txmgr.ErrNotPossible
}

// executed counts the transactions of an account that are in blocks, by nonce.
func (c *simchain) executed(t *testing.T, account common.Address) []*types.Transaction {
	t.Helper()
	head := must.Get(c.Head(t.Context()))(t)
	var list []*types.Transaction
	for number := uint64(1); number <= head.Number; number++ {
		block := must.Get(c.backend.Client().BlockByNumber(t.Context(), new(big.Int).SetUint64(number)))(t)
		for _, tx := range block.Transactions() {
			from := must.Get(types.Sender(types.LatestSignerForChainID(big.NewInt(1337)), tx))(t)
			if from == account {
				if tx.Nonce() != uint64(len(list)) {
					t.Errorf("nonce %d after %d transactions", tx.Nonce(), len(list))
				}
				list = append(list, tx)
			}
		}
	}
	return list
}

// give sends wei to an account from the caller's.
func (c *simchain) give(t *testing.T, to common.Address, wei int64) {
	t.Helper()
	key := must.Get(crypto.HexToECDSA(callerKey))(t)
	tx := types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(1337)), &types.DynamicFeeTx{
		ChainID: big.NewInt(1337), GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(1e11), Gas: 21000, To: &to, Value: big.NewInt(wei),
	})
	must.Do(t, c.backend.Client().SendTransaction(t.Context(), tx))
	c.mine()
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
