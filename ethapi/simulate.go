package ethapi

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/evm"
	"lockstep/mirror"
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
	call.nonce = cmp.Or(call.nonce, &nonce)
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
	offered := cmp.Or(call.price, call.maxFee, new(big.Int))
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
	tx.tip = cmp.Or(tx.tip, new(big.Int))
	tx.maxFee = cmp.Or(tx.maxFee, new(big.Int))
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

// simulatedBlock is a block that a simulation makes.
type simulatedBlock struct {
	env      evm.Block
	chain    *big.Int
	block    *eth.Block
	calls    []*simulatedCall
	shown    []*eth.Transaction
	full     bool // transactions are listed themselves
	unsigned types.Transactions
	receipts types.Receipts
	logs     hexutil.Uint64
}

// simulatedCall is the result of a call. Its shape is go-ethereum's.
type simulatedCall struct {
	Output  hexutil.Bytes    `json:"returnData"`
	Logs    []*eth.Log       `json:"logs"`
	GasUsed hexutil.Uint64   `json:"gasUsed"`
	MaxGas  hexutil.Uint64   `json:"maxUsedGas"`
	Status  hexutil.Uint64   `json:"status"`
	Error   *simulationError `json:"error,omitempty"`
}

type simulationError struct {
	Message string `json:"message"`
	Code    int    `json:"code"`
	Data    string `json:"data,omitempty"`
}

func newSimulatedBlock(s *simulation, request *simulateRequest, env evm.Block, parent common.Hash) *simulatedBlock {
	b := &simulatedBlock{env: env, chain: request.chain, calls: []*simulatedCall{}, full: request.full, block: &eth.Block{
		Number: hexutil.Uint64(env.Number), ParentHash: parent, Time: hexutil.Uint64(env.Time), GasLimit: hexutil.Uint64(gasLimit(s.head.HAPI)),
		BaseFee: eth.Number(s.baseFeeOf(&env, request.strict)), UnclesHash: types.EmptyUncleHash, StateRoot: types.EmptyRootHash, WithdrawalsRoot: types.EmptyWithdrawalsHash,
	}}
	if env.GasLimit != nil {
		b.block.GasLimit = hexutil.Uint64(*env.GasLimit)
	}
	return b
}

// add puts a call into the block. The logs include those of transfers, which are not in the receipt.
func (b *simulatedBlock) add(call *txArgs, m *evm.Message, r *evm.Result, logs []*types.Log) {
	tx := unsignedCall(b.chain, call, m.Gas)
	index := hexutil.Uint64(len(b.calls))
	b.block.GasUsed += hexutil.Uint64(r.GasUsed)
	shown := pendingTransaction(m.From, tx)
	shown.BlockHash, shown.BlockNumber, shown.Index = &b.block.Hash, &b.block.Number, &index
	b.shown = append(b.shown, shown)
	b.unsigned = append(b.unsigned, tx)
	b.block.Size += hexutil.Uint64(tx.Size())

	c := &simulatedCall{GasUsed: hexutil.Uint64(r.GasUsed), MaxGas: hexutil.Uint64(r.MaxGasUsed), Logs: []*eth.Log{}, Output: hexutil.Bytes{}}
	if r.Err == nil {
		c.Status, c.Output = 1, present(r.Output)
	} else {
		c.Error = callFailure(r)
	}
	for _, l := range logs {
		c.Logs = append(c.Logs, &eth.Log{
			Address: l.Address, Topics: l.Topics, Data: l.Data, BlockNumber: b.block.Number, BlockTime: b.block.Time,
			TxHash: tx.Hash(), TxIndex: index, Index: b.logs,
		})
		b.logs++
	}
	b.calls = append(b.calls, c)

	receipt := &types.Receipt{Type: tx.Type(), Status: uint64(c.Status), CumulativeGasUsed: uint64(b.block.GasUsed), Logs: r.Logs}
	receipt.Bloom = types.CreateBloom(receipt)
	b.receipts = append(b.receipts, receipt)
}

func callFailure(r *evm.Result) *simulationError {
	if !r.Reverted() {
		return &simulationError{Message: r.Err.Error(), Code: eth.CodeVMError}
	}
	e := revertError(r.Output)
	return &simulationError{Message: e.Message, Code: e.Code, Data: hexutil.Encode(r.Output)}
}

