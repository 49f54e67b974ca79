package evm

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Gas rules that the EVM itself does not know.
const (
	MaxGas           = 15_000_000 // of one transaction
	MaxCallData      = 131_072    // bytes of call data or init code
	txGas            = eth.TxGas
	refundQuotient   = 5 // EIP-3529
	maxCodeSize      = params.MaxCodeSize
	codeDepositGas   = params.CreateDataGas
	maxPreceding     = 3  // children before their parent
	maxFollowing     = 50 // children after it
	maxActions       = 4096
	maxActionPayload = 1 << 20 // bytes of input and output kept per transaction

	// LazyCreationGas is what the creation of an account by a transfer inside the
	// EVM costs. On the network it follows from the fee schedule; this is close to
	// what it comes to at the default prices.
	LazyCreationGas = 589_000
)

// Engine is the EVM with the network's rules. It is immutable.
type Engine struct {
	net     *core.Network
	chain   *params.ChainConfig
	setCode bool             // type 4 is executed
	warmed  []common.Address // precompiles that are warm from the start

	tokens, accounts, schedules *serviceFunctions // of the services at 0x167, 0x16a and 0x16b
}

// NewEngine makes the EVM of a network. setCode has it execute authorizations.
func NewEngine(net *core.Network, chainID uint64, setCode bool) *Engine {
	zero, fork := new(big.Int), new(uint64)
	e := &Engine{net: net, setCode: setCode, tokens: NewTokenFunctions(), accounts: newAccountFunctions(), schedules: newScheduleFunctions(), chain: &params.ChainConfig{
		ChainID:             new(big.Int).SetUint64(chainID),
		HomesteadBlock:      zero,
		EIP150Block:         zero,
		EIP155Block:         zero,
		EIP158Block:         zero,
		ByzantiumBlock:      zero,
		ConstantinopleBlock: zero,
		PetersburgBlock:     zero,
		IstanbulBlock:       zero,
		MuirGlacierBlock:    zero,
		BerlinBlock:         zero,
		LondonBlock:         zero,
		ArrowGlacierBlock:   zero,
		GrayGlacierBlock:    zero,
		MergeNetsplitBlock:  zero,

		TerminalTotalDifficulty: zero,
		ShanghaiTime:            fork,
		CancunTime:              fork,
	}}
	if setCode {
		e.chain.PragueTime = fork // which the EVM takes delegations from; the precompiles stay
	}
	for n := byte(1); n <= 10; n++ {
		e.warmed = append(e.warmed, common.BytesToAddress([]byte{n}))
	}
	return e
}

// BlockEnv is what the EVM sees of its block.
type BlockEnv struct {
	Number int64
	Time   int64 // seconds
	Seed   state.Hash48
	Hashes func(number uint64) common.Hash
}

// env is what the EVM sees of the block that a transaction at a time falls into.
// The caller holds handling.
func env(n *core.Network, at int64) BlockEnv {
	begin := hedera.FromNanos(at)
	if open := n.Chain.Open; open != nil {
		begin = open.From
	}
	number := n.Chain.NextNumber()
	return BlockEnv{
		Number: number, Time: begin.Seconds, Seed: n.Chain.Seed(),
		Hashes: func(of uint64) common.Hash { return blockHash(n, number, of) },
	}
}

// blockHash is what BLOCKHASH shows of block of in block current. The caller may read the chain.
func blockHash(n *core.Network, current int64, of uint64) common.Hash {
	if hash, ok := n.Store.Fork.BlockHash(current, of); ok {
		return hash
	}
	return n.Chain.Hash(current, of)
}

// message is what the EVM is to do.
type message struct {
	from     common.Address
	to       *common.Address // nil to create
	data     []byte
	gas      uint64 // whole limit, intrinsic gas included
	value    hedera.Tinybar
	gasPrice hedera.Tinybar
	at       *common.Address // where to create, nil for the usual address
	steps    *tracing.Hooks  // opcode hooks of a replay, nil for none
	ctx      context.Context // ends a simulation early; nil for none

	ethereum   bool                // its sender has signed it as such
	signatures *hapikey.Signatures // of the HAPI transaction around it; nil: none

	authorizations []types.SetCodeAuthorization // applied before anything runs
}

