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