// seal ends the block. Its hash is made of its content, since the network's hash cannot be known.
func (b *simulatedBlock) seal() {
	b.block.TxRoot, b.block.ReceiptsRoot = listRoot(b.unsigned), listRoot(b.receipts)
	b.block.Bloom = types.MergeBloom(b.receipts)
	var figures [24]byte
	binary.BigEndian.PutUint64(figures[:], uint64(b.block.Number))
	binary.BigEndian.PutUint64(figures[8:], uint64(b.block.Time))
	binary.BigEndian.PutUint64(figures[16:], uint64(b.block.GasUsed))
	b.block.Hash = crypto.Keccak256Hash(b.block.ParentHash[:], figures[:], b.block.TxRoot[:], b.block.ReceiptsRoot[:])
	for _, c := range b.calls {
		for _, l := range c.Logs {
			l.BlockHash = b.block.Hash
		}
	}
	b.block.Show(b.shown, b.full)
	b.block.Calls = b.calls
}

// Package evm runs here what the mirror node can neither simulate nor show. It reads the state from the mirror
// node.

// simulation is one request's state and the block that it begins with.
type simulation struct {
	api   *API
	state *evm.State
	head  *mirror.Block   // what a call sees as its block
	at    *mirror.Block   // the state is that at its end; nil: the present state
	price hedera.Tinybar  // of gas
	ctx   context.Context // ends at the simulation's time limit
	pace  *pace
	made  map[uint64]common.Hash
}

// simulate runs f on the state at a block. The present state is read while f runs, so a new block may already
// show in it.
func (a *API) simulate(ctx context.Context, ref eth.BlockRef, f func(*simulation) (any, error)) (any, error) {
	holding := capacity.FromContext(ctx)
	place, err := a.simulations.Enter(ctx, holding, 1, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.cfg.Simulation.Timeout.Duration(), errSimulationTime)
	s := &simulation{api: a, ctx: ctx, made: make(map[uint64]common.Hash), pace: &pace{ctx: ctx, holding: holding}}
	leave := func() {
		s.pace.leave()
		cancel()
		place.Leave()
	}
	result, err := s.result(ref, f)
	if err != nil {
		defer leave()
		return nil, s.clientError(err)
	}
	s.pace.finish()
	if err := s.pace.hold(2 * s.pace.held); err != nil { // the text of the held bytes
		defer leave()
		return nil, err
	}
	return &rpc.Answer{Result: result, Encoded: leave}, nil
}

func (s *simulation) result(ref eth.BlockRef, f func(*simulation) (any, error)) (result any, err error) {
	if err := s.begin(ref); err != nil {
		return nil, err
	}
	if s.pace.permit, err = s.api.processors.Enter(s.ctx, s.pace.holding, 1, true); err != nil {
		return nil, err
	}
	return f(s)
}

// argument is a value, and the parameter that it stands in.
type argument struct {
	parameter int
	value     jsonx.Value
}

// argumentAt is a whole parameter.
func argumentAt(p *rpc.Params, parameter int) argument { return argument{parameter, p.At(parameter)} }

// simulateCall runs run with a call: the first two parameters are its transaction object and its block. Both
// kinds of overrides are applied first.
func (a *API) simulateCall(ctx context.Context, p *rpc.Params, accounts, block argument, run func(*simulation, evm.Block, evm.Message) (any, error)) (any, error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return nil, err
	}
	args, err := readTxArgs(p.At(0))
	if err != nil {
		return nil, err
	}
	var overrides []accountOverride
	if err := a.withPermit(ctx, accounts.value, func() (err error) {
		overrides, err = readOverrides(capacity.FromContext(ctx), accounts.parameter, accounts.value)
		return err
	}); err != nil {
		return nil, err
	}
	return a.simulate(ctx, ref, func(s *simulation) (any, error) {
		env := s.block()
		if err := blockOverrides(&env, block.parameter, block.value); err != nil {
			return nil, err
		}
		if err := s.override(overrides); err != nil {
			return nil, err
		}
		message, err := s.message(&args)
		if err != nil {
			return nil, err
		}
		return run(s, env, message)
	})
}