// outcome is what became of a message. On failure the overlay is as it was.
type outcome struct {
	status  hedera.Status
	message string // error message of the record
	output  []byte
	revert  []byte // raw revert data
	gasUsed uint64
	address common.Address // called or created
	actions []history.Action
	logs    []*types.Log
}

func (out *outcome) ok() bool { return out.status == hapi.ResponseCodeEnum_SUCCESS }

// neededGas is the least limit that a transaction may have: what its data costs, or the floor of EIP-7623. Access
// lists cost nothing.
func neededGas(data []byte, create bool, authorizations int) uint64 {
	standard, floor := eth.DataGas(data, create)
	return max(standard+authorizationGas*uint64(authorizations), floor)
}

// run executes a message on an overlay. Gas is not charged and the sender's nonce
// not spent here; a creation takes its address from the sender's nonce.
func (e *Engine) run(w *core.Work, env BlockEnv, msg message) outcome {
	o := newStateDB(w)
	if msg.gas < neededGas(msg.data, msg.to == nil, len(msg.authorizations)) {
		return failed(hapi.ResponseCodeEnum_INSUFFICIENT_GAS, msg.gas)
	}
	intrinsic, floor := eth.DataGas(msg.data, msg.to == nil)
	intrinsic += authorizationGas * uint64(len(msg.authorizations))
	intrinsic += e.authorize(o, msg.authorizations, msg.gas-intrinsic)
	x := e.newExecution(o, env, msg)
	snapshot := o.Snapshot()
	out := x.call(msg, msg.gas-intrinsic)
	if out.ok() {
		if status := x.tooManyChildren(); status != hapi.ResponseCodeEnum_SUCCESS {
			out = outcome{status: status, message: hexStatus(status), gasUsed: msg.gas, actions: out.actions}
		}
	}
	if out.ok() {
		out.logs = o.logs
	} else {
		o.RevertTo(snapshot)
	}
	out.gasUsed = max(out.gasUsed-min(out.gasUsed/refundQuotient, o.refund), floor)
	return out
}

func failed(status hedera.Status, gas uint64) outcome {
	return outcome{status: status, message: status.String(), gasUsed: gas}
}

// execution is one run of the EVM.
type execution struct {
	*Engine
	o   *stateDB
	env BlockEnv
	evm *vm.EVM
	msg message

	precompiles vm.PrecompiledContracts
	frames      []frame // open frames, outermost first
	actions     []history.Action
	payload     int           // bytes kept in actions
	halt        hedera.Status // why the innermost failing frame halted; 0 for the EVM's own reason
	poison      hedera.Status // fails the whole transaction at the end, if it would have worked
	doom        hedera.Status // fails it however it would have ended
}

func (e *Engine) newExecution(o *stateDB, env BlockEnv, msg message) *execution {
	x := &execution{Engine: e, o: o, env: env, msg: msg, precompiles: make(vm.PrecompiledContracts, 16)}
	maps.Copy(x.precompiles, vm.PrecompiledContractsCancun)
	x.addSystemContracts()

	random := common.Hash(env.Seed[:32])
	block := vm.BlockContext{
		CanTransfer: x.canTransfer,
		Transfer:    x.transfer,
		GetHash:     env.Hashes,
		Coinbase:    hedera.Entity(state.Coinbase).LongZero(),
		GasLimit:    msg.gas,
		BlockNumber: big.NewInt(env.Number),
		Time:        uint64(env.Time),
		Difficulty:  new(big.Int),
		BaseFee:     new(big.Int),
		BlobBaseFee: big.NewInt(1),
		Random:      &random,
	}
	x.evm = vm.NewEVM(block, o, e.chain, vm.Config{Tracer: x.hooks(msg.steps)})
	x.evm.SetPrecompiles(x.precompiles)
	x.evm.SetTxContext(vm.TxContext{Origin: msg.from, GasPrice: uint256.NewInt(uint64(msg.gasPrice))})
	o.Prepare(x.evm.GetRules(), msg.from, common.Address{}, msg.to, e.warmed, nil)
	if msg.to != nil {
		if to, ok := types.ParseDelegation(o.GetCode(*msg.to)); ok {
			o.AddAddressToAccessList(to)
		}
	}
	return x
}

