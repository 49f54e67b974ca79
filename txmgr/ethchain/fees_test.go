package ethchain

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/must"
	"lockstep/txmgr"
)

// gwei is what fees are named in here.
func gwei(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1_000_000_000)) }

// priced is what an endpoint says of fees.
type priced struct {
	next, base, price, suggested *big.Int // base nil: the blocks have none; suggested nil: it has no such method
	tips                         []int64  // of the last blocks, in gwei
	used                         []float64
}

func (p priced) say(method string, _ []any) (any, error) {
	hex := func(n *big.Int) any { return (*hexutil.Big)(n) }
	switch method {
	case "eth_getBlockByNumber":
		return map[string]any{"number": "0x10", "hash": block, "timestamp": "0x1", "baseFeePerGas": hex(p.base)}, nil
	case "eth_feeHistory":
		if p.next == nil {
			return nil, errors.New("the method eth_feeHistory does not exist/is not available")
		}
		rewards := make([][]any, len(p.tips))
		for n, tip := range p.tips {
			rewards[n] = []any{hex(gwei(tip)), hex(gwei(tip)), hex(gwei(tip))}
		}
		return map[string]any{"baseFeePerGas": []any{hex(p.base), hex(p.next)}, "gasUsedRatio": p.used, "reward": rewards}, nil
	case "eth_gasPrice":
		return hex(p.price), nil
	case "eth_maxPriorityFeePerGas":
		if p.suggested == nil {
			return nil, errors.New("the method eth_maxPriorityFeePerGas does not exist/is not available")
		}
		return hex(p.suggested), nil
	default:
		return nil, errors.New("no such method")
	}
}

// TestMarket: no single answer, no single endpoint and no stranger's transaction sets what is paid.
func TestMarket(t *testing.T) {
	usual := priced{next: gwei(20), base: gwei(20), price: gwei(21), suggested: gwei(1), tips: []int64{1, 1, 1}, used: []float64{0.5, 0.5, 0.5}}
	with := func(change func(*priced)) priced {
		p := usual
		change(&p)
		return p
	}
	for name, row := range map[string]struct {
		endpoints []priced
		base      *big.Int
		tip, most *big.Int // of the speed standard
	}{
		"usual":                {[]priced{usual}, gwei(20), gwei(1), gwei(41)},
		"an absurd history":    {[]priced{with(func(p *priced) { p.next = gwei(1_000_000) })}, gwei(20), gwei(1), gwei(41)},
		"an absurd price":      {[]priced{with(func(p *priced) { p.price = gwei(1_000_000) })}, gwei(20), gwei(1), gwei(41)},
		"a stranger's tip":     {[]priced{with(func(p *priced) { p.tips, p.used = []int64{0, 50_000, 0}, []float64{0, 0.001, 0} })}, gwei(20), gwei(3), gwei(43)},
		"one of many tips":     {[]priced{with(func(p *priced) { p.tips = []int64{1, 50_000, 1} })}, gwei(20), gwei(1), gwei(41)},
		"empty blocks":         {[]priced{with(func(p *priced) { p.tips, p.used = []int64{0, 0, 2}, []float64{0, 0, 0.2} })}, gwei(20), gwei(2), gwei(42)},
		"no suggestion":        {[]priced{with(func(p *priced) { p.suggested, p.price, p.tips = nil, gwei(22), []int64{90} })}, gwei(20), gwei(6), gwei(46)},
		"a base fee of 0":      {[]priced{{next: new(big.Int), base: new(big.Int), price: gwei(1), suggested: gwei(1)}}, new(big.Int), gwei(1), gwei(1)},
		"one of two lies":      {[]priced{usual, with(func(p *priced) { p.next, p.base, p.price = gwei(9e6), gwei(9e6), gwei(9e6) })}, gwei(20), gwei(1), gwei(41)},
		"no base fee":          {[]priced{{price: gwei(10)}}, nil, nil, gwei(11)},
		"no history, but base": {[]priced{with(func(p *priced) { p.next = nil })}, gwei(20), gwei(1), gwei(41)},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{ID: 5, Timeout: time.Minute}
			for _, p := range row.endpoints {
				cfg.URLs = append(cfg.URLs, scripted(t, p.say))
			}
			c := must.Get(New(cfg))(t)
			defer c.Close()
			market := must.Get(c.Market(t.Context()))(t)
			same := func(a, b *big.Int) bool { return a == nil && b == nil || a != nil && b != nil && a.Cmp(b) == 0 }
			fees := market.Tips[txmgr.SpeedStandard]
			if !same(market.BaseFee, row.base) || !same(fees.Tip, row.tip) || !same(fees.Max, row.most) {
				t.Errorf("the base fee is %v, the tip %v, the price %v; want %v, %v, %v", market.BaseFee, fees.Tip, fees.Max, row.base, row.tip, row.most)
			}
		})
	}
}