// withPermit reads a parameter; a long one keeps a processor busy for a while, and so waits for a
// permit.
func (a *API) withPermit(ctx context.Context, parameter jsonx.Value, read func() error) error {
	const long = 32 << 10
	if len(parameter) < long {
		return read()
	}
	permit, err := a.processors.Enter(ctx, capacity.FromContext(ctx), 1, true)
	if err != nil {
		return err
	}
	defer permit.Leave()
	return read()
}

var errSimulationTime = errors.New("the simulation takes too long")

func (s *simulation) begin(ref eth.BlockRef) (err error) {
	if s.at, err = s.api.state(s.ctx, ref); err != nil {
		return err
	}
	if s.head = s.at; s.head == nil {
		if s.head, err = s.api.head(s.ctx); err != nil {
			return err
		}
	}
	fees, err := s.api.mirror.Fees(s.ctx)
	if missing, err := notFound(err); err != nil {
		return err
	} else if !missing {
		s.price = fees.EthereumTransaction
	}
	s.state = evm.NewState(s.ctx, (*chainReader)(s), s.api.cfg.Simulation.Reads)
	s.state.Pace = s.pace.frame
	return nil
}

// clientError says why a simulation was not possible.
func (s *simulation) clientError(err error) error {
	var service *evm.SystemContractError
	var reads *evm.ReadsError
	var gas *evm.GasError
	switch {
	case errors.As(err, &service):
		return eth.ErrSimulation("the system contract at " + lowerAddress(service.Address) + " runs on the network only; use eth_call without block overrides")
	case errors.Is(err, evm.ErrFunds):
		return eth.ErrSimulationFunds(evm.ErrFunds.Error())
	case errors.As(err, &reads), errors.As(err, &gas):
		return eth.ErrSimulation(err.Error())
	case errors.Is(context.Cause(s.ctx), errSimulationTime):
		return eth.ErrSimulation(errSimulationTime.Error())
	}
	return err
}

// block returns the block that a call sees.
func (s *simulation) block() evm.Block {
	return evm.Block{Number: s.head.Number, Time: uint64(s.head.From.Seconds), Random: s.head.Hash}
}

// override applies the overrides of accounts.
func (s *simulation) override(accounts []accountOverride) error {
	for _, o := range accounts {
		with := evm.Override{State: wordsOf(o.State), Diff: wordsOf(o.Diff)}
		if o.Balance != nil {
			tinybars := hedera.Tinybar(*o.Balance)
			with.Balance = &tinybars
		}
		if o.Nonce != nil {
			nonce := uint64(*o.Nonce)
			with.Nonce = &nonce
		}
		if o.Code != nil {
			with.Code = present(*o.Code)
		}
		if err := s.state.Override(o.Address, with); err != nil {
			return err
		}
	}
	return nil
}

// wordsOf returns nil if no words were given, but not for an empty list.
func wordsOf(slots []slotOverride) map[common.Hash]common.Hash {
	if slots == nil {
		return nil
	}
	words := make(map[common.Hash]common.Hash, len(slots))
	for _, slot := range slots {
		words[slot.Key] = slot.Value
	}
	return words
}

// message is the message of a transaction object. An offered price is paid, up to the network's. Without a gas
// limit the maximum of one call holds.
func (s *simulation) message(t *txArgs) (m evm.Message, err error) {
	if t.authorizations != nil {
		return m, eth.ErrSimulation("authorizationList is not supported")
	}
	m = evm.Message{To: t.to, Data: t.data, Gas: s.api.deps.MaxCallGas, GasPrice: s.price}
	if t.gas != nil && *t.gas > 0 {
		m.Gas = min(m.Gas, *t.gas)
	}
	if t.value != nil && t.value.Sign() > 0 {
		tinybars, ok := hedera.TinybarOf(t.value)
		if !ok {
			return m, eth.ErrInvalidArguments("value %v is more than there is", t.value)
		}
		m.Value = max(tinybars, 1)
	}
	switch {
	case t.from != nil:
		m.From = *t.from
	case m.Value > 0 && s.api.deps.Operator != nil:
		m.From = *s.api.deps.Operator
	}
	if offered := cmp.Or(t.price, t.maxFee); offered != nil && offered.Sign() > 0 {
		if tinybars, ok := hedera.TinybarOf(offered); ok {
			m.GasPrice = min(m.GasPrice, tinybars)
		}
		m.Charge = true
	}
	return m, nil
}

