package ethapi

import (
	"context"
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/evm"
	"lockstep/rpc"
)

// Bounds of one simulation request.
const (
	maxSimulatedBlocks = 256
	maxSimulatedCalls  = 5000
	simulatedBlockTime = 2 // seconds between blocks, as on the network
)

// simulateRequest is a request of eth_simulateV1.
type simulateRequest struct {
	blocks    []requestedBlock
	transfers bool // a log for each transfer of value
	strict    bool // calls must be valid transactions
	full      bool // whole transactions in the blocks
	chain     *big.Int
	gas       uint64 // left for all calls together
	bytes     int    // of their answers, left
}

// requestedBlock is a block of the request.
type requestedBlock struct {
	overrides jsonx.Value
	accounts  []accountOverride
	calls     []txArgs
}

// simulateV1 is eth_simulateV1: blocks of calls, one after the other, on the state at
// the end of a block.
func (a *API) simulateV1(ctx context.Context, p *rpc.Params) (any, error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return nil, err
	}
	var request *simulateRequest
	if err := a.withPermit(ctx, p.At(0), func() (err error) { request, err = readSimulateRequest(capacity.FromContext(ctx), p.At(0)); return err }); err != nil {
		return nil, err
	}
	request.chain, request.gas, request.bytes = a.chainID(), a.cfg.Simulation.Gas, a.cfg.Simulation.Bytes
	return a.simulate(ctx, ref, func(s *simulation) (any, error) { return s.blocks(request) })
}

func readSimulateRequest(holding *capacity.Holding, v jsonx.Value) (*simulateRequest, error) {
	request := &simulateRequest{
		transfers: v.Field("traceTransfers").Bool(), strict: v.Field("validation").Bool(), full: v.Field("returnFullTransactions").Bool(),
	}
	calls := 0
	for block := range v.Field("blockStateCalls").Elements() {
		b := requestedBlock{overrides: block.Field("blockOverrides")}
		var err error
		if b.accounts, err = readOverrides(holding, 0, block.Field("stateOverrides")); err != nil {
			return nil, err
		}
		for call := range block.Field("calls").Elements() {
			args, err := readTxArgs(call)
			if err != nil {
				return nil, err
			}
			if calls++; calls > maxSimulatedCalls {
				return nil, eth.ErrSimLimit("too many calls: more than %d", maxSimulatedCalls)
			}
			b.calls = append(b.calls, args)
		}
		if request.blocks = append(request.blocks, b); len(request.blocks) > maxSimulatedBlocks {
			return nil, eth.ErrSimLimit("too many blocks")
		}
	}
	if len(request.blocks) == 0 {
		return nil, eth.ErrInvalidParam(0, "empty input")
	}
	return request, nil
}

// blocks runs the request. Between two blocks whose numbers are further apart there are
// empty ones.
func (s *simulation) blocks(request *simulateRequest) (any, error) {
	made := []*eth.Block{}
	parent := s.head.Hash
	number, time := s.head.Number, uint64(s.head.From.Seconds)
	for _, requested := range request.blocks {
		env := evm.Block{}
		if requested.overrides.Field("difficulty").Given() { // the block would have to show it
			return nil, eth.ErrInvalidArguments("block override %q is not supported", "difficulty")
		}
		if err := blockOverrides(&env, 0, requested.overrides); err != nil {
			return nil, err
		}
		if !requested.overrides.Field("number").Given() {
			env.Number = number + 1
		}
		switch {
		case env.Number <= number:
			return nil, eth.ErrSimBlockNumber(env.Number, number)
		case env.Number-s.head.Number > maxSimulatedBlocks:
			return nil, eth.ErrSimLimit("too many blocks")
		}
		for number+1 < env.Number {
			number, time = number+1, time+simulatedBlockTime
			b, err := s.run(request, requestedBlock{}, evm.Block{Number: number, Time: time}, parent)
			if err != nil {
				return nil, err
			}
			made, parent = append(made, b), b.Hash
		}
		if !requested.overrides.Field("time").Given() {
			env.Time = time + simulatedBlockTime
		}
		if env.Time <= time {
			return nil, eth.ErrSimBlockTime(env.Time, time)
		}
		number, time = env.Number, env.Time
		b, err := s.run(request, requested, env, parent)
		if err != nil {
			return nil, err
		}
		made, parent = append(made, b), b.Hash
	}
	return made, nil
}