// call runs the outermost frame and classifies how it ended.
func (x *execution) call(msg message, gas uint64) outcome {
	defer x.evm.Release()
	if msg.ctx != nil {
		defer context.AfterFunc(msg.ctx, x.evm.Cancel)()
	}
	budget, value := vm.NewGasBudget(gas, 0), uint256.NewInt(uint64(msg.value))
	var (
		out  outcome
		left vm.GasBudget
		err  error
	)
	switch {
	case msg.to != nil:
		out.address = *msg.to
		out.output, left, err = x.evm.Call(msg.from, *msg.to, msg.data, budget, value)
	case msg.at != nil:
		out.address = *msg.at
		out.output, left, err = x.createAt(*msg.at, budget, value)
	default:
		out.output, out.address, left, err = x.evm.Create(msg.from, msg.data, budget, value)
	}
	out.gasUsed = msg.gas - left.ExecutionGas
	out.actions = x.actions
	if x.doom != 0 {
		x.poison, err = x.doom, nil
	}
	if err == nil && x.poison != 0 {
		err, x.halt, out.gasUsed = errHalt, x.poison, msg.gas
		x.failRoot(gas)
	}
	x.classify(&out, err)
	return out
}

// errHalt is how a precompile of ours ends a frame; execution.halt says why.
var errHalt = errors.New("halted")

// canTransfer looks at the account itself: BALANCE shows nothing for the system.
func (x *execution) canTransfer(_ vm.StateDB, from common.Address, amount *uint256.Int) bool {
	return x.o.Get(from).Balance.Cmp(amount) >= 0
}

func (x *execution) transfer(_ vm.StateDB, from, to common.Address, amount *uint256.Int, _ *params.Rules) {
	if amount.IsZero() {
		return
	}
	x.o.Move(x.o.Get(from), x.o.Get(to), hedera.Tinybar(amount.Uint64()))
}

// tooManyChildren checks the limits on what one transaction may create.
func (x *execution) tooManyChildren() hedera.Status {
	preceding, following := 0, 0
	for _, a := range x.o.Creations() {
		if a.Fresh {
			following++
		} else {
			preceding++
		}
	}
	following += len(x.o.Children)
	if x.msg.to == nil {
		following-- // the creation itself is no child
	}
	if preceding > maxPreceding || following > maxFollowing {
		return hapi.ResponseCodeEnum_MAX_CHILD_RECORDS_EXCEEDED
	}
	return hapi.ResponseCodeEnum_SUCCESS
}

// classify fills status, message and output from the EVM's error.
func (x *execution) classify(out *outcome, err error) {
	if err == nil {
		out.status = hapi.ResponseCodeEnum_SUCCESS
		return
	}
	if errors.Is(err, vm.ErrExecutionReverted) {
		out.revert, out.output = out.output, nil
		out.status, out.message = revertStatus(out.revert), hexutil.Encode(out.revert)
		return
	}
	out.output = nil
	if x.halt != 0 {
		out.status, out.message = x.halt, x.halt.String()
		return
	}
	out.status, out.message = haltStatus(err)
}

// revertStatus is CONTRACT_REVERT_EXECUTED, or the status whose name the revert
// data spells: system contracts hand their failures up that way.
func revertStatus(data []byte) hedera.Status {
	switch name := string(data); name {
	case "MAX_CONTRACT_STORAGE_EXCEEDED", "MAX_STORAGE_IN_PRICE_REGIME_HAS_BEEN_USED", "INSUFFICIENT_GAS",
		"INVALID_CONTRACT_ID", "MAX_CHILD_RECORDS_EXCEEDED", "INSUFFICIENT_TX_FEE",
		"INSUFFICIENT_PAYER_BALANCE", "CONTRACT_EXECUTION_EXCEPTION":
		status, _ := hedera.ParseStatus(name)
		return status
	}
	return hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED
}