// receiver is the receiver of a message, or the contract that it creates.
func (s *simulation) receiver(m *evm.Message) common.Address {
	if m.To != nil {
		return *m.To
	}
	return crypto.CreateAddress(m.From, s.state.Nonce(m.From))
}

// chainReader reads the state that a simulation begins with.
type chainReader simulation

// Account implements evm.Reader.
func (c *chainReader) Account(ctx context.Context, address common.Address) (*evm.Account, error) {
	return away(c.pace, func() (*evm.Account, error) { return c.account(ctx, address) })
}

func (c *chainReader) account(ctx context.Context, address common.Address) (*evm.Account, error) {
	var account *mirror.Account
	var contract *mirror.Contract
	t, both := parallel(ctx, 2)
	t.run(func() error { return found(&account)(c.api.mirror.Account(both, address)) })
	t.run(func() error { return found(&contract)(c.contract(both, address)) })
	if err := t.wait(); err != nil {
		return nil, err
	}
	switch {
	case account == nil && contract == nil:
		return c.service(ctx, address)
	case account == nil:
		return &evm.Account{Address: contract.Address, Nonce: contractNonce(contract), Code: contract.Code}, nil
	case account.Deleted, c.at != nil && account.Created.Compare(c.at.To) > 0:
		return nil, nil
	}
	found := &evm.Account{Address: account.Address, Balance: account.Balance, Nonce: accountNonce(account)}
	switch {
	case contract != nil:
		found.Code, found.Nonce = contract.Code, contractNonce(contract)
	case account.Delegation != nil && *account.Delegation != (common.Address{}):
		found.Code = types.AddressToDelegation(*account.Delegation)
	}
	if c.at == nil {
		return found, nil
	}
	return found, c.atBlock(ctx, found, contract != nil)
}

// atBlock replaces the present balance and nonce of an account by those at the end of the block. The nonce of a
// contract is not known for the past.
func (c *chainReader) atBlock(ctx context.Context, account *evm.Account, isContract bool) (err error) {
	account.Balance, err = c.api.mirror.BalanceAt(ctx, account.Address, c.at.To)
	if missing, err := notFound(err); missing || err != nil {
		return err
	}
	if !isContract && account.Nonce > 0 {
		account.Nonce, err = c.api.nonceAt(ctx, account.Address, c.at)
	}
	return err
}

func (c *chainReader) contract(ctx context.Context, address common.Address) (contract *mirror.Contract, err error) {
	if c.at == nil {
		contract, err = c.api.mirror.Contract(ctx, address)
	} else {
		contract, err = c.api.mirror.ContractAt(ctx, address, c.at.To)
	}
	if err == nil && contract.Deleted {
		return nil, mirror.ErrNotFound
	}
	return contract, err
}

func contractNonce(contract *mirror.Contract) uint64 {
	if contract.Nonce == nil {
		return 1
	}
	return *contract.Nonce
}

// service finds a token or a schedule.
func (c *chainReader) service(ctx context.Context, address common.Address) (*evm.Account, error) {
	if _, numbered := hedera.FromLongZero(address); !numbered {
		return nil, nil
	}
	code, created, err := c.api.code(ctx, address)
	if err != nil || len(code) == 0 || c.at != nil && created.Compare(c.at.To) > 0 {
		return nil, err
	}
	return &evm.Account{Address: address, Code: code, Service: true}, nil
}

// Storage implements evm.Reader.
func (c *chainReader) Storage(ctx context.Context, address common.Address, key common.Hash) (common.Hash, error) {
	var at hedera.Timestamp
	if c.at != nil {
		at = c.at.To
	}
	return away(c.pace, func() (common.Hash, error) { return c.api.mirror.Storage(ctx, address, key, at) })
}

