package develop

import (
	"context"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/rpc"
)

// infoMethods tell tools what chain this is, and switch what it shows.
func (d *Developer) infoMethods() []rpc.Method {
	return concat(
		named(d.metadata, "anvil_metadata"),
		named(d.setLogging, "hardhat_setLoggingEnabled", "anvil_setLoggingEnabled"),
	)
}

// metadata is anvil_metadata, by which tools know a chain of development from a real one. There is no
// hardhat_metadata: Hardhat gives every transaction 2^24 gas where that is answered, and estimates nothing,
// while a transaction has 15,000,000 here as on the network.
func (d *Developer) metadata(context.Context, *rpc.Params) (any, error) {
	view := d.ledger.View()
	block, generation := view.LatestBlock(), view.Generation()
	return map[string]any{
		"clientVersion": "lockstep/" + d.version, "chainId": view.ChainID(),
		"latestBlockNumber": block.Number, "latestBlockHash": hexutil.Bytes(block.Hash[:32]),
		"instanceId": hexutil.Uint64(generation.Number),
	}, nil
}

// setLogging is hardhat_setLoggingEnabled.
func (d *Developer) setLogging(_ context.Context, p *rpc.Params) (any, error) {
	if !p.At(0).IsBool() {
		return nil, eth.ErrInvalidParam(0, "want true or false")
	}
	d.Quiet.Store(!p.At(0).Bool())
	return true, nil
}
