package ethapi

import (
	"context"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/tracers/logger"

	"lockstep/evm"
	"lockstep/rpc"
)

// accessListResult is the answer of eth_createAccessList.
type accessListResult struct {
	AccessList types.AccessList `json:"accessList"`
	Error      string           `json:"error,omitempty"` // why the transaction fails
	GasUsed    hexutil.Uint64   `json:"gasUsed"`
}

// createAccessList is eth_createAccessList: what a transaction uses beside the sender,
// the receiver and the EVM's own contracts. On this network an access list changes
// neither the price of anything nor what happens, so that one run tells it.
func (a *API) createAccessList(ctx context.Context, p *rpc.Params) (any, error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return nil, err
	}
	args, err := readTxArgs(p.At(0))
	if err != nil {
		return nil, err
	}
	overrides, err := readOverrides(2, p.At(2))
	if err != nil {
		return nil, err
	}
	return a.simulate(ctx, ref, func(s *simulation) (any, error) {
		if err := s.override(overrides); err != nil {
			return nil, err
		}
		message, err := s.message(&args)
		if err != nil {
			return nil, err
		}
		exclude := map[common.Address]struct{}{message.From: {}, s.receiver(&message): {}}
		for _, address := range evm.Precompiles() {
			exclude[address] = struct{}{}
		}
		tracer := logger.NewAccessListTracer(args.accessList, exclude)
		result, err := s.state.Run(a.deps.ChainID, s.block(), message, tracer.Hooks())
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
