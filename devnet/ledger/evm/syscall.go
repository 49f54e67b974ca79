package evm

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// serviceFunction is one function of a service, or of the proxy that it gives entities.
type serviceFunction struct {
	signature   string // name and types of the arguments
	returns     string // types of what it returns
	gas         uint64
	view        bool
	schedulable bool                                           // scheduleNative takes it
	codeless    bool                                           // a direct call returns no response code
	run         func(c *serviceCall) hedera.Status             // fills c.result
	price       func(x *execution, args []sysabi.Value) uint64 // where gas depends on the arguments

	Args, results []sysabi.Type // parsed from the above
}

// serviceCall is one call of a service while it is answered.
type serviceCall struct {
	x          *execution
	f          *serviceFunction
	sender     *state.Party
	entity     hedera.ID // whose proxy is called; zero in a direct call
	facade     bool
	args       []sysabi.Value
	result     []sysabi.Value
	signatures *hapikey.Signatures // that the call brings, in place of what the caller holds
	outside    *hapi.Key           // a single key whose signature on the transaction around the call counts
	only       bool                // keys of the calling contract hold only where they are delegatable
	value      hedera.Tinybar
	failure    []byte // data to revert with, where it is not the status
	reverts    bool   // a failure reverts although there is a code to tell it
	logs       []*types.Log

	instead func(proto.Message) // takes the transaction in place of handling it; nil: none
}

// serviceProxy is a system contract whose calls stand for transactions, or what stands at the
// address of an entity of its.
type serviceProxy struct {
	x         *execution
	functions *serviceFunctions
	entity    hedera.ID // zero: the service itself
}

func (s *serviceProxy) Name() string { return s.functions.name }

// RequiredGas is the price of a call. What is malformed halts and takes all gas anyway.
func (s *serviceProxy) RequiredGas(input []byte) uint64 {
	f, _, args := s.parse(input)
	if f == nil {
		return viewGas
	}
	if f.price != nil {
		if values, ok := sysabi.Decode(f.Args, args); ok {
			return f.price(s.x, values)
		}
	}
	return f.gas
}

// parse finds the function that an input calls, and the entity whose proxy is called.
func (s *serviceProxy) parse(input []byte) (f *serviceFunction, entity hedera.ID, args []byte) {
	if len(input) < 4 {
		return nil, entity, nil
	}
	entity = s.entity
	if entity.IsZero() && binary.BigEndian.Uint32(input) == s.functions.redirect {
		address, inner, ok := redirected(input[4:])
		id, longZero := hedera.FromLongZero(address)
		if num := s.x.o.EntityAt(address); !longZero && num != 0 {
			id, longZero = hedera.Entity(num), true
		}
		if !ok || !longZero || len(inner) < 4 {
			return nil, entity, nil
		}
		entity, input = id, inner
	}
	table := s.functions.Direct
	if !entity.IsZero() {
		table = s.functions.facade
	}
	return table()[[4]byte(input[:4])], entity, input[4:]
}

// redirected reads an address and the call of it, encoded or one behind the other.
func redirected(args []byte) (common.Address, []byte, bool) {
	if values, ok := sysabi.Decode(redirectTypes(), args); ok {
		return values[0].Address(), values[1].Data, true
	}
	if len(args) < common.AddressLength {
		return common.Address{}, nil, false
	}
	return common.Address(args[:20]), args[20:], true
}

var redirectTypes = sync.OnceValue(func() []sysabi.Type { return sysabi.ParseTypes("address,bytes") })

// Run answers a call.
func (s *serviceProxy) Run(input []byte) ([]byte, error) {
	x := s.x
	frame := x.frames[len(x.frames)-1]
	f, entity, data := s.parse(input)
	if f == nil || frame.op == vm.DELEGATECALL || frame.op == vm.CALLCODE {
		return nil, errHalt
	}
	// The EVM uses the memory of the caller again, and what is kept of a call stays.
	args, ok := sysabi.Decode(f.Args, bytes.Clone(data))
	if !ok || !f.view && x.static() {
		return nil, errHalt
	}
	c := &serviceCall{
		x: x, f: f, sender: x.o.Get(frame.from), entity: entity, facade: !entity.IsZero(), args: args,
		only: len(x.frames) > 1 && x.frames[len(x.frames)-2].op == vm.DELEGATECALL,
	}
	if frame.value != nil {
		c.value = hedera.Tinybar(frame.value.Int64())
	}
	if !c.sender.Exists {
		return nil, errHalt
	}
	return c.answer()
}

