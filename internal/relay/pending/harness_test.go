package pending_test

import (
	"crypto/ecdsa"
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/internal/relay/pending"
)

func settings() pending.Config {
	return pending.Config{
		Enabled: true, API: true, MaxEntries: 1000, MaxBytes: 1 << 20, RedisMaxBytes: 1 << 30,
		EntryTTL: envx.Millis(time.Minute), ExecutedTTL: envx.Millis(time.Minute), RedisTimeout: envx.Millis(must.Patience),
		PromisesMaxBytes: 1 << 20, PromisesDeadAfter: envx.Millis(20 * time.Second),
	}
}

// start runs a pool until the test ends, or until the returned function is called.
func start(t *testing.T, cfg pending.Config, client redis.UniversalClient) (*pending.Pool, func()) {
	t.Helper()
	p := pending.New(cfg, pending.Deps{Redis: client, Bodies: true})
	return p, must.Run(t, p.Run)
}

// wallet signs transactions.
type wallet struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	address common.Address
}

func newWallet(t *testing.T) *wallet {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	return &wallet{t, key, crypto.PubkeyToAddress(key.PublicKey)}
}

func (w *wallet) tx(nonce uint64) *eth.Tx { return w.pay(nonce, 1) }

// pay is a transaction that differs from others with its nonce by the value.
func (w *wallet) pay(nonce uint64, tinybars int64) *eth.Tx {
	w.t.Helper()
	raw := must.Get(types.MustSignNewTx(w.key, types.LatestSignerForChainID(big.NewInt(298)), &types.DynamicFeeTx{
		ChainID: big.NewInt(298), Nonce: nonce, Gas: 21000, GasFeeCap: big.NewInt(71e10), To: &common.Address{1},
		Value: new(big.Int).Mul(big.NewInt(tinybars), big.NewInt(1e10)),
	}).MarshalBinary())(w.t)
	return must.Get(eth.DecodeTx(raw))(w.t)
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	return must.Get(strconv.Atoi(text))(t)
}
