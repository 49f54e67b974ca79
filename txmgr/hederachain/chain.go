package hederachain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"lockstep/consensus"
	"lockstep/internal/hedera"
	"lockstep/internal/operator"
	"lockstep/mirror"
	"lockstep/txmgr"
	"lockstep/txmgr/ethtx"
)

// defaultInFlight is how many transactions of a signer may be accepted and not yet shown by the
// mirror node. With more than one, all behind a transaction that is lost after its acceptance, or
// refused at consensus, have a wrong nonce there, and the operator is charged for each.
const defaultInFlight = 1

// Config is one network's.
type Config struct {
	ID       uint64 // the chain id that transactions are signed for
	InFlight int    // 0: 1
	// Log is told whether the operator exists and has the key.
	Log *slog.Logger
}

// Chain is a txmgr.Chain of Hedera.
type Chain struct {
	ethtx.Form
	name   string
	traits txmgr.Traits
	nodes  *consensus.Client
	mirror *mirror.Client
	payer  *operatorWatch
}

var (
	_ txmgr.Chain    = (*Chain)(nil)
	_ txmgr.Troubled = (*Chain)(nil)
)

// New returns the driver on two clients of its own, which Run runs and Close closes. It asks
// nothing yet.
func New(c Config, nodes *consensus.Client, reader *mirror.Client) (*Chain, error) {
	if c.ID == 0 {
		return nil, errors.New("a chain needs its id")
	}
	c.InFlight = cmp.Or(c.InFlight, defaultInFlight)
	name := strconv.FormatUint(c.ID, 10)
	look := func(ctx context.Context) (operator.Finding, bool) {
		return operator.Look(ctx, nodes, reader, operatorTimeout)
	}
	return &Chain{
		Form: ethtx.Form{ChainID: c.ID}, name: name, nodes: nodes, mirror: reader,
		payer:  &operatorWatch{look: look, chain: name, log: c.Log},
		traits: txmgr.Traits{Order: txmgr.OrderStrict, Validity: txmgr.ValidTag, InFlight: c.InFlight, Unit: txmgr.Unit{Name: "HBAR", Decimals: 18}},
	}, nil
}

// Run keeps connections warm and the address book fresh, and looks at the operator, until ctx ends.
func (c *Chain) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.nodes.Run(ctx) })
	group.Go(func() error { return c.mirror.Run(ctx) })
	group.Go(func() error { return c.payer.run(ctx) })
	return group.Wait()
}

// Collectors returns the metrics of both clients and of the operator.
func (c *Chain) Collectors() []prometheus.Collector {
	return append(slices.Concat(c.nodes.Collectors(), c.mirror.Collectors()), c.payer)
}

// Trouble says what is wrong with the operator.
func (c *Chain) Trouble() string { return c.payer.Trouble() }

// Close closes the connections.
func (c *Chain) Close() { _ = c.nodes.Close() }

// ID returns the chain's number in decimal.
func (c *Chain) ID() string { return c.name }

// Traits returns what the owner may rely on.
func (c *Chain) Traits() txmgr.Traits { return c.traits }

// Identity returns the hash of the first block, or the chain's number if the mirror node does
// not reach back so far.
func (c *Chain) Identity(ctx context.Context) (string, error) {
	first, err := c.mirror.BlockByNumber(ctx, 0)
	if errors.Is(err, mirror.ErrNotFound) {
		return c.name, nil
	}
	if err != nil {
		return "", err
	}
	return first.Hash.Hex(), nil
}

// Head returns the mirror node's newest block. Its time is the end of the block: everything
// that reached consensus until then is shown.
func (c *Chain) Head(ctx context.Context) (txmgr.Head, error) {
	b, err := c.mirror.LatestBlock(ctx)
	if err != nil {
		return txmgr.Head{}, err
	}
	return txmgr.Head{Number: b.Number, Hash: b.Hash.Hex(), Time: b.To.UnixNano() / 1000}, nil
}

// BlockHash returns the hash of the block at a height, which is final.
func (c *Chain) BlockHash(ctx context.Context, number, _ uint64) (string, error) {
	b, err := c.mirror.BlockByNumber(ctx, number)
	if errors.Is(err, mirror.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return b.Hash.Hex(), nil
}

// Nonces asks the mirror node.
func (c *Chain) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	head, err := c.Head(ctx)
	if err != nil {
		return txmgr.Nonces{}, err
	}
	nonce, err := c.nonce(ctx, common.HexToAddress(account))
	return txmgr.Nonces{Latest: nonce, Head: head}, err
}