// answer runs the function and encodes what it says. Direct calls tell a failure by their
// code; the proxy of an entity reverts.
func (c *serviceCall) answer() ([]byte, error) {
	status := c.f.run(c)
	for _, log := range c.logs {
		c.x.o.AddLog(log)
	}
	if c.revertsOn(status) {
		if c.failure == nil {
			c.failure = sysabi.Word(int64(status)).Bytes()
		}
		return c.failure, vm.ErrExecutionReverted
	}
	values := c.result
	if !c.f.codeless && !c.facade || strings.HasPrefix(c.f.returns, "int64") {
		values = append([]sysabi.Value{sysabi.Int(int64(status))}, values...)
	}
	for i := len(values); i < len(c.f.results); i++ {
		values = append(values, sysabi.Zero(&c.f.results[i]))
	}
	return sysabi.Encode(c.f.results, values), nil
}

// revertsOn tells whether a failure reverts the call: where the results have no code to tell
// it, and where the function wants it so.
func (c *serviceCall) revertsOn(status hedera.Status) bool {
	if status == okay {
		return false
	}
	coded := strings.HasPrefix(c.f.returns, "int64")
	return c.reverts || !coded && (c.facade || c.f.codeless)
}

// static tells whether an open frame may not change anything.
func (x *execution) static() bool {
	return slices.ContainsFunc(x.frames, func(f frame) bool { return f.op == vm.STATICCALL })
}

// authorizes tells whether a key agrees to what the caller asks for: contracts hold the keys that name them, and an
// account that calls directly holds its own, whatever it is made of. As a part of another key its own is worth
// nothing: the network passes over the payer's key and looks for no signatures otherwise.
func (c *serviceCall) authorizes(key *hapi.Key) bool {
	own := key.GetKey() != nil && !c.sender.Contract && c.signatures == nil && proto.Equal(key, c.sender.Key())
	return own || hapikey.Satisfied(key, c.holds)
}

func (c *serviceCall) holds(primitive *hapi.Key) bool {
	switch k := primitive.GetKey().(type) {
	case *hapi.Key_ContractID:
		return !c.only && c.isSender(k.ContractID)
	case *hapi.Key_DelegatableContractId:
		return c.isSender(k.DelegatableContractId)
	}
	if c.signatures != nil {
		public := hapikey.Raw(primitive)
		return public != nil && c.signatures.By(public)
	}
	return c.outside != nil && proto.Equal(primitive, c.outside) && c.x.agreed(primitive)
}

// accepts has the signature of a key on the transaction around the call count, if it is a single one: of
// what a contract makes or ends, the network takes the signature of whoever administers it.
func (c *serviceCall) accepts(admin *hapi.Key) {
	if hapikey.Raw(admin) != nil {
		c.outside = admin
	}
}

// agreed tells whether a single key has signed the transaction that runs: as the sender of an Ethereum
// transaction, or as a signature of HAPI.
func (x *execution) agreed(key *hapi.Key) bool {
	return x.msg.ethereum && proto.Equal(key, x.o.Get(x.msg.from).Key()) || x.msg.signatures != nil && x.msg.signatures.By(hapikey.Raw(key))
}

func (c *serviceCall) isSender(id *hapi.ContractID) bool {
	address, ok := contractAddress(id)
	return ok && c.sender.Contract && c.x.o.Canonical(address) == c.sender.Address
}

// dispatch runs a transaction for the caller, which leaves a child record. What it did is
// taken back where it fails, and where the frame reverts later.
func (c *serviceCall) dispatch(data proto.Message) (*history.Record, hedera.Status) {
	o := c.x.o.Work
	if c.instead != nil {
		c.instead(data)
		return &history.Record{}, okay
	}
	body := core.BodyOf(data)
	child := &history.Record{Consensus: hedera.FromNanos(o.AsOf)}
	o.Children = append(o.Children, child)
	o.Note(func() {
		if child.Status == okay {
			child.Status = hapi.ResponseCodeEnum_REVERTED_SUCCESS
		}
		child.Effects, child.Transfers = nil, nil
	})
	h := &core.Handling{
		Net: c.x.net, At: o.AsOf, State: o, Record: child, Child: true, Authorizes: c.authorizes,
		Sub: &core.Submission{Body: body, Payer: hedera.Entity(o.Number(c.sender))},
	}
	child.Kind = h.Net.KindOf(body)
	snapshot := o.Snapshot()
	if child.Status = c.x.net.PureCheck(body); child.Status == okay {
		child.Status = h.Serve()
	}
	if child.Status != okay {
		o.RevertTo(snapshot)
		child.Effects, child.Transfers = nil, nil
	}
	if child.Status == hapi.ResponseCodeEnum_INVALID_SIGNATURE {
		child.Status = hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE
	}
	return child, child.Status
}

// do is dispatch where the status is all that there is to tell.
func (c *serviceCall) do(data proto.Message) hedera.Status {
	_, status := c.dispatch(data)
	return status
}

// serviceFunctions are what a service knows. They are made when a contract first calls it: a
// start does without.
type serviceFunctions struct {
	name           string
	redirect       uint32 // selector of the function by which proxies of entities call it
	Direct, facade func() map[[4]byte]*serviceFunction
}

