package evm

import (
	"math"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/holiman/uint256"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// contractCreate runs init code at the long-zero address of a new number.
func (e *Engine) contractCreate(h *core.Handling, body *hapi.ContractCreateTransactionBody) hedera.Status {
	admin := body.GetAdminKey()
	if admin != nil && !hapikey.IsContract(admin) && !h.Signed(admin) {
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	renew, status := h.Renewer(body.GetAutoRenewAccountId())
	if status != okay {
		return status
	}
	if status := pureCreation(body); status != okay {
		return status
	}
	code, status := initcode(h, body)
	if status != okay {
		return status
	}
	num := h.NewNum()
	address := hedera.Entity(num).LongZero()
	m := h.HollowMeta(address)
	m.Alias, m.Key, m.Memo, m.MaxAutoAssociations = nil, admin, body.GetMemo(), body.GetMaxAutomaticTokenAssociations()
	m.AutoRenewPeriod = body.GetAutoRenewPeriod().GetSeconds()
	m.DeclineReward = body.GetDeclineReward()
	m.AutoRenewAccount = renew
	if status := h.FirstStake(m, body.GetStakedAccountId(), body.GetStakedId() != nil, body.GetStakedNodeId()); status != okay {
		return status
	}
	m.Contract = &state.Contract{}
	if file := body.GetFileID(); file != nil {
		m.Contract.File = hedera.IDOf(file, file.GetFileNum())
	}
	a := h.State.Get(address)
	a.Num, a.Initcode, a.Creator = num, code, h.Account(h.Sub.Payer).Address
	h.State.PutMeta(a, m)
	return e.pay(h, message{
		data: code, at: &address, gas: uint64(body.GetGas()), value: hedera.Tinybar(body.GetInitialBalance()),
	})
}

// pureCreation checks what a creation says by itself.
func pureCreation(body *hapi.ContractCreateTransactionBody) hedera.Status {
	if body.GetAutoRenewPeriod() == nil {
		return hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD
	}
	key := okay
	if admin := body.GetAdminKey(); admin != nil && !hapikey.Empty(admin) && !hapikey.Valid(admin) {
		key = hapi.ResponseCodeEnum_SERIALIZATION_FAILED
	}
	return core.FirstFault(core.ValidPeriod(body.GetAutoRenewPeriod()), core.Slots(body.GetMaxAutomaticTokenAssociations(), 0), core.ValidMemo(body.GetMemo()), key)
}

// initcode comes with the transaction, or from a file as hexadecimal text with the
// constructor's parameters after it.
func initcode(h *core.Handling, body *hapi.ContractCreateTransactionBody) ([]byte, hedera.Status) {
	if body.GetFileID() == nil {
		switch source := body.GetInitcodeSource().(type) {
		case *hapi.ContractCreateTransactionBody_Initcode:
			if len(source.Initcode) == 0 {
				return nil, hapi.ResponseCodeEnum_CONTRACT_BYTECODE_EMPTY
			}
			return source.Initcode, okay
		default:
			return nil, hapi.ResponseCodeEnum_INVALID_FILE_ID
		}
	}
	code, status := hexFile(h, body.GetFileID())
	if status != okay {
		return nil, status
	}
	return append(code, body.GetConstructorParameters()...), okay
}

// contractCall calls a contract, or any address, on behalf of the payer.
func (e *Engine) contractCall(h *core.Handling, body *hapi.ContractCallTransactionBody) hedera.Status {
	to, ok := contractAddress(body.GetContractID())
	if !ok {
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	to = h.State.Canonical(to)
	if body.GetAmount() < 0 {
		return abort(h, body, to, hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_VALUE)
	}
	if a := h.State.Get(to); a.Deleted() && a.Base.Contract != nil {
		return abort(h, body, to, hapi.ResponseCodeEnum_CONTRACT_DELETED)
	} else if !a.Exists && !state.IsSystem(to) && !h.State.IsToken(to) && body.GetContractID().GetEvmAddress() == nil {
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	return e.pay(h, message{
		to: &to, data: body.GetFunctionParameters(),
		gas: uint64(body.GetGas()), value: hedera.Tinybar(body.GetAmount()),
	})
}

// abort ends a call that the network looked at and did not run. The call has a result and a place in its block
// all the same, and costs what an empty one does.
func abort(h *core.Handling, body *hapi.ContractCallTransactionBody, to common.Address, status hedera.Status) hedera.Status {
	chargeAborted(h)
	r := &history.EVMResult{
		From: h.Sub.Payer, Sender: h.Account(h.Sub.Payer).Address, To: to.Bytes(), Input: body.GetFunctionParameters(),
		GasLimit: uint64(body.GetGas()), GasPrice: h.Net.GasPrice(), Amount: hedera.Tinybar(body.GetAmount()), SignerNonce: -1,
		HasResult: true, Refused: true, ErrorMessage: hexStatus(status),
	}
	if a := h.State.Get(to); a.Exists {
		r.Address, r.Target = a.Address, hedera.Entity(a.Num)
		h.Record.Entity = r.Target
	}
	h.Record.Result = r
	return status
}

// contractAddress is the EVM address that a contract id means.
func contractAddress(id *hapi.ContractID) (common.Address, bool) {
	if id.GetShardNum() != 0 || id.GetRealmNum() != 0 {
		return common.Address{}, false
	}
	if evm := id.GetEvmAddress(); evm != nil {
		return common.BytesToAddress(evm), len(evm) == common.AddressLength
	}
	return hedera.Entity(id.GetContractNum()).LongZero(), id.GetContractNum() > 0
}

// pay runs what the payer asks the EVM for and pays for.
func (e *Engine) pay(h *core.Handling, msg message) hedera.Status {
	payer, price := h.Account(h.Sub.Payer), h.Net.GasPrice()
	msg.from, msg.gasPrice, msg.signatures = payer.Address, price, h.Sub.Signatures
	switch {
	case msg.gas > MaxGas:
		return hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED
	case msg.gas < neededGas(msg.data, msg.to == nil, 0):
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS
	case payer.Tinybar() < hedera.Tinybar(msg.gas)*price+msg.value:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	collector := h.State.EntityAccount(state.FeeCollector)
	h.State.Move(payer, collector, hedera.Tinybar(msg.gas)*price)
	out := e.run(h.State, env(h.Net, h.At), msg)
	h.State.Move(collector, payer, hedera.Tinybar(msg.gas-out.gasUsed)*price)
	h.Record.Fee += hedera.Tinybar(out.gasUsed) * price

	r := &history.EVMResult{
		From: h.Sub.Payer, Sender: payer.Address, Create: msg.to == nil, Input: msg.data,
		GasLimit: msg.gas, GasPrice: price, Amount: msg.value, SignerNonce: -1, HasResult: true,
	}
	if msg.to != nil {
		r.To = msg.to.Bytes()
	}
	if !out.ok() {
		h.State.NewNums = 0 // a failed creation gives its number back
	}
	h.Record.Result = r
	record(h, r, out)
	return out.status
}

// createAt does what CREATE does at an address of our choice: it runs the init code
// as a delegate of the new account, which so has no code of its own meanwhile.
func (x *execution) createAt(address common.Address, gas vm.GasBudget, value *uint256.Int) ([]byte, vm.GasBudget, error) {
	holder := common.Address{0: 0xff, 1: 0xff} // no key and no CREATE leads here
	x.o.Lend(holder, x.msg.data)
	a := x.o.Get(address)
	if !x.canTransfer(nil, x.msg.from, value) {
		return nil, gas, vm.ErrInsufficientBalance
	}
	snapshot := x.o.Snapshot()
	x.o.Create(a, false)
	x.o.CreateContract(address)
	x.o.PutNonce(a, 1)
	x.transfer(nil, x.msg.from, address, value, nil)
	runtime, left, err := x.evm.DelegateCall(x.msg.from, address, holder, nil, gas, value)
	if err == nil {
		err = x.deposit(a, runtime, &left)
	}
	if len(x.actions) > 0 {
		x.actions[0].From, x.actions[0].To = x.msg.from, address
		x.actions[0].Value = hedera.Tinybar(value.Uint64())
	}
	if err != nil {
		x.o.RevertTo(snapshot)
	}
	return runtime, left, err
}

// deposit stores the runtime code, at its price.
func (x *execution) deposit(a *state.Party, runtime []byte, gas *vm.GasBudget) error {
	var err error
	switch {
	case len(runtime) > 0 && runtime[0] == 0xef:
		err = vm.ErrInvalidCode
	case !gas.ChargeExecutionOnly(uint64(len(runtime)) * codeDepositGas):
		err = vm.ErrCodeStoreOutOfGas
	case len(runtime) > maxCodeSize:
		err = vm.ErrMaxCodeSizeExceeded
	default:
		x.o.SetCode(a.Address, runtime, tracing.CodeChangeContractCreation)
		return nil
	}
	gas.DrainExecution()
	return err
}

// contractOf returns a contract, nil for none; deleted is for one that there was.
func contractOf(h *core.Handling, id *hapi.ContractID) (_ *state.Party, deleted bool) {
	address, ok := contractAddress(id)
	if !ok {
		return nil, false
	}
	a := h.State.Get(address)
	switch {
	case a.Deleted():
		return nil, a.Base.Contract != nil
	case !a.Exists || !a.Contract:
		return nil, false
	}
	return a, false
}

// administrated checks that the admin key signed. A contract that is its own admin cannot
// be changed from outside.
func administrated(h *core.Handling, a *state.Party) hedera.Status {
	key := a.Key()
	switch {
	case key == nil || proto.Equal(key, hapikey.Contract(a.Num)):
		return hapi.ResponseCodeEnum_MODIFYING_IMMUTABLE_CONTRACT
	case !h.Signed(key):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	}
	return okay
}

func contractUpdate(h *core.Handling, body *hapi.ContractUpdateTransactionBody) hedera.Status {
	a, _ := contractOf(h, body.GetContractID())
	if a == nil {
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	m := *a.CurrentMeta()
	if status := h.Extend(&m.Expires, body.GetExpirationTime()); status != okay {
		return status
	}
	// Anybody may give a contract more time, and only that.
	bare := proto.CloneOf(body)
	bare.ContractID, bare.ExpirationTime = nil, nil
	if !proto.Equal(bare, &hapi.ContractUpdateTransactionBody{}) {
		if status := administrated(h, a); status != okay {
			return status
		}
		if status := changeContract(h, &m, a, body); status != okay {
			return status
		}
	}
	h.State.PutMeta(a, &m)
	h.Record.ContractID, h.Record.Entity = hedera.Entity(a.Num), hedera.Entity(a.Num)
	return okay
}

func changeContract(h *core.Handling, m *state.Description, a *state.Party, body *hapi.ContractUpdateTransactionBody) hedera.Status {
	switch key := body.GetAdminKey(); {
	case key == nil:
	case hapikey.Empty(key):
		m.Key = hapikey.Contract(a.Num)
	case !hapikey.Valid(key):
		return hapi.ResponseCodeEnum_INVALID_ADMIN_KEY
	case !hapikey.IsContract(key) && !h.Signed(key):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	default:
		m.Key = key
	}
	if period := body.GetAutoRenewPeriod(); period != nil {
		if status := core.ValidPeriod(period); status != okay {
			return status
		}
		m.AutoRenewPeriod = period.GetSeconds()
	}
	switch memo := body.GetMemoField().(type) {
	case *hapi.ContractUpdateTransactionBody_MemoWrapper:
		m.Memo = memo.MemoWrapper.GetValue()
	case *hapi.ContractUpdateTransactionBody_Memo:
		m.Memo = memo.Memo
	}
	if n := body.GetMaxAutomaticTokenAssociations(); n != nil {
		// The network holds the new limit against the old one rather than against what is used.
		if status := core.Slots(n.GetValue(), m.MaxAutoAssociations); status != okay {
			return status
		}
		m.MaxAutoAssociations = n.GetValue()
	}
	if id := body.GetAutoRenewAccountId(); id != nil {
		renew, status := h.Renewer(id)
		if status != okay {
			return status
		}
		m.AutoRenewAccount = renew
	}
	if decline := body.GetDeclineReward(); decline != nil {
		m.DeclineReward = decline.GetValue()
		h.BeginPeriod(m)
	}
	if body.GetStakedId() != nil {
		if status := h.Stake(m, body.GetStakedAccountId(), true, body.GetStakedNodeId()); status != okay {
			return status
		}
	}
	return core.ValidMemo(m.Memo)
}

// contractDelete deletes a contract and hands its balance on.
func contractDelete(h *core.Handling, body *hapi.ContractDeleteTransactionBody) hedera.Status {
	if body.GetPermanentRemoval() {
		return hapi.ResponseCodeEnum_PERMANENT_REMOVAL_REQUIRES_SYSTEM_INITIATION
	}
	a, deleted := contractOf(h, body.GetContractID())
	switch {
	case body.GetObtainers() == nil:
		return hapi.ResponseCodeEnum_OBTAINER_REQUIRED
	case deleted:
		return hapi.ResponseCodeEnum_CONTRACT_DELETED
	case a == nil:
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	to, status := obtainer(h, body)
	if status != okay && status != hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST {
		return status
	}
	switch admin := administrated(h, a); {
	case admin != okay:
		return admin
	case status != okay:
		return status
	case to == a:
		return hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID
	case to.WantsSignature() && !h.SignedBy(to):
		return hapi.ResponseCodeEnum_INVALID_SIGNATURE
	case tokens.IsTreasury(h, a.Num):
		return hapi.ResponseCodeEnum_CONTRACT_IS_TOKEN_TREASURY
	case tokens.HoldsTokens(h, a.Num):
		return hapi.ResponseCodeEnum_CONTRACT_HAS_NON_ZERO_TOKEN_BALANCES
	}
	h.HandOn(a, to)
	h.Record.ContractID, h.Record.Entity = hedera.Entity(a.Num), hedera.Entity(a.Num)
	return okay
}

// obtainer finds who gets what a contract had.
func obtainer(h *core.Handling, body *hapi.ContractDeleteTransactionBody) (*state.Party, hedera.Status) {
	if id := body.GetTransferContractID(); id != nil {
		to, _ := contractOf(h, id)
		if to == nil {
			return nil, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
		}
		return to, okay
	}
	to := h.Resolve(body.GetTransferAccountID())
	switch {
	case body.GetTransferAccountID().GetAccount() == nil:
		return nil, hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST
	case to == nil || !to.Exists && !to.Deleted():
		return nil, hapi.ResponseCodeEnum_INVALID_TRANSFER_ACCOUNT_ID
	case to.Deleted() && to.Base.Contract != nil:
		return nil, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	case to.Deleted():
		return nil, hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST
	}
	return to, okay
}

func pureContractCreate(body *hapi.ContractCreateTransactionBody) hedera.Status {
	switch {
	case body.GetGas() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_GAS
	case body.GetInitialBalance() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_VALUE
	case body.GetGas() < int64(neededGas(body.GetInitcode(), true, 0)):
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS
	}
	return okay
}

func pureContractCall(body *hapi.ContractCallTransactionBody) hedera.Status {
	switch {
	case body.GetGas() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_GAS
	case body.GetAmount() > math.MaxInt64/2:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	case body.GetGas() < int64(neededGas(body.GetFunctionParameters(), false, 0)):
		return hapi.ResponseCodeEnum_INSUFFICIENT_GAS
	}
	return okay
}