// BlockHash implements evm.Reader.
func (c *chainReader) BlockHash(ctx context.Context, number uint64) (common.Hash, error) {
	if hash, ok := c.made[number]; ok {
		return hash, nil
	}
	block, err := away(c.pace, func() (*mirror.Block, error) { return c.api.mirror.BlockByNumber(ctx, number) })
	if missing, err := notFound(err); missing || err != nil {
		return common.Hash{}, err
	}
	return block.Hash, nil
}

// overrideRules say what a block's overrides may be. difficulty changes nothing, for no code can read it: PREVRANDAO
// has its place.
var overrideRules = map[string]rpc.Rule{
	"number": quantityRule(16), "time": quantityRule(16), "gasLimit": quantityRule(16), "feeRecipient": AddressRule(), "prevRandao": wordRule(),
	"baseFeePerGas": quantityRule(64), "blobBaseFee": quantityRule(64), "difficulty": quantityRule(64),
}

// blockOverrides changes the block that a call sees, as a parameter says.
func blockOverrides(b *evm.Block, parameter int, v jsonx.Value) error {
	for name, value := range v.Fields() {
		if value.Null() {
			continue
		}
		rule, ok := overrideRules[name]
		if !ok {
			return eth.ErrInvalidArguments("block override %q is not supported", clip(name))
		}
		if !rule.Matches(value) {
			return eth.ErrInvalidParam(parameter, "block override %q: %s, value: %s", name, rule.Phrase, clip(value.Text()))
		}
		switch n, _ := value.Uint64(); name {
		case "number":
			b.Number = n
		case "time":
			b.Time = n
		case "gasLimit":
			b.GasLimit = &n
		case "feeRecipient":
			b.Coinbase = addressField(value)
		case "prevRandao":
			b.Random = wordOf(value)
		case "baseFeePerGas":
			b.BaseFee = value.Big()
		case "blobBaseFee":
			b.BlobBaseFee = value.Big()
		}
	}
	return nil
}

// pace makes a simulation share the processor and the memory with others. It leaves the processor while it reads
// the state, and offers it at each call. Memory is counted by gas: the used gas bounds the memory that a call can
// have taken.
type pace struct {
	ctx     context.Context
	permit  *capacity.Permit
	holding *capacity.Holding

	gas    []uint64 // of the open frames, outermost first
	sums   []int    // what the frames before each may hold
	frames int      // bytes taken for frames
	held   int      // bytes taken for all else
}

// frame is called where a frame begins.
func (p *pace) frame(depth int, gas uint64) error {
	depth = min(depth, len(p.gas))
	p.gas, p.sums = p.gas[:depth], p.sums[:depth]
	before := 0
	if depth > 0 {
		before = p.sums[depth-1] + evmMemory(p.gas[depth-1]-min(gas, p.gas[depth-1]))
	}
	p.gas, p.sums = append(p.gas, gas), append(p.sums, before)
	if more := before + evmMemory(gas) - p.frames; more > 0 {
		if err := p.holding.Take(more); err != nil {
			return err
		}
		p.frames += more
	}
	return p.permit.Yield(p.ctx)
}

// hold counts what outlives a call.
func (p *pace) hold(bytes int) error {
	if err := p.holding.Take(bytes); err != nil {
		return err
	}
	p.held += bytes
	return nil
}

// finish ends the run; the result is written after it.
func (p *pace) finish() {
	p.holding.Give(p.frames)
	p.frames, p.gas, p.sums = 0, nil, nil
}

// leave ends the simulation.
func (p *pace) leave() {
	p.finish()
	p.holding.Give(p.held)
	p.held = 0
	p.permit.Leave()
}

// evmMemory is the maximum number of bytes of a frame that has used that much gas: n words cost 3n + n²/512. It
// counts as much again for the data for other frames.
func evmMemory(gas uint64) int {
	words := 256 * (math.Sqrt(9+float64(gas)/128) - 3)
	return int(2 * 32 * words)
}

// away runs f while others have the processor.
func away[T any](p *pace, f func() (T, error)) (result T, err error) {
	if err := p.permit.Pause(); err != nil {
		return result, err
	}
	result, err = f()
	if back := p.permit.Resume(p.ctx); back != nil {
		return result, back
	}
	return result, err
}