func newServiceFunctions(name string, redirect uint32, direct, facade func() []*serviceFunction) *serviceFunctions {
	return &serviceFunctions{
		name: name, redirect: redirect,
		Direct: sync.OnceValue(func() map[[4]byte]*serviceFunction { return functionTable(direct(), "int64") }),
		facade: sync.OnceValue(func() map[[4]byte]*serviceFunction { return functionTable(facade(), "") }),
	}
}

// functionTable parses signatures. Results of direct calls begin with the code.
func functionTable(list []*serviceFunction, first string) map[[4]byte]*serviceFunction {
	table := make(map[[4]byte]*serviceFunction, len(list))
	for _, f := range list {
		f.signature = Expand(f.signature)
		if !f.codeless {
			f.returns = strings.Trim(first+","+Expand(f.returns), ",")
		}
		open := strings.IndexByte(f.signature, '(')
		f.Args = sysabi.ParseTypes(f.signature[open+1 : len(f.signature)-1])
		f.results = sysabi.ParseTypes(f.returns)
		if f.view {
			f.gas = viewGas
		} else if f.gas == 0 {
			f.gas = tokenGas
		}
		table[[4]byte(crypto.Keccak256([]byte(f.signature)))] = f
	}
	return table
}

// Entity numbers of the system contracts.
const (
	NumTokenService    = 0x167
	NumExchangeRate    = 0x168
	NumRandom          = 0x169
	NumAccountService  = 0x16a
	NumScheduleService = 0x16b
	numTokenService2   = 0x16c
	numHooks           = 0x16d
)

// Gas of system contracts. All but the exchange rate's follow from the fee
// schedule on the network; these are close at the default prices.
const (
	ExchangeRateGas = 100
	randomGas       = 11_737
	viewGas         = 1_408
)

// systemContract is one of the network's own contracts. Input that it does not
// know halts the frame: success with nothing would be a lie.
type systemContract struct {
	x    *execution
	name string
	gas  uint64
	run  func(x *execution, selector uint32, args []byte) ([]byte, bool)
}

func (c *systemContract) Name() string { return c.name }

func (c *systemContract) RequiredGas([]byte) uint64 { return c.gas }

func (c *systemContract) Run(input []byte) ([]byte, error) {
	if len(input) < 4 {
		return nil, errHalt
	}
	output, ok := c.run(c.x, binary.BigEndian.Uint32(input), input[4:])
	if !ok {
		return nil, errHalt
	}
	return output, nil
}

func (x *execution) addSystemContracts() {
	unknown := func(*execution, uint32, []byte) ([]byte, bool) { return nil, false }
	for num, c := range map[int64]*systemContract{
		NumExchangeRate: {x: x, name: "exchange rate", gas: ExchangeRateGas, run: exchangeRate},
		NumRandom:       {x: x, name: "random seed", gas: randomGas, run: randomSeed},
		numHooks:        {x: x, name: "hooks", gas: viewGas, run: unknown},
	} {
		x.precompiles[hedera.Entity(num).LongZero()] = c
	}
	for _, num := range []int64{NumTokenService, numTokenService2} {
		x.precompiles[hedera.Entity(num).LongZero()] = &serviceProxy{x: x, functions: x.tokens}
	}
	x.precompiles[hedera.Entity(NumAccountService).LongZero()] = &serviceProxy{x: x, functions: x.accounts}
	x.precompiles[hedera.Entity(NumScheduleService).LongZero()] = &serviceProxy{x: x, functions: x.schedules}
}

// exchangeRate converts between tinybar and tinycents.
func exchangeRate(x *execution, selector uint32, args []byte) ([]byte, bool) {
	const (
		tinycentsToTinybars = 0x2e3cff6a
		tinybarsToTinycents = 0x43a88229
	)
	if len(args) != 32 {
		return nil, false
	}
	var amount uint256.Int
	amount.SetBytes32(args)
	rate := x.net.Rate
	hbar, cents := uint256.NewInt(uint64(rate.Hbar)), uint256.NewInt(uint64(rate.Cents))
	var overflow bool
	switch selector {
	case tinycentsToTinybars:
		_, overflow = amount.MulDivOverflow(&amount, hbar, cents)
	case tinybarsToTinycents:
		_, overflow = amount.MulDivOverflow(&amount, cents, hbar)
	default:
		return nil, false
	}
	word := amount.Bytes32()
	return word[:], !overflow
}

// randomSeed gives the same seed throughout a transaction.
func randomSeed(x *execution, selector uint32, _ []byte) ([]byte, bool) {
	const getPseudorandomSeed = 0xd83bf9a1
	return common.CopyBytes(x.env.Seed[:32]), selector == getPseudorandomSeed
}
