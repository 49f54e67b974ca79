package ethapi

import (
	"context"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/tracers/logger"

	"lockstep/internal/relay/evm"
	"lockstep/rpc"
)

// accessListResult is the answer of eth_createAccessList.
type accessListResult struct {
	AccessList types.AccessList `json:"accessList"`
	Error      string           `json:"error,omitempty"` // why the transaction fails
	GasUsed    hexutil.Uint64   `json:"gasUsed"`
}

// createAccessList is eth_createAccessList: what a transaction uses besides the sender, the receiver and the
// EVM's own contracts. On this network an access list changes neither prices nor the execution, so one run is
// enough.
func (a *API) createAccessList(ctx context.Context, p *rpc.Params) (any, error) {
	given, err := accessListField(p.At(0).Field("accessList"))
	if err != nil {
		return nil, err
	}
	return a.simulateCall(ctx, p, argumentAt(p, overridesParam), argument{}, func(s *simulation, block evm.Block, message evm.Message) (any, error) {
		exclude := map[common.Address]struct{}{message.From: {}, s.receiver(&message): {}}
		for _, address := range evm.Precompiles() {
			exclude[address] = struct{}{}
		}
		tracer := logger.NewAccessListTracer(given, exclude)
		result, err := s.state.Run(a.deps.ChainID, block, message, tracer.Hooks())
		if err != nil {
			return nil, err
		}
		answer := accessListResult{AccessList: tracer.AccessList(), GasUsed: hexutil.Uint64(result.GasUsed)}
		if result.Err != nil {
			answer.Error = result.Err.Error()
		}
		return answer, nil
	})
}