// nonce is the next one that the mirror node knows of.
func (c *Chain) nonce(ctx context.Context, account common.Address) (uint64, error) {
	a, err := c.mirror.Account(ctx, account)
	switch {
	case errors.Is(err, mirror.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case a.Nonce == nil:
		return 0, nil
	default:
		return *a.Nonce, nil
	}
}

// HighestPending asks a consensus node, which knows what the mirror node shows seconds later.
// Nodes agree on it, so that the first answer will do.
func (c *Chain) HighestPending(ctx context.Context, account string) (latest, pending uint64, err error) {
	address := common.HexToAddress(account)
	var errs []error
	for _, node := range firstOf(c.nodes.NodesFor(address), maxAsked) {
		nonce, err := c.nodes.NonceAt(ctx, address, node)
		if errors.Is(err, consensus.ErrNoAccount) {
			return 0, 0, nil
		}
		if err == nil {
			return nonce, nonce, nil
		}
		errs = append(errs, err)
	}
	return 0, 0, errors.Join(errs...)
}

// Balance returns the account's weibar.
func (c *Chain) Balance(ctx context.Context, account string) (*big.Int, error) {
	a, err := c.mirror.Account(ctx, common.HexToAddress(account))
	switch {
	case errors.Is(err, mirror.ErrNotFound):
		return new(big.Int), nil
	case err != nil:
		return nil, err
	case !a.BalanceKnown:
		return nil, errors.New("the mirror node names no balance")
	default:
		return a.Balance.Weibar(), nil
	}
}

// Delegated reports whether an authorization made the account's code another's.
func (c *Chain) Delegated(ctx context.Context, account string) (bool, error) {
	a, err := c.mirror.Account(ctx, common.HexToAddress(account))
	if errors.Is(err, mirror.ErrNotFound) {
		return false, nil
	}
	return err == nil && a.Delegation != nil, err
}

// priceMargin is what a transaction may pay above the price of now, in per cent: the price
// follows the exchange rate every hour, and the network charges no more than its price.
const priceMargin = 25

// Market returns the network's price of gas. There are no tips.
func (c *Chain) Market(ctx context.Context) (txmgr.Market, error) {
	fees, err := c.mirror.Fees(ctx)
	if err != nil {
		return txmgr.Market{}, err
	}
	if fees.EthereumTransaction <= 0 {
		return txmgr.Market{}, errors.New("the mirror node names no price of Ethereum transactions")
	}
	price := fees.EthereumTransaction.Weibar()
	market := txmgr.Market{BaseFee: price, Tips: map[string]txmgr.Fees{}, At: time.Now().UnixMicro()}
	for _, speed := range []string{txmgr.SpeedSlow, txmgr.SpeedStandard, txmgr.SpeedFast} {
		highest := new(big.Int).Mul(price, big.NewInt(100+priceMargin))
		market.Tips[speed] = txmgr.Fees{Max: highest.Div(highest, big.NewInt(100)), Tip: new(big.Int)}
	}
	return market, nil
}

// gasAdded is what is put on top of an estimate of a call, in per cent. The network charges at
// least four fifths of a limit.
const gasAdded = 10

// Simulate has the mirror node estimate a call's gas, which tries it too.
func (c *Chain) Simulate(ctx context.Context, call txmgr.Call) (txmgr.Simulation, error) {
	from := common.HexToAddress(call.From)
	q := mirror.CallRequest{Block: "latest", Estimate: true, From: &from, Data: call.Data, Gas: call.Gas}
	if call.To != "" {
		to := common.HexToAddress(call.To)
		q.To = &to
	}
	if call.Value != nil {
		value, ok := hedera.TinybarOf(call.Value)
		if !ok || value.Weibar().Cmp(call.Value) != 0 {
			return txmgr.Simulation{Reason: fmt.Sprintf("the value is no multiple of %d weibar, which is one tinybar", int64(hedera.WeibarPerTinybar))}, nil
		}
		q.Value = value
	}
	output, err := c.mirror.Call(ctx, q)
	var failed *mirror.Error
	switch {
	case errors.As(err, &failed) && (failed.Status == 400 && failed.Told || failed.Data != ""):
		return reverted(failed), nil
	case err != nil:
		return txmgr.Simulation{}, err
	}
	gas := new(big.Int).SetBytes(output)
	if !gas.IsUint64() || gas.Sign() == 0 {
		return txmgr.Simulation{}, errors.New("the mirror node names no gas")
	}
	limit := gas.Uint64()
	if call.To == "" || len(call.Data) > 0 {
		limit += limit * gasAdded / 100
	}
	return txmgr.Simulation{Success: true, Gas: limit}, nil
}

func firstOf[T any](list []T, n int) []T { return list[:min(n, len(list))] }
