package bench

import (
	"context"
	"fmt"
	"math/big"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// fees is what every transaction of a session offers.
type fees struct {
	chainID *big.Int
	cap     *big.Int // maxFeePerGas, weibar
	tip     *big.Int // maxPriorityFeePerGas, weibar; Hedera ignores it
}

// A transfer is one transaction of the load and what became of it. The sending
// goroutine writes sent before the request leaves; the goroutine that has the answer
// writes the rest; nobody else looks until the run is over.
type transfer struct {
	sender int
	nonce  uint64
	hash   common.Hash
	raw    []byte

	verdict verdict
	nonceNo bool // refused because of its nonce
}

// verdict is what the target answered.
type verdict uint8

const (
	planned    verdict = iota // not sent
	unanswered                // sent, no answer yet
	garbled                   // sent, and no usable answer came back
	accepted                  // answered with its hash
	refused                   // answered with an error
)

// signAll makes the transactions of a run, sender × count + offset. It takes the CPU
// there is, before the clock starts.
func signAll(ctx context.Context, c Config, senders []*sender, f fees, gas uint64, p *progress) ([]transfer, error) {
	txs := make([]transfer, len(senders)*c.Count)
	signer := types.LatestSignerForChainID(f.chainID)
	p.begin("sign", len(txs))
	defer p.end()

	var next atomic.Int64
	var group sync.WaitGroup
	var once sync.Once
	var failure error
	for range min(len(txs), runtime.GOMAXPROCS(0)) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(txs) {
					return
				}
				s := senders[i/c.Count]
				if err := txs[i].sign(c, s, i/c.Count, s.start+uint64(i%c.Count), signer, f, gas); err != nil {
					once.Do(func() { failure = err })
					return
				}
				p.add(1)
			}
		})
	}
	group.Wait()
	if failure == nil {
		failure = ctx.Err()
	}
	return txs, failure
}

func (t *transfer) sign(c Config, s *sender, index int, nonce uint64, signer types.Signer, f fees, gas uint64) error {
	to := s.addr
	if c.To != nil {
		to = *c.To
	}
	tx, err := types.SignNewTx(s.key, signer, &types.DynamicFeeTx{
		ChainID: f.chainID, Nonce: nonce, GasTipCap: f.tip, GasFeeCap: f.cap,
		Gas: gas, To: &to, Value: c.Value, Data: c.Data,
	})
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	*t = transfer{sender: index, nonce: nonce, hash: tx.Hash(), raw: raw}
	return nil
}

// costOf is the most that n transactions can take from a sender, weibar.
func costOf(c Config, f fees, gas uint64, n int) *big.Int {
	one := new(big.Int).Mul(f.cap, new(big.Int).SetUint64(gas))
	one.Add(one, c.Value)
	return one.Mul(one, big.NewInt(int64(n)))
}

// readFees asks the target for its chain and price.
func readFees(ctx context.Context, c Config, state *client) (fees, error) {
	chainID, err := state.quantity(ctx, "eth_chainId")
	if err != nil {
		return fees{}, err
	}
	f := fees{chainID: chainID, cap: c.FeeCap, tip: new(big.Int)}
	if f.cap == nil {
		price, err := state.quantity(ctx, "eth_gasPrice")
		if err != nil {
			return fees{}, err
		}
		f.cap = new(big.Int).Add(price, new(big.Int).Rsh(price, 2))
	}
	// Not every relay has the method; without a tip every Hedera relay accepts too.
	tipCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if tip, err := state.quantity(tipCtx, "eth_maxPriorityFeePerGas"); err == nil && tip.Cmp(f.cap) <= 0 {
		f.tip = tip
	}
	return f, nil
}
