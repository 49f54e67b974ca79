package evm

import (
	"context"
	"errors"
	"math"
	"math/big"
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
	for a, p := range vm.PrecompiledContractsCancun {
		x.precompiles[a] = p
	}
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