// haltStatus maps an exceptional halt of the EVM.
func haltStatus(err error) (hedera.Status, string) {
	var (
		opcode    *vm.ErrInvalidOpCode
		underflow *vm.ErrStackUnderflow
		overflow  *vm.ErrStackOverflow
	)
	const exception = hapi.ResponseCodeEnum_CONTRACT_EXECUTION_EXCEPTION
	switch {
	// The interpreter wraps what a gas function finds as out of gas and keeps only
	// the text of it, so a write in a static call has to be told by its text.
	case errors.Is(err, vm.ErrWriteProtection), strings.HasSuffix(err.Error(), vm.ErrWriteProtection.Error()):
		return hapi.ResponseCodeEnum_LOCAL_CALL_MODIFICATION_EXCEPTION, "ILLEGAL_STATE_CHANGE"
	case errors.Is(err, vm.ErrOutOfGas), errors.Is(err, vm.ErrCodeStoreOutOfGas),
		errors.Is(err, vm.ErrGasUintOverflow), errors.Is(err, vm.ErrContractAddressCollision):
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS, "INSUFFICIENT_GAS"
	case errors.Is(err, vm.ErrInsufficientBalance):
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE, "INSUFFICIENT_PAYER_BALANCE"
	case errors.As(err, &opcode):
		return exception, "INVALID_OPERATION"
	case errors.As(err, &underflow):
		return exception, "INSUFFICIENT_STACK_ITEMS"
	case errors.As(err, &overflow):
		return exception, "TOO_MANY_STACK_ITEMS"
	case errors.Is(err, vm.ErrInvalidJump):
		return exception, "INVALID_JUMP_DESTINATION"
	case errors.Is(err, vm.ErrMaxCodeSizeExceeded):
		return exception, "CODE_TOO_LARGE"
	case errors.Is(err, vm.ErrInvalidCode):
		return exception, "INVALID_CODE"
	case errors.Is(err, vm.ErrReturnDataOutOfBounds):
		return exception, "INVALID_RETURN_DATA_BUFFER_ACCESS"
	default:
		return exception, "PRECOMPILE_ERROR"
	}
}

// hexStatus is the error message of what was refused before it ran: the status
// name as hexadecimal of its letters.
func hexStatus(s hedera.Status) string { return hexutil.Encode([]byte(s.String())) }

// Services are the transactions that are handled here.
func (e *Engine) Services() core.Services {
	ethereum := core.ServiceOf(e.ethereum, e.pureEthereum)
	ethereum.Refused = refusedEthereum
	return core.Services{
		"ethereumTransaction": ethereum,

		"contractCreateInstance": core.ServiceOf(e.contractCreate, pureContractCreate),
		"contractCall":           core.ServiceOf(e.contractCall, pureContractCall),
		"contractUpdateInstance": core.ServiceOf(contractUpdate, nil),
		"contractDeleteInstance": core.ServiceOf(contractDelete, nil),
	}
}

// Authorizations (EIP-7702) as the network has decided to have them (HIP-1340): an account
// lets the code of an address run as its own. The network does not execute them yet, and
// nor does this one unless Config.SetCode says so.

const (
	authorizationGas    = 25_000 // of each, from the start
	authorizationRefund = 12_500 // for each whose account exists
)

// authorize applies authorizations, and returns the gas that this takes beyond what was paid
// from the start, which is for accounts that come into being. What is applied stays, whatever
// becomes of the transaction. An authorization that is not valid, or whose account there is no
// gas for, is passed over.
func (e *Engine) authorize(o *stateDB, list []types.SetCodeAuthorization, gas uint64) (spent uint64) {
	for i := range list {
		account := e.authority(o, &list[i])
		switch {
		case account == nil:
			continue
		case account.Exists:
			o.AddRefund(authorizationRefund)
		case gas-spent < LazyCreationGas:
			continue
		default:
			spent += LazyCreationGas
			o.Create(account, true)
		}
		var code []byte // the zero address takes a delegation back
		if to := list[i].Address; to != (common.Address{}) {
			code = types.AddressToDelegation(to)
		}
		o.PutCode(account, code)
		o.PutNonce(account, account.Nonce+1)
	}
	return spent
}

