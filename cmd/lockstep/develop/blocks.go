package develop

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet"
	"lockstep/internal/eth"
	"lockstep/rpc"
)

// blockMethods say what the next blocks are like. Some of what tools can set on other chains does
// not exist on Hedera: those methods say so, for a tool that believes to have set it would be wrong.
func (d *Developer) blockMethods() []rpc.Method {
	return concat(
		named(d.setSeed(true), "hardhat_setPrevRandao", "evm_setPrevRandao"), named(d.setSeed(nil), "anvil_setPrevRandao"),
		named(d.setApart, "anvil_setBlockTimestampInterval", "evm_setBlockTimestampInterval"),
		named(d.removeApart, "anvil_removeBlockTimestampInterval", "evm_removeBlockTimestampInterval"),
		named(d.drop(false), "hardhat_dropTransaction"), named(d.drop(nil), "anvil_dropTransaction"),
		named(d.dropAll, "anvil_dropAllTransactions", "anvil_removePoolTransactions"),
		named(d.nodeInfo, "anvil_nodeInfo", "hardhat_nodeInfo"),
		named(absent("blocks have no base fee: the price of gas is the network's, and the same for everybody"),
			"hardhat_setNextBlockBaseFeePerGas", "anvil_setNextBlockBaseFeePerGas", "hardhat_setMinGasPrice", "anvil_setMinGasPrice"),
		named(absent("the coinbase is always 0.0.98"), "hardhat_setCoinbase", "anvil_setCoinbase"),
		named(absent("a block has no limit of gas; a transaction has one, 15,000,000"), "evm_setBlockGasLimit", "anvil_setBlockGasLimit", "hardhat_setBlockGasLimit"),
		named(absent("the chain id is the network's and cannot be changed: signatures contain it"), "anvil_setChainId"),
	)
}

// absent answers that Hedera has no such thing.
func absent(why string) rpc.Handler {
	return func(context.Context, *rpc.Params) (any, error) {
		return nil, eth.ErrInvalidArguments("Hedera has no such thing: %s", why)
	}
}

// setSeed is hardhat_setPrevRandao: the randomness of the next block.
func (d *Developer) setSeed(result any) rpc.Handler {
	return func(_ context.Context, p *rpc.Params) (any, error) {
		seed := p.At(0).Big()
		if seed == nil || seed.BitLen() > 256 {
			return nil, eth.ErrInvalidParam(0, "want 32 bytes")
		}
		d.ledger.SetSeed(common.BigToHash(seed))
		return result, nil
	}
}

// setApart is anvil_setBlockTimestampInterval.
func (d *Developer) setApart(_ context.Context, p *rpc.Params) (any, error) {
	seconds, err := secondsOf(p)
	if err != nil {
		return nil, err
	}
	d.ledger.SetApart(int64(seconds))
	return nil, nil
}

func (d *Developer) removeApart(context.Context, *rpc.Params) (any, error) {
	d.ledger.SetApart(0)
	return true, nil
}

// drop is hardhat_dropTransaction. Transactions are executed as they come, so that there is never
// one that could be dropped: either nobody knows it, or it is too late.
func (d *Developer) drop(unknown any) rpc.Handler {
	return func(_ context.Context, p *rpc.Params) (any, error) {
		hash := p.At(0).Bytes()
		if len(hash) != common.HashLength {
			return nil, eth.ErrInvalidParam(0, "want a hash of 32 bytes")
		}
		if len(d.ledger.Handled().RecordsByEthereumHash(common.Hash(hash))) > 0 {
			return nil, eth.ErrInvalidArguments("transaction %s is executed already: Hedera has no pool that it could be dropped from", hexutil.Encode(hash))
		}
		return unknown, nil
	}
}

// dropAll is anvil_dropAllTransactions: nothing waits to be executed.
func (d *Developer) dropAll(context.Context, *rpc.Params) (any, error) {
	return nil, nil
}

// nodeInfo is anvil_nodeInfo. It says what the relay says of its newest block.
func (d *Developer) nodeInfo(ctx context.Context, _ *rpc.Params) (any, error) {
	answer, err := d.self.call(ctx, "eth_getBlockByNumber", "latest", false)
	if err != nil {
		return nil, err
	}
	var block struct {
		Number, BaseFeePerGas, GasLimit, Hash string
		Timestamp                             hexutil.Uint64
	}
	if err := json.Unmarshal(answer, &block); err != nil {
		return nil, fmt.Errorf("the newest block: %w", err)
	}
	view := d.ledger.View()
	return map[string]any{
		"currentBlockNumber": block.Number, "currentBlockTimestamp": uint64(block.Timestamp),
		"currentBlockHash": block.Hash, "hardFork": "cancun", "transactionOrder": "fifo",
		"environment": map[string]any{
			"baseFee": block.BaseFeePerGas, "chainId": view.ChainID(), "gasLimit": block.GasLimit,
			"gasPrice": (*hexutil.Big)(view.GasPrice().Weibar()),
		},
		"forkConfig": d.forkConfig(),
	}, nil
}

// forkConfig is empty for a chain that is no fork.
func (d *Developer) forkConfig() map[string]any {
	fork := NewFork(d.network)
	if fork == nil {
		return map[string]any{}
	}
	return map[string]any{"forkUrl": fork.URL, "forkBlockNumber": fork.Block}
}

// Fork is what the network is a fork of.
type Fork struct {
	URL   string `json:"url"` // without its path
	Block int64  `json:"block"`
}

// NewFork is nil for a network that is no fork.
func NewFork(network *devnet.Network) *Fork {
	if name, block, ok := network.Origin(); ok {
		return &Fork{name, block}
	}
	return nil
}
