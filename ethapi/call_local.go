package ethapi

import (
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/relay/evm"
	"lockstep/rpc"
)

// Calls in a block that differs from the network's: the mirror node cannot run those.

// blockOverridesParam is the position of the block's overrides among the parameters.
const blockOverridesParam = 3

// overridesBlock tells whether the block is changed. With an object without values it stays, and the mirror node
// runs the call, since that can run more.
func overridesBlock(p *rpc.Params) bool {
	for _, value := range p.At(blockOverridesParam).Fields() {
		if !value.Null() {
			return true
		}
	}
	return false
}

// call runs a message for its output.
func (s *simulation) call(block evm.Block, m evm.Message) (any, error) {
	result, err := s.state.Run(s.api.deps.ChainID, block, m, nil)
	if err != nil {
		return nil, err
	}
	if result.Err != nil {
		return nil, failure(result)
	}
	return hexutil.Bytes(result.Output), nil
}

// estimate looks for a gas limit that is enough, and less than a sixty-fourth more than needed. Gas costs nothing
// meanwhile, because the sender's balance says nothing of the message's need.
func (s *simulation) estimate(block evm.Block, m evm.Message) (any, error) {
	const precision = 64
	m.Charge = false
	full, err := s.state.Try(s.api.deps.ChainID, block, m)
	if err != nil {
		return nil, err
	}
	if full.Err != nil {
		return nil, failure(full)
	}
	enough, short := m.Gas, full.MaxGasUsed-1
	// Most messages need no more than they used. Others read the gas that is left, or keep a part of it back at
	// each call.
	for m.Gas = full.MaxGasUsed; enough-short > enough/precision; m.Gas = short + min((enough-short)/2, short) {
		result, err := s.state.Try(s.api.deps.ChainID, block, m)
		if err != nil {
			return nil, err
		}
		if result.Err == nil {
			enough = m.Gas
		} else {
			short = m.Gas
		}
	}
	return hexutil.Uint64(enough), nil
}

// failure is the reason why a message that ran here failed.
func failure(r *evm.Result) *eth.Error {
	switch {
	case r.Reverted():
		return revertError(r.Output)
	case r.OutOfGas():
		return eth.ErrSimulationGas(r.Err.Error())
	}
	return eth.ErrSimulation(r.Err.Error())
}

func revertError(output []byte) *eth.Error {
	reason, _ := revertReason(output)
	return eth.ErrReverted(reason, hexutil.Encode(output))
}