// authority returns the account that signed an authorization, which may not exist yet, or nil
// if the authorization is not valid.
func (e *Engine) authority(o *stateDB, a *types.SetCodeAuthorization) *state.Party {
	if !a.ChainID.IsZero() && a.ChainID.CmpBig(e.chain.ChainID) != 0 || a.Nonce == math.MaxUint64 {
		return nil
	}
	address, err := a.Authority()
	if err != nil {
		return nil
	}
	o.AddAddressToAccessList(address)
	account := o.Get(address)
	if account.Contract || account.Deleted() || account.Nonce != a.Nonce {
		return nil
	}
	return account
}

// frame is a call frame that has not ended.
type frame struct {
	action   int // index in execution.actions, -1 when it is not kept
	op       vm.OpCode
	from, to common.Address
	value    *big.Int
	special  bool // a precompile was put at to for this frame alone
	replaced vm.PrecompiledContract
}

// hooks watches the frames. It is also where the network's rules about call
// targets get in: the EVM asks for a precompile at the target right after the
// enter hook, so a frame that must not run as the EVM would run it gets one.
func (x *execution) hooks(steps *tracing.Hooks) *tracing.Hooks {
	h := &tracing.Hooks{OnEnter: x.enter, OnExit: x.exit}
	if steps != nil {
		h.OnOpcode, h.OnFault = steps.OnOpcode, steps.OnFault
	}
	return h
}

func (x *execution) enter(depth int, typ byte, from, to common.Address, input []byte, gas uint64, value *big.Int) {
	op := vm.OpCode(typ)
	if op == vm.SELFDESTRUCT {
		x.selfDestruct(from, to)
		x.frames = append(x.frames, frame{action: -1, op: op})
		return
	}
	if op == vm.CREATE || op == vm.CREATE2 {
		acct := x.o.Get(to)
		acct.Creator, acct.Initcode = from, append([]byte(nil), input...)
	}
	f := frame{action: -1, op: op, from: from, to: to, value: value}
	if special := x.special(op, to, gas, value, input); special != nil {
		f.special, f.replaced = true, x.precompiles[to]
		x.precompiles[to] = special
	}
	if len(x.actions) < maxActions && x.payload+len(input) <= maxActionPayload {
		f.action = len(x.actions)
		x.payload += len(input)
		x.actions = append(x.actions, x.newAction(depth, op, from, to, input, gas, value))
	}
	x.frames = append(x.frames, f)
}

func (x *execution) exit(_ int, output []byte, gasUsed uint64, err error, _ bool) {
	f := x.frames[len(x.frames)-1]
	x.frames = x.frames[:len(x.frames)-1]
	if f.op == vm.SELFDESTRUCT {
		return
	}
	if f.special {
		delete(x.precompiles, f.to)
		if f.replaced != nil {
			x.precompiles[f.to] = f.replaced
		}
	}
	if f.action >= 0 {
		x.endAction(&x.actions[f.action], output, gasUsed, err)
	}
	// A caller that survives the halt of a callee does not halt for its reason.
	if len(x.frames) > 0 {
		x.halt = 0
	}
}

