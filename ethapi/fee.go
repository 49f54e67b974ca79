package ethapi

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/mirror"
	"lockstep/rpc"
)

// gasPrice is eth_gasPrice.
func (a *API) gasPrice(ctx context.Context, _ *rpc.Params) (any, error) {
	price, err := a.currentPrice(ctx)
	if err != nil {
		return nil, err
	}
	return (*hexutil.Big)(price), nil
}

// currentPrice returns the network's gas price in weibar with the configured buffer,
// in whole tinybars, rounded half up.
func (a *API) currentPrice(ctx context.Context) (*big.Int, error) {
	fees, err := a.mirror.Fees(ctx)
	if missing, err := notFound(err); err != nil {
		return nil, err
	} else if missing || fees.EthereumTransaction <= 0 {
		return nil, eth.ErrNoGasPrice
	}
	return a.buffered(fees.EthereumTransaction), nil
}

func (a *API) buffered(price hedera.Tinybar) *big.Int {
	price += (price*hedera.Tinybar(a.cfg.GasPriceBufferPercent) + 50) / 100
	return price.Weibar()
}

// priceAt returns the gas price in weibar that the network had at a block. A mirror node that does not know it
// any more gives the present price.
func (a *API) priceAt(ctx context.Context, at hedera.Timestamp) (*big.Int, error) {
	price, err := a.mirror.GasPriceAt(ctx, at)
	if errors.Is(err, mirror.ErrNotFound) || err == nil && price <= 0 {
		fees, err := a.mirror.Fees(ctx)
		if missing, err := notFound(err); missing || err != nil {
			return new(big.Int), err
		}
		price = fees.EthereumTransaction
	} else if err != nil {
		return nil, err
	}
	return price.Weibar(), nil
}

// feeHistory is eth_feeHistory.
func (a *API) feeHistory(ctx context.Context, p *rpc.Params) (any, error) {
	count, ok := countOf(p.At(0))
	if !ok {
		return nil, eth.ErrInvalidParam(0, "%s, value: %s", HexRule().Phrase, p.At(0).Text())
	}
	if count == 0 {
		return json.RawMessage(`{"gasUsedRatio":null,"oldestBlock":"0x0"}`), nil
	}
	if err := a.rising(p.At(2)); err != nil {
		return nil, err
	}
	newest, err := blockRef(p.At(1))
	if err != nil {
		return nil, err
	}
	head, err := a.headFor(ctx, &newest)
	if err != nil {
		return nil, err
	}
	last, err := a.number(ctx, newest, head)
	if err != nil {
		return nil, err
	}
	if last > head.Number {
		return nil, eth.ErrBeyondHead(last, head.Number)
	}
	count = min(count, max(a.cfg.FeeHistoryBlocks, 1), last+1)
	h := &feeHistory{Oldest: hexutil.Uint64(last + 1 - count)}
	if a.cfg.FeeHistoryFixed {
		err = a.fixedHistory(ctx, h, int(count))
	} else {
		err = a.readHistory(ctx, h, last, head)
	}
	if err != nil {
		return nil, err
	}
	if percentiles := p.At(2).Len(); percentiles > 0 { // there are no tips
		h.Reward = slices.Repeat([][]string{slices.Repeat([]string{"0x0"}, percentiles)}, len(h.Ratios))
	}
	return h, nil
}

// rising checks that percentiles rise, as Ethereum requires. The TypeScript relay accepts any order.
func (a *API) rising(percentiles jsonx.Value) error {
	if a.hiero() {
		return nil
	}
	i, before := 0, -1.0
	for v := range percentiles.Elements() {
		percentile := v.Float()
		if percentile <= before {
			return eth.ErrPercentileOrder(i, before, percentile)
		}
		i, before = i+1, percentile
	}
	return nil
}

// number returns the number that a reference by tag or number stands for.
func (a *API) number(ctx context.Context, ref eth.BlockRef, head *mirror.Block) (uint64, error) {
	if ref.IsLatest() {
		return head.Number, nil
	}
	if n, ok := ref.Number(); ok {
		return n, nil
	}
	block, err := a.block(ctx, ref)
	if err != nil {
		return 0, err
	}
	if block == nil {
		return 0, eth.ErrUnknownBlock
	}
	return block.Number, nil
}

// fixedHistory shows the present price for all blocks.
func (a *API) fixedHistory(ctx context.Context, h *feeHistory, count int) error {
	price, err := a.currentPrice(ctx)
	if err != nil {
		return err
	}
	h.Fees = slices.Repeat([]*hexutil.Big{(*hexutil.Big)(price)}, count+1)
	h.Ratios = slices.Repeat([]float64{0.5}, count)
	return nil
}

// readHistory reads the blocks and the one after them, whose base fee is known
// unless the newest is the head.
func (a *API) readHistory(ctx context.Context, h *feeHistory, last uint64, head *mirror.Block) error {
	var blocks []*mirror.Block
	newest := min(last+1, head.Number)
	for block, err := range a.mirror.Blocks(ctx, uint64(h.Oldest), newest) {
		if err != nil {
			return err
		}
		blocks = append(blocks, block)
	}
	if n := len(blocks); n == 0 || blocks[n-1].Number != newest {
		return mirror.ErrImmature // what is missing would shift the others
	}
	h.Oldest = hexutil.Uint64(blocks[0].Number) // a mirror node may begin later
	h.Fees = make([]*hexutil.Big, len(blocks))
	err := each(ctx, a.cfg.Concurrency, blocks, func(ctx context.Context, i int, b *mirror.Block) error {
		fee, err := a.priceAt(ctx, b.To)
		h.Fees[i] = (*hexutil.Big)(fee)
		return err
	})
	if err != nil {
		return err
	}
	for _, b := range blocks {
		if b.Number <= last {
			h.Ratios = append(h.Ratios, min(1, float64(b.GasUsed)/float64(gasLimit(b.HAPI))))
		}
	}
	if len(h.Fees) == len(h.Ratios) && len(h.Fees) > 0 {
		h.Fees = append(h.Fees, h.Fees[len(h.Fees)-1])
	}
	return nil
}

// feeHistory is the result of eth_feeHistory. Its shape is go-ethereum's.
type feeHistory struct {
	Fees   []*hexutil.Big `json:"baseFeePerGas"`
	Ratios []float64      `json:"gasUsedRatio"`
	Oldest hexutil.Uint64 `json:"oldestBlock"`
	Reward [][]string     `json:"reward,omitempty"`
}

// Block gas limits: since protocol version 0.69.0, and before.
const (
	blockGasLimit    = 150_000_000
	oldBlockGasLimit = 30_000_000
)

// gasLimit returns the gas limit of a block by its protocol version.
func gasLimit(version string) uint64 {
	if i := strings.IndexAny(version, "-+"); i >= 0 {
		version = version[:i]
	}
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return oldBlockGasLimit
	}
	var n [3]uint64
	for i, part := range parts {
		var err error
		if n[i], err = strconv.ParseUint(part, 10, 32); err != nil {
			return oldBlockGasLimit
		}
	}
	if n[0] > 0 || n[1] >= 69 {
		return blockGasLimit
	}
	return oldBlockGasLimit
}
