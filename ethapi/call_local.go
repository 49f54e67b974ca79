package ethapi

import (
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/eth"
	"lockstep/evm"
	"lockstep/rpc"
)

// Calls in a block that is not as the network's: the mirror node cannot run those.

// blockOverridesParam is the position of the block's overrides among the parameters.
const blockOverridesParam = 3

// overridesBlock tells whether the block is to be another one. An object without a value
// leaves it as it is, and the call to the mirror node, which can run more.
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

// estimate looks for a limit of gas that is enough, and less than a sixty-fourth more than
// what is needed. Gas is not paid for meanwhile: what the sender could pay is not what the
// message needs.
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
	// Most messages need no more than they used; others look at what is left, or leave
	// a part of it behind with each call.
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

// failure is why a message failed that was run here.
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