// TestMarketRemembers: an endpoint that names an absurd price for a moment, in all of its answers, is not believed, and what the last hour cost
// sets a cap.
func TestMarketRemembers(t *testing.T) {
	var h history
	at := time.Unix(1_000_000, 0)
	quoted := func(base int64) quote {
		return quote{at: at, base: gwei(base), tips: [3]*big.Int{gwei(1), gwei(1), gwei(1)}}
	}
	for range 10 {
		h.add([]quote{quoted(20)}, at)
		at = at.Add(2 * time.Second)
	}
	market := h.add([]quote{quoted(1_000_000)}, at)
	if market.BaseFee.Cmp(gwei(20)) != 0 || market.Cap.Cmp(gwei(41*20)) != 0 {
		t.Errorf("one absurd answer: the base fee is %v, the cap %v", market.BaseFee, market.Cap)
	}
	for range 30 { // it stays: then it is the market, but nothing is paid beyond the cap
		at = at.Add(2 * time.Second)
		market = h.add([]quote{quoted(1_000_000)}, at)
	}
	if market.BaseFee.Cmp(gwei(1_000_000)) != 0 || market.Cap.Cmp(gwei(41*20)) != 0 {
		t.Errorf("thirty of them: the base fee is %v, the cap %v", market.BaseFee, market.Cap)
	}
	for range 90 {
		at = at.Add(time.Minute)
		market = h.add([]quote{quoted(1_000_000)}, at)
	}
	if market.Cap.Cmp(market.BaseFee) < 0 {
		t.Errorf("after an hour and a half: the base fee is %v, the cap %v", market.BaseFee, market.Cap)
	}
}

// TestMargin: the margin on top of an estimate makes no transaction one that is refused, and a cap of the settings refuses what takes more.
func TestMargin(t *testing.T) {
	none, half := 0, 50
	for name, c := range map[string]struct {
		estimate, block uint64
		cfg             Config
		want            uint64 // 0: refused
	}{
		"a fifth":                     {100_000, 30_000_000, Config{}, 120_000},
		"none":                        {100_000, 30_000_000, Config{GasAdded: &none}, 100_000},
		"half":                        {100_000, 30_000_000, Config{GasAdded: &half}, 150_000},
		"the cap of EIP-7825":         {16_000_000, 60_000_000, Config{}, 1 << 24},
		"a chain without it":          {20_000_000, 60_000_000, Config{}, 20_000_000},
		"a small block":               {900_000, 1_000_000, Config{}, 1_000_000},
		"a cap of the settings":       {100_000, 30_000_000, Config{GasCap: 110_000}, 110_000},
		"above a cap of the settings": {100_000, 30_000_000, Config{GasCap: 90_000}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			usual := priced{next: gwei(20), base: gwei(20), price: gwei(21), suggested: gwei(1)}
			c.cfg.ID, c.cfg.Timeout = 5, time.Minute
			c.cfg.URLs = []string{scripted(t, func(method string, params []any) (any, error) {
				switch method {
				case "eth_estimateGas":
					return hexutil.Uint64(c.estimate), nil
				case "eth_getBlockByNumber":
					return map[string]any{"number": "0x10", "hash": block, "timestamp": "0x1", "baseFeePerGas": (*hexutil.Big)(gwei(20)), "gasLimit": hexutil.Uint64(c.block)}, nil
				default:
					return usual.say(method, params)
				}
			})}
			chain := must.Get(New(c.cfg))(t)
			defer chain.Close()
			must.Get(chain.Market(t.Context()))(t)
			got, err := chain.Simulate(t.Context(), txmgr.Call{From: "0x01", To: "0x02", Value: new(big.Int), Data: []byte{1}})
			if got.Gas != c.want || (c.want == 0) != errors.Is(err, txmgr.ErrInvalid) {
				t.Errorf("%d, %v; want %d", got.Gas, err, c.want)
			}
		})
	}
}

// TestPricesOfTheSettings: a floor lifts tips, a fixed price asks nobody, and a chain is one of development if the settings say so.
func TestPricesOfTheSettings(t *testing.T) {
	usual := priced{next: gwei(20), base: gwei(20), price: gwei(21), suggested: gwei(1), tips: []int64{1}, used: []float64{0.5}}
	yes := true
	floor := must.Get(New(Config{ID: 5, URLs: []string{scripted(t, usual.say)}, MinTip: gwei(30), Dev: &yes, Timeout: time.Minute}))(t)
	defer floor.Close()
	market, err := floor.Market(t.Context())
	if fees := market.Tips[txmgr.SpeedSlow]; err != nil || fees.Tip.Cmp(gwei(30)) != 0 || fees.Max.Cmp(gwei(70)) != 0 || !floor.Traits().Dev {
		t.Errorf("with a floor: %+v, %v", market, err)
	}
	fixed := must.Get(New(Config{ID: 5, URLs: []string{"http://127.0.0.1:1"}, GasPrice: new(big.Int)}))(t)
	defer fixed.Close()
	market, err = fixed.Market(t.Context())
	if fees := market.Tips[txmgr.SpeedFast]; err != nil || fees.Max.Sign() != 0 || fees.Tip != nil || market.BaseFee != nil {
		t.Errorf("with a fixed price: %+v, %v", market, err)
	}
}
