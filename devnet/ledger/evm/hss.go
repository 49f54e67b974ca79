package evm

import (
	"encoding/binary"
	"math"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/schedules"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Gas of the schedule service, as that of the token service: the price of the transaction that a
// call stands for.
const (
	scheduleSignGas = 14_084    // a tenth of a cent
	scheduleCallGas = 1_408_450 // ten cents
)

func newScheduleFunctions() *serviceFunctions {
	const redirectForScheduleTxn = 0x5c3889ca
	return newServiceFunctions("schedule service", redirectForScheduleTxn, scheduleCalls, scheduleFacade)
}

// scheduleCalls are the functions of the schedule service itself.
func scheduleCalls() []*serviceFunction {
	return []*serviceFunction{
		{signature: "scheduleCall(address,uint256,uint256,uint64,bytes)", returns: "address", gas: scheduleCallGas, run: func(c *serviceCall) hedera.Status {
			return c.scheduleCall(nil, c.args[1:], &c.args[0], true)
		}},
		{signature: "scheduleCallWithPayer(address,address,uint256,uint256,uint64,bytes)", returns: "address", gas: scheduleCallGas, run: func(c *serviceCall) hedera.Status {
			return c.scheduleCall(&c.args[1], c.args[2:], &c.args[0], true)
		}},
		{signature: "executeCallOnPayerSignature(address,address,uint256,uint256,uint64,bytes)", returns: "address", gas: scheduleCallGas, run: func(c *serviceCall) hedera.Status {
			return c.scheduleCall(&c.args[1], c.args[2:], &c.args[0], false)
		}},
		{signature: "scheduleNative(address,bytes,address)", returns: "address", gas: scheduleCallGas, run: (*serviceCall).scheduleNative},
		{signature: "getScheduledCreateFungibleTokenInfo(address)", returns: "(INFO,int32)", view: true, run: scheduledToken(false, func(c *serviceCall, t *state.Token) sysabi.Value {
			return sysabi.List(c.info(t), sysabi.Int(int64(t.Decimals)))
		})},
		{signature: "getScheduledCreateNonFungibleTokenInfo(address)", returns: "(INFO,int64,address,int64,bytes,address)", view: true, run: scheduledToken(true, func(c *serviceCall, t *state.Token) sysabi.Value {
			return sysabi.List(c.info(t), sysabi.Int(0), sysabi.Value{}, sysabi.Int(0), sysabi.Bytes(nil), sysabi.Value{})
		})},
		{signature: "hasScheduleCapacity(uint256,uint256)", returns: "bool", codeless: true, view: true, run: (*serviceCall).scheduleCapacity},
		{signature: "authorizeSchedule(address)", gas: scheduleSignGas, run: func(c *serviceCall) hedera.Status {
			return c.signSchedule(c.schedule(), nil)
		}},
		{signature: "signSchedule(address,bytes)", gas: scheduleSignGas, run: (*serviceCall).signScheduleWith},
		{signature: "deleteSchedule(address)", gas: scheduleSignGas, run: func(c *serviceCall) hedera.Status { return c.deleteSchedule(c.schedule()) }},
	}
}

// scheduleFacade is what can be called at the address of a schedule.
func scheduleFacade() []*serviceFunction {
	return []*serviceFunction{
		{signature: "signSchedule()", returns: "int64", gas: scheduleSignGas, run: func(c *serviceCall) hedera.Status { return c.signSchedule(c.entity, nil) }},
		{signature: "deleteSchedule()", returns: "int64", gas: scheduleSignGas, run: func(c *serviceCall) hedera.Status {
			if s := c.x.o.Schedules.Get(c.entity.Num); s != nil {
				c.accepts(s.AdminKey)
			}
			return c.deleteSchedule(c.entity)
		}},
	}
}

// schedule is the schedule that the first argument names, zero for none.
func (c *serviceCall) schedule() hedera.ID {
	id, _ := hedera.FromLongZero(c.args[0].Address())
	return id
}

// scheduleCall schedules a call of a contract. The arguments are the second of the expiry, the
// gas, the value in tinybar and the input. Without a payer, the caller pays.
func (c *serviceCall) scheduleCall(payer *sysabi.Value, args []sysabi.Value, to *sysabi.Value, wait bool) hedera.Status {
	expiry, gas, value := args[0].Uint256(), args[1].Uint256(), args[2].Uint256()
	if !gas.IsUint64() || gas.Uint64() > math.MaxInt64 || value.Uint64() > math.MaxInt64 {
		return hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED
	}
	if !expiry.IsUint64() || expiry.Uint64() > uint64(c.x.env.Time)+schedules.MaxScheduleLife {
		return hapi.ResponseCodeEnum_SCHEDULE_EXPIRATION_TIME_TOO_FAR_IN_FUTURE
	}
	address, me := to.Address(), c.x.o.Number(c.sender)
	create := &hapi.ScheduleCreateTransactionBody{
		WaitForExpiry: wait, ExpirationTime: &hapi.Timestamp{Seconds: int64(expiry.Uint64())},
		PayerAccountID: hedera.Entity(me).AccountID(), AdminKey: hapikey.Contract(me),
		ScheduledTransactionBody: &hapi.SchedulableTransactionBody{Data: &hapi.SchedulableTransactionBody_ContractCall{
			ContractCall: &hapi.ContractCallTransactionBody{
				ContractID: &hapi.ContractID{Contract: &hapi.ContractID_EvmAddress{EvmAddress: address[:]}},
				Gas:        int64(gas.Uint64()), Amount: int64(value.Uint64()), FunctionParameters: args[3].Data,
			},
		}},
	}
	if !c.sender.Contract { // an account has no key that names it
		create.AdminKey = c.sender.Key()
	}
	if payer != nil {
		num := c.x.o.EntityAt(payer.Address())
		if num == 0 {
			return hapi.ResponseCodeEnum_INVALID_SCHEDULE_PAYER_ID
		}
		create.PayerAccountID = hedera.Entity(num).AccountID()
	}
	return c.createSchedule(create)
}

func (c *serviceCall) createSchedule(create *hapi.ScheduleCreateTransactionBody) hedera.Status {
	child, status := c.dispatch(create)
	if status == okay {
		c.result = []sysabi.Value{sysabi.Address(child.Did().Schedule.LongZero())}
	}
	return status
}

// scheduleNative schedules what a call of the token service stands for: the creation of a token or
// an update of one. It executes as soon as the signatures of its payer and of all whom it
// concerns are there. The arguments are the service, the call of it, and who pays.
func (c *serviceCall) scheduleNative() hedera.Status {
	if id, ok := hedera.FromLongZero(c.args[0].Address()); !ok || id.Num != NumTokenService {
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	payer := c.x.o.EntityAt(c.args[2].Address())
	if payer == 0 {
		return hapi.ResponseCodeEnum_INVALID_SCHEDULE_PAYER_ID
	}
	var body proto.Message
	inner := &serviceCall{x: c.x, sender: c.sender, only: c.only, instead: func(b proto.Message) { body = b }}
	if input := c.args[1].Data; len(input) >= 4 {
		inner.f = c.x.tokens.Direct()[[4]byte(input[:4])]
		if inner.f != nil && inner.f.schedulable {
			var ok bool
			if inner.args, ok = sysabi.Decode(inner.f.Args, input[4:]); !ok {
				return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
			}
			if status := inner.f.run(inner); status != okay {
				return status
			}
		}
	}
	scheduled := &hapi.SchedulableTransactionBody{}
	switch data := body.(type) {
	case *hapi.TokenCreateTransactionBody:
		scheduled.Data = &hapi.SchedulableTransactionBody_TokenCreation{TokenCreation: data}
	case *hapi.TokenUpdateTransactionBody:
		scheduled.Data = &hapi.SchedulableTransactionBody_TokenUpdate{TokenUpdate: data}
	default:
		return hapi.ResponseCodeEnum_SCHEDULED_TRANSACTION_NOT_IN_WHITELIST
	}
	return c.createSchedule(&hapi.ScheduleCreateTransactionBody{ScheduledTransactionBody: scheduled, PayerAccountID: hedera.Entity(payer).AccountID()})
}

// scheduledToken tells what a token will be that a schedule creates.
func scheduledToken(nonFungible bool, say func(c *serviceCall, t *state.Token) sysabi.Value) func(*serviceCall) hedera.Status {
	return func(c *serviceCall) hedera.Status {
		s := c.x.o.Schedules.Get(c.schedule().Num)
		if s == nil || s.Body.GetTokenCreation() == nil {
			return hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID
		}
		t := c.x.future(s.Body.GetTokenCreation())
		if t.NonFungible != nonFungible {
			return hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID
		}
		c.result = []sysabi.Value{say(c, t)}
		return okay
	}
}

// future is the token that a creation would make now.
func (x *execution) future(body *hapi.TokenCreateTransactionBody) *state.Token {
	t := tokens.NewToken(body)
	for _, r := range tokens.TokenRoles(&t.Keys, body) {
		if r.Given != nil {
			*r.Kept = r.Given
		}
	}
	t.Fees, t.Expires.Seconds, t.AutoRenewPeriod = body.GetCustomFees(), body.GetExpiry().GetSeconds(), body.GetAutoRenewPeriod().GetSeconds()
	number := func(id *hapi.AccountID) hedera.ID {
		if alias := id.GetAlias(); len(alias) > 0 {
			num, _ := x.o.ByAlias(alias)
			if len(alias) == common.AddressLength {
				num = x.o.EntityAt(common.Address(alias))
			}
			return hedera.Entity(num)
		}
		return hedera.Entity(id.GetAccountNum())
	}
	t.Treasury, t.AutoRenewAccount = number(body.GetTreasury()), number(body.GetAutoRenewAccount())
	return t
}

// scheduleCapacity tells whether a call with so much gas could be scheduled for a second: this
// network has room for any that a block has.
func (c *serviceCall) scheduleCapacity() hedera.Status {
	expiry, gas, now := c.args[0].Uint256(), c.args[1].Uint256(), uint64(c.x.env.Time)
	c.result = []sysabi.Value{sysabi.Bool(expiry.IsUint64() && expiry.Uint64() > now && expiry.Uint64() <= now+schedules.MaxScheduleLife &&
		gas.IsUint64() && gas.Uint64() <= MaxGas)}
	return okay
}

// signScheduleWith signs for the keys whose signatures of the schedule's number the call brings.
func (c *serviceCall) signScheduleWith() hedera.Status {
	id, list := c.schedule(), new(hapi.SignatureMap)
	if proto.Unmarshal(c.args[1].Data, list) != nil || len(list.GetSigPair()) > hapikey.Max {
		return hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY
	}
	return c.signSchedule(id, hapikey.NewSignatures(ScheduleMessage(id), list.GetSigPair()))
}

// signSchedule signs for the caller, or with the signatures that it brings.
func (c *serviceCall) signSchedule(id hedera.ID, by *hapikey.Signatures) hedera.Status {
	c.signatures = by
	return c.do(&hapi.ScheduleSignTransactionBody{ScheduleID: id.ScheduleID()})
}

// ScheduleMessage is what is signed for a schedule outside of a transaction: its id as three
// integers of eight bytes.
func ScheduleMessage(id hedera.ID) []byte {
	var message []byte
	for _, part := range []int64{id.Shard, id.Realm, id.Num} {
		message = binary.BigEndian.AppendUint64(message, uint64(part))
	}
	return message
}

func (c *serviceCall) deleteSchedule(id hedera.ID) hedera.Status {
	return c.do(&hapi.ScheduleDeleteTransactionBody{ScheduleID: id.ScheduleID()})
}