// special returns what stands in for the target of a frame, nil for the EVM's own
// course.
func (x *execution) special(op vm.OpCode, to common.Address, gas uint64, value *big.Int, input []byte) vm.PrecompiledContract {
	if op == vm.CREATE || op == vm.CREATE2 {
		return nil
	}
	valued := op == vm.CALL && value != nil && value.Sign() > 0
	id, longZero := hedera.FromLongZero(to)
	if longZero && id.Num <= state.LastSystemNumber {
		return x.systemTarget(to, gas, valued && !x.createsToken(id, input))
	}
	if functions := x.proxyOf(to); functions != nil {
		if valued {
			return x.halting(hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
		}
		return &serviceProxy{x: x, functions: functions, entity: id}
	}
	acct := x.o.Get(to)
	if proxy := x.accountProxy(op, acct, input); proxy != nil {
		return proxy
	}
	switch {
	case !valued || acct.Exists:
		return nil
	case acct.Deleted(), longZero:
		return x.halting(hapi.ResponseCodeEnum_INVALID_ALIAS_KEY)
	default: // the EVM makes the account, this charges for it
		return standIn{gas: LazyCreationGas}
	}
}

// proxyOf is what an entity without code of its own answers with, nil for any other address.
func (x *execution) proxyOf(a common.Address) *serviceFunctions {
	switch {
	case x.o.IsToken(a):
		return x.tokens
	case x.o.IsSchedule(a):
		return x.schedules
	default:
		return nil
	}
}

// systemTarget is for the addresses up to 0.0.750: they take no value, and those
// without a contract swallow all gas.
func (x *execution) systemTarget(to common.Address, gas uint64, valued bool) vm.PrecompiledContract {
	if valued {
		if len(x.frames) > 0 { // the network halts the caller, too; here it goes on, without success
			x.doom = hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
		}
		return x.halting(hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
	}
	if x.precompiles[to] != nil {
		return nil
	}
	return standIn{gas: gas}
}

// createsToken tells whether a call is one that pays for a new token.
func (x *execution) createsToken(target hedera.ID, input []byte) bool {
	if target.Num != NumTokenService && target.Num != numTokenService2 || len(input) < 4 {
		return false
	}
	f := x.tokens.Direct()[[4]byte(input[:4])]
	return f != nil && strings.HasPrefix(f.signature, "create")
}

// selfDestruct checks a beneficiary: it must exist and not belong to the system.
// The opcode cannot be failed from here, so the transaction fails as a whole.
func (x *execution) selfDestruct(from, beneficiary common.Address) {
	switch {
	case beneficiary == from:
		x.poison = hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID
	case state.IsSystem(beneficiary) || !x.o.Get(beneficiary).Exists:
		x.poison = hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS
	}
	x.o.Get(from).Obtainer = beneficiary
}

// standIn takes so much gas, and then ends the frame well or as an error says.
type standIn struct {
	gas uint64
	end func() error // nil: well
}

func (standIn) Name() string { return "stand-in" }

func (p standIn) RequiredGas([]byte) uint64 { return p.gas }

func (p standIn) Run([]byte) ([]byte, error) {
	if p.end == nil {
		return nil, nil
	}
	return nil, p.end()
}

// halting ends a frame exceptionally for a reason of the network.
func (x *execution) halting(reason hedera.Status) vm.PrecompiledContract {
	return standIn{end: func() error { x.halt = reason; return errHalt }}
}

func (x *execution) newAction(depth int, op vm.OpCode, from, to common.Address, input []byte, gas uint64, value *big.Int) history.Action {
	a := history.Action{
		CallType: history.CallTypeCall, Operation: op.String(), Depth: depth,
		From: from, To: to, Gas: gas, Input: append([]byte(nil), input...),
		CallerIsCode: depth > 0,
	}
	if value != nil {
		a.Value = hedera.Tinybar(value.Int64())
	}
	switch {
	case op == vm.CREATE || op == vm.CREATE2:
		a.CallType, a.RecipientCode = history.CallTypeCreate, true
	case state.IsSystem(to):
		a.CallType = history.CallTypeSystem
		if to.Big().Cmp(big.NewInt(10)) <= 0 {
			a.CallType = history.CallTypePrecompile
		}
	default:
		a.RecipientCode = x.o.Get(to).Contract
	}
	return a
}

func (x *execution) endAction(a *history.Action, output []byte, gasUsed uint64, err error) {
	a.GasUsed = gasUsed
	switch {
	case err == nil:
		a.ResultType = history.ResultOutput
	case errors.Is(err, vm.ErrExecutionReverted):
		a.ResultType = history.ResultRevert
	default:
		a.ResultType = history.ResultError
		_, name := haltStatus(err)
		if x.halt != 0 {
			name = x.halt.String()
		}
		a.Result = []byte(name)
		return
	}
	if x.payload+len(output) <= maxActionPayload {
		x.payload += len(output)
		a.Result = append([]byte(nil), output...)
	}
}

// failRoot has the outermost action end as the transaction does: halted.
func (x *execution) failRoot(gas uint64) {
	if len(x.actions) > 0 {
		x.endAction(&x.actions[0], nil, gas, errHalt)
	}
}

// record notes what ran: the result and the children for what it created. New entities
// get their numbers here, so that logs and actions can name them.
func record(h *core.Handling, r *history.EVMResult, out outcome) {
	r.Index = 0 // it has one; place finds which
	r.Address, r.Output, r.ErrorMessage = out.address, out.output, out.message
	r.GasUsed, r.Actions = out.gasUsed, out.actions
	if h.Sub.Body.GetEthereumTransaction() != nil {
		r.SignerNonce = int64(h.State.Get(r.Sender).Nonce)
	}
	h.Number()
	recordCreations(h, r) // after a failure, only what authorizations created
	h.Following = append(h.Following, h.State.Children...)
	if out.ok() {
		r.Logs, r.Bloom = logs(h, out.logs)
	}
	if acct := h.State.Get(out.address); acct.Exists && (out.ok() || !r.Create) {
		r.Address, r.Target = acct.Address, hedera.Entity(acct.Num)
		h.Record.ContractID, h.Record.Entity = r.Target, r.Target
	} else if num := h.State.EntityAt(out.address); num != 0 && !r.Create {
		r.Target = hedera.Entity(num)
		h.Record.ContractID, h.Record.Entity = r.Target, r.Target
	} else if r.Create {
		r.Address = common.Address{} // nothing was created
	}
	if r.Create && !out.ok() {
		r.Output = nil
	}
	r.StateChanges = stateChanges(h)
	for i := range r.Actions {
		nameAction(h, &r.Actions[i], i == 0 && r.Create)
	}
}

// recordCreations notes the created contracts and accounts and makes their children.
func recordCreations(h *core.Handling, r *history.EVMResult) {
	for _, a := range h.State.Creations() {
		if !a.Fresh {
			h.HollowChild(a)
			continue
		}
		id := hedera.Entity(a.Num)
		r.Created = append(r.Created, id)
		if r.Create && a.Address == r.Address {
			continue // the transaction itself, not a child of it
		}
		h.Following = append(h.Following, &history.Record{
			Kind: history.KindContractCreate, Status: okay, Entity: id, ContractID: id, EVMAddress: a.Address.Bytes(),
		})
	}
	for _, a := range h.State.Order {
		if a.Contract && a.Exists && a.Num != 0 && (a.Fresh || a.Base == nil || int64(a.Nonce) != a.Base.Nonce) {
			r.Nonces = append(r.Nonces, history.ContractNonce{Contract: hedera.Entity(a.Num), Nonce: int64(a.Nonce)})
		}
	}
	slices.SortFunc(r.Nonces, func(a, b history.ContractNonce) int { return int(a.Contract.Num - b.Contract.Num) })
}

func logs(h *core.Handling, raw []*types.Log) ([]*history.Log, *types.Bloom) {
	if len(raw) == 0 {
		return nil, nil
	}
	bloom := new(types.Bloom)
	logs := make([]*history.Log, 0, len(raw))
	for _, l := range raw {
		logs = append(logs, &history.Log{
			Address: l.Address, Contract: hedera.Entity(h.State.EntityAt(l.Address)), Topics: l.Topics, Data: l.Data,
		})
		bloom.Add(l.Address[:])
		for _, topic := range l.Topics {
			bloom.Add(topic[:])
		}
	}
	return logs, bloom
}

// stateChanges lists the slots that were read or written, by contract and slot.
// Slots that a rolled back transaction wrote count as read.
func stateChanges(h *core.Handling) []history.StateChange {
	var changes []history.StateChange
	for _, a := range h.State.Order {
		if len(a.Committed) == 0 || a.Num == 0 {
			continue
		}
		for _, key := range slices.SortedFunc(maps.Keys(a.Committed), common.Hash.Cmp) {
			c := history.StateChange{Contract: hedera.Entity(a.Num), Address: a.Address, Slot: key, Read: a.Committed[key]}
			if written, ok := a.Storage[key]; ok && written != c.Read {
				c.Written = &written
			}
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b history.StateChange) int { return int(a.Contract.Num - b.Contract.Num) })
	return changes
}

// nameAction finds the entities of an action's addresses.
func nameAction(h *core.Handling, a *history.Action, root bool) {
	a.Caller = hedera.Entity(h.State.Get(a.From).Num)
	if num := h.State.EntityAt(a.To); num != 0 {
		a.Recipient = hedera.Entity(num)
	} else if id, ok := hedera.FromLongZero(a.To); ok && id.Num <= state.LastSystemNumber {
		a.Recipient = id
	}
	if root {
		a.CallType, a.Operation = history.CallTypeCreate, vm.CREATE.String()
	}
}