// run runs the calls of one block.
func (s *simulation) run(request *simulateRequest, requested requestedBlock, env evm.Block, parent common.Hash) (*eth.Block, error) {
	if err := s.override(requested.accounts); err != nil {
		return nil, err
	}
	if !requested.overrides.Field("prevRandao").Given() {
		env.Random = parent
	}
	b := newSimulatedBlock(s, request, env, parent)
	for i := range requested.calls {
		if err := s.runCall(request, b, &requested.calls[i]); err != nil {
			return nil, err
		}
	}
	b.seal()
	s.made[uint64(b.block.Number)] = b.block.Hash
	return b.block, nil
}

// runCall runs one call and puts it into the block.
func (s *simulation) runCall(request *simulateRequest, b *simulatedBlock, call *txArgs) error {
	left := uint64(b.block.GasLimit - b.block.GasUsed)
	if call.gas == nil {
		most := min(left, s.api.deps.MaxCallGas)
		call.gas = &most
	}
	if *call.gas > left {
		return eth.ErrSimBlockGas(left, *call.gas)
	}
	message, err := s.message(call)
	if err != nil {
		return err
	}
	// In package evm 0 means no limit; here it is a limit of 0.
	message.Gas = min(*call.gas, s.api.deps.MaxCallGas, request.gas)
	nonce := s.state.Nonce(message.From)
	if call.nonce == nil {
		call.nonce = &nonce
	}
	if request.strict {
		if err := s.valid(b, call, &message, nonce); err != nil {
			return err
		}
	}
	tracer := &evm.LogTracer{Transfers: request.transfers}
	result, err := s.state.Run(s.api.deps.ChainID, b.env, message, tracer.Hooks())
	var short *evm.GasError
	switch {
	case errors.As(err, &short) && short.Have == request.gas:
		return eth.ErrSimLimit("the calls need more than the %d gas that one request may use", s.api.cfg.Simulation.Gas)
	case errors.As(err, &short):
		return eth.ErrSimIntrinsicGas(short.Have, short.Want)
	case errors.Is(err, evm.ErrFunds):
		return eth.ErrSimFunds(message.From)
	case err != nil:
		return err
	}
	request.gas -= min(result.GasUsed, request.gas)
	if request.bytes -= len(result.Output) + logBytes(tracer.Logs()); request.bytes < 0 {
		return eth.ErrSimLimit("the calls return and log more than %d bytes", s.api.cfg.Simulation.Bytes)
	}
	if err := s.pace.hold(callBytes + 2*len(call.data) + len(result.Output) + logBytes(tracer.Logs())); err != nil {
		return err
	}
	b.add(call, &message, result, tracer.Logs())
	return nil
}

// callBytes is about what a call takes besides its data, its output and its logs.
const callBytes = 2 << 10

// logBytes is about the size of logs.
func logBytes(logs []*types.Log) (sum int) {
	const perLog = 256
	for _, l := range logs {
		sum += perLog + len(l.Data)
	}
	return sum
}

// valid checks that a call is a valid transaction.
func (s *simulation) valid(b *simulatedBlock, call *txArgs, message *evm.Message, nonce uint64) error {
	if *call.nonce != nonce {
		return eth.ErrSimNonce(message.From, *call.nonce, nonce)
	}
	offered := call.price
	if offered == nil {
		offered = call.maxFee
	}
	if offered == nil {
		offered = new(big.Int)
	}
	if price := b.block.BaseFee.ToInt(); offered.Cmp(price) < 0 {
		return eth.ErrSimFee(message.From, offered, price)
	}
	message.Charge = true
	return nil
}

// unsignedCall makes a transaction of a call, because that has a hash.
func unsignedCall(chain *big.Int, call *txArgs, gas uint64) *types.Transaction {
	tx := *call
	tx.gas = &gas
	if tx.tip == nil {
		tx.tip = new(big.Int)
	}
	if tx.maxFee == nil {
		tx.maxFee = new(big.Int)
	}
	return types.NewTx(tx.unsigned(chain))
}

// baseFeeOf is the price of gas in a simulated block, in weibar. Where calls need not be valid it is 0, as in
// Ethereum's specification, so that no offer is too low.
func (s *simulation) baseFeeOf(env *evm.Block, strict bool) *big.Int {
	switch {
	case env.BaseFee != nil:
		return env.BaseFee
	case !strict:
		return new(big.Int)
	}
	return max(s.price, hedera.Tinybar(0)).Weibar()
}
