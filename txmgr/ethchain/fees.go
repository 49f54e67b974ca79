package ethchain

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/ethrpc"
	"lockstep/txmgr"
)

const (
	// feeBlocks is how many blocks the tips are measured over.
	feeBlocks = 5
	// answersKept and answersFor bound the last answers of all endpoints that a median is taken of.
	answersKept = 5
	answersFor  = 20 * time.Second
	// tipTimes is how many times a node's own suggestion a tip may be.
	tipTimes = 3
	// capTimes is how many times the price of the last hour the market may be before the manager waits.
	capTimes = 20
	// leastCap is what a cap is no lower than, in wei: on a quiet chain twenty times nothing is nothing.
	leastCap = 10_000_000_000
)

// quote is what one endpoint says that fees are.
type quote struct {
	at   time.Time
	base *big.Int    // nil on a chain without a base fee
	gas  uint64      // of the newest block
	tips [3]*big.Int // slow, standard, fast; without a base fee all are the gas price
}

var speeds = [3]string{txmgr.SpeedSlow, txmgr.SpeedStandard, txmgr.SpeedFast}

// history is what fees were.
type history struct {
	last  []quote
	hour  []*big.Int // a price per minute
	since time.Time  // of its newest
}

// Market returns what fees cost: the median over all endpoints, and over the last answers where one endpoint alone could mislead. The price is twice
// the next base fee and a tip.
func (c *Chain) Market(ctx context.Context) (txmgr.Market, error) {
	if c.price != nil {
		market := txmgr.Market{Tips: map[string]txmgr.Fees{}, Cap: c.price, At: time.Now().UnixMicro()}
		for _, speed := range speeds {
			market.Tips[speed] = txmgr.Fees{Max: c.price}
		}
		return market, nil
	}
	list, err := c.quotes(ctx)
	if len(list) == 0 {
		return txmgr.Market{}, err
	}
	for n, q := range list {
		c.blockGas.Store(q.gas)
		for column, tip := range q.tips {
			if c.minTip != nil && q.base != nil && tip.Cmp(c.minTip) < 0 {
				list[n].tips[column] = c.minTip
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.market.add(list, time.Now()), nil
}

// quotes asks every endpoint that is well at once, or, if none is, whoever answers.
func (c *Chain) quotes(ctx context.Context) ([]quote, error) {
	var mu sync.Mutex
	var list []quote
	var errs []error
	var all sync.WaitGroup
	for _, e := range c.client.Order() {
		if since, _ := e.Down(); !since.IsZero() {
			continue
		}
		all.Go(func() {
			q, err := ask(func(calls ...*ethrpc.Call) error { return e.Do(ctx, calls...) })
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			list = append(list, q)
		})
	}
	all.Wait()
	if len(list) > 0 {
		return list, nil
	}
	q, err := ask(func(calls ...*ethrpc.Call) error {
		_, err := c.client.Do(ctx, calls...)
		return err
	})
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	return []quote{q}, nil
}

// ask asks one endpoint in three ways, so that no single one decides.
func ask(do func(...*ethrpc.Call) error) (quote, error) {
	var block header
	var blocks struct {
		BaseFees []*hexutil.Big   `json:"baseFeePerGas"`
		Used     []float64        `json:"gasUsedRatio"`
		Rewards  [][]*hexutil.Big `json:"reward"`
	}
	var price, suggested hexutil.Big
	newest := ethrpc.Ask(&block, "eth_getBlockByNumber", "latest", false)
	past := ethrpc.Ask(&blocks, "eth_feeHistory", hexutil.Uint64(feeBlocks), "latest", []int{10, 50, 90})
	now := ethrpc.Ask(&price, "eth_gasPrice")
	tip := ethrpc.Ask(&suggested, "eth_maxPriorityFeePerGas")
	past.Optional, now.Optional, tip.Optional = true, true, true
	if err := do(newest, past, now, tip); err != nil {
		return quote{}, err
	}
	if err := newest.Need(); err != nil {
		return quote{}, err
	}
	priced, priceErr := now.Answer()
	out := quote{at: time.Now(), gas: uint64(block.GasLimit)}
	var bases []*big.Int
	if n := len(blocks.BaseFees); n > 0 && blocks.BaseFees[n-1] != nil {
		bases = append(bases, blocks.BaseFees[n-1].ToInt())
	}
	if block.BaseFee != nil {
		bases = append(bases, block.BaseFee.ToInt())
	}
	if len(bases) == 0 || block.BaseFee == nil && bases[0].Sign() == 0 {
		if priceErr != nil || !priced {
			return quote{}, errors.Join(errors.New("the endpoint names no price"), priceErr)
		}
		out.tips = [3]*big.Int{price.ToInt(), price.ToInt(), price.ToInt()}
		return out, nil
	}
	suggests, _ := tip.Answer()
	if priced {
		bases = append(bases, new(big.Int).Sub(price.ToInt(), lower(suggested.ToInt(), price.ToInt())))
	}
	out.base = middle(bases)
	least := suggested.ToInt()
	if !suggests {
		least = new(big.Int)
		if priced && price.ToInt().Cmp(out.base) > 0 {
			least.Sub(price.ToInt(), out.base)
		}
	}
	most := new(big.Int).Mul(least, big.NewInt(tipTimes))
	for column := range speeds {
		t := middle(paid(blocks.Rewards, blocks.Used, column))
		switch {
		case t == nil || t.Sign() == 0:
			t = least
		case suggests || priced:
			t = lower(t, most)
		}
		out.tips[column] = new(big.Int).Set(t)
	}
	return out, nil
}

// paid returns the tips of blocks that have transactions.
func paid(rewards [][]*hexutil.Big, used []float64, column int) (list []*big.Int) {
	for n, block := range rewards {
		empty := n < len(used) && used[n] == 0
		if column < len(block) && block[column] != nil && !empty {
			list = append(list, block[column].ToInt())
		}
	}
	return list
}

// add puts quotes with those before them, and returns the market that they make.
func (h *history) add(list []quote, now time.Time) txmgr.Market {
	h.last = slices.DeleteFunc(append(h.last, list...), func(q quote) bool { return now.Sub(q.at) > answersFor })
	if most := max(answersKept, len(list)); len(h.last) > most {
		h.last = h.last[len(h.last)-most:]
	}
	// A chain that has begun to have a base fee has one from now on.
	legacy := list[len(list)-1].base == nil
	var bases []*big.Int
	var tips [3][]*big.Int
	for _, q := range h.last {
		if (q.base == nil) != legacy {
			continue
		}
		if !legacy {
			bases = append(bases, q.base)
		}
		for n := range tips {
			tips[n] = append(tips[n], q.tips[n])
		}
	}
	market := txmgr.Market{Tips: map[string]txmgr.Fees{}, At: now.UnixMicro()}
	if !legacy {
		market.BaseFee = middle(bases)
	}
	for n, speed := range speeds {
		t := middle(tips[n])
		if legacy {
			t = new(big.Int).Mul(t, big.NewInt([3]int64{100, 110, 130}[n]))
			market.Tips[speed] = txmgr.Fees{Max: t.Div(t, big.NewInt(100))}
			continue
		}
		most := new(big.Int).Lsh(market.BaseFee, 1)
		market.Tips[speed] = txmgr.Fees{Max: most.Add(most, t), Tip: t}
	}
	market.Cap = h.limit(market.Tips[txmgr.SpeedFast].Max, now)
	return market
}

// limit notes a price and returns the cap that the last hour sets; nil as long as nothing is known of it.
func (h *history) limit(price *big.Int, now time.Time) *big.Int {
	limit := middle(h.hour)
	if now.Sub(h.since) > 2*time.Hour {
		h.hour, limit = nil, nil
	}
	if now.Sub(h.since) >= time.Minute || len(h.hour) == 0 {
		h.hour, h.since = append(h.hour, price), now
		if len(h.hour) > 60 {
			h.hour = h.hour[1:]
		}
	}
	if limit == nil {
		return nil
	}
	limit = new(big.Int).Mul(limit, big.NewInt(capTimes))
	if least := big.NewInt(leastCap); limit.Cmp(least) < 0 {
		return least
	}
	return limit
}

// middle returns the median, the lower one of two; nil of nothing.
func middle(list []*big.Int) *big.Int {
	if len(list) == 0 {
		return nil
	}
	sorted := slices.SortedFunc(slices.Values(list), (*big.Int).Cmp)
	return sorted[(len(sorted)-1)/2]
}

func lower(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}
